"""The form of a text that is read for meaning: what a reader or a model would take the characters for.

The result is for looking only: nothing else may use it, and the text itself is never changed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from app.domain.dialogue import FILLERS
from app.domain.marks import cut_mark_runs

EXPANDING = dict.fromkeys((0xFDFA, 0xFDFB), " ")
"""Ligatures that NFKC makes 18 and 8 characters of; without them a text grows by a small factor only."""

CYRILLIC = dict(zip("асеорхуіѕјһԁԛԝ", "aceopxyisjhdqw", strict=True))
GREEK = dict(zip("οαειρτυκν", "oaeiptukv", strict=True))
SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
LOOKALIKES = CYRILLIC | GREEK | SMALL_CAPITALS
ENCLOSED_ALPHABETS = (0x1F150, 0x1F170)
"""First letters of the negative circled and negative squared alphabets, which NFKC leaves alone."""


@lru_cache(maxsize=4096)
def fold_character(character: str) -> str:
    """One character of an NFKC text, lower-case, without format characters, look-alikes and enclosed forms."""
    lower = character.lower()
    if lower in LOOKALIKES:
        return LOOKALIKES[lower]
    if unicodedata.category(character) in {"Cf", "Me"} or character in FILLERS or "\ufe00" <= character <= "\ufe0f":
        return ""
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    for first in ENCLOSED_ALPHABETS:
        if first <= ord(character) < first + 26:
            return chr(ord("a") + ord(character) - first)
    return lower


@cache
def spaced_letters() -> re.Pattern[str]:
    """Six or more single characters, each set apart by a space or two."""
    return re.compile(r"(?<!\S)(?:[^\W_][ \u3000]{1,2}){5,}[^\W_](?!\w)")


def join_spaced_letters(text: str) -> str:
    """`text` with letters that stand apart put together again; two spaces part words."""

    def joined(match: re.Match[str]) -> str:
        return re.sub(r"[ \u3000]{1,2}", lambda gap: " " if len(gap[0]) > 1 else "", match[0])

    return spaced_letters().sub(joined, text)


def fold(text: str) -> str:
    """The form of `text` that patterns are matched against. Linear in its length; never raises."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", cut_mark_runs(text.translate(EXPANDING)))
        text = "".join(map(fold_character, text))
    return join_spaced_letters(text.lower())
