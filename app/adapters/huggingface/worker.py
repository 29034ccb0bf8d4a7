"""A thread of one's own for work that must not hold the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 5.0


class Worker:
    """One thread that runs jobs in order, started by the first.

    It lives as long as the worker because OpenMP builds a new team of threads for each thread that computes. It is a
    daemon, unlike an executor's, because a hanging download must not keep the process from ending.

    `tidy` runs in the thread before each job and, where it said after how many seconds, while there is none.
    """

    def __init__(self, name: str, tidy: Callable[[], float | None] = lambda: None) -> None:
        self._name = name
        self._tidy = tidy
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._ended: Future[None] = Future()

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Queues the job; the answer (a value or what the job raised) belongs to the running event loop."""
        answer: Future[T] = Future()
        if self._thread is None:
            thread = Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._jobs.put((answer, job))
        return asyncio.wrap_future(answer)

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Ends the thread after the job it is at, and waits for that no longer than `grace_seconds`."""
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=grace_seconds)

    def _work(self) -> None:
        while (item := self._take()) is not None:
            answer, job = item
            if answer.set_running_or_notify_cancel():
                _settle(answer, job)
            del answer, job, item  # a waiting thread must not hold the last job's embeddings
        self._ended.set_result(None)

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        while True:
            try:
                return self._jobs.get(timeout=self._tidy())
            except Empty:
                continue


def _settle(answer: Future[T], job: Callable[[], T]) -> None:
    try:
        answer.set_result(job())
    except BaseException as error:  # noqa: BLE001 - the thread's edge: whatever it is belongs to who waits for it
        answer.set_exception(error)
