"""Compares two responses to one context, or two whole conversations: in each order by a call of its own.

Which of them an order shows first is chosen by their digests, so that it does not matter which of them a request names
first: the same calls give the mirrored answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import add
from statistics import fmean

from saiten.core.messages import Message
from saiten_server import __version__
from saiten_server.core import signature
from saiten_server.core.conversation import Conversation, texts_of_conversation
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.errors import InvalidRequest, SuspectedInjection, TextsErased, UnknownAspect
from saiten_server.core.evaluation import (
    AspectPreference,
    AspectResult,
    Choice,
    Evaluation,
    JudgeProvenance,
    OrderVerdict,
    Pair,
    PairSide,
    PreferenceRequest,
    Record,
    RubricReference,
    Side,
    Unrated,
    Usage,
    Warned,
)
from saiten_server.core.model import digest
from saiten_server.core.redaction import is_covered
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.token_estimate import bound_tokens
from saiten_server.judging.pair_prompt import SIDE_NAMES, WORDING_VERSION, PromptedPair, compare_aspects, digest_wording
from saiten_server.platform.helpers import Checkpoint, work_through
from saiten_server.platform.tasks import run_together
from saiten_server.providers.ports import Judgement, JudgingTask, Lane, RequestScope, Translated, Translator, Verdict
from saiten_server.providers.registry import is_baseline
from saiten_server.scoring.conversation import read_translation, write_as_dialogue
from saiten_server.scoring.evaluate import ScoringContext, ask_judge, explain_missing
from saiten_server.scoring.record import status_of
from saiten_server.scoring.store import PAIR_PREFIX
from saiten_server.scoring.subject import (
    ENGLISH_PATH_LANGUAGE,
    SUSPECTED,
    check_path,
    check_unit,
    look_at,
    refuse_suspicious,
    require_translator,
)
from saiten_server.text.injection import inspect_texts, list_translated, locate_warnings
from saiten_server.text.injection.inspection import texts_by_place

SIDES: tuple[Side, Side] = ("first", "second")
OTHER: Mapping[Side, Side] = {"first": "second", "second": "first"}

ShownOrder = tuple[Side, Side]
"""Which of the two is shown first, and which second."""


@dataclass(frozen=True)
class PairCase:
    """Two that are to be compared. `translated` is None on the source path, and until the translations are there."""

    request: PreferenceRequest
    rubric: Rubric
    scope: RequestScope = field(default_factory=RequestScope, compare=False)
    translated: Mapping[Side, Translated] | None = None

    @property
    def language(self) -> str:
        """The language that is judged."""
        return self.rubric.source_language if self.request.path == "source" else ENGLISH_PATH_LANGUAGE

    @cached_property
    def looking(self) -> asyncio.Lock:
        """Held while a thread inspects the texts."""
        return asyncio.Lock()

    @cached_property
    def characters(self) -> int:
        """The characters of all texts in all languages in use."""
        context = sum(len(said.text) for said in self.request.context or ())
        english = sum(found.translation.characters for found in (self.translated or {}).values())
        return context + english + sum(len(text) for given in self.request.sides.values() for text in given.texts)

    @cached_property
    def given(self) -> dict[Side, Dialogue | Conversation]:
        """Both as the request holds them."""
        if self.request.is_conversation:
            persona, goal = self.request.persona, self.request.goal
            return {side: one.read_conversation(persona, goal) for side, one in self.request.sides.items()}
        context = self.request.context or ()
        return {
            side: Dialogue.model_construct(context=context, response=one.response or "")
            for side, one in self.request.sides.items()
        }

    @cached_property
    def judged(self) -> dict[Side, Dialogue | Conversation]:
        """Both as the judge is shown them."""
        if self.translated is None:
            return self.given
        found = {side: read_english(one, self.translated[side]) for side, one in self.given.items()}
        # Persona and goal were translated with each of the two. Both have one wording, whichever is named first.
        leader = found[self.leader]
        if isinstance(leader, Conversation):
            shared = {"persona": leader.persona, "goal": leader.goal}
            return {side: one.model_copy(update=shared) for side, one in found.items()}
        return found

    @cached_property
    def aspects(self) -> tuple[Aspect, ...]:
        """What is asked."""
        return compare_aspects(self.rubric, self.request.aspects)

    @cached_property
    def digests(self) -> dict[Side, str]:
        """What tells the two apart, and nothing else."""
        return {
            side: digest([given.response, [[turn.role, turn.text] for turn in given.turns or ()]])
            for side, given in self.request.sides.items()
        }

    @property
    def are_equal(self) -> bool:
        """Whether the two are word for word the same."""
        return self.digests["first"] == self.digests["second"]

    @property
    def leader(self) -> Side:
        """The one with the smaller digest."""
        return min(SIDES, key=lambda side: (self.digests[side], side))

    @cached_property
    def orders(self) -> dict[int, ShownOrder]:
        """What each order shows, by its number: the leader comes first in order 0. Of one order alone the digests
        choose the number."""
        first, second = self.leader, OTHER[self.leader]
        both: dict[int, ShownOrder] = {0: (first, second), 1: (second, first)}
        if self.request.orders == "both":
            return both
        chosen = int(digest(sorted(self.digests.values())), 16) % 2
        return {chosen: both[chosen]}

    def show(self, number: int) -> PromptedPair:
        """The two as an order shows them."""
        sides = [self.judged[side] for side in self.orders.get(number, SIDES)]
        return PromptedPair(
            SIDE_NAMES[number],
            self.aspects,
            dialogues=tuple(side for side in sides if isinstance(side, Dialogue)),
            conversations=tuple(side for side in sides if isinstance(side, Conversation)),
        )

    def task(self, number: int, lane: Lane) -> JudgingTask:
        """The judge's task in an order."""
        shown = self.show(number)
        dialogue = first_dialogue(shown)
        return JudgingTask(
            self.rubric, self.language, dialogue, self.request.judge, lane=lane, scope=self.scope, shown=shown
        )

    def tasks(self, lane: Lane) -> list[JudgingTask]:
        """The judge's tasks in all orders that are asked."""
        return [self.task(number, lane) for number in self.orders]


