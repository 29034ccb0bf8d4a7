"""The results of a batch as columns of numbers, and a few of them whole."""

from __future__ import annotations

import asyncio
import functools
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from sqlalchemy import Select, Text, exists, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.batch import Candidate, Entry, Failure
from app.domain.evaluation import Evaluation
from app.domain.human_rating import StoredRating
from app.domain.summary import flat_name, key_measure
from app.storage.sql import engine as db
from app.storage.sql import tables as t
from app.storage.sql.batches.rows import (
    PLACE,
    VALUES,
    read_candidate,
    read_entry,
    read_failure,
    read_record,
)
from app.storage.sql.batches.views import ENDED
from app.storage.sql.browsing import Browsable, find_batch
from app.storage.sql.ratings import read_rating
from app.storage.sql.tables import equals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.domain.run_frame import Floats, RunFrame, RunNames

figure, result, item, rating = t.result_figures.c, t.evaluations.c, t.batch_items.c, t.human_ratings.c

COUNTED = ("total", "scored", "partial", "failed", "expired")

PAGE = 20_000
"""Rows that are read and turned into columns at a time, in a twentieth of a second."""

LEAST_KEPT = 5000
"""Results of a batch whose frame is kept; fewer are read in a tenth of a second."""

own, chunk = t.batches.c, t.batch_chunks.c
HELD = exists().where(chunk.batch_id == own.id, chunk.state == "leased")
"""A worker may still rewrite results of a batch that was cancelled."""

WORTH = own.status.in_(ENDED) & (own.texts.is_(None) | own.texts.in_(("hash", "drop"))) & ~HELD
FORMAT = "3"
"""Of `pack_frame`: what was kept in another is made again."""

PARTS = (literal(FORMAT), own.status, func.coalesce(own.texts, ""), *(own[name].cast(Text) for name in COUNTED))
STATE: Select[Any] = select(functools.reduce(lambda told, one: told.concat("/").concat(one), PARTS)).where(WORTH)
"""What changes whenever the results of an ended batch do; nothing for one whose results still change."""

MOST_RATINGS = 500
"""Human ratings that are shown with a page of responses."""


@dataclass(frozen=True)
class WholeResult:
    """A response with everything that is known of it; a `failure` stands in the place of an evaluation."""

    entry: Entry
    id: str
    candidate: Candidate
    evaluation: Evaluation | None
    failure: Failure | None


