"""Limits of requests per minute, of keys and invitations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.types import Scope

from saiten.core.messages import Message
from saiten_server.core import errors
from saiten_server.core.access import APIKey
from saiten_server.platform.request_windows import RateLimitDecision

if TYPE_CHECKING:
    from saiten_server.container import Container


async def count_request(request: Request, key: APIKey | None) -> None:
    """Counts the request if its key has a limit, for the `RateLimit` headers. Raises RequestLimitReached."""
    container: Container = request.app.state.container
    if key is not None:
        await count_caller(request, key.id, requests_of(key, container))


async def count_caller(request: Request, caller_id: str, most: int | None) -> None:
    """Counts a request of the key or invitation of that id, of which `most` are allowed a minute; None: any number.
    Raises RequestLimitReached."""
    container: Container = request.app.state.container
    if most is None:
        return
    decision = await container.governance.limiter.take(caller_id, most)
    request.state.rate_limit = decision
    if not decision.allowed:
        container.telemetry.limited("requests")
        detail = Message("key-requests-reached", limit=decision.limit, seconds=decision.window_seconds)
        raise errors.RequestLimitReached(detail, retry_after_seconds=decision.reset_seconds)


def describe_rate_limit(scope: Scope) -> dict[str, str]:
    """The `RateLimit` headers (draft-ietf-httpapi-ratelimit-headers), empty if the request was not counted."""
    decision: RateLimitDecision | None = scope["state"].get("rate_limit")
    if decision is None:
        return {}
    # `t` is the time until the oldest request leaves the window.
    return {
        "RateLimit-Policy": f'"requests";q={decision.limit};w={decision.window_seconds}',
        "RateLimit": f'"requests";r={decision.remaining};t={math.ceil(decision.reset_seconds)}',
    }


def requests_of(key: APIKey, container: Container) -> int | None:
    """Requests per minute; None for no limit."""
    own = key.requests_per_minute
    return container.settings.key_requests_per_minute if own is None else own
