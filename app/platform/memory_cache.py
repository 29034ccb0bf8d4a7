"""Caches of one process: of values that were read a few seconds ago, and of the replies of outside calls, in its
memory, not at all, or in a short memory in front of a shared cache.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from enum import Enum
from typing import Generic, TypeVar

from cachetools import FIFOCache, LRUCache

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


class Caller(Enum):
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

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Caller:
        """The reply, or whose turn it is to make the call. An entry equal to `refused` counts as missing.

        After `Caller.CALL` the caller must call `put` or `leave`. After `Caller.WAIT` it claims again from time to
        time, until the other process puts, leaves or dies. A cache that no other process shares never returns WAIT.
        """
        kept = await self.get(key)
        return Caller.CALL if kept is None or kept == refused else kept

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


class MemoryCallCache(CallCache):
    """Keeps the `entries` most recently used replies in this process, of `total_bytes` together at most."""

    def __init__(self, *, entries: int = 200_000, total_bytes: int = 512 * 1024 * 1024) -> None:
        self._entries = entries
        self._values: LRUCache[str, bytes] = LRUCache(total_bytes, getsizeof=len)

    def peek(self, key: str) -> bytes | None:
        return self._values.get(key)

    async def get(self, key: str) -> bytes | None:
        return self.peek(key)

    async def put(self, key: str, value: bytes) -> None:
        self._values.pop(key, None)
        if len(value) <= self._values.maxsize:
            self._values[key] = value
        while len(self._values) > self._entries:
            self._values.popitem()

    async def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._values.pop(key, None)


class NoCallCache(CallCache):
    """Keeps no replies."""

    async def get(self, key: str) -> bytes | None:
        return None

    async def put(self, key: str, value: bytes) -> None:
        return None

    async def forget(self, keys: Sequence[str]) -> None:
        return None


NEAR_SECONDS = 12.0
"""How long this process may serve a reply that another process has erased. After the last sweep, 15 seconds in all, it
is out of memory; an erasure has 60."""

SWEEPS = 5
"""Sweeps within `seconds`: a reply stays in memory for at most one sweep longer than it is served."""


class NearCallCache(CallCache):
    """Keeps recently read replies, so that the cache `behind` is asked for each at most once in `seconds`. `entries`
    and `total_bytes` bound it; the replies read first are dropped first. A reply that this process forgets is gone at
    once, here and behind; one that another process forgets, `seconds` after it was last read from behind."""

    def __init__(
        self,
        behind: CallCache,
        *,
        entries: int = 10_000,
        total_bytes: int = 32 * 1024 * 1024,
        seconds: float = NEAR_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._behind = behind
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._held: FIFOCache[str, tuple[bytes, float]] = FIFOCache(total_bytes, getsizeof=lambda held: len(held[0]))
        self._forgotten = 0
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def entry_count(self) -> int:
        """Stored replies, including expired ones that are not yet swept."""
        return len(self._held)

    def peek(self, key: str) -> bytes | None:
        near = self._find(key)
        return self._behind.peek(key) if near is None else near

    async def get(self, key: str) -> bytes | None:
        near = self._find(key)
        if near is not None:
            return near
        asked_at, forgotten = self._clock(), self._forgotten
        found = await self._behind.get(key)
        self._hold(key, found, asked_at, forgotten)
        return found

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Caller:
        near = self._find(key)
        if near is not None and near != refused:
            return near
        asked_at, forgotten = self._clock(), self._forgotten
        found = await self._behind.claim(key, refused)
        self._hold(key, found if isinstance(found, bytes) else None, asked_at, forgotten)
        return found

    async def put(self, key: str, value: bytes) -> None:
        # The stored reply is replaced; the new one is stored here when it is read, if it is not too large.
        self._held.pop(key, None)
        await self._behind.put(key, value)
        self._held.pop(key, None)

    async def leave(self, key: str) -> None:
        await self._behind.leave(key)

    async def forget(self, keys: Sequence[str]) -> None:
        # Before, for this process, and after, for replies that were read while they were being removed behind.
        self._forget(keys)
        try:
            await self._behind.forget(keys)
        finally:
            self._forget(keys)

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._held.clear()
        await self._behind.close()

    def _find(self, key: str) -> bytes | None:
        """The stored reply, if it has not expired."""
        value, asked_at = self._held.get(key, (None, 0.0))
        if value is not None and asked_at <= self._clock() - self._seconds:
            del self._held[key]
            return None
        return value

    def _hold(self, key: str, value: bytes | None, asked_at: float, forgotten: int) -> None:
        """Stores what was read behind, unless something was forgotten meanwhile, which may be this reply."""
        if value is None or forgotten != self._forgotten or len(value) > self._held.maxsize:
            return
        self._held[key] = value, asked_at
        if len(self._held) > self._entries:
            self._held.popitem()
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._seconds, self._sweep)

    def _sweep(self) -> None:
        """Drops expired replies; repeats while any reply is stored."""
        for key in list(self._held):
            self._find(key)
        later = asyncio.get_running_loop().call_later
        self._sweeping = later(self._seconds / SWEEPS, self._sweep) if self._held else None

    def _forget(self, keys: Sequence[str]) -> None:
        self._forgotten += 1
        for key in keys:
            self._held.pop(key, None)
