"""Python's garbage collector and its turns between threads, set for a server that also computes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FEW, SOME, MANY = 50_000, 4, 20
"""Objects and rounds between collections of the three generations; Python's own are 700, 10, 10. The second looks at
`FEW` × `SOME` objects at a stretch: a million of them took a third of a second, in which nothing was answered. The
third looks at all, a sixth of a second in a service, and takes what was in a request's hands while the second looked:
under a steady load some twenty thousand objects a minute, which in an hour had become 80 MB."""

TURN_SECONDS = 0.0005
"""How long a thread that computes keeps others waiting; Python's own 5 ms at every step of an answer made pages slow
while a comparison was computed."""

RELEASED = 1000


def tune_collection() -> None:
    """Puts aside what was imported, which lives as long as the process, and collects the rest less often.

    A judge call makes some thousand objects that reference counting frees. Looking through them for cycles all the time
    took an eighth of a worker's CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(FEW, SOME, MANY)
    sys.setswitchinterval(TURN_SECONDS)


def set_aside() -> None:
    """Puts aside what was loaded since, where `tune_collection` was called. Nothing is looked through, so that nobody
    waits for it."""
    if gc.get_threshold()[0] == FEW:
        gc.freeze()


@contextmanager
def without_collection() -> Iterator[None]:
    """No cycles are looked for meanwhile. What an import makes lives as long as the process, and to look through it
    again and again took a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def release(found: list[Any]) -> None:
    """Empties the list, some at a time: freeing a million objects at once is a stop for all threads."""
    while found:
        del found[-RELEASED:]
