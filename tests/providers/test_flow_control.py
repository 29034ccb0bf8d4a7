"""Who may call next: places, lanes, pauses, patience, and what is learned from a call."""

import asyncio
import math
import time
from typing import Any

import pytest

from saiten_server.core.errors import JudgeUnauthorized, JudgeUnavailable
from saiten_server.platform.flow_state import FIRST_CALLS, LONGEST_PAUSE_SECONDS, Demand, FlowLimits, FlowReport, Grant
from saiten_server.platform.telemetry import FlowFigures
from saiten_server.providers.flow_control import HERD_SECONDS, FlowControl, RateLimits, open_local_flow
from saiten_server.providers.ports import Lane, RequestScope
from tests.support.dict_cache import FakeTime
from tests.support.faults import words
from tests.support.waiting import LIMIT_SECONDS


def open_flow(concurrency: int, time: FakeTime | None = None, **rates: float) -> FlowControl:
    bounds = FlowLimits(concurrency, **rates)
    return open_local_flow(bounds, clock=time.clock, sleep=time.sleep) if time else open_local_flow(bounds)


async def enter(flow: FlowControl, max_wait_seconds: float = 10, **how: Any) -> None:
    async with flow.passage(max_wait_seconds=max_wait_seconds, **how) as call:
        call.succeeded()


async def hold(flow: FlowControl, until: asyncio.Event, max_wait_seconds: float = 10, **how: Any) -> None:
    async with flow.passage(max_wait_seconds=max_wait_seconds, **how):
        await until.wait()


async def close_for(flow: FlowControl, seconds: float) -> None:
    """One call that the endpoint answers with a pause."""
    async with flow.passage(max_wait_seconds=10) as call:
        call.put_off(seconds)


