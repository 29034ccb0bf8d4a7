"""FastAPI dependencies that several routes share: the container, the caller's rights, and notes in the audit log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from cachetools import TTLCache
from fastapi import Depends, Request

from app.container import Container
from app.domain.errors import StoreError
from app.domain.governance import AuditEvent
from app.web.problems import RequestRefused

logger = logging.getLogger("saiten.web")
audit_logger = logging.getLogger("saiten.audit")

REFUSED = "admin.refused"

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
    return bool(request.state.scope != "read")


def refuse_reader(request: Request) -> None:
    """Raises RequestRefused (403) for a read-only key, because checking the judge costs money."""
    if not may_write(request):
        detail = "this key may only read, and checking the judge costs judge calls"
        raise RequestRefused(403, "insufficient-scope", "The key's scope does not allow this", detail)


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
        about = {"project": state.project, "actor": state.actor, "action": REFUSED, "target": route}
        audit_logger.info("audit", extra=about)
        return
    try:
        await note(request, container, REFUSED, route, method=request.method)
    except (StoreError, asyncio.CancelledError):
        refusals.leave(attempt)
        raise


async def administer(request: Request, container: Serving) -> None:
    """A FastAPI dependency that admits administrators only. Raises RequestRefused (403) and records the attempt."""
    if request.state.scope == "admin":
        return
    await note_attempt(request, container, request.scope["route"].path)
    detail = "this needs a key with the scope admin; make one with `saiten keys create --scope admin`"
    raise RequestRefused(403, "insufficient-scope", "The key's scope does not allow this", detail)


Administering = Depends(administer)
"""For the `dependencies` of each route or router that only administrators may use."""

ADMINISTRATIVE = frozenset({("GET", "/v1/audit"), ("PUT", "/v1/policy"), ("POST", "/v1/erasures")})
"""The routes with `Administering`; a test checks that both agree."""


async def note_refusal(request: Request) -> None:
    """Records an attempt at an administrative route that the middleware refused."""
    path: str = request.scope["path"]
    if (request.method, path) in ADMINISTRATIVE:
        await note_attempt(request, request.app.state.container, path)
