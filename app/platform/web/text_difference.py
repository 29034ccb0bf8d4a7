"""Two texts side by side: what one has that the other lacks."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

MOST_CHARACTER_PAIRS = 4_000_000
"""Pairs of characters that one page compares, which takes about a second; longer texts are shown whole."""
LEAST_SHARED = 3
"""Characters in a row that two texts have in common beyond chance."""


class Piece(NamedTuple):
    """A part of a text. `kind` is `same`, `gone` or `new`."""

    kind: str
    text: str


def compare_texts(before: str, after: str) -> list[Piece]:
    """The difference character by character. Texts with little in common are replaced whole: what single characters
    two other sentences share says nothing."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    shared = sum(block.size for block in matcher.get_matching_blocks() if block.size >= LEAST_SHARED)
    if 2 * shared < min(len(before), len(after)):
        return replace_text(before, after)
    pieces = []
    for kind, i, j, m, n in matcher.get_opcodes():
        pieces += [Piece("same", before[i:j])] if kind == "equal" else replace_text(before[i:j], after[m:n])
    return pieces


def replace_text(before: str, after: str) -> list[Piece]:
    """The one text as gone and the other as new."""
    return [piece for piece in (Piece("gone", before), Piece("new", after)) if piece.text]
