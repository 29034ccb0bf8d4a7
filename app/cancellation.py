"""Ending tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
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
    """Cancels them and waits until they have ended; an error that one of them died of is raised."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for outcome in await asyncio.gather(*ending, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
            raise outcome
