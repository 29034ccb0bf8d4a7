"""Settings of Python's garbage collector for a server that also computes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FEW, SOME, MANY = 50_000, 4, 20
"""Thresholds of the three generations; Python's defaults are 700, 10, 10. A collection of the second generation scans
`FEW` × `SOME` objects at once: scanning a million took a third of a second, during which no request was answered. A
collection of the third scans all objects in a sixth of a second. Without it, objects that were in use during the
second's collections accumulate: about twenty thousand a minute under steady load, or 80 MB in an hour."""

TURN_SECONDS = 0.0005
"""How long a computing thread keeps others waiting. Python's default of 5 ms at every step of an answer made pages slow
while a comparison was computed."""


def tune_collection() -> None:
    """Freezes the imported objects, which live as long as the process, and collects the rest less often. A judge call
    creates about a thousand objects that reference counting frees. Scanning them for cycles took an eighth of a
    worker's CPU."""
    # Without a collection before it: that took a tenth of a second, for half a percent of the objects.
    gc.freeze()
    gc.set_threshold(FEW, SOME, MANY)
    sys.setswitchinterval(TURN_SECONDS)


def set_aside() -> None:
    """Freezes the objects loaded since `tune_collection`, if it was called, without scanning them."""
    if gc.get_threshold()[0] == FEW:
        gc.freeze()


@contextmanager
def without_collection() -> Iterator[None]:
    """Disables garbage collection for the block, which reads a file: records hold no cycles, and scanning them
    repeatedly took a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
