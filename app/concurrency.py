"""Work side by side, with one error where one part fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any


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
