"""The call cache around an outside call: one call a question, however many ask it, and none that was asked before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.providers.ports import RequestScope
from app.runtime.ports import CallCache, Telemetry, Turn

Make = Callable[[], Awaitable[bytes]]
Accept = Callable[[bytes], bool]

SHORTEST_POLL_SECONDS = 0.01
LONGEST_POLL_SECONDS = 0.1
POLL_GROWTH = 1.5


@dataclass
class Flight:
    """A look-up under way: how many wait for it, and whether one of them has been given the bill."""

    task: asyncio.Task[tuple[bytes, bool]]
    waiting: int = 0
    billed: bool = False


class CachedCalls:
    """Fetches replies by the digest of everything that was sent. For the tasks of one event loop.

    `max_wait_seconds` is how long a call that another process makes is waited for. Then it is made here as well: the
    other may be held up by something that does not hold up this one, such as a batch's share of the rate limit.
    """

    def __init__(self, cache: CallCache, telemetry: Telemetry, *, max_wait_seconds: float = 30.0) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._max_wait_seconds = max_wait_seconds
        self._flights: dict[str, Flight] = {}

    async def fetch(self, call: str, key: str, make: Make, accept: Accept, scope: RequestScope) -> tuple[bytes, bool]:
        """The reply, and whether it came without an outside call: of those who share a call, one is told it was made.

        `call` names the kind of call for telemetry. `accept` tells a sound reply: an entry that it refuses counts as a
        miss, and a fresh reply that it refuses is returned but not kept. Callers that ask for a key that is being
        fetched wait for that one call and share its reply or its error. The call is cancelled once no caller waits any
        more, and only then: a caller that goes away takes nothing from the others. Among processes only a reply is
        shared: where the call fails, others that wait elsewhere make it anew. `scope` is given the key, unless it
        bypasses the cache.
        """
        near = self.recall(call, key, accept, scope)
        return (near, True) if near is not None else await self.obtain(call, key, make, accept, scope)

    def recall(self, call: str, key: str, accept: Accept, scope: RequestScope) -> bytes | None:
        """The first half of `fetch`: the reply where it can be had without waiting."""
        if scope.bypass_cache:
            return None
        scope.note_key(key)
        near = self._cache.peek(key)
        if near is None or not accept(near):
            return None
        self._telemetry.cache(call, "hit")
        return near

    async def obtain(self, call: str, key: str, make: Make, accept: Accept, scope: RequestScope) -> tuple[bytes, bool]:
        """The second half: what `fetch` does where `recall` gives nothing."""
        if scope.bypass_cache:
            return await make(), False
        flight = self._flights.get(key)
        if flight is None:
            flight = Flight(asyncio.create_task(self._look_up(call, key, make, accept)))
            flight.task.add_done_callback(retrieve_error)
            self._flights[key] = flight
        flight.waiting += 1
        try:
            reply, hit = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if flight.task.done() or not flight.waiting:
                self._land(key, flight)
        if flight.billed:
            self._telemetry.cache(call, "hit")
            return reply, True
        flight.billed = True
        return reply, hit

    async def _look_up(self, call: str, key: str, make: Make, accept: Accept) -> tuple[bytes, bool]:
        kept = await self._find(key, accept)
        if kept is not None:
            self._telemetry.cache(call, "hit")
            return kept, True
        self._telemetry.cache(call, "miss")
        sound = False
        try:
            reply = await make()
            sound = accept(reply)
        finally:
            if not sound:
                await self._cache.leave(key)
        if sound:
            await self._cache.put(key, reply)
        return reply, False

    async def _find(self, key: str, accept: Accept) -> bytes | None:
        """A sound reply that is kept, or that another process is making; None: the call is to be made here."""
        refused: bytes | None = None
        ends_at, pause = asyncio.get_running_loop().time() + self._max_wait_seconds, SHORTEST_POLL_SECONDS
        while (found := await self._cache.claim(key, refused)) is not Turn.CALL:
            if isinstance(found, bytes):
                if accept(found):
                    return found
                refused = found
                continue
            if asyncio.get_running_loop().time() >= ends_at:
                break
            await asyncio.sleep(pause)
            pause = min(pause * POLL_GROWTH, LONGEST_POLL_SECONDS)
        return None

    def _land(self, key: str, flight: Flight) -> None:
        """Takes the flight off the list, so that a later caller starts anew, and ends it if it still runs."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        flight.task.cancel()


def retrieve_error(task: asyncio.Task[tuple[bytes, bool]]) -> None:
    """Marks the error of a call that no caller waited for as seen, or asyncio would complain about it later."""
    if not task.cancelled():
        task.exception()
