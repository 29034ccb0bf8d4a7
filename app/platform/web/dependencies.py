"""What several routes share: the container, the caller's rights, notes in the audit log, and answers in the caller's
language.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlencode

from cachetools import TTLCache
from fastapi import Depends, Request, Response
from pydantic import BaseModel, BeforeValidator

from saiten.core.messages import DEFAULT_LANGUAGE, Message, Misfit
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import InvalidRequest, StoreError
from saiten_server.core.model import COMPACT, Value, pointer
from saiten_server.core.sentences import LANGUAGE, translate
from saiten_server.core.validation import InvalidDocument
from saiten_server.platform.web.body import JSON
from saiten_server.platform.web.problems import RequestRefused, language_of

if TYPE_CHECKING:
    from saiten_server.container import Container
else:
    Container = Any  # FastAPI evaluates `Serving`, and only the application imports the container

logger = logging.getLogger("saiten.web")
audit_logger = logging.getLogger("saiten.audit")

ADMIN_REFUSED = "admin.refused"

QUIET_SECONDS = 60.0
"""A repeated attempt is recorded once in this time, so that a loop does not fill the database."""
MOST_ATTEMPTS = 1000
"""Attempts that a process remembers, each of one key at one route."""

Attempt = tuple[str, str, str, str]
"""Project, actor, method and route."""


async def container_of(request: Request) -> Container:
    """The application's container. Asynchronous, because FastAPI runs other dependencies in a thread."""
    container: Container = request.app.state.container
    return container


Serving = Annotated[Container, Depends(container_of)]


def may_write(request: Request) -> bool:
    """Whether the caller's key allows more than reading."""
    return request.state.scope in ("write", "admin")


async def note(request: Request, container: Container, action: str, target: str, **detail: Any) -> None:
    """Records in the audit log what the caller has just done. Raises StoreError if it cannot be recorded: the action
    itself is not undone, and both the caller and the log record learn that the audit log lacks it."""
    state = request.state
    now = datetime.now(UTC)
    event = AuditEvent(at=now, project=state.project, actor=state.actor, action=action, target=target, detail=detail)
    try:
        await container.governance.audit.note(event)
    except StoreError:
        about = {"actor": event.actor, "action": action, "target": target}
        logger.error("an event is missing in the audit log", extra=about)  # noqa: TRY400 (the table of errors tells why)
        raise