def first_dialogue(shown: PromptedPair) -> Dialogue:
    """The one that is shown first, as a dialogue."""
    if shown.dialogues:
        return shown.dialogues[0]
    *before, last = shown.conversations[0].turns
    return Dialogue.model_construct(context=tuple(before), response=last.text)


def open_pair(
    request: PreferenceRequest, rubric: Rubric, window_tokens: int, scope: RequestScope | None = None
) -> PairCase:
    """Checks the request against its rubric. Raises RubricUnitMismatch, LanguageNotSupported, UnknownAspect, and
    InvalidRequest for options that a comparison does not have, or conversations that do not fit into one call
    together."""
    check_unit(rubric, "conversation" if request.is_conversation else "item")
    check_path(rubric, request.path)
    known = {aspect.id: aspect for aspect in rubric.aspects}
    for position, name in enumerate(request.aspects):
        aspect = known.get(name)
        if aspect is None and name != "overall":
            detail = Message(
                "rubric-has-aspects", rubric=rubric.id, names=", ".join(dict.fromkeys([*known, "overall"]))
            )
            raise UnknownAspect(detail, pointer=f"/aspects/{position}")
        if aspect is not None and aspect.requires and getattr(request, aspect.requires) is None:
            detail = Message("pair-aspect-requires", aspect=name, name=aspect.requires)
            raise InvalidRequest(detail, pointer=f"/aspects/{position}")
    if request.judge.explain:
        raise InvalidRequest(Message("pair-without-reasons"), pointer="/judge/explain")
    if request.is_conversation:
        texts = (text for given in request.sides.values() for text in given.texts)
        if sum(map(bound_tokens, texts)) > window_tokens:
            raise InvalidRequest(Message("pair-conversations-too-long", tokens=window_tokens))
    return PairCase(request, rubric, scope or RequestScope())


def read_english(given: Dialogue | Conversation, translated: Translated) -> Dialogue | Conversation:
    """One of the two in English, with the original speakers. Not validated: it may exceed the length limit."""
    translation = translated.translation
    if isinstance(given, Conversation):
        return read_translation(given, translation)
    spoken = zip(given.context, translation.context, strict=True)
    context = tuple(utterance.model_copy(update={"text": text}) for utterance, text in spoken)
    return Dialogue.model_construct(context=context, response=translation.response)


def as_dialogue(given: Dialogue | Conversation) -> Dialogue:
    """One of the two as it is translated."""
    return write_as_dialogue(given) if isinstance(given, Conversation) else given


async def open_texts(
    request: PreferenceRequest,
    rubric: Rubric,
    translator: Translator | None,
    window_tokens: int,
    scope: RequestScope | None = None,
) -> PairCase:
    """`open_pair`, with both translated if their path needs English. With the policy `refuse`, the texts are also
    inspected for attacks on the judge: first the originals, before paying for their translation, then the translations.
    Raises also TextsErased, SuspectedInjection and the `Translator…` errors."""
    refuse_gone(request)
    case = open_pair(request, rubric, window_tokens, scope)
    translator = require_translator(request.path, translator)
    await screen(case)
    if translator is None:
        return case
    language = rubric.source_language
    # What both have in common is translated once.
    found = await run_together(
        *(translator.translate(as_dialogue(one), language, case.scope) for one in case.given.values())
    )
    case = replace(case, translated=dict(zip(case.given, found, strict=True)))
    await screen(case)
    return case


