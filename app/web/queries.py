"""Unknown query parameters, and the cursors and `Link` headers of paged lists."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlencode

from fastapi import Request

from app.domain.batch import Batch
from app.domain.errors import InvalidRequest


def refuse_other_queries(request: Request, *known: str, beginning: str | None = None, repeated: str = "") -> None:
    """Raises InvalidRequest for an unknown or repeated parameter: if a filter were ignored, the answer would contain
    too much.

    `beginning` is a prefix of other known names; `repeated` is the name that may be repeated.
    """
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if beginning and name.startswith(beginning):
            continue
        if name not in known:
            names = [*known, f"{beginning}…"] if beginning else known
            raise InvalidRequest(f"is not known; known are {', '.join(names)}", pointer=f"/query/{name[:64]}")
        if count > 1 and name != repeated:
            raise InvalidRequest("is given more than once", pointer=f"/query/{name}")


ID = re.compile(r"[A-Za-z0-9_]{1,64}")


def write_cursor(last: Batch) -> str:
    """The cursor of the page after the one that ends with `last`."""
    written = f"{last.created_at.isoformat()}|{last.id}"
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """(created_at, id) of the last batch of the previous page; None for the first page. Raises InvalidRequest."""
    if cursor is None:
        return None
    with suppress(UnicodeError, binascii.Error, ValueError, OverflowError):  # no page has returned it
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        written = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        moment, _, batch_id = written.partition("|")
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is not None and ID.fullmatch(batch_id):
            return created_at.astimezone(UTC), batch_id
    raise InvalidRequest("take the cursor from `next` of the page before", pointer="/query/cursor")


def link_next(request: Request, **changed: str) -> dict[str, str]:
    """The `Link` header (RFC 8288) to the next page: this one with some query parameters changed."""
    query = [(name, value) for name, value in request.query_params.multi_items() if name not in changed]
    # The path alone: the host comes from the caller's Host header.
    return {"Link": f'<{request.scope["path"]}?{urlencode([*query, *changed.items()])}>; rel="next"'}
