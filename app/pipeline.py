"""How a score is made: rubric, translate, judge, relevance, blend, compose, sign."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from app.case import Case, open_case
from app.concurrency import run_together
from app.domain.errors import JudgeReplyInvalid
from app.domain.evaluation import EvaluationRequest, Path, Record, RelevanceResult, Unrated, Warned
from app.domain.untrusted import inspect_dialogue
from app.ports import Judge, Judgement, JudgingTask, RubricSource, Telemetry, Translator
from app.record import Reading, write_reading, write_record
from app.relevance import Relevance


@dataclass(frozen=True)
class Instruments:
    """What an evaluation is made with. `now` and `new_id` are passed in, so that a test can hold them still."""

    rubrics: RubricSource
    judge: Judge
    translator: Translator | None
    relevance: Relevance
    telemetry: Telemetry
    now: Callable[[], datetime]
    new_id: Callable[[], str]


async def evaluate(request: EvaluationRequest, instruments: Instruments) -> Record:
    """Scores one response. Raises InvalidRequest for what the rubric cannot do, UpstreamError for what others did."""
    started = time.monotonic()
    rubric = instruments.rubrics.get(request.rubric)
    case = await open_case(request, rubric, instruments.translator)
    suspicions, *readings = await run_together(
        inspect(case), *(read(case, path, instruments) for path in case.dialogues)
    )
    by_path = dict(zip(case.dialogues, readings, strict=True))
    record = write_record(case, by_path, suspicions, instruments.new_id(), instruments.now())
    instruments.telemetry.evaluated(rubric.id, record.evaluation.status, time.monotonic() - started)
    for warning in record.evaluation.warnings:
        instruments.telemetry.warned(warning.code)
    return record


async def inspect(case: Case) -> tuple[Warned, ...]:
    """What in the texts looks like an attack on the judge. In a thread: a large body takes seconds of CPU."""
    names = [name for aspect in case.rubric.aspects for name in aspect.name.values()]
    english = case.dialogues.get("english")
    return await asyncio.to_thread(inspect_dialogue, case.request.dialogue, translation=english, aspects=names)


async def read(case: Case, path: Path, instruments: Instruments) -> Reading:
    """Judges and measures the dialogue in one language, side by side."""
    judgement, relevance = await run_together(judge(case, path, instruments), measure(case, path, instruments))
    return write_reading(case, path, judgement, relevance)


async def judge(case: Case, path: Path, instruments: Instruments) -> Judgement:
    """The judge's answer, counted. Raises JudgeReplyInvalid where not one aspect could be rated."""
    started = time.monotonic()
    request, dialogue = case.request, case.dialogues[path]
    task = JudgingTask(case.rubric, case.language(path), dialogue, request.judge, request.references)
    judgement = await instruments.judge.judge(task)
    instruments.telemetry.judged(instruments.judge.kind, judgement.usage, time.monotonic() - started)
    samples = [sample for verdict in judgement.verdicts.values() for sample in verdict.samples]
    if all(isinstance(sample, Unrated) for sample in samples):
        reasons = sorted({sample.reason for sample in samples if isinstance(sample, Unrated)})
        raise JudgeReplyInvalid(f"the judge was asked twice and rated no aspect ({', '.join(reasons)})")
    return judgement


async def measure(case: Case, path: Path, instruments: Instruments) -> RelevanceResult | None:
    """The similarity of last utterance and response where an aspect is blended."""
    if case.relevance is None:
        return None
    return await instruments.relevance.measure(case.language(path), case.dialogues[path], case.relevance)
