"""Flow control in one process: admits calls by lane, places, rate limits and the pauses that the endpoint requests, in
`Retry-After` (RFC 9110, 10.2.3) too.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain, islice

from saiten.core.messages import Message
from saiten_server.core.errors import JudgeUnavailable, UpstreamError
from saiten_server.platform.flow_state import (
    CALLS_A_BATCH_CALL,
    FIRST_CALLS,
    LONGEST_PAUSE_SECONDS,
    Demand,
    FlowLimits,
    FlowReport,
    FlowState,
    Grant,
    LocalFlowState,
    batch_places,
)
from saiten_server.platform.tasks import cancel_for_good, within
from saiten_server.platform.telemetry import FlowFigures
from saiten_server.providers.ports import Lane, RequestScope

RATIO_WEIGHT = 0.1  # Weight of the latest reply in the running ratio of tokens used to tokens expected
LEAST_RATIO, GREATEST_RATIO = 0.05, 20.0


@dataclass(frozen=True)
class RateLimits:
    """The endpoint's limits as a reply stated them; None if it did not. `closed_seconds` is above 0 if the limit is
    exhausted for that long."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    closed_seconds: float = 0.0


NO_LIMITS = RateLimits()

FEWEST_WITH_SHARES = 16
"""Places of a process of which one is left to another project than the one that has all others."""


@dataclass
class FlowUpdate:
    """What a process has observed since its last exchange. `urgent`: other processes must know it before they call."""

    successes: int = 0
    tokens: int = 0
    throttled_since: float = -math.inf
    opens_at: float = -math.inf
    probing: bool = False
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    urgent: bool = False

    def report(self, now: float) -> FlowReport:
        """The observations for the other processes."""
        return FlowReport(
            successes=self.successes,
            throttled_age_seconds=None if math.isinf(self.throttled_since) else now - self.throttled_since,
            closed_seconds=max(0.0, self.opens_at - now),
            probing=self.probing,
            tokens=self.tokens,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
        )


@dataclass(frozen=True)
class CallInFlight:
    """A call in flight since `began_at`. Report its outcome once; errors unrelated to limits need no report."""

    began_at: float
    waiter: Waiter
    flow: FlowControl

    def succeeded(self, limits: RateLimits = NO_LIMITS, tokens_used: int = 0) -> None:
        """`tokens_used` counts prompt and reply together, 0 if the endpoint does not say."""
        self.flow.update.successes += 1
        if tokens_used > 0:
            self.flow.update.tokens += tokens_used - self.waiter.reserved
            latest = min(GREATEST_RATIO, max(LEAST_RATIO, tokens_used / max(1, self.waiter.expected)))
            self.flow.ratio += RATIO_WEIGHT * (latest - self.flow.ratio)
        self._learn(limits)
        # An endpoint that serves, and says that it will not for hours, is not believed at all.
        if limits.closed_seconds <= self.flow.longest_pause_seconds:
            self.flow.close_for(limits.closed_seconds)

    def throttled(self, retry_after_seconds: float | None = None, limits: RateLimits = NO_LIMITS) -> None:
        """The endpoint answered with 429, for which it counts no tokens."""
        update = self.flow.update
        update.throttled_since = max(self.began_at, update.throttled_since)
        update.tokens -= self.waiter.reserved
        update.urgent = True
        self.put_off(retry_after_seconds or 0.0, limits)

    def put_off(self, retry_after_seconds: float, limits: RateLimits = NO_LIMITS) -> None:
        """The endpoint refused the call, stated its limits, and asked for a pause if that is above 0."""
        self._learn(limits)
        self.flow.close_for(max(retry_after_seconds, limits.closed_seconds))

    def _learn(self, limits: RateLimits) -> None:
        update = self.flow.update
        update.requests_per_minute = limits.requests_per_minute or update.requests_per_minute
        update.tokens_per_minute = limits.tokens_per_minute or update.tokens_per_minute


