"""`/runs/{id}/items`: the results of a run as a table, the worst first; sorted and filtered where they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from app.adapters.sql.browsing import ResultBrowser
from app.bootstrap import Service
from app.domain.batch import Batch
from app.domain.browsing import Browsed, BrowsedPage
from app.domain.errors import UnknownRubric
from app.domain.rubric import Level, Rubric
from app.web.dashboard.item_columns import Cell, Column, cell_of, list_columns
from app.web.dashboard.item_query import POSITION, Listing, read_listing, read_number
from app.web.dashboard.page import PageRoute, render
from app.web.dashboard.run_values import find_rubric
from app.web.dashboard.session import Project
from app.web.dashboard.texts import query
from app.web.evaluations import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ROWS = 50
"""Results on a page."""

EXCERPT_CHARACTERS = 90
NEIGHBOURS = 2
"""Pages linked on either side of the one that is shown."""


@dataclass(frozen=True)
class Row:
    """One result as the table shows it. `address` is its page's, in this list."""

    found: Browsed
    address: str
    cells: Sequence[Cell]
    utterance: str
    response: str


@dataclass(frozen=True)
class Chip:
    """A filter in force: `name` is its parameter. `address` is the list's without it, `total` what that would show
    where it was counted."""

    name: str
    value: str
    address: str
    column: Column | None = None
    level: Level | None = None
    total: int | None = None


@dataclass(frozen=True)
class Opened:
    """A run whose results are looked at; `rubric` is None where the service has it no more."""

    browser: ResultBrowser
    project: str
    batch: Batch
    rubric: Rubric | None

    @property
    def best(self) -> Mapping[str, float]:
        """The best level of each aspect on which it is not the highest."""
        return self.rubric.best if self.rubric else {}

    async def browse(self, listing: Listing, *, offset: int, limit: int) -> BrowsedPage:
        """Some results of the list."""
        wanted = listing.query(self.best)
        return await self.browser.browse(self.project, self.batch.id, wanted, offset=offset, limit=limit)


@router.get("/runs/{batch_id}/items")
async def show_items(request: Request, service: Serving, project: Project, batch_id: str) -> Response:
    """A page of the list."""
    batch = await service.desk.find(project, batch_id)
    rubric = find_rubric(service, batch.rubric_name)
    run = Opened(service.browser, project, batch, rubric)
    measures = await service.browser.measures(project, batch_id)
    listing, columns = read_listing(request.query_params, measures, rubric), list_columns(measures, rubric)
    number, page = await turn_to(run, listing, read_number(request.query_params.get("page"), least=1) or 1)
    start, last = (number - 1) * ROWS, max(1, -(-page.total // ROWS))
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
        chips=await list_chips(run, listing, columns, count=not page.total),
        warnings=await count_warnings(service, project, batch_id),
        to_page=lambda wanted: address_of(batch_id, listing, wanted),
        to_sort=lambda measure: address_of(batch_id, listing.sorted_by(measure)),
        direction=lambda measure: direction_of(listing, measure, run.best),
        bare=address_of(batch_id, Listing(listing.sort, listing.best_first)),
    )


async def turn_to(run: Opened, listing: Listing, number: int) -> tuple[int, BrowsedPage]:
    """The page of that number, else the last that there is."""
    page = await run.browse(listing, offset=(number - 1) * ROWS, limit=ROWS)
    if number > 1 and not page.rows:
        number = max(1, -(-page.total // ROWS))
        page = await run.browse(listing, offset=(number - 1) * ROWS, limit=ROWS)
    return number, page


def list_rows(
    batch_id: str, page: BrowsedPage, columns: Sequence[Column], listing: Listing, start: int
) -> Sequence[Row]:
    """The page's results with their cells."""
    rows = []
    for offset, found in enumerate(page.rows, start=start):
        path = f"/runs/{batch_id}/items/{found.entry.position}"
        context = found.candidate.context
        rows.append(
            Row(
                found=found,
                address=query(path, at=str(offset), **listing.parameters()),
                cells=[cell_of(column, found.scores) for column in columns],
                utterance=shorten(context[-1].text if context else ""),
                response=shorten(found.candidate.response),
            )
        )
    return rows


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
    shown = sorted({1, last, *near})
    numbers: list[int | None] = []
    for page in shown:
        if numbers and page - (numbers[-1] or 0) > 1:
            numbers.append(None)
        numbers.append(page)
    return numbers


async def list_chips(run: Opened, listing: Listing, columns: Sequence[Column], *, count: bool) -> list[Chip]:
    """The filters in force; with `count`, with what would be seen without each."""
    by_measure = {column.measure: column for column in columns}
    chips = []
    for name, value, without in listing.without_each():
        measure, _, number = value.rpartition(":") if name == "value" else (value, "", "")
        column = by_measure.get(measure)
        level = column.level(float(number)) if column and number else None
        total = (await run.browse(without, offset=0, limit=1)).total if count else None
        chips.append(Chip(name, number or value, address_of(run.batch.id, without), column, level, total))
    return chips


async def count_warnings(service: Service, project: str, batch_id: str) -> Mapping[str, int]:
    """How many results have each warning; of a run whose rubric is gone that is not summed up."""
    with suppress(UnknownRubric):
        return (await service.desk.summarize(project, batch_id)).warnings
    return {}
