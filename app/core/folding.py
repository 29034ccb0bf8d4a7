"""Folds a text to the form in which a reader or a model would understand its characters.

The result is for pattern matching only; the text itself is never changed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.dialogue import FILLERS

EXPANDING = ("\ufdfa", "\ufdfb")
"""Ligatures that NFKC expands to 18 and 8 characters; without them a text grows by a small factor only."""

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


# Not `(?!\w)` at the end: a run of `a_a_a_` would be retried from each of its letters.
SPACED_LETTERS = (
    r"(?<![^\W_])(?:[^\W_](?:[ \u3000]{1,2}[^\W_]){5,}|[^\W\d_]([^\w\s]|_)(?:[^\W_]\1){2,}[^\W_])(?![^\W_])"
)
"""Single characters set apart: at least six by one or two spaces, or at least four by the same sign."""

SET_APART = re.compile(r"[\W_][^\W_][\W_]")
"""A single character between two others; without one no letters are set apart."""

LETTER_GAP = r"[ \u3000]{1,2}|[^\w\s]|_"
"""The separators of letters that were set apart."""

LOOSE_LETTERS = "([ㄱ-ㅎ])([ㅏ-ㅣ])(?:([ㄱ-ㅎ])(?![ㅏ-ㅣ]))?"
"""A Korean syllable typed as separate compatibility letters; a run of consonants alone is laughter."""


def join_spaced_letters(text: str) -> str:
    """`text` with letters that were set apart joined again; two spaces separate words."""
    if SET_APART.search(text) is None:
        return text

    def joined(match: re.Match[str]) -> str:
        return re.sub(LETTER_GAP, lambda found: " " if len(found[0]) > 1 else "", match[0])

    return re.sub(SPACED_LETTERS, joined, text)


FINALS = dict(
    zip("ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ", map(chr, range(0x11A8, 0x11C3)), strict=True)
)


def compose_letters(text: str) -> str:
    """`text` with Korean letters that were typed one by one composed into syllables."""
    # NFKC turns every loose consonant into a leading one; the final of a syllable is found here.
    return re.sub(LOOSE_LETTERS, lambda found: found[1] + found[2] + FINALS.get(found[3] or "", found[3] or ""), text)


def fold(text: str) -> str:
    """The form of `text` that patterns are matched against. Linear in its length; never raises."""
    if not text.isascii():
        for ligature in EXPANDING:
            text = text.replace(ligature, " ")
        text = compose_letters(cut_mark_runs(text))
        text = unicodedata.normalize("NFKC", text)
        text = "".join(map(fold_character, text))
    return join_spaced_letters(text.lower())
