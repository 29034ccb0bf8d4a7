"""Pinned baselines, which are erased with their batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import Baseline
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import baselines as table
from saiten_server.platform.sql.tables import batches, equals
from saiten_server.runs.store.rows import RECEIVING

pinned = table.c

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
            others = select(func.count()).select_from(table).where(pinned.project == project, pinned.key != key)
            if (await connection.execute(others)).scalar_one() >= MOST_BASELINES:
                raise InvalidRequest(Message("baselines-most", most=MOST_BASELINES))
            await connection.execute(db.insert_or_replace(connection, table), row)

    async def remove(self, project: str, name: str) -> bool:
        """Unpins the name's baseline; returns whether there was one."""
        mine = equals(pinned.project, project), pinned.key == digest(name)
        return bool(await db.execute(self._engine, delete(table).where(*mine)))

    async def list(self, project: str, names: Collection[str] | None = None) -> Sequence[Baseline]:
        """The project's baselines in the order of their names; of these names only, if given."""
        query = select(pinned.name, pinned.batch_id, pinned.pinned_at).where(equals(pinned.project, project))
        if names is not None:
            query = query.where(pinned.key.in_(sorted(map(digest, names))))
        rows = await db.fetch(self._engine, query.order_by(pinned.name))
        return [Baseline(name=row.name, batch=row.batch_id, pinned_at=row.pinned_at) for row in rows]
