"""Makes foreign text safe to print, to draw, to store and to normalise.

Normalisation sorts runs of combining marks in quadratic time, so they are cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MOST_SHOWN_CHARACTERS = 24

UNESCAPED = re.compile("[\x7f-\x9f]")
"""Controls that JSON need not escape: DEL and C1. U+009B begins a terminal command, as ESC [ does."""


def printable(text: str) -> str:
    """The text on one line: white space becomes a space, and any other control becomes U+FFFD."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def escape_controls(document: str) -> str:
    """The same JSON with DEL and C1 controls escaped as `\\u009b`; they can only occur in strings."""
    return UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def clip(name: str) -> str:
    """The beginning of a name."""
    return name if len(name) <= MOST_SHOWN_CHARACTERS else name[: MOST_SHOWN_CHARACTERS - 1] + "…"


QUOTED_CHARACTERS = 120


def quote_reply(replies: Iterable[str | None]) -> str | None:
    """The beginning of the last of a judge's replies, to explain why ratings are missing; None if there is none."""
    reply = next(filter(None, reversed([*replies])), None)
    if reply is None:
        return None
    more = "…" if len(reply) > QUOTED_CHARACTERS else ""
    return f"its last reply begins: {printable(reply[:QUOTED_CHARACTERS])}{more}"


HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa1-\uffdc]+")
MOST_CHARACTERS_READ = 100_000


def is_korean(texts: Iterable[str]) -> bool:
    """Whether most letters of the texts are Hangul; only the first 100,000 characters are read."""
    text = "".join(texts)[:MOST_CHARACTERS_READ]
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
