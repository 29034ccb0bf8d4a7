"""Results come in the order of their requests, within bounds."""

import asyncio
from contextlib import aclosing
from typing import Any

from saiten.commands.score import score_in_order
from tests.support.records import BODY
from tests.support.waiting import LIMIT_SECONDS

REQUESTS = [{**BODY, "metadata": {"n": str(n)}} for n in range(30)]


class HeldScorer:
    """Answers each request with its number; the first `held` only once `released`."""

    def __init__(self, held: int = 1) -> None:
        self.held = held
        self.released = asyncio.Event()
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.in_flight = 0
        self.peak = 0

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        number = int(request["metadata"]["n"])
        self.begun.append(number)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await (self.released.wait() if number < self.held else asyncio.sleep(0))
        finally:
            self.in_flight -= 1
        self.ended.append(number)
        return {"n": number}


async def settle() -> None:
    """Lets all that can go on without a clock go on."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_results_keep_the_order_of_their_requests_and_calls_their_bound() -> None:
    scorer = HeldScorer()
    scorer.released.set()
    ends: list[None] = []
    async with aclosing(score_in_order(REQUESTS, scorer, concurrency=3, done=lambda: ends.append(None))) as results:
        assert [result["n"] async for result in results] == list(range(30))
    assert (scorer.peak, len(ends)) == (3, 30)


async def test_a_slow_first_holds_back_a_window_and_no_more() -> None:
    scorer = HeldScorer()
    async with aclosing(score_in_order(REQUESTS, scorer, concurrency=2, done=lambda: None)) as results:
        first = asyncio.ensure_future(anext(results))
        await settle()
        # 4 times 2 are begun: seven have ended beside the slow one, and no further one is taken up before it ends.
        assert (scorer.begun, scorer.ended) == (list(range(8)), list(range(1, 8)))
        assert not first.done()
        scorer.released.set()
        assert await first == {"n": 0}
        assert [result["n"] async for result in results] == list(range(1, 30))


async def test_calls_in_flight_end_with_their_reader() -> None:
    scorer = HeldScorer(held=2)
    async with asyncio.timeout(LIMIT_SECONDS):
        async with aclosing(score_in_order(REQUESTS, scorer, concurrency=2, done=lambda: None)) as results:
            first = asyncio.ensure_future(anext(results))
            await settle()
            assert scorer.in_flight == 2
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
    assert scorer.in_flight == 0
    assert scorer.ended == []