async def screen(case: PairCase) -> None:
    """Raises SuspectedInjection if the policy is `refuse` and a text looks like an attack on the judge."""
    if case.request.integrity == "refuse":
        refuse_suspicious(await look_at(case, partial(find_pair_suspicions, case)))


def place_texts(both: Mapping[Side, Dialogue | Conversation]) -> dict[str, str]:
    """Each text of both by its place, which names the side that it is of."""
    places: dict[str, str] = {}
    for side, one in both.items():
        found = texts_of_conversation(one) if isinstance(one, Conversation) else texts_by_place(one)
        shared = ("context/", "persona/", "goal")  # which both have
        places |= {where if where.startswith(shared) else f"{side}/{where}": text for where, text in found.items()}
    return places


def find_pair_suspicions(case: PairCase, checkpoint: Checkpoint = lambda: None) -> tuple[Warned, ...]:
    """Warnings for texts that look like an attack on the judge, in every language in use."""
    names, places = case.rubric.aspect_names, place_texts(case.given)
    if case.translated is not None:
        places |= list_translated(places, place_texts(case.judged))
    warned = inspect_texts(places, aspects=names, checkpoint=checkpoint)
    return locate_warnings(warned, places, aspects=names, checkpoint=checkpoint)


async def prefer(request: PreferenceRequest, context: ScoringContext, scope: RequestScope | None = None) -> Record:
    """Which of the two is better. Raises as `evaluate` does, and as `open_texts`.

    If no order has a verdict on any aspect, an interactive comparison raises JudgeReplyInvalid; in a batch the result
    is an ordinary record with the status `failed`. The policy `judge-twice` only warns: there is no second judgement
    of two."""
    rubric = context.rubrics.get(request.rubric)
    with context.telemetry.span("compare", rubric=rubric.id) as span:
        started = time.monotonic()
        try:
            case = await open_texts(request, rubric, context.translator, context.window_tokens, scope)
        except SuspectedInjection:
            context.telemetry.dealt_with("refuse")
            raise
        suspicions = await look_at(case, partial(find_pair_suspicions, case))
        if any(warned.code == SUSPECTED for warned in suspicions):
            context.telemetry.dealt_with(request.integrity or "flag")
        tasks = await work_through(case.characters, partial(case.tasks, context.lane))
        judged = await run_together(*(ask_judge(task, context) for task in tasks))
        judgements = dict(zip(case.orders, judged, strict=True))
        if context.lane != "batch" and (error := explain_missing(judged)):
            context.telemetry.evaluated(rubric.id, "failed", time.monotonic() - started)
            raise error
        record = write_pair_record(case, judgements, suspicions, context)
        status = record.evaluation.status
        context.telemetry.evaluated(rubric.id, status, time.monotonic() - started)
        for warning in record.evaluation.warnings:
            context.telemetry.warned(warning.code)
        span.note(status=status)
    return record


def refuse_gone(request: PreferenceRequest) -> None:
    """Raises TextsErased where a text is not there any more, as in a preference run over runs that were erased."""
    if any(is_covered(text) for given in request.sides.values() for text in given.texts[-1:]):
        raise TextsErased(Message("pair-texts-gone"))


def write_pair_record(
    case: PairCase, judgements: Mapping[int, Judgement], suspicions: Sequence[Warned], context: ScoringContext
) -> Record:
    """The record: what each order says, and what follows from both."""
    request, rubric = case.request, case.rubric
    found = {aspect.id: settle_preference(case, aspect, judgements) for aspect in case.aspects}
    aspects = {name: describe_preference(one) for name, one in found.items()}
    warnings = (*suspicions, *(warned for judgement in judgements.values() for warned in judgement.warnings))
    provenance = merge_provenance([judgement.provenance for judgement in judgements.values()])
    pieces = sign_pair(case, provenance)
    billed = sum(found.billed_characters for found in (case.translated or {}).values())
    spent = [Usage(translated_characters=billed), *(judgement.usage for judgement in judgements.values())]
    evaluation = Evaluation(
        id=PAIR_PREFIX + context.new_id().partition("_")[2],
        status=status_of([aspects]),
        rubric=RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest),
        path=request.path,
        aspects=aspects,
        composites={},
        relevance=None,
        translation=None,
        paths=None,
        judge=provenance,
        usage=reduce(add, spent),
        warnings=tuple({(one.code, one.where, one.detail): one for one in warnings}.values()),
        signature=signature.sign(pieces),
        signature_pieces=pieces,
        cached=all(judgement.cached for judgement in judgements.values()),
        created_at=context.now(),
        metadata=request.metadata,
        dialogue=request.dialogue,
        pair=Pair(
            first=PairSide(id=request.first.id, length=request.first.length),
            second=PairSide(id=request.second.id, length=request.second.length),
            aspects=found,
        ),
    )
    # Without the calls: a verdict is two words, which the orders tell, and what is no verdict may quote a text.
    return Record(evaluation=evaluation, request=request)


