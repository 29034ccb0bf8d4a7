"""Many calls that come together become one call on a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import Generic, NamedTuple, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class Waiting(NamedTuple, Generic[Asked, Answer]):
    """What was asked, the answer to come, and in whose context it may be worked on."""

    item: Asked
    future: asyncio.Future[Answer]
    context: Context | None


class Coalescer(Generic[Asked, Answer]):
    """Does `work` on lists of at most `most`, one list at a time, in the order of asking. For one event loop.

    What is asked within a turn of the loop goes together, and whatever is asked while `work` runs gathers and goes
    together next: under load a group commit, without load no wait. (aiodataloader dispatches every turn, whether or not
    the last batch has come back, so nothing would gather behind a slow commit.)

    `linger_seconds` is how long a list that follows another waits for company: where each list has a price of its own,
    a steady stream is then served in fewer. Whoever comes alone never waits; with `company` 2, nor does whoever comes
    after lists of one: a single caller that asks again and again has nobody to wait for.

    With `own_context` a list of one is worked on in its caller's context, so that the caller's trace shows the work.
    What several share is nobody's, as everything is without it.

    `work` returns one answer an item, in order. Its error reaches everybody on its list. A caller that is cancelled
    takes nothing from the others, nor does it take its item back: what was asked is done.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
        linger_seconds: float = 0.0,
        company: int = 1,
        own_context: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._work = work
        self._most = most
        self._linger_seconds = linger_seconds
        self._company = company
        self._own_context = own_context
        self._sleep = sleep
        self._busy_until = 0.0
        self._waiting: list[Waiting[Asked, Answer]] = []
        self._runner: asyncio.Task[None] | None = None

    async def __call__(self, item: Asked) -> Answer:
        return await self.submit(item)

    def submit(self, item: Asked) -> asyncio.Future[Answer]:
        """The answer to come. Nobody needs to wait for it, unless `work` may fail."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(item, future, copy_context() if self._own_context else None))
        if self._runner is None:
            # In a context of its own: that of the first caller is none of the others' business.
            self._runner = asyncio.create_task(self._run(), context=Context())
        return future

    async def drain(self, seconds: float | None = None) -> bool:
        """Returns when everything that was asked is done, or after so long: then False."""
        while self._runner is not None:
            ended, _ = await asyncio.wait({self._runner}, timeout=seconds)
            if not ended:
                return False
        return True

    async def _run(self) -> None:
        batch: list[Waiting[Asked, Answer]] = []
        try:
            while self._waiting:
                await self._linger()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve(batch)
        finally:
            # Anybody still waits only where this task was cancelled, as at the end of the loop.
            left, self._waiting, self._runner = [*batch, *self._waiting], [], None
            for one in left:
                one.future.cancel()

    async def _linger(self) -> None:
        """Waits for company where the last list was served a moment ago."""
        if not self._linger_seconds:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._busy_until and len(self._waiting) < self._most:
            await self._sleep(self._linger_seconds)

    async def _serve(self, batch: Sequence[Waiting[Asked, Answer]]) -> None:
        items, context = [one.item for one in batch], batch[0].context
        try:
            if context is not None and len(batch) == 1:
                answers = await asyncio.create_task(self._do(items), context=context)
            else:
                answers = await self._work(items)
            pairs = list(zip(batch, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - passed on to those whom it concerns
            for one in batch:
                if not one.future.done():
                    one.future.set_exception(error)
            return
        if self._linger_seconds and len(batch) >= self._company:
            self._busy_until = asyncio.get_running_loop().time() + 2 * self._linger_seconds
        for one, answer in pairs:
            if not one.future.done():
                one.future.set_result(answer)

    async def _do(self, items: Sequence[Asked]) -> Sequence[Answer]:
        return await self._work(items)
