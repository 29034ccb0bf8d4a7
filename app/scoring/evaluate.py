"""Makes one score: finds the rubric, translates, judges, measures relevance, blends, composes and signs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from saiten.core.messages import Message
from saiten.core.plain_text import quote_reply
from saiten_server.core import signature
from saiten_server.core.dialogue import DEFAULT_LIMITS, Limits
from saiten_server.core.errors import JudgeReplyInvalid, SuspectedInjection
from saiten_server.core.evaluation import Evaluation, EvaluationRequest, Path, Record, RelevanceResult, Unrated, Warned
from saiten_server.core.rubric import Rubric
from saiten_server.platform.helpers import Checkpoint, Helpers
from saiten_server.platform.tasks import run_together
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.ports import Judge, Judgement, JudgingTask, Lane, RequestScope, Translator
from saiten_server.scoring.masked_rejudging import MaskedJudgement, find_masked
from saiten_server.scoring.record import write_path, write_record
from saiten_server.scoring.relevance import Relevance
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.scoring.subject import INSPECTED_AT_ONCE, SUSPECTED, Subject, find_suspicions, look_at, open_subject
from saiten_server.text.speech_check import SpeechChecks


@dataclass(frozen=True)
class ScoringContext:
    """The services that an evaluation uses. `now` and `new_id` are injected so that tests can fix them. `lane` is
    "batch" if no caller waits for a single answer. `tries` is how many calls one question to the judge may take,
    including those for malformed replies. A conversation of more than `window_tokens` estimated tokens is judged in
    several calls. `helpers` look through conversations when many are scored at once; one of at most `rules_at_once`
    characters is looked through on the event loop where there are none. `limits` bound one request."""

    rubrics: RubricSource
    judge: Judge
    translator: Translator | None
    relevance: Relevance
    telemetry: Telemetry
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    lane: Lane = "interactive"
    tries: int = 3
    speech: SpeechChecks = field(default_factory=SpeechChecks)
    window_tokens: int = 100_000
    helpers: Helpers | None = None
    rules_at_once: int = 0
    limits: Limits = DEFAULT_LIMITS


async def evaluate(request: EvaluationRequest, context: ScoringContext, scope: RequestScope | None = None) -> Record:
    """Scores one response. `scope` collects the cache keys and the cost of its calls, even if it fails.

    Raises InvalidRequest if the rubric does not support the request, UpstreamError if an outside call fails, and
    SuspectedInjection, before any call, if the policy is to refuse attacks on the judge and a text looks like one.

    If the judge rates no aspect at all, an interactive evaluation raises JudgeReplyInvalid; in a batch the result is an
    ordinary record with the status `failed`."""
    rubric = context.rubrics.get(request.rubric)
    with context.telemetry.span("evaluate", rubric=rubric.id) as span:
        record = await score(request, rubric, context, scope or RequestScope())
        span.note(status=record.evaluation.status)
    return record


async def score(request: EvaluationRequest, rubric: Rubric, context: ScoringContext, scope: RequestScope) -> Record:
    """Does the work of `evaluate` with this rubric, and counts it."""
    started = time.monotonic()
    batch = context.lane == "batch"
    try:
        subject = await open_subject(request, rubric, context.translator, scope, batch=batch)
    except SuspectedInjection:
        context.telemetry.dealt_with("refuse")
        raise
    suspicions, measured, rejudged = await examine(subject, context)
    judgements = [judgement for judgement, _ in measured]
    if not batch and (error := explain_missing(judgements)):
        context.telemetry.evaluated(rubric.id, "failed", time.monotonic() - started)
        raise error
    evaluation_id, now = context.new_id(), context.now()
    evaluations = {
        path: write_response(subject, path, judgement, relevance, evaluation_id=evaluation_id, now=now)
        for path, (judgement, relevance) in zip(subject.dialogues, measured, strict=True)
    }
    record = write_record(subject, evaluations, judgements, suspicions, rejudged=rejudged)
    if any(warned.code == SUSPECTED for warned in suspicions):
        context.telemetry.dealt_with(request.integrity or "flag")
    context.telemetry.evaluated(rubric.id, record.evaluation.status, time.monotonic() - started)
    for warning in record.evaluation.warnings:
        context.telemetry.warned(warning.code)
    return record


def write_response(
    subject: Subject,
    path: Path,
    judgement: Judgement,
    relevance: RelevanceResult | None,
    *,
    evaluation_id: str,
    now: datetime,
) -> Evaluation:
    """The evaluation of one language path."""
    translated = subject.translated if path == "english" else None
    pieces = {
        "translator": translated.translation.engine if translated else signature.NONE,
        **signature.describe_relevance(relevance, subject.blended),
    }
    return write_path(
        subject,
        path,
        judgement,
        subject.request.judge,
        evaluation_id=evaluation_id,
        now=now,
        pieces=pieces,
        relevance=relevance,
        blended=subject.blended,
    )


async def examine(
    subject: Subject, context: ScoringContext
) -> tuple[tuple[Warned, ...], list[tuple[Judgement, RelevanceResult | None]], MaskedJudgement | None]:
    """The warnings about the texts, each path's judgement and relevance, and the masked re-judging, if any, run
    concurrently."""
    twice = subject.request.integrity == "judge-twice"
    if subject.characters <= INSPECTED_AT_ONCE and not twice and len(subject.dialogues) == 1:
        # The usual case: only the judge takes time, and a task per step would cost more than the step.
        suspicions = await inspect(subject, context.speech)
        return suspicions, [await judge_path(subject, path, context) for path in subject.dialogues], None
    suspicions, *measured, rejudged = await run_together(
        inspect(subject, context.speech),
        *(judge_path(subject, path, context) for path in subject.dialogues),
        rejudge_masked(subject, context),
    )
    return suspicions, measured, rejudged


async def inspect(subject: Subject, speech: SpeechChecks) -> tuple[Warned, ...]:
    """Warnings about attacks on the judge and about the response's language and register."""

    def look(checkpoint: Checkpoint) -> tuple[Warned, ...]:
        # The original dialogue: a translation is in the right language.
        return *find_suspicions(subject, checkpoint), *speech.check(subject.given, subject.rubric.source_language)

    return await look_at(subject, look)


