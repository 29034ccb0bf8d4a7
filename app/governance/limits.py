"""Limits of a key: what it may cost a day, and what it is told of them."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from fastapi import Request

from saiten.core.messages import Message
from saiten_server.core.access import APIKey
from saiten_server.core.errors import CostLimitReached
from saiten_server.platform.request_limits import requests_of

if TYPE_CHECKING:
    from saiten_server.container import Container


def usd_of(key: APIKey, container: Container) -> float | None:
    """What the key may cost per day, in USD; None for no limit."""
    return container.settings.key_usd_per_day if key.usd_per_day is None else key.usd_per_day


async def require_money(request: Request) -> None:
    """Raises CostLimitReached if the caller's key has used up its limit for today."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if key is None or (most := usd_of(key, container)) is None:
        return
    now = container.scoring.context.now()
    spent = await container.governance.spending.spent_usd(key.id, now)
    if spent >= most:
        raise refuse_cost(container, spent, most, now)


def refuse_cost(container: Container, spent_usd: float, most_usd: float, now: datetime) -> CostLimitReached:
    """The refusal of what a key's limit for the day does not allow."""
    container.telemetry.limited("cost")
    detail = Message("key-cost-reached", limit=most_usd, spent=spent_usd)
    return CostLimitReached(detail, retry_after_seconds=seconds_left(now))


def seconds_left(now: datetime) -> float:
    """Seconds until midnight; `now` is in UTC."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
    return (midnight - now).total_seconds()


async def describe_key(request: Request) -> dict[str, Any] | None:
    """The caller's key with its limits (null for none) and its cost of today; None for a caller without a key."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if key is None:
        return None
    return {
        "id": key.id,
        "name": key.name,
        "project": key.project,
        "scope": key.scope,
        "requests_per_minute": requests_of(key, container),
        "usd_per_day": usd_of(key, container),
        "spent_usd_today": await container.governance.spending.spent_usd(key.id, container.scoring.context.now()),
    }
