"""Query parameters that an address does not know."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request

from app.domain.errors import InvalidRequest


def refuse_other_queries(request: Request, *known: str, beginning: str | None = None, repeated: str = "") -> None:
    """Raises InvalidRequest for a parameter that is not known, or is given twice: passed over, the answer would hold
    more than was meant.

    `beginning` is what other known names begin with, `repeated` the name that may come several times.
    """
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if beginning and name.startswith(beginning):
            continue
        if name not in known:
            names = [*known, f"{beginning}…"] if beginning else known
            raise InvalidRequest(f"is not known; known are {', '.join(names)}", pointer=f"/query/{name[:64]}")
        if count > 1 and name != repeated:
            raise InvalidRequest("is given more than once", pointer=f"/query/{name}")
