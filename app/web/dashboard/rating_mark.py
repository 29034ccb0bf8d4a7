"""Whether a project's human ratings are still those that something was computed from."""

from __future__ import annotations

from app.domain.human_rating import RatingFilter
from app.meta.desk import MetaDesk


async def find_newest(desk: MetaDesk, project: str) -> int:
    """The number of the project's newest rating, -1 without one. Each rating that comes in, in the place of an earlier
    one too, has a number greater than all before it. A removed one leaves no trace."""
    low, step = -1, 1
    while page := await desk.list_ratings(project, RatingFilter(), after=low + step, limit=1):
        low, step = page[0][0], 4 * step
    high = low + step
    while low < high:
        middle = (low + high) // 2
        page = await desk.list_ratings(project, RatingFilter(), after=middle, limit=1)
        if page:
            low = page[0][0]
        else:
            high = middle
    return low
