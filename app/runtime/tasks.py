"""Ending tasks.

Work side by side, with one error where one part fails.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

AGAIN_SECONDS = 0.5


async def cancel_for_good(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels them until all have ended, however they end.

    Once is not always enough: before Python 3.12 `asyncio.wait_for`, by which redis-py sends each command, loses a
    cancellation that comes as what it waits for is done. Not for tasks that take long to clean up: each further
    cancellation cuts into that.
    """
    ending = set(tasks)
    while ending:
        for task in ending:
            task.cancel()
        _, ending = await asyncio.wait(ending, timeout=AGAIN_SECONDS)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """`cancel_for_good`; an error that one of them died of is raised."""
    ending = list(tasks)
    await cancel_for_good(ending)
    raise_error_of(ending)


async def end_once(task: asyncio.Task[Any]) -> None:
    """Cancels it, once, and waits until it has ended; an error that it died of is raised. For a task that cleans up,
    and that loses no cancellation."""
    task.cancel()
    await asyncio.wait([task])
    raise_error_of([task])


def raise_error_of(ended: Iterable[asyncio.Task[Any]]) -> None:
    """The error that the first of them died of, where one did."""
    for task in ended:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def run_together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """All results in order. The first failure cancels the rest and is raised as it is, not in a group."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in work]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def within(seconds: float) -> AbstractAsyncContextManager[Any]:
    """`asyncio.timeout`; nothing at all where there is no limit (`math.inf`), which costs a tenth of it."""
    return nullcontext() if math.isinf(seconds) else asyncio.timeout(seconds)
