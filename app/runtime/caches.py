"""What was read lately: told again without reading, for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

RENEWED_AT = 0.9
"""The share of its time after which a value is read anew by one, while the others go on with it: else all who come at
its end would read at once."""


class RecentValues(Generic[Key, Value]):
    """Values by key, none of them older than `seconds`, of at most `most` keys. For one event loop."""

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
        """The value as it is now, which is remembered."""
        asked_at, changes = self._clock(), self._changes
        value = await self._read(key)
        # What was read while something was being changed may be the old value.
        if changes == self._changes:
            self._seen[key] = asked_at, value
        return value

    def forget(self, key: Key) -> None:
        """To be called once the value was changed: what is being read at that moment is not remembered either."""
        self._changes += 1
        self._seen.pop(key, None)
