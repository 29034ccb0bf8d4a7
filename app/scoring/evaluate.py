"""How a score is made: rubric, translate, judge, relevance, blend, compose, sign."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.errors import JudgeReplyInvalid, SuspectedInjection
from app.domain.evaluation import (
    CallTrace,
    EvaluationRequest,
    Path,
    Record,
    RelevanceOptions,
    RelevanceResult,
    Unrated,
    Warned,
)
from app.domain.plain_text import printable
from app.domain.rubric import Rubric
from app.providers.ports import Judge, Judgement, JudgingTask, Lane, RequestScope, Translator
from app.runtime.ports import RubricSource, Telemetry
from app.runtime.tasks import run_together
from app.runtime.threads import Checkpoint
from app.scoring.case import SUSPECTED, Case, find_suspicions, look_at, open_case
from app.scoring.masked_rejudging import MaskedJudgement, find_masked
from app.scoring.record import PathReading, write_reading, write_record
from app.scoring.relevance import Relevance
from app.text.speech_check import SpeechChecks

QUOTED_CHARACTERS = 120


@dataclass(frozen=True)
class ScoringContext:
    """What an evaluation is made with. `now` and `new_id` are passed in, so that a test can hold them still.

    `lane` is "batch" where no caller waits for a single answer. `tries` is how many calls one question to the judge may
    take, with those for malformed replies.
    """

    rubrics: RubricSource
    judge: Judge
    translator: Translator | None
    relevance: Relevance
    telemetry: Telemetry
    speech: SpeechChecks
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    lane: Lane = "interactive"
    tries: int = 3


async def evaluate(
    request: EvaluationRequest, instruments: ScoringContext, scope: RequestScope | None = None
) -> Record:
    """Scores one response. `scope` collects the cache keys and the cost of its calls, however it ends.

    Raises InvalidRequest for what the rubric cannot do, UpstreamError for what others did, and SuspectedInjection,
    before any call, for an attack on the judge where the policy is to refuse it.

    A response of which the judge rated not one aspect is an error (JudgeReplyInvalid) where somebody waits for it; in a
    batch it is a record like any other, with the status `failed`.
    """
    rubric = instruments.rubrics.get(request.rubric)
    with instruments.telemetry.span("evaluate", rubric=rubric.id) as span:
        record = await score(request, rubric, instruments, scope or RequestScope())
        span.note(status=record.evaluation.status)
    return record


async def score(request: EvaluationRequest, rubric: Rubric, instruments: ScoringContext, scope: RequestScope) -> Record:
    """What `evaluate` promises, by this rubric, counted."""
    started = time.monotonic()
    batch = instruments.lane == "batch"
    try:
        case = await open_case(request, rubric, instruments.translator, scope, batch=batch)
    except SuspectedInjection:
        instruments.telemetry.dealt_with("refuse")
        raise
    suspicions, readings, rejudged = await examine(case, instruments)
    if not batch:
        try:
            refuse_unrated(readings)
        except JudgeReplyInvalid:
            instruments.telemetry.evaluated(rubric.id, "failed", time.monotonic() - started)
            raise
    by_path = dict(zip(case.dialogues, readings, strict=True))
    record = write_record(case, by_path, suspicions, instruments.new_id(), instruments.now(), rejudged=rejudged)
    if any(warned.code == SUSPECTED for warned in suspicions):
        instruments.telemetry.dealt_with(request.integrity or "flag")
    instruments.telemetry.evaluated(rubric.id, record.evaluation.status, time.monotonic() - started)
    for warning in record.evaluation.warnings:
        instruments.telemetry.warned(warning.code)
    return record


async def examine(
    case: Case, instruments: ScoringContext
) -> tuple[tuple[Warned, ...], list[PathReading], MaskedJudgement | None]:
    """What the texts are suspected of, what each path gives, and the masked re-judging, if any: side by side."""
    twice = case.request.integrity == "judge-twice"
    if case.is_short and not twice and len(case.dialogues) == 1:
        # The usual case: only the judge is waited for, and a task for each step would cost more than its work.
        suspicions = await inspect(case, instruments.speech)
        return suspicions, [await read(case, path, instruments) for path in case.dialogues], None
    suspicions, *readings, rejudged = await run_together(
        inspect(case, instruments.speech),
        *(read(case, path, instruments) for path in case.dialogues),
        rejudge_masked(case, instruments),
    )
    return suspicions, readings, rejudged


async def inspect(case: Case, speech: SpeechChecks) -> tuple[Warned, ...]:
    """What in the texts looks like an attack on the judge, and what is odd in the response's language and register."""

    def look(checkpoint: Checkpoint) -> tuple[Warned, ...]:
        # The dialogue as it was given: a translation has the language that it should have.
        return *find_suspicions(case, checkpoint), *speech.check(case.given, case.rubric.source_language)

    return await look_at(case, look)


