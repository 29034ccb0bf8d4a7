"""How a score is made: rubric, translate, judge, relevance, blend, compose, sign."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from app.case import Case, find_suspicions, open_case
from app.concurrency import run_together
from app.domain.errors import JudgeReplyInvalid
from app.domain.evaluation import EvaluationRequest, Path, Record, RelevanceOptions, RelevanceResult, Unrated, Warned
from app.ports import Judge, Judgement, JudgingTask, Lane, RubricSource, SpeechCheck, Telemetry, Translator
from app.record import PathReading, write_reading, write_record
from app.relevance import Relevance

INSPECTED_AT_ONCE = 4_000
"""Characters whose inspection takes less time (about a millisecond) than it is worth a thread for."""


@dataclass(frozen=True)
class Instruments:
    """What an evaluation is made with. `now` and `new_id` are passed in, so that a test can hold them still.

    `lane` is "batch" where nobody waits for a single answer.
    """

    rubrics: RubricSource
    judge: Judge
    translator: Translator | None
    relevance: Relevance
    telemetry: Telemetry
    speech: SpeechCheck
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    lane: Lane = "interactive"


async def evaluate(request: EvaluationRequest, instruments: Instruments) -> Record:
    """Scores one response. Raises InvalidRequest for what the rubric cannot do, UpstreamError for what others did.

    A response of which the judge rated not one aspect is an error (JudgeReplyInvalid) where somebody waits for it; in a
    batch it is a record like any other, with the status `failed`.
    """
    started = time.monotonic()
    rubric = instruments.rubrics.get(request.rubric)
    batch = instruments.lane == "batch"
    case = await open_case(request, rubric, instruments.translator, batch=batch)
    suspicions, *readings = await run_together(
        inspect(case, instruments.speech), *(read(case, path, instruments) for path in case.dialogues)
    )
    if not batch:
        refuse_unrated(readings)
    by_path = dict(zip(case.dialogues, readings, strict=True))
    record = write_record(case, by_path, suspicions, instruments.new_id(), instruments.now())
    instruments.telemetry.evaluated(rubric.id, record.evaluation.status, time.monotonic() - started)
    for warning in record.evaluation.warnings:
        instruments.telemetry.warned(warning.code)
    return record


async def inspect(case: Case, speech: SpeechCheck) -> tuple[Warned, ...]:
    """What in the texts looks like an attack on the judge, and what of the response's language and register strikes.

    In a thread where the texts are long: seconds of CPU at worst.
    """

    def look() -> tuple[Warned, ...]:
        # The dialogue as it was given: a translation has the language that it should have.
        return *find_suspicions(case), *speech.check(case.request.dialogue, case.rubric.source_language)

    return look() if case.characters <= INSPECTED_AT_ONCE else await asyncio.to_thread(look)


async def read(case: Case, path: Path, instruments: Instruments) -> PathReading:
    """Judges and measures the dialogue in one language, side by side."""
    if case.relevance is None:
        return write_reading(case, path, await judge(case, path, instruments), None)
    judgement, relevance = await run_together(
        judge(case, path, instruments), measure(case, path, instruments, case.relevance)
    )
    return write_reading(case, path, judgement, relevance)


async def judge(case: Case, path: Path, instruments: Instruments) -> Judgement:
    """The judge's answer, counted."""
    started = time.monotonic()
    request, dialogue = case.request, case.dialogues[path]
    task = JudgingTask(case.rubric, case.language(path), dialogue, request.judge, case.references, instruments.lane)
    judgement = await instruments.judge.judge(task)
    instruments.telemetry.judged(instruments.judge.kind, judgement.usage, time.monotonic() - started)
    return judgement


def refuse_unrated(readings: Iterable[PathReading]) -> None:
    """Raises JudgeReplyInvalid where the judge rated not one aspect on any path."""
    verdicts = [verdict for reading in readings for verdict in reading.judgement.verdicts.values()]
    samples = [sample for verdict in verdicts for sample in verdict.samples]
    missing = [sample for sample in samples if isinstance(sample, Unrated)]
    if len(missing) == len(samples):
        reasons = ", ".join(sorted({sample.reason for sample in missing}))
        hint = next((f": {sample.detail}" for sample in missing if sample.detail), "")
        raise JudgeReplyInvalid(f"the judge was asked twice and rated no aspect ({reasons}){hint}")


async def measure(case: Case, path: Path, instruments: Instruments, options: RelevanceOptions) -> RelevanceResult:
    """The similarity of last utterance and response."""
    return await instruments.relevance.measure(case.language(path), case.dialogues[path], options)
