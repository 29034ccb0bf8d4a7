"""`ProviderStore` in SQL: the course of batches in the provider's own batch mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.batches.rows import ROWS, utc_now
from app.adapters.sql.engine import change, read, write
from app.adapters.sql.provider_rows import insert_leftovers, list_remains, read_part, replace_part
from app.adapters.sql.provider_tables import (
    provider_calls,
    provider_leftovers,
    provider_parts,
    provider_replies,
    provider_runs,
)
from app.adapters.sql.store import insert_or_ignore
from app.adapters.sql.tables import batches
from app.provider_ports import KeptReply, Leftover, Part

FINISHED = ("completed", "cancelled")

Row = TypeVar("Row")

KEYS = 500
"""Of one look-up: below what any database takes as parameters."""


class SQLProviderStore:
    """Keeps the course on any engine that `app.adapters.sql.engine` opens."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    async def lease(self, batch_id: str, owner: str, lease_seconds: float) -> datetime | None:
        now, run = self._clock(), provider_runs
        free = (run.c.lease_until.is_(None) | (run.c.lease_until < now)) & (run.c.next_step_at <= now)
        async with change(self._engine) as connection:
            if not await self._find_batch(connection, batch_id):
                return None
            row = {"batch_id": batch_id, "started_at": now, "next_step_at": now}
            await connection.execute(insert_or_ignore(connection, run, row))
            lease = {"owner": owner, "lease_until": now + timedelta(seconds=lease_seconds)}
            taken = await connection.execute(update(run).where(run.c.batch_id == batch_id, free).values(lease))
            if taken.rowcount != 1:
                return None
            begun = select(run.c.started_at).where(run.c.batch_id == batch_id)
            started_at: datetime = (await connection.execute(begun)).scalar_one()
            return started_at

    async def renew(self, batch_id: str, owner: str, lease_seconds: float) -> bool:
        until = self._clock() + timedelta(seconds=lease_seconds)
        async with write(self._engine) as connection:
            return await self._touch(connection, batch_id, owner, lease_until=until)

    async def release(self, batch_id: str, owner: str, wait_seconds: float) -> None:
        next_step_at = self._clock() + timedelta(seconds=wait_seconds)
        async with write(self._engine) as connection:
            await self._touch(connection, batch_id, owner, owner=None, lease_until=None, next_step_at=next_step_at)

    async def parts(self, batch_id: str) -> list[Part]:
        query = select(provider_parts).where(provider_parts.c.batch_id == batch_id).order_by(provider_parts.c.number)
        async with read(self._engine) as connection:
            return [read_part(row) for row in (await connection.execute(query)).mappings()]

    async def plan(
        self, owner: str, part: Part, keys: Sequence[str], kept: Mapping[str, bytes], calls: Mapping[str, int]
    ) -> bool:
        rows: list[dict[str, Any]] = [
            *({"batch_id": part.batch, "key": key, "part": part.number, "reply": None} for key in keys),
            *({"batch_id": part.batch, "key": key, "part": None, "reply": reply} for key, reply in kept.items()),
        ]
        async with change(self._engine) as connection:
            if not (
                await self._find_batch(connection, part.batch) and await self._touch(connection, part.batch, owner)
            ):
                return False
            await replace_part(connection, part)
            for some in cut(rows, ROWS):
                await connection.execute(insert(provider_replies), some)
            await note_calls(connection, part.batch, calls)
        return True

    async def planned(self, batch_id: str, keys: Sequence[str]) -> dict[str, int | None]:
        table, found = provider_replies, dict[str, int | None]()
        async with read(self._engine) as connection:
            for some in cut(keys, KEYS):
                query = select(table.c.key, table.c.part, table.c.reply.is_(None).label("open")).where(
                    table.c.batch_id == batch_id, table.c.key.in_(some)
                )
                found |= {row.key: row.part if row.open else None for row in await connection.execute(query)}
        return found

    async def save(self, owner: str, part: Part, leftovers: Sequence[Leftover] = ()) -> bool:
        async with write(self._engine) as connection:
            if not await self._touch(connection, part.batch, owner):
                return False
            await replace_part(connection, part)
            await insert_leftovers(connection, leftovers, self._clock())
        return True

    async def keep(self, batch_id: str, replies: Mapping[str, bytes]) -> None:
        if not replies:
            return
        table = provider_replies
        unanswered = (table.c.batch_id == batch_id) & (table.c.key == bindparam("asked")) & table.c.reply.is_(None)
        statement = update(table).where(unanswered).values(reply=bindparam("entry"))
        async with write(self._engine) as connection:
            await connection.execute(statement, [{"asked": key, "entry": entry} for key, entry in replies.items()])

    async def find_reply(self, batch_id: str, key: str) -> KeptReply | None:
        table = provider_replies
        query = select(table.c.reply, table.c.part).where(
            table.c.batch_id == batch_id, table.c.key == key, table.c.reply.is_not(None)
        )
        async with read(self._engine) as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else KeptReply(row.reply, bought=row.part is not None)

    async def calls(self, batch_id: str) -> list[str]:
        query = select(provider_calls.c.key).where(provider_calls.c.batch_id == batch_id)
        async with read(self._engine) as connection:
            return list((await connection.execute(query)).scalars())

    async def take_characters(self, batch_id: str, keys: Collection[str]) -> int:
        table = provider_calls
        this = (table.c.batch_id == batch_id) & table.c.key.in_(keys) & (table.c.characters > 0)
        async with change(self._engine) as connection:
            billed = (await connection.execute(select(table.c.characters).where(this).with_for_update())).scalars()
            total: int = sum(billed)
            if total:
                await connection.execute(update(table).where(this).values(characters=0))
        return total

    async def forget(self, batch_id: str) -> None:
        of_run, of_batch = provider_runs.c.batch_id == batch_id, provider_replies.c.batch_id == batch_id
        parts = select(provider_parts).where(provider_parts.c.batch_id == batch_id)
        async with change(self._engine) as connection:
            # A step that is under way writes before this, and is found here, or after, and is refused.
            await connection.execute(select(provider_runs.c.batch_id).where(of_run).with_for_update())
            for row in (await connection.execute(parts)).mappings().all():
                await insert_leftovers(connection, list_remains(read_part(row)), self._clock())
            await connection.execute(delete(provider_runs).where(of_run))
            await connection.execute(delete(provider_replies).where(of_batch))

    async def leave(self, leftovers: Sequence[Leftover]) -> None:
        async with write(self._engine) as connection:
            await insert_leftovers(connection, leftovers, self._clock(), tried=True)

    async def leftovers(self, limit: int, rest_seconds: float) -> list[Leftover]:
        table, parts = provider_leftovers, provider_parts
        rested = table.c.tried_at < self._clock() - timedelta(seconds=rest_seconds)
        claimed = select(parts.c.number).where(parts.c.provider_batch_id == table.c.target).exists()
        query = (
            select(table.c.kind, table.c.target)
            .where(table.c.tried_at.is_(None) | rested, ~claimed)
            .order_by(table.c.tried_at.asc().nulls_first(), table.c.since)
            .limit(limit)
        )
        async with read(self._engine) as connection:
            return [Leftover(row.kind, row.target) for row in await connection.execute(query)]

    async def settle(self, leftover: Leftover, *, removed: bool) -> None:
        table = provider_leftovers
        this = (table.c.kind == leftover.kind) & (table.c.target == leftover.target)
        statement = delete(table).where(this) if removed else update(table).where(this).values(tried_at=self._clock())
        async with write(self._engine) as connection:
            await connection.execute(statement)

    async def over(self, limit: int) -> list[str]:
        query = (
            select(provider_runs.c.batch_id)
            .join(batches, batches.c.id == provider_runs.c.batch_id)
            .where(batches.c.status.in_(FINISHED))
            .limit(limit)
        )
        async with read(self._engine) as connection:
            return list((await connection.execute(query)).scalars())

    async def _find_batch(self, connection: AsyncConnection, batch_id: str) -> bool:
        """Whether there is such a batch. It cannot be erased until the end of the transaction.

        To be asked before its run is locked: an erasure locks the batch first.
        """
        known = select(batches.c.id).where(batches.c.id == batch_id).with_for_update(key_share=True, read=True)
        return (await connection.execute(known)).one_or_none() is not None

    async def _touch(self, connection: AsyncConnection, batch_id: str, holder: str, **values: object) -> bool:
        """Whether the lease is still the holder's; its row stays locked for the rest of the transaction."""
        run = provider_runs
        held = update(run).where(run.c.batch_id == batch_id, run.c.owner == holder)
        return (await connection.execute(held.values(values or {"owner": holder}))).rowcount == 1


async def note_calls(connection: AsyncConnection, batch_id: str, calls: Mapping[str, int]) -> None:
    """Keeps the calls' keys, each once, with the characters billed for them."""
    table = provider_calls
    for key, characters in calls.items():
        row: dict[str, object] = {"batch_id": batch_id, "key": key, "characters": 0}
        await connection.execute(insert_or_ignore(connection, table, row))
        if characters:
            this = (table.c.batch_id == batch_id) & (table.c.key == key)
            await connection.execute(update(table).where(this).values(characters=table.c.characters + characters))


def cut(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    """The rows in order, at most `size` at a time."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
