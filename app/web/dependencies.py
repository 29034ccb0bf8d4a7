"""What routes take from the application and from the caller's key: the services, the right to write or to administer,
and the audit log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Request

from app.container import Container
from app.domain.errors import StoreError
from app.domain.governance import AuditEvent
from app.web.problems import RequestRefused

logger = logging.getLogger("saiten.web")
told = logging.getLogger("saiten.audit")

REFUSED = "admin.refused"

QUIET_SECONDS = 60.0
"""Whoever goes on trying is noted so often: a loop is not to fill the database."""
MOST_ATTEMPTS = 1000
"""Attempts that a process keeps in mind, each of one key at one route."""

Attempt = tuple[str, str, str, str]
"""Project, actor, method and route."""


async def container_of(request: Request) -> Container:
    """The service that this application serves. Asynchronous, or FastAPI would ask a thread for it at each request."""
    container: Container = request.app.state.container
    return container


Serving = Annotated[Container, Depends(container_of)]


def may_write(request: Request) -> bool:
    """Whether the caller's key allows more than reading."""
    return bool(request.state.scope != "read")


def refuse_reader(request: Request) -> None:
    """Raises Refused (403) where the key may only read: what it asks for costs money."""
    if not may_write(request):
        detail = "this key may only read, and checking the judge costs judge calls"
        raise RequestRefused(403, "insufficient-scope", "The key's scope does not allow this", detail)


async def note(request: Request, container: Container, action: str, target: str, **detail: Any) -> None:
    """Notes what the caller of this request did just now. Raises the `Store…` errors: what was done stays done, and the
    caller hears that the log lacks it, as the log record does."""
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


async def note_attempt(request: Request, container: Container, route: str) -> None:
    """Notes a refused attempt, once a minute for each key and route; each has its log record."""
    refusals: Refusals = request.app.state.refusals
    state = request.state
    attempt = (state.project, state.actor, request.method, route)
    if not refusals.take(attempt):
        about = {"project": state.project, "actor": state.actor, "action": REFUSED, "target": route}
        told.info("audit", extra=about)
        return
    try:
        await note(request, container, REFUSED, route, method=request.method)
    except (StoreError, asyncio.CancelledError):
        refusals.leave(attempt)
        raise


async def administer(request: Request, container: Serving) -> None:
    """A FastAPI dependency that lets administrators pass; raises Refused (403), and notes the attempt."""
    if request.state.scope == "admin":
        return
    await note_attempt(request, container, request.scope["route"].path)
    detail = "this needs a key with the scope admin; make one with `saiten keys create --scope admin`"
    raise RequestRefused(403, "insufficient-scope", "The key's scope does not allow this", detail)


Administering = Depends(administer)
"""To be among the `dependencies` of each route, or router, that only administrators may use."""

ADMINISTRATIVE = frozenset({("GET", "/v1/audit"), ("PUT", "/v1/policy"), ("POST", "/v1/erasures")})
"""Those routes. A test holds both together."""


async def note_refusal(request: Request) -> None:
    """Notes an attempt at an administrative route that was refused before it got there."""
    path: str = request.scope["path"]
    if (request.method, path) in ADMINISTRATIVE:
        await note_attempt(request, request.app.state.container, path)
