"""Python's garbage collector, set for a server: it looks for cycles where hardly any are made."""

from __future__ import annotations

import gc

FEW, SOME, MANY = 50_000, 20, 100
"""Objects and rounds between collections of the three generations; Python's own are 700, 10, 10."""


def tune_collection() -> None:
    """Puts aside what was imported, which lives as long as the process, and collects the rest less often.

    A judge call makes some thousand objects that reference counting frees. Looking through them for cycles all the time
    took an eighth of a worker's CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(FEW, SOME, MANY)
