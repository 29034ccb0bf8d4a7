"""Flow control in one process: who may call next, by lanes, places, rates and the pauses that the endpoint asks for."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.cancellation import cancel_for_good
from app.concurrency import within
from app.domain.errors import JudgeUnavailable, UpstreamError
from app.flow.call import Call, News, TokenRatio
from app.flow.errand import announce_call, begun_before
from app.flow.line import Line, Waiter, copy_refusal
from app.flow.local import LocalFlowState
from app.flow.state import FIRST_CALLS, Bounds, Demand, FlowState, Grant
from app.ports import FlowFigures
from app.providers.ports import Lane

HERD_SECONDS = 0.25
"""Callers that waited for the same moment leave within this time, not all at once."""
LONGEST_NAP_SECONDS = 1.0
"""Those who wait for a rate ask again after so long: others may have used less than they reserved."""
TELL_SECONDS = 0.05
"""So long after a call has ended the other processes are told, where no exchange has told them meanwhile."""


class FlowControl:
    """Lets calls through as the state admits them: interactive ones first, but for a minimum share of the batches, and
    within a lane in the order of coming.

    All of a process's calls to one endpoint with one key go through one of these. For the tasks of one event loop.
    """

    def __init__(
        self,
        state: FlowState,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._state = state
        self._clock = clock
        self._sleep = sleep
        self._line = Line()
        self._in_flight = 0
        self._places = FIRST_CALLS
        self._news = News()
        self._ratio = TokenRatio()
        self._opens_at = -math.inf
        self._herd_until = -math.inf
        self._refusal: UpstreamError | None = None
        self._refused_at = -math.inf
        self._usher: asyncio.Task[None] | None = None
        self._napping = False
        self._heartbeat: asyncio.TimerHandle | None = None
        self._counted = 0
        self._recount: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def passage(
        self, *, tokens: int = 0, lane: Lane = "interactive", patience_seconds: float
    ) -> AsyncIterator[Call]:
        """A turn for one call of about so many tokens.

        Raises JudgeUnavailable where all waiting together takes longer than the patience (`math.inf`: never), and what
        `turn_away` was given where that happens meanwhile, or has happened since the errand was begun and no call that
        was begun later has succeeded.
        """
        known = self._refusal
        if known is not None and begun_before(self._refused_at):
            raise copy_refusal(known)
        waiter = Waiter(lane, tokens, self._ratio.reserve(tokens), self._clock() + patience_seconds)
        await self._wait(waiter, patience_seconds)
        try:
            if self._refusal is not known and self._refusal is not None:
                raise copy_refusal(self._refusal)
            await announce_call()
            began_at = self._clock()
            yield Call(began_at, tokens, waiter.reserved, self._news, self._ratio, self._close_for)
            if began_at > self._refused_at:
                self._refusal = None  # the account has been mended
        finally:
            self._leave()

    def figures(self) -> FlowFigures:
        """How it stands now."""
        closed_seconds = max(0.0, self._opens_at - self._clock())
        return FlowFigures(self._places, self._in_flight, len(self._line), closed_seconds)

    def turn_away(self, refusal: UpstreamError) -> None:
        """Refuses all who wait now, and what else belongs to their errands: the account was refused, so would they be.
        What is begun later may try."""
        self._refusal = refusal
        self._refused_at = self._clock()
        for waiter in self._line:
            waiter.refuse(copy_refusal(refusal))

    async def close(self) -> None:
        """Leaves this process's share to the others."""
        for timer in filter(None, [self._heartbeat, self._recount]):
            timer.cancel()
        if self._usher is not None:
            await cancel_for_good([self._usher])
        await self._state.close()

    async def _wait(self, waiter: Waiter, patience_seconds: float) -> None:
        self._line.join(waiter)
        waiter.heed_closing(self._opens_at, self._clock())
        self._call_usher()
        try:
            async with within(patience_seconds):
                await waiter.turn
        except TimeoutError:
            self._give_back(waiter)
            raise JudgeUnavailable(
                f"the judge is busy: no place within {patience_seconds:.3g} s; try again, or raise its concurrency",
                # Nobody knows when a place comes free; who waited so long in vain need not hurry.
                retry_after_seconds=max(1.0, patience_seconds),
            ) from None
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise
        finally:
            self._line.leave(waiter)
            self._dismiss_usher()

    def _give_back(self, waiter: Waiter) -> None:
        """Of a place that was given in the very moment in which the waiter went away."""
        if waiter.admitted:
            self._leave()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._call_usher()
        self._set_recount()

    def _close_for(self, seconds: float) -> None:
        """Keeps everybody out for that long. A shorter time never cuts a longer one."""
        now = self._clock()
        if now + seconds > self._opens_at:
            self._opens_at = now + seconds
            for waiter in self._line:
                waiter.heed_closing(self._opens_at, now)

    # The usher: a task that lets waiters through, and lives only while there is something to do.

    def _next(self) -> tuple[list[Waiter], int]:
        return self._line.next(self._places + self._news.successes, self._in_flight)

    def _has_work(self) -> bool:
        return self._news.urgent or bool(self._next()[0])

    def _call_usher(self) -> None:
        if self._usher is None:
            if self._has_work():
                self._usher = asyncio.create_task(self._let_through())
                self._usher.add_done_callback(self._end_usher)
        elif self._napping and self._news.urgent:
            # What it naps for is out of date; another takes its place.
            self._usher.cancel()

    def _dismiss_usher(self) -> None:
        if self._usher is not None and self._napping and not len(self._line):
            self._usher.cancel()

    def _end_usher(self, usher: asyncio.Task[None]) -> None:
        self._usher = None
        error = None if usher.cancelled() else usher.exception()
        if error is None:
            self._call_usher()
            return
        for waiter in self._line:
            waiter.refuse(error)

    async def _let_through(self) -> None:
        while self._has_work():
            now = self._clock()
            closed = self._opens_at - now
            if closed > 0 and not self._news.urgent:
                await self._nap(closed + random.uniform(0, HERD_SECONDS))  # noqa: S311 - spreads load, keeps no secret
                self._herd_until = self._clock() + HERD_SECONDS
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

    async def _exchange(self, wanted: list[Waiter], first: int) -> Grant:
        report = self._news.take(self._clock(), self._opens_at)
        demand = Demand(
            tokens=tuple(waiter.reserved for waiter in wanted),
            interactive=first,
            in_flight=self._in_flight,
        )
        grant = await self._state.exchange(report, demand)
        self._places = grant.places
        self._counted = demand.in_flight + grant.admitted
        if grant.closed_seconds > 0:
            self._close_for(grant.closed_seconds)
        return grant

    def _admit(self, waiters: list[Waiter]) -> None:
        if self._opens_at > self._clock():
            # Closed while the exchange was under way: they wait on.
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
        seconds = self._state.heartbeat_seconds
        if seconds is not None:
            self._heartbeat = asyncio.get_running_loop().call_later(seconds, self._beat)

    def _beat(self) -> None:
        """Makes an exchange while calls are under way, so that their places stay counted."""
        self._heartbeat = None
        if self._in_flight:
            self._news.urgent = True
            self._set_heartbeat()
            self._call_usher()

    def _set_recount(self) -> None:
        """Sees to it that the others learn of places that came free here and that nobody here waits for."""
        shared = self._state.heartbeat_seconds is not None
        if shared and self._recount is None and self._in_flight < self._counted:
            self._recount = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_count)

    def _tell_count(self) -> None:
        self._recount = None
        if self._in_flight < self._counted:
            self._news.urgent = True
            self._call_usher()


def open_local_flow(
    bounds: Bounds,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> FlowControl:
    """Flow control that shares with no other process."""
    return FlowControl(LocalFlowState(bounds, clock=clock), clock=clock, sleep=sleep)