class FrameStore:
    """Reads frames and whole results, of a project's own batches only. Raises the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read_frame(self, project: str, batch_id: str, aspects: Collection[str]) -> RunFrame:
        """All results that the batch has now; none if the project has no such batch. `aspects` are the rubric's. Those
        of a large batch that has ended are kept for the next time: who asks while they are read waits for that."""
        turn = self._turns.get(batch_id)
        if turn is None:
            turn = self._turns[batch_id] = asyncio.Lock()
        async with turn:
            return await self._read(project, batch_id, aspects)

    async def _read(self, project: str, batch_id: str, aspects: Collection[str]) -> RunFrame:
        async with db.read(self._engine) as connection:
            batch = await find_batch(connection, project, batch_id)
        if batch is None:
            return await asyncio.to_thread(join, (), [], aspects)
        state = await db.fetch_value(self._engine, STATE.where(t.batches.c.id == batch_id))
        kept = t.run_frames.c
        stored = select(kept.frame).where(kept.batch_id == batch_id, kept.state == state)
        packed = await db.fetch_value(self._engine, stored)
        if packed is not None:
            return await asyncio.to_thread(unpack_frame, packed, aspects)
        frame = await self._read_all(batch, aspects)
        if state is not None and batch.total >= LEAST_KEPT:
            row = {"batch_id": batch_id, "state": state, "frame": await asyncio.to_thread(pack_frame, frame)}
            async with db.change(self._engine) as connection:
                # Locked: an erasure or a redaction that comes later removes the row again.
                held = STATE.where(t.batches.c.id == batch_id).with_for_update()
                if (await connection.execute(held)).scalar_one_or_none() == state:
                    await connection.execute(db.insert_or_replace(connection, t.run_frames), row)
        return frame

    async def _read_all(self, batch: Browsable, aspects: Collection[str]) -> RunFrame:
        names = tuple(batch.columns)
        sources = await asyncio.to_thread(list_sources)
        columns = [figure[name] for name in (*sources, *LABELLED, *VALUES[: len(names)])]
        query = select(*columns).where(figure.batch_id == batch.id, figure.item_key.is_not(None))
        parts, after = [], -1
        while True:
            page = query.where(figure.position > after).order_by(figure.position).limit(PAGE)
            rows = await db.fetch(self._engine, page)
            if not rows:
                break
            parts.append(await asyncio.to_thread(tabulate, rows, sources))
            after = rows[-1].position
        return await asyncio.to_thread(join, names, parts, aspects)

    async def read_names(self, project: str, batch_id: str, positions: Sequence[int] | None = None) -> RunNames:
        """What the results at these positions, or all that the batch has now, are called; see `RunNames`."""
        columns = [result[name] for name in ("position", "id", "item", "candidate")]
        query = select(*columns).where(equals(result.batch_id, batch_id), equals(result.project, project))
        rows: list[Any] = []
        if positions is not None:
            for named in db.cut(sorted(positions), PAGE // 20):
                rows += await db.fetch(self._engine, query.where(result.position.in_(named)).order_by(result.position))
            return await asyncio.to_thread(name_results, rows)
        while some := await db.fetch(
            self._engine,
            query.where(result.position > (rows[-1].position if rows else -1)).order_by(result.position).limit(PAGE),
        ):
            rows += some
        return await asyncio.to_thread(name_results, rows)

    async def read_whole(self, project: str, batch_id: str, positions: Sequence[int]) -> Mapping[int, WholeResult]:
        """The results at these positions that are there, by position."""
        if not positions:
            return {}
        columns = [result.id, *(result[name] for name in PLACE), result.record, result.failure, item.request]
        query = (
            select(*columns)
            .join(t.batch_items, (item.batch_id == result.batch_id) & (item.position == result.position))
            .where(result.project == project, result.batch_id == batch_id, result.position.in_(positions))
        )
        rows = await db.fetch(self._engine, query)
        return await asyncio.to_thread(lambda: {row.position: read_whole(row) for row in rows})

    async def read_ratings(
        self, project: str, batch_id: str, results: Sequence[WholeResult]
    ) -> Sequence[tuple[int, StoredRating]]:
        """People's ratings that may concern these results of the batch: of the evaluations, and of the items in this
        batch or in none. The oldest come first, and of very many the newest are left out."""
        items, ids = {one.entry.item for one in results}, {one.id for one in results}
        mine = rating.project == project
        of_item = (rating.batch_id == batch_id) | rating.batch_id.is_(None)
        found = {}
        for condition in (of_item & rating.item.in_(items), rating.evaluation.in_(ids)):
            query = select(t.human_ratings).where(mine, condition).order_by(rating.number).limit(MOST_RATINGS)
            found.update({row.number: read_rating(row) for row in await db.fetch(self._engine, query)})
        return sorted(found.items(), key=lambda pair: pair[0])

    async def find_places(self, project: str, evaluations: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Batch and position of each of these evaluations that is in a batch, by its id."""
        found = {}
        for some in db.cut(evaluations, PAGE // 20):
            query = select(result.id, result.batch_id, result.position).where(
                result.id.in_(some), result.project == project, result.batch_id.is_not(None)
            )
            found.update({row.id: (row.batch_id, row.position) for row in await db.fetch(self._engine, query)})
        return found


LABELLED = ("status", "warnings", "unrated", "system")
"""The stored columns that a label is of."""


class Part(NamedTuple):
    """Some results: the stored columns by name, what labels them, and the values of all measures, (rows, measures)."""

    columns: Mapping[str, NDArray[Any]]
    labels: Sequence[tuple[str, str, str, str | None]]
    values: Floats


def list_sources() -> list[str]:
    """The stored columns that `RunFrame` declares. It loads numpy."""
    from app.domain.run_frame import COLUMNS

    return [one.source for one in COLUMNS.values() if one.source is not None]


def tabulate(rows: Sequence[Any], sources: Sequence[str]) -> Part:
    """Some rows as columns: first the `sources`, then what labels them, then the values."""
    import numpy as np

    from app.domain.run_frame import COLUMNS, key_all

    stored = dict(zip((*sources, *LABELLED), given := [*zip(*rows, strict=True)], strict=False))
    columns = {}
    for name, one in COLUMNS.items():
        if one.source == "cluster":
            columns[name] = key_all(stored[one.source])
        elif one.source is not None:
            found = [one.absent if value is None else value for value in stored[one.source]]
            columns[name] = np.array(found, dtype=one.dtype)
    labels = list(zip(*(stored[one] for one in LABELLED), strict=True))
    values = np.array(given[len(stored) :], dtype=np.float64).reshape(-1, len(rows)).T
    return Part(columns, labels, values)


def join(names: tuple[str, ...], parts: Sequence[Part], aspects: Collection[str]) -> RunFrame:
    """The run of all parts."""
    import numpy as np

    from app.domain.run_frame import Label, make_frame

    if not parts:
        return make_frame(0, {key_measure(name, aspects): np.empty(0) for name in names}, [])
    found: dict[tuple[str, str, str, str | None], int] = {}
    label = [found.setdefault(each, len(found)) for part in parts for each in part.labels]
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    values = {
        key_measure(name, aspects): np.concatenate([part.values[:, number] for part in parts])
        for number, name in enumerate(names)
    }
    labels = [
        Label(status, frozenset(warnings.split()), frozenset(unrated.split()), system=system)
        for status, warnings, unrated, system in found
    ]
    return make_frame(len(label), values, labels, label=np.array(label), **columns)


def name_results(rows: Sequence[Any]) -> RunNames:
    """The names in some rows."""
    import numpy as np

    from app.domain.run_frame import RunNames

    positions, evaluations, items, candidates = zip(*rows, strict=True) if rows else ((), (), (), ())
    numbers = [-1 if one is None else one for one in candidates]
    return RunNames(np.array(positions, dtype=np.int32), evaluations, items, np.array(numbers, dtype=np.int32))


def pack_frame(frame: RunFrame) -> bytes:
    """The frame as a compressed file of arrays: 3 MB for 100,000 results."""
    import numpy as np

    from app.domain.run_frame import COLUMNS

    labels = [[one.status, one.system, *map(sorted, (one.warnings, one.unrated))] for one in frame.labels]
    named = {"names": [flat_name(key) for key in frame.values], "labels": labels}
    arrays = {name: getattr(frame, name) for name, one in COLUMNS.items() if one.source is not None}
    arrays["label"] = frame.label
    arrays |= {f"values{number}": column for number, column in enumerate(frame.values.values())}
    arrays["named"] = np.frombuffer(json.dumps(named).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return zlib.compress(file.getvalue(), 1)


def unpack_frame(packed: bytes, aspects: Collection[str]) -> RunFrame:
    """The frame of `pack_frame`."""
    import numpy as np

    from app.domain.run_frame import COLUMNS, Label, make_frame

    with np.load(BytesIO(zlib.decompress(packed)), allow_pickle=False) as file:
        named = json.loads(file["named"].tobytes())
        columns = {name: file[name] for name in COLUMNS if name in file}
        values = {key_measure(name, aspects): file[f"values{at}"] for at, name in enumerate(named["names"])}
    labels = [
        Label(status, frozenset(warned), frozenset(lost), system=system)
        for status, system, warned, lost in named["labels"]
    ]
    return make_frame(len(columns["items"]), values, labels, **columns)


def read_whole(row: Any) -> WholeResult:
    """The result of a row."""
    failure = read_failure(row.failure)
    evaluation = read_record(row.record).evaluation if failure is None else None
    return WholeResult(read_entry(row), row.id, read_candidate(row.request), evaluation, failure)
