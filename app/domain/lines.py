"""Faults in what is read line by line, each with its line."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import InvalidRequest

MOST_FAULTS = 20
"""How many faults an answer lists, and after how many a document of a batch is not read on: so many have one cause,
which can be seen from them."""

MOST_REFUSED = 1_000
"""Faults after which nothing more is read."""


class InvalidLines(InvalidRequest):
    """Lines that were read and do not fit.

    `faults` are (number from 1, what is wrong) in order, never empty, at most MOST_FAULTS; `total` counts those too
    that are not listed. `noun` is what is numbered: a line, or an element of an array. Where reading `stopped` at so
    many faults, `total` is how many there are at least.
    """

    def __init__(
        self, faults: Sequence[tuple[int, str]], total: int | None = None, noun: str = "line", *, stopped: bool = False
    ) -> None:
        self.faults = sorted(faults)[:MOST_FAULTS]
        self.total = len(faults) if total is None else total
        self.noun = noun
        self.stopped = stopped
        number, what = self.faults[0]
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        if stopped:
            more = f" (and at least {self.total - 1:,} more: the rest was not read)"
        super().__init__(f"{noun} {number}: {what}{more}")
