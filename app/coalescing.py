"""Many calls that come together become one call on a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Coalescer(Generic[Asked, Answer]):
    """Does `work` on lists of at most `most`, one list at a time, in the order of asking. For one event loop.

    What is asked within a turn of the loop goes together, and whatever is asked while `work` runs gathers and goes
    together next: under load a group commit, without load no wait. (aiodataloader dispatches every turn, whether or not
    the last batch has come back, so nothing would gather behind a slow commit.)

    `linger_seconds` is how long a list that follows another waits for company: where each list has a price of its own,
    a steady stream is then served in fewer. Whoever comes alone never waits.

    `work` returns one answer an item, in order. Its error reaches everybody on its list. A caller that is cancelled
    takes nothing from the others, nor does it take its item back: what was asked is done.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
        linger_seconds: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._work = work
        self._most = most
        self._linger_seconds = linger_seconds
        self._sleep = sleep
        self._busy_until = 0.0
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._runner: asyncio.Task[None] | None = None

    async def __call__(self, item: Asked) -> Answer:
        return await self.submit(item)

    def submit(self, item: Asked) -> asyncio.Future[Answer]:
        """The answer to come. Nobody needs to wait for it, unless `work` may fail."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._runner is None:
            # In a context of its own: that of the first caller is none of the others' business.
            self._runner = asyncio.create_task(self._run(), context=Context())
        return future

    async def drain(self) -> None:
        """Returns when everything that was asked is done."""
        while self._runner is not None:
            await asyncio.wait({self._runner})

    async def _run(self) -> None:
        batch: list[tuple[Asked, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                await self._linger()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve(batch)
        finally:
            # Anybody still waits only where this task was cancelled, as at the end of the loop.
            left, self._waiting, self._runner = [*batch, *self._waiting], [], None
            for _, future in left:
                future.cancel()

    async def _linger(self) -> None:
        """Waits for company where the last list was served a moment ago."""
        if not self._linger_seconds:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._busy_until and len(self._waiting) < self._most:
            await self._sleep(self._linger_seconds)

    async def _serve(self, batch: Sequence[tuple[Asked, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._work([item for item, _ in batch])
            pairs = list(zip(batch, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - passed on to those whom it concerns
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        if self._linger_seconds:
            self._busy_until = asyncio.get_running_loop().time() + 2 * self._linger_seconds
        for (_, future), answer in pairs:
            if not future.done():
                future.set_result(answer)
