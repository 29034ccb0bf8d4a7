"""Erasing everything that bears certain metadata: batches, candidates of other batches, single evaluations."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import ColumnElement, LargeBinary, delete, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.batches.erasure import Erasure, owe_calls
from app.adapters.sql.batches.rows import RECEIVING, utc_now
from app.adapters.sql.engine import change, file_of, read, write
from app.adapters.sql.governance.candidates import bears, erase_candidates
from app.adapters.sql.meta.turns import take_turn
from app.adapters.sql.provider_store import SQLProviderStore, cut
from app.adapters.sql.tables import (
    batch_items,
    batch_metadata,
    batches,
    can_hold,
    evaluations,
    human_ratings,
    idempotency_keys,
)
from app.governance_ports import Erased

AT_ONCE = 500
"""Candidates or evaluations of one transaction."""

ANSWERS_AT_ONCE = 100
"""Kept answers that are read at a time. Each holds an evaluation."""

result, item, batch, answer = evaluations.c, batch_items.c, batches.c, idempotency_keys.c
rating = human_ratings.c


class MarkedErasure:
    """Erases by metadata, in small transactions. One that was cut off is to be asked for again."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    async def erase(self, project: str, metadata: Mapping[str, str]) -> Erased:
        """Removes what there is at this moment, and says how much. Nothing bears empty metadata."""
        if not metadata or not can_hold(project, *metadata, *metadata.values()):
            return Erased(0, 0, 0)
        whole = await self._find_batches(project, metadata)
        gone = sum([await self._erase_batch(project, batch_id) for batch_id in whole])
        candidates = 0
        for batch_id, places in (await self._find_candidates(project, metadata)).items():
            candidates += await self._erase_candidates(project, batch_id, places, metadata)
        singles = await self._erase_singles(project, metadata)
        await self._forget_answers(project, metadata)
        return Erased(gone, candidates, singles)

    async def _find_batches(self, project: str, metadata: Mapping[str, str]) -> Sequence[str]:
        entry = batch_metadata.c
        fits = [
            exists().where(entry.batch_id == batch.id, entry.key == key, entry.value == value)
            for key, value in metadata.items()
        ]
        query = select(batch.id).where(batch.project == project, batch.status != RECEIVING, *fits)
        async with read(self._engine) as connection:
            return (await connection.execute(query.order_by(batch.id))).scalars().all()

    async def _erase_batch(self, project: str, batch_id: str) -> bool:
        """As `BatchStore.erase`. What the provider still has of it is left to be removed there."""
        provider = SQLProviderStore(self._engine, clock=self._clock)
        calls = await provider.calls(batch_id)
        async with write(self._engine) as connection:
            await owe_calls(connection, calls)
            # Before the batch: an answer is kept as its batch is accepted and never later, so none is left behind.
            await forget_answers_of(connection, project, [batch_id])
        await provider.forget(batch_id)
        return await Erasure(self._engine, clock=self._clock).erase(project, batch_id)

    async def _find_candidates(self, project: str, metadata: Mapping[str, str]) -> dict[str, list[int]]:
        """By batch, the positions of candidates whose rows hold the entries somewhere: each is to be read."""
        fits = [self._holds(item.request, key, value) for key, value in metadata.items()]
        query = (
            select(item.batch_id, item.position)
            .join(batches, batch.id == item.batch_id)
            .where(batch.project == project, batch.status != RECEIVING, *fits)
        )
        found: dict[str, list[int]] = {}
        async with read(self._engine) as connection:
            for row in await connection.execute(query.order_by(item.batch_id, item.position)):
                found.setdefault(row.batch_id, []).append(row.position)
        return found

    async def _erase_candidates(
        self, project: str, batch_id: str, places: Sequence[int], metadata: Mapping[str, str]
    ) -> int:
        done = 0
        for some in cut(places, AT_ONCE):
            async with change(self._engine) as connection:
                await take_turn(connection, project)
                done += await erase_candidates(connection, batch_id, some, metadata, self._clock())
        return done

    async def _erase_singles(self, project: str, metadata: Mapping[str, str]) -> int:
        fits = [self._holds(result.record, key, value) for key, value in metadata.items()]
        query = select(result.id).where(result.project == project, result.batch_id.is_(None), *fits)
        async with read(self._engine) as connection:
            found = (await connection.execute(query.order_by(result.id))).scalars().all()
        gone = 0
        for some in cut(found, AT_ONCE):
            async with change(self._engine) as connection:
                await take_turn(connection, project)
                gone += await erase_singles(connection, project, some, metadata)
        return gone

    async def _forget_answers(self, project: str, metadata: Mapping[str, str]) -> None:
        """Removes kept answers that bear the metadata themselves, whatever became of what they tell of."""
        fits = [self._holds_bytes(answer.body, key, value) for key, value in metadata.items()]
        query = select(answer.key).where(answer.project == project, answer.body.is_not(None), *fits)
        async with read(self._engine) as connection:
            keys = (await connection.execute(query.order_by(answer.key))).scalars().all()
        for some in cut(keys, ANSWERS_AT_ONCE):
            async with change(self._engine) as connection:
                await forget_marked_answers(connection, project, some, metadata)

    def _holds(self, column: Any, key: str, value: str) -> ColumnElement[bool]:
        """Whether the JSON in the column has this entry somewhere, as pydantic writes it."""
        find = func.strpos if file_of(self._engine) is None else func.instr
        found: ColumnElement[bool] = find(column, write_entry(key, value).decode()) > 0
        return found

    def _holds_bytes(self, column: Any, key: str, value: str) -> ColumnElement[bool]:
        """As `_holds`, for a column of bytes."""
        # Qualified: PostgreSQL takes a plain `position` with IN alone.
        find = func.pg_catalog.position if file_of(self._engine) is None else func.instr
        found: ColumnElement[bool] = find(column, literal(write_entry(key, value), LargeBinary)) > 0
        return found


