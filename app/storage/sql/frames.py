"""The results of a batch as columns of numbers."""

from __future__ import annotations

import asyncio
import functools
import json
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from sqlalchemy import Select, Text, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.storage.sql import engine as db
from app.storage.sql import tables as t
from app.storage.sql.batches.rows import VALUES
from app.storage.sql.batches.views import ENDED
from app.storage.sql.browsing import Browsable, find_batch

if TYPE_CHECKING:
    from app.domain.run_frame import RunFrame

figure, result = t.result_figures.c, t.evaluations.c

COUNTED = ("total", "scored", "partial", "failed", "expired")

PAGE = 20_000
"""Rows that are read and turned into columns at a time, in a twentieth of a second."""

LEAST_KEPT = 5000
"""Results of a batch whose frame is kept; fewer are read in a tenth of a second."""

own, chunk = t.batches.c, t.batch_chunks.c
HELD = exists().where(chunk.batch_id == own.id, chunk.state == "leased")
"""A worker may still rewrite results of a batch that was cancelled."""

WORTH = own.status.in_(ENDED) & (own.texts.is_(None) | own.texts.in_(("hash", "drop"))) & ~HELD
FORMAT = "2"
"""Of `pack_frame`: what was kept in another is made again."""

PARTS = (literal(FORMAT), own.status, func.coalesce(own.texts, ""), *(own[name].cast(Text) for name in COUNTED))
STATE: Select[Any] = select(functools.reduce(lambda told, one: told.concat("/").concat(one), PARTS)).where(WORTH)
"""What changes whenever the results of an ended batch do; nothing for one whose results still change."""


class FrameStore:
    """Reads frames, of a project's own batches only. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read_frame(self, project: str, batch_id: str) -> RunFrame:
        """All results that the batch has now; none if the project has no such batch. Those of a large batch that has
        ended are kept for the next time: who asks while they are read waits for that."""
        turn = self._turns.get(batch_id)
        if turn is None:
            turn = self._turns[batch_id] = asyncio.Lock()
        async with turn:
            return await self._read(project, batch_id)

    async def _read(self, project: str, batch_id: str) -> RunFrame:
        async with db.read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
        if batch is None:
            return await asyncio.to_thread(join, (), [])
        state = await db.fetch_value(self._engine, STATE.where(t.batches.c.id == batch_id))
        kept = t.run_frames.c
        stored = select(kept.frame).where(kept.batch_id == batch_id, kept.state == state)
        packed = await db.fetch_value(self._engine, stored)
        if packed is not None:
            return await asyncio.to_thread(unpack_frame, packed)
        frame = await self._read_all(batch)
        if state is not None and batch.total >= LEAST_KEPT:
            row = {"batch_id": batch_id, "state": state, "frame": await asyncio.to_thread(pack_frame, frame)}
            async with db.change(self._engine) as connection:
                # Locked: an erasure or a redaction that comes later removes the row again.
                held = STATE.where(t.batches.c.id == batch_id).with_for_update()
                if (await connection.execute(held)).scalar_one_or_none() == state:
                    await connection.execute(db.insert_or_replace(connection, t.run_frames), row)
        return frame

    async def _read_all(self, batch: Browsable) -> RunFrame:
        names = tuple(batch.columns)
        columns = [
            *(figure[name] for name in ("position", "item_key", "context_key", "cluster", "spread")),
            *(figure[name] for name in ("status", "warnings", "unrated")),
        ]
        columns += [figure[column] for column in VALUES[: len(names)]]
        query = select(*columns).where(figure.batch_id == batch.id, figure.item_key.is_not(None))
        parts, after = [], -1
        while True:
            page = query.where(figure.position > after).order_by(figure.position).limit(PAGE)
            rows = await db.fetch(self._engine, page)
            if not rows:
                break
            parts.append(await asyncio.to_thread(tabulate, rows))
            after = rows[-1].position
        return await asyncio.to_thread(join, names, parts)

    async def find_places(self, project: str, evaluations: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Batch and position of each of these evaluations that is in a batch, by its id."""
        found = {}
        for some in db.cut(evaluations, PAGE // 20):
            query = select(result.id, result.batch_id, result.position).where(
                result.id.in_(some), result.project == project, result.batch_id.is_not(None)
            )
            found.update({row.id: (row.batch_id, row.position) for row in await db.fetch(self._engine, query)})
        return found


def tabulate(rows: Sequence[Any]) -> tuple[Any, ...]:
    """Some rows as columns: positions, items, contexts, clusters, spreads, values, and the names that label them."""
    import numpy as np

    from app.domain.run_frame import key_all

    positions, items, contexts, clusters, spreads, statuses, warnings, unrated, *values = zip(*rows, strict=True)
    return (
        np.array(positions, dtype=np.int32),
        np.array(items, dtype=np.int64),
        np.array([one or 0 for one in contexts], dtype=np.int64),
        key_all(clusters),
        np.array(spreads, dtype=np.float32),
        np.array(values, dtype=np.float64).reshape(-1, len(rows)).T,
        list(zip(statuses, warnings, unrated, strict=True)),
    )


def join(names: tuple[str, ...], parts: Sequence[tuple[Any, ...]]) -> RunFrame:
    """The frame of all parts."""
    import numpy as np

    from app.domain.run_frame import Label, RunFrame

    found: dict[tuple[str, str, str], int] = {}
    label = [found.setdefault(each, len(found)) for part in parts for each in part[6]]
    columns = [np.concatenate([part[number] for part in parts]) if parts else np.empty(0) for number in range(6)]
    return RunFrame(
        names=names,
        positions=columns[0].astype(np.int32),
        items=columns[1].astype(np.int64),
        contexts=columns[2].astype(np.int64),
        clusters=columns[3].astype(np.int64),
        spread=columns[4].astype(np.float32),
        values=columns[5].astype(np.float64).reshape(len(columns[0]), len(names)),
        label=np.array(label, dtype=np.int64),
        labels=tuple(
            Label(status, frozenset(warnings.split()), frozenset(unrated.split()))
            for status, warnings, unrated in found
        ),
    )


def pack_frame(frame: RunFrame) -> bytes:
    """The frame as a compressed file of arrays: 3 MB for 100,000 results."""
    import numpy as np

    named = {"names": frame.names, "labels": [[one.status, *map(sorted, one[1:])] for one in frame.labels]}
    columns = {name: getattr(frame, name) for name in ARRAYS}
    file = BytesIO()
    np.savez(file, named=np.frombuffer(json.dumps(named).encode(), dtype=np.uint8), **columns)
    return zlib.compress(file.getvalue(), 1)


def unpack_frame(packed: bytes) -> RunFrame:
    """The frame of `pack_frame`."""
    import numpy as np

    from app.domain.run_frame import Label, RunFrame

    with np.load(BytesIO(zlib.decompress(packed)), allow_pickle=False) as file:
        named = json.loads(file["named"].tobytes())
        columns = {name: file[name] for name in ARRAYS}
    labels = tuple(Label(status, frozenset(warned), frozenset(lost)) for status, warned, lost in named["labels"])
    return RunFrame(names=tuple(named["names"]), labels=labels, **columns)


ARRAYS = ("positions", "items", "contexts", "clusters", "values", "spread", "label")
