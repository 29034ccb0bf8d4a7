"""Batches that grow: candidates join one while it runs, until it is sealed.

Such a batch is any other to anyone who reads it. It does not end while it is open: one more than its chunks counts as
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten_server.core.batch import (
    ENDED_STATUSES,
    BatchConversation,
    BatchOptions,
    Candidate,
    Entry,
    dialogue_of,
    list_candidates,
)
from saiten_server.core.rubric import split_name
from saiten_server.platform.sql.engine import cut_pieces
from saiten_server.platform.sql.sizes import measure_candidate
from saiten_server.platform.sql.tables import (
    batch_chunks,
    batch_items,
    batch_metadata,
    batch_texts,
    batches,
    text_grams,
)
from saiten_server.runs.clusters import name_dialogue
from saiten_server.runs.store.account import lock_batches, store_accounts
from saiten_server.runs.store.batches import STARTING_AT_ZERO
from saiten_server.runs.store.rows import STATEMENT_ROWS, describe_candidates
from saiten_server.runs.store.search import describe_texts
from saiten_server.runs.summary import Tally, pack_tally


@dataclass(frozen=True)
class GrowingBatch:
    """What a batch that grows is begun with. `unit_cost_usd` is the highest expected cost of one candidate, None if it
    is not known; `api_key` is the id of the key that pays, None for no key."""

    id: str
    project: str
    options: BatchOptions
    rubric_digest: str
    unit_cost_usd: float | None
    api_key: str | None = None


async def begin_growing(connection: AsyncConnection, new: GrowingBatch, now: datetime) -> None:
    """Opens the batch, without candidates. The caller adds some in the same transaction, so that no one sees an empty
    one."""
    row = {
        "id": new.id,
        "project": new.project,
        "name": new.options.name,
        "created_at": now,
        "status": "queued",
        "mode": new.options.mode,
        "rubric": split_name(new.options.rubric)[0],
        "options": new.options.model_dump_json(),
        "rubric_digest": new.rubric_digest,
        "rubric_differs": False,
        "budget_usd": new.options.budget_usd,
        "cost_usd": 0.0,
        "dearest_usd": 0.0,
        "tally": pack_tally(Tally()),
        "ids_given": True,
        "unit_cost_usd": new.unit_cost_usd,
        "api_key": new.api_key,
        **dict.fromkeys(STARTING_AT_ZERO, 0),
        "chunks_left": 1,
    }
    entries = [
        {"batch_id": new.id, "number": number, "key": key, "value": value}
        for number, (key, value) in enumerate(new.options.metadata.items())
    ]
    await connection.execute(insert(batches).values(row))
    if entries:
        await connection.execute(insert(batch_metadata), entries)


async def grow(connection: AsyncConnection, batch_id: str, given: Sequence[BatchConversation]) -> int | None:
    """Adds conversations to a batch that is open, as one chunk; returns the position of the first. None if the batch
    has ended or is erased: then nothing is added. A sweep finds the chunk, or `BatchStore.next_jobs`."""
    found = (await lock_batches(connection, [batch_id])).get(batch_id)
    if found is None or found.account.status in ENDED_STATUSES:
        return None
    first = int(found.row.total)
    placed = [one for number, item in enumerate(given, first) for one in place_item(item, number)]
    rows = await asyncio.to_thread(describe_candidates, batch_id, placed)
    texts, grams = await asyncio.to_thread(describe_texts, batch_id, placed)
    for table, added in ((batch_items, rows), (batch_texts, texts), (text_grams, grams)):
        for some in cut_pieces(added, STATEMENT_ROWS):
            await connection.execute(insert(table), some)
    chunk = batch_chunks.c
    numbers = select(func.coalesce(func.max(chunk.number), -1)).where(chunk.batch_id == batch_id, chunk.number >= 0)
    number = int((await connection.execute(numbers)).scalar_one()) + 1
    new = {"number": number, "state": "waiting", "first": first, "last": first + len(placed) - 1}
    await connection.execute(
        insert(batch_chunks).values(batch_id=batch_id, crashes=0, reserved_usd=0.0, begun=0, set_aside=False, **new)
    )
    await connection.execute(update(batches).where(batches.c.id == batch_id).values(total=first + len(placed)))
    found.account.chunks_left += 1
    found.account.intervals = None
    found.account.stored_bytes += sum(measure_candidate(row["request"]) for row in rows)
    await store_accounts(connection, [found])
    return first


def place_item(item: BatchConversation, number: int) -> list[tuple[Entry, Candidate]]:
    """The conversation as the batch's item of this number."""
    dialogue = dialogue_of(item)
    cluster = None if dialogue is None else name_dialogue(dialogue)
    return [*list_candidates(item, number, number, cluster)]


async def seal(connection: AsyncConnection, batch_id: str, now: datetime) -> None:
    """Lets the batch end once everything in it is scored. To be called once."""
    found = (await lock_batches(connection, [batch_id])).get(batch_id)
    if found is None or found.account.status in ENDED_STATUSES:
        return
    found.account.chunks_left -= 1
    if found.account.chunks_left == 0:
        found.account.complete(now)
    await store_accounts(connection, [found])