async def turn() -> None:
    """Lets every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def assert_free(flow: FlowControl, places: int) -> None:
    """That many may be in at once, and not one more."""
    leave = asyncio.Event()
    inside = [asyncio.create_task(hold(flow, leave)) for _ in range(places)]
    await turn()
    with pytest.raises(JudgeUnavailable, match="no place"):
        await enter(flow, 0.001)
    leave.set()
    await asyncio.gather(*inside)
    await enter(flow, 1)


class TestPlaces:
    async def test_before_the_first_answer_few_may_call(self):
        await assert_free(open_flow(100), FIRST_CALLS)

    async def test_never_more_than_configured(self):
        flow = open_flow(3)
        for _ in range(9):
            await enter(flow)
        await assert_free(flow, 3)

    async def test_who_finds_no_place_is_told_to_come_back(self):
        flow, leave = open_flow(1), asyncio.Event()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()
        with pytest.raises(JudgeUnavailable, match=r"the judge is busy: no place within 0\.02 s") as caught:
            await enter(flow, 0.02)
        assert caught.value.retry_after_seconds == 1.0
        leave.set()
        await holder
        await assert_free(flow, 1)

    async def test_a_waiter_that_goes_away_takes_no_place(self):
        flow, leave = open_flow(2), asyncio.Event()
        holders = [asyncio.create_task(hold(flow, leave)) for _ in range(2)]
        await turn()
        waiter = asyncio.create_task(enter(flow))
        await turn()
        waiter.cancel()
        leave.set()
        await asyncio.gather(*holders)
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await assert_free(flow, 2)

    async def test_a_waiter_that_goes_away_as_it_is_given_its_place_takes_none(self):
        flow, leave = open_flow(1), asyncio.Event()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()
        waiter = asyncio.create_task(hold(flow, asyncio.Event()))
        await turn()
        leave.set()
        await holder
        while not flow._in_flight:
            await asyncio.sleep(0)
        # The place is the waiter's, but it has not run since.
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await assert_free(flow, 1)

    async def test_a_call_that_fails_gives_its_place_back(self):
        flow = open_flow(1)
        with pytest.raises(ZeroDivisionError):
            async with flow.passage(max_wait_seconds=1):
                raise ZeroDivisionError
        await assert_free(flow, 1)


class TestLanes:
    async def order(self, flow: FlowControl, leave: asyncio.Event, *lanes: Lane) -> list[Lane]:
        came: list[Lane] = []

        async def come(lane: Lane) -> None:
            async with flow.passage(lane=lane, max_wait_seconds=10):
                came.append(lane)

        waiting = []
        for lane in lanes:
            waiting.append(asyncio.create_task(come(lane)))
            await turn()
        leave.set()
        await asyncio.gather(*waiting)
        return came

    async def test_interactive_calls_go_first(self):
        flow, leave = open_flow(1), asyncio.Event()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()
        came = await self.order(flow, leave, "batch", "batch", "interactive")
        await holder
        assert came == ["interactive", "batch", "batch"]

    async def test_an_interactive_call_finds_a_place_among_batches(self):
        flow, leave = open_flow(FIRST_CALLS), asyncio.Event()
        batches = [asyncio.create_task(hold(flow, leave, lane="batch")) for _ in range(50)]
        await turn()
        await enter(flow, 0.5)
        assert not any(batch.done() for batch in batches)
        leave.set()
        await asyncio.gather(*batches)

    async def test_a_large_limit_is_a_batchs_almost_whole(self):
        flow, leave = open_flow(100), asyncio.Event()
        for _ in range(100):
            await enter(flow)
        batches = [asyncio.create_task(hold(flow, leave, lane="batch")) for _ in range(150)]
        await turn()
        assert 97 <= flow._in_flight < 100
        leave.set()
        await asyncio.gather(*batches)


class TestPauses:
    async def test_nobody_calls_before_the_end_of_a_pause(self):
        time = FakeTime()
        flow = open_flow(8, time)
        await close_for(flow, 5)
        entered = []

        async def come() -> None:
            async with flow.passage(max_wait_seconds=10):
                entered.append(time.now)

        await asyncio.gather(*(come() for _ in range(4)))
        assert 1005 <= min(entered) <= max(entered) <= 1005 + 2 * HERD_SECONDS + 0.5
        assert len(set(entered)) >= 3, "they do not leave all at once"

    async def test_who_cannot_wait_so_long_is_told_at_once(self):
        time = FakeTime()
        flow = open_flow(2, time)
        await close_for(flow, 11)
        with pytest.raises(JudgeUnavailable, match="no calls for another 11 s") as caught:
            await enter(flow)
        assert caught.value.retry_after_seconds == 11
        assert time.slept == []

    async def test_who_waits_already_is_told_as_soon_as_the_pause_is_known(self):
        time, leave = FakeTime(), asyncio.Event()
        flow = open_flow(1, time)

        async def call() -> None:
            async with flow.passage(max_wait_seconds=10) as made:
                await leave.wait()
                made.throttled(60.0)

        caller = asyncio.create_task(call())
        await turn()
        waiter = asyncio.create_task(enter(flow, 30))
        await turn()
        leave.set()
        with pytest.raises(JudgeUnavailable, match="no calls for another 60 s"):
            await waiter
        await caller

    async def test_patience_may_end_with_the_pause(self):
        time = FakeTime()
        flow = open_flow(1, time)
        await close_for(flow, 10)
        await enter(flow, 10)
        assert time.now >= 1010

    async def test_a_shorter_pause_never_cuts_a_longer_one(self):
        time = FakeTime()
        flow, leave = open_flow(2, time), asyncio.Event()

        async def call(seconds: float) -> None:
            async with flow.passage(max_wait_seconds=10) as made:
                await leave.wait()
                made.put_off(seconds)

        calls = [asyncio.create_task(call(seconds)) for seconds in (9, 2)]
        await turn()
        leave.set()
        await asyncio.gather(*calls)
        await enter(flow)
        assert time.now >= 1009

    async def test_what_is_spent_is_waited_for(self):
        time = FakeTime()
        flow = open_flow(1, time)
        async with flow.passage(max_wait_seconds=1) as call:
            call.succeeded(RateLimits(closed_seconds=6.0))
        await enter(flow, 10)
        assert time.now >= 1006

    async def test_a_pause_of_days_ends_after_the_longest_one_with_a_single_call(self):
        time, leave = FakeTime(), asyncio.Event()
        flow = open_flow(8, time)
        for _ in range(2):
            # The probe is refused likewise, and the next one comes as late.
            since = time.now
            async with flow.passage(max_wait_seconds=1000) as call:
                call.throttled(86_400.0)
            assert time.now - since <= LONGEST_PAUSE_SECONDS + 1
        callers = [asyncio.create_task(hold(flow, leave, 1000)) for _ in range(6)]
        callers += [asyncio.create_task(enter(flow, 1000, lane="batch"))]
        since = time.now
        for _ in range(20):
            await turn()
        assert flow._in_flight == 1, "one is a probe, and the others wait for its outcome"
        assert time.now - since <= LONGEST_PAUSE_SECONDS + 1
        leave.set()
        await asyncio.gather(*callers)

    async def test_an_endpoint_that_serves_and_says_that_it_will_not_for_days_is_not_believed(self):
        time = FakeTime()
        flow = open_flow(1, time)
        async with flow.passage(max_wait_seconds=1) as call:
            call.succeeded(RateLimits(closed_seconds=86_400.0))
        await enter(flow)
        assert flow.figures().closed_seconds == 0
        assert time.slept == []

    async def test_an_operator_ends_a_pause(self):
        time = FakeTime()
        flow = open_flow(2, time)
        await close_for(flow, 300)
        with pytest.raises(JudgeUnavailable, match="`saiten reopen` ends the pause"):
            await enter(flow)
        assert (await flow.find_pause(), await flow.reopen()) == (300, 300)
        assert (await flow.find_pause(), await flow.reopen()) == (0, 0)
        await enter(flow)
        assert time.slept == []

    async def test_calls_that_wait_go_on_when_an_operator_ends_the_pause(self):
        flow = open_flow(2)
        await close_for(flow, 300)
        waiters = [asyncio.create_task(enter(flow, 1000)) for _ in range(4)]
        await turn()
        await flow.reopen()
        async with asyncio.timeout(LIMIT_SECONDS):
            await asyncio.gather(*waiters)

    async def test_work_may_be_refused_rather_than_sit_out_a_pause(self):
        flow = open_flow(2)
        await close_for(flow, 300)
        with pytest.raises(JudgeUnavailable, match=r"another 300 s, until \d\d:\d\d:\d\d UTC"):
            await enter(flow, math.inf, lane="batch", scope=RequestScope(longest_pause_seconds=20.0))

    async def test_who_goes_away_before_a_closed_gate_leaves_the_place(self):
        flow = open_flow(1)
        await close_for(flow, 5)
        waiter = asyncio.create_task(enter(flow))
        await turn()
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await turn()
        assert flow._dispatcher is None
        assert flow._in_flight == 0


class TestRefusedAccounts:
    async def test_those_who_wait_are_turned_away_and_later_ones_are_not(self):
        flow, leave = open_flow(1), asyncio.Event()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()
        waiters = [asyncio.create_task(enter(flow)) for _ in range(2)]
        await turn()
        flow.turn_away(JudgeUnauthorized(words("the account is closed"), said="words of the endpoint"))
        for waiter in waiters:
            with pytest.raises(JudgeUnauthorized) as caught:
                await waiter
            assert str(caught.value) == "the account is closed"
        leave.set()
        await holder
        await assert_free(flow, 1)

    async def test_who_was_let_through_but_has_not_called_is_turned_away_too(self):
        flow, leave = open_flow(1), asyncio.Event()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()
        waiter = asyncio.create_task(enter(flow))
        await turn()
        leave.set()
        await holder
        while not flow._in_flight:
            await asyncio.sleep(0)
        flow.turn_away(JudgeUnauthorized(words("the account is closed")))
        with pytest.raises(JudgeUnauthorized):
            await waiter
        await assert_free(flow, 1)

    async def test_what_belongs_to_work_begun_before_is_turned_away_and_what_is_begun_later_may_try(self):
        time = FakeTime()
        flow = open_flow(1, time)
        scope = RequestScope(begun_at=time.now)
        time.now += 1
        flow.turn_away(JudgeUnauthorized(closed := words("the account is closed"), said="あなたの秘密"))
        time.now += 1
        with pytest.raises(JudgeUnauthorized) as turned:
            async with flow.passage(lane="batch", max_wait_seconds=1, scope=scope):
                pytest.fail("it called")
        assert turned.value.message == closed  # which can be said in every language, without the endpoint's words
        await enter(flow, 1, scope=RequestScope(begun_at=time.now))
        await enter(flow, 1, lane="batch", scope=RequestScope(begun_at=time.now))
        await assert_free(flow, 1)

    async def test_once_a_later_call_has_succeeded_the_account_is_mended_for_all(self):
        time = FakeTime()
        flow = open_flow(2, time)
        leave = asyncio.Event()
        earlier = asyncio.create_task(hold(flow, leave))
        await turn()
        scope = RequestScope(begun_at=time.now)
        time.now += 1
        flow.turn_away(JudgeUnauthorized(words("the account is closed")))
        time.now += 1
        leave.set()
        await earlier  # was begun before, and says nothing of now
        with pytest.raises(JudgeUnauthorized):
            await enter(flow, 1, scope=scope)
        await enter(flow, 1, scope=RequestScope(begun_at=time.now))  # somebody else's
        await enter(flow, 1, scope=scope)


class TestRates:
    @pytest.mark.parametrize("configured", [True, False])
    async def test_calls_keep_to_the_rate_after_a_small_burst(self, configured: bool):
        time = FakeTime()
        flow = open_flow(100, time, **({"requests_per_minute": 600.0} if configured else {}))
        limits = RateLimits() if configured else RateLimits(requests_per_minute=600.0)
        begun: list[float] = []

        async def call() -> None:
            async with flow.passage(max_wait_seconds=60) as made:
                begun.append(time.now)
                await asyncio.sleep(0)
                made.succeeded(limits)

        await asyncio.gather(*(call() for _ in range(100)))
        assert begun == sorted(begun)
        for first, later in zip(begun, begun[20:], strict=False):
            assert later - first >= (20 - FIRST_CALLS) / 10 - 0.2, "20 calls take 2 s, less a burst"
        assert begun[-1] - begun[0] <= 10

    async def test_what_a_call_uses_is_learned(self):
        time = FakeTime()
        flow = open_flow(1, time, tokens_per_minute=60_000.0)
        for _ in range(100):
            async with flow.passage(tokens=1000, max_wait_seconds=60) as call:
                call.succeeded(tokens_used=500)
        started = time.now
        for _ in range(20):
            async with flow.passage(tokens=1000, max_wait_seconds=60) as call:
                assert call.waiter.reserved == pytest.approx(500, rel=0.05)
                call.succeeded(tokens_used=500)
        assert time.now - started == pytest.approx(10, rel=0.1)

    async def test_a_429_costs_no_tokens(self):
        time = FakeTime()
        flow = open_flow(1, time, tokens_per_minute=60.0)
        async with flow.passage(tokens=1000, max_wait_seconds=60) as call:
            call.throttled()
        await enter(flow, 60, tokens=1)
        assert time.now == 1000


class RecordingState:
    """Keeps what it is told, and admits everything at once while it is not closed."""

    def __init__(self, heartbeat_seconds: float | None = None, fail: bool = False) -> None:
        self.heartbeat_seconds = heartbeat_seconds
        self.reports: list[FlowReport] = []
        self.counts: list[int] = []
        self.closed = False
        self.told = asyncio.Event()
        self._fail = fail
        self._opens_at = 0.0

    async def exchange(self, report: FlowReport, demand: Demand) -> Grant:
        await asyncio.sleep(0)
        if self._fail:
            raise ZeroDivisionError
        self.reports.append(report)
        self.counts.append(demand.in_flight)
        if len(self.reports) >= 3:
            self.told.set()
        self._opens_at = max(self._opens_at, time.monotonic() + report.closed_seconds)
        closed = max(0.0, self._opens_at - time.monotonic())
        return Grant(0 if closed else len(demand.tokens), 100, closed_seconds=closed)

    async def reopen(self) -> None:
        self._opens_at = 0.0

    async def close(self) -> None:
        self.closed = True


class TestTheState:
    async def test_growth_costs_no_exchange_of_its_own(self):
        state = RecordingState()
        flow = FlowControl(state)
        for _ in range(3):
            await enter(flow)
        assert [report.successes for report in state.reports] == [0, 1, 1]

    async def test_a_429_is_told_at_once(self):
        state = RecordingState()
        flow = FlowControl(state)
        async with flow.passage(max_wait_seconds=1) as call:
            call.throttled(7.0, RateLimits(requests_per_minute=60.0))
        await turn()
        last = state.reports[-1]
        assert last.throttled_age_seconds is not None
        assert last.closed_seconds == pytest.approx(7, abs=1)
        assert last.requests_per_minute == 60

    async def test_a_pause_learned_during_an_exchange_holds_those_it_would_have_let_through(self):
        state = RecordingState()
        flow = FlowControl(state)
        leave = asyncio.Event()

        async def call() -> None:
            async with flow.passage(max_wait_seconds=10) as made:
                await leave.wait()
                made.throttled(5.0)

        caller = asyncio.create_task(call())
        await turn()
        late = asyncio.create_task(enter(flow, 9))
        await asyncio.sleep(0)
        leave.set()
        await caller
        await turn()
        assert not late.done()
        assert flow._in_flight == 0
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        await flow.close()

    async def test_a_process_with_a_long_call_stays_counted(self):
        state = RecordingState(heartbeat_seconds=0.01)
        flow = FlowControl(state)
        async with flow.passage(max_wait_seconds=1):
            await asyncio.wait_for(state.told.wait(), 30)
        await flow.close()
        assert state.closed

    async def test_the_others_are_told_of_places_that_come_free_where_nobody_waits(self):
        state = RecordingState(heartbeat_seconds=60.0)
        flow, leave = FlowControl(state), asyncio.Event()
        holders = [asyncio.create_task(hold(flow, leave)) for _ in range(4)]
        await turn()
        leave.set()
        await asyncio.gather(*holders)
        async with asyncio.timeout(LIMIT_SECONDS):
            while state.counts[-1] != 0 or len(state.counts) < 2:
                await asyncio.sleep(0.005)
        told = len(state.counts)
        await flow.close()
        assert told <= 3, "one exchange tells of them all"

    async def test_its_figures_are_those_of_now(self):
        time, leave = FakeTime(), asyncio.Event()
        flow = open_flow(2, time)
        await enter(flow)
        assert flow.figures() == FlowFigures(limit=2, in_flight=0, waiting=0, closed_seconds=0.0)
        callers = [asyncio.create_task(hold(flow, leave)) for _ in range(3)]
        await turn()
        assert flow.figures() == FlowFigures(limit=2, in_flight=2, waiting=1, closed_seconds=0.0)
        leave.set()
        await asyncio.gather(*callers)
        await close_for(flow, 30.0)
        time.now += 10
        assert flow.figures().closed_seconds == pytest.approx(20.0)

    async def test_a_state_that_breaks_leaves_nobody_waiting(self):
        with pytest.raises(ZeroDivisionError):
            await enter(FlowControl(RecordingState(fail=True)))


class TestProjects:
    async def test_projects_take_turns_however_many_calls_one_of_them_has_waiting(self):
        flow, leave, order = open_flow(2), asyncio.Event(), list[str]()
        held = [asyncio.create_task(hold(flow, leave)) for _ in range(2)]
        await turn()

        async def call(project: str) -> None:
            async with flow.passage(max_wait_seconds=10, scope=RequestScope(project=project)) as call:
                order.append(project)
                call.succeeded()

        calls = [asyncio.create_task(call(project)) for project in ["much"] * 40 + ["little"] * 3 + ["one"]]
        await turn()
        leave.set()
        await asyncio.gather(*held, *calls)
        assert set(order[:4]) == {"much", "little", "one"}
        assert order[:10].count("little") == 3
        assert order[10:] == ["much"] * 34

    async def test_one_project_does_not_have_every_place_of_many(self):
        flow, leave = open_flow(20), asyncio.Event()
        for _ in range(20):
            await enter(flow)
        much = [asyncio.create_task(hold(flow, leave, scope=RequestScope(project="much"))) for _ in range(60)]
        await turn()
        assert flow.figures().in_flight == 19
        await enter(flow, 1, scope=RequestScope(project="little"))
        little = [asyncio.create_task(hold(flow, leave, scope=RequestScope(project="little"))) for _ in range(2)]
        await turn()
        assert (flow.figures().in_flight, flow.figures().waiting) == (20, 42)
        leave.set()
        await asyncio.gather(*much, *little)
        assert flow.figures().in_flight == 0

    async def test_a_project_that_waits_again_has_its_turn_after_the_others(self):
        flow, leave, order = open_flow(1), asyncio.Event(), list[str]()
        holder = asyncio.create_task(hold(flow, leave))
        await turn()

        async def call(project: str, times: int) -> None:
            for _ in range(times):
                async with flow.passage(max_wait_seconds=10, scope=RequestScope(project=project)) as call:
                    order.append(project)
                    call.succeeded()

        calls = [asyncio.create_task(call("many", 1)) for _ in range(20)] + [asyncio.create_task(call("again", 5))]
        await turn()
        leave.set()
        await asyncio.gather(holder, *calls)
        # A caller that asks for one at a time gets every other place, or one in three where it comes a moment too late.
        assert order[:15].count("again") == 5
