"""Sequences of builds: which place a candidate has, and the verdict on it by all builds since the baseline."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.comparison.given_runs import batch_of
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.runs import find_batch
from saiten_server.comparison.sequences.store import SequenceStore
from saiten_server.comparison.values import ComparedRun, GateReport, GateSequence
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.runs.store.batches import BatchStore

POINTER = "/sequence"


@dataclass(kw_only=True, eq=False)
class SequenceService:
    """Sequences within the caller's project. Methods raise NotFound, InvalidRequest and StoreError."""

    batches: BatchStore
    store: SequenceStore
    now: Callable[[], datetime]

    async def list(self, project: str) -> builtins.list[GateSequence]:
        """In the order of their names, without their builds."""
        return [*await self.store.list(project)]

    async def find(self, project: str, name: str) -> GateSequence:
        """The sequence with its builds."""
        found = await self.store.find(project, name)
        if found is None:
            raise NotFound(Message("sequence-not-found"))
        return found

    async def remove(self, project: str, name: str) -> GateSequence:
        """Forgets the sequence, which is returned; its batches stay."""
        found = await self.find(project, name)
        await self.store.remove(project, name)
        return found

    async def settle(self, project: str, request: GateRequest) -> GateRequest:
        """The request with the baseline and the alpha of its sequence, where it is begun. Raises InvalidRequest where
        it asks for others, or for what no sequence judges."""
        if request.sequence is None:
            return request
        if request.link is not None or request.coverage_only or request.estimate != "judge":
            raise InvalidRequest(Message("sequence-options"), pointer=POINTER)
        if request.test == "unpaired":
            raise InvalidRequest(Message("sequence-unpaired"), pointer=POINTER)
        known = await self.store.find(project, request.sequence)
        if known is None:
            return request
        if request.baseline not in {None, known.baseline}:
            detail = Message("sequence-judged-against", baseline=known.baseline)
            raise InvalidRequest(detail, pointer="/baseline")
        if "alpha" in request.model_fields_set and request.alpha != known.alpha:
            raise InvalidRequest(Message("sequence-begun-with", alpha=known.alpha), pointer="/alpha")
        return request.model_copy(update={"baseline": known.baseline, "alpha": known.alpha})

    async def judge(
        self,
        project: str,
        request: GateRequest,
        report: GateReport,
        *,
        runs: tuple[ComparedRun, ComparedRun | None],
        read: Callable[[str], Awaitable[ComparedRun]],
        compute: Callable[[Callable[[], GateReport]], Awaitable[GateReport]],
    ) -> GateReport:
        """The report of the plain gate, its rules judged again by the sequence; `runs` are candidate and baseline. The
        candidate gets the next place, or keeps its own."""
        if request.sequence is None:
            return report
        candidate, baseline = runs
        before, named = batch_of(request.baseline), batch_of(request.candidate)
        if baseline is None or before is None or named is None:
            raise InvalidRequest(Message("sequence-baseline-missing"), pointer=POINTER)
        if before == named:
            raise InvalidRequest(Message("sequence-baseline-itself"), pointer="/candidate")
        batch = await find_batch(self.batches, project, named)
        if batch.status != "completed":
            raise InvalidRequest(Message("sequence-not-completed", status=batch.status), pointer="/candidate")
        begun = GateSequence(name=request.sequence, baseline=before, alpha=request.alpha, started_at=self.now())
        night = await self.store.enter(project, begun, named, self.now())
        sequence = await self.find(project, request.sequence)
        from saiten_server.comparison.sequences.gate import LOOKS_BACK, judge_in_sequence

        held = [(one.night, one.batch) for one in sequence.builds if one.night < night and one.batch is not None]
        earlier = {place: await read(one) for place, one in held[-LOOKS_BACK:]}
        judged = await compute(
            lambda: judge_in_sequence(report, candidate, baseline, earlier, sequence=sequence, night=night)
        )
        drops = {} if judged.sequence is None else judged.sequence.drops
        await self.store.settle(project, request.sequence, night, judged.verdict, drops)
        return judged
