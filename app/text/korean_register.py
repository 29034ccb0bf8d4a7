"""존댓말 or 반말: the register of Korean by the spelling of its sentence endings, without a dictionary."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest

from app.domain.plain_text import cut_mark_runs
from app.domain.speech import Misuse, PolitenessLevel, Register, Sign, settle
from app.text.honorifics import find_korean_misuse
from app.text.korean_endings import (
    ADVERBS,
    FAMILIAR_WORDS,
    GREETINGS,
    HUMBLE_WORDS,
    is_midway_plain,
    is_polite_word,
    read_level,
    read_word,
)
from app.text.passages import open_passage, split_sentences

STAND_IN = "것"  # Takes a quotation's place: a noun, as a quotation is
MOST_WORDS = 24  # Words of a sentence that are looked at, from its end
COMMA = re.compile(r"[,，、;]+")
REPORTING = re.compile(r"(?:이?라고|하고|이?라는|이?라며|이?라면서|하며|이?래)")
"""Begins a word after reported speech that no marks enclose: 가요 라고 했어."""

JAMO = re.compile("[\u1100-\u11ff\u3131-\u318e]+")
NOT_A_SYLLABLE = re.compile("[^\uac00-\ud7a3]+$")


def read_korean(text: str) -> Register:
    """The register of the beginning of a text (`open_passage`)."""
    return settle(sign for sentence in sentences_of(text) for sign in read_sentence(sentence))


def read_korean_level(text: str) -> PolitenessLevel:
    """The level of the beginning of a polite text: of the words that end its clauses, and of those within them that
    end a sentence without a mark."""
    clauses = (
        split_words(part) for sentence in sentences_of(text) for part in COMMA.split(GREETINGS.sub("", sentence))
    )
    found = {level for words in clauses for level in levels_of(words)} - {PolitenessLevel.NONE}
    return PolitenessLevel.MIXED if len(found) > 1 else next(iter(found), PolitenessLevel.NONE)


def read_korean_misuse(text: str) -> Misuse | None:
    """The first clear misuse of an honorific or humble verb at the beginning of a text."""
    clauses = (split_words(part) for sentence in sentences_of(text) for part in COMMA.split(sentence))
    return next(filter(None, map(find_korean_misuse, clauses)), None)


def levels_of(words: Sequence[str]) -> Iterator[PolitenessLevel]:
    """The levels of the words that end politely, except in reported speech."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if not REPORTING.match(following):
            yield read_level(word, alone=len(words) == 1)


def sentences_of(text: str) -> Iterator[str]:
    """The speaker's own sentences at the beginning of a text (`open_passage`)."""
    # NFC, because NFKC turns ㅋㅋ and ㅠㅠ into conjoining letters.
    normal = unicodedata.normalize("NFC", cut_mark_runs(open_passage(text)))
    return (found.text for found in split_sentences(normal, STAND_IN))


def read_sentence(text: str) -> Iterator[Sign]:
    """Signs of a sentence: from its last clause or, if that has none, from the one before a comma, and from any word
    that ends a sentence within a clause."""
    clauses = [words for part in COMMA.split(text) if (words := split_words(part))]
    decided = False
    for clause in reversed(clauses):
        sign = read_clause(clause)
        if sign is not None and (not decided or sign is Sign.POLITE):
            yield sign
            decided = decided or sign in {Sign.POLITE, Sign.PLAIN}
        yield from read_midway(clause)


def read_clause(clause: Sequence[str]) -> Sign | None:
    """The sign of a clause by its last word, ignoring adverbs after it; otherwise by its words for you and me."""
    words = list(clause)
    while len(words) > 1 and words[-1] in ADVERBS:
        words.pop()
    sign = read_word(words[-1], alone=len(words) == 1)
    if sign is not None:
        return sign
    if any(map(HUMBLE_WORDS.match, words)):
        return Sign.WEAKLY_POLITE
    return Sign.WEAKLY_PLAIN if any(map(FAMILIAR_WORDS.match, words)) else None


def split_words(clause: str) -> list[str]:
    """The latest words of a clause, each up to its last syllable; words without one, such as ㅋㅋ, are left out."""
    parts = ("".join(filter(str.isalnum, part)) for part in clause.split()[-MOST_WORDS:])
    words = (NOT_A_SYLLABLE.sub("", JAMO.sub("", part)) for part in parts)
    return [word for word in words if word]


def read_midway(clause: Sequence[str]) -> Iterator[Sign]:
    """The signs of sentences that end within a clause without a mark, except in reported speech."""
    for word, following in pairwise(clause):
        if REPORTING.match(following):
            continue
        if is_polite_word(word):
            yield Sign.POLITE
        elif is_midway_plain(word):
            yield Sign.PLAIN
