"""Texts of others in a chart: harmless, and cut to the room that there is.

Widths are estimates, on the wide side: the page's font is the reader's, and no font of the server's tells it.
"""

from __future__ import annotations

import unicodedata

from app.charts.theme import TEXT
from app.domain.plain_text import printable

LONGEST = 1_000
"""Characters that are looked at: no chart has room for more."""

JOINERS = frozenset("\u200c\u200d")
"""They steer nothing, and hold emoji and some scripts' words together."""

DASH = "\N{EN DASH}"
ELLIPSIS = "…"


def tame(text: str) -> str:
    """The text on one line, with whatever could steer what stands around it made visible."""
    return "".join(character if character in JOINERS else printable(character) for character in text)


def measure(text: str, size: float = TEXT) -> float:
    """About how many pixels the text takes."""
    return size * sum(map(em, text))


def em(character: str) -> float:
    """How wide a character is, as a share of the font's size."""
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.3 if ord(character) > 0x1F000 else 1.0
    if character in "MWmw@%…—":
        return 0.95
    if character in "iljtf.,:;|!'()[] ":
        return 0.38
    return 0.72 if character.isupper() else 0.6


def fit(text: str, room: float, size: float = TEXT) -> str:
    """The text, or as much of its beginning as fits into `room` pixels, with an ellipsis."""
    text = tame(text[:LONGEST])
    if measure(text, size) <= room:
        return text
    left, kept = room / size - em(ELLIPSIS), ""
    for character in text:
        left -= em(character)
        if left < 0:
            break
        kept += character
    return kept.rstrip("".join(JOINERS) + " ") + ELLIPSIS


def fit_ends(text: str, room: float, size: float = TEXT) -> str:
    """The text, or its beginning and its end: builds of one series differ in the end."""
    text = tame(text[:LONGEST])
    if measure(text, size) <= room:
        return text
    half = (room + size * em(ELLIPSIS)) / 2
    return fit(text, half, size) + fit(text[::-1], half, size)[-2::-1].lstrip()


def write_number(value: float, *, digits: int = 2, signed: bool = False) -> str:
    """The number with a real minus; what rounds to zero has no sign."""
    text = f"{abs(value):,.{digits}f}"
    if not float(text.replace(",", "")):
        return text
    return ("−" if value < 0 else "+" if signed else "") + text


def write_interval(low: float, high: float, *, signed: bool = False) -> str:
    """`[−0.10, 0.35]`."""
    return f"[{write_number(low, signed=signed)}, {write_number(high, signed=signed)}]"