def write_entry(key: str, value: str) -> bytes:
    """An entry of metadata as pydantic writes it."""
    return to_json(key) + b":" + to_json(value)


async def erase_singles(
    connection: AsyncConnection, project: str, ids: Sequence[str], metadata: Mapping[str, str]
) -> int:
    """Removes those of the evaluations that bear the metadata, with their human ratings and the answers that hold them;
    how many it were. Their calls are owed."""
    query = select(result.id, result.record, result.calls).where(result.id.in_(ids), result.batch_id.is_(None))
    rows = (await connection.execute(query.order_by(result.id))).all()
    found = [row for row in rows if bears(from_json(row.record)["evaluation"]["metadata"], metadata)]
    gone = [row.id for row in found]
    await owe_calls(connection, {key for row in found if row.calls for key in json.loads(row.calls)})
    await connection.execute(delete(human_ratings).where(rating.project == project, rating.evaluation.in_(gone)))
    await connection.execute(delete(evaluations).where(result.id.in_(gone)))
    # After the evaluations: by now whoever was about to keep an answer has done so, or finds no evaluation.
    await forget_answers_of(connection, project, gone)
    return len(gone)


async def forget_answers_of(connection: AsyncConnection, project: str, ids: Collection[str]) -> None:
    """Removes the answers that were kept for repeated requests of these evaluations or batches."""
    by_length: dict[int, list[bytes]] = {}
    for one in sorted(ids):
        start = b'{"id":' + to_json(one)
        by_length.setdefault(len(start), []).append(start)
    for length, starts in by_length.items():
        told = func.substr(answer.body, 1, length, type_=LargeBinary).in_(starts)
        await connection.execute(delete(idempotency_keys).where(answer.project == project, told))


async def forget_marked_answers(
    connection: AsyncConnection, project: str, keys: Sequence[str], metadata: Mapping[str, str]
) -> None:
    """Removes those of the answers under these keys whose own metadata hold all the entries."""
    these = (answer.project == project) & answer.key.in_(keys) & answer.body.is_not(None)
    rows = (await connection.execute(select(answer.key, answer.body).where(these))).all()
    gone = [row.key for row in rows if bears(read_metadata(row.body), metadata)]
    await connection.execute(delete(idempotency_keys).where(answer.project == project, answer.key.in_(gone)))


def read_metadata(body: bytes) -> Mapping[str, str]:
    """The metadata that an answer tells; none where it is of another kind."""
    try:
        told = from_json(body)
    except ValueError:
        return {}
    own = told.get("metadata") if isinstance(told, dict) else None
    return own if isinstance(own, dict) else {}
