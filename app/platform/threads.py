"""A small pool of daemon threads for inspecting long texts, whose work can be cancelled."""

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
"""Long work calls it repeatedly; it raises GivenUp once the caller has been cancelled."""


class GivenUp(Exception):
    """The caller was cancelled. It ends the work in its thread and is not passed on."""


class InspectionThreads:
    """Runs work in a few threads, in order of arrival. They are separate from asyncio's threads, which write files and
    look up names, and they are daemons, so that a process that ends does not wait for them."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._starting = Lock()
        self._started = 0

    async def run(self, work: Callable[[Checkpoint], Seen]) -> Seen:
        """Returns or raises what `work` does. If the waiting task is cancelled, the work ends at its next checkpoint,
        or does not begin."""
        given_up = Event()
        done: Future[Seen] = Future()

        def checkpoint() -> None:
            if given_up.is_set():
                raise GivenUp

        context = contextvars.copy_context()
        self._start()
        self._jobs.put(lambda: finish_future(done, lambda: context.run(work, checkpoint)))
        try:
            return await asyncio.wrap_future(done)
        finally:
            given_up.set()

    def _start(self) -> None:
        """Starts one more thread, up to the limit. Raises RuntimeError if not even the first one can be started."""
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
        """Runs jobs for ever."""
        while True:
            self._jobs.get()()


def finish_future(done: Future[Seen], work: Callable[[], Seen]) -> None:
    """Does the work unless it was cancelled, and sets its result or error."""
    if not done.set_running_or_notify_cancel():
        return
    try:
        seen = work()
    except BaseException as error:  # noqa: BLE001 - the edge of a thread: passed on to the caller
        done.set_exception(error)
    else:
        done.set_result(seen)


CHARACTERS_ON_LOOP = 8_000
"""Characters that are worked through on the event loop: of the dearest ones in a millisecond."""


async def work_through(characters: int, work: Callable[[], Seen]) -> Seen:
    """Returns or raises what `work` does with texts of so many characters; in a thread if it would hold the event loop
    for long."""
    return work() if characters <= CHARACTERS_ON_LOOP else await inspection_threads().run(lambda _: work())


@cache
def inspection_threads() -> InspectionThreads:
    """The pool of this process."""
    return InspectionThreads()
