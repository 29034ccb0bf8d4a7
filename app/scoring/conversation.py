"""Rates one conversation as a whole beside the faults that rules find, and scores its turns if that is asked for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial, reduce
from itertools import islice
from operator import add
from statistics import fmean, median_low
from typing import Any

from saiten.core.messages import Message
from saiten_server.core.conversation import (
    Conversation,
    Finding,
    PersonaValue,
    TurnWindow,
    cut_windows,
    list_contexts,
    texts_of_conversation,
)
from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import UnknownRubric
from saiten_server.core.evaluation import (
    AspectResult,
    ConversationRequest,
    Evaluation,
    EvaluationRequest,
    JudgeOptions,
    MaskedSpan,
    Path,
    Record,
    Translation,
    TurnScore,
    Unrated,
    Warned,
)
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.core.sentences import in_english, pass_on
from saiten_server.judging.verdict import FaultyTurnsRead, NamedFault, SampleRating
from saiten_server.platform.helpers import Checkpoint, Helpers
from saiten_server.platform.tasks import run_few, run_together
from saiten_server.providers.ports import Judgement, JudgingTask, RequestScope, Translated, Verdict
from saiten_server.scoring.evaluate import ScoringContext, ask_judge, evaluate, explain_missing
from saiten_server.scoring.masked_rejudging import MaskedJudgement, Masking, prefix
from saiten_server.scoring.record import count_kinds, write_path, write_record
from saiten_server.scoring.subject import (
    ENGLISH_PATH_LANGUAGE,
    SUSPECTED,
    check_path,
    check_unit,
    look_at,
    refuse_suspicious,
    require_translator,
)
from saiten_server.text.injection import InspectionBudget, inspect_texts, list_translated, locate_warnings
from saiten_server.text.talks import TextFindings, answer_job, look_through, read_found, write_job

REPLY_TOKENS = 4096
"""The longest verdict on a conversation, unless the request says another: a reason per aspect and lists of turns."""

MOST_HELPED = 20_000
"""Characters of a conversation that a helper process looks through, in a tenth of a second."""

MOST_CONTEXT = 200
"""The utterances that precede a turn which is scored as a response."""

CALLS_AT_ONCE = 16
"""Judge calls for turns that are in hand at once, and as many for windows: one request must not fill the queue."""

CHARACTERS_AT_ONCE = 500_000
"""The same for the characters of their prompts, each of which is there in several forms."""


RecordWithCalls = tuple[Record, tuple[str, ...]]
"""A record, and the call cache's keys of the outside calls that it rests on."""


@dataclass(frozen=True)
class ConversationSubject:
    """A conversation that is to be judged, in windows of at most `window_tokens` estimated tokens. `translated` is None
    on the source path, and until the translation is there."""

    request: ConversationRequest
    rubric: Rubric
    window_tokens: int
    scope: RequestScope = field(default_factory=RequestScope, compare=False)
    translated: Translated | None = None

    @cached_property
    def conversation(self) -> Conversation:
        """The conversation as the request holds it."""
        return self.request.conversation

    @cached_property
    def conversations(self) -> dict[Path, Conversation]:
        """The conversation of each language path in use, the source path first. Turns have the same numbers in both."""
        found: dict[Path, Conversation] = {}
        if self.request.path != "english":
            found["source"] = self.conversation
        if self.translated is not None:
            found["english"] = read_translation(self.conversation, self.translated.translation)
        return found

    @property
    def translation(self) -> Translation | None:
        """The translation as the result shows it: persona and goal apart from the turns."""
        if self.translated is None:
            return None
        english = self.conversations["english"]
        *before, last = english.turns
        shown = {"context": tuple(turn.text for turn in before), "response": last.text}
        told = {**shown, "persona": english.persona, "goal": english.goal}
        return self.translated.translation.model_copy(update=told)

    def language(self, path: Path) -> str:
        """The language that is judged on a path."""
        return self.rubric.source_language if path == "source" else ENGLISH_PATH_LANGUAGE

    @cached_property
    def looking(self) -> asyncio.Lock:
        """Held while a thread inspects the texts."""
        return asyncio.Lock()

    @cached_property
    def characters(self) -> int:
        """The characters of all texts in all languages in use."""
        used = self.conversations.values() or [self.conversation]
        return sum(len(text) for one in used for text in texts_of_conversation(one).values())

    async def look_through(self, helpers: Helpers | None, at_once: int) -> TextFindings:
        """What code finds in the texts. Of more than `at_once` characters never on the event loop: many short turns
        take some milliseconds, and many conversations begin together."""
        given = (self.conversation, self.rubric.source_language, self.rubric.aspect_names)
        here = partial(look_at, self, lambda checkpoint: look_through(*given, checkpoint), at_once=at_once)
        # A thread's work ends when its caller goes; that of a helper is done to its end, so that it has to be short.
        if helpers is None or self.characters > MOST_HELPED:
            return await here()
        return await helpers.work(answer_job, partial(write_job, *given), read_found, here)

    @cached_property
    def windows(self) -> dict[Path, tuple[TurnWindow, ...]]:
        """The windows of each language path in use."""
        return {path: cut_windows(one, self.window_tokens) for path, one in self.conversations.items()}


