"""The tables of the papers that the rubrics come from, from one file of ratings and scores, in their layout.

`systems` is table 1 of the long-form paper (Kamoda et al.); `aspects`, `raters` and `scorers` are tables 3, 4 and 5 of
the Japanese dialogue paper (Terauchi et al.).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saiten.core.figures import round_figure
from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.validation import clip
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.correlation import ceiling_of, correlations, values_by_unit
from saiten_server.stats.observations import Floats, Observations, average_groups
from saiten_server.stats.scorers import group_columns
from saiten_server.stats.statistics import settled_means

TableName = Literal["systems", "aspects", "raters", "scorers"]
TABLES: tuple[TableName, ...] = ("systems", "aspects", "raters", "scorers")

MOST_TABLE_SYSTEMS = 500
MOST_LISTED_LEVELS = 7
"""Levels up to which they stand beside an aspect's name."""


@dataclass(frozen=True)
class PaperColumn:
    """A column; each of its cells holds a figure for each of the `parts`, with so many digits."""

    name: str
    parts: tuple[str, ...] = ("",)
    digits: int = 2


@dataclass(frozen=True)
class PaperRow:
    """A row: its name, and a cell a column of one figure a part, None where there is none."""

    name: str
    cells: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class PaperTable:
    """A table as it is printed. The last `footer` rows stand below a rule. `bold`: in each column the highest figures
    above it are marked."""

    title: str
    head: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[PaperRow, ...]
    footer: int = 0
    bold: bool = False
    notes: tuple[str, ...] = ()

    def best(self, column: int, part: int) -> float | None:
        """The highest figure of that column and part, as it is printed, if it is to be marked."""
        rows = self.rows[: len(self.rows) - self.footer] if self.bold else ()
        digits = self.columns[column].digits
        found = (row.cells[column][part] for row in rows)
        return max((float(round_figure(one, digits)) for one in found if one is not None), default=None)


def make_table(
    name: TableName, observations: Observations, *, aspect: str | None = None, match: Mapping[str, str] | None = None
) -> PaperTable:
    """The table of that name. `aspect` is what people said, for `systems`; scores are matched as by `compare_scorers`.
    Raises InvalidRequest where the observations have not what it shows."""
    match name:
        case "systems":
            return tabulate_systems(observations, aspect, match or {})
        case "aspects":
            return tabulate_aspects(observations)
        case "raters":
            return tabulate_raters(observations)
        case "scorers":
            return tabulate_scorers(observations, match or {})


def find_scorers(observations: Observations, match: Mapping[str, str]) -> dict[str, dict[str, Floats]]:
    """The values by unit of each scorer, by the rated aspect that they are of. Raises InvalidRequest without any."""
    found = {
        rating: {scorer: values_by_unit(observations, column) for scorer, column in scorers.items()}
        for rating, scorers in group_columns(observations, match).items()
        if rating in observations.ratings
    }
    if not found:
        raise InvalidRequest(Message("table-no-aspect"), pointer="/data")
    return found


def tabulate_systems(observations: Observations, aspect: str | None, match: Mapping[str, str]) -> PaperTable:
    """Each system's means by people and by each scorer, and below them Pearson's r with people."""
    found = find_scorers(observations, match)
    wanted = aspect or (next(iter(found)) if len(found) == 1 else None)
    if wanted is None or wanted not in found:
        raise InvalidRequest(Message("table-aspect-missing", names=", ".join(map(clip, found))), pointer="/aspect")
    if len(observations.systems) > MOST_TABLE_SYSTEMS:
        raise InvalidRequest(Message("table-systems-most", count=len(observations.systems), most=MOST_TABLE_SYSTEMS))
    people = settled_means(observations, observations.ratings[wanted])
    columns = {f"human {wanted}": people, **found[wanted]}
    group, systems = observations.unit_system, len(observations.systems)
    means = {name: average_groups(column, group, systems) for name, column in columns.items()}
    figures = [correlate_units(people, column, "pearson") for column in found[wanted].values()]
    rows = [
        PaperRow(system or "(no name)", tuple((known(mean[number]),) for mean in means.values()))
        for number, system in enumerate(observations.systems)
    ]
    return PaperTable(
        title=f"Mean scores by system, and Pearson's correlation with people's {wanted}",
        head="system",
        columns=tuple(PaperColumn(name, digits=choose_digits(mean)) for name, mean in means.items()),
        rows=(*rows, PaperRow("Corr.", ((None,), *((figure,) for figure in figures)))),
        footer=1,
        notes=tell_sizes([count_both(people, column) for column in found[wanted].values()]),
    )


