"""The results of a batch as columns of numbers."""

from __future__ import annotations

import asyncio
import functools
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from sqlalchemy import Select, Text, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import ENDED_STATUSES
from saiten_server.core.conversation import FINDING, FINDING_CODES, KIND_CODES, FaultyTurns, list_codes
from saiten_server.core.errors import StoreError
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.runs.store.browsing import Browsable, find_batch
from saiten_server.runs.store.rows import (
    VALUE_COLUMNS,
    Measures,
    decode_ratings,
    of_batch,
    read_faulty,
    read_further,
    read_unrated,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from saiten_server.runs.frame import Floats, Label, RunFrame

figure, result = t.result_figures.c, t.evaluations.c

COUNTED = ("total", "scored", "partial", "failed", "expired")

FRAME_ROWS = 20_000
"""Rows that are read and turned into columns at a time, in a twentieth of a second."""

LEAST_KEPT = 5000
"""Results of a batch whose frame is kept; fewer are read in a tenth of a second."""

own = t.batches.c
HELD = exists().where(t.batch_chunks.c.batch_id == own.id, t.batch_chunks.c.state == "leased")
"""A worker may still rewrite results of a batch that was cancelled."""

WORTH = own.status.in_(ENDED_STATUSES) & (own.texts.is_(None) | own.texts.in_(("hash", "drop"))) & ~HELD
FORMAT = "5"
"""Of `pack_frame`: what was kept in another is made again."""

STATE_PARTS = (literal(FORMAT), own.status, func.coalesce(own.texts, ""), *(own[name].cast(Text) for name in COUNTED))
STATE: Select[Any] = select(functools.reduce(lambda told, one: told.concat("/").concat(one), STATE_PARTS)).where(WORTH)
"""What changes whenever the results of an ended batch do; nothing for one whose results still change."""


TURNS: WeakKeyDictionary[AsyncEngine, WeakValueDictionary[str, asyncio.Lock]] = WeakKeyDictionary()
"""Locks by engine and batch. The stores of an engine share them, so that pages and figures that need the same large run
at once read it once."""


class FrameStore:
    """Reads frames, of a project's own batches only. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._turns = TURNS.setdefault(engine, WeakValueDictionary())

    async def read_frame(self, project: str, batch_id: str) -> RunFrame:
        """All results that the batch has now; none if the project has no such batch. Those of a large batch that
        has ended are kept for the next time: who asks while they are read waits for that."""
        async with self._turns.setdefault(batch_id, asyncio.Lock()):
            return await self._read(project, batch_id)

    async def _read(self, project: str, batch_id: str) -> RunFrame:
        async with db.read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
        if batch is None:
            return await asyncio.to_thread(concatenate_frames, [])
        state = await db.fetch_value(self._engine, STATE.where(t.batches.c.id == batch_id))
        kept = t.run_frames.c
        stored = select(kept.frame).where(kept.batch_id == batch_id, kept.state == state)
        packed = await db.fetch_value(self._engine, stored)
        if packed is not None:
            return await asyncio.to_thread(unpack_frame, packed)
        frame = await self._read_all(batch)
        if state is not None and batch.total >= LEAST_KEPT:
            row = {"batch_id": batch_id, "state": state, "frame": await asyncio.to_thread(pack_frame, frame)}
            with suppress(StoreError):  # a full disk must not prevent the answer
                await self._keep(row)
        return frame

    async def _keep(self, row: Mapping[str, Any]) -> None:
        """Stores the frame where the batch is still in the state that it was read in."""
        async with db.change(self._engine) as connection:
            # Locked: an erasure or a redaction that comes later removes the row again.
            held = STATE.where(t.batches.c.id == row["batch_id"]).with_for_update()
            if (await connection.execute(held)).scalar_one_or_none() == row["state"]:
                await connection.execute(db.insert_or_replace(connection, t.run_frames), row)

    async def _read_all(self, batch: Browsable) -> RunFrame:
        frames: list[RunFrame] = []
        after = -1
        while len(frame := await read_frame_rows(self._engine, batch, after=after, limit=FRAME_ROWS)):
            frames.append(frame)
            after = int(frame.positions[-1])
        return await asyncio.to_thread(concatenate_frames, frames)

    async def read_items(self, project: str, batch_id: str) -> Mapping[int, str]:
        """The ids of the items of all results that the batch has now, by position."""
        query = of_batch(select(result.position, result.item), project, batch_id)
        query = query.order_by(result.position).limit(FRAME_ROWS)
        found: dict[int, str] = {}
        after = -1
        while rows := await db.fetch(self._engine, query.where(result.position > after)):
            found |= {row.position: row.item for row in rows}
            after = rows[-1].position
        return found

    async def find_places(self, project: str, evaluations: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Batch and position of each of these evaluations that is in a batch, by its id."""
        found = {}
        for some in db.cut_pieces(evaluations, FRAME_ROWS // 20):
            # Without the project, by which SQLite might read all results that it has.
            query = select(result.id, result.project, result.batch_id, result.position).where(
                result.id.in_(some), result.batch_id.is_not(None)
            )
            rows = [row for row in await db.fetch(self._engine, query) if row.project == project]
            found.update({row.id: (row.batch_id, row.position) for row in rows})
        return found


async def read_page(engine: AsyncEngine, project: str, batch_id: str, *, after: int, limit: int) -> RunFrame:
    """The results of the project's batch with a position greater than `after`, in order. A later page may have more
    measures. The rates of findings are left out: `faults` have what they are made of."""
    async with db.read(engine) as connection:
        batch = await find_batch(connection, project, batch_id)
    if batch is None:
        return await asyncio.to_thread(concatenate_frames, [])
    return await read_frame_rows(engine, batch, after=after, limit=limit)


async def read_frame_rows(engine: AsyncEngine, batch: Browsable, *, after: int, limit: int) -> RunFrame:
    """The results of the batch with a position greater than `after`, in order."""
    sources = await asyncio.to_thread(list_sources)
    columns = [figure[name] for name in (*sources, *LABELLED, *SPARSE_COLUMNS, *VALUE_COLUMNS[: len(batch.measures)])]
    query = select(*columns).where(figure.batch_id == batch.id, figure.position > after)
    rows = await db.fetch(engine, query.order_by(figure.position).limit(limit))
    return await asyncio.to_thread(frame_rows, rows, sources, batch.measures)


LABELLED = ("status", "warnings", "unrated", "reasons", "system", "build", "failure")
"""The stored columns that a label is of."""

SPARSE_COLUMNS = ("system_turns", "findings", "ratings", "further")
"""Stored columns that most results have nothing in."""


def list_sources() -> list[str]:
    """The stored columns that `RunFrame` declares. It loads numpy."""
    from saiten_server.runs.frame import COLUMNS

    return [one.source for one in COLUMNS.values() if one.source is not None]


def frame_rows(rows: Sequence[Any], sources: Sequence[str], measures: Measures) -> RunFrame:
    """Some rows as columns: first the `sources`, then what labels them, `SPARSE_COLUMNS`, and the values."""
    import numpy as np

    from saiten_server.runs.frame import COLUMNS, key_all, make_frame

    if not rows:
        return make_frame(0, {}, [])
    names = (*sources, *LABELLED, *SPARSE_COLUMNS)
    stored = dict(zip(names, given := [*zip(*rows, strict=True)], strict=False))
    columns: dict[str, NDArray[Any]] = {}
    for name, one in COLUMNS.items():
        if one.source == "cluster":
            columns[name] = key_all(stored[one.source])
        elif one.source is not None:
            found = [one.absent if value is None else value for value in stored[one.source]]
            columns[name] = np.array(found, dtype=one.dtype)
    labels, columns["label"] = number_all(zip(*(stored[name] for name in LABELLED), strict=True))
    faults, columns["fault"] = number_all(zip(stored["system_turns"], stored["findings"], strict=True))
    values = {
        key: np.array(column, dtype=np.float64) for key, column in zip(measures, given[len(names) :], strict=True)
    }
    ratings = spread_out([decode_ratings(text) for text in stored["ratings"]])
    values |= spread_out([read_further(text) for text in stored["further"]])
    told = [*map(read_label, labels)]
    faulty = [read_faulty(*each) for each in faults]
    return make_frame(len(rows), values, told, ratings=ratings, faults=faulty, **columns)


def number_all(found: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], NDArray[Any]]:
    """What is different, and the number of each of the rows among that; shape (n,)."""
    import numpy as np

    numbers: dict[tuple[Any, ...], int] = {}
    rows = np.array([numbers.setdefault(one, len(numbers)) for one in found], dtype=np.int64)
    return [*numbers], rows


def spread_out(rows: Sequence[Mapping[Any, float | None]]) -> dict[Any, Floats]:
    """The values of some rows as columns, NaN where a row has none."""
    import numpy as np

    found: dict[Any, Floats] = {}
    for row, values in enumerate(rows):
        for key, value in values.items():
            if key not in found:
                found[key] = np.full(len(rows), np.nan)
            found[key][row] = value
    return found


def read_label(stored: tuple[Any, ...]) -> Label:
    """The label of a row of `LABELLED`."""
    from saiten_server.runs.frame import Label

    status, warnings, unrated, reasons, *more = stored
    why = frozenset(read_unrated(unrated, reasons).items())
    return Label(status, frozenset(warnings.split()), why, *more)


def concatenate_frames(frames: Sequence[RunFrame]) -> RunFrame:
    """The results of all in one run, with the rates of their findings."""
    import numpy as np

    from saiten_server.runs.frame import join_frames, kind_of

    frame = join_frames(frames)
    known = {code for one in frame.faults if one is not None for code in list_codes(one)}
    turns = frame.system_turns
    rates = {
        (kind_of(FINDING + code), FINDING + code): 100 * frame.count_faults(code) / np.maximum(turns, 1)
        for code in (*FINDING_CODES, *KIND_CODES)
        if code in known
    }
    return replace(frame, values={**frame.values, **rates}) if rates else frame


def pack_frame(frame: RunFrame) -> bytes:
    """The frame as a compressed file of arrays: 3 MB for 100,000 results."""
    import numpy as np

    from saiten_server.runs.frame import COLUMNS

    labels = [[one.status, sorted(one.warnings), sorted(map(list, one.reasons)), *one[3:]] for one in frame.labels]
    parts = {"measures": [*frame.values], "labels": labels, "faults": frame.faults, "ratings": [*frame.ratings]}
    arrays = {name: getattr(frame, name) for name, one in COLUMNS.items() if one.source is not None}
    arrays |= {"label": frame.label, "fault": frame.fault}
    arrays |= {f"values{number}": column for number, column in enumerate(frame.values.values())}
    arrays |= {f"ratings{number}": column for number, column in enumerate(frame.ratings.values())}
    arrays["parts"] = np.frombuffer(json.dumps(parts).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return zlib.compress(file.getvalue(), 1)


def unpack_frame(packed: bytes) -> RunFrame:
    """The frame of `pack_frame`."""
    import numpy as np

    from saiten_server.runs.frame import COLUMNS, Label, make_frame

    with np.load(BytesIO(zlib.decompress(packed)), allow_pickle=False) as file:
        parts = json.loads(file["parts"].tobytes())
        columns = {name: file[name] for name in COLUMNS if name in file}
        values = {(kind, name): file[f"values{at}"] for at, (kind, name) in enumerate(parts["measures"])}
        ratings = {name: file[f"ratings{at}"] for at, name in enumerate(parts["ratings"])}
    labels = [
        Label(status, frozenset(warnings), frozenset(map(tuple, reasons)), *more)
        for status, warnings, reasons, *more in parts["labels"]
    ]
    faults = [None if one is None else FaultyTurns(*one) for one in parts["faults"]]
    return make_frame(len(columns["items"]), values, labels, ratings=ratings, faults=faults, **columns)
