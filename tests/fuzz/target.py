"""A property that must hold for any bytes, with the inputs to begin from; and what changes them without atheris."""

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

INTERESTING = (
    b"",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "\u202e\u200b\u3000".encode(),
    b"9" * 40,
    b"\n",
    b"\r",
)
MOST_CHANGES = 6
LONGEST = 4096


@dataclass(frozen=True)
class Target:
    """`check` raises for an input that breaks the property. `words` are what the grammar of its inputs is made of."""

    name: str
    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()


def vary(target: Target, number: int, seed: int) -> Iterator[bytes]:
    """The seeds as they are, then so many inputs made of them; the same ones for the same seed."""
    chance = random.Random(seed)
    yield from target.seeds
    for _ in range(number):
        found = bytearray(chance.choice(target.seeds))
        for _ in range(chance.randint(1, MOST_CHANGES)):
            change(found, target, chance)
        yield bytes(found[:LONGEST])


def change(found: bytearray, target: Target, chance: random.Random) -> None:
    """One change in place: a piece left out, doubled, replaced by another input's, by a word or by noise."""
    start = chance.randint(0, len(found))
    end = min(len(found), start + chance.choice((0, 1, 2, 4, 16, 64)))
    kind = chance.randrange(5)
    if kind == 0:
        piece = b""
    elif kind == 1:
        piece = bytes(found[start:end]) * chance.choice((2, 3, 50))
    elif kind == 2:
        other = chance.choice(target.seeds)
        begin = chance.randint(0, len(other))
        piece = other[begin : begin + chance.choice((1, 8, 64, 512))]
    elif kind == 3:
        piece = chance.choice((*target.words, *INTERESTING))
    else:
        piece = chance.randbytes(chance.randint(1, 4))
    found[start:end] = piece


def run_guided(target: Target) -> None:
    """Hands the process over to atheris, which sees every branch taken; the command line's flags are libFuzzer's.

    A process of its own, since code is instrumented as it is imported, and this module's imports have happened.
    """
    # S606: the command is this very program.
    os.execv(sys.executable, [sys.executable, "-m", "tests.fuzz.guided", target.name, *sys.argv[1:]])
