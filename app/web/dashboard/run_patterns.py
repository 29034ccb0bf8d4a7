"""How a run's aspects hang together, for a matrix of correlations."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.bootstrap import Service
from app.domain.batch import Batch
from app.domain.browsing import MOST_MEASURES
from app.domain.reports import Correlations
from app.meta.computations import Pending
from app.web.dashboard.texts import mark

MOST_PATTERNS = 20_000
SHADES = 5
COEFFICIENTS = ("spearman", "pearson")

ALONE = mark("The rubric has one aspect only: there is nothing to correlate it with.")
TOO_MANY = mark("The ratings take too many different values to be correlated on a page; download the results instead.")
NOTHING = mark("There are no results yet.")


@dataclass(frozen=True)
class Cell:
    """Two aspects' correlation. Without one, `reason` says why, in English. `shade` is a class, empty near zero."""

    value: float | None
    n: int
    reason: str
    shade: str


@dataclass(frozen=True)
class Aspects:
    """The matrix, or that it is being computed, or why there is none: a message's id."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    is_computing: bool = False
    why_not: str | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why pairs have no correlation, in English, each reason once."""
        return tuple(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


async def correlate(service: Service, project: str, batch: Batch, names: Sequence[str], coefficient: str) -> Aspects:
    """The matrix over the results that there are now."""
    names = tuple(names)[:MOST_MEASURES]
    finished = batch.counts.total - batch.counts.queued
    if len(names) < 2:
        return Aspects(why_not=ALONE)
    if not finished:
        return Aspects(why_not=NOTHING)

    async def work() -> Correlations | None:
        patterns = await service.browser.count_patterns(project, batch.id, names, most=MOST_PATTERNS)
        if patterns is None:
            return None
        return await asyncio.to_thread(correlate_there, names, patterns)

    # A run that goes on has other results each time: then as many are the same ones.
    found = await service.computations.get(project, ("patterns", batch.id, finished, names), work)
    if isinstance(found, Pending):
        return Aspects(is_computing=True)
    if found is None:
        return Aspects(why_not=TOO_MANY)
    return Aspects(names, tuple(tuple(make_cell(found, coefficient, a, b) for b in names) for a in names))


def correlate_there(names: Sequence[str], patterns: Sequence[tuple[tuple[float | None, ...], int]]) -> Correlations:
    """The matrices; numpy is loaded here."""
    from app.analysis.correlation import correlate_patterns

    return correlate_patterns(names, patterns)


def make_cell(found: Correlations, coefficient: str, row: str, column: str) -> Cell:
    """One cell. A pair's reason stands under the aspect that comes first."""
    matrix = found.pearson if coefficient == "pearson" else found.spearman
    value = matrix[row][column]
    reason = reason_of(found.undefined, row, column) or reason_of(found.undefined, column, row)
    return Cell(value, found.n[row][column], reason, "" if row == column else shade_of(value))


def reason_of(undefined: Mapping[str, Mapping[str, str]], one: str, other: str) -> str:
    """Why the pair has no correlation; empty where it has one."""
    return undefined.get(one, {}).get(other, "")


def shade_of(value: float | None) -> str:
    """The class of a cell's ground: the farther from zero, the stronger."""
    step = 0 if value is None else min(SHADES, int(abs(value) * SHADES + 0.5))
    return f"cell-{'p' if (value or 0) > 0 else 'n'}{step}" if step else ""
