"""Texts of others on a terminal or in a drawing, which they must not steer, and in a store, which must hold them."""

from __future__ import annotations

import re

UNESCAPED = re.compile("[\x7f-\x9f]")
"""Controls that JSON lets stand as they are: DEL and C1, of which U+009B begins a terminal's commands as ESC [ does."""


def printable(text: str) -> str:
    """The text on one line: white space becomes a space, and any other control is made visible."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def clean(text: str) -> str:
    """`text` with lone surrogates and NUL replaced by U+FFFD, since no store can keep them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def escape_controls(document: str) -> str:
    """The same JSON with its last controls written as `\\u009b`. They can only stand in strings, so nothing breaks."""
    return UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", document)
