"""When the work was begun that a call belongs to."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_begun: ContextVar[float] = ContextVar("saiten_errand_begun", default=math.inf)


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
