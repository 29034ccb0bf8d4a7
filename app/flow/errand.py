"""When the work was begun that a call belongs to."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_begun: ContextVar[float] = ContextVar("saiten_errand_begun", default=math.inf)


_announce: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("saiten_announce", default=None)


@contextmanager
def announcing(announce: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """`announce` is awaited before each call inside, also by tasks begun inside, once the call has its turn."""
    token = _announce.set(announce)
    try:
        yield
    finally:
        _announce.reset(token)


async def announce_call() -> None:
    """To be awaited before a call is made."""
    announce = _announce.get()
    if announce is not None:
        await announce()


@contextmanager
def errand(moment: float | None = None) -> Iterator[None]:
    """Calls inside, also by tasks begun inside, belong to work of many calls that is begun now, or at the moment given.

    The moment is one of the clock that flow control goes by, in seconds; that is `time.monotonic` but in tests.
    """
    token = _begun.set(time.monotonic() if moment is None else moment)
    try:
        yield
    finally:
        _begun.reset(token)


def begun_before(moment: float) -> bool:
    """Whether the work that runs here was begun then or earlier. A call that is work of its own was not."""
    return _begun.get() <= moment
