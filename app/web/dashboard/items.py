"""`/runs/{id}/items`: the results of a run as a sorted and filtered table."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.datastructures import QueryParams

from app.domain.browsing import ANY_ASPECT, BrowsedPage, ResultQuery
from app.domain.composites import range_of
from app.domain.conversation import CODES
from app.domain.errors import UnknownRubric
from app.domain.rubric import Aspect, Level, Rubric
from app.domain.summary import Scores
from app.web.dashboard.language import query
from app.web.dashboard.page import PageRoute, Project, render
from app.web.dashboard.run_values import find_rubric
from app.web.dependencies import Serving

BLENDED = ".blended"
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


def list_columns(measures: Sequence[str], rubric: Rubric | None) -> list[ItemColumn]:
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


def cell_of(column: ItemColumn, scores: Scores) -> ItemCell:
    """What a result has there."""
    if column.name in scores.aspects:
        mean, blended, reason, _ = scores.aspects[column.name]
        value = blended if column.is_blended else mean
        unrated = None if column.is_blended or mean is not None else reason
    else:
        value, unrated = scores.composites.get(column.name), None
    if value is None:
        return ItemCell(column, None, unrated=unrated)
    return ItemCell(column, value, column.level(value), column.shade(value))


POSITION = "position"
"""As `sort`: the batch's own order."""

BEST = "best"
"""As `order`: the best comes first, otherwise the worst."""

FILTERS = ("unrated", "warning", "finding", "status", "system", "text")
"""The filters that have one value: fields of `Listing`, and parameters of an address."""

STATUSES = ("scored", "partial", "failed")
MOST_CHARACTERS = 200
MOST_VALUE = 1e15
MOST_NUMBER = 10_000_000

MOST_VALUES = 8
"""Most value filters in an address."""


@dataclass(frozen=True)
class Listing:
    """A sorted and filtered list of results. `sort` None is the batch's own order."""

    sort: str | None
    best_first: bool = False
    values: Mapping[str, float] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    finding: str | None = None
    status: str | None = None
    system: str | None = None
    text: str | None = None

    def query(self, best: Mapping[str, float]) -> ResultQuery:
        """What to ask the browser for; `best` holds the best value of measures on which it is not the highest."""
        target = best.get((self.sort or "").removesuffix(BLENDED))
        # Far from the target is bad, low without one.
        descending = self.best_first if target is None else not self.best_first
        return ResultQuery(sort=self.sort, descending=descending, target=target, values=self.values, **self.filters())

    def filters(self) -> dict[str, Any]:
        """The filters that have one value, by name; None where they are not in force."""
        return {name: getattr(self, name) for name in FILTERS}

    def parameters(self) -> dict[str, Any]:
        """The list as an address has it."""
        return {
            "sort": self.sort or POSITION,
            "order": BEST if self.best_first else None,
            "value": [f"{measure}:{write_value(value)}" for measure, value in self.values.items()],
            **self.filters(),
        }

    def sorted_by(self, measure: str | None) -> Listing:
        """The same results by this measure, worst first; best first where they are sorted so already."""
        return replace(self, sort=measure, best_first=self.sort == measure and not self.best_first)

    def without_each(self) -> Iterator[tuple[str, str, Listing]]:
        """Each filter in force, as its parameter and value, with the list without it."""
        for measure, wanted in self.values.items():
            left = {name: other for name, other in self.values.items() if name != measure}
            yield "value", f"{measure}:{write_value(wanted)}", replace(self, values=left)
        without: dict[str, Any]
        for name, value in self.filters().items():
            if value is not None:
                without = {name: None}
                yield name, value, replace(self, **without)


def write_value(value: float) -> str:
    """Whole levels without a point, anything else with every digit."""
    return str(int(value)) if value.is_integer() else repr(value)


def read_listing(asked: QueryParams, measures: Sequence[str], rubric: Rubric | None) -> Listing:
    """The list that an address names. Measures that the run does not have are ignored."""
    sort = asked.get("sort")
    if sort not in measures and sort != POSITION:
        # The overall impression, else the first composite, else the first aspect.
        composites = [composite.id for composite in rubric.composites] if rubric else []
        aspects = [aspect.id for aspect in rubric.aspects] if rubric else []
        preferred = ("overall", *composites, *aspects, *measures)
        sort = next((measure for measure in preferred if measure in measures), None)
    unrated = asked.get("unrated")
    status, finding = asked.get("status"), asked.get("finding")
    return Listing(
        sort=None if sort == POSITION else sort,
        best_first=asked.get("order") == BEST,
        values=dict(read_values(asked.getlist("value")[:MOST_VALUES], measures)),
        unrated=unrated if unrated == ANY_ASPECT or unrated in measures else None,
        warning=clean(asked.get("warning")),
        finding=finding if finding in CODES else None,
        status=status if status in STATUSES else None,
        system=clean(asked.get("system")),
        text=clean(asked.get("text")),
    )


