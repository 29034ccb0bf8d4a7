"""What was seen of a pair, as a short text that a column holds: a run of pairs has tens of thousands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from saiten_server.core.evaluation import Choice, Pair, Side
from saiten_server.core.model import COMPACT

LETTERS: Mapping[Choice, str] = {"first": "f", "second": "s", "tie": "t"}
CHOICES: Mapping[str, Choice] = {letter: choice for choice, letter in LETTERS.items()}


class Look(NamedTuple):
    """One order: which side was shown first, and the verdict, None where it is missing. `choice` names a side of the
    pair, and not the one that was shown first or second."""

    shown_first: Side
    choice: Choice | None


class PairLooks(NamedTuple):
    """What was seen of one pair: the places of its two runs, the lengths of both texts in characters, and by aspect a
    look for each order that was asked."""

    runs: tuple[int, int]
    lengths: tuple[int, int]
    by_aspect: Mapping[str, Sequence[Look]]


def write_looks(pair: Pair) -> str:
    """The text: runs, lengths, and by aspect two letters for each order."""
    by_aspect = {
        name: [
            LETTERS[one.shown[0]] + (LETTERS[one.verdict] if one.verdict is not None else "-") for one in found.orders
        ]
        for name, found in pair.aspects.items()
    }
    return COMPACT.encode([pair.runs or (0, 1), (pair.first.length, pair.second.length), by_aspect])


def read_looks(text: str) -> PairLooks:
    """The inverse."""
    runs, lengths, by_aspect = json.loads(text)
    return PairLooks(
        (runs[0], runs[1]),
        (lengths[0], lengths[1]),
        {name: [read_look(look) for look in looks] for name, looks in by_aspect.items()},
    )


def read_look(letters: str) -> Look:
    """One order."""
    return Look("first" if letters[0] == "f" else "second", CHOICES.get(letters[1]))
