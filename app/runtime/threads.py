"""Threads of their own for looking at long texts: nobody else waits for them, nor anything for what is given up."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TypeVar

MOST_THREADS = 2
"""More would not be faster: they share one interpreter with everything else."""

Seen = TypeVar("Seen")
Checkpoint = Callable[[], None]
"""Called again and again by long work; raises GivenUp where nobody waits for it any more."""


class GivenUp(Exception):
    """Nobody waits for this any more. It ends the work in its thread and reaches nobody."""


class InspectionThreads:
    """Runs work in a few threads, first come, first served; apart from asyncio's own, which writes files and looks up
    names. They are daemons: a process that ends does not wait for them.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starting = Lock()
        self._started = 0

    async def run(self, work: Callable[[Checkpoint], Seen]) -> Seen:
        """What `work` returns or raises; it is given up at its next checkpoint where the task that waits is cancelled.

        Work that has not begun by then never does.
        """
        given_up = Event()
        done: Future[Seen] = Future()

        def checkpoint() -> None:
            if given_up.is_set():
                raise GivenUp

        context = contextvars.copy_context()
        self._start()
        self._jobs.put(lambda: settle(done, lambda: context.run(work, checkpoint)))
        try:
            return await asyncio.wrap_future(done)
        finally:
            given_up.set()

    def _start(self) -> None:
        """One more thread, until there are enough. Raises RuntimeError where the system has none for the first."""
        with self._starting:
            if self._started < self._most:
                try:
                    Thread(target=self._serve, name=f"inspection-{self._started + 1}", daemon=True).start()
                except RuntimeError:
                    if not self._started:
                        raise
                    return
                self._started += 1

    def _serve(self) -> None:
        """Does one job after the other."""
        while True:
            self._jobs.get()()


def settle(done: Future[Seen], work: Callable[[], Seen]) -> None:
    """Does the work unless it was cancelled, and says how it ended."""
    if not done.set_running_or_notify_cancel():
        return
    try:
        seen = work()
    except BaseException as error:  # noqa: BLE001 - the edge of a thread: whoever waits is told
        done.set_exception(error)
    else:
        done.set_result(seen)


@cache
def inspection_threads() -> InspectionThreads:
    """This process's."""
    return InspectionThreads()