def write_as_dialogue(conversation: Conversation) -> Dialogue:
    """The conversation as a dialogue for the translator: names and texts of the persona, the goal, then the turns, so
    that a turn is translated with all of these before it as its context."""
    header = [part for field in (conversation.persona or {}).items() for part in field if isinstance(part, str)]
    header += [] if conversation.goal is None else [conversation.goal]
    said = [Utterance.model_construct(speaker="", text=text) for text in header]
    *before, last = conversation.turns
    return Dialogue.model_construct(context=(*said, *before), response=last.text)


def read_translation(given: Conversation, translation: Translation) -> Conversation:
    """The conversation in English, from the translation of what `write_as_dialogue` gives: with the original speakers,
    roles and numbers. Not validated: a translation may exceed the length limit."""
    texts = iter((*translation.context, translation.response))
    persona: dict[str, PersonaValue] = {}
    for name, value in (given.persona or {}).items():
        english = next(texts)
        while english in persona:  # two names with one translation
            english = f"{english} ({name})"
        persona[english] = next(texts) if isinstance(value, str) else value
    goal = None if given.goal is None else next(texts)
    turns = tuple(turn.model_copy(update={"text": text}) for turn, text in zip(given.turns, texts, strict=True))
    return Conversation.model_construct(turns=turns, persona=persona or None, goal=goal)


def settle_options(options: JudgeOptions) -> JudgeOptions:
    """The options of a judge that rates a conversation: reasons are always asked for."""
    return options.model_copy(update={"explain": True, "max_tokens": options.max_tokens or REPLY_TOKENS})


def plan_conversation(
    windows: Sequence[TurnWindow],
    rubric: Rubric,
    language: str,
    options: JudgeOptions,
    *,
    scope: RequestScope | None = None,
) -> list[JudgingTask]:
    """The judge's tasks on a conversation in one language, one per window."""
    return [
        JudgingTask(
            rubric,
            language,
            window.dialogue,
            settle_options(options),
            scope=scope or RequestScope(),
            window=window,
        )
        for window in windows
    ]


async def evaluate_conversation(
    request: ConversationRequest, context: ScoringContext, scope: RequestScope | None = None
) -> tuple[Record, tuple[RecordWithCalls, ...]]:
    """Rates one conversation; with `score_turns`, also the records of its turns. Raises as `evaluate` does.

    A judge that rates no conversation leaves every aspect unrated; what rules find is in the result all the same."""
    rubric = context.rubrics.get(request.rubric)
    subject = ConversationSubject(request, rubric, context.window_tokens, scope or RequestScope())
    with context.telemetry.span("evaluate", rubric=rubric.id) as span:
        started = time.monotonic()
        check_unit(rubric, "conversation")
        check_path(rubric, request.path)
        record, turns = await rate_conversation(subject, context)
        status = record.evaluation.status
        context.telemetry.evaluated(rubric.id, status, time.monotonic() - started)
        for warning in record.evaluation.warnings:
            context.telemetry.warned(warning.code)
        span.note(status=status)
    return record, turns


