"""Characters that hide text from a reader, or show it in another order than it is stored."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
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
            "tag run": r"[\U000E0000-\U000E007F]+",
            "selector run": r"[\uFE00-\uFE0F\U000E0100-\U000E01EF]{3,}",
            "zero-width run": f"[\u00ad\u180e{ZERO_WIDTH}]{{3,}}",
            "closer": f"[{CLOSERS}]",
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
        if turns_around(match[1], match[2]):
            return True
        neutral += match[1] != "\u2068"
    return neutral > MAXIMUM_EMBEDDINGS and not has_strong(text, {"R", "AL", "AN"})


def turns_around(control: str, inside: str) -> bool:
    """Whether a directional control shows what follows it in another order than it is stored."""
    to_the_right_hand_start = control in "\u202b\u202e\u2067"
    if to_the_right_hand_start and has_strong(inside, {"L", "EN"}) and not has_strong(inside, {"R", "AL"}):
        return True
    return control in OVERRIDES and has_strong(inside, {"L"})


def hides_text(text: str) -> bool:
    """Whether `text` holds tag characters, smuggled selectors, zero-width runs or deceptive directional controls."""
    if text.isascii():
        return False
    if pattern("tags").search(pattern("flag").sub("", text)) or pattern("selectors").search(text):
        return True
    if pattern("run").search(text) or reorders(text):
        return True
    return are_many(sum(1 for _ in pattern("scattered").finditer(text)), text)


def are_many(scattered: int, text: str) -> bool:
    """Whether so many zero-width characters are more than break hints."""
    return scattered >= MAXIMUM_SCATTERED or scattered >= max(MINIMUM_SCATTERED, SCATTERED_SHARE * len(text))


def hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the characters stand because of which `hides_text`: start and end in code points, in no order.

    What a directional control turns around goes with it; what stands between other controls does not.
    """
    flagless = pattern("flag").sub(lambda match: " " * len(match[0]), text)
    for name, searched in (("tag run", flagless), ("selector run", text), ("zero-width run", text)):
        yield from (match.span() for match in pattern(name).finditer(searched))
    scattered = [match.span() for match in pattern("scattered").finditer(text)]
    if are_many(len(scattered), text):
        yield from scattered
    if reorders(text):
        for match in pattern("directed").finditer(text):
            whole = turns_around(match[1], match[2])
            yield match.span() if whole else match.span(1)
        yield from (match.span() for match in pattern("closer").finditer(text))
