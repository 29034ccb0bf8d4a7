"""Runs of combining marks, which normalisation sorts in time that grows with the square of their length."""

from __future__ import annotations

import unicodedata

MAXIMUM_MARKS = 8
"""Longest run of combining marks that is kept: no script needs more."""


def cut_mark_runs(text: str) -> str:
    """`text` with no more than `MAXIMUM_MARKS` combining marks in a row."""
    kept, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= MAXIMUM_MARKS:
            kept.append(character)
    return "".join(kept)