@dataclass(eq=False)
class Waiter:
    """A waiting call: its estimated and its reserved tokens, until when it waits for the end of a pause, by flow
    control's clock, and the project that it is for."""

    lane: Lane
    expected: int
    reserved: int
    ends_at: float
    project: str = ""
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def admitted(self) -> bool:
        return self.turn.done() and not self.turn.cancelled() and self.turn.exception() is None

    def refuse(self, error: BaseException) -> None:
        if not self.turn.done():
            self.turn.set_exception(error)

    def refuse_if_closed(self, opens_at: float, now: float) -> None:
        """Refuses the call at once if no call may be made before it would stop waiting."""
        if now < opens_at and self.ends_at < opens_at:
            seconds = opens_at - now
            moment = datetime.now(UTC) + timedelta(seconds=seconds)
            detail = Message("judge-resting", seconds=seconds, until=f"{moment:%H:%M:%S}")
            self.refuse(JudgeUnavailable(detail, retry_after_seconds=seconds))


class TurnTaking:
    """The waiting calls of one lane. Projects take turns, and a project's calls are in order of arrival: however many
    calls one project has waiting, the next call of another one is not far behind."""

    def __init__(self) -> None:
        self._projects: OrderedDict[str, OrderedDict[Waiter, None]] = OrderedDict()
        """By project, in the order of their turns."""

    def __len__(self) -> int:
        return sum(map(len, self._projects.values()))

    def __iter__(self) -> Iterator[Waiter]:
        """The calls in the order in which they are to be admitted."""
        left = [iter(waiters) for waiters in self._projects.values()]
        while left:
            going = []
            for waiters in left:
                if (waiter := next(waiters, None)) is not None:
                    going.append(waiters)
                    yield waiter
            left = going

    @property
    def is_named(self) -> bool:
        """Whether a call waits that is for a project."""
        return any(self._projects)

    def firsts(self) -> Iterator[Waiter]:
        """The first call of each project."""
        for waiters in self._projects.values():
            waiter = next((waiter for waiter in waiters if not waiter.turn.done()), None)
            if waiter is not None:
                yield waiter

    def add(self, waiter: Waiter) -> None:
        self._projects.setdefault(waiter.project, OrderedDict())[waiter] = None

    def remove(self, waiter: Waiter, *, admitted: bool = False) -> None:
        """Removes a call, if it is there. If it was admitted, its project had its turn."""
        waiters = self._projects.get(waiter.project)
        if waiters is None or waiter not in waiters:
            return
        del waiters[waiter]
        if not waiters:
            del self._projects[waiter.project]
        elif admitted:
            self._projects.move_to_end(waiter.project)


class CallQueue:
    """Waiting calls. Interactive calls go first, except for the batches' minimum share: while both wait, every tenth
    call is a batch's."""

    def __init__(self) -> None:
        self._interactive = TurnTaking()
        self._batch = TurnTaking()
        self._passed = 0
        """Interactive calls admitted since the last batch call, while a batch call waited."""
        self.in_flight: Counter[str] = Counter()
        """Interactive calls in flight, by project."""

    def __len__(self) -> int:
        return len(self._interactive) + len(self._batch)

    def __iter__(self) -> Iterator[Waiter]:
        return chain(self._interactive, self._batch)

    def lane_of(self, waiter: Waiter) -> TurnTaking:
        return self._interactive if waiter.lane == "interactive" else self._batch

    def admit(self, waiter: Waiter) -> None:
        """Removes an admitted call."""
        self.lane_of(waiter).remove(waiter, admitted=True)
        if waiter.lane == "interactive":
            self.in_flight[waiter.project] += 1
        self._passed = self._passed + 1 if waiter.lane == "interactive" and self._batch else 0

    def leave(self, waiter: Waiter) -> None:
        """An admitted call has ended."""
        if waiter.lane == "interactive":
            self.in_flight[waiter.project] -= 1
            if not self.in_flight[waiter.project]:
                del self.in_flight[waiter.project]

    def next(self, places: int, in_flight: int, granted: int) -> tuple[list[Waiter], int]:
        """The calls for which there is a place, in order, and how many of the first ones may use every place. `granted`
        is how many places the process was last granted: of many, the last are left to projects without a call in
        flight."""
        # Those that still wait, neither refused nor cancelled.
        interactive = (waiter for waiter in self._interactive if not waiter.turn.done())
        batch = (waiter for waiter in self._batch if not waiter.turn.done())
        first: list[Waiter] = []
        passed = self._passed
        divides = granted >= FEWEST_WITH_SHARES and self._interactive.is_named
        shared = batch_places(granted) if divides else places
        has_calls = set(self.in_flight)
        while len(first) < places - in_flight:
            due = next(batch, None) if passed >= CALLS_A_BATCH_CALL - 1 else None
            if due is None and in_flight + len(first) >= shared:
                interactive = (waiter for waiter in self._interactive.firsts() if waiter.project not in has_calls)
            waiter = due or next(interactive, None)
            if waiter is None:
                break
            has_calls.add(waiter.project)
            passed = 0 if due else passed + 1
            first.append(waiter)
        free = batch_places(places) - in_flight - len(first)
        return [*first, *islice(batch, max(0, free))], len(first)


