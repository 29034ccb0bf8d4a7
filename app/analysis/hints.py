"""Which name was meant, where one is misspelt. Without numpy: requests that are checked, not analysed, ask it too."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from app.domain.validation import clip

MOST_NAME = 128
"""Characters of a system, an item, a rater or an aspect that a caller names: reports repeat it in every pair."""

NEAR = 0.75
"""From which likeness on a name is taken for another, misspelt: "factuality" is 0.7 like "acceptability"."""


def hint(name: str, known: Collection[str], cutoff: float = NEAR) -> str:
    """The known name that is nearest, as a question; nothing where none is near, or for what is too long for a name: a
    search takes the square of the length."""
    if len(name) > MOST_NAME:
        return ""
    near = get_close_matches(name, [other for other in known if len(other) <= MOST_NAME], n=1, cutoff=cutoff)
    return f"; did you mean {clip(near[0])!r}?" if near else ""
