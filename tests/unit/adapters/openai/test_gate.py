"""The gate: so many at once, nobody before the time, nobody for longer than the patience, and no place ever lost."""

from __future__ import annotations

import asyncio

import pytest

from app.adapters.openai.gate import Gate
from app.domain.errors import JudgeUnavailable
from tests.support.dict_cache import FakeTime


async def enter(gate: Gate, patience_seconds: float = 10) -> None:
    async with gate.passage(patience_seconds=patience_seconds):
        pass


async def hold(gate: Gate, until: asyncio.Event) -> None:
    async with gate.passage(patience_seconds=10):
        await until.wait()


async def turn() -> None:
    """Lets every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def assert_free(gate: Gate, places: int) -> None:
    """That many may be in at once, and not one more."""
    leave = asyncio.Event()
    inside = [asyncio.create_task(hold(gate, leave)) for _ in range(places)]
    await turn()
    with pytest.raises(JudgeUnavailable, match="no place"):
        await enter(gate, 0.001)
    leave.set()
    await asyncio.gather(*inside)
    await enter(gate, 0.001)


async def test_the_gate_keeps_everybody_out_until_it_opens():
    time = FakeTime()
    gate = Gate(2, clock=time.clock, sleep=time.sleep)
    gate.close_for(5)
    gate.close_for(1)
    entered = []

    async def enter() -> None:
        async with gate.passage(patience_seconds=10):
            entered.append(time.now)

    await asyncio.gather(*(enter() for _ in range(4)))
    assert min(entered) >= 1005
    gate.close_for(11)
    with pytest.raises(JudgeUnavailable):
        await enter()


async def test_the_patience_is_for_all_waiting_together():
    time, leave = FakeTime(), asyncio.Event()
    gate = Gate(1, clock=time.clock, sleep=time.sleep)
    holder = asyncio.create_task(hold(gate, leave))
    await turn()
    impatient, patient = (asyncio.create_task(enter(gate, seconds)) for seconds in (10, 12))
    await turn()
    time.now += 6
    gate.close_for(5)
    leave.set()
    # Six seconds for a place and five for the gate to open are eleven.
    with pytest.raises(JudgeUnavailable, match="no calls for another 5 s") as caught:
        await asyncio.gather(impatient)
    assert caught.value.retry_after_seconds == 5
    await asyncio.gather(patient, holder)


async def test_patience_may_end_with_the_closing():
    time = FakeTime()
    gate = Gate(1, clock=time.clock, sleep=time.sleep)
    gate.close_for(10)
    await enter(gate, 10)
    assert time.now >= 1010


async def test_who_finds_no_place_is_told_to_come_back():
    gate, leave = Gate(1), asyncio.Event()
    holder = asyncio.create_task(hold(gate, leave))
    await turn()
    with pytest.raises(JudgeUnavailable, match=r"the judge is busy: no place within 0\.02 s") as caught:
        await enter(gate, 0.02)
    assert caught.value.retry_after_seconds == 1.0
    leave.set()
    await holder
    await assert_free(gate, 1)


async def test_a_waiter_that_goes_away_takes_no_place():
    gate, leave = Gate(2), asyncio.Event()
    holders = [asyncio.create_task(hold(gate, leave)) for _ in range(2)]
    await turn()
    waiter = asyncio.create_task(enter(gate))
    await turn()
    waiter.cancel()
    leave.set()
    await asyncio.gather(*holders)
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await assert_free(gate, 2)


async def test_a_waiter_that_goes_away_as_it_is_given_its_place_takes_none():
    gate, leave = Gate(1), asyncio.Event()
    holder = asyncio.create_task(hold(gate, leave))
    await turn()
    waiter = asyncio.create_task(hold(gate, asyncio.Event()))
    await turn()
    leave.set()
    await holder
    # The place is the waiter's, but it has not run since.
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await assert_free(gate, 1)


async def test_who_goes_away_before_a_closed_gate_leaves_the_place():
    gate = Gate(1)
    gate.close_for(5)
    waiter = asyncio.create_task(enter(gate))
    await turn()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    with pytest.raises(JudgeUnavailable, match="no calls"):
        await enter(gate, 1)
    with pytest.raises(JudgeUnavailable, match="no calls"):
        await enter(gate, 1)


async def test_those_who_wait_are_turned_away_and_later_ones_are_not():
    gate, leave = Gate(1), asyncio.Event()
    holder = asyncio.create_task(hold(gate, leave))
    await turn()
    waiters = [asyncio.create_task(enter(gate)) for _ in range(2)]
    await turn()
    gate.turn_away(JudgeUnavailable("the account is closed"))
    leave.set()
    await holder
    for waiter in waiters:
        with pytest.raises(JudgeUnavailable, match="the account is closed"):
            await waiter
    await assert_free(gate, 1)