def settle_preference(case: PairCase, aspect: Aspect, judgements: Mapping[int, Judgement]) -> AspectPreference:
    """What the orders together say of one aspect."""
    orders = [
        read_order(case.orders[number], judgement.verdicts[aspect.id]) for number, judgement in judgements.items()
    ]
    said = {one.verdict for one in orders}
    missing = None in said
    choice: Choice | None = None
    if not missing:
        # Opposite answers, one with a tie, and any answer on two that are the same text: none is better.
        choice = next(iter(said)) if len(said) == 1 and not case.are_equal else "tie"
    strengths = [
        measure_strength(case.orders[number], judgement.verdicts[aspect.id]) for number, judgement in judgements.items()
    ]
    known = [strength for strength in strengths if strength is not None]
    whole = not missing and len(known) == len(strengths)
    return AspectPreference(
        preference=choice,
        strength=None if not whole else 0.0 if case.are_equal else fmean(known),
        orders=tuple(orders),
        position_dependent={"first", "second"} <= said,
    )


def read_order(shown: ShownOrder, verdict: Verdict) -> OrderVerdict:
    """One order's verdict, of several samples that of more than half of the valid ones, or else a tie."""
    valid = [sample for sample in verdict.samples if isinstance(sample, int)]
    if not valid:
        missing = next(sample for sample in verdict.samples if isinstance(sample, Unrated))
        return OrderVerdict(shown=shown, verdict=None, missing=missing)
    for value, choice in ((1, shown[0]), (-1, shown[1])):
        if 2 * valid.count(value) > len(valid):
            return OrderVerdict(shown=shown, verdict=choice)
    return OrderVerdict(shown=shown, verdict="tie")


def measure_strength(shown: ShownOrder, verdict: Verdict) -> float | None:
    """The probability of the first of the request minus that of the second, in one order."""
    if verdict.expected is None:
        return None
    lead = max(-1.0, min(1.0, verdict.expected))
    return lead if shown[0] == "first" else -lead


CHOICE_NUMBERS: Mapping[Choice, int] = {"first": 1, "tie": 0, "second": -1}


def describe_preference(found: AspectPreference) -> AspectResult:
    """The preference as a rating from −1 for the second to 1 for the first, which runs count and search by."""
    samples = tuple(None if one.verdict is None else CHOICE_NUMBERS[one.verdict] for one in found.orders)
    rating = None if found.preference is None else CHOICE_NUMBERS[found.preference]
    missing = next((one.missing for one in found.orders if one.missing is not None), None)
    return AspectResult(
        rating=rating,
        scale=(-1, 1),
        label=found.preference,
        samples=samples,
        mean=None if rating is None else float(rating),
        sd=None if rating is None else 0.0,
        expected=found.strength,
        unrated=missing if rating is None else None,
    )


def merge_provenance(found: Sequence[JudgeProvenance]) -> JudgeProvenance:
    """The judge of all orders. Where several models or fingerprints answered to one name, all are listed."""
    first = found[0]
    return first.model_copy(
        update={
            "model": ",".join(sorted({one.model for one in found})),
            "fingerprint": ",".join(sorted({one.fingerprint for one in found if one.fingerprint})) or None,
            "dropped": tuple(dict.fromkeys(name for one in found for name in one.dropped)),
            # Both orders' prompts are in the wording.
            "prompt": None,
        }
    )


def sign_pair(case: PairCase, provenance: JudgeProvenance) -> dict[str, str]:
    """The pieces of the signature. `wording` stands for both orders' prompts, so that one order has the same."""
    options = case.request.judge
    judged = signature.describe_judge(provenance, options)
    del judged["prompt"]
    if is_baseline(provenance.kind):
        wording = "ratings"
    else:
        screen = options.screens(case.rubric.version)
        wording = f"{WORDING_VERSION}/{digest_wording(case.rubric, case.language, case.show(0), screen=screen)[:12]}"
    return {
        **signature.describe_rubric(__version__, case.rubric),
        "pairs": ",".join(aspect.id for aspect in case.aspects),
        "orders": case.request.orders,
        "wording": wording,
        **judged,
        "path": case.request.path,
        # Only of what was translated: signatures of earlier releases do not have the piece.
        **({"translator": case.translated["first"].translation.engine} if case.translated else {}),
    }
