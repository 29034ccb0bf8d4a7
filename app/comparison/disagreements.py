"""Where people rated a batch's responses unlike the judge, response by response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import mean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saiten_server.ratings.reliability import CountedRatings
    from saiten_server.ratings.table import Answers

MOST_MATRIX_LEVELS = 20
"""Different values of the judge or of people up to which there is a matrix."""


@dataclass(frozen=True)
class RatedTwice:
    """One aspect of a response that the judge and `n` people rated. `people` is their mean, `median` their median."""

    position: int
    judge: float
    people: float
    median: float
    n: int

    @property
    def difference(self) -> float:
        """How much higher the judge rated."""
        return self.judge - self.people


@dataclass(frozen=True)
class Disagreements:
    """By aspect what the judge and people both rated, the largest difference first."""

    aspects: Mapping[str, Sequence[RatedTwice]]

    def rank(self, aspect: str | None, scales: Mapping[str, tuple[int, int]]) -> dict[int, float]:
        """By position how far the judge is from people's mean, the farthest first: on the aspect, or on average over
        all that both rated. It is a share of the scale."""
        apart: dict[int, list[float]] = {}
        for name, (low, high) in scales.items():
            if aspect in (None, name) or aspect not in self.aspects:
                for row in self.aspects.get(name, ()):
                    apart.setdefault(row.position, []).append(abs(row.difference) / (high - low))
        means = {position: mean(each) for position, each in apart.items()}
        return dict(sorted(means.items(), key=lambda pair: (-pair[1], pair[0])))


@dataclass(frozen=True)
class JudgedTable:
    """How many responses have each value of the judge (columns) and median of people (rows), both from low to high."""

    judge: Sequence[float]
    people: Sequence[float]
    counts: Mapping[tuple[float, float], int]
    """By people's median and the judge's value."""


def find_disagreements(table: Answers, found: CountedRatings, aspects: Sequence[str]) -> Disagreements:
    """Of these aspects, in their order; of people's simulated ratings nothing is said. Not for an event loop."""
    values: dict[tuple[str, int], list[float]] = {}
    for opinion in () if found.used.simulated else table.rate(found.ratings):
        for name, value in opinion.ratings.items():
            values.setdefault((name, opinion.row), []).append(value)
    rows: dict[str, list[RatedTwice]] = {}
    judged = {name: table.column(name) for name in {name for name, _ in values} if name in table.names}
    for (name, row), given in values.items():
        if name in judged and not isnan(own := float(judged[name][row])):
            position = table.place_of(row)[1]
            rows.setdefault(name, []).append(RatedTwice(position, own, mean(given), median(given), len(given)))
    ordered = {name: sorted(rows[name], key=order) for name in aspects if name in rows}
    return Disagreements(ordered)


def order(row: RatedTwice) -> tuple[float, int]:
    """The largest difference first."""
    return -abs(row.difference), row.position


def cross_tabulate(rows: Sequence[RatedTwice]) -> JudgedTable | None:
    """The matrix; None where either side has more than `MOST_MATRIX_LEVELS` values."""
    counts = Counter((row.median, row.judge) for row in rows)
    people, judge = ([*sorted({key[side] for key in counts})] for side in (0, 1))
    return JudgedTable(judge, people, counts) if max(len(people), len(judge)) <= MOST_MATRIX_LEVELS else None
