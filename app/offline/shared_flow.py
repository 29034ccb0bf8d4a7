"""Flow control of several processes whose state one of them keeps, as an actor of an engine does.

The same rules as of the processes that share Redis (`app/platform/redis/flow.lua`): each has its share of the calls in
flight, and what of it others leave; rates, pauses and the limit that adapts are those of all.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from saiten_server.platform.flow_state import Demand, FlowLimits, FlowReport, Grant, LocalFlowState, batch_places

LIVE_SECONDS = 10.0
"""A process that made no exchange for so long has no share any more, and its calls are forgotten."""

HEARTBEAT_SECONDS = 3.0
LONGEST_TURN_SECONDS = 0.5
"""The longest wait for a rate that others wait for too."""

ASK_AGAIN_SECONDS = 0.02
"""When to ask again where the others have all the calls in flight."""


@dataclass
class Process:
    """One of the processes: when it was seen, how many calls it has in flight, and since when it waits for a place with
    none, None if it does not; `paced` if it waits for a rate."""

    seen: float
    calls: int = 0
    waits_since: float | None = None
    paced: bool = False


class FlowLedger:
    """What all processes know of one endpoint and key. For one event loop."""

    def __init__(self, bounds: FlowLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state = LocalFlowState(bounds, clock=clock)
        self._processes: dict[str, Process] = {}

    async def exchange(self, name: str, report: FlowReport, demand: Demand) -> Grant:
        """An exchange of the process `name`, as of `FlowState`."""
        now = self._clock()
        self._forget(now)
        own = self._processes.setdefault(name, Process(now))
        own.seen = now
        others = [one for other, one in self._processes.items() if other != name]
        theirs = sum(one.calls for one in others)
        # Those that wait longer go first, or who has calls in flight would take each place that comes free.
        since = own.waits_since if own.waits_since is not None else now
        ahead = sum(1 for one in others if one.waits_since is not None and one.waits_since < since)
        everyone = await self._state.exchange(report, replace(demand, tokens=(), in_flight=0))
        share = -(-everyone.places // len(self._processes))
        free = batch_places(everyone.places) - theirs - ahead
        room = max(0, min(share, free) - demand.in_flight)
        asked = demand.tokens[:room]
        grant = await self._state.exchange(
            FlowReport(), replace(demand, tokens=asked, in_flight=demand.in_flight + theirs)
        )
        own.calls = demand.in_flight + grant.admitted
        own.waits_since = None
        places, wait = share, grant.wait_seconds
        if grant.admitted < len(demand.tokens) and wait is None:
            # The others have the rest.
            if own.calls == 0:
                wait, own.waits_since = ASK_AGAIN_SECONDS, since
            else:
                places = min(share, own.calls)
        closed_seconds = max(everyone.closed_seconds, grant.closed_seconds)
        own.paced = grant.wait_seconds is not None and not closed_seconds
        if own.paced and wait is not None:
            # The next call that the rate allows may be any of theirs: all asking for it would keep the ledger busy.
            wait = min(LONGEST_TURN_SECONDS, wait * max(1.0, sum(one.paced for one in self._processes.values()) / 2))
        return Grant(grant.admitted, max(1, places), wait, closed_seconds)

    async def reopen(self) -> None:
        """Ends the pause."""
        await self._state.reopen()

    async def leave(self, name: str) -> None:
        """Gives the process's share to the others."""
        self._processes.pop(name, None)

    def _forget(self, now: float) -> None:
        for name, one in [*self._processes.items()]:
            if now - one.seen > LIVE_SECONDS:
                del self._processes[name]


class SharedFlowState:
    """`FlowState` of one of several processes. `ask` sends an exchange to the ledger; where that fails, the process
    goes on by itself, with what the limits allow one process of `processes`."""

    heartbeat_seconds: float | None = HEARTBEAT_SECONDS

    def __init__(
        self,
        ask: Callable[[FlowReport, Demand], Awaitable[Grant]],
        bounds: FlowLimits,
        *,
        leave: Callable[[], Awaitable[None]],
        reopen: Callable[[], Awaitable[None]],
        processes: int = 1,
        failures: tuple[type[BaseException], ...] = (OSError,),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask, self._leave, self._reopen = ask, leave, reopen
        self._failures = failures
        self._alone = LocalFlowState(divide(bounds, processes), clock=clock)

    async def exchange(self, report: FlowReport, demand: Demand) -> Grant:
        try:
            return await self._ask(report, demand)
        except self._failures:
            return await self._alone.exchange(report, demand)

    async def reopen(self) -> None:
        await self._alone.reopen()
        try:
            await self._reopen()
        except self._failures:
            return

    async def close(self) -> None:
        try:
            await self._leave()
        except self._failures:
            return


def divide(bounds: FlowLimits, processes: int) -> FlowLimits:
    """The limits of one of so many processes."""
    calls, tokens = bounds.requests_per_minute, bounds.tokens_per_minute
    return replace(
        bounds,
        concurrency=max(1, bounds.concurrency // processes),
        requests_per_minute=None if calls is None else calls / processes,
        tokens_per_minute=None if tokens is None else tokens / processes,
    )
