"""Makes foreign text safe to print, to draw, to store and to normalise.

Normalisation sorts runs of combining marks in quadratic time, so they are cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# The client holds the words that it shares with the service, because it never imports the server.
from saiten.figures import find_digits, round_figure, write_figure
from saiten.plain_text import escape_controls, printable, quote_reply
from saiten.wording import LEVELS, hint, stands_still, tell_p

__all__ = [
    "LEVELS",
    "clean",
    "cut_mark_runs",
    "escape_controls",
    "find_digits",
    "hint",
    "is_korean",
    "printable",
    "quote_reply",
    "round_figure",
    "stands_still",
    "tell_p",
    "write_figure",
]

HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc]+")
MOST_READ = 100_000


def is_korean(texts: Iterable[str]) -> bool:
    """Whether most letters of the texts are Hangul; only the first 100,000 characters are read."""
    text = "".join(texts)[:MOST_READ]
    hangul = sum(found.end() - found.start() for found in HANGUL.finditer(text))
    return hangul > 0 and 2 * hangul > sum(map(str.isalpha, text))


def clean(text: str) -> str:
    """`text` with lone surrogates and NUL replaced by U+FFFD, since no store can keep them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


MAXIMUM_MARKS = 8
"""Longest run of combining marks that is kept: no script needs more."""


def cut_mark_runs(text: str) -> str:
    """`text` with no more than `MAXIMUM_MARKS` combining marks in a row."""
    if not any(map(unicodedata.combining, text)):
        return text
    kept, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= MAXIMUM_MARKS:
            kept.append(character)
    return "".join(kept)