def tabulate_aspects(observations: Observations) -> PaperTable:
    """Spearman's correlations of the raters' means between aspects."""
    found = measure_agreement(observations).correlations
    names = list(found.spearman)
    return PaperTable(
        title="Correlations of people's ratings between aspects (Spearman)",
        head="aspect",
        columns=tuple(PaperColumn(name) for name in names),
        rows=tuple(
            PaperRow(one, tuple((None if one == other else found.spearman[one][other],) for other in names))
            for one in names
        ),
        notes=tell_sizes([found.n[one][other] for one in names for other in names if one != other]),
    )


def tabulate_raters(observations: Observations) -> PaperTable:
    """Mean and standard deviation of the raters' means, and each rater against the mean of the others."""
    found = measure_agreement(observations).aspects
    return PaperTable(
        title="Ratings, and each rater against the mean of the others (r_s: Spearman, r_p: Pearson)",
        head="aspect",
        columns=tuple(map(PaperColumn, ("mean", "sd", "r_s", "r_p"))),
        rows=tuple(
            PaperRow(
                name + list_levels(observations.ratings[name]),
                ((one.mean,), (one.sd,), (one.spearman,), (one.pearson,)),
            )
            for name, one in found.items()
        ),
        notes=tell_sizes([one.n for one in found.values()]),
    )


def tabulate_scorers(observations: Observations, match: Mapping[str, str]) -> PaperTable:
    """Spearman's and Pearson's correlation of each scorer with people by aspect, and below them what raters reach. Each
    cell is of the items that its scorer has."""
    found = find_scorers(observations, match)
    people = {aspect: settled_means(observations, observations.ratings[aspect]) for aspect in found}
    names = dict.fromkeys(scorer for scorers in found.values() for scorer in scorers)
    kinds = ("spearman", "pearson")

    def compare(scorer: str, aspect: str) -> tuple[float | None, ...]:
        scores = found[aspect].get(scorer)
        return tuple(None if scores is None else correlate_units(people[aspect], scores, kind) for kind in kinds)

    ceilings = [ceiling_of(observations, aspect, ~np.isnan(people[aspect])) for aspect in found]
    reached = tuple((None, None) if one is None else (one.spearman, one.pearson) for one in ceilings)
    return PaperTable(
        title="Correlation with people's ratings (left: Spearman, right: Pearson)",
        head="scorer",
        columns=tuple(PaperColumn(aspect, kinds) for aspect in found),
        rows=(
            *(PaperRow(scorer, tuple(compare(scorer, aspect) for aspect in found)) for scorer in names),
            *([PaperRow("people", reached)] if any(ceilings) else []),
        ),
        footer=1 if any(ceilings) else 0,
        bold=True,
        notes=tell_sizes(
            [count_both(people[aspect], scores) for aspect, scorers in found.items() for scores in scorers.values()]
        ),
    )


def correlate_units(people: Floats, scores: Floats, kind: str) -> float | None:
    """The coefficient on the units that have both, shapes (units,); None where it is undefined."""
    both = ~(np.isnan(people) | np.isnan(scores))
    found: float | None = correlations(scores[both], people[both])[0][kind]
    return found


def count_both(people: Floats, scores: Floats) -> int:
    """How many units have both."""
    return int((~(np.isnan(people) | np.isnan(scores))).sum())


def known(value: float) -> float | None:
    """The value, None for NaN."""
    return None if np.isnan(value) else float(value)


def choose_digits(values: Floats) -> int:
    """Digits after the point: as many as leave three figures of the greatest value, two at most."""
    greatest = float(np.nanmax(np.abs(values))) if not np.isnan(values).all() else 0.0
    return 2 if greatest < 10 else 1 if greatest < 100 else 0


def list_levels(column: Floats) -> str:
    """`(1,2,3)`, where the ratings are a few whole numbers."""
    levels = np.unique(column[~np.isnan(column)])
    few = 0 < len(levels) <= MOST_LISTED_LEVELS and bool((levels == np.round(levels)).all())
    return f"({','.join(f'{level:.0f}' for level in levels)})" if few else ""


def tell_sizes(counts: Sequence[int]) -> tuple[str, ...]:
    """What the figures are of."""
    if not counts:
        return ()
    least, most = min(counts), max(counts)
    return (f"{most:,} items" if least == most else f"{least:,} to {most:,} items a figure",)
