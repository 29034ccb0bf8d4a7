"""Pausing, resuming and cancelling a batch."""

from __future__ import annotations

import logging

from sqlalchemy import ColumnElement, update

from app.adapters.sql.batches.account import lock_batches, log_paused, store_accounts
from app.adapters.sql.batches.part import ACTIVE
from app.adapters.sql.batches.views import Views
from app.adapters.sql.engine import change, write
from app.adapters.sql.tables import batch_chunks, batches, can_hold
from app.domain.batch import Batch

logger = logging.getLogger("saiten.batches")


class Steering(Views):
    """Changes a batch's status. Leases stay with their owners, who learn of it when they renew or commit."""

    async def pause(self, batch_id: str, reason: str, detail: str, *, project: str | None = None) -> Batch | None:
        this = identify(batch_id, project)
        if this is None:
            return None
        changed = False
        async with change(self._engine) as connection:
            found = (await lock_batches(connection, [batch_id])).get(batch_id)
            mine = found is not None and project in {None, found.row._mapping["project"]}
            if found is not None and mine and found.account.is_active:
                found.account.pause(reason, detail, self._clock())
                await store_accounts(connection, [found])
                changed = True
        if changed:
            log_paused(batch_id, reason)
        return await self._look(this)

    async def resume(self, project: str, batch_id: str) -> Batch | None:
        this = identify(batch_id, project)
        if this is None:
            return None
        waiting = {"status": "queued", "pause_reason": None, "pause_detail": None}
        chunk = batch_chunks.c
        async with write(self._engine) as connection:
            resumed = await connection.execute(
                update(batches).where(this, batches.c.status == "paused").values(waiting)
            )
            if resumed.rowcount == 1:
                # Whatever the queue held of it was turned away meanwhile.
                turned_away = update(batch_chunks).where(chunk.batch_id == batch_id, chunk.state == "queued")
                await connection.execute(turned_away.values(state="waiting", queued_at=None))
        if resumed.rowcount:
            logger.info("batch resumed", extra={"batch_id": batch_id})
        return await self._look(this)

    async def cancel(self, project: str, batch_id: str) -> Batch | None:
        this = identify(batch_id, project)
        if this is None:
            return None
        ended = {"status": "cancelled", "finished_at": self._clock(), "pause_reason": None, "pause_detail": None}
        async with write(self._engine) as connection:
            steerable = batches.c.status.in_((*ACTIVE, "paused"))
            changed = (await connection.execute(update(batches).where(this, steerable).values(ended))).rowcount
        if changed:
            logger.info("batch cancelled", extra={"batch_id": batch_id})
        return await self._look(this)


def identify(batch_id: str, project: str | None) -> ColumnElement[bool] | None:
    """The condition that finds the batch; None where there can be none of that name."""
    if not can_hold(batch_id, project or ""):
        return None
    this = batches.c.id == batch_id
    return this if project is None else this & (batches.c.project == project)
