"""Taking a batch in: begun, filled, and accepted or discarded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.part import RECEIVING, ROWS
from app.adapters.sql.batches.texts import read_options, searchable
from app.adapters.sql.batches.views import Views
from app.adapters.sql.engine import change, write
from app.adapters.sql.tables import batch_chunks, batch_items, batch_metadata, batch_texts, batches, idempotency_keys
from app.batch_ports import CHUNK_SIZE, COLLECT, FINISH, KeyedAnswer
from app.domain.batch import Batch, BatchOptions, Candidate, Entry
from app.domain.errors import IdempotencyKeyInUse, StoreError
from app.domain.rubric import split_name
from app.domain.tally import Tally
from app.tally import pack

COUNTED = (
    "finished_before",
    "total",
    "scored",
    "partial",
    "failed",
    "judge_calls",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "translated_characters",
    "chunks_left",
    "expired",
    "estimated_calls",
)
"""Columns of a batch that begin at nought."""

GONE = "the batch was discarded before all of it had come in; send it again"


class Intake(Views):
    """`begin` to `accept` or `discard`."""

    async def begin(self, project: str, batch_id: str, options: BatchOptions, now: datetime) -> None:
        entries = [
            {"batch_id": batch_id, "number": number, "key": key, "value": value}
            for number, (key, value) in enumerate(options.metadata.items())
        ]
        async with write(self._engine) as connection:
            await connection.execute(insert(batches).values(describe_new(project, batch_id, options, now)))
            if entries:
                await connection.execute(insert(batch_metadata), entries)

    async def append(self, batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]) -> None:
        rows = [
            {
                "batch_id": batch_id,
                "position": entry.position,
                "item": entry.item,
                "candidate": entry.candidate,
                "request": candidate.model_dump_json(),
                "tries": 0,
                "cluster": entry.cluster,
            }
            for entry, candidate in candidates
        ]
        texts = [
            {"batch_id": batch_id, "position": entry.position, "text": searchable(entry, candidate)}
            for entry, candidate in candidates
        ]
        grown = update(batches).where(batches.c.id == batch_id, batches.c.status == RECEIVING)
        async with write(self._engine) as connection:
            if (await connection.execute(grown.values(total=batches.c.total + len(rows)))).rowcount != 1:
                raise StoreError(GONE)
            for start in range(0, len(rows), ROWS):
                await connection.execute(insert(batch_items), rows[start : start + ROWS])
                await connection.execute(insert(batch_texts), texts[start : start + ROWS])

    async def accept(
        self,
        project: str,
        batch_id: str,
        *,
        unit_cost_usd: float | None,
        answer: KeyedAnswer | None,
        api_key: str | None = None,
    ) -> Batch:
        async with change(self._engine) as connection:
            found = (
                await connection.execute(
                    select(batches.c.total, batches.c.options)
                    .where(batches.c.id == batch_id, batches.c.project == project, batches.c.status == RECEIVING)
                    .with_for_update()
                )
            ).one_or_none()
            if found is None:
                raise StoreError(GONE)
            count = await self._cut(connection, batch_id, found.total, found.options)
            await connection.execute(
                update(batches)
                .where(batches.c.id == batch_id)
                .values(status="queued", chunks_left=count, unit_cost_usd=unit_cost_usd, api_key=api_key)
            )
            if answer is not None:
                await keep_answer(connection, project, answer)
        accepted = await self.find(project, batch_id)
        if accepted is None:  # erased in between, by somebody who saw it in a list
            raise StoreError(GONE)
        return accepted

    async def _cut(self, connection: AsyncConnection, batch_id: str, total: int, options: str) -> int:
        """Makes the batch's chunks, and those that stand for work on it as a whole; gives the number of the former."""
        asked = read_options(options)
        held = asked.mode == "provider-batch"
        rows = [
            describe_chunk(
                batch_id, number, "blocked" if held else "waiting", first, min(first + CHUNK_SIZE, total) - 1
            )
            for number, first in enumerate(range(0, total, CHUNK_SIZE))
        ]
        if held:
            rows.append(describe_chunk(batch_id, COLLECT, "waiting"))
        if asked.relevance is not None and asked.relevance.baseline == "batch":
            rows.append(describe_chunk(batch_id, FINISH, "blocked"))
        for start in range(0, len(rows), ROWS):
            await connection.execute(insert(batch_chunks), rows[start : start + ROWS])
        return -(-total // CHUNK_SIZE)

    async def discard(self, batch_id: str) -> None:
        async with write(self._engine) as connection:
            await connection.execute(delete(batches).where(batches.c.id == batch_id, batches.c.status == RECEIVING))


def describe_new(project: str, batch_id: str, options: BatchOptions, now: datetime) -> dict[str, Any]:
    """The row of a batch that was just begun."""
    return {
        "id": batch_id,
        "project": project,
        "name": options.name,
        "created_at": now,
        "status": RECEIVING,
        "mode": options.mode,
        "rubric": split_name(options.rubric)[0],
        "options": options.model_dump_json(),
        "budget_usd": options.budget_usd,
        "cost_usd": 0.0,
        "dearest_usd": 0.0,
        "tally": pack(Tally()),
        **dict.fromkeys(COUNTED, 0),
    }


def describe_chunk(batch_id: str, number: int, state: str, first: int = 0, last: int = -1) -> dict[str, Any]:
    """The row of a chunk with the candidates `first` to `last`."""
    return {
        "batch_id": batch_id,
        "number": number,
        "first": first,
        "last": last,
        "state": state,
        "crashes": 0,
        "reserved_usd": 0.0,
    }


async def keep_answer(connection: AsyncConnection, project: str, answer: KeyedAnswer) -> None:
    """Keeps the answer under its key. Raises IdempotencyKeyInUse where another request has answered under it."""
    table = idempotency_keys
    this = (table.c.project == project) & (table.c.key == answer.key)
    kept = await connection.execute(
        update(table).where(this, table.c.status.is_(None)).values(status=answer.status, body=answer.body)
    )
    # A claim that grew old while a long body came in may be gone: then there is nothing to answer under.
    if kept.rowcount == 0 and (await connection.execute(select(table.c.key).where(this))).first() is not None:
        raise IdempotencyKeyInUse("another request with this Idempotency-Key was accepted meanwhile")
