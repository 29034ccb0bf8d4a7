"""The quota of bytes that a project may store."""

from __future__ import annotations

import time
from collections.abc import Callable

from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import ProjectFull
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.sizes import COPIES, RESULT_BYTES, ROW_BYTES
from saiten_server.platform.sql.tables import equals
from saiten_server.runs.datasets.store import DONE
from saiten_server.runs.store.rows import ACTIVE
from saiten_server.runs.store.views import LEFT

FRESH_SECONDS = 5.0
"""How long a sum is taken for the present one. What this process lets in meanwhile is added to it."""

batch, dataset, rest = t.batches.c, t.datasets.c, t.project_bytes.c


def expect_bytes(texts: int, candidates: int) -> int:
    """What a batch will take with its results, from the bytes of its candidates' texts."""
    return COPIES * texts + candidates * (ROW_BYTES + RESULT_BYTES)


class StorageQuota:
    """Bounds the bytes that each project stores to `most`; None is no bound. `refused` is told of each refusal.
    Several processes do not see what the others let in within `FRESH_SECONDS`."""

    def __init__(
        self,
        engine: AsyncEngine,
        most: int | None,
        *,
        refused: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self.most = most
        self._refused = refused
        self._clock = clock
        self._known: dict[str, tuple[float, int]] = {}

    async def used(self, project: str) -> int:
        """The bytes that the project stores, with those that the results of its batches will take; at most
        `FRESH_SECONDS` old."""
        now = self._clock()
        read_at, size = self._known.get(project, (-FRESH_SECONDS, 0))
        if now - read_at < FRESH_SECONDS:
            return size
        if project in self._known:
            self._known[project] = (now, size)  # others go by that one meanwhile, and only this caller asks
        size = await count_stored(self._engine, project)
        self._known[project] = (now, size)
        return size

    async def require_room(self, project: str, more: int = 0) -> None:
        """Raises ProjectFull where the project has reached the quota, or would exceed it with `more` bytes, which are
        counted as stored otherwise."""
        if self.most is None:
            return
        used = await self.used(project)
        if used >= self.most or used + more > self.most:
            self._refused()
            raise ProjectFull(used=used, more=more, most=self.most)
        if more:
            read_at, size = self._known[project]
            self._known[project] = (read_at, size + more)


async def count_stored(engine: AsyncEngine, project: str) -> int:
    """What `StorageQuota.used` says, as of now. Reads a row for each batch and dataset of the project."""
    waiting = case((batch.status.in_((*ACTIVE, "paused")), LEFT), else_=0)
    sums = (
        select(func.sum(batch.stored_bytes + RESULT_BYTES * waiting)).where(equals(batch.project, project)),
        select(func.sum(dataset.bytes)).where(equals(dataset.project, project), dataset.state != DONE),
        select(func.sum(t.gates.c.bytes)).where(equals(t.gates.c.project, project)),
        select(func.sum(rest.bytes)).where(equals(rest.project, project)),
    )
    async with db.read(engine) as connection:
        found = (await connection.execute(select(*(each.scalar_subquery() for each in sums)))).one()
    return sum(int(size or 0) for size in found)
