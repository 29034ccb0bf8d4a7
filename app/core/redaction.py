"""Replaces texts that a project no longer keeps, in every value that holds some."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from saiten.core.messages import Message
from saiten_server.core.batch import AnyRequest, Candidate, Failure, parts_of
from saiten_server.core.conversation import Conversation, Finding, Turn
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import (
    AspectResult,
    CallTrace,
    ConversationRequest,
    Evaluation,
    EvaluationRequest,
    Explanation,
    OrderVerdict,
    Pair,
    PreferenceRequest,
    Record,
    Translation,
)
from saiten_server.core.model import pointer
from saiten_server.core.sentences import in_english, instead
from saiten_server.core.validation import InvalidDocument

DROPPED = "[text dropped]"
"""Replaces a dropped text."""

ERASED = "[text erased]"
"""Replaces the texts of an erased candidate."""

ERASED_CODE = "erased"
ERASED_FAILURE = Failure(code=ERASED_CODE, **in_english(Message("candidate-erased")))

HASHED = re.compile(r"hmac-sha256:[0-9a-f]{64}")
COVERED_PREFIX = "hmac-sha256:"
CONTEXT_PREFIX = "hmac:"
CONTEXT_DIGITS = 16

Cover = Callable[[str], str]
"""Returns the replacement of a text; a text that is already covered stays as it is."""

CoveredRequest = TypeVar("CoveredRequest", Candidate, EvaluationRequest)
Whole = TypeVar("Whole", bound=Conversation)


def drop(text: str) -> str:
    """The `Cover` that drops a text."""
    return text if text in {DROPPED, ERASED} else DROPPED


def hash_with(salt: str) -> Cover:
    """The `Cover` that replaces a text by its HMAC-SHA-256 with this salt: equal texts stay equal."""

    def cover(text: str) -> str:
        return text if is_covered(text) else COVERED_PREFIX + mac(salt, text)

    return cover


def is_covered(text: str) -> bool:
    """Whether this is the replacement of a text by a `Cover` or an erasure."""
    return text in {DROPPED, ERASED} or HASHED.fullmatch(text) is not None


def mac(salt: str, text: str) -> str:
    """64 hexadecimal digits."""
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def rekey_context(digest: str | None, salt: str) -> str | None:
    """The digest of a dialogue context keyed with the project's salt, so that contexts cannot be guessed without it.
    Equal contexts stay equal."""
    if digest is None or digest.startswith(CONTEXT_PREFIX):
        return digest
    return CONTEXT_PREFIX + mac(salt, digest)[:CONTEXT_DIGITS]


def kind_of_text(text: str) -> str | None:
    """`hash`, `drop` or `erased` for a replaced text; None for any other."""
    if HASHED.fullmatch(text):
        return "hash"
    return {DROPPED: "drop", ERASED: ERASED_CODE}.get(text)


def rename_speakers(context: Iterable[Utterance | Turn], cover: Cover) -> tuple[Utterance, ...]:
    """The utterances with covered texts. Speakers, which may be people's names, become A, B, … by first appearance."""
    names: dict[str, str] = {}
    return tuple(
        Utterance.model_construct(speaker=names.setdefault(turn.speaker, letter_of(len(names))), text=cover(turn.text))
        for turn in context
    )


def letter_of(number: int) -> str:
    """A to Z, then S27 and so on."""
    return chr(ord("A") + number) if number < 26 else f"S{number + 1}"


def redact_conversation(asked: Whole, cover: Cover) -> Whole:
    """A conversation without its texts. Speakers become A, B, …."""
    named = rename_speakers(asked.turns, cover)
    return asked.model_copy(
        update={
            "turns": tuple(
                turn.model_copy(update={"speaker": said.speaker, "text": said.text})
                for turn, said in zip(asked.turns, named, strict=True)
            ),
            "persona": redact_persona(asked.persona, cover),
            "goal": None if asked.goal is None else cover(asked.goal),
        }
    )


def texts_asked(asked: Candidate | None) -> dict[str, Any]:
    """`context` and `response` of a candidate; of a conversation `turns`, and `persona` and `goal` if it has them.
    Nothing where they were replaced, or there is no candidate."""
    if asked is None or asked.pair is not None or is_covered(asked.response):
        return {}
    if (conversation := asked.conversation) is not None:
        return conversation.model_dump(mode="json", include={"turns", "persona", "goal"}, exclude_none=True)
    return asked.model_dump(mode="json", include={"context", "response"})


def redact_persona(persona: Mapping[str, Any] | None, cover: Cover) -> dict[str, Any] | None:
    """A persona whose fields keep their order alone."""
    covered = {f"field {number}": cover(str(value)) for number, value in enumerate((persona or {}).values(), 1)}
    return covered or None


def redact_asked(asked: CoveredRequest, cover: Cover) -> CoveredRequest:
    """A request or candidate without its texts. Options and metadata stay. A pair has no text."""
    if isinstance(asked, Candidate) and asked.pair is not None:
        return asked
    if isinstance(asked, Candidate) and (conversation := asked.conversation) is not None:
        return asked.model_copy(update=parts_of(redact_conversation(conversation, cover)))
    return asked.model_copy(
        update={
            "context": rename_speakers(asked.context, cover),
            "response": cover(asked.response),
            "reference": None if asked.reference is None else tuple(map(cover, asked.reference)),
        }
    )


