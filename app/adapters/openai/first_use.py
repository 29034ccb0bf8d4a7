"""What is made when it is first needed, because the packages that it stands on take long to load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> Awaitable[None]: ...


T = TypeVar("T", bound=Closable)


class FirstUse(Generic[T]):
    """One object for all who use it, None in `made` until the first of them asked for it.

    `make` imports and builds it. It runs in a thread, so that the event loop goes on meanwhile.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.made: T | None = None
        self._make = make
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """The object. Whoever asks while it is made waits for the same one; raises what `make` raises, and the next who
        asks tries again."""
        async with self._making:
            if self.made is None:
                self.made = await asyncio.to_thread(self._make)
            return self.made

    async def close(self) -> None:
        """Closes the object, where there is one."""
        if self.made is not None:
            await self.made.close()
