"""The figures of results: made for a test, as columns, and read from a store."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import Entry
from saiten_server.core.conversation import FINDING
from saiten_server.core.model import key_of
from saiten_server.platform.sql.engine import fetch, fetch_value
from saiten_server.platform.sql.tables import batches
from saiten_server.runs.frame import RunFrame
from saiten_server.runs.store import frames
from saiten_server.runs.store.rows import (
    FIXED,
    VALUE_COLUMNS,
    Measures,
    decode_ratings,
    describe_figures,
    extend_measures,
    figure,
    read_faulty,
    read_further,
    read_measures,
    read_unrated,
)
from saiten_server.runs.summary import MeasureKey, ResultFigures

Verdict = tuple[float | None, float | None, str | None, int | None]
"""Of an aspect: mean, blended value, why there is none, rating."""


def make_figures(
    status: str, aspects: Mapping[str, Verdict], composites: Mapping[str, float | None], **more: Any
) -> ResultFigures:
    """The figures of a result with these verdicts."""
    values: dict[MeasureKey, float | None] = {("aspect", name): one[0] for name, one in aspects.items()}
    values |= {("composite", name): value for name, value in composites.items()}
    values |= {("blended", name): one[1] for name, one in aspects.items() if one[1] is not None}
    return ResultFigures(
        status,
        values,
        {name: one[3] for name, one in aspects.items() if one[3] is not None and one[3] != one[0] is not None},
        {name: one[2] for name, one in aspects.items() if one[0] is None},
        **more,
    )


def place_figures(results: Sequence[ResultFigures], entries: Sequence[Entry] | None = None) -> RunFrame:
    """The run of these results, as the store writes and reads it."""
    places = entries or [Entry(position=at, item=str(at), candidate=None) for at in range(len(results))]
    measures = extend_measures((), results)
    sources = frames.list_sources()
    names = (*sources, *frames.LABELLED, *frames.SPARSE_COLUMNS, *VALUE_COLUMNS[: len(measures)])
    rows = []
    for figures, entry in zip(results, places, strict=True):
        columns = describe_figures(figures, measures, len(measures))
        columns |= {"position": entry.position, "item_key": key_of(entry.item), "cluster": entry.cluster}
        rows.append([{**columns, "candidate": entry.candidate}[name] for name in names])
    return frames.concatenate_frames([frames.frame_rows(rows, sources, measures)])


def select_figures(measures: Measures) -> list[ColumnElement[Any]]:
    """The columns that `read_figures` reads."""
    return [figure[name].label(f"figure_{name}") for name in (*FIXED, *VALUE_COLUMNS[: len(measures)])]


def read_figures(row: Any, measures: Measures) -> ResultFigures:
    """The figures in a row of `select_figures`."""
    told = {name: getattr(row, f"figure_{name}") for name in FIXED}
    unrated = read_unrated(told["unrated"], told["reasons"])
    values: dict[MeasureKey, float | None] = {}
    if told["failure"] is None:
        placed = {key: getattr(row, f"figure_{column}") for key, column in zip(measures, VALUE_COLUMNS, strict=False)}
        values = {key: value for key, value in placed.items() if value is not None}
        values |= {("aspect", name): None for name in unrated}
    return ResultFigures(
        **{name: told[name] for name in ("status", "failure", "similarity", "system", "build", "context", "spread")},
        values=values | read_further(told["further"]),
        ratings=decode_ratings(told["ratings"]),
        unrated=unrated,
        warnings=tuple(code for code in told["warnings"].split() if not code.startswith(FINDING)),
        faulty=read_faulty(told["system_turns"], told["findings"]),
    )


async def read_all(engine: AsyncEngine, batch_id: str = "ba_1") -> list[ResultFigures]:
    """Those of all results that the batch has, in order."""
    measures = read_measures(await fetch_value(engine, select(batches.c.measures).where(batches.c.id == batch_id)))
    query = select(*select_figures(measures)).where(figure.batch_id == batch_id).order_by(figure.position)
    return [read_figures(row, measures) for row in await fetch(engine, query)]
