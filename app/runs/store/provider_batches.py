"""Batches in the provider's own batch mode: their parts, replies and leftovers."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping, bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.batch import ENDED_STATUSES
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.providers.ports import KeptReply, Leftover, LeftoverKind, ProviderPart
from saiten_server.runs.store.rows import STATEMENT_ROWS, utc_now

JSON_COLUMNS = ("conceded", "parameters")


def read_part(row: RowMapping) -> ProviderPart:
    """The part of a row."""
    fields: dict[str, Any] = dict(row)
    fields["batch"] = fields.pop("batch_id")
    for name in JSON_COLUMNS:
        fields[name] = json.loads(fields[name])
    fields["conceded"] = tuple(fields["conceded"])
    return ProviderPart(**fields)


async def replace_part(connection: AsyncConnection, part: ProviderPart) -> None:
    """Stores the part, replacing what was stored of it."""
    row = asdict(part)
    row["batch_id"] = row.pop("batch")
    for name in JSON_COLUMNS:
        row[name] = json.dumps(row[name], ensure_ascii=False)
    await connection.execute(db.insert_or_replace(connection, t.provider_parts), row)


async def insert_leftovers(
    connection: AsyncConnection, leftovers: Sequence[Leftover], now: datetime, *, tried: bool = False
) -> None:
    """Stores leftovers, each once; with `tried`, they are not tried again for a while."""
    for one in leftovers:
        row = {"kind": one.kind, "target": one.target, "since": now, "tried_at": now if tried else None}
        await connection.execute(db.insert_or_ignore(connection, t.provider_leftovers), row)


def list_remains(part: ProviderPart) -> list[Leftover]:
    """What the provider may still store for a part."""
    if part.state == "done":
        return []
    if part.state == "uploading":
        return [Leftover("name", part.file_name)]
    if part.provider_batch_id is not None and part.state == "submitted":
        # Its files are found through it: some may be made yet.
        return [Leftover("batch", part.provider_batch_id)]
    found: list[tuple[LeftoverKind, str | None]] = [
        ("file", part.file_id),
        ("file", part.output_file_id),
        ("file", part.error_file_id),
    ]
    if part.state == "uploaded":
        # A batch may have been made of it a moment ago, which is found by its tags alone.
        found.append(("tags", part.file_id and json.dumps(part.tags)))
    return [Leftover(kind, target) for kind, target in found if target is not None]


KEYS = 500
"""Keys per query, fewer than any database's limit for parameters."""


