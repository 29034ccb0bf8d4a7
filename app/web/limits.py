"""What a key may ask for and may cost, and how much a process takes on at once."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, time, timedelta
from typing import Any

from fastapi import Request
from starlette.types import Scope

from app.container import Container
from app.domain.dialogue import Dialogue, Utterance
from app.domain.errors import (
    CostLimitReached,
    InvalidRequest,
    Overloaded,
    PriceUnknown,
    RequestLimitReached,
    StoreError,
)
from app.domain.evaluation import JudgeOptions
from app.domain.governance import APIKey
from app.providers.ports import JudgingTask, RequestScope
from app.runtime.ports import RateLimitDecision, Telemetry
from app.scoring.case import ENGLISH
from app.scoring.evaluate import ScoringContext

logger = logging.getLogger("saiten.web")

OVERLOAD_SECONDS = 2.0
"""When to ask again while all places are taken: an evaluation takes a second or a few."""

ANYTHING = Dialogue(context=(Utterance(speaker="A", text="?"),), response="?")
"""What is reckoned with where only whether there is a price matters, and not how much it comes to."""


# Requests


async def count_request(request: Request, key: APIKey | None) -> None:
    """Counts the request where its key has a limit; whatever is answered then says how the key stands. Raises
    RequestLimitReached."""
    container: Container = request.app.state.container
    if key is None or (most := requests_of(key, container)) is None:
        return
    allowance = await container.governance.limiter.take(key.id, most)
    request.state.allowance = allowance
    if not allowance.allowed:
        container.telemetry.limited("requests")
        detail = f"this key may make {allowance.limit} requests within {allowance.window_seconds} seconds"
        raise RequestLimitReached(detail, retry_after_seconds=allowance.reset_seconds)


def describe_allowance(scope: Scope) -> dict[str, str]:
    """The `RateLimit` headers (draft-ietf-httpapi-ratelimit-headers): what may come, and what is left of it. `t` is
    when the oldest request within the window leaves it. Empty where the request was not counted."""
    allowance: RateLimitDecision | None = scope["state"].get("allowance")
    if allowance is None:
        return {}
    return {
        "RateLimit-Policy": f'"requests";q={allowance.limit};w={allowance.window_seconds}',
        "RateLimit": f'"requests";r={allowance.remaining};t={math.ceil(allowance.reset_seconds)}',
    }


def requests_of(key: APIKey, container: Container) -> int | None:
    """Requests a minute; None for any number."""
    own = key.requests_per_minute
    return container.settings.key_requests_per_minute if own is None else own


# Money


def usd_of(key: APIKey, container: Container) -> float | None:
    """What the key may cost a day; None for any amount."""
    return container.settings.key_usd_per_day if key.usd_per_day is None else key.usd_per_day


async def require_money(request: Request) -> None:
    """Raises CostLimitReached where the caller's key has spent its money of today."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if key is None or (most := usd_of(key, container)) is None:
        return
    now = container.scoring.instruments.now()
    spent = await container.governance.spending.spent_usd(key.id, now)
    if spent >= most:
        container.telemetry.limited("cost")
        detail = f"this key may cost {most:.6g} USD a day and has cost {spent:.6g} today; the day ends at midnight UTC"
        raise CostLimitReached(detail, retry_after_seconds=seconds_left(now))


def require_price(request: Request, rubric_id: str, options: JudgeOptions, *, pointer: str = "/judge/model") -> None:
    """Raises PriceUnknown where the caller's money is limited and the judge's model has no known price: what cannot be
    charged would never come to the limit. `pointer` is what of the request names the model."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if key is None or usd_of(key, container) is None or has_price(rubric_id, options, container.scoring.instruments):
        return
    detail = "this key has a money limit, and the price of the judge's model is not known: name a model that has one"
    raise PriceUnknown(f"{detail}, or have it added to SAITEN_PRICES", pointer=pointer)


def has_price(rubric_id: str, options: JudgeOptions, instruments: ScoringContext) -> bool:
    """Whether it can be told what the judge costs with these options. So it is, too, where the judge cannot rate by the
    rubric at all: then nobody is called, and whoever was to judge says why."""
    try:
        rubric = instruments.rubrics.get(rubric_id)
    except InvalidRequest:
        return True
    for language in (rubric.source_language, ENGLISH):
        try:
            estimate = instruments.judge.estimate(JudgingTask(rubric, language, ANYTHING, options))
        except InvalidRequest:
            continue
        return estimate.cost_usd is not None
    return True


@asynccontextmanager
async def paying(request: Request) -> AsyncIterator[RequestScope]:
    """Charges the caller's key with what judging has cost in the scope that it yields, even if an error ends it.

    Raises CostLimitReached at once where nothing may be spent. Who asks at the same moment is not seen: a key may
    overspend by what is in hand.
    """
    await require_money(request)
    key: APIKey | None = request.state.key
    scope = RequestScope(actor=request.state.actor)
    try:
        yield scope
    except BaseException:
        try:
            await charge(request, key, scope.cost_usd)
        except StoreError as error:
            logger.warning("a key was not charged: %s", error.loggable, extra={"code": error.code})
        raise
    await charge(request, key, scope.cost_usd)


async def charge(request: Request, key: APIKey | None, cost_usd: float) -> None:
    """Adds the cost to what the key has spent today; writes nothing if the cost is zero or there is no key."""
    container: Container = request.app.state.container
    if key is not None and cost_usd > 0:
        await container.governance.spending.charge(key.id, cost_usd, container.scoring.instruments.now())


def seconds_left(now: datetime) -> float:
    """Until midnight; `now` is in UTC."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), now.tzinfo)
    return (midnight - now).total_seconds()


async def describe_key(request: Request) -> dict[str, Any] | None:
    """The caller's key with its limits, null for any, and what it has cost today; None for who needs no key."""
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
        "spent_usd_today": await container.governance.spending.spent_usd(key.id, container.scoring.instruments.now()),
    }


# Evaluations in hand


class Places:
    """The evaluations and checks of the judge that this process has in hand, `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def require(self, telemetry: Telemetry) -> None:
        """Raises Overloaded where every place is taken."""
        if self.taken >= self._most:
            telemetry.limited("evaluations")
            detail = f"{self._most} evaluations are in hand; ask again in a moment, or send a batch"
            raise Overloaded(detail, retry_after_seconds=OVERLOAD_SECONDS)

    @contextmanager
    def take(self, telemetry: Telemetry) -> Iterator[None]:
        """A place for as long as the block lasts. Raises Overloaded."""
        self.require(telemetry)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


async def require_place(request: Request) -> None:
    """A FastAPI dependency that turns callers away before their bodies are read. The place is taken afterwards: one who
    sends slowly is not to hold it meanwhile."""
    places: Places = request.app.state.places
    places.require(request.app.state.container.telemetry)


@asynccontextmanager
async def evaluating(request: Request) -> AsyncIterator[RequestScope]:
    """Takes a place, and charges the caller's key with what is judged in the scope that it yields.

    Raises Overloaded and CostLimitReached.
    """
    places: Places = request.app.state.places
    with places.take(request.app.state.container.telemetry):
        async with paying(request) as scope:
            yield scope
