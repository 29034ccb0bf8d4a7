"""Where a result stands in a list, and what comes before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.adapters.sql.browsing import ResultBrowser
from app.domain.browsing import Browsed, ResultQuery
from app.web.dashboard.item_query import Listing
from app.web.dashboard.texts import query


@dataclass(frozen=True)
class Place:
    """A result in a list: number `at` of `total`, from 0. `previous` and `next` are pages' addresses."""

    found: Browsed
    listing: Listing
    at: int
    total: int
    previous: str | None
    next: str | None


async def find_place(
    browser: ResultBrowser,
    project: str,
    batch_id: str,
    position: int,
    *,
    listing: Listing,
    at: int | None,
    best: Mapping[str, float],
) -> Place | None:
    """The result of that position at number `at` of the list; where the list has moved on, in the batch's own order.
    None where the candidate has no result."""
    if at is not None:
        place = await look_around(browser, project, batch_id, position, listing=listing, at=at, best=best)
        if place is not None:
            return place
    own = Listing(sort=None)
    number = await find_offset(browser, project, batch_id, position)
    return await look_around(browser, project, batch_id, position, listing=own, at=number, best=best)


async def look_around(
    browser: ResultBrowser,
    project: str,
    batch_id: str,
    position: int,
    *,
    listing: Listing,
    at: int,
    best: Mapping[str, float],
) -> Place | None:
    """The result with its neighbours; None where another stands there."""
    first = max(0, at - 1)
    page = await browser.browse(project, batch_id, listing.query(best), offset=first, limit=at - first + 2)
    rows = list(page.rows)
    here = at - first
    if here >= len(rows) or rows[here].entry.position != position:
        return None

    def address(row: Browsed, number: int) -> str:
        return query(f"/runs/{batch_id}/items/{row.entry.position}", at=str(number), **listing.parameters())

    return Place(
        found=rows[here],
        listing=listing,
        at=at,
        total=page.total,
        previous=address(rows[here - 1], at - 1) if here else None,
        next=address(rows[here + 1], at + 1) if here + 1 < len(rows) else None,
    )


async def find_offset(browser: ResultBrowser, project: str, batch_id: str, position: int) -> int:
    """How many results come before the position: as many as it says where the batch is complete, else fewer."""
    low, high = 0, position
    probe = position
    while low < high:
        page = await browser.browse(project, batch_id, ResultQuery(), offset=probe, limit=1)
        found = page.rows[0].entry.position if page.rows else None
        if found == position:
            return probe
        if found is None or found > position:
            high = min(probe, page.total)
        else:
            low = probe + 1
        probe = (low + high) // 2
    return low
