"""A cache of values that were read a few seconds ago."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

RENEWED_AT = 0.9
"""Share of its lifetime after which one caller reads a value again while the others use the old one. Otherwise all
callers would read it at once when it expires."""


class RecentValues(Generic[Key, Value]):
    """Caches the values of at most `most` keys for `seconds`. For one event loop."""

    def __init__(
        self,
        read: Callable[[Key], Awaitable[Value]],
        *,
        seconds: float,
        most: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._seconds = seconds
        self._clock = clock
        self._seen: LRUCache[Key, tuple[float, Value]] = LRUCache(most)
        self._renewing: set[Key] = set()
        self._changes = 0

    async def get(self, key: Key) -> Value:
        """The value as it was at most `seconds` ago. Raises what `read` raises."""
        seen = self._seen.get(key)
        if seen is not None:
            age = self._clock() - seen[0]
            if age < RENEWED_AT * self._seconds or (age < self._seconds and key in self._renewing):
                return seen[1]
        self._renewing.add(key)
        try:
            return await self.read(key)
        finally:
            self._renewing.discard(key)

    async def read(self, key: Key) -> Value:
        """The current value, which is then cached."""
        asked_at, changes = self._clock(), self._changes
        value = await self._read(key)
        # A value that was read while something changed may be out of date.
        if changes == self._changes:
            self._seen[key] = asked_at, value
        return value

    def forget(self, key: Key) -> None:
        """Removes a value that has changed. A read that is in progress is not cached either."""
        self._changes += 1
        self._seen.pop(key, None)
