"""Cancels asyncio tasks reliably, runs coroutines concurrently with a single error, and keeps up what comes again."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any

from saiten_server.core.errors import SaitenError, StoreError

WARM_SECONDS = 0.25
"""Delay before the clients of the judge and the translator are loaded and templates compiled, so that readiness comes
first."""

AGAIN_SECONDS = 0.5


async def cancel_for_good(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks repeatedly until all have ended. Once is not always enough: before Python 3.12 `asyncio.wait_for`,
    which redis-py uses for each command, loses a cancellation that arrives just as the awaited work completes. Not for
    tasks that take long to clean up, because each further cancellation interrupts that."""
    ending = set(tasks)
    while ending:
        for task in ending:
            task.cancel()
        _, ending = await asyncio.wait(ending, timeout=AGAIN_SECONDS)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Like `cancel_for_good`, but raises the error of a task that failed."""
    ending = list(tasks)
    await cancel_for_good(ending)
    raise_error_of(ending)


async def end_once(task: asyncio.Task[Any]) -> None:
    """Cancels a task once, waits until it has ended, and raises its error if it failed. For a task that cleans up and
    does not lose a cancellation."""
    task.cancel()
    await asyncio.wait([task])
    raise_error_of([task])


def raise_error_of(ended: Iterable[asyncio.Task[Any]]) -> None:
    """Raises the error of the first task that failed, if any."""
    for task in ended:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def run_together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """All results in order. The first failure cancels the rest and is raised by itself, not in a group."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def run_few(work: Iterable[Callable[[], Coroutine[Any, Any, Any]]], at_once: int) -> list[Any]:
    """All results in order, of which at most `at_once` are made concurrently: the next piece of work is taken from
    `work`, and its coroutine created, only when one before it has ended. Raises as `run_together` does."""
    found: dict[int, Any] = {}
    left = enumerate(work)

    async def take() -> None:
        for number, begin in left:
            found[number] = await begin()

    await run_together(*(take() for _ in range(at_once)))
    return [found[number] for number in range(len(found))]


@contextmanager
def surviving(logger: logging.Logger, work: str) -> Iterator[None]:
    """A round of `work` that comes again, whatever becomes of this one: a store that is away is warned of, and anything
    unexpected is logged. One unreadable row, for example, must not end a worker in every round. A cancellation
    passes."""
    try:
        yield
    except StoreError as error:
        logger.warning("%s wait for the store: %s", work, error.loggable, extra={"code": error.code})
    except Exception:
        logger.exception("unexpected error", extra={"code": SaitenError.code})


def within(seconds: float) -> AbstractAsyncContextManager[Any]:
    """`asyncio.timeout`, or a null context for `math.inf`, which costs a tenth as much."""
    return nullcontext() if math.isinf(seconds) else asyncio.timeout(seconds)
