"""What scores mean: analyses, comparisons, gates and checks of the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeVar

from app.comparison.inputs import adapt, compares_systems, make_reader, refuse_unknown, uses_scores
from app.comparison.judge_checks import AnchorCheck
from app.comparison.runs import assemble_run, best_of, find_batch, read_items, tabulate
from app.domain.analysis_request import (
    AnalysisRequest,
    ComparisonRequest,
    GateRequest,
)
from app.domain.comparison import ComparedRun, Comparison, GateReport
from app.domain.errors import InvalidRequest
from app.domain.judge_check import JudgeCheck, JudgeCheckRequest
from app.domain.reliability import State
from app.domain.reports import CorrelationReport, Report
from app.providers.ports import RequestScope
from app.ratings.counted import read_ratings
from app.ratings.reliability import Reliabilities, asked_of, attach_states, key_in, measures_of, validation_of
from app.runtime.ports import RubricSource, Telemetry
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.ratings import RatingStore

if TYPE_CHECKING:
    from app.stats.observations import Observations

Result = TypeVar("Result")

AT_ONCE = 2
"""Analyses that this process computes at a time, each in a thread: more would only slow each other and the service."""


class ComparisonService:
    """Analyses, comparisons, gates and judge checks, within the caller's project.

    Methods raise NotFound for a batch that is not in the project, InvalidRequest, UnknownRubric, SignatureMismatch, and
    StoreError.
    """

    def __init__(
        self,
        *,
        batches: BatchStore,
        ratings: RatingStore,
        rubrics: RubricSource,
        reliabilities: Reliabilities,
        anchors: AnchorCheck,
        now: Callable[[], datetime],
        telemetry: Telemetry | None = None,
    ) -> None:
        self._batches = batches
        self._ratings = ratings
        self._rubrics = rubrics
        self._reliabilities = reliabilities
        self._anchors = anchors
        self._now = now
        self._telemetry = telemetry
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def analyse(self, project: str, request: AnalysisRequest, *, remember: bool = True) -> Report:
        """The analysis of the request's data, or of its batches.

        `remember`: a correlation of batches with humans becomes the badge of the judge that rated them.
        """
        if request.batch_ids:
            report = await self._analyse_batches(project, request)
            if remember and isinstance(report, CorrelationReport):
                await self._remember(project, request.batch_ids, report)
            return report
        if request.data is None:
            raise InvalidRequest("give data, or a batch", pointer="")
        records = request.data

        def work() -> Report:
            # numpy is loaded here, in a thread, so that the service starts quickly.
            from app.comparison.analyses import analyse

            return analyse(request, self.read(request, records), self._rubrics)

        return await self.compute(work)

    async def compute(self, work: Callable[[], Result]) -> Result:
        """The work's result; in a thread, and few at a time."""
        async with self._gate:
            return await asyncio.to_thread(work)

    async def analyse_text(self, request: AnalysisRequest, body: bytes, *, csv: bool) -> Report:
        """The analysis of records that come as CSV or as NDJSON."""

        def work() -> Report:
            from app.comparison.analyses import analyse
            from app.stats.reading import read_csv, read_ndjson

            form = read_csv if csv else read_ndjson
            # Lines one at a time: as a list, the shortest would take twenty times the body.
            observations = form(BytesIO(body), make_reader(request, self._rubrics))
            return analyse(request, observations, self._rubrics)

        return await self.compute(work)

    def read(self, request: AnalysisRequest, records: Sequence[Any]) -> Observations:
        """The records as columns; raises InvalidLines."""
        reader = make_reader(request, self._rubrics, noun="record")
        for number, record in enumerate(records, start=1):
            reader.add(record, number)
        return reader.finish()

    async def _analyse_batches(self, project: str, request: AnalysisRequest) -> Report:
        batches = [await find_batch(self._batches, project, batch_id) for batch_id in dict.fromkeys(request.batch_ids)]
        wanted = adapt(request, batches)
        best: dict[str, float] = {}
        for batch in batches:
            best |= best_of(self._rubrics.nearest(batch.rubric_name))
        table = await tabulate(self._batches, project, batches)
        by_scores = uses_scores(wanted)
        found = None if by_scores else await read_ratings(self._ratings, project, [batch.id for batch in batches])

        def work() -> Report:
            from app.comparison.analyses import analyse, orient
            from app.ratings.table import judge_opinions, rater_opinions

            opinions = judge_opinions(table) if found is None else rater_opinions(table, found.ratings)
            refuse_unknown(opinions, wanted.aspects)
            observations = opinions.observe(wanted.aspects)
            if compares_systems(wanted):
                observations = orient(observations, best)
            report = analyse(wanted, observations, self._rubrics)
            return report if found is None else report.model_copy(update={"ratings_used": found.used})

        return await self.compute(work)

    async def _remember(self, project: str, ids: Sequence[str], report: CorrelationReport) -> None:
        """Keeps the correlation as the badge of the judge, where it was one judge."""
        batches = [await find_batch(self._batches, project, batch_id) for batch_id in dict.fromkeys(ids)]
        keys = {key_in(line) for batch in batches for line in batch.signature_lines}
        found = validation_of(report, batches[0].id if len(batches) == 1 else None, self._now())
        if found is not None and len(keys) == 1:
            await self._reliabilities.keep(project, keys.pop(), found)

    async def compare(self, project: str, request: ComparisonRequest) -> Comparison:
        """The candidate batch against the baseline batch."""
        baseline = await self._run(project, request.baseline)
        candidate = await self._run(project, request.candidate)

        def work() -> Comparison:
            from app.stats.comparison import compare

            return compare(
                baseline,
                candidate,
                alpha=request.alpha,
                test=request.test,
                allow_signature_mismatch=request.allow_signature_mismatch,
                seed=request.seed,
            )

        found = await self.compute(work)
        states = await self._states_of(project, [baseline, candidate], measures_of(found))
        return found.model_copy(update={"reliability": states})

    async def _states_of(self, project: str, runs: Sequence[ComparedRun], names: Sequence[str]) -> dict[str, State]:
        """By measure whether the judges of all these runs follow people."""
        return await self._reliabilities.states(project, {line for run in runs for line in run.signatures}, names)

    async def gate(self, project: str, request: GateRequest, scope: RequestScope | None = None) -> GateReport:
        """The verdict on the candidate batch. With `check_judge` the judge that rated it is asked for the anchors, but
        not before all else is known to be in order: a refused gate costs no call. Only this is counted as a gate; a
        page that shows a verdict is drawn again and again."""
        report = await self._judge_gate(project, request, scope or RequestScope())
        if self._telemetry is not None:
            self._telemetry.gated(report.verdict)
        return report

    async def _judge_gate(self, project: str, request: GateRequest, scope: RequestScope) -> GateReport:
        candidate = await self._run(project, request.candidate)
        baseline = await self._run(project, request.baseline) if request.baseline else None

        def work() -> GateReport:
            from app.stats.gate import judge_gate, tell_coverage

            if request.coverage_only:
                return tell_coverage(
                    candidate, request.judge_check, alpha=request.alpha, min_coverage=request.min_coverage
                )
            return judge_gate(
                candidate,
                baseline,
                request.rules,
                alpha=request.alpha,
                min_coverage=request.min_coverage,
                test=request.test,
                allow_signature_mismatch=request.allow_signature_mismatch,
                seed=request.seed,
                judge=request.judge_check,
            )

        report = await self.compute(work)
        runs = [candidate] if baseline is None else [candidate, baseline]
        report = attach_states(report, await self._states_of(project, runs, asked_of(report)))
        if request.judge_check is not None or not request.check_judge:
            return report
        from app.stats.gate import judge_again

        return judge_again(report, await self._check_of(project, request.candidate, scope))

    async def check_judge(
        self, project: str, request: JudgeCheckRequest, scope: RequestScope | None = None
    ) -> JudgeCheck:
        """Whether the judge moved. `scope` names the caller and collects the cost."""
        return await self._anchors.check(project, request, scope or RequestScope())

    async def _check_of(self, project: str, batch_id: str, scope: RequestScope) -> JudgeCheck:
        batch = await find_batch(self._batches, project, batch_id)
        path = "source" if batch.path == "both" else batch.path
        request = JudgeCheckRequest(rubric=batch.rubric_name, path=path, judge=batch.judge)
        try:
            return await self._anchors.check(project, request, scope)
        except InvalidRequest as error:
            # The pointer of the error is into the request made here, not the caller's.
            raise InvalidRequest(error.detail, pointer="/check_judge") from None

    async def _run(self, project: str, batch_id: str) -> ComparedRun:
        batch = await find_batch(self._batches, project, batch_id)
        rubric = self._rubrics.nearest(batch.rubric_name)
        items = await read_items(self._batches, project, batch)
        return await asyncio.to_thread(assemble_run, batch, items, rubric)
