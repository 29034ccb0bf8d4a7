"""Threads and processes for long work: threads for inspecting long texts, which can be cancelled, and helper processes
for work that would hold the interpreter that all tasks of a process share."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TypeVar

from saiten_server.core.giving_up import GIVEN_UP, checkpoint

logger = logging.getLogger("saiten.helpers")

Found = TypeVar("Found")

Job = Callable[[bytes], bytes]

BUSY = 8
"""Jobs at a time up to which no helper is begun: they take less CPU than its start, and no memory."""

GROUP = 16
"""Jobs that are sent together. Sent one by one, each takes a tenth more CPU in both processes."""


def open_process(most: int = 1) -> Executor:
    """Up to `most` processes that end with this one. They start with the first work."""
    # Not forked: threads of this process may hold locks that would never be released in the other.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=most, mp_context=context, initializer=follow_parent)


def follow_parent() -> None:
    """Makes the process end with its parent, however that ends, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent() -> None:
    """Waits for the parent's end, then ends this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


def do_jobs(jobs: Sequence[tuple[Job, bytes]]) -> list[bytes]:
    """What each job makes of its bytes."""
    return [job(given) for job, given in jobs]


class Helpers:
    """Does short jobs in up to `most` helper processes, which are begun when more than `BUSY` are under way at once;
    until they are ready, and where one was killed, a job is done in this process. For the tasks of one event loop."""

    def __init__(self, open_executor: Callable[[], Executor], most: int = 1) -> None:
        self._open_executor = open_executor
        self._most = most
        self._waiting: list[tuple[Job, bytes, asyncio.Future[bytes]]] = []
        self._senders = set[asyncio.Task[None]]()
        self._executor: Executor | None = None
        self._ready = False
        self._jobs = 0

    async def work(
        self,
        job: Job,
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
                    if (found := read(await self._send(executor, job, write()))) is not None:
                        return found
            return await here()
        finally:
            self._jobs -= 1

    def _send(self, executor: Executor, job: Job, given: bytes) -> asyncio.Future[bytes]:
        """The answer to come: of the next group, once one of the helpers has answered its last one."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, given, answer))
        if len(self._senders) < self._most:
            sender = asyncio.create_task(self._send_groups(executor))
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return answer

    async def _send_groups(self, executor: Executor) -> None:
        """Sends what waits until nothing does."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
            jobs = [(job, given) for job, given, _ in group]
            answers = [answer for _, _, answer in group]
            try:
                made = await loop.run_in_executor(executor, do_jobs, jobs)
            except asyncio.CancelledError:
                for answer in answers:
                    answer.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - those who wait raise it
                for answer in answers:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, _, answer), done in zip(group, made, strict=True):
                if not answer.done():
                    answer.set_result(done)

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


MOST_THREADS = 2
"""More would not be faster: they share one interpreter with everything else."""

Seen = TypeVar("Seen")
Checkpoint = Callable[[], None]
"""Long work calls it repeatedly: `giving_up.checkpoint`, or another for work that is not to end."""


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
        context = contextvars.copy_context()
        context.run(GIVEN_UP.set, given_up)
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
