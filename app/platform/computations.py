"""Computations that continue in the background when a page does not wait for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, cast

from cachetools import LRUCache

from saiten_server.core.errors import SaitenError
from saiten_server.platform.tasks import end_tasks

logger = logging.getLogger("saiten.meta")
T = TypeVar("T")
ComputationKey = tuple[str, Hashable]  # project and key
KEPT_FIGURES = 64
COMPUTATIONS_AT_ONCE = 2
MOST_WAITING = 32
OF_ONE = 12  # computations of one project that may run or wait, so that it cannot crowd out other projects
TURN_WAIT_SECONDS = 0.05
ERROR_SECONDS = 10.0  # how long an error is returned; a later request tries again


class Compute(Protocol):
    """Does work that takes seconds off the event loop, few at a time; `ComparisonService.compute` is one."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


@dataclass(frozen=True)
class PendingComputation:
    """There is no result yet: ask again. `seconds` have passed since the first request. `turned-away` means that too
    many computations wait already; asking again may get a place."""

    started_at: datetime
    seconds: float
    state: Literal["computing", "waiting", "turned-away"] = "computing"


@dataclass
class RunningComputation:
    """A computation that is not finished; `computing` once it has its turn."""

    task: asyncio.Task[Any]
    started_at: datetime
    computing: bool = False


@dataclass(frozen=True)
class FinishedComputation:
    """A finished computation; its task holds the value or the error."""

    task: asyncio.Task[Any]
    at: datetime


class Computations:
    """Computes once for all requests with one key, and keeps the last results in memory: `kept` of them, or as many as
    together have that size by `size_of`. Everything that a
    result depends on must be in its key. Results are shared and must not be changed. Nothing is started after
    `close`."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime],
        kept: int = KEPT_FIGURES,
        at_once: int = COMPUTATIONS_AT_ONCE,
        waiting: int = MOST_WAITING,
        of_one: int = OF_ONE,
        size_of: Callable[[Any], int] | None = None,
    ) -> None:
        self._now = now
        self._most_running = at_once + waiting
        self._most_of_one = of_one
        self._turns = asyncio.Semaphore(at_once)
        self._running: dict[ComputationKey, RunningComputation] = {}
        self._finished: LRUCache[ComputationKey, FinishedComputation] = LRUCache(
            kept, None if size_of is None else lambda done: 1 if done.task.exception() else size_of(done.task.result())
        )
        self._closed = False

    async def get(
        self,
        project: str,
        key: Hashable,
        work: Callable[[], Awaitable[T]],
        *,
        wait_seconds: float | None = TURN_WAIT_SECONDS,
    ) -> T | PendingComputation:
        """The work's result where it is there, or is ready within `wait_seconds`; else a PendingComputation, and
        the work continues even if the caller is cancelled. None begins nothing. Raises what the work raised."""
        place = (project, key)
        finished = self._finished.get(place)
        if finished is not None:
            failed = finished.task.exception() is not None
            if not failed or (self._now() - finished.at).total_seconds() < ERROR_SECONDS:
                return cast(T, open_task(finished.task))
            del self._finished[place]
        running = self._running.get(place)
        if wait_seconds is None:
            return PendingComputation(self._now(), 0.0)
        if running is None:
            if self._closed or self._is_full(project):
                # Some ask again at once, and those who have the places need a turn to come to an end.
                await asyncio.sleep(min(wait_seconds, TURN_WAIT_SECONDS))
                return PendingComputation(self._now(), 0.0, "turned-away")
            running = RunningComputation(asyncio.create_task(self._work(place, work)), self._now())
            self._running[place] = running
            running.task.add_done_callback(lambda _: self._finish(place))
        # Unlike `wait_for` this cancels nothing: neither when the time is up nor when the caller goes away.
        await asyncio.wait({running.task}, timeout=wait_seconds)
        if not running.task.done():
            seconds = (self._now() - running.started_at).total_seconds()
            return PendingComputation(running.started_at, seconds, "computing" if running.computing else "waiting")
        if running.task.cancelled():  # by `close`, not by the caller
            return PendingComputation(running.started_at, 0.0, "turned-away")
        return cast(T, open_task(running.task))

    async def close(self) -> None:
        """Cancels what is running. A thread that computes cannot be stopped: it ends by itself, its result unseen."""
        self._closed = True
        await end_tasks(running.task for running in self._running.values())

    def _is_full(self, project: str) -> bool:
        """Whether there is no place for another computation, or none for this project's."""
        mine = sum(owner == project for owner, _ in self._running)
        return len(self._running) >= self._most_running or mine >= self._most_of_one

    async def _work(self, place: ComputationKey, work: Callable[[], Awaitable[T]]) -> T:
        async with self._turns:
            self._running[place].computing = True
            return await work()

    def _finish(self, place: ComputationKey) -> None:
        """Keeps what a task ended with, and lets go of what was asked for longest ago."""
        task = self._running.pop(place).task
        if task.cancelled():
            return
        error = task.exception()  # retrieved, or asyncio logs it as never retrieved
        if error is not None and not isinstance(error, SaitenError):
            logger.error("a computation failed", exc_info=error)
        with suppress(ValueError):  # a result that is larger than all that is kept
            self._finished[place] = FinishedComputation(task, self._now())


def open_task(task: asyncio.Task[Any]) -> Any:
    """The value that a finished task ended with, or its error raised."""
    error = task.exception()
    if error is not None:
        # Otherwise each raise would add the frames of one caller.
        raise error.with_traceback(None)
    return task.result()
