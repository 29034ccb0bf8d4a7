"""Makes foreign text safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_NAME_CHARACTERS = 24

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
    return name if len(name) <= MOST_NAME_CHARACTERS else name[: MOST_NAME_CHARACTERS - 1] + "…"


QUOTED_CHARACTERS = 120


def quote_reply(replies: Iterable[str | None]) -> str | None:
    """The beginning of the last of a judge's replies, to explain why ratings are missing; None if there is none."""
    reply = next(filter(None, reversed([*replies])), None)
    if reply is None:
        return None
    more = "…" if len(reply) > QUOTED_CHARACTERS else ""
    return f"its last reply begins: {printable(reply[:QUOTED_CHARACTERS])}{more}"
