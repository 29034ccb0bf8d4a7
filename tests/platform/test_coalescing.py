"""What gathers, what goes together, and who is told of an error."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from saiten_server.platform.coalescing import Coalescer


class Doubler:
    """Doubles numbers, but those with an error, and keeps the lists. Waits for `go` before it answers, where it is told to."""

    def __init__(self, *, wait: bool = False) -> None:
        self.batches: list[list[int]] = []
        self.errors: dict[int, Exception] = {}
        self.most_at_once = 0
        self.running = 0
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        if not wait:
            self.go.set()

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        self.started.set()
        try:
            await self.go.wait()
        finally:
            self.running -= 1
        for number in numbers:
            if number in self.errors:
                raise self.errors[number]
        return [2 * number for number in numbers]


def ask(coalescer: Coalescer[int, int], *numbers: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(coalescer(number)) for number in numbers]


async def test_one_call_is_a_list_of_one():
    work = Doubler()
    assert await Coalescer(work)(21) == 42
    assert work.batches == [[21]]


async def test_calls_that_come_together_go_together_and_are_answered_in_their_place():
    work = Doubler()
    assert await asyncio.gather(*ask(Coalescer(work), 1, 2, 3, 2)) == [2, 4, 6, 4]
    assert work.batches == [[1, 2, 3, 2]]


async def test_calls_gather_while_one_list_is_worked_on():
    work = Doubler(wait=True)
    coalescer = Coalescer(work)
    first = ask(coalescer, 1)
    await work.started.wait()
    rest = []
    for number in (2, 3, 4):
        rest += ask(coalescer, number)
        await asyncio.sleep(0)
    assert work.batches == [[1]]
    work.go.set()
    assert await asyncio.gather(*first, *rest) == [2, 4, 6, 8]
    assert work.batches == [[1], [2, 3, 4]]
    assert work.most_at_once == 1


async def test_no_list_is_longer_than_allowed():
    work = Doubler()
    assert await asyncio.gather(*ask(Coalescer(work, most=2), 1, 2, 3, 4, 5)) == [2, 4, 6, 8, 10]
    assert work.batches == [[1, 2], [3, 4], [5]]


async def test_an_error_reaches_everybody_on_the_list_and_nobody_else():
    work = Doubler(wait=True)
    coalescer = Coalescer(work, most=2)
    work.errors = {2: OSError("down")}
    failed = ask(coalescer, 1, 2)
    await work.started.wait()
    later = ask(coalescer, 3)
    work.go.set()
    assert [type(error) for error in await asyncio.gather(*failed, return_exceptions=True)] == [OSError, OSError]
    assert await asyncio.gather(*later) == [6]


async def test_a_missing_answer_is_an_error_and_not_a_wait_for_ever():
    async def forgetful(numbers: Sequence[int]) -> list[int]:
        return [0 for _ in numbers][1:]

    results = await asyncio.gather(*ask(Coalescer(forgetful), 1, 2), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError]


@pytest.mark.parametrize("error", [None, OSError("down")])
async def test_a_cancelled_caller_takes_nothing_from_the_others(error):
    work = Doubler(wait=True)
    work.errors = {1: error} if error else {}
    coalescer = Coalescer(work)
    going, staying = ask(coalescer, 1, 2)
    await work.started.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    work.go.set()
    assert [*await asyncio.gather(staying, return_exceptions=True)] == [error or 4]
    assert work.batches == [[1, 2]]


async def test_what_was_asked_is_done_though_its_caller_left_before_it_began():
    work = Doubler(wait=True)
    coalescer = Coalescer(work)
    first = ask(coalescer, 1)
    await work.started.wait()
    (going,) = ask(coalescer, 2)
    await asyncio.sleep(0)
    going.cancel()
    work.go.set()
    await asyncio.gather(*first)
    await coalescer.drain()
    assert work.batches == [[1], [2]]


async def test_draining_waits_for_what_is_under_way_and_for_what_gathered():
    work = Doubler(wait=True)
    coalescer = Coalescer(work)
    first = ask(coalescer, 1)
    await work.started.wait()
    second = ask(coalescer, 2)
    await asyncio.sleep(0)
    drained = asyncio.create_task(coalescer.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    work.go.set()
    await drained
    assert work.batches == [[1], [2]]
    assert await asyncio.gather(*first, *second) == [2, 4]
    await coalescer.drain()  # nothing is left to wait for


async def test_a_cancelled_drain_stops_nothing():
    work = Doubler(wait=True)
    coalescer = Coalescer(work)
    tasks = ask(coalescer, 1)
    await work.started.wait()
    drained = asyncio.create_task(coalescer.drain())
    await asyncio.sleep(0)
    drained.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drained
    work.go.set()
    assert await asyncio.gather(*tasks) == [2]


async def test_callers_do_not_wait_for_work_that_was_cancelled():
    async def end(_: Sequence[int]) -> list[int]:
        raise asyncio.CancelledError  # as at the end of the loop

    coalescer: Coalescer[int, int] = Coalescer(end, most=1)
    results = await asyncio.gather(*ask(coalescer, 1, 2), return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2


async def test_work_does_not_see_the_first_callers_context():
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    seen: list[str] = []

    async def look(numbers: Sequence[int]) -> list[int]:
        seen.append(variable.get())
        return list(numbers)

    variable.set("the caller's")
    await Coalescer(look)(1)
    assert seen == ["nobody's"]


async def test_a_list_of_one_may_see_its_callers_context_and_what_several_share_sees_none():
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    seen: list[str] = []

    async def look(numbers: Sequence[int]) -> list[int]:
        seen.append(variable.get())
        if 13 in numbers:
            raise OSError("down")
        return list(numbers)

    coalescer = Coalescer(look, own_context=True)
    variable.set("the caller's")
    assert await coalescer(1) == 1
    with pytest.raises(OSError, match="down"):
        await coalescer(13)
    assert [*await asyncio.gather(coalescer(1), coalescer(2))] == [1, 2]
    assert seen == ["the caller's", "the caller's", "nobody's"]


async def test_work_in_a_callers_context_outlives_the_caller():
    work = Doubler(wait=True)
    coalescer = Coalescer(work, own_context=True)
    (going,) = ask(coalescer, 1)
    await work.started.wait()
    going.cancel()
    work.go.set()
    await coalescer.drain()
    assert (work.batches, work.running) == ([[1]], 0)
    assert going.cancelled()


class Pauses:
    """Sleeps until it is woken, and keeps for how long it was asked to."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.wake = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self.wake.wait()