class Refusals:
    """The refused attempts recorded within the last minute, at most the newest `most`. `clock` returns seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_ATTEMPTS) -> None:
        self._noted: TTLCache[Attempt, bool] = TTLCache(most, QUIET_SECONDS, timer=clock)

    def take(self, attempt: Attempt) -> bool:
        """Whether to record the attempt; it then counts as recorded."""
        is_new = attempt not in self._noted
        if is_new:
            self._noted[attempt] = True
        return is_new

    def leave(self, attempt: Attempt) -> None:
        """Forgets an attempt that could not be recorded, so that the next one is."""
        self._noted.pop(attempt, None)


async def note_attempt(request: Request, container: Container, route: str) -> None:
    """Records a refused attempt once per minute, key and route; every attempt is logged."""
    refusals: Refusals = request.app.state.refusals
    state = request.state
    attempt = (state.project, state.actor, request.method, route)
    if not refusals.take(attempt):
        about = {"project": state.project, "actor": state.actor, "action": ADMIN_REFUSED, "target": route}
        audit_logger.info("audit", extra=about)
        return
    try:
        await note(request, container, ADMIN_REFUSED, route, method=request.method)
    except (StoreError, asyncio.CancelledError):
        refusals.leave(attempt)
        raise


async def administer(request: Request, container: Serving) -> None:
    """A FastAPI dependency that admits administrators only. Raises RequestRefused (403) and records the attempt."""
    if request.state.scope == "admin":
        return
    await note_attempt(request, container, request.scope["route"].path)
    detail = Message("admin-key-needed")
    raise RequestRefused(403, "insufficient-scope", detail)


Administering = Depends(administer)
"""For the `dependencies` of each route or router that only administrators may use."""

ADMINISTRATIVE = frozenset(
    {("GET", "/v1/audit"), ("PUT", "/v1/policy"), ("POST", "/v1/erasures"), ("DELETE", "/v1/judge/pause")}
)
"""The routes with `Administering`; a test checks that both agree."""


async def note_refusal(request: Request) -> None:
    """Records an attempt at an administrative route that the middleware refused."""
    path: str = request.scope["path"]
    if (request.method, path) in ADMINISTRATIVE:
        await note_attempt(request, request.app.state.container, path)


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
            what = Message("value-unknown", names=", ".join(names)) if names else Message("query-unknown")
            raise InvalidDocument([(f"/query/{name[:64]}", what)])
        if count > 1 and name != repeated:
            raise InvalidDocument([(f"/query/{name}", Message("given-twice"))])


def read_options(request: Request, known: Collection[str], read: Callable[[str, str, str], Any]) -> dict[str, Any]:
    """The options of an analysis in the query as JSON values: `read` makes one of a name, a text and the place to name.
    Raises InvalidDocument for an unknown or repeated option."""
    found: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        where = f"/query/{name[:64]}"
        if name not in known:
            raise InvalidDocument([(where, Message("option-unknown"))])
        if name in found:
            raise InvalidDocument([(where, Message("given-twice"))])
        found[name] = read(name, text, where)
    return found


WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")


def read_whole(value: object) -> object:
    """The number of a query as JSON spells it. Pydantic would also take `1.0`, `1_0`, `+5` and spaces."""
    if isinstance(value, str) and not WHOLE.fullmatch(value):
        raise Misfit(Message("must-be-integer"))
    return value


Whole = Annotated[int, BeforeValidator(read_whole)]
"""A whole number in a query, as strict as in a body."""

ID = re.compile(r"[A-Za-z0-9_]{1,64}")


MOST_CURSOR = 2**53
"""The largest number that a page may begin at: those who read JSON as JavaScript does lose digits of larger ones."""


def write_cursor(created_at: datetime, last_id: str) -> str:
    """The cursor of the page after the one that ends with what was created then under this id."""
    written = f"{created_at.isoformat()}|{last_id}"
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """(created_at, id) of the last one of the previous page; None for the first page. Raises InvalidRequest."""
    if cursor is None:
        return None
    with suppress(UnicodeError, binascii.Error, ValueError, OverflowError):  # no page has returned it
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        written = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        moment, _, batch_id = written.partition("|")
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is not None and ID.fullmatch(batch_id):
            return created_at.astimezone(UTC), batch_id
    raise InvalidRequest(Message("cursor-unknown"), pointer="/query/cursor")


METADATA = "metadata."
MOST_ENTRIES = 32
"""Entries of metadata in one filter: what an evaluation and its batch can have together. Each is a subquery, and SQLite
refuses a statement of some thousand conditions."""

METADATA_FILTER = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "description": "`metadata.KEY=VALUE`, as often as needed: those whose metadata hold all of these entries",
    "style": "form",
    "explode": True,
    "schema": {
        "type": "object",
        "patternProperties": {"^metadata\\.": {"type": "string"}},
        "additionalProperties": False,
        "example": {"metadata.system": "bot-a"},
    },
}
"""Describes what `read_metadata_query` reads."""


def read_metadata_query(request: Request) -> dict[str, str]:
    """The entries of `metadata.KEY=VALUE`. Raises InvalidRequest for a key with two values, and for too many."""
    wanted: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name.startswith(METADATA) and wanted.setdefault(name.removeprefix(METADATA), value) != value:
            raise InvalidRequest(Message("metadata-value-twice"), pointer=pointer(("query", name)))
        if len(wanted) > MOST_ENTRIES:
            raise InvalidRequest(Message("metadata-filter-most", maximum=MOST_ENTRIES), pointer="/query/metadata")
    return wanted


def link_next(request: Request, **changed: str) -> dict[str, str]:
    """The `Link` header (RFC 8288) to the next page: this one with some query parameters changed."""
    query = [(name, value) for name, value in request.query_params.multi_items() if name not in changed]
    # The path alone: the host comes from the caller's Host header.
    return {"Link": f'<{request.scope["path"]}?{urlencode([*query, *changed.items()])}>; rel="next"'}


Found = TypeVar("Found")


def cut_page(
    found: Sequence[Found], limit: int, place: Callable[[Found], tuple[datetime, str]]
) -> tuple[Sequence[Found], str | None]:
    """The first `limit` of what was found, and the cursor of the page after them where there is more. One more than the
    limit has to be looked for, which shows whether there is."""
    return found[:limit], write_cursor(*place(found[limit - 1])) if len(found) > limit else None


def tell_page(request: Request, page: BaseModel, following: str | None) -> Response:
    """`tell_value`, with a `Link` header that leads to the page at the cursor `following`, if there is one."""
    return tell_value(request, page, headers={} if following is None else link_next(request, cursor=following))


def tell_value(
    request: Request, value: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The value as JSON, its sentences in the language that the caller prefers."""
    language = language_of(request)
    said = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    return Response(value.model_dump_json(context={LANGUAGE: language}), status, said, JSON)


def tell_stored(request: Request, text: str) -> Response:
    """JSON with the sentences of a stored result, these in the language that the caller prefers. English, in which they
    are stored, costs nothing."""
    language = language_of(request)
    if language != DEFAULT_LANGUAGE:
        text = translate_text(text, language)
    return Response(text, 200, {"Content-Language": language, "Vary": "Accept-Language"}, JSON)


def tell_results(request: Request, value: BaseModel) -> Response:
    """Stored results as JSON, with what else has sentences, such as the badge of their judge."""
    return tell_stored(request, value.model_dump_json(context={LANGUAGE: language_of(request)}))


def translate_text(text: str, language: str) -> str:
    """A text of JSON in the language."""
    return COMPACT.encode(translate(json.loads(text), language))


async def answer_in_language(request: Request, container: Serving, value: Value) -> Response:
    """`tell_value` for a long answer, written in a thread."""
    return await container.comparison.compute(lambda: tell_value(request, value))
