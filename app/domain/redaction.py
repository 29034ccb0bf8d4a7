"""What takes the place of texts that a project keeps no longer, in every value that holds some."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from app.domain.batch import Candidate, Failure
from app.domain.dialogue import Utterance
from app.domain.evaluation import AspectResult, CallTrace, Evaluation, EvaluationRequest, PathResult, Record

DROPPED = "[text dropped]"
"""Stands where a text was dropped."""

ERASED = "[text erased]"
"""Stands where the response of an erased candidate and its context were."""

ERASED_CODE = "erased"
ERASED_FAILURE = Failure(code=ERASED_CODE, detail="the texts and the result of this candidate were erased")

HASHED = re.compile(r"hmac-sha256:[0-9a-f]{64}")
PREFIX = "hmac-sha256:"
CONTEXT_PREFIX = "hmac:"
CONTEXT_DIGITS = 16

Cover = Callable[[str], str]
"""Gives what takes a text's place. What was covered already stays as it is."""

Asked = TypeVar("Asked", Candidate, EvaluationRequest)


def drop(text: str) -> str:
    """The `Cover` that leaves nothing of a text."""
    return text if text in {DROPPED, ERASED} else DROPPED


def hash_with(salt: str) -> Cover:
    """The `Cover` that puts an HMAC-SHA-256 with this salt in a text's place: equal texts stay equal."""

    def cover(text: str) -> str:
        return text if is_covered(text) else PREFIX + mac(salt, text)

    return cover


def is_covered(text: str) -> bool:
    """Whether this is what a `Cover` or an erasure leaves in a text's place."""
    return text in {DROPPED, ERASED} or HASHED.fullmatch(text) is not None


def mac(salt: str, text: str) -> str:
    """64 hexadecimal digits."""
    return hmac.new(salt.encode(), text.encode(), hashlib.sha256).hexdigest()


def rekey_context(digest: str | None, salt: str) -> str | None:
    """The digest of a dialogue context under the project's salt, so that nobody without it can try contexts out.
    Equal contexts stay equal."""
    if digest is None or digest.startswith(CONTEXT_PREFIX):
        return digest
    return CONTEXT_PREFIX + mac(salt, digest)[:CONTEXT_DIGITS]


def kind_of_text(text: str) -> str | None:
    """`hash`, `drop` or `erased` for what stands in a text's place; None for a text."""
    if HASHED.fullmatch(text):
        return "hash"
    return {DROPPED: "drop", ERASED: ERASED_CODE}.get(text)


def rename_speakers(context: Iterable[Utterance], cover: Cover) -> tuple[Utterance, ...]:
    """The utterances with covered texts. Speakers may bear people's names: they become A, B, … in order of appearance,
    so that it still shows who is who."""
    names: dict[str, str] = {}
    return tuple(
        Utterance.model_construct(speaker=names.setdefault(said.speaker, name_of(len(names))), text=cover(said.text))
        for said in context
    )


def name_of(number: int) -> str:
    """A to Z, then S27 and so on."""
    return chr(ord("A") + number) if number < 26 else f"S{number + 1}"


def redact_asked(asked: Asked, cover: Cover) -> Asked:
    """A request or candidate without its texts. Options and metadata stay."""
    return asked.model_copy(
        update={
            "context": rename_speakers(asked.context, cover),
            "response": cover(asked.response),
            "reference": None if asked.reference is None else tuple(map(cover, asked.reference)),
        }
    )


def redact_evaluation(evaluation: Evaluation, cover: Cover) -> Evaluation:
    """An evaluation without translation and reasons, and without details of warnings and unrated aspects, which may
    quote. Ratings, figures, signature, usage and metadata stay."""
    translation, paths = evaluation.translation, evaluation.paths
    covered = translation and translation.model_copy(
        update={"context": tuple(map(cover, translation.context)), "response": cover(translation.response)}
    )
    both = paths and paths.model_copy(
        update={"source": redact_path(paths.source, cover), "english": redact_path(paths.english, cover)}
    )
    return evaluation.model_copy(
        update={
            "aspects": redact_aspects(evaluation.aspects, cover),
            "translation": covered,
            "paths": both,
            "warnings": tuple(one.model_copy(update={"detail": DROPPED}) for one in evaluation.warnings),
        }
    )


def redact_path(path: PathResult, cover: Cover) -> PathResult:
    """One language path's result without reasons."""
    return path.model_copy(update={"aspects": redact_aspects(path.aspects, cover)})


def redact_aspects(aspects: dict[str, AspectResult], cover: Cover) -> dict[str, AspectResult]:
    """Aspects without what the judge said in words."""
    return {
        name: result.model_copy(
            update={
                "reason": None if result.reason is None else cover(result.reason),
                "unrated": result.unrated and result.unrated.model_copy(update={"detail": DROPPED}),
            }
        )
        for name, result in aspects.items()
    }


def redact_trace(trace: Iterable[CallTrace], cover: Cover) -> tuple[CallTrace, ...]:
    """Judge calls without replies. A prompt's digest is one of a text: whoever guesses the text could tell."""
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


def redact_record(record: Record, cover: Cover) -> Record:
    """A whole record without texts."""
    return Record.model_construct(
        evaluation=redact_evaluation(record.evaluation, cover),
        request=redact_asked(record.request, cover),
        trace=redact_trace(record.trace, cover),
    )


def erased_candidate() -> Candidate:
    """What stands in the place of an erased candidate."""
    return Candidate(context=(Utterance(speaker="A", text=ERASED),), response=ERASED)


@dataclass(frozen=True)
class Erased:
    """What an erasure removed: whole batches, candidates of other batches, and single evaluations."""

    batches: int
    candidates: int
    evaluations: int
