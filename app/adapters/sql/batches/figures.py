"""Results as rows of `result_figures`, and which measure stands in which of its columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.tables import result_figures
from app.batch_ports import Scores
from app.domain.browsing import MOST_MEASURES

figure = result_figures.c
BLENDED = ".blended"
VALUES = tuple(f"v{number:02}" for number in range(MOST_MEASURES))
REWRITTEN = ("status", "system", "warnings", "unrated", *VALUES)
REWRITE = (
    update(result_figures)
    .where(figure.batch_id == bindparam("this"), figure.position == bindparam("place"))
    .values({name: bindparam(f"new_{name}") for name in REWRITTEN})
)

Placed = Sequence[tuple[int, Scores]]
"""Results with their positions in one batch."""


def read_measures(text: str | None) -> tuple[str, ...]:
    """The measures in a column that may be null."""
    return () if text is None else tuple(json.loads(text))


def write_measures(measures: Sequence[str]) -> str | None:
    """What the column is to hold; null as long as there is none."""
    return json.dumps(measures) if measures else None


def extend_measures(known: Sequence[str], results: Iterable[Scores]) -> tuple[str, ...]:
    """The known measures, then what these results have besides: aspects, composites, blended values. As many as there
    are columns for."""
    aspects, composites = dict[str, None](), dict[str, None]()
    for scores in results:
        aspects.update(dict.fromkeys(scores.aspects))
        composites.update(dict.fromkeys(scores.composites))
    names = dict.fromkeys([*known, *aspects, *composites, *(name + BLENDED for name in aspects)])
    return tuple(names)[:MOST_MEASURES]


def measure(scores: Scores) -> dict[str, float | None]:
    """Every measure of a result. An aspect goes before whatever else would have its name."""
    return {
        **{name + BLENDED: figures[1] for name, figures in scores.aspects.items()},
        **scores.composites,
        **{name: figures[0] for name, figures in scores.aspects.items()},
    }


def describe_figures(scores: Scores, measures: Sequence[str], width: int) -> dict[str, Any]:
    """The columns of a result but its place, of the values the first `width`."""
    found = measure(scores)
    values = [found.get(name) for name in measures[:width]]
    return {
        "status": scores.status,
        "system": scores.system,
        "warnings": enclose(scores.warnings),
        "unrated": enclose([name for name, figures in scores.aspects.items() if figures[0] is None]),
        **dict(zip(VALUES[:width], [*values, *[None] * (width - len(values))], strict=True)),
    }


def enclose(names: Iterable[str]) -> str:
    """The names with a space before and after each, so that ` name ` finds one."""
    return "".join(f" {name}" for name in names) + " "


async def insert_figures(
    connection: AsyncConnection,
    added: Mapping[str, Placed],
    measures: Mapping[str, Sequence[str]],
    clusters: Mapping[tuple[str, int], str | None],
) -> None:
    """Puts new results in, by batch. `clusters` are by batch and position."""
    # All rows of a statement have the same columns; those that no batch needs would only cost time.
    width = max((len(found) for found in measures.values()), default=0)
    rows = [
        {
            "batch_id": batch_id,
            "position": position,
            "cluster": clusters.get((batch_id, position)),
            **describe_figures(scores, measures[batch_id], width),
        }
        for batch_id, results in added.items()
        for position, scores in results
    ]
    if rows:
        await connection.execute(insert(result_figures), rows)


async def rewrite_figures(connection: AsyncConnection, batch_id: str, results: Placed, measures: Sequence[str]) -> None:
    """Writes the figures of results that have some already anew."""
    rows = [
        {
            "this": batch_id,
            "place": position,
            **{f"new_{name}": value for name, value in describe_figures(scores, measures, MOST_MEASURES).items()},
        }
        for position, scores in results
    ]
    if rows:
        await connection.execute(REWRITE, rows)
