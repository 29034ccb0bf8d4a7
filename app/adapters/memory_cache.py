"""`CallCache` for one process: in its memory, or none at all."""

from __future__ import annotations

from collections.abc import Sequence

from cachetools import LRUCache

from app.ports import Turn


class MemoryCallCache:
    """Keeps the `entries` most recently used replies in this process, of `total_bytes` together at most."""

    def __init__(self, *, entries: int = 200_000, total_bytes: int = 512 * 1024 * 1024) -> None:
        self._entries = entries
        self._values: LRUCache[str, bytes] = LRUCache(total_bytes, getsizeof=len)

    def peek(self, key: str) -> bytes | None:
        return self._values.get(key)

    async def get(self, key: str) -> bytes | None:
        return self.peek(key)

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        kept = await self.get(key)
        return Turn.CALL if kept is None or kept == refused else kept

    async def put(self, key: str, value: bytes) -> None:
        self._values.pop(key, None)
        if len(value) <= self._values.maxsize:
            self._values[key] = value
        while len(self._values) > self._entries:
            self._values.popitem()

    async def leave(self, key: str) -> None:
        return None

    async def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._values.pop(key, None)

    async def close(self) -> None:
        return None


class NoCallCache:
    """Forgets everything at once."""

    def peek(self, key: str) -> bytes | None:
        return None

    async def get(self, key: str) -> bytes | None:
        return None

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        return Turn.CALL

    async def put(self, key: str, value: bytes) -> None:
        return None

    async def leave(self, key: str) -> None:
        return None

    async def forget(self, keys: Sequence[str]) -> None:
        return None

    async def close(self) -> None:
        return None
