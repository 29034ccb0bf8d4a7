"""What a reader finds in one text, whatever its language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from app.domain.marks import cut_mark_runs

SHINGLE_LENGTH = 4
LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"})
VARIATION_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))


@dataclass(frozen=True, slots=True)
class Profile:
    """One text as the features see it. Shares are in [0, 1].

    `letters` is the text without white space and punctuation, in lower case: equal letters are a verbatim repetition.
    `wanted` holds the kinds of answer that its question asks for, `offered` the kinds of answer that it could give
    (place, time, person, number, reason, thing, manner); `wanted` may also hold `choice`, which a word of the question
    answers. `polite` is None where the text shows neither register. `feelings` holds `glad` and `sad`, whichever the
    text shows.
    """

    letters: str
    bigrams: frozenset[str]
    tokens: int
    content: tuple[str, ...]
    names: frozenset[str] = frozenset()
    predicates: frozenset[str] = frozenset()
    asks: bool = False
    wanted: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()
    affirms: bool = False
    negated: bool = False
    polite: bool | None = None
    greets: bool = False
    generic: bool = False
    agrees: bool = False
    broken: bool = False
    oddities: int = 0
    unknown_share: float = 0.0
    foreign_share: float = 0.0
    redundancy: float = 0.0
    feelings: frozenset[str] = frozenset()
    consoles: bool = False
    describes_itself: bool = False

    @property
    def words(self) -> frozenset[str]:
        """The distinct content words."""
        return frozenset(self.content)


class Reader(Protocol):
    """Reads texts of one language. Deterministic; not necessarily safe to share between threads."""

    @property
    def dictionary(self) -> str: ...

    def read(self, text: str) -> Profile: ...


def words_of(*texts: str) -> frozenset[str]:
    """The words of these texts, which spaces divide: for word lists."""
    return frozenset(" ".join(texts).split())


def normalise(text: str, form: str = "NFKC") -> str:
    """The text in Unicode normal form `form` (NFC or NFKC), each run of white space one space, format marks gone."""
    normal = unicodedata.normalize("NFC" if form == "NFC" else "NFKC", cut_mark_runs(text))
    visible = "".join(c for c in normal if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def letters_of(text: str) -> str:
    """Letters with their combining marks and digits only, in lower case; of an emoji nothing is left."""
    kept = (c for c in text.casefold() if unicodedata.category(c) in LETTERS and c not in VARIATION_SELECTORS)
    return "".join(kept)


def bigrams_of(letters: str) -> frozenset[str]:
    """Pairs of neighbouring characters; the text itself where it has one character, none where it is empty."""
    if len(letters) == 1:
        return frozenset(letters)
    return frozenset(letters[i : i + 2] for i in range(len(letters) - 1))


def redundancy_of(letters: str) -> float:
    """1 − distinct / all runs of four characters: 0 without repeats, towards 1 for a looping text."""
    total = len(letters) - SHINGLE_LENGTH + 1
    if total <= 0:
        return 0.0
    return 1 - len({letters[i : i + SHINGLE_LENGTH] for i in range(total)}) / total


def foreign_share_of(letters: str, native: re.Pattern[str]) -> float:
    """The share of the letters (digits aside) that are not in the language's own scripts; 0 where there are none."""
    spoken = [c for c in letters if not c.isnumeric()]
    if not spoken:
        return 0.0
    return sum(1 for c in spoken if not native.match(c)) / len(spoken)


def jaccard(left: Collection[str], right: Collection[str]) -> float:
    """|A ∩ B| / |A ∪ B|, and 0 where both are empty."""
    a, b = set(left), set(right)
    return len(a & b) / len(a | b) if a | b else 0.0


def kinds_in(text: str, patterns: dict[str, re.Pattern[str]]) -> frozenset[str]:
    """The names of the patterns that occur in `text`."""
    return frozenset(kind for kind, pattern in patterns.items() if pattern.search(text))
