"""Limits of evaluations: how many are in progress in a process, and what a key may pay for one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from cachetools import LRUCache
from fastapi import Request

from saiten_server.core.access import APIKey
from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import CostLimitReached, InvalidRequest, Overloaded, PriceUnknown, StoreError
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.governance.limits import refuse_cost, require_money, seconds_left, usd_of
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.ports import JudgingTask, RequestScope
from saiten_server.scoring.admission import Experience, ReservingPurse
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.subject import ENGLISH_PATH_LANGUAGE

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

logger = logging.getLogger("saiten.web")

OVERLOAD_SECONDS = 2.0
"""`Retry-After` while all places are taken: an evaluation takes a few seconds at most."""

ANYTHING = Dialogue(context=(Utterance(speaker="A", text="?"),), response="?")
"""A dialogue for estimates that only show whether the judge's model has a price."""


def require_price(
    request: Request,
    rubric_id: str,
    options: JudgeOptions,
    *,
    pointer: str = "/judge/model",
    context: ScoringContext | None = None,
) -> None:
    """Raises PriceUnknown if the key has a cost limit and the judge's model has no known price: its calls could not be
    charged, so the limit would never be reached. `pointer` is the field of the request that names the model. The rubric
    is one of `context`, else of the service."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if (
        key is None
        or usd_of(key, container) is None
        or has_price(rubric_id, options, context or container.scoring.context)
    ):
        return
    raise PriceUnknown(Message("key-price-unknown"), pointer=pointer)


def has_price(rubric_id: str, options: JudgeOptions, instruments: ScoringContext) -> bool:
    """Whether the cost of the judge is known with these options. Also true if the judge does not support the rubric:
    then no call is made, and judging raises its own error."""
    try:
        rubric = instruments.rubrics.get(rubric_id)
    except InvalidRequest:
        return True
    for language in (rubric.source_language, ENGLISH_PATH_LANGUAGE):
        try:
            estimate = instruments.judge.estimate(JudgingTask(rubric, language, ANYTHING, options))
        except InvalidRequest:
            continue
        return estimate.cost_usd is not None
    return True


MOST_EXPERIENCES = 1_000
"""Keys of which a process remembers what their calls turned out to cost."""


def open_purse(request: Request, now: datetime) -> ReservingPurse | None:
    """The purse of one request, over what its key may cost today; None if the key has no limit."""
    container: Container = request.app.state.container
    key: APIKey | None = request.state.key
    if key is None or (most := usd_of(key, container)) is None:
        return None
    experiences: LRUCache[str, Experience] = request.app.state.experiences
    experience = experiences.setdefault(key.id, Experience())

    async def take(usd: float) -> None:
        spent = await container.governance.spending.reserve(key.id, usd, most, now)
        if spent is None:
            return
        if spent >= most:
            raise refuse_cost(container, spent, most, now)
        container.telemetry.limited("cost")
        detail = Message("key-cost-exceeded", cost=usd, limit=most, left=most - spent)
        raise CostLimitReached(detail, retry_after_seconds=seconds_left(now))

    return ReservingPurse(take, experience)


class EvaluationPlaces:
    """Limits the evaluations and judge checks that this process runs at once to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def require(self, telemetry: Telemetry) -> None:
        """Raises Overloaded if every place is taken."""
        if self.taken >= self._most:
            telemetry.limited("evaluations")
            detail = Message("evaluations-running", count=self._most)
            raise Overloaded(detail, retry_after_seconds=OVERLOAD_SECONDS)

    @contextmanager
    def take(self, telemetry: Telemetry) -> Iterator[None]:
        """Takes a place until the block ends. Raises Overloaded."""
        self.require(telemetry)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


async def require_place(request: Request) -> None:
    """A FastAPI dependency that raises Overloaded before the body is read. The place is taken only afterwards, so that
    a slow sender does not occupy it."""
    places: EvaluationPlaces = request.app.state.places
    places.require(request.app.state.container.telemetry)


@asynccontextmanager
async def evaluating(request: Request) -> AsyncIterator[RequestScope]:
    """Takes a place, and charges the caller's key with the cost of judging in the scope that it yields, even if an
    error ends it.

    Raises Overloaded, CostLimitReached if the limit is used up, and ProjectFull if the project may not store any more.
    What a key has reserved counts as spent until its request is done, so that requests at once do not exceed the limit
    together.
    """
    places: EvaluationPlaces = request.app.state.places
    container: Container = request.app.state.container
    with places.take(container.telemetry):
        await container.governance.quota.require_room(request.state.project)
        await require_money(request)
        now, key = container.scoring.context.now(), request.state.key
        purse = open_purse(request, now)
        scope = RequestScope(actor=request.state.actor, project=request.state.project, purse=purse)

        async def charge() -> None:
            due_usd = scope.cost_usd if purse is None else purse.due_usd(scope.cost_usd)
            if key is not None and due_usd:
                await container.governance.spending.charge(key.id, due_usd, now)

        try:
            yield scope
        except BaseException:
            try:
                await charge()
            except StoreError as error:
                logger.warning("a key was not charged: %s", error.loggable, extra={"code": error.code})
            raise
        await charge()