def redact_evaluation(evaluation: Evaluation, cover: Cover) -> Evaluation:
    """An evaluation with translation, reasons, and details of warnings and unrated aspects covered. Ratings, figures,
    signature, usage and metadata stay."""
    translation, paths = evaluation.translation, evaluation.paths
    both = paths and paths.model_copy(
        update={
            name: path.model_copy(
                update={
                    "aspects": redact_aspects(path.aspects, cover),
                    "findings": redact_findings(path.findings, cover),
                }
            )
            for name, path in (("source", paths.source), ("english", paths.english))
        }
    )
    return evaluation.model_copy(
        update={
            "aspects": redact_aspects(evaluation.aspects, cover),
            "translation": translation and redact_translation(translation, cover),
            "paths": both,
            "warnings": tuple(one.model_copy(update=instead(DROPPED) | {"spans": ()}) for one in evaluation.warnings),
            "findings": redact_findings(evaluation.findings, cover),
            "turn_scores": evaluation.turn_scores
            and tuple(
                one.model_copy(update={"aspects": redact_aspects(one.aspects, cover)}) for one in evaluation.turn_scores
            ),
            "explained": evaluation.explained and redact_explanation(evaluation.explained, cover),
            "pair": evaluation.pair and redact_pair(evaluation.pair),
        }
    )


def redact_explanation(explained: Explanation, cover: Cover) -> Explanation:
    """What the judge said when it was asked again, without its words."""
    aspects = {
        name: one.model_copy(update={"reason": None if one.reason is None else cover(one.reason)})
        for name, one in explained.aspects.items()
    }
    return explained.model_copy(update={"aspects": aspects})


def redact_translation(translation: Translation, cover: Cover) -> Translation:
    """A translation without its texts."""
    return translation.model_copy(
        update={
            "context": tuple(map(cover, translation.context)),
            "response": cover(translation.response),
            "persona": redact_persona(translation.persona, cover),
            "goal": None if translation.goal is None else cover(translation.goal),
        }
    )


def redact_findings(findings: tuple[Finding, ...] | None, cover: Cover) -> tuple[Finding, ...] | None:
    """Findings without their details: a rule quotes the turn, and the judge's words may."""
    return findings and tuple(one.model_copy(update=instead(cover(one.detail))) for one in findings)


def redact_aspects(aspects: dict[str, AspectResult], cover: Cover) -> dict[str, AspectResult]:
    """Aspects without the judge's words."""
    return {
        name: result.model_copy(
            update={
                "reason": None if result.reason is None else cover(result.reason),
                "unrated": result.unrated and result.unrated.model_copy(update=instead(DROPPED)),
            }
        )
        for name, result in aspects.items()
    }


def redact_trace(trace: Iterable[CallTrace], cover: Cover) -> tuple[CallTrace, ...]:
    """Judge calls without replies. Prompt digests are covered too, since a guessed text could be verified with them."""
    return tuple(
        call.model_copy(
            update={
                "prompt_digest": cover(call.prompt_digest),
                "reply": None if call.reply is None else cover(call.reply),
                "refusal": None if call.refusal is None else cover(call.refusal),
            }
        )
        for call in trace
    )


def redact_request(request: AnyRequest, cover: Cover) -> AnyRequest:
    """A request without its texts."""
    if isinstance(request, PreferenceRequest):
        return redact_pair_request(request, cover)
    return (
        redact_conversation(request, cover)
        if isinstance(request, ConversationRequest)
        else redact_asked(request, cover)
    )


def redact_pair_request(request: PreferenceRequest, cover: Cover) -> PreferenceRequest:
    """A request to compare two, without their texts."""
    update: dict[str, Any] = {
        "context": None if request.context is None else rename_speakers(request.context, cover),
        "persona": redact_persona(request.persona, cover),
        "goal": None if request.goal is None else cover(request.goal),
    }
    for side, given in request.sides.items():
        turns = None
        if given.turns is not None:
            turns = redact_conversation(given.read_conversation(None, None), cover).turns
        response = None if given.response is None else cover(given.response)
        update[side] = given.model_copy(update={"response": response, "turns": turns})
    return request.model_copy(update=update)


def redact_pair(pair: Pair) -> Pair:
    """What a comparison says, without the words in which a verdict is missing."""

    def redact_order(one: OrderVerdict) -> OrderVerdict:
        missing = one.missing and one.missing.model_copy(update=instead(DROPPED))
        return one.model_copy(update={"missing": missing})

    aspects = {
        name: found.model_copy(update={"orders": tuple(map(redact_order, found.orders))})
        for name, found in pair.aspects.items()
    }
    return pair.model_copy(update={"aspects": aspects})


def redact_record(record: Record, cover: Cover) -> Record:
    """A whole record without texts."""
    return Record.model_construct(
        evaluation=redact_evaluation(record.evaluation, cover),
        request=redact_request(record.request, cover),
        trace=redact_trace(record.trace, cover),
    )


def erased_candidate() -> Candidate:
    """The replacement of an erased candidate."""
    return Candidate(context=(Utterance(speaker="A", text=ERASED),), response=ERASED)


@dataclass(frozen=True)
class Erased:
    """What an erasure removed: whole batches, candidates of others, single evaluations, datasets' items, and live
    conversations."""

    batches: int
    candidates: int
    evaluations: int
    dataset_items: int = 0
    live_conversations: int = 0


ITEM_TEXTS = ("context", "question", "response", "reference")
"""The fields of an item whose texts a policy may hash or drop."""

COVERED = Message("text-not-kept")


def refuse_covered(value: Any) -> None:
    """Raises InvalidDocument where a text of the item was hashed, dropped or erased, so that it cannot be judged."""
    if not isinstance(value, dict):
        return
    texts = list_texts({name: value[name] for name in ITEM_TEXTS if name in value})
    faults = [(pointer(where), COVERED) for where, text in texts if is_covered(text)]
    if faults:
        raise InvalidDocument(faults)


def list_texts(value: Any, *where: str | int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text in a JSON value, with its place."""
    if isinstance(value, str):
        yield where, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from list_texts(part, *where, name)
