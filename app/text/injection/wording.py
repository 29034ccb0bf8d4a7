"""How much a text is worded like one that speaks to its judge: a linear model over the characters of its sentences.

The model knows no phrases. `benchmarks/fit_injection.py` fitted it on texts that speak to a judge and on texts that
only talk of the same things. It weighs every run of one to six characters by how much more often it occurs in the
former. A text is as suspicious as its most suspicious passage of one to three sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from saiten_server.text.injection.signs import compiled

LONGEST_RUN = 6  # Characters
LONGEST_SENTENCE = 240  # Characters; what goes on longer without a full stop is read in pieces of this length
MOST_PASSAGE_SENTENCES = 3  # Sentences of a passage
# A passage's sum is divided by its number of known runs to this power: long passages have more of everything
DAMPING = 0.35
# Katakana as hiragana: a word spelled out in either is the same word
KATAKANA = "[\u30a1-\u30f6]+"
HIRAGANA = dict(zip(range(0x30A1, 0x30F7), range(0x3041, 0x3097), strict=True))
DISGUISED_LETTERS = str.maketrans("013457@$!", "oieastasi")  # What digits and signs stand for in words like `gr4d3r`


# A sentence of a folded text, or a line, or a piece of a long one, with the white space after it
SENTENCE = rf"(?:[^。.!?\n]|\.(?!\s|\Z)){{1,{LONGEST_SENTENCE}}}[。.!?]{{0,3}}\s{{0,8}}"
# Spaces that say nothing: beside a character that is not ASCII, and after another one
WIDE_TEXT_GAP = r"(?<=[^\x00-\x7f])[^\S\n]+|[^\S\n]+(?=[^\x00-\x7f])|(?<=\s)\s+"
DISGUISE = "[a-z@$][0-9@$!]{1,2}[a-z]"  # Without one there is no such word
DISGUISED_WORD = r"\b[a-z]*[a-z@$][0-9@$!]{1,2}[a-z][a-z0-9@$]*"  # It has digits or signs between its letters


Branches = dict[str, tuple[int, "Branches"]]


class KnownRuns:
    """Finds the runs of a vocabulary in a sentence, by number in the vocabulary's order. The vocabulary holds the
    beginnings of its runs too; it is kept as a tree of characters, so that a place is left at its first unknown run."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        branches: dict[str, Branches] = {"": {}}
        for number, run in sorted(enumerate(vocabulary), key=lambda numbered: len(numbered[1])):
            branches[run] = {}
            branches[run[:-1]][run[-1]] = number, branches[run]
        self._tree = branches[""]

    def find(self, said: str) -> set[int]:
        """The numbers of all runs in the sentence, each once."""
        found: set[int] = set()
        add, tree = found.add, self._tree
        for start, first in enumerate(said):
            if (step := tree.get(first)) is None:
                continue
            number, branches = step
            add(number)
            for character in said[start + 1 : start + LONGEST_RUN]:
                if (step := branches.get(character)) is None:
                    break
                number, branches = step
                add(number)
        return found


@cache
def fitted() -> tuple[float, KnownRuns, Sequence[int]]:
    """The model that ships with Saiten: what a passage without any known run of characters has, the runs, and what each
    run adds in thousandths, so that a sum does not depend on its order; above 0 it is suspicious."""
    data = json.loads((files("saiten_server") / "text/injection/weights.json").read_text(encoding="utf-8"))
    return data["intercept"] - data["threshold"], KnownRuns(data["weights"]), [*data["weights"].values()]


def sentences(folded: str) -> list[str]:
    """The sentences of a folded text as the model reads them."""
    shown = compiled(KATAKANA).sub(lambda match: match[0].translate(HIRAGANA), folded)
    if compiled(DISGUISE).search(shown):
        shown = compiled(DISGUISED_WORD).sub(lambda match: match[0].translate(DISGUISED_LETTERS), shown)
    space, gap = compiled(r"\s"), compiled(WIDE_TEXT_GAP)
    said = (match[0] for match in compiled(SENTENCE).finditer(shown))
    return [" " + (gap.sub("", one) if space.search(one) else one) for one in said]


def passages(length: int) -> Iterator[tuple[int, int]]:
    """Every passage of a text of `length` sentences: the number of its first, and of the one after its last."""
    for start in range(length):
        for end in range(start + 1, min(start + MOST_PASSAGE_SENTENCES, length) + 1):
            yield start, end


def suspicious_passage(folded: str, above: float = 0.0) -> str | None:
    """The passage of a folded text that is worded most like one to its judge; None where none scores `above`."""
    intercept, runs, weights = fitted()
    # A sentence that comes again says nothing new: only attacks are insistent in other words each time.
    said = list({each.strip(): each for each in reversed(sentences(folded))}.values())[::-1]
    known = [runs.find(each) for each in said]
    sums = [sum(map(weights.__getitem__, each)) for each in known]
    counts = [len(each) for each in known]
    best, found = above, None
    for start, end in passages(len(said)):
        score = intercept + sum(sums[start:end]) / 1000 / max(1, sum(counts[start:end])) ** DAMPING
        if score > best:
            best, found = score, (start, end)
    return None if found is None else "".join(said[slice(*found)])
