"""Characters that hide text from a reader, or show it in another order than it is stored."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

ZERO_WIDTH = "\u200b-\u200d\u2060-\u2064\ufeff"
PLAIN_SCRIPTS = " -~\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef"
"""Scripts that need no zero-width characters, unlike Arabic, the Indic scripts and emoji."""
MAXIMUM_SCATTERED = 8
MINIMUM_SCATTERED = 3
SCATTERED_SHARE = 0.2
"""Web pages leave a few zero-width break hints behind; many of them, or one in every few characters, are no hints."""

OVERRIDES = "\u202d\u202e"
OPENERS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
CLOSERS = "\u202c\u2069"
MAXIMUM_EMBEDDINGS = 3


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of this module, compiled when it is first needed."""
    return re.compile(
        {
            # The flags of England, Scotland and Wales are a black flag followed by tag characters.
            "flag": r"\U0001F3F4[\U000E0030-\U000E0039\U000E0061-\U000E007A]{3,6}\U000E007F",
            "tags": r"[\U000E0000-\U000E007F]",
            "selectors": r"[\uFE00-\uFE0F\U000E0100-\U000E01EF]{3}",
            "run": f"[\u00ad\u180e{ZERO_WIDTH}]{{3}}",
            "scattered": f"(?<=[{PLAIN_SCRIPTS}])[{ZERO_WIDTH}](?=[{PLAIN_SCRIPTS}])",
            "directed": f"([{OPENERS}])([^{OPENERS}{CLOSERS}\n]*)",
        }[name]
    )


def has_strong(text: str, directions: set[str]) -> bool:
    """Whether a character of `text` has one of the bidirectional classes."""
    return any(unicodedata.bidirectional(character) in directions for character in text)


def reorders(text: str) -> bool:
    """Whether directional controls turn around text that is not written from right to left.

    Marks, isolates and embeddings around a name or a file path are ordinary, and so is an override to the left around
    a telephone number.
    """
    neutral = 0
    for match in pattern("directed").finditer(text):
        control, inside = match[1], match[2]
        to_the_right_hand_start = control in "\u202b\u202e\u2067"
        if to_the_right_hand_start and has_strong(inside, {"L", "EN"}) and not has_strong(inside, {"R", "AL"}):
            return True
        if control in OVERRIDES and has_strong(inside, {"L"}):
            return True
        neutral += control != "\u2068"
    return neutral > MAXIMUM_EMBEDDINGS and not has_strong(text, {"R", "AL", "AN"})


def hides_text(text: str) -> bool:
    """Whether `text` holds tag characters, smuggled selectors, zero-width runs or deceptive directional controls."""
    if text.isascii():
        return False
    if pattern("tags").search(pattern("flag").sub("", text)) or pattern("selectors").search(text):
        return True
    if pattern("run").search(text) or reorders(text):
        return True
    scattered = sum(1 for _ in pattern("scattered").finditer(text))
    return scattered >= MAXIMUM_SCATTERED or scattered >= max(MINIMUM_SCATTERED, SCATTERED_SHARE * len(text))
