"""Side by side: results in order, one error as it is, nobody left running."""

import asyncio
import math

import pytest

from saiten_server.platform.tasks import run_together, within


async def test_results_stand_in_the_order_of_the_work() -> None:
    second_done = asyncio.Event()

    async def first() -> str:
        await second_done.wait()
        return "first"

    async def second() -> str:
        second_done.set()
        return "second"

    assert await run_together(first(), second()) == ["first", "second"]


async def test_the_first_failure_comes_bare_and_ends_the_rest() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiter")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await run_together(wait(), run_together(wait(), fail()))
    assert ended == ["waiter", "waiter"]


async def test_a_limit_cuts_what_takes_longer() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.001):
            await asyncio.Event().wait()


async def test_without_a_limit_nothing_is_cut() -> None:
    ended = False
    async with within(math.inf):
        await asyncio.sleep(0.01)
        ended = True
    assert ended