def copy_refusal(refusal: UpstreamError) -> UpstreamError:
    """The same error for another caller, without the endpoint's words about someone else's dialogue."""
    return type(refusal)(refusal.fault)


HERD_SECONDS = 0.25  # Calls that waited for the same moment are spread over this time
# Calls that wait for a rate limit ask again after this time: others may have used less than they reserved
LONGEST_NAP_SECONDS = 1.0
# While a pause lasts, calls that wait for its end look so often whether an operator has ended it in another process
LOOK_SECONDS = 5.0
TELL_SECONDS = 0.05  # Time after which other processes learn of a call that ended, unless an exchange happens before


class FlowControl:
    """Admits calls as the state allows: interactive ones first, except for the batches' minimum share. Within a lane
    projects take turns, and a project's calls are in order of arrival. All calls of a process to one endpoint with one
    key go through one of these. A longer pause than `longest_pause_seconds` is not believed: after that time one call
    is made, and the others wait for its outcome. For the tasks of one event loop."""

    def __init__(
        self,
        state: FlowState,
        *,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._state = state
        self.longest_pause_seconds = longest_pause_seconds
        self._clock = clock
        self._sleep = sleep
        self._line = CallQueue()
        self._in_flight = 0
        self._places = FIRST_CALLS
        self.update = FlowUpdate()
        self.ratio = 1.0
        """The running ratio of tokens used to tokens expected."""
        self._opens_at = -math.inf
        self._herd_until = -math.inf
        self._refusal: UpstreamError | None = None
        self._refused_at = -math.inf
        self._dispatcher: asyncio.Task[None] | None = None
        self._napping = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._counted = 0
        self._recount: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def passage(
        self,
        *,
        tokens: int = 0,
        lane: Lane = "interactive",
        max_wait_seconds: float,
        scope: RequestScope | None = None,
    ) -> AsyncIterator[CallInFlight]:
        """Waits for the turn of a call of about this many tokens. Raises JudgeUnavailable if the wait takes longer than
        `max_wait_seconds` (`math.inf` for no limit), or a pause is longer than the scope waits for one. Raises the
        refusal passed to `turn_away` if that happens meanwhile, or has happened since the work of `scope` began and no
        later call has succeeded."""
        scope = scope or RequestScope()
        known = self._refusal
        if known is not None and scope.begun_at <= self._refused_at:
            raise copy_refusal(known)
        reserved = max(1, round(tokens * self.ratio))
        patience_seconds = min(max_wait_seconds, scope.longest_pause_seconds)
        waiter = Waiter(lane, tokens, reserved, self._clock() + patience_seconds, scope.project)
        await self._wait(waiter, max_wait_seconds)
        try:
            if self._refusal is not known and self._refusal is not None:
                raise copy_refusal(self._refusal)
            if scope.announce is not None:
                await scope.announce()
            began_at = self._clock()
            yield CallInFlight(began_at, waiter, self)
            if began_at > self._refused_at:
                self._refusal = None  # the account works again
        finally:
            self._leave(waiter)

    def figures(self) -> FlowFigures:
        """The current figures."""
        closed_seconds = max(0.0, self._opens_at - self._clock())
        return FlowFigures(self._places, self._in_flight, len(self._line), closed_seconds)

    def turn_away(self, refusal: UpstreamError) -> None:
        """Refuses all waiting calls and later calls of the same work, because the account was refused. Work that begins
        later may try again."""
        self._refusal = refusal
        self._refused_at = self._clock()
        for waiter in self._line:
            waiter.refuse(copy_refusal(refusal))

    async def reopen(self) -> float:
        """Ends the pause, in all processes that share the state. Returns how many seconds of it were left."""
        await self._look()
        left = max(0.0, self._opens_at - self._clock())
        await self._state.reopen()
        await self._look()
        if self._dispatcher is not None and self._napping:
            # It sleeps until the end of the pause.
            self._dispatcher.cancel()
        self._start_dispatcher()
        return left

    async def find_pause(self) -> float:
        """For how many seconds no call may be made, in any process that shares the state."""
        await self._look()
        return self.figures().closed_seconds

    async def close(self) -> None:
        """Gives this process's share to the others."""
        for timer in filter(None, [self._heartbeat, self._recount]):
            timer.cancel()
        if self._dispatcher is not None:
            await cancel_for_good([self._dispatcher])
        await self._state.close()

    async def _wait(self, waiter: Waiter, max_wait_seconds: float) -> None:
        self._line.lane_of(waiter).add(waiter)
        if waiter.ends_at < self._opens_at:
            # It is refused unless an operator has ended the pause meanwhile.
            self.update.urgent = True
        self._start_dispatcher()
        try:
            async with within(max_wait_seconds):
                await waiter.turn
        except TimeoutError:
            self._give_back(waiter)
            raise JudgeUnavailable(
                Message("judge-busy", seconds=max_wait_seconds),
                # When a place becomes free is unknown; after waiting this long there is no hurry.
                retry_after_seconds=max(1.0, max_wait_seconds),
            ) from None
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise
        finally:
            self._line.lane_of(waiter).remove(waiter)
            if self._dispatcher is not None and self._napping and not len(self._line):
                self._dispatcher.cancel()

    def _give_back(self, waiter: Waiter) -> None:
        """Releases the place if the call was admitted just as it stopped waiting."""
        if waiter.admitted:
            self._leave(waiter)

    def _leave(self, waiter: Waiter) -> None:
        self._in_flight -= 1
        self._line.leave(waiter)
        self._start_dispatcher()
        self._set_recount()

    def close_for(self, seconds: float) -> None:
        """Admits no calls for that long, but no longer than is believed. A shorter pause does not end a longer one."""
        if seconds <= 0:
            return
        now, update = self._clock(), self.update
        update.urgent = True
        update.probing = update.probing or seconds > self.longest_pause_seconds
        update.opens_at = max(update.opens_at, now + min(seconds, self.longest_pause_seconds))
        self._open_at(max(self._opens_at, update.opens_at), now)

    def _open_at(self, opens_at: float, now: float) -> None:
        if self._opens_at > now >= opens_at:
            self._herd_until = now + HERD_SECONDS
        self._opens_at = opens_at
        for waiter in self._line:
            waiter.refuse_if_closed(opens_at, now)

    # The dispatcher is a task that admits waiting calls, and exists only while there is something to do.

    def _next(self) -> tuple[list[Waiter], int]:
        return self._line.next(self._places + self.update.successes, self._in_flight, self._places)

    def _has_work(self) -> bool:
        return self.update.urgent or bool(self._next()[0])

    def _start_dispatcher(self) -> None:
        if self._dispatcher is None:
            if self._has_work():
                self._dispatcher = asyncio.create_task(self._let_through())
                self._dispatcher.add_done_callback(self._end_dispatcher)
        elif self._napping and self.update.urgent:
            # The reason for its nap is out of date; a new dispatcher takes over.
            self._dispatcher.cancel()

    def _end_dispatcher(self, dispatcher: asyncio.Task[None]) -> None:
        self._dispatcher = None
        if dispatcher.cancelled() or (error := dispatcher.exception()) is None:
            self._start_dispatcher()
            return
        for waiter in self._line:
            waiter.refuse(error)

    async def _let_through(self) -> None:
        while self._has_work():
            now = self._clock()
            closed = self._opens_at - now
            if closed > 0 and not self.update.urgent:
                await self._sleep_closed(closed)
                continue
            herding = now < self._herd_until
            wanted, first = self._next()
            if herding:
                wanted = wanted[:1]
            grant = await self._exchange(wanted, min(first, len(wanted)))
            self._admit(wanted[: grant.admitted])
            self._set_recount()
            if grant.wait_seconds is not None and not grant.closed_seconds:
                await self._nap(min(LONGEST_NAP_SECONDS, grant.wait_seconds))
            elif herding and self._has_work():
                await self._nap(HERD_SECONDS / self._places)

    async def _sleep_closed(self, seconds: float) -> None:
        """Waits for the end of the pause, or until it is time to look whether it still lasts."""
        if self._state.heartbeat_seconds is not None and seconds > LOOK_SECONDS:
            await self._nap(LOOK_SECONDS)
            self.update.urgent = True
        else:
            await self._nap(seconds + random.uniform(0, HERD_SECONDS))  # noqa: S311 - spreads load, keeps no secret
            self._herd_until = self._clock() + HERD_SECONDS

    async def _look(self) -> None:
        """An exchange without waiting calls."""
        await self._exchange([], 0)

    async def _exchange(self, wanted: list[Waiter], first: int) -> Grant:
        report = self.update.report(self._clock())
        self.update = FlowUpdate()
        demand = Demand(tuple(waiter.reserved for waiter in wanted), first, self._in_flight)
        grant = await self._state.exchange(report, demand)
        self._places = grant.places
        self._counted = demand.in_flight + grant.admitted
        now = self._clock()
        told = now + grant.closed_seconds if grant.closed_seconds > 0 else -math.inf
        # The state knows best, but for what was learned during the exchange.
        self._open_at(max(told, self.update.opens_at), now)
        return grant

    def _admit(self, waiters: list[Waiter]) -> None:
        if self._opens_at > self._clock():
            # Closed during the exchange: the calls keep waiting.
            return
        for waiter in waiters:
            if not waiter.turn.done():
                self._line.admit(waiter)
                self._in_flight += 1
                waiter.turn.set_result(None)
        if waiters and self._heartbeat is None:
            self._set_heartbeat()

    async def _nap(self, seconds: float) -> None:
        self._napping = True
        try:
            await self._sleep(seconds)
        finally:
            self._napping = False

    def _set_heartbeat(self) -> None:
        if (seconds := self._state.heartbeat_seconds) is not None:
            self._heartbeat = asyncio.get_running_loop().call_later(seconds, self._beat)

    def _beat(self) -> None:
        """Makes an exchange while calls are in flight, so that their places stay counted."""
        self._heartbeat = None
        if self._in_flight:
            self.update.urgent = True
            self._set_heartbeat()
            self._start_dispatcher()

    def _set_recount(self) -> None:
        """Schedules an exchange that reports places which became free here and which no call here needs."""
        shared = self._state.heartbeat_seconds is not None
        if shared and self._recount is None and self._in_flight < self._counted:
            self._recount = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_count)

    def _tell_count(self) -> None:
        self._recount = None
        if self._in_flight < self._counted:
            self.update.urgent = True
            self._start_dispatcher()


def open_local_flow(
    bounds: FlowLimits,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> FlowControl:
    """Flow control for this process alone."""
    return FlowControl(
        LocalFlowState(bounds, clock=clock),
        longest_pause_seconds=bounds.longest_pause_seconds,
        clock=clock,
        sleep=sleep,
    )


LONGEST_SECONDS = 24 * 3600.0
"""The longest delay that is respected. More than a day is taken for an error of the server's clock."""

LONGEST_CHARACTERS = 64
"""No delay needs more. A header of more is not read."""

HEADER_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def read_retry_after(written: str | None, now: datetime) -> float | None:
    """The delay in seconds, from 0 to one day, for a number or an HTTP date; None if absent or invalid."""
    if written is None or len(written) > LONGEST_CHARACTERS:
        return None
    if HEADER_NUMBER.fullmatch(written.strip()):
        return min(LONGEST_SECONDS, float(written))
    try:
        moment = parsedate_to_datetime(written)
    except (ValueError, OverflowError):
        return None
    # An HTTP date is in UTC, whatever its zone is called.
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(LONGEST_SECONDS, max(0.0, (zoned - now).total_seconds()))
