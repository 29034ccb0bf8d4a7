"""An event loop in a thread of its own: a blocking client makes its calls there, also where the caller's thread runs
another loop, as in a notebook."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

INTERRUPT_SECONDS = 10.0
"""How long a call that is interrupted may take to end, as to pause its batch."""

VALUES_AT_ONCE = 256
"""Values that an iteration brings from one thread to the other at a time: each time takes about 0.1 ms."""


class ClientClosed(RuntimeError):
    """Nothing can be run, or what ran was cancelled."""


class BackgroundLoop:
    """Runs until `close` or `end`. The thread does not keep the process alive."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = False
        # No call may begin behind the end of the others. The garbage collector may end a loop within a call.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=run_forever, args=(self._loop,), name="saiten", daemon=True)
        self._thread.start()

    def run(self, awaited: Awaitable[T]) -> T:
        """The result. An interruption of the caller, such as Ctrl+C, cancels what it waits for. Raises RuntimeError
        where the thread has ended, and where it is the caller itself."""
        ended = threading.Event()
        exits: list[BaseException] = []

        async def work() -> T:
            try:
                return await awaited
            except (KeyboardInterrupt, SystemExit) as error:
                # As of a `progress` function. asyncio would end the loop, and the caller would wait for ever.
                exits.append(error)
                raise asyncio.CancelledError from None
            finally:
                ended.set()

        with self._lock:
            try:
                self._check()
            except RuntimeError:
                if isinstance(awaited, Coroutine):
                    awaited.close()
                raise
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException as error:
            if not future.done():
                future.cancel()
                ended.wait(INTERRUPT_SECONDS)
            elif isinstance(error, concurrent.futures.CancelledError):
                raise (exits[0] if exits else ClientClosed("this client was closed during the call")) from None
            raise

    def _check(self) -> None:
        """Raises RuntimeError where nothing can be run."""
        if self._closing or not self._thread.is_alive():
            raise ClientClosed("this client is closed, or was made before the process forked; make another")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a function that a client calls, such as `progress`, cannot call that client")

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

        async def end() -> None:
            await values.aclose()

        try:
            while taken := self.run(take()):
                yield from taken
            if failed:
                raise failed[0]
        finally:
            # The garbage collector may end an iteration, in any thread and also behind the end of this one.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(lambda: self._closing or self._loop.create_task(end()))

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Ends the calls of other threads, and the loop and its thread after `last`, and waits for it. It does not wait
        in that thread itself."""
        ending = self.end(last)
        if ending is not None and threading.current_thread() is not self._thread:
            try:
                ending.result()
            finally:
                self._thread.join()

    def end(self, last: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None] | None:
        """As `close`, without waiting; None where it has ended. The garbage collector calls it at any moment, as while
        this thread imports a module that the loop's thread needs in order to end."""
        with self._lock:
            if self._closing or not self._thread.is_alive():
                last.close()
                return None
            self._closing = True
            ending = asyncio.run_coroutine_threadsafe(end_with(last), self._loop)
        ending.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        return ending


def run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped."""
    try:
        loop.run_forever()
    finally:
        loop.close()


async def end_with(last: Coroutine[Any, Any, None]) -> None:
    """Cancels every other task of this loop, and then awaits the last one."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=INTERRUPT_SECONDS)
    await last


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
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]], at_once: int = VALUES_AT_ONCE
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The method of a Blocking that iterates over the values of this one."""

    @functools.wraps(method)
    def call(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        values = method(self._asked, *args, **kwargs)

        def iterate() -> Iterator[T]:
            # Refers to the client, which closes itself once nothing refers to it.
            yield from self._loop.iterate(values, at_once)

        return iterate()

    return call