async def open_texts(
    given: ConversationSubject, context: ScoringContext
) -> tuple[ConversationSubject, tuple[Warned, ...], tuple[Finding, ...]]:
    """The subject with its translation if its path needs English, warnings for texts in all languages in use that look
    like an attack on the judge, and what rules find in the original. With the policy `refuse`, SuspectedInjection is
    raised for the original before its translation is paid for. Also raises the `Translator…` errors."""
    request = given.request
    translator = require_translator(request.path, context.translator)
    suspicions, rules = await given.look_through(context.helpers, context.rules_at_once)
    if translator is None or request.integrity == "refuse":
        deal_with(request, suspicions, context)
    if translator is None:
        return given, suspicions, rules
    dialogue, language = write_as_dialogue(given.conversation), given.rubric.source_language
    subject = replace(given, translated=await translator.translate(dialogue, language, given.scope))
    suspicions += await look_at(subject, partial(inspect_translation, subject))
    deal_with(request, suspicions, context)
    return subject, suspicions, rules


def inspect_translation(subject: ConversationSubject, checkpoint: Checkpoint = lambda: None) -> tuple[Warned, ...]:
    """Warnings for texts that look like an attack on the judge only once they are translated."""
    original, english = map(texts_of_conversation, (subject.conversation, subject.conversations["english"]))
    places, names = list_translated(original, english), subject.rubric.aspect_names
    found = inspect_texts(places, aspects=names, checkpoint=checkpoint)
    return locate_warnings(found, places, aspects=names, checkpoint=checkpoint)


def deal_with(request: ConversationRequest, suspicions: tuple[Warned, ...], context: ScoringContext) -> None:
    """Counts a conversation that looks like an attack on the judge; raises SuspectedInjection if the policy is to
    refuse it."""
    if any(warned.code == SUSPECTED for warned in suspicions):
        context.telemetry.dealt_with(request.integrity or "flag")
    if request.integrity == "refuse":
        refuse_suspicious(suspicions)


async def rate_conversation(
    given: ConversationSubject, context: ScoringContext
) -> tuple[Record, tuple[RecordWithCalls, ...]]:
    """Does the work of `evaluate_conversation`."""
    request = given.request
    turn_requests = list_turn_requests(given, context)
    subject, suspicions, rules = await open_texts(given, context)
    windows = await look_at(subject, lambda _: subject.windows)
    judgements, masked, turns = await run_together(
        judge_windows(subject, windows, context),
        rejudge_masked(subject, suspicions, context),
        score_turns(subject, [one for _, one in turn_requests], context),
    )
    if context.lane != "batch" and (error := explain_missing(list(judgements.values()))):
        raise error
    evaluation_id = context.new_id()
    dialogue = request.dialogue or evaluation_id
    if request.dialogue is None:
        turns = [(name_dialogue(turn, dialogue), calls) for turn, calls in turns]
    now = context.now()
    evaluations = {
        path: write_conversation(subject, path, judgement, rules, evaluation_id=evaluation_id, now=now)
        for path, judgement in judgements.items()
    }
    record = write_record(subject, evaluations, list(judgements.values()), suspicions, rejudged=masked)
    if request.score_turns is not None:
        scored = [turn.evaluation for turn, _ in turns]
        shown = tuple(
            TurnScore(turn=number, evaluation=one.id, aspects=one.aspects)
            for (number, _), one in zip(turn_requests, scored, strict=True)
        )
        usage = reduce(add, (one.usage for one in scored), record.evaluation.usage)
        changed = {"turn_scores": shown, "dialogue": dialogue, "usage": usage}
        record = record.model_copy(update={"evaluation": record.evaluation.model_copy(update=changed)})
    return record, tuple(turns)


