"""Verdicts of gates that are kept, for CI and the explorer to say the same."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.comparison.gates.store import GateStore
from saiten_server.comparison.given_runs import batch_of
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.values import GateReport
from saiten_server.core.errors import NotFound
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore


@dataclass(kw_only=True, eq=False)
class GateArchive:
    """The kept verdicts within the caller's project. Methods raise NotFound, ProjectFull and StoreError."""

    batches: BatchStore
    store: GateStore
    quota: StorageQuota
    now: Callable[[], datetime]
    new_id: Callable[[], str]

    async def keep(self, project: str, request: GateRequest, report: GateReport) -> GateReport:
        """Stores the verdict; returns it with its id. It goes with either of its batches."""
        candidate, baseline = batch_of(request.candidate), batch_of(request.baseline)
        metadata = request.metadata
        if not metadata and candidate is not None:
            batch = await self.batches.find(project, candidate)
            metadata = {} if batch is None else batch.metadata
        kept = report.model_copy(
            update={
                "id": self.new_id(),
                "at": self.now(),
                "runs": {"candidate": candidate, "baseline": baseline},
                "metadata": dict(metadata),
            }
        )
        await self.quota.require_room(project)
        await self.store.keep(project, kept)
        return kept

    async def find(self, project: str, gate_id: str) -> GateReport:
        """The kept verdict."""
        found = await self.store.find(project, gate_id)
        if found is None:
            raise NotFound(Message("gate-not-found", gate=gate_id[:64]))
        return found

    async def list(
        self,
        project: str,
        *,
        candidate: str | None = None,
        baseline: str | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> builtins.list[GateReport]:
        """Those of these batches, newest first."""
        return await self.store.list(project, candidate=candidate, baseline=baseline, after=after, limit=limit)