def read_values(given: Sequence[str], measures: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Measures with the values that they are to have, out of `coherence:0`."""
    for text in given[: 2 * len(measures)]:
        measure, _, number = text.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            continue
        if measure in measures and math.isfinite(value) and abs(value) <= MOST_VALUE:
            yield measure, value


def clean(text: str | None) -> str | None:
    """The text on one line, truncated; None if it is empty."""
    shown = "".join(character for character in (text or "")[:MOST_CHARACTERS] if character.isprintable())
    return shown.strip() or None


def read_number(text: str | None, *, least: int = 0) -> int | None:
    """A number in an address, or None."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 8:
        return None
    number = int(text)
    return number if least <= number <= MOST_NUMBER else None


router = APIRouter(include_in_schema=False, route_class=PageRoute)

ROWS = 50
"""Results on a page."""

EXCERPT_CHARACTERS = 90
NEIGHBOURS = 2
"""Pages linked on either side of the one that is shown."""


class Chip(NamedTuple):
    """A filter in force. `address` is the list's without it, `total` how many results that has, if counted."""

    name: str
    value: str
    address: str
    column: ItemColumn | None = None
    level: Level | None = None
    total: int | None = None


Browse = Callable[[Listing, int, int], Awaitable[BrowsedPage]]
"""The results of a list from an offset on, at most a limit."""


@router.get("/runs/{batch_id}/items")
async def show_items(request: Request, container: Serving, project: Project, batch_id: str) -> Response:
    """A page of the list."""
    batch = await container.batches.find(project, batch_id)
    rubric = find_rubric(container, batch.rubric_name)
    browser, best = container.dashboard.browser, rubric.best if rubric else {}

    async def browse(wanted: Listing, offset: int, limit: int) -> BrowsedPage:
        return await browser.browse(project, batch_id, wanted.query(best), offset=offset, limit=limit)

    measures = await browser.measures(project, batch_id)
    listing, columns = read_listing(request.query_params, measures, rubric), list_columns(measures, rubric)
    number = read_number(request.query_params.get("page"), least=1) or 1
    page = await browse(listing, (number - 1) * ROWS, ROWS)
    last = max(1, -(-page.total // ROWS))
    if number > 1 and not page.rows:
        number = last
        page = await browse(listing, (number - 1) * ROWS, ROWS)
    start = (number - 1) * ROWS
    warnings: Mapping[str, int] = {}
    with suppress(UnknownRubric):  # a run whose rubric is gone is not summed up
        warnings = (await container.batches.summarize(project, batch_id)).warnings
    return render(
        request,
        "items.html",
        batch=batch,
        expected=rubric.source_language if rubric else "en",
        listing=listing,
        position=POSITION,
        columns=columns,
        rows=list_rows(batch_id, page, columns, listing, start),
        total=page.total,
        start=start,
        number=number,
        last=last,
        numbers=list_numbers(number, last),
        chips=await list_chips(batch_id, listing, columns, browse if not page.total else None),
        warnings=warnings,
        codes=CODES if rubric and rubric.unit == "conversation" else (),
        to_page=lambda wanted: address_of(batch_id, listing, wanted),
        to_sort=lambda measure: address_of(batch_id, listing.sorted_by(measure)),
        direction=lambda measure: direction_of(listing, measure, best),
        bare=address_of(batch_id, Listing(listing.sort, listing.best_first)),
    )


def list_rows(
    batch_id: str, page: BrowsedPage, columns: Sequence[ItemColumn], listing: Listing, start: int
) -> list[dict[str, Any]]:
    """The page's results with their cells; `address` is that of the result's page, in this list."""
    return [
        {
            "found": found,
            "address": query(f"/runs/{batch_id}/items/{found.entry.position}", at=str(offset), **listing.parameters()),
            "cells": [cell_of(column, found.scores) for column in columns],
            "utterance": shorten(found.candidate.context[-1].text if found.candidate.context else ""),
            "response": shorten(found.candidate.response),
        }
        for offset, found in enumerate(page.rows, start=start)
    ]


def shorten(text: str) -> str:
    """The text's beginning on one line."""
    line = " ".join(text[: 4 * EXCERPT_CHARACTERS].split())
    return line if len(line) <= EXCERPT_CHARACTERS else line[: EXCERPT_CHARACTERS - 1] + "…"


def address_of(batch_id: str, listing: Listing, page: int = 1) -> str:
    """The list's address."""
    return query(f"/runs/{batch_id}/items", **listing.parameters(), page=page if page > 1 else None)


def direction_of(listing: Listing, measure: str | None, best: Mapping[str, float]) -> str | None:
    """`aria-sort` of a column; None where the list is not sorted by it."""
    if listing.sort != measure:
        return None
    wanted = listing.query(best)
    if wanted.target is not None:
        return "other"
    return "descending" if wanted.descending else "ascending"


def list_numbers(number: int, last: int) -> list[int | None]:
    """The pages to link: the first, the last, and those near this one; None stands for those left out."""
    near = range(max(1, number - NEIGHBOURS), min(last, number + NEIGHBOURS) + 1)
    numbers: list[int | None] = []
    for page in sorted({1, last, *near}):
        if numbers and page - (numbers[-1] or 0) > 1:
            numbers.append(None)
        numbers.append(page)
    return numbers


async def list_chips(
    batch_id: str, listing: Listing, columns: Sequence[ItemColumn], browse: Browse | None
) -> list[Chip]:
    """The filters in force; with `browse`, with how many results there would be without each."""
    by_measure = {column.measure: column for column in columns}
    chips = []
    for name, value, without in listing.without_each():
        measure, _, number = value.rpartition(":") if name == "value" else (value, "", "")
        column = by_measure.get(measure)
        level = column.level(float(number)) if column and number else None
        total = (await browse(without, 0, 1)).total if browse else None
        chips.append(Chip(name, number or value, address_of(batch_id, without), column, level, total))
    return chips
