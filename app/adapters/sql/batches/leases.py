"""Leasing chunks: one owner at a time, until the lease runs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked, hold_batches, lock_batches, lock_held, log_paused, store_accounts
from app.adapters.sql.batches.budget import EXHAUSTED, Budget
from app.adapters.sql.batches.closing import RELEASED, close_chunks
from app.adapters.sql.batches.holding import find_held, hold_condition, stopped_among
from app.adapters.sql.batches.part import StorePart, whole_seconds
from app.adapters.sql.batches.reservations import spend_lost
from app.adapters.sql.batches.results import read_placed
from app.adapters.sql.batches.texts import read_options
from app.adapters.sql.engine import change, read, write
from app.adapters.sql.governance import find_overspent
from app.adapters.sql.tables import batch_chunks, batch_items, batches, can_hold, evaluations
from app.batch_ports import COLLECT, FINISH, MOST_SET_ASIDE, Committed, Job, Work, reckon_candidate

OVERSPENT = "cost-limit-reached"

chunk, item = batch_chunks.c, batch_items.c


class Leases(StorePart):
    """Gives chunks to workers and knows whose they are."""

    async def claim(self, job: Job, owner: str, lease_seconds: float, begun: int = 0) -> Work | None:
        if not can_hold(job.batch):
            return None
        now = self._clock()
        async with change(self._engine) as connection:
            batch = (await hold_batches(connection, [job.batch])).get(job.batch)
            if batch is not None and (batch.account.status == "queued" or batch.row.budget_usd is not None):
                # It will be changed, or reckoned with. Mostly it is not, and claims need not wait for commits.
                batch = (await lock_held(connection, {job.batch: batch})).get(job.batch)
            if batch is None or not is_open(batch, job, now) or await self._is_overspent(connection, batch, job, now):
                return None
            found = await lock_free_chunk(connection, job, now)
            if found is None:
                return None
            if found.begun:
                # Whoever held it died, or lost it: what was begun may be paid for.
                batch = (await lock_held(connection, {job.batch: batch}))[job.batch]
                await spend_lost(connection, batch, found.begun, now)
                await store_accounts(connection, [batch])
            todo = await select_todo(connection, job.batch, found)
            if not todo and job.chunk >= 0:
                # Whoever held it had kept every result and died before it closed the chunk.
                batch = (await lock_batches(connection, [job.batch]))[job.batch]
                await close_chunks(connection, {batch.id: batch}, {job: True}, now)
                await store_accounts(connection, [batch])
                return None
            crashes = found.crashes + (found.owner not in {None, owner})
            budget = await reckon(connection, batch, job)
            affordable = budget.afford(len(todo))
            if todo and not affordable:
                await self._turn_away(connection, batch, job, crashes, budget)
                return None
            await connection.execute(
                this_chunk(job).values(
                    state="leased",
                    owner=owner,
                    lease_until=now + timedelta(seconds=lease_seconds),
                    queued_at=None,
                    crashes=crashes,
                    reserved_usd=budget.reserve(affordable),
                    begun=min(begun, affordable),
                    set_aside=False,
                )
            )
            if batch.account.status == "queued":
                batch.account.start(now, whole_seconds(batch.row))
                await store_accounts(connection, [batch])
        unit_usd = None if budget.total_usd is None else budget.unit_usd
        return replace(describe_work(job, batch.row, todo, crashes, affordable), unit_usd=unit_usd)

    async def _is_overspent(self, connection: AsyncConnection, batch: Locked, job: Job, now: datetime) -> bool:
        """Whether the batch's key may spend nothing more today: then the batch is paused here."""
        key_id: str | None = batch.row._mapping["api_key"]
        # Replies that the provider's batch has are paid for, and a batch's end costs nothing.
        costs = job.chunk == COLLECT if batch.row._mapping["mode"] == "provider-batch" else job.chunk >= 0
        if key_id is None or not costs:
            return False
        overspent = await find_overspent(connection, key_id, self._usd_per_day, now)
        if overspent is None:
            return False
        batch = (await lock_batches(connection, [batch.id]))[batch.id]
        if batch.account.is_active:
            batch.account.pause(OVERSPENT, explain_overspent(*overspent), now)
            await store_accounts(connection, [batch])
            log_paused(batch.id, OVERSPENT)
        return True

    async def _turn_away(
        self, connection: AsyncConnection, batch: Locked, job: Job, crashes: int, budget: Budget
    ) -> None:
        """The budget allows no candidate now: the chunk waits for what others hold in reserve, or the batch pauses."""
        await connection.execute(this_chunk(job).values(state="waiting", crashes=crashes, **RELEASED))
        others = select(func.count()).where(chunk.batch_id == job.batch, chunk.state == "leased")
        if (await connection.execute(others)).scalar_one() == 0:
            batch.account.pause(EXHAUSTED, budget.explain(), self._clock())
            await store_accounts(connection, [batch])
            log_paused(batch.id, EXHAUSTED)

    async def renew(self, owner: str, jobs: Sequence[Job], lease_seconds: float) -> Committed:
        if not jobs:
            return Committed()
        until = self._clock() + timedelta(seconds=lease_seconds)
        async with change(self._engine) as connection:
            held = await find_held(connection, owner, jobs)
            if held:
                mine = update(batch_chunks).where(hold_condition(held), chunk.owner == owner)
                await connection.execute(mine.values(lease_until=until, queued_at=None))
            stopped = await stopped_among(connection, held)
        return Committed(lost=frozenset(jobs) - held.keys(), stopped=stopped)

    async def set_aside(self, job: Job, owner: str) -> None:
        aside = select(func.count()).where(chunk.batch_id == job.batch, chunk.set_aside).scalar_subquery()
        mine = this_chunk(job).where(chunk.owner == owner, chunk.state == "leased", aside < MOST_SET_ASIDE)
        async with write(self._engine) as connection:
            await connection.execute(mine.values(set_aside=True))

    async def find_halted(self, jobs: Sequence[Job]) -> Committed:
        if not jobs:
            return Committed()
        query = select(batches.c.id, batches.c.status).where(batches.c.id.in_({job.batch for job in jobs}))
        async with read(self._engine) as connection:
            status = {row.id: row.status for row in await connection.execute(query)}
        return Committed(
            lost=frozenset(job for job in jobs if job.batch not in status),
            stopped=frozenset(job for job in jobs if status.get(job.batch) in {"paused", "cancelled"}),
            cancelled=frozenset(job for job in jobs if status.get(job.batch) == "cancelled"),
        )

    async def mark(self, job: Job, owner: str, position: int) -> int:
        this = (item.batch_id == job.batch) & (item.position == position)
        mine = exists().where(chunk.batch_id == job.batch, chunk.number == job.chunk, chunk.owner == owner)
        async with change(self._engine) as connection:
            query = select(item.tries).where(this).with_for_update()
            tries: int | None = (await connection.execute(query)).scalar_one_or_none()
            # A try by one who lost the chunk is not a try of its new owner's.
            await connection.execute(update(batch_items).where(this, mine).values(tries=item.tries + 1))
        return tries or 0


