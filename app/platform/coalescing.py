"""Combines calls that arrive together into one call on a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import Generic, NamedTuple, TypeVar

CoalescedItem = TypeVar("CoalescedItem")
Answer = TypeVar("Answer")


class Waiting(NamedTuple, Generic[CoalescedItem, Answer]):
    """A submitted item, the future of its answer, and the context in which it may be processed."""

    item: CoalescedItem
    future: asyncio.Future[Answer]
    context: Context | None


class Coalescer(Generic[CoalescedItem, Answer]):
    """Calls `work` with lists of at most `most` items, one list at a time, in order of arrival. For one event loop.

    Items of one turn of the loop form a list, and items that arrive while `work` runs form the next: a group commit
    under load, no wait without. (aiodataloader dispatches every turn even if the last batch has not returned, so items
    would not accumulate behind a slow commit.)

    `linger_seconds` is how long a list that directly follows another waits for more items, so that a steady stream is
    served in fewer lists. The wait applies only after lists of at least `company` items: with 2, a single caller that
    submits one item after another never waits.

    With `own_context` a list of one item is processed in its caller's context, so that the caller's trace shows it.
    Otherwise lists are processed in an empty context.

    `work` returns one answer per item, in order. Its error is raised for every item of the list. A cancelled caller
    neither affects the others nor withdraws its item.
    """

    def __init__(
        self,
        work: Callable[[Sequence[CoalescedItem]], Awaitable[Sequence[Answer]]],
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
        self._waiting: list[Waiting[CoalescedItem, Answer]] = []
        self._runner: asyncio.Task[None] | None = None

    async def __call__(self, item: CoalescedItem) -> Answer:
        return await self.submit(item)

    def submit(self, item: CoalescedItem) -> asyncio.Future[Answer]:
        """The future of the answer. It need not be awaited unless `work` may fail."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(item, future, copy_context() if self._own_context else None))
        if self._runner is None:
            # In an empty context, so that the first caller's context does not leak into the others' work.
            self._runner = asyncio.create_task(self._run(), context=Context())
        return future

    async def drain(self, seconds: float | None = None) -> bool:
        """Waits until all submitted items are done. Returns False if that takes longer than `seconds`."""
        while self._runner is not None:
            ended, _ = await asyncio.wait({self._runner}, timeout=seconds)
            if not ended:
                return False
        return True

    async def _run(self) -> None:
        batch: list[Waiting[CoalescedItem, Answer]] = []
        try:
            while self._waiting:
                await self._linger()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve(batch)
        finally:
            # Items are left only if this task was cancelled, as at the end of the loop.
            left, self._waiting, self._runner = [*batch, *self._waiting], [], None
            for one in left:
                one.future.cancel()

    async def _linger(self) -> None:
        """Waits for more items if the last list was served a moment ago."""
        if not self._linger_seconds:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._busy_until and len(self._waiting) < self._most:
            await self._sleep(self._linger_seconds)

    async def _serve(self, batch: Sequence[Waiting[CoalescedItem, Answer]]) -> None:
        items, context = [one.item for one in batch], batch[0].context
        try:
            if context is not None and len(batch) == 1:
                answers = await asyncio.create_task(self._do(items), context=context)
            else:
                answers = await self._work(items)
            pairs = list(zip(batch, answers, strict=True))
        except Exception as error:  # noqa: BLE001 - passed on to the callers
            for one in batch:
                if not one.future.done():
                    one.future.set_exception(error)
            return
        if self._linger_seconds and len(batch) >= self._company:
            self._busy_until = asyncio.get_running_loop().time() + 2 * self._linger_seconds
        for one, answer in pairs:
            if not one.future.done():
                one.future.set_result(answer)

    async def _do(self, items: Sequence[CoalescedItem]) -> Sequence[Answer]:
        return await self._work(items)
