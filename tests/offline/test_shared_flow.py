"""Flow control of many processes whose state one of them keeps."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from threading import Event

import pytest

from saiten.core.messages import Message
from saiten_server.core.errors import SaitenError
from saiten_server.offline.judging import Silence
from saiten_server.offline.ray_engine import RunLedger, require_reachable, watching
from saiten_server.offline.shared_flow import LIVE_SECONDS, FlowLedger, SharedFlowState
from saiten_server.platform.flow_state import Demand, FlowLimits, FlowReport, Grant
from tests.support.services import free_port
from tests.support.waiting import LIMIT_SECONDS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


ANSWERED = FlowReport(successes=1)


def demand(count: int, in_flight: int = 0) -> Demand:
    return Demand(tokens=(10,) * count, interactive=0, in_flight=in_flight)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_processes_share_the_calls_in_flight(clock: Clock) -> None:
    ledger = FlowLedger(FlowLimits(12), clock=clock)
    first = await ledger.exchange("a", ANSWERED, demand(20))
    assert first.admitted == 11  # a place is reserved for interactive calls
    second = await ledger.exchange("b", FlowReport(), demand(20))
    assert second.admitted + first.admitted <= 12
    # As the calls of the first end, the second gets its share.
    await ledger.exchange("a", FlowReport(successes=11), demand(0))
    third = await ledger.exchange("b", FlowReport(), demand(20, in_flight=second.admitted))
    assert third.admitted + second.admitted == 6


async def test_a_process_without_a_call_is_told_when_to_ask_again(clock: Clock) -> None:
    """The last place is reserved, and no call of its own will end."""
    ledger = FlowLedger(FlowLimits(10), clock=clock)
    assert (await ledger.exchange("a", ANSWERED, demand(20))).admitted == 9
    assert (await ledger.exchange("b", FlowReport(), demand(1))).wait_seconds == pytest.approx(0.02)


async def test_the_judge_is_silent_where_it_is_for_all_processes(clock: Clock) -> None:
    ledger, fault = RunLedger(FlowLimits(4), None, clock=clock), Message("verbatim", text="503")
    assert (await ledger.find_silence()).seconds == 0
    await ledger.note_silence("a", Silence(40.0, 3, fault))
    await ledger.note_silence("b", Silence(35.0, 2, None))
    assert await ledger.find_silence() == Silence(35.0, 5, fault)
    await ledger.note_silence("b", Silence(0.5, 0, None))
    assert (await ledger.find_silence()).seconds == 0.5
    # One that has nothing to do, or is gone, says nothing any more.
    clock.now += LIVE_SECONDS
    await ledger.note_silence("a", Silence(50.0, 4, fault))
    assert (await ledger.find_silence()).seconds == 50


def test_the_driver_is_told_while_it_waits() -> None:
    asked, told = iter([None, Silence(1.0, 0, None)]), Event()
    found: list[Silence] = []

    def watch(silence: Silence) -> None:
        found.append(silence)
        told.set()

    with watching(lambda: next(asked, None), watch):
        assert told.wait(LIMIT_SECONDS)
    assert found == [Silence(1.0, 0, None)]


async def test_who_waits_without_a_call_goes_first(clock: Clock) -> None:
    ledger = FlowLedger(FlowLimits(2), clock=clock)
    await ledger.exchange("a", ANSWERED, demand(2))
    for name in "bcd":
        clock.now += 0.001
        grant = await ledger.exchange(name, FlowReport(), demand(1))
        assert (grant.admitted, grant.wait_seconds is not None) == (0, True)
    await ledger.exchange("a", FlowReport(successes=2), demand(0))
    assert (await ledger.exchange("d", FlowReport(), demand(1))).admitted == 0
    assert (await ledger.exchange("b", FlowReport(), demand(1))).admitted == 1


async def test_a_process_that_died_is_forgotten(clock: Clock) -> None:
    ledger = FlowLedger(FlowLimits(3), clock=clock)
    assert (await ledger.exchange("a", ANSWERED, demand(3))).admitted == 3
    assert (await ledger.exchange("b", FlowReport(), demand(3))).admitted == 0
    clock.now += LIVE_SECONDS + 1
    assert (await ledger.exchange("b", FlowReport(), demand(3))).admitted == 3


async def test_a_pause_holds_for_all(clock: Clock) -> None:
    ledger = FlowLedger(FlowLimits(8), clock=clock)
    await ledger.exchange("a", FlowReport(throttled_age_seconds=0.1, closed_seconds=5.0), demand(1))
    grant = await ledger.exchange("b", FlowReport(), demand(1))
    assert grant.admitted == 0
    assert grant.closed_seconds == pytest.approx(5.0)
    await ledger.reopen()
    assert (await ledger.exchange("b", FlowReport(), demand(1))).admitted == 1


async def test_64_processes_hold_one_rate(clock: Clock) -> None:
    """For a minute of a clock that is turned by hand; the limit is held at every moment, and used."""
    per_minute, names = 6000, [f"p{number}" for number in range(64)]
    ledger = FlowLedger(FlowLimits(640, requests_per_minute=per_minute), clock=clock)
    flying: Counter[str] = Counter()
    made = 0
    for tick in range(3000):
        clock.now += 0.02
        for name in names[tick % 8 :: 8]:
            ended, flying[name] = flying[name], 0
            grant = await ledger.exchange(name, FlowReport(successes=ended), demand(10))
            flying[name] = grant.admitted
            made += grant.admitted
        assert made <= per_minute * ((tick + 1) * 0.02 + 0.1) / 60 + 1
    assert made >= 0.98 * per_minute


async def test_without_the_ledger_a_process_keeps_to_its_share() -> None:
    async def fail(*_: object) -> Grant:
        raise OSError("the actor has died")

    async def nothing() -> None:
        raise OSError("the actor has died")

    state = SharedFlowState(fail, FlowLimits(64), leave=nothing, reopen=nothing, processes=16)
    assert (await state.exchange(ANSWERED, demand(10))).admitted == 3
    await state.reopen()
    await state.close()


async def test_a_process_asks_the_ledger_by_its_name() -> None:
    ledger = FlowLedger(FlowLimits(4))
    states = [
        SharedFlowState(
            partial(ledger.exchange, name), FlowLimits(4), leave=partial(ledger.leave, name), reopen=ledger.reopen
        )
        for name in "ab"
    ]
    grants = await asyncio.gather(*(state.exchange(ANSWERED, demand(4)) for state in states))
    assert sum(grant.admitted for grant in grants) == 3  # one place is reserved
    assert grants[1].places == 2
    await states[0].close()
    assert (await states[1].exchange(FlowReport(), demand(4))).admitted == 3


def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(SaitenError) as told:
        require_reachable(f"127.0.0.1:{free_port()}")
    assert told.value.message.id == "offline-engine-failed"
    for address in (None, "auto", "ray://head"):
        require_reachable(address)
