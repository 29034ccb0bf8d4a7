"""The table's columns: what results of a run can be sorted by, and how a value is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.composites import range_of
from app.domain.rubric import Aspect, Level, Rubric
from app.domain.scores import Scores

BLENDED = ".blended"
SHADES = 5


@dataclass(frozen=True)
class Column:
    """A measure. `aspect` is the rubric's, that of a blended value too; None of a composite, and of what the rubric
    does not have any more."""

    measure: str
    aspect: Aspect | None
    scale: tuple[float, float] | None
    best: float | None

    @property
    def is_blended(self) -> bool:
        return self.measure.endswith(BLENDED)

    @property
    def name(self) -> str:
        """The aspect's or the composite's id."""
        return self.measure.removesuffix(BLENDED)

    def level(self, value: float) -> Level | None:
        """The level of the scale that the value is, if it is one."""
        if self.aspect is None or self.is_blended:
            return None
        return next((level for level in self.aspect.levels if level.value == value), None)

    def shade(self, value: float) -> int:
        """How far the value is from the best one: 0 not at all, to `SHADES`, as far as the scale goes."""
        if self.scale is None:
            return 0
        low, high = self.scale
        best = high if self.best is None else self.best
        farthest = max(best - low, high - best)
        off = (
            min(1.0, max(0.0, abs(best - value) if self.best is not None else best - value) / farthest)
            if farthest
            else 0
        )
        return round(SHADES * off)


@dataclass(frozen=True)
class Cell:
    """One value of a result; `unrated` is the reason why there is none."""

    column: Column
    value: float | None
    level: Level | None = None
    shade: int = 0
    unrated: str | None = None

    @property
    def digits(self) -> int:
        """Behind the point: none of a rating, two of what is reckoned."""
        reckoned = self.column.aspect is None or self.column.is_blended
        return 2 if reckoned or (self.value or 0.0) % 1 else 0


def list_columns(measures: Sequence[str], rubric: Rubric | None) -> list[Column]:
    """The run's measures: aspects in the rubric's order, each with its blended value behind it, then composites."""
    aspects = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    ranges = {composite.id: range_of(composite, rubric) for composite in rubric.composites} if rubric else {}
    ordered = [name for aspect in aspects for name in (aspect, aspect + BLENDED)]
    known = [name for name in (*ordered, *ranges) if name in measures]
    return [column_of(name, aspects, ranges) for name in dict.fromkeys([*known, *measures])]


def column_of(measure: str, aspects: Mapping[str, Aspect], ranges: Mapping[str, tuple[float, float]]) -> Column:
    """The column of a measure."""
    aspect = aspects.get(measure.removesuffix(BLENDED))
    if aspect is None:
        return Column(measure, None, ranges.get(measure), None)
    return Column(measure, aspect, aspect.scale, None if aspect.best is None else float(aspect.best))


def cell_of(column: Column, scores: Scores) -> Cell:
    """What a result has there."""
    if column.name in scores.aspects:
        mean, blended, reason, _ = scores.aspects[column.name]
        value = blended if column.is_blended else mean
        unrated = None if column.is_blended or mean is not None else reason
    else:
        value, unrated = scores.composites.get(column.name), None
    if value is None:
        return Cell(column, None, unrated=unrated)
    return Cell(column, value, column.level(value), column.shade(value))
