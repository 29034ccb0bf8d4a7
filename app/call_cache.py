"""The call cache around an outside call: one call a question, however many ask it, and none that was asked before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.ports import CallCache, Telemetry

Make = Callable[[], Awaitable[bytes]]
Accept = Callable[[bytes], bool]


@dataclass
class Flight:
    """A look-up under way: how many wait for it, and whether one of them has been given the bill."""

    task: asyncio.Task[tuple[bytes, bool]]
    waiting: int = 0
    billed: bool = False


class CachedCalls:
    """Fetches replies by the digest of everything that was sent. For the tasks of one event loop."""

    def __init__(self, cache: CallCache, telemetry: Telemetry) -> None:
        self._cache = cache
        self._telemetry = telemetry
        self._flights: dict[str, Flight] = {}

    async def fetch(self, call: str, key: str, make: Make, accept: Accept) -> tuple[bytes, bool]:
        """The reply, and whether it came without an outside call: of those who share a call, one is told it was made.

        `call` names the kind of call for telemetry. `accept` tells a sound reply: an entry that it refuses counts as a
        miss, and a fresh reply that it refuses is returned but not kept. Whoever asks for a key that is being fetched
        waits for that one call and shares its reply or its error. The call is cancelled when nobody waits any more, and
        only then: a caller that goes away takes nothing from the others.
        """
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
        kept = await self._cache.get(key)
        if kept is not None and accept(kept):
            self._telemetry.cache(call, "hit")
            return kept, True
        self._telemetry.cache(call, "miss")
        reply = await make()
        if accept(reply):
            await self._cache.put(key, reply)
        return reply, False

    def _land(self, key: str, flight: Flight) -> None:
        """Takes the flight off the list, so that a later caller starts anew, and ends it if it still runs."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        flight.task.cancel()


def retrieve_error(task: asyncio.Task[tuple[bytes, bool]]) -> None:
    """Marks the error of a call that nobody waited for as seen, or asyncio would complain about it later."""
    if not task.cancelled():
        task.exception()
