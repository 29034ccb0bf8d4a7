"""Caches outside calls: concurrent callers of a key share one call, and a cached reply needs none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from saiten_server.platform.memory_cache import CallCache, Caller
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.ports import RequestScope

Make = Callable[[], Awaitable[bytes]]
Accept = Callable[[bytes], bool]

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS, POLL_GROWTH = 0.01, 0.1, 1.5


@dataclass
class Flight:
    """A lookup in progress: how many callers wait for it, and whether one of them was charged for the call."""

    task: asyncio.Task[tuple[bytes, bool]]
    waiting: int = 0
    billed: bool = False


class CachedCalls:
    """Fetches replies by the digest of everything that was sent. For the tasks of one event loop. `max_wait_seconds`
    limits the wait for a call that another process is making. After that, this process makes the call too, because the
    other may be held up by something else, such as a batch's share of the rate limit."""

    def __init__(self, cache: CallCache, telemetry: Telemetry, *, max_wait_seconds: float = 30.0) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._max_wait_seconds = max_wait_seconds
        self._flights: dict[str, Flight] = {}

    async def fetch(self, call: str, key: str, make: Make, accept: Accept, scope: RequestScope) -> tuple[bytes, bool]:
        """The reply, and whether it came without an outside call; of the callers that share a call, one gets False.

        `call` names the kind of call for telemetry. `accept` recognises a valid reply: an entry that it rejects counts
        as a miss, and a new reply that it rejects is returned but not cached. Callers of a key that is being fetched
        share that call's reply or error, and the call is cancelled only once none of them waits any longer. Processes
        share only replies: if a call fails, a process that waits for it makes it again. `scope` collects the key,
        unless it bypasses the cache."""
        near = self.recall(call, key, accept, scope)
        return (near, True) if near is not None else await self.obtain(call, key, make, accept, scope)

    def recall(self, call: str, key: str, accept: Accept, scope: RequestScope) -> bytes | None:
        """The first half of `fetch`: the reply if it is available without waiting."""
        if scope.bypass_cache:
            return None
        scope.note_key(key)
        near = self._cache.peek(key)
        if near is None or not accept(near):
            return None
        self._telemetry.cache(call, "hit")
        return near

    async def obtain(self, call: str, key: str, make: Make, accept: Accept, scope: RequestScope) -> tuple[bytes, bool]:
        """The second half of `fetch`, for when `recall` returns None."""
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
                # A later caller starts a new flight.
                if self._flights.get(key) is flight:
                    del self._flights[key]
                flight.task.cancel()
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
        """A valid reply from the cache or from another process; None if this process must make the call."""
        refused: bytes | None = None
        ends_at, pause = asyncio.get_running_loop().time() + self._max_wait_seconds, SHORTEST_POLL_SECONDS
        while (found := await self._cache.claim(key, refused)) is not Caller.CALL:
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


def retrieve_error(task: asyncio.Task[tuple[bytes, bool]]) -> None:
    """Marks the error of a call that no caller waited for as retrieved, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