def name_dialogue(record: Record, dialogue: str) -> Record:
    """The record of a turn with the name of its dialogue."""
    named = {"dialogue": dialogue}
    return record.model_copy(
        update={
            "evaluation": record.evaluation.model_copy(update=named),
            "request": record.request.model_copy(update=named),
        }
    )


def list_turn_requests(subject: ConversationSubject, context: ScoringContext) -> list[tuple[int, EvaluationRequest]]:
    """A request for each system turn that has a context, if `score_turns` asks for them. Raises UnknownRubric and
    RubricUnitMismatch."""
    request = subject.request
    if request.score_turns is None:
        return []
    place = "/score_turns/rubric"
    try:
        rubric = context.rubrics.get(request.score_turns.rubric)
    except UnknownRubric as error:
        raise UnknownRubric(error.message, pointer=place) from error
    check_unit(rubric, "item", pointer=place)
    check_path(rubric, request.path, pointer=place)
    shared = {name: getattr(request, name) for name in ("path", "judge", "integrity", "metadata", "dialogue")}
    return [
        (
            number,
            EvaluationRequest.model_construct(
                rubric=request.score_turns.rubric, context=turn.context, response=turn.response, **shared
            ),
        )
        for number, turn in list_contexts(subject.conversation, MOST_CONTEXT)
    ]


async def score_turns(
    subject: ConversationSubject, turns: Sequence[EvaluationRequest], context: ScoringContext
) -> list[RecordWithCalls]:
    """The records of turns that are scored as responses, a few at a time."""

    async def score_one(turn: EvaluationRequest) -> RecordWithCalls:
        with subject.scope.part() as part:
            record = await evaluate(turn, context, part)
        return record, tuple(part.keys)

    return await run_few((partial(score_one, turn) for turn in turns), min(len(turns), count_at_once(subject)))