async def judge_path(subject: Subject, path: Path, context: ScoringContext) -> tuple[Judgement, RelevanceResult | None]:
    """Judges the dialogue in one language and measures its relevance concurrently."""
    if subject.relevance is None:
        return await ask_judge(subject.task(path, context.lane), context), None
    judgement, relevance = await run_together(
        ask_judge(subject.task(path, context.lane), context),
        context.relevance.measure(subject.language(path), subject.dialogues[path], subject.relevance, subject.scope),
    )
    return judgement, relevance


async def rejudge_masked(subject: Subject, context: ScoringContext) -> MaskedJudgement | None:
    """The judgement without the suspicious spans, if the policy asks for it and there are any."""
    if subject.request.integrity != "judge-twice":
        return None
    masked = await find_masked(subject)
    if masked is None:
        return None
    path, task, spans = masked
    return MaskedJudgement(path, spans, await ask_judge(replace(task, lane=context.lane), context))


async def ask_judge(task: JudgingTask, context: ScoringContext) -> Judgement:
    """Asks the judge, and counts the cost."""
    started = time.monotonic()
    model = task.options.model or context.judge.default_model
    with context.telemetry.span("judge", rubric=task.rubric.id, model=model) as span, task.scope.part() as part:
        judgement = await context.judge.judge(replace(task, scope=part))
        span.note(cached=judgement.cached)
        # Calls that were paid for one by one are not counted again; one that another caller began is counted here.
        part.cost_usd = max(part.cost_usd, judgement.usage.cost_usd or 0.0)
    context.telemetry.judged(context.judge.kind, judgement.usage, time.monotonic() - started)
    return judgement


def explain_missing(judgements: Sequence[Judgement]) -> JudgeReplyInvalid | None:
    """The error if the judge rated no aspect in any of these judgements, although it was asked to."""
    samples = [
        sample for judgement in judgements for verdict in judgement.verdicts.values() for sample in verdict.samples
    ]
    asked = [sample for sample in samples if not isinstance(sample, Unrated) or sample.reason != "not-applicable"]
    missing = [sample for sample in asked if isinstance(sample, Unrated)]
    if len(missing) < len(asked) or any(sample.reason == "not-supported" for sample in missing):
        return None
    reasons = ", ".join(sorted({sample.reason for sample in missing}))
    calls = [call for judgement in judgements for call in judgement.trace]
    words = next((call.refusal for call in calls if call.finish_reason == "content_filter" and call.refusal), "")
    # A provider's words are told, and not logged.
    hint = next((f": {sample.detail.removesuffix(f': {words}')}" for sample in missing if sample.detail), "")
    replies = sum(len(judgement.trace) for judgement in judgements)
    dropped = sorted({name for judgement in judgements for name in judgement.provenance.dropped})
    refused = Message("endpoint-refused", names=", ".join(dropped)) if dropped else ""
    detail = Message("judge-rated-nothing", replies=replies, reasons=reasons, hint=hint, refused=refused)
    return JudgeReplyInvalid(detail, said=words or quote_reply(call.reply for call in judgements[0].trace) or "")
