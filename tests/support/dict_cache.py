"""A call cache in a dictionary, and a clock that only sleeping moves."""

import asyncio
from collections.abc import Sequence

from saiten_server.platform.memory_cache import CallCache


class DictCache(CallCache):
    """Each call gives the loop a turn, as a real one would."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        await asyncio.sleep(0)
        return self.entries.get(key)

    async def put(self, key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        self.entries[key] = value

    async def leave(self, key: str) -> None:
        await asyncio.sleep(0)

    async def forget(self, keys: Sequence[str]) -> None:
        await asyncio.sleep(0)
        for key in keys:
            self.entries.pop(key, None)

    async def close(self) -> None:
        await asyncio.sleep(0)


class FakeTime:
    """`sleep` returns at once and moves `clock` by the seconds it was asked for; `slept` keeps them."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
