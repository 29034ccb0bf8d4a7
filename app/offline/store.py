"""Adopted runs in the store of batches: written in pieces that no one sees, and shown as a completed batch at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import Batch, BatchOptions, Candidate
from saiten_server.core.errors import StoreError
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import batch_id as owning_batch
from saiten_server.platform.sql.tables import batches, equals, evaluations, table
from saiten_server.runs.store.account import read_account, store_accounts
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.leases import enter_results, insert_results, settle_figures
from saiten_server.runs.store.rows import RECEIVING
from saiten_server.runs.summary import ResultFigures
from saiten_server.runs.work import FinishedCandidate

Adopted = Sequence[tuple[FinishedCandidate, Candidate, ResultFigures]]

# `url` is where the service may read the files of the run; null where they were uploaded.
adopted_runs = table("adopted_runs", owning_batch(primary_key=True), sa.Column("url", sa.Text, nullable=True))

# `key` is that of the result in the files, by which its texts are found there.
adopted_results = table(
    "adopted_results",
    owning_batch(primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.String(64), nullable=False),
    sqlite_with_rowid=False,
)


async def forget_keys(connection: AsyncConnection, batch_id: str, positions: Sequence[int]) -> None:
    """Removes the keys of erased results: they are digests of texts."""
    mine = adopted_results.c.batch_id == batch_id, adopted_results.c.position.in_(positions)
    await connection.execute(delete(adopted_results).where(*mine))


class AdoptionStore:
    """Writes adopted runs. Methods raise the `Store…` errors."""

    def __init__(self, engine: AsyncEngine, batches: BatchStore) -> None:
        self._engine = engine
        self._batches = batches

    async def find(self, project: str, batch_id: str) -> Batch | None:
        """The run where it was adopted before."""
        return await self._batches.find(project, batch_id)

    async def is_arriving(self, batch_id: str) -> bool:
        """Whether another request is writing the run."""
        query = select(batches.c.id).where(batches.c.id == batch_id, batches.c.status == RECEIVING)
        return await db.fetch_value(self._engine, query) is not None

    async def begin(
        self, project: str, batch_id: str, options: BatchOptions, now: datetime, rubric_digest: str
    ) -> None:
        """Opens the run, which no one sees yet."""
        await self._batches.begin(project, batch_id, options, now, rubric_digest, ids_given=True)

    async def append(self, batch_id: str, results: Adopted, keys: Mapping[int, str], now: datetime) -> None:
        """Adds results with what they are of, in order. `keys` are those of results in the files, by position."""
        await self._batches.append(batch_id, [(one.entry, candidate) for one, candidate, _ in results])
        new = [(one, figures) for one, _, figures in results]
        async with db.change(self._engine) as connection:
            query = select(batches).where(batches.c.id == batch_id, batches.c.status == RECEIVING).with_for_update()
            row = (await connection.execute(query)).one_or_none()
            if row is None:
                raise StoreError(Message("batch-discarded"))
            locked = {batch_id: read_account(row)}
            added = await insert_results(connection, locked, new, now)
            await enter_results(connection, locked, new)
            await settle_figures(connection, locked, added)
            await store_accounts(connection, locked.values())
            if keys:
                added_keys = [{"batch_id": batch_id, "position": at, "key": key} for at, key in keys.items()]
                await connection.execute(insert(adopted_results), added_keys)

    async def place(self, batch_id: str, url: str | None) -> None:
        """Notes where the files of the run stand, instead of what was noted before."""
        async with db.write(self._engine) as connection:
            await connection.execute(delete(adopted_runs).where(adopted_runs.c.batch_id == batch_id))
            await connection.execute(insert(adopted_runs).values(batch_id=batch_id, url=url))

    async def find_place(self, project: str, batch_id: str) -> tuple[str | None] | None:
        """The address of the files that the project's run was adopted from, None of uploaded ones; None of any other
        run."""
        query = (
            select(adopted_runs.c.url)
            .join(batches, batches.c.id == adopted_runs.c.batch_id)
            .where(equals(adopted_runs.c.batch_id, batch_id), equals(batches.c.project, project))
        )
        row = await db.fetch_one(self._engine, query)
        return None if row is None else (row.url,)

    async def find_result(self, project: str, evaluation_id: str) -> tuple[str | None, str | None] | None:
        """The address of the files that the project's result was adopted from, as of `find_place`, and its key; None of
        any other result."""
        one, run, result = evaluations.c, adopted_runs.c, adopted_results.c
        query = (
            select(run.url, result.key)
            .join(evaluations, one.batch_id == run.batch_id)
            .outerjoin(adopted_results, (result.batch_id == one.batch_id) & (result.position == one.position))
            .where(equals(one.id, evaluation_id), equals(one.project, project))
        )
        row = await db.fetch_one(self._engine, query)
        return None if row is None else (row.url, row.key)

    async def find_keys(self, batch_id: str, positions: Sequence[int]) -> dict[int, str]:
        """The keys of results, by position."""
        mine = equals(adopted_results.c.batch_id, batch_id), adopted_results.c.position.in_(positions)
        rows = await db.fetch(self._engine, select(adopted_results.c.position, adopted_results.c.key).where(*mine))
        return {row.position: row.key for row in rows}

    async def finish(self, project: str, batch_id: str, now: datetime) -> Batch:
        """Shows the run as a batch that is completed, whose texts are not here."""
        begun = update(batches).where(batches.c.id == batch_id, batches.c.status == RECEIVING)
        ended = {"status": "completed", "texts": "drop", "started_at": now, "resumed_at": now, "finished_at": now}
        async with db.change(self._engine) as connection:
            if (await connection.execute(begun.values(ended))).rowcount != 1:
                raise StoreError(Message("batch-discarded"))
        found = await self._batches.find(project, batch_id)
        if found is None:  # a caller who saw it in a list has erased it in between
            raise StoreError(Message("batch-discarded"))
        return found

    async def discard(self, batch_id: str) -> None:
        """Removes what was begun. Where even that fails, the sweep discards it."""
        with suppress(StoreError):
            await self._batches.discard(batch_id)
