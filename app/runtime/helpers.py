"""Helper processes, for work that would hold the interpreter that all tasks of a process share."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import TypeVar

logger = logging.getLogger("saiten.helpers")

Found = TypeVar("Found")

BUSY = 8
"""Jobs at a time up to which no helper is begun: they take less CPU than its start, and no memory."""


def open_process(most: int = 1) -> Executor:
    """Up to `most` processes that end with this one. They start with the first work."""
    # Not forked: threads of this process may hold locks that would never be released in the other.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=most, mp_context=context, initializer=settle)


def settle() -> None:
    """Makes the process end with its parent, however that ends, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent() -> None:
    """Waits for the parent's end, then ends this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


class Helpers:
    """Does short jobs in helper processes, which are begun when more than `BUSY` are under way at once; until they are
    ready, and where one was killed, a job is done in this process. For the tasks of one event loop."""

    def __init__(self, open_executor: Callable[[], Executor]) -> None:
        self._open_executor = open_executor
        self._executor: Executor | None = None
        self._ready = False
        self._jobs = 0

    async def work(
        self,
        job: Callable[[bytes], bytes],
        write: Callable[[], bytes],
        read: Callable[[bytes], Found | None],
        here: Callable[[], Awaitable[Found]],
    ) -> Found:
        """What `read` finds in what `job`, a function of a module, makes of the bytes of `write`; what `here` finds if
        no helper is ready, or `read` finds nothing."""
        self._jobs += 1
        try:
            if self._executor is None and self._jobs > BUSY:
                self._begin()
            executor = self._executor if self._ready else None
            if executor is not None:
                with self._surviving(executor):
                    done = await asyncio.get_running_loop().run_in_executor(executor, job, write())
                    if (found := read(done)) is not None:
                        return found
            return await here()
        finally:
            self._jobs -= 1

    def close(self) -> None:
        """Ends the helpers."""
        if self._executor is not None:
            # Waits for the processes, which takes a tenth of a second, so that none is left behind.
            self._executor.shutdown(cancel_futures=True)
        self._executor, self._ready = None, False

    def _begin(self) -> None:
        executor = self._executor = self._open_executor()
        begun = executor.submit(os.getpid)
        loop = asyncio.get_running_loop()
        begun.add_done_callback(lambda done: loop.call_soon_threadsafe(self._note_begun, executor, done))

    def _note_begun(self, executor: Executor, begun: Future[int]) -> None:
        with self._surviving(executor):
            if not begun.cancelled():
                begun.result()
                self._ready = self._executor is executor

    @contextmanager
    def _surviving(self, executor: Executor) -> Iterator[None]:
        """Goes on where a helper was killed; the next is begun when there is work for it."""
        try:
            yield
        except BrokenExecutor as error:
            if self._executor is executor:
                logger.warning("a helper process ended, and its work is done here: %s", error)
                executor.shutdown(wait=False)
                self._executor, self._ready = None, False
