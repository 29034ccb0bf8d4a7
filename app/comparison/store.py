"""What is kept of comparisons: pinned baselines, and verdicts of gates, for CI and the explorer to say the same.

A baseline is erased with its batch, and a verdict with either of its batches.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, delete, func, insert, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.given_runs import batch_of
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.values import GateReport
from saiten_server.core.batch import Baseline
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.sizes import ROW_BYTES, count_bytes
from saiten_server.platform.sql.tables import Instant, baselines, batches, can_store, equals, gates
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.rows import RECEIVING
from saiten_server.scoring.store import STORED

pinned = baselines.c

MOST_BASELINES = 1000
"""Of a project."""


class BaselineStore:
    """Baselines by project and name. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, project: str, baseline: Baseline) -> None:
        """Stores it in the place of the name's earlier one. Raises NotFound if its batch is gone, and InvalidRequest
        beyond `MOST_BASELINES`."""
        key = digest(baseline.name)
        mine = (batches.c.id == baseline.batch, batches.c.project == project, batches.c.status != RECEIVING)
        row = {
            "project": project,
            "key": key,
            "name": baseline.name,
            "batch_id": baseline.batch,
            "pinned_at": baseline.pinned_at,
        }
        async with db.change(self._engine) as connection:
            held = select(batches.c.id).where(*mine).with_for_update(key_share=True, read=True)
            if not (await connection.execute(held)).all():
                raise NotFound(Message("baseline-batch-erased"))
            others = select(func.count()).select_from(baselines).where(pinned.project == project, pinned.key != key)
            if (await connection.execute(others)).scalar_one() >= MOST_BASELINES:
                raise InvalidRequest(Message("baselines-most", most=MOST_BASELINES))
            await connection.execute(db.insert_or_replace(connection, baselines), row)

    async def remove(self, project: str, name: str) -> bool:
        """Unpins the name's baseline; returns whether there was one."""
        mine = equals(pinned.project, project), pinned.key == digest(name)
        return bool(await db.execute(self._engine, delete(baselines).where(*mine)))

    async def list(self, project: str, names: Collection[str] | None = None) -> Sequence[Baseline]:
        """The project's baselines in the order of their names; of these names only, if given."""
        query = select(pinned.name, pinned.batch_id, pinned.pinned_at).where(equals(pinned.project, project))
        if names is not None:
            query = query.where(pinned.key.in_(sorted(map(digest, names))))
        rows = await db.fetch(self._engine, query.order_by(pinned.name))
        return [Baseline(name=row.name, batch=row.batch_id, pinned_at=row.pinned_at) for row in rows]


gate = gates.c


class GateStore:
    """Kept verdicts by project. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, project: str, report: GateReport) -> None:
        """Stores a verdict that has its id. Raises NotFound where one of its batches is gone."""
        runs = report.runs or {}
        written = await asyncio.to_thread(report.model_dump_json)
        row = {
            "id": report.id,
            "project": project,
            "candidate": runs.get("candidate"),
            "baseline": runs.get("baseline"),
            "at": report.at,
            "metadata": to_json(report.metadata or {}).decode(),
            "report": written,
            "bytes": count_bytes(written) + ROW_BYTES,
        }
        ids = sorted({one for one in runs.values() if one is not None})
        mine = (batches.c.id.in_(ids), batches.c.project == project, batches.c.status != RECEIVING)
        async with db.change(self._engine) as connection:
            # Held to the end, in the order of all who lock several: an erasure then takes the verdict along.
            held = select(batches.c.id).where(*mine).order_by(batches.c.id).with_for_update(key_share=True, read=True)
            if len((await connection.execute(held)).all()) < len(ids):
                raise NotFound(Message("gate-batch-erased"))
            await connection.execute(insert(gates), row)

    async def find(self, project: str, gate_id: str) -> GateReport | None:
        """The verdict; None where the project has none of that id."""
        query = select(gate.report).where(equals(gate.project, project), equals(gate.id, gate_id))
        found = await db.fetch_value(self._engine, query)
        return None if found is None else await asyncio.to_thread(read_report, found)

    async def erase_marked(self, project: str, marked: Sequence[ColumnElement[bool]]) -> int:
        """Removes those whose metadata fit these conditions; returns how many."""
        return int(await db.execute(self._engine, delete(gates).where(equals(gate.project, project), *marked)))

    async def list(
        self,
        project: str,
        *,
        candidate: str | None,
        baseline: str | None,
        after: tuple[datetime, str] | None,
        limit: int,
    ) -> list[GateReport]:
        """Those of these batches, newest first; `after` is (at, id) of the last one of the page before."""
        # Last in the class, because its name shadows the built-in type.
        if not can_store(project, candidate or "", baseline or ""):
            return []
        query = select(gate.report).where(gate.project == project)
        for column, wanted in ((gate.candidate, candidate), (gate.baseline, baseline)):
            if wanted is not None:
                query = query.where(column == wanted)
        if after is not None:
            place = tuple_(literal(after[0], Instant()), literal(after[1]))
            query = query.where(tuple_(gate.at, gate.id) < place)
        query = query.order_by(gate.at.desc(), gate.id.desc()).limit(limit)
        found = await db.fetch_column(self._engine, query)
        return await asyncio.to_thread(lambda: [*map(read_report, found)])


def read_report(text: Any) -> GateReport:
    """The verdict of a row."""
    return GateReport.model_validate_json(text, context=STORED)


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
