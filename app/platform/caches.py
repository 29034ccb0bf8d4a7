"""Caches: of values that were read a few seconds ago, and of the replies of outside calls."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from enum import Enum
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


class Turn(Enum):
    """Who makes the call for a key without a reply."""

    CALL = "call"
    """The caller of `claim`."""
    WAIT = "wait"
    """Another process, which is making it."""


class CallCache(ABC):
    """Replies of outside calls by the digest of everything that was sent. Entries may disappear at any time."""

    def peek(self, key: str) -> bytes | None:
        """The reply if it is available without waiting; None if it is not, or that is not known."""
        return None

    @abstractmethod
    async def get(self, key: str) -> bytes | None: ...

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        """The reply, or whose turn it is to make the call. An entry equal to `refused` counts as missing.

        After `Turn.CALL` the caller must call `put` or `leave`. After `Turn.WAIT` it claims again from time to time,
        until the other process puts, leaves or dies. A cache that no other process shares never returns WAIT.
        """
        kept = await self.get(key)
        return Turn.CALL if kept is None or kept == refused else kept

    @abstractmethod
    async def put(self, key: str, value: bytes) -> None:
        """Stores the reply, replacing any entry, before it returns. A reply that is too large is not stored."""

    async def leave(self, key: str) -> None:  # noqa: B027 (most caches have nothing to do)
        """Ends a turn without a reply, because the call failed or was cancelled."""

    @abstractmethod
    async def forget(self, keys: Sequence[str]) -> None:
        """Removes replies. Unlike the other methods it raises StoreError, so that no failed erasure is missed."""

    async def close(self) -> None:  # noqa: B027 (as above)
        """Waits for pending writes."""