def count_at_once(subject: ConversationSubject) -> int:
    """How many turns or windows are judged at once, at least one."""
    by_calls = CALLS_AT_ONCE // subject.request.judge.samples
    return max(1, min(by_calls, CHARACTERS_AT_ONCE // (subject.characters + 1)))


async def judge_windows(
    subject: ConversationSubject, windows: Mapping[Path, Sequence[TurnWindow]], context: ScoringContext
) -> dict[Path, Judgement]:
    """The judgement of the whole on each of these paths, from one call per window."""
    options, scope = subject.request.judge, subject.scope
    tasks = [
        replace(task, lane=context.lane)
        for path, parts in windows.items()
        for task in plan_conversation(parts, subject.rubric, subject.language(path), options, scope=scope)
    ]
    work = (partial(ask_judge, task, context) for task in tasks)
    judged = iter(await run_few(work, min(len(tasks), count_at_once(subject))))
    return {
        path: add_inapplicable(combine_windows(list(islice(judged, len(parts))), subject.rubric), subject)
        for path, parts in windows.items()
    }


def add_inapplicable(judgement: Judgement, subject: ConversationSubject) -> Judgement:
    """The judgement with every aspect of the rubric: those that do not apply are unrated."""
    samples = subject.request.judge.samples
    verdicts = {}
    for aspect in subject.rubric.aspects:
        if subject.conversation.gives(aspect.requires):
            verdicts[aspect.id] = judgement.verdicts[aspect.id]
        else:
            unrated = Unrated(reason="not-applicable", **in_english(Message(f"conversation-has-no-{aspect.requires}")))
            verdicts[aspect.id] = Verdict((unrated,) * samples)
    return replace(judgement, verdicts=verdicts)


def combine_windows(judgements: Sequence[Judgement], rubric: Rubric) -> Judgement:
    """One judgement of several windows. An aspect has the lowest rating of any window, since a fault in one part is a
    fault of the whole; one that requires a goal has that of the last window, since a goal is reached at the end. Where
    the rubric has kinds of faults, scales of more than two levels tell how much of a conversation is affected or what
    impression it leaves: they have the median of the windows, the lower one of two. An aspect is unrated if any of
    these windows is. The faulty turns of all windows are added up."""
    if len(judgements) == 1:
        return judgements[0]
    first = judgements[0]
    verdicts = {}
    for aspect in rubric.aspects:
        if aspect.id not in first.verdicts:
            continue
        each = [judgement.verdicts[aspect.id] for judgement in judgements]
        deciding = each[-1:] if aspect.requires == "goal" else each
        combine = median_low if rubric.kinds and len(aspect.levels) > 2 else min
        verdicts[aspect.id] = combine_verdicts(deciding, each, combine)
    warnings = [warned for judgement in judgements for warned in judgement.warnings]
    return Judgement(
        verdicts=verdicts,
        provenance=first.provenance,
        usage=reduce(add, (judgement.usage for judgement in judgements)),
        cached=all(judgement.cached for judgement in judgements),
        trace=tuple(call for judgement in judgements for call in judgement.trace),
        warnings=tuple({(one.code, one.where, one.detail): one for one in warnings}.values()),
    )


def combine_verdicts(
    deciding: Sequence[Verdict], every: Sequence[Verdict], combine: Callable[[Sequence[Any]], Any]
) -> Verdict:
    """One verdict of several windows; `deciding` are those whose ratings are combined. The reason is that of a window
    with the combined rating. `expected` is combined as the ratings are, if each of these windows has it; of the mass
    off the scale the mean is kept."""
    samples: list[SampleRating] = []
    for ratings in zip(*(verdict.samples for verdict in deciding), strict=True):
        unrated = next((one for one in ratings if isinstance(one, Unrated)), None)
        samples.append(unrated or combine([one for one in ratings if isinstance(one, int)]))
    rated = [rating for rating in samples if isinstance(rating, int)]
    found = next((verdict for verdict in deciding if rated and rated[0] in verdict.samples), deciding[0])
    means = [one.expected for one in deciding if one.expected is not None]
    masses = [one.off_scale_mass for one in deciding if one.off_scale_mass is not None]
    return Verdict(
        samples=tuple(samples),
        expected=combine(means) if rated and len(means) == len(deciding) else None,
        off_scale_mass=fmean(masses) if rated and len(masses) == len(deciding) else None,
        reason=found.reason,
        turns=tuple(map(add_faults, every)),
    )


def add_faults(verdict: Verdict) -> FaultyTurnsRead:
    """The faulty turns of a verdict: those that more than half of its valid samples name. Unrated without one."""
    valid = [faults for faults in verdict.turns if not isinstance(faults, Unrated)]
    if not valid:
        missing = (turns for turns in verdict.turns if isinstance(turns, Unrated))
        return next(missing, Unrated(reason="missing", **in_english(Message("judge-named-no-turns"))))
    named: dict[int, list[NamedFault]] = {}
    for fault in (fault for faults in valid for fault in faults):
        named.setdefault(fault.turn, []).append(fault)
    return tuple(commonest(named[turn]) for turn in sorted(named) if 2 * len(named[turn]) > len(valid))


def commonest(faults: Sequence[NamedFault]) -> NamedFault:
    """Of several samples' faults at one turn the first of the kind that most of them name."""
    kinds = [fault.kind for fault in faults]
    return max(faults, key=lambda fault: kinds.count(fault.kind))


def read_findings(
    aspect: Aspect, verdict: Verdict, result: AspectResult, *, language: str, windows: int, where: str
) -> tuple[list[Finding], list[Warned]]:
    """The judge's findings on a rated aspect, and a warning about `where` if the turns that it named cannot be used."""
    if result.rating is None or not verdict.turns:
        return [], []
    # Of several windows, each element is a window's; of one, each is a sample's.
    parts = verdict.turns if windows > 1 else (add_faults(verdict),)
    if unrated := next((part for part in parts if isinstance(part, Unrated)), None):
        return [], [Warned(code="findings-unrated", where=where, **pass_on(unrated))]
    faults = {fault.turn: fault for part in reversed(parts) if not isinstance(part, Unrated) for fault in part}
    detail = result.reason or f"{aspect.name[language]}: {result.label}"
    return [
        Finding(
            turn=fault.turn, aspect=aspect.id, code=None, by="judge", detail=fault.reason or detail, kind=fault.kind
        )
        for _, fault in sorted(faults.items())
    ], []


def write_conversation(
    subject: ConversationSubject,
    path: Path,
    judgement: Judgement,
    rules: Sequence[Finding],
    *,
    evaluation_id: str,
    now: datetime,
) -> Evaluation:
    """The evaluation of one language path, with the judge's findings beside those of rules."""
    rubric, language, windows = subject.rubric, subject.language(path), subject.windows[path]
    options = settle_options(subject.request.judge)
    translated = subject.translated if path == "english" else None
    pieces = {
        # Only on the English path: signatures of earlier releases do not have the piece.
        **({"translator": translated.translation.engine} if translated else {}),
        "window": str(subject.window_tokens),
    }
    evaluation = write_path(subject, path, judgement, options, evaluation_id=evaluation_id, now=now, pieces=pieces)
    found, unusable = [*rules], []
    for aspect in rubric.aspects:
        findings, warned = read_findings(
            aspect,
            judgement.verdicts[aspect.id],
            evaluation.aspects[aspect.id],
            language=language,
            windows=len(windows),
            where="findings" if rubric.kinds else f"aspects/{aspect.id}",
        )
        found += findings
        unusable += warned
    found.sort(key=lambda one: (one.turn, one.by == "judge"))
    changed = {
        "warnings": (*evaluation.warnings, *unusable),
        "findings": tuple(found),
        "kinds": count_kinds(found) if rubric.kinds and not unusable else None,
        "windows": tuple((window.first, window.end - 1) for window in windows) if len(windows) > 1 else None,
    }
    return evaluation.model_copy(update=changed)


async def rejudge_masked(
    subject: ConversationSubject, suspicions: tuple[Warned, ...], context: ScoringContext
) -> MaskedJudgement | None:
    """The judgement without the suspicious spans, if the policy asks for it and there are any. It is on one path: the
    source path, or the English one if only the translation is suspicious."""
    if subject.request.integrity != "judge-twice" or not any(warned.code == SUSPECTED for warned in suspicions):
        return None
    path, conversation, spans = await look_at(subject, partial(find_masked, subject), at_once=0)
    windows = await look_at(subject, lambda _: cut_windows(conversation, subject.window_tokens))
    return MaskedJudgement(path, spans, (await judge_windows(subject, {path: windows}, context))[path])


def find_masked(
    subject: ConversationSubject, checkpoint: Checkpoint = lambda: None
) -> tuple[Path, Conversation, tuple[MaskedSpan, ...]]:
    """The first path whose conversation has suspicious spans, with the conversation without them; the first path if
    none has."""
    budget = InspectionBudget(checkpoint=checkpoint)
    looks = [(path, *mask_conversation(subject, path, budget)) for path in subject.conversations]
    return next((look for look in looks if look[2]), looks[0])


def mask_conversation(
    subject: ConversationSubject, path: Path, budget: InspectionBudget
) -> tuple[Conversation, tuple[MaskedSpan, ...]]:
    """A path's conversation without its suspicious spans."""
    masking = Masking(subject.rubric.aspect_names, subject.language(path), budget)
    shown, given = subject.conversations[path], subject.conversation
    turns = tuple(
        turn.model_copy(
            update={
                "speaker": masking.speaker(f"turns/{number}/speaker", turn.speaker),
                "text": masking.text(f"{prefix(turn.text, original.text)}turns/{number}/text", turn.text),
            }
        )
        for number, (turn, original) in enumerate(zip(shown.turns, given.turns, strict=True))
    )
    originals = list((given.persona or {}).values())
    persona = {
        name: masking.text(f"{prefix(value, str(originals[position]))}persona/{position}", value)
        if isinstance(value, str)
        else value
        for position, (name, value) in enumerate((shown.persona or {}).items())
    }
    goal = None if shown.goal is None else masking.text(f"{prefix(shown.goal, given.goal or '')}goal", shown.goal)
    masked = Conversation.model_construct(turns=turns, persona=persona or None, goal=goal)
    return masked, tuple(masking.spans)
