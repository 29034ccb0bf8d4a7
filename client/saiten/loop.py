"""An event loop in a thread of its own: a blocking client makes its calls there, also where the caller's thread runs
another loop, as in a notebook."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS = 10.0
"""How long a call that is interrupted may take to end, as to pause its batch."""

AT_ONCE = 256
"""Values that an iteration brings from one thread to the other at a time: each time takes about 0.1 ms."""


class BackgroundLoop:
    """Runs until `close`. The thread does not keep the process alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="saiten", daemon=True)
        self._thread.start()

    def run(self, awaited: Awaitable[T]) -> T:
        """The result. An interruption of the caller, such as Ctrl+C, cancels what it waits for. Raises RuntimeError
        where the thread has ended."""
        ended = threading.Event()

        async def work() -> T:
            try:
                return await awaited
            finally:
                ended.set()

        if not self._thread.is_alive():
            if isinstance(awaited, Coroutine):
                awaited.close()
            raise RuntimeError("this client is closed, or was made before the process forked; make another")
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                ended.wait(STOP_SECONDS)
            raise

    def iterate(self, values: AsyncGenerator[T, None], at_once: int) -> Iterator[T]:
        """The values, up to an error of the generator's, which is closed with the iteration."""
        failed: list[Exception] = []

        async def take() -> list[T]:
            taken: list[T] = []
            try:
                async for value in values:
                    taken.append(value)
                    if len(taken) == at_once:
                        break
            except Exception as error:  # noqa: BLE001 - raised below, behind what came before it
                failed.append(error)
            return taken

        try:
            while taken := self.run(take()):
                yield from taken
            if failed:
                raise failed[0]
        finally:
            self.run(values.aclose())

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Ends the loop and its thread after this call. The garbage collector may call it in that thread itself."""
        if threading.current_thread() is self._thread:
            self._loop.create_task(last).add_done_callback(lambda _: self._loop.stop())
            return
        self.run(last)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """A class whose methods are those of `asked`, run in `loop`."""

    def __init__(self, asked: Any, loop: BackgroundLoop) -> None:
        self._asked = asked
        self._loop = loop


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The method of a Blocking that waits for the result of this one."""

    @functools.wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._asked, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]], at_once: int = AT_ONCE
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The method of a Blocking that iterates over the values of this one."""

    @functools.wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.iterate(method(self._asked, *args, **kwargs), at_once)

    return call
