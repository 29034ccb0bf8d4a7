"""`/v1/audit`: what administrators did; and the right to administer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from app.bootstrap import Service
from app.domain.audit import AuditEvent
from app.domain.errors import StoreError
from app.web.body import JSON
from app.web.evaluations import Serving
from app.web.openapi import PROBLEMS
from app.web.pages import link_to
from app.web.problems import Refused
from app.web.queries import refuse_other_queries

logger = logging.getLogger("saiten.web")
told = logging.getLogger("saiten.audit")

REFUSED = "admin.refused"
MOST_NUMBER = 2**53

QUIET_SECONDS = 60.0
"""Whoever goes on trying is noted so often: a loop is not to fill the database."""
MOST_ATTEMPTS = 1000
"""Attempts that a process keeps in mind, each of one key at one route."""

Attempt = tuple[str, str, str, str]
"""Project, actor, method and route."""


class AuditPage(BaseModel):
    """Events, newest first. `next` is what `before` is to be for the page after this one; null on the last."""

    items: list[AuditEvent]
    next: int | None


async def note(request: Request, service: Service, action: str, target: str, **detail: Any) -> None:
    """Notes what the caller of this request did just now. Raises the `Store…` errors: what was done stays done, and the
    caller hears that the log lacks it, as the log record does."""
    state = request.state
    now = datetime.now(UTC)
    event = AuditEvent(at=now, project=state.project, actor=state.actor, action=action, target=target, detail=detail)
    try:
        await service.audit.note(event)
    except StoreError:
        about = {"actor": event.actor, "action": action, "target": target}
        logger.error("an event is missing in the audit log", extra=about)  # noqa: TRY400 (the table of errors tells why)
        raise


class Refusals:
    """The attempts that this process has noted within the last minute. Of more than `most` the oldest is forgotten,
    and noted again when it comes again. `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_ATTEMPTS) -> None:
        self._clock = clock
        self._most = most
        self._noted: dict[Attempt, float] = {}

    def take(self, attempt: Attempt) -> bool:
        """Whether the attempt is to be noted; from here on it counts as noted."""
        now = self._clock()
        noted = self._noted.get(attempt)
        if noted is not None and now - noted < QUIET_SECONDS:
            return False
        # To the end: the oldest is the first.
        self._noted.pop(attempt, None)
        self._noted[attempt] = now
        if len(self._noted) > self._most:
            del self._noted[next(iter(self._noted))]
        return True

    def leave(self, attempt: Attempt) -> None:
        """It could not be noted: the next one is to be."""
        self._noted.pop(attempt, None)


async def note_attempt(request: Request, service: Service, route: str) -> None:
    """Notes a refused attempt, once a minute for each key and route; each has its log record."""
    refusals: Refusals = request.app.state.refusals
    state = request.state
    attempt = (state.project, state.actor, request.method, route)
    if not refusals.take(attempt):
        about = {"project": state.project, "actor": state.actor, "action": REFUSED, "target": route}
        told.info("audit", extra=about)
        return
    try:
        await note(request, service, REFUSED, route, method=request.method)
    except (StoreError, asyncio.CancelledError):
        refusals.leave(attempt)
        raise


async def administer(request: Request, service: Serving) -> None:
    """A FastAPI dependency that lets administrators pass; raises Refused (403), and notes the attempt."""
    if request.state.scope == "admin":
        return
    await note_attempt(request, service, request.scope["route"].path)
    detail = "this needs a key with the scope admin; make one with `saiten keys create --scope admin`"
    raise Refused(403, "insufficient-scope", "The key's scope does not allow this", detail)


Administering = Depends(administer)
"""To be among the `dependencies` of each route, or router, that only administrators may use."""

ADMINISTRATIVE = frozenset({("GET", "/v1/audit"), ("PUT", "/v1/policy"), ("POST", "/v1/erasures")})
"""Those routes. A test holds both together."""


async def note_refusal(request: Request) -> None:
    """Notes an attempt at an administrative route that was refused before it got there."""
    path: str = request.scope["path"]
    if (request.method, path) in ADMINISTRATIVE:
        await note_attempt(request, request.app.state.service, path)


router = APIRouter(prefix="/v1/audit", tags=["operate"], dependencies=[Administering])


@router.get("", summary="Read the audit log", responses={200: {"model": AuditPage}, **PROBLEMS})
async def list_events(
    request: Request,
    service: Serving,
    *,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER, description="`next` of the page before")] = None,
) -> Response:
    """What administrators did in the key's project, newest first: keys, policies, erasures, refused attempts.

    `next`, and the `Link` header, lead to the page after this one; events that come in meanwhile shift nothing.
    """
    refuse_other_queries(request, "limit", "before")
    # One more than asked for tells whether there is a next page.
    found = await service.audit.events(request.state.project, before=before, limit=limit + 1)
    following = found[limit - 1].number if len(found) > limit else None
    page = AuditPage(items=found[:limit], next=following)
    headers = {} if following is None else link_to(request, before=str(following))
    return Response(page.model_dump_json(), headers=headers, media_type=JSON)