class ProviderBatchStore:
    """Parts, replies and leftovers of such batches, and which process works on them. Raises the `Store…` errors.
    `owner` is one step of one process. What it writes is refused, with False, once its lease is another's or the batch
    is gone."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    async def lease(self, batch_id: str, owner: str, lease_seconds: float) -> datetime | None:
        """When the batch's first step began; None if another step has the lease, its time has not come, or it is
        erased."""
        now, run = self._clock(), t.provider_runs
        free = (run.c.lease_until.is_(None) | (run.c.lease_until < now)) & (run.c.next_step_at <= now)
        async with db.change(self._engine) as connection:
            if not await self._find_batch(connection, batch_id):
                return None
            row = {"batch_id": batch_id, "started_at": now, "next_step_at": now}
            await connection.execute(db.insert_or_ignore(connection, run), row)
            lease = {"owner": owner, "lease_until": now + timedelta(seconds=lease_seconds)}
            taken = await connection.execute(update(run).where(run.c.batch_id == batch_id, free).values(lease))
            if taken.rowcount != 1:
                return None
            begun = select(run.c.started_at).where(run.c.batch_id == batch_id)
            started_at: datetime = (await connection.execute(begun)).scalar_one()
            return started_at

    async def renew(self, batch_id: str, owner: str, lease_seconds: float) -> bool:
        until = self._clock() + timedelta(seconds=lease_seconds)
        async with db.write(self._engine) as connection:
            return await self._touch(connection, batch_id, owner, lease_until=until)

    async def release(self, batch_id: str, owner: str, wait_seconds: float) -> None:
        """Ends the lease. The next one is granted after `wait_seconds` at the earliest."""
        next_step_at = self._clock() + timedelta(seconds=wait_seconds)
        async with db.write(self._engine) as connection:
            await self._touch(connection, batch_id, owner, owner=None, lease_until=None, next_step_at=next_step_at)

    async def parts(self, batch_id: str) -> list[ProviderPart]:
        """The batch's parts in order."""
        query = (
            select(t.provider_parts).where(t.provider_parts.c.batch_id == batch_id).order_by(t.provider_parts.c.number)
        )
        return [read_part(row._mapping) for row in await db.fetch(self._engine, query)]

    async def plan(
        self, owner: str, part: ProviderPart, keys: Sequence[str], kept: Mapping[str, bytes], calls: Mapping[str, int]
    ) -> bool:
        """Keeps a part as it has grown, with the keys that it asks for the first time, with replies that were in the
        call cache, and with the cache's keys of `calls` made for that and what they were billed: all or nothing."""
        rows: list[dict[str, Any]] = [
            *({"batch_id": part.batch, "key": key, "part": part.number, "reply": None} for key in keys),
            *({"batch_id": part.batch, "key": key, "part": None, "reply": reply} for key, reply in kept.items()),
        ]
        async with db.change(self._engine) as connection:
            if not (
                await self._find_batch(connection, part.batch) and await self._touch(connection, part.batch, owner)
            ):
                return False
            await replace_part(connection, part)
            for some in db.cut_pieces(rows, STATEMENT_ROWS):
                await connection.execute(insert(t.provider_replies), some)
            added = [{"batch_id": part.batch, "key": key, "characters": billed} for key, billed in calls.items()]
            if added:
                note = db.insert_or_add(connection, t.provider_calls, t.provider_calls.c.characters)
                await connection.execute(note, added)
        return True

    async def planned(self, batch_id: str, keys: Sequence[str]) -> dict[str, int | None]:
        """The known keys among these, with the part that waits for the answer, or None if there is an answer."""
        table, found = t.provider_replies, dict[str, int | None]()
        for some in db.cut_pieces(keys, KEYS):
            query = select(table.c.key, table.c.part, table.c.reply.is_(None).label("open")).where(
                table.c.batch_id == batch_id, table.c.key.in_(some)
            )
            found |= {row.key: row.part if row.open else None for row in await db.fetch(self._engine, query)}
        return found

    async def save(self, owner: str, part: ProviderPart, leftovers: Sequence[Leftover] = ()) -> bool:
        """Stores a part's state together with what is to be removed from the provider."""
        async with db.write(self._engine) as connection:
            if not await self._touch(connection, part.batch, owner):
                return False
            await replace_part(connection, part)
            await insert_leftovers(connection, leftovers, self._clock())
        return True

    async def keep(self, batch_id: str, replies: Mapping[str, bytes]) -> None:
        """Stores answers. The first one to each key stays, and answers to unknown keys are dropped."""
        if not replies:
            return
        table = t.provider_replies
        unanswered = (table.c.batch_id == batch_id) & (table.c.key == bindparam("asked")) & table.c.reply.is_(None)
        statement = update(table).where(unanswered).values(reply=bindparam("entry"))
        await db.execute(self._engine, statement, [{"asked": key, "entry": entry} for key, entry in replies.items()])

    async def find_reply(self, batch_id: str, key: str) -> KeptReply | None:
        table = t.provider_replies
        query = select(table.c.reply, table.c.part).where(
            table.c.batch_id == batch_id, table.c.key == key, table.c.reply.is_not(None)
        )
        row = await db.fetch_one(self._engine, query)
        return None if row is None else KeptReply(row.reply, bought=row.part is not None)

    async def calls(self, batch_id: str) -> list[str]:
        """The call cache's keys of the calls made while the batch was planned."""
        query = select(t.provider_calls.c.key).where(t.provider_calls.c.batch_id == batch_id)
        return list(await db.fetch_column(self._engine, query))

    async def take_characters(self, batch_id: str, keys: Collection[str]) -> int:
        """The characters billed for these calls while the batch was planned; 0 at the next call."""
        table = t.provider_calls
        this = (table.c.batch_id == batch_id) & table.c.key.in_(keys) & (table.c.characters > 0)
        async with db.change(self._engine) as connection:
            billed = (await connection.execute(select(table.c.characters).where(this).with_for_update())).scalars()
            total: int = sum(billed)
            if total:
                await connection.execute(update(table).where(this).values(characters=0))
        return total

    async def forget(self, batch_id: str) -> None:
        """Removes parts and replies; what the provider may still store becomes leftovers."""
        of_run, of_batch = t.provider_runs.c.batch_id == batch_id, t.provider_replies.c.batch_id == batch_id
        parts = select(t.provider_parts).where(t.provider_parts.c.batch_id == batch_id)
        async with db.change(self._engine) as connection:
            # A step that is under way writes before this, and is found here, or after, and is refused.
            await connection.execute(select(t.provider_runs.c.batch_id).where(of_run).with_for_update())
            for row in (await connection.execute(parts)).mappings().all():
                await insert_leftovers(connection, list_remains(read_part(row)), self._clock())
            await connection.execute(delete(t.provider_runs).where(of_run))
            await connection.execute(delete(t.provider_replies).where(of_batch))

    async def leave(self, leftovers: Sequence[Leftover]) -> None:
        """Stores what the provider may store in vain. It is not removed at once, because another step may claim it."""
        async with db.write(self._engine) as connection:
            await insert_leftovers(connection, leftovers, self._clock(), tried=True)

    async def leftovers(self, limit: int, rest_seconds: float) -> list[Leftover]:
        """Leftovers that were not tried for `rest_seconds` and that no part claims."""
        table, parts = t.provider_leftovers, t.provider_parts
        rested = table.c.tried_at < self._clock() - timedelta(seconds=rest_seconds)
        claimed = select(parts.c.number).where(parts.c.provider_batch_id == table.c.target).exists()
        query = (
            select(table.c.kind, table.c.target)
            .where(table.c.tried_at.is_(None) | rested, ~claimed)
            .order_by(table.c.tried_at.asc().nulls_first(), table.c.since)
            .limit(limit)
        )
        return [Leftover(row.kind, row.target) for row in await db.fetch(self._engine, query)]

    async def settle(self, leftover: Leftover, *, removed: bool) -> None:
        """Notes that the leftover is removed, or that it was tried and has to be tried again."""
        table = t.provider_leftovers
        this = (table.c.kind == leftover.kind) & (table.c.target == leftover.target)
        statement = delete(table).where(this) if removed else update(table).where(this).values(tried_at=self._clock())
        await db.execute(self._engine, statement)

    async def over(self, limit: int) -> list[str]:
        """Completed and cancelled batches that still have replies, which their records contain by now."""
        query = (
            select(t.provider_runs.c.batch_id)
            .join(t.batches, t.batches.c.id == t.provider_runs.c.batch_id)
            .where(t.batches.c.status.in_(ENDED_STATUSES))
            .limit(limit)
        )
        return list(await db.fetch_column(self._engine, query))

    async def _find_batch(self, connection: AsyncConnection, batch_id: str) -> bool:
        """Whether there is such a batch. It cannot be erased until the end of the transaction. To be asked before its
        run is locked: an erasure locks the batch first."""
        known = select(t.batches.c.id).where(t.batches.c.id == batch_id).with_for_update(key_share=True, read=True)
        return (await connection.execute(known)).one_or_none() is not None

    async def _touch(self, connection: AsyncConnection, batch_id: str, holder: str, **values: object) -> bool:
        """Changes the run and returns True if the lease is still the holder's; locks its row."""
        run = t.provider_runs
        held = update(run).where(run.c.batch_id == batch_id, run.c.owner == holder)
        return (await connection.execute(held.values(values or {"owner": holder}))).rowcount == 1