async def read(case: Case, path: Path, instruments: ScoringContext) -> PathReading:
    """Judges and measures the dialogue in one language, side by side."""
    if case.relevance is None:
        return write_reading(case, path, await judge(case.task(path, instruments.lane), instruments), None)
    judgement, relevance = await run_together(
        judge(case.task(path, instruments.lane), instruments), measure(case, path, instruments, case.relevance)
    )
    return write_reading(case, path, judgement, relevance)


async def rejudge_masked(case: Case, instruments: ScoringContext) -> MaskedJudgement | None:
    """What the judge says without the suspicious spans, where the policy asks for that and there are any."""
    if case.request.integrity != "judge-twice":
        return None
    masked = await find_masked(case)
    if masked is None:
        return None
    return MaskedJudgement(masked, await judge(masked.task(case, instruments.lane), instruments))


async def judge(task: JudgingTask, instruments: ScoringContext) -> Judgement:
    """The judge's answer, counted."""
    started = time.monotonic()
    model = task.options.model or instruments.judge.default_model
    with instruments.telemetry.span("judge", rubric=task.rubric.id, model=model) as span:
        judgement = await instruments.judge.judge(task)
        span.note(cached=judgement.cached)
    task.scope.cost_usd += judgement.usage.cost_usd or 0.0
    instruments.telemetry.judged(instruments.judge.kind, judgement.usage, time.monotonic() - started)
    return judgement


def refuse_unrated(readings: Sequence[PathReading]) -> None:
    """Raises JudgeReplyInvalid where the judge rated not one aspect on any path."""
    verdicts = [verdict for reading in readings for verdict in reading.judgement.verdicts.values()]
    samples = [sample for verdict in verdicts for sample in verdict.samples]
    missing = [sample for sample in samples if isinstance(sample, Unrated)]
    if len(missing) == len(samples):
        reasons = ", ".join(sorted({sample.reason for sample in missing}))
        hint = next((f": {sample.detail}" for sample in missing if sample.detail), "")
        judgements = [reading.judgement for reading in readings]
        replies = sum(len(judgement.trace) for judgement in judgements)
        dropped = sorted({name for judgement in judgements for name in judgement.provenance.dropped})
        refused = f"; the endpoint refused {', '.join(dropped)}" if dropped else ""
        raise JudgeReplyInvalid(
            f"the judge rated no aspect in {replies} replies ({reasons}){hint}{refused}",
            said=quote_unused(judgements[0].trace) or "",
        )


def quote_unused(trace: Sequence[CallTrace]) -> str | None:
    """The beginning of the last reply, for the caller of a result that lacks ratings; None where there is none."""
    reply = next((call.reply for call in reversed(trace) if call.reply), None)
    if reply is None:
        return None
    more = "…" if len(reply) > QUOTED_CHARACTERS else ""
    return f"its last reply begins: {printable(reply[:QUOTED_CHARACTERS])}{more}"


async def measure(case: Case, path: Path, instruments: ScoringContext, options: RelevanceOptions) -> RelevanceResult:
    """The similarity of last utterance and response."""
    return await instruments.relevance.measure(case.language(path), case.dialogues[path], options, case.scope)