def is_open(batch: Locked, job: Job, now: datetime) -> bool:
    """Whether the job may be done: its batch is active, and the deadline has not come. An end may be made after it."""
    expires_at = batch.account.expires_at
    return batch.account.is_active and (expires_at is None or now < expires_at or job.chunk == FINISH)


def explain_overspent(cost_usd: float, limit_usd: float) -> str:
    """One sentence that says why the batch pauses."""
    return (
        f"the batch's key may cost {limit_usd:.6g} USD a day and has cost {cost_usd:.6g} today (UTC); "
        "resume the batch tomorrow, or once the limit is raised"
    )


def this_chunk(job: Job) -> Any:
    """An update of the job's chunk."""
    return update(batch_chunks).where(chunk.batch_id == job.batch, chunk.number == job.chunk)


async def lock_free_chunk(connection: AsyncConnection, job: Job, now: datetime) -> Row[Any] | None:
    """The job's chunk where it can be leased now: not done, not held back, and with nobody whose lease is good."""
    query = select(batch_chunks).where(chunk.batch_id == job.batch, chunk.number == job.chunk)
    # skip_locked: one that is being committed to is leased.
    found = (await connection.execute(query.with_for_update(skip_locked=True))).one_or_none()
    if found is None or found.state in {"done", "blocked"}:
        return None
    return None if found.state == "leased" and found.lease_until >= now else found


async def select_todo(connection: AsyncConnection, batch_id: str, found: Row[Any]) -> Sequence[Row[Any]]:
    """The chunk's candidates without a result, in order."""
    has_result = exists().where(evaluations.c.batch_id == batch_id, evaluations.c.position == item.position)
    query = select(batch_items).where(item.batch_id == batch_id, item.position.between(found.first, found.last))
    return (await connection.execute(query.where(~has_result).order_by(item.position))).all()


async def reckon(connection: AsyncConnection, batch: Locked, job: Job) -> Budget:
    """The budget as this chunk finds it."""
    total: Any = batch.row.budget_usd
    unit = reckon_candidate(batch.row.mode, batch.row.unit_cost_usd, batch.account.dearest_usd)
    if total is None:
        return Budget(None, batch.account.cost_usd, 0.0, unit)
    leased = (chunk.batch_id == job.batch) & (chunk.state == "leased") & (chunk.number != job.chunk)
    reserved = (await connection.execute(select(func.sum(chunk.reserved_usd)).where(leased))).scalar_one()
    return Budget(total, batch.account.cost_usd, reserved or 0.0, unit)


def describe_work(job: Job, batch: Row[Any], todo: Sequence[Row[Any]], crashes: int, affordable: int) -> Work:
    """What the worker is to do."""
    return Work(
        job=job,
        project=batch.project,
        options=read_options(batch.options),
        todo=[read_placed(row) for row in todo],
        suspect=crashes > 0,
        affordable=affordable,
        tries={row.position: row.tries for row in todo if row.tries},
    )
