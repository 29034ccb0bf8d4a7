"""`CallCache` for one process: in its memory, or none at all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from app.ports import Turn


class MemoryCallCache:
    """Keeps the `entries` most recently used replies in this process, of `total_bytes` together at most."""

    def __init__(self, *, entries: int = 200_000, total_bytes: int = 512 * 1024 * 1024) -> None:
        self._entries = entries
        self._total_bytes = total_bytes
        self._held_bytes = 0
        self._values: OrderedDict[str, bytes] = OrderedDict()

    def peek(self, key: str) -> bytes | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    async def get(self, key: str) -> bytes | None:
        return self.peek(key)

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        kept = await self.get(key)
        return Turn.CALL if kept is None or kept == refused else kept

    async def put(self, key: str, value: bytes) -> None:
        self._drop(key)
        self._values[key] = value
        self._held_bytes += len(value)
        while len(self._values) > self._entries or self._held_bytes > self._total_bytes:
            self._drop(next(iter(self._values)))

    async def leave(self, key: str) -> None:
        return None

    async def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._drop(key)

    async def close(self) -> None:
        return None

    def _drop(self, key: str) -> None:
        self._held_bytes -= len(self._values.pop(key, b""))


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