async def test_who_comes_alone_does_not_linger():
    pauses, work = Pauses(), Doubler()
    assert await Coalescer(work, linger_seconds=60, sleep=pauses)(1) == 2
    assert pauses.asked == []


async def test_a_list_that_follows_another_waits_for_company():
    pauses, work = Pauses(), Doubler()
    coalescer = Coalescer(work, linger_seconds=60, sleep=pauses)
    await coalescer(1)
    tasks = ask(coalescer, 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pauses.asked == [60]
    tasks += ask(coalescer, 3, 4)
    await asyncio.sleep(0)
    assert work.batches == [[1]]
    pauses.wake.set()
    assert await asyncio.gather(*tasks) == [4, 6, 8]
    assert work.batches == [[1], [2, 3, 4]]


async def test_lists_of_one_make_nobody_linger_where_company_is_two():
    pauses, work = Pauses(), Doubler()
    coalescer = Coalescer(work, linger_seconds=60, company=2, sleep=pauses)
    for number in (1, 2, 3):
        assert await coalescer(number) == 2 * number
    assert pauses.asked == []
    await asyncio.gather(*ask(coalescer, 4, 5))
    (late,) = ask(coalescer, 6)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pauses.asked == [60]
    pauses.wake.set()
    assert await late == 12


async def test_a_full_list_does_not_linger():
    pauses, work = Pauses(), Doubler()
    coalescer = Coalescer(work, most=2, linger_seconds=60, sleep=pauses)
    await coalescer(1)
    assert await asyncio.gather(*ask(coalescer, 2, 3)) == [4, 6]
    assert pauses.asked == []


async def test_who_comes_long_after_a_list_does_not_linger():
    pauses, work = Pauses(), Doubler()
    # Over before anybody can come again: a loop's clock is coarser than this.
    coalescer = Coalescer(work, linger_seconds=1e-12, sleep=pauses)
    await coalescer(1)
    await asyncio.sleep(0.001)
    assert await coalescer(2) == 4
    assert pauses.asked == []


async def test_a_list_that_failed_makes_nobody_linger():
    pauses, work = Pauses(), Doubler()
    work.errors = {1: OSError("down")}
    coalescer = Coalescer(work, linger_seconds=60, sleep=pauses)
    with pytest.raises(OSError, match="down"):
        await coalescer(1)
    assert await coalescer(2) == 4
    assert pauses.asked == []


async def test_draining_waits_for_those_who_linger():
    pauses, work = Pauses(), Doubler()
    coalescer = Coalescer(work, linger_seconds=60, sleep=pauses)
    await coalescer(1)
    future = coalescer.submit(2)
    drained = asyncio.create_task(coalescer.drain())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not drained.done()
    pauses.wake.set()
    await drained
    assert future.result() == 4
