"""A response of the explorer's list of one run: its values against their scales, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from saiten_server.core.batch import Batch
from saiten_server.core.evaluation import Evaluation
from saiten_server.core.rubric import Aspect, Level, Rubric, range_of
from saiten_server.explorer.pages.cases import CaseView, read_run_cases, show_beginning, view_cases
from saiten_server.explorer.pages.exploration import Exploration
from saiten_server.runs.result import CaseRow, Result
from saiten_server.runs.summary import BLENDED, find_faulty, measure_spread

if TYPE_CHECKING:
    from saiten_server.container import Container

MOST_LINE_VALUES = 9
"""Values in a line; a response that is open has all."""

SHADES = 5


class ItemColumn(NamedTuple):
    """A measure. `aspect` is None of a composite, and of an aspect that the rubric no longer has."""

    measure: str
    aspect: Aspect | None
    scale: tuple[float, float] | None

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
        inside = self.aspect.best if self.aspect else None
        best = high if inside is None else inside
        farthest = max(best - low, high - best)
        off = best - value if inside is None else abs(best - value)
        return round(SHADES * min(1.0, max(0.0, off) / farthest)) if farthest else 0


class ItemCell(NamedTuple):
    """One value of a result; `unrated` is the reason why there is none."""

    column: ItemColumn
    value: float | None
    level: Level | None = None
    shade: int = 0
    unrated: str | None = None

    @property
    def digits(self) -> int:
        """Decimals: none for a rating, two for a computed value."""
        computed = self.column.aspect is None or self.column.is_blended
        return 2 if computed or (self.value or 0.0) % 1 else 0


def list_item_columns(measures: Sequence[str], rubric: Rubric | None) -> list[ItemColumn]:
    """The run's measures: aspects in the rubric's order, each with its blended value behind it, then composites."""
    aspects = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    ranges = {composite.id: range_of(composite, rubric) for composite in rubric.composites} if rubric else {}
    ordered = [name for aspect in aspects for name in (aspect, aspect + BLENDED)]
    known = [name for name in (*ordered, *ranges) if name in measures]
    columns = []
    for measure in dict.fromkeys([*known, *measures]):
        aspect = aspects.get(measure.removesuffix(BLENDED))
        columns.append(ItemColumn(measure, aspect, aspect.scale if aspect else ranges.get(measure)))
    return columns


def cell_of(column: ItemColumn, evaluation: Evaluation | None) -> ItemCell:
    """What a result has there."""
    if evaluation is None:
        return ItemCell(column, None)
    found = evaluation.aspects.get(column.name)
    if found is None:
        value = evaluation.composites.get(column.name)
    else:
        value = found.blended if column.is_blended else found.mean
    if value is None:
        missing = found.unrated if found and not column.is_blended else None
        return ItemCell(column, None, unrated=missing.reason if missing else None)
    return ItemCell(column, value, column.level(value), column.shade(value))


def show_columns(columns: Sequence[ItemColumn], measure: str | None) -> list[ItemColumn]:
    """The columns of a line: aspects and composites, and the measure that the list is sorted by."""
    plain = [column for column in columns if not column.is_blended or column.measure == measure]
    others = sum(column.measure != measure for column in plain) - MOST_LINE_VALUES + 1
    left_out = [column for column in plain if column.measure != measure][::-1][: max(0, others)]
    return [column for column in plain if column not in left_out]


class ItemLine(NamedTuple):
    """A response's line in the list. `response` is its beginning, and `findings` counts the faulty turns of a
    conversation by code."""

    result: Result
    cells: Sequence[ItemCell]
    response: str
    findings: Mapping[str, int]


class ItemList(NamedTuple):
    """The responses of a run as they are listed; `rubric` is None where it is no longer installed."""

    batch: Batch
    state: Exploration
    columns: Sequence[ItemColumn]
    rubric: Rubric | None


async def read_listed(
    container: Container,
    project: str,
    listed: ItemList,
    places: Sequence[int],
    *,
    first: int,
    apart: Mapping[int, float],
) -> tuple[list[CaseView], dict[int, ItemLine]]:
    """The results at these positions as cases with all texts, and their lines by position. The first of them is number
    `first` of the list; `apart` is how far the judge is from people. What was erased meanwhile is left out."""
    batch, state, columns, rubric = listed
    run = await read_run_cases(container, project, batch, places)
    shown, rows, lines = show_columns(columns, state.measure), [], {}
    for position, result in run.found.items():
        evaluation = result.evaluation
        cells = [cell_of(column, evaluation) for column in columns]
        values = {cell.column.measure: [cell.value] for cell in cells}
        spread = measure_spread(evaluation.aspects.values()) if evaluation else None
        disagreement = spread if state.cases.sort == "samples" else apart.get(position)
        rows.append(CaseRow([position], [1], values, [None], [None], disagreement))
        line = [cell for cell in cells if cell.column in shown]
        lines[position] = ItemLine(result, line, show_beginning(result.candidate.response), count_findings(result))
    views = []
    numbers = {position: number for number, position in enumerate(places, start=first)}
    for view in view_cases([run], rubric, rows):
        position = view.row.positions[0] or 0
        address = state.item(position, numbers[position])
        views.append(view._replace(sides=[view.sides[0]._replace(address=address)]))
    return views, lines


def count_findings(result: Result) -> dict[str, int]:
    """The faulty turns of a conversation by code; none of a response or a failure."""
    conversation = result.candidate.conversation
    if result.evaluation is None or conversation is None:
        return {}
    found = find_faulty(result.evaluation, conversation).found
    return {code: len(turns) for code, turns in found.items() if turns}
