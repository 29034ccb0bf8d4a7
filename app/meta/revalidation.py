"""The badge follows the ratings: what they say of a judge is computed again after they changed, and nobody waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextvars import Context
from datetime import datetime
from typing import Protocol

from app.adapters.sql.batches.store import BatchStore
from app.adapters.sql.ratings import RatingStore
from app.cancellation import end_tasks
from app.domain.analysis_request import CorrelationRequest
from app.domain.batch import Batch, BatchFilter
from app.domain.errors import InvalidRequest, NotFound, SaitenError, UnknownRubric
from app.domain.reliability import Validation
from app.domain.reports import CorrelationReport, Report
from app.log_context import working_on
from app.meta.ratings import read_ratings
from app.meta.records import signatures_of
from app.meta.reliabilities import Reliabilities, key_in, validation_of

logger = logging.getLogger("saiten.meta")

REST = 9.0
"""Seconds of rest for each second of work: ratings that keep coming cost a tenth of the time at most."""

NEWEST = 20
"""Batches of a project that are looked at for ratings that name neither a batch nor an evaluation of one."""

PAGE = 1000

FAILED = "a judge's reliability could not be computed after its ratings changed"

Change = tuple[str, str | None]
"""A project, and the batch whose ratings changed; None where the ratings do not say which."""


class Revalidator(Protocol):
    """What a `Revalidation` does, piece by piece."""

    async def renew(self, project: str, batch_id: str, *, removed: bool) -> None:
        """Computes the badge from the batch's ratings. `removed`: some of them may be gone."""
        ...

    async def look(self, project: str, *, removed: bool) -> Collection[str]:
        """The batches that ratings may concern which name none."""
        ...


class Revalidation:
    """Renews badges behind the requests that change ratings, one batch after the other. For one event loop.

    What is asked for while it works or rests is done once, however often it was asked. An error of one batch is logged
    and takes nothing from the others.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._revalidator: Revalidator | None = None
        self._pending: dict[Change, bool] = {}
        self._runner: asyncio.Task[None] | None = None
        self._rested_at = 0.0
        self._hurried = asyncio.Event()

    def begin(self, revalidator: Revalidator) -> None:
        """From now on what is asked for is done."""
        self._revalidator = revalidator

    def ask(self, project: str, batches: Iterable[str | None], *, removed: bool = False) -> None:
        """The ratings of these batches changed, and some are gone where they were `removed`."""
        if self._revalidator is None:
            return
        for batch_id in batches:
            self._note(project, batch_id, removed=removed)
        if self._pending and self._runner is None:
            # In a context of its own: the request that asks first is none of the others' business.
            self._runner = asyncio.create_task(self._run(self._revalidator), context=Context())

    async def drain(self) -> None:
        """Does all that was asked for, without rests."""
        self._hurried.set()
        try:
            while self._runner is not None:
                await asyncio.wait({self._runner})
        finally:
            self._hurried.clear()

    async def close(self) -> None:
        """Ends what runs, and takes nothing more."""
        self._revalidator = None
        self._pending.clear()
        if self._runner is not None:
            await end_tasks([self._runner])

    def _note(self, project: str, batch_id: str | None, *, removed: bool) -> None:
        self._pending[project, batch_id] = removed or self._pending.get((project, batch_id), False)

    async def _run(self, revalidator: Revalidator) -> None:
        try:
            while self._pending:
                await self._rest()
                change = next(iter(self._pending))
                removed = self._pending.pop(change)
                began = self._clock()
                await self._work(revalidator, change, removed=removed)
                now = self._clock()
                self._rested_at = now + REST * (now - began)
        finally:
            self._runner = None

    async def _rest(self) -> None:
        """Waits until it is this one's turn again, or somebody drains."""
        seconds = self._rested_at - self._clock()
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._hurried.wait()
            except TimeoutError:
                return

    async def _work(self, revalidator: Revalidator, change: Change, *, removed: bool) -> None:
        project, batch_id = change
        with working_on(batch_id=batch_id):
            try:
                if batch_id is not None:
                    await revalidator.renew(project, batch_id, removed=removed)
                    return
                for found in await revalidator.look(project, removed=removed):
                    self._note(project, found, removed=removed)
            except SaitenError as error:
                logger.warning("%s: %s", FAILED, error.loggable)
            except Exception:
                logger.exception(FAILED)


class Analyse(Protocol):
    """`ComparisonService.analyse`."""

    async def __call__(self, project: str, request: CorrelationRequest, *, remember: bool) -> Report: ...


class BadgeRenewal:
    """`Revalidator` by the correlation of the batch.

    Ratings that name no batch concern those that have such items, which no index tells: looked at are the batches on
    which the project's badges rest, and the NEWEST, and of these those with ratings that came in since the last look.
    """

    def __init__(
        self,
        *,
        analyse: Analyse,
        batches: BatchStore,
        ratings: RatingStore,
        reliabilities: Reliabilities,
        now: Callable[[], datetime],
    ) -> None:
        self._analyse = analyse
        self._batches = batches
        self._ratings = ratings
        self._reliabilities = reliabilities
        self._now = now
        self._seen: dict[str, dict[str, int]] = {}

    async def renew(self, project: str, batch_id: str, *, removed: bool) -> None:
        """Nothing where the batch or its rubric are gone, or where it was not one judge that rated it."""
        batch = await self._batches.find(project, batch_id)
        keys = {key_in(line) for line in signatures_of(batch)} if batch is not None else set()
        if batch is None or len(keys) != 1:
            return
        try:
            found = await self._validate(project, batch)
        except (NotFound, UnknownRubric):
            return
        await self._reliabilities.renew(project, keys.pop(), batch_id, found, now=self._now(), removed=removed)

    async def look(self, project: str, *, removed: bool) -> Collection[str]:
        """Where ratings are gone nobody knows whose they were: all are looked at."""
        resting = await self._reliabilities.batches(project)
        if not (await self._ratings.mark(project)).count:
            return resting if removed else []
        newest = await self._batches.list(project, BatchFilter(), after=None, limit=NEWEST)
        candidates = dict.fromkeys([*resting, *(batch.id for batch in newest)])
        if removed:
            return candidates | dict.fromkeys(await self._ratings.rated_batches(project, limit=NEWEST))
        before, seen = self._seen.get(project, {}), dict[str, int]()
        for batch_id in candidates:
            seen[batch_id] = await self._newest_of(project, batch_id, before.get(batch_id, -1))
        self._seen[project] = seen
        return [batch_id for batch_id, number in seen.items() if number > before.get(batch_id, -1)]

    async def _validate(self, project: str, batch: Batch) -> Validation | None:
        """What its ratings say of the judge; None where they say nothing. Raises NotFound, UnknownRubric."""
        # Before its results are read, which may be a hundred thousand.
        used = (await read_ratings(self._ratings, project, [batch.id])).used
        if not used.counted or used.simulated:
            return None
        try:
            report = await self._analyse(project, CorrelationRequest(batch=batch.id), remember=False)
        except UnknownRubric:
            raise
        except InvalidRequest:
            return None  # too few ratings, or none that fit a result
        return validation_of(report, batch.id, self._now()) if isinstance(report, CorrelationReport) else None

    async def _newest_of(self, project: str, batch_id: str, after: int) -> int:
        """The number of the newest rating that may concern the batch; `after` where none is newer."""
        while page := await self._ratings.of_batch(project, batch_id, after=after, limit=PAGE):
            after = page[-1][0]
        return after
