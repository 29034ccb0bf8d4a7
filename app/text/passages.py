"""Extracts a speaker's own sentences from a text, without addresses, code, asides and quotations."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

MOST_PASSAGE_CHARACTERS = 2000  # Code points of a text that are looked at: a register shows long before
MOST_SENTENCES = 32  # Sentences of a text that are looked at
FEW_TURNS = 16  # Texts of which it is remembered what they hold: the latest
DEEPEST = 8  # Nested quotations that are tracked at most

# Addresses, mentions, hashtags in Latin letters, and code: they belong to no language
NO_LANGUAGE = re.compile(
    r"https?://[!-~]+|www\.[!-~]+|(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{1,64}|[@#][\w.]{1,64}|`[^`\n]{1,400}`", re.ASCII
)
QUOTES = {"「": "」", "『": "』", "“": "”", "‘": "’", "《": "》", "〈": "〉", "«": "»", '"': '"', "'": "'"}
QUOTE_MARKS = frozenset({*QUOTES, *QUOTES.values()})
# Kaomoji, (笑), stage directions; not what is set in bold
ASIDES = re.compile(
    r"\([^()\n]{0,200}\)|（[^（）\n]{0,200}）|【[^【】\n]{0,100}】|(?<!\*)\*(?!\*)[^*\n]{1,100}\*(?!\*)"
)
ASIDE_MARKS = frozenset("(（【*")  # What an aside begins with
# Headings and list items, which are written, not said: 更新を確認する in a list is no shift
LISTED = re.compile(r"^[ \t]*(?:[-*+•●◦▪]\s|・|#{1,6}\s|\d{1,3}[.)、．]\s?(?!\d)).*$", re.MULTILINE)
SYMBOLS = "\u200d\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u2500-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
SENTENCE_END = re.compile(
    rf"((?:[。．｡！!？?\n…‥♪♫{SYMBOLS}]|\.(?![0-9A-Za-z])|(?<![0-9])\s?[~〜～](?![0-9]))[\s。．.！!？?…~〜～{SYMBOLS}]*)"
)
TRAILING_OFF = re.compile(r"\s*(?:…|‥|\.\.|・・)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence, and how it ends: with dots, with a question mark."""

    text: str
    trails_off: bool
    asks: bool


INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
FULL_WIDTH = re.compile("[０-９Ａ-Ｚａ-ｚ]")


def as_seen(text: str) -> str:
    """The text as a reader sees it, however it is encoded: composed, its Latin letters and digits of one width, and
    without invisible characters."""
    if text.isascii():
        return text
    return FULL_WIDTH.sub(
        lambda wide: chr(ord(wide[0]) - 0xFEE0), unicodedata.normalize("NFC", INVISIBLE.sub("", text))
    )


def words_of(text: str) -> frozenset[str]:
    """The words of a table that is written as one text."""
    return frozenset(text.split())


def open_passage(text: str, longest: int = MOST_PASSAGE_CHARACTERS) -> str:
    """The whole sentences among the first `longest` code points, with a space in place of addresses, mentions and code.
    A sentence that the limit cuts would end where its speaker did not; where it is the only one, it stays."""
    if len(text) > longest:
        end = max(map(text[:longest].rfind, "。.!?！？\n"))
        text = text[: end + 1] if end > 0 else text[:longest]
    return NO_LANGUAGE.sub(" ", text)


def drop_quotations(text: str, stand_in: str) -> str:
    """`text` with `stand_in`, a noun, for each outermost quotation; a quotation that never ends stays. Linear."""
    if QUOTE_MARKS.isdisjoint(text):
        return text
    kept: list[str] = []
    awaited: list[tuple[str, int]] = []
    for place, character in enumerate(text):
        if character not in QUOTE_MARKS:
            kept.append(character)
            continue
        depth = next((at for at in reversed(range(len(awaited))) if awaited[at][0] == character), None)
        if depth is not None and not is_apostrophe(text, place):
            del kept[awaited[depth][1] :], awaited[depth:]
            kept.append(stand_in)
            continue
        if character in QUOTES and len(awaited) < DEEPEST and opens(text, place):
            awaited.append((QUOTES[character], len(kept)))
        kept.append(character)
    return "".join(kept)


def opens(text: str, place: int) -> bool:
    """Whether the mark at `place` may open a quotation: a straight single one does only after no letter."""
    return text[place] != "'" or place == 0 or not text[place - 1].isalnum()


def is_apostrophe(text: str, place: int) -> bool:
    """Whether the mark at `place` stands within a Latin word, as in don't."""
    around = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return text[place] in "'’" and len(around) == 2 and around.isascii() and around.isalpha()


def split_sentences(text: str, stand_in: str) -> tuple[Sentence, ...]:
    """The sentences that a speaker says in their own voice, in order, `MOST_SENTENCES` at most. Where nothing but list
    items, quotations and asides is there (「そうですね」 as a whole response), those are read."""
    return _split_sentences(text, "" if QUOTE_MARKS.isdisjoint(text) else stand_in)


@lru_cache(maxsize=FEW_TURNS)
def _split_sentences(text: str, stand_in: str) -> tuple[Sentence, ...]:
    """The same; each rule on a turn asks for them."""
    own = drop_quotations(LISTED.sub("", text), stand_in)
    if not ASIDE_MARKS.isdisjoint(own):
        own = ASIDES.sub(" ", own)
    if not any(map(str.isalpha, own.replace(stand_in, ""))):
        own = "".join(" " if character in QUOTE_MARKS else character for character in text)
    parts = SENTENCE_END.split(own, maxsplit=MOST_SENTENCES)
    found = [
        Sentence(said, TRAILING_OFF.match(mark) is not None, "?" in mark or "？" in mark)
        for body, mark in zip(parts[:-1:2], parts[1::2], strict=True)
        if (said := body.strip())
    ]
    if len(parts) <= 2 * MOST_SENTENCES and (said := parts[-1].strip()):
        found.append(Sentence(said, trails_off=False, asks=False))
    return tuple(found)
