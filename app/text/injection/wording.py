"""How much a text is worded like one that speaks to its judge: a linear model over the characters of its sentences.

The model knows no phrases. `benchmarks/fit_injection.py` fitted it on texts that speak to a judge and on texts that
only talk of the same things. It weighs every run of one to six characters by how much more often it occurs in the
former. A text is as suspicious as its most suspicious passage of one to three sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Protocol

from app.text.injection.signs import compiled

LONGEST_RUN = 6  # Characters
LONGEST_SENTENCE = 240  # Characters; what goes on longer without a full stop is read in pieces of this length
MOST_SENTENCES = 3  # Sentences of a passage
# A passage's sum is divided by its number of known runs to this power: long passages have more of everything
DAMPING = 0.35
# Katakana as hiragana: a word spelled out in either is the same word
HIRAGANA = dict(zip(range(0x30A1, 0x30F7), range(0x3041, 0x3097), strict=True))
LETTERS = str.maketrans("013457@$!", "oieastasi")  # What digits and signs stand for in words like `gr4d3r`


# A sentence of a folded text, or a line, or a piece of a long one, with the white space after it
SENTENCE = rf"(?:[^。.!?\n]|\.(?!\s|\Z)){{1,{LONGEST_SENTENCE}}}[。.!?]{{0,3}}\s{{0,8}}"
# Spaces that say nothing: beside a character that is not ASCII, and after another one
GAP = r"(?<=[^\x00-\x7f])[^\S\n]+|[^\S\n]+(?=[^\x00-\x7f])|(?<=\s)\s+"
DISGUISED_WORD = r"\b[a-z]*[a-z@$][0-9@$!]{1,2}[a-z][a-z0-9@$]*"  # It has digits or signs between its letters


@cache
def fitted() -> tuple[float, Mapping[str, int]]:
    """The model that ships with Saiten: what a passage without any known run of characters has, and what each run adds
    in thousandths, so that a sum does not depend on its order; above 0 it is suspicious."""
    data = json.loads((files("app") / "text/injection/weights.json").read_text(encoding="utf-8"))
    return data["intercept"] - data["threshold"], data["weights"]


class Weights(Protocol):
    """The weight of each known run."""

    def get(self, run: str, /) -> int | None: ...


def sentences(folded: str) -> list[str]:
    """The sentences of a folded text as the model reads them."""
    shown = compiled(DISGUISED_WORD).sub(lambda match: match[0].translate(LETTERS), folded.translate(HIRAGANA))
    gap = compiled(GAP)
    return [" " + gap.sub("", match[0]) for match in compiled(SENTENCE).finditer(shown)]


def runs(said: str, weights: Weights) -> dict[str, int]:
    """The known runs of characters in a sentence with their weights. What begins with an unknown run is unknown as
    well."""
    found: dict[str, int] = {}
    starts: Iterable[int] = range(len(said))
    for length in range(1, LONGEST_RUN + 1):  # at the end of the sentence, the last run is found again
        known = [
            (start, run, weight)
            for start in starts
            if (weight := weights.get(run := said[start : start + length])) is not None
        ]
        found.update([(run, weight) for _, run, weight in known])
        starts = [start for start, _, _ in known]
    return found


def passages(length: int) -> Iterator[tuple[int, int]]:
    """Every passage of a text of `length` sentences: the number of its first, and of the one after its last."""
    for start in range(length):
        for end in range(start + 1, min(start + MOST_SENTENCES, length) + 1):
            yield start, end


def suspicious_passage(folded: str, above: float = 0.0) -> str | None:
    """The passage of a folded text that is worded most like one to its judge; None where none scores `above`."""
    intercept, weights = fitted()
    said = sentences(folded)
    known = [runs(each, weights) for each in said]
    sums = [sum(each.values()) for each in known]
    counts = [len(each) for each in known]
    best, found = above, None
    for start, end in passages(len(said)):
        score = intercept + sum(sums[start:end]) / 1000 / max(1, sum(counts[start:end])) ** DAMPING
        if score > best:
            best, found = score, (start, end)
    return None if found is None else "".join(said[slice(*found)])
