"""What to fix first in conversations: their kinds of faults, by how far these lower the mean `overall`.

A service computes this for a batch (`FixFirst`). Of conversations that are rated one by one it is computed here, by the
same formulas, with each conversation as a unit; the client comes without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import atan, cos, inf, pi, sin, sqrt
from typing import Any, NamedTuple

from rich.console import Console

from saiten.answers import FixFirst
from saiten.commands.output import TerminalTable, bounds, figure, print_sheet
from saiten.core.language import tell

FEWEST_CONVERSATIONS = 8
"""Conversations below which there is no interval."""

LEAST_OF_EACH = 3
"""Conversations with the fault, and without it, below which there is none either."""

LEVEL = 0.95


class RatedTalk(NamedTuple):
    """A conversation's `overall`, its system turns, and how many of these have each kind of fault."""

    overall: float
    system_turns: int
    kinds: Mapping[str, int]


@dataclass
class FixTally:
    """The conversations of which `overall` and all kinds of faults are known."""

    talks: list[RatedTalk] = field(default_factory=list)

    def add(self, system_turns: int, result: Mapping[str, Any]) -> None:
        """Counts a result, unless it lacks a rating or findings were left out."""
        aspects, kinds = result["aspects"], result.get("kinds")
        unrated = {one["unrated"]["reason"] for one in aspects.values() if one.get("unrated")}
        dropped = any(warned["code"] == "findings-unrated" for warned in result.get("warnings", ()))
        overall = aspects.get("overall", {}).get("mean")
        if kinds is not None and overall is not None and unrated <= {"not-applicable"} and not dropped:
            self.talks.append(RatedTalk(overall, system_turns, kinds))

    def rank(self) -> list[FixFirst]:
        """The kinds that occur, the largest weight first."""
        names = dict.fromkeys(kind for talk in self.talks for kind, turns in talk.kinds.items() if turns)
        found = [weigh_kind(kind, self.talks) for kind in names]
        return sorted(found, key=lambda one: -inf if one.weight is None else one.weight, reverse=True)


def weigh_kind(kind: str, talks: Sequence[RatedTalk]) -> FixFirst:
    """The weight of a kind that some of these have, with its interval by the delta method; Saiten's documentation on
    conversations has the formulas."""
    count, turns = len(talks), sum(talk.kinds.get(kind, 0) for talk in talks)
    groups = [[talk.overall for talk in talks if bool(talk.kinds.get(kind)) is has] for has in (False, True)]
    without, with_fault = map(len, groups)
    share, effect, interval = with_fault / count, None, None
    if without:
        means = [sum(group) / len(group) for group in groups]
        effect = means[0] - means[1]
        if count >= FEWEST_CONVERSATIONS and min(without, with_fault) >= LEAST_OF_EACH:
            scales = sqrt(without / (without - 1)) * share / (1 - share), -sqrt(with_fault / (with_fault - 1))
            squares = sum(
                (effect * (has - share) + scales[has] * (value - means[has])) ** 2
                for has, group in enumerate(groups)
                for value in group
            )
            margin = find_quantile(min(without, with_fault) - 1) * sqrt(squares / (count - 1) / count)
            interval = (share * effect - margin, share * effect + margin) if margin else None
    return FixFirst(
        kind=kind,
        conversations=with_fault,
        of=count,
        rate=100 * turns / sum(talk.system_turns for talk in talks),
        effect=effect,
        weight=None if effect is None else share * effect,
        interval=interval,
    )


def find_quantile(freedom: int) -> float:
    """The value of Student's t that LEVEL of the distribution lies within, at whole degrees of freedom."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if find_share(middle, freedom) < LEVEL else (low, middle)
    return high


def find_share(t: float, freedom: int) -> float:
    """How much of Student's distribution lies within ± t (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4)."""
    angle, is_odd = atan(t / sqrt(freedom)), freedom % 2
    term, total = cos(angle) ** is_odd, 0.0
    for step in range(1 + is_odd, freedom, 2):
        total += term
        term *= cos(angle) ** 2 * step / (step + 1)
    return 2 / pi * (angle + sin(angle) * total) if is_odd else sin(angle) * total


def print_fixes(fixes: Sequence[FixFirst], on: Console) -> None:
    """The kinds of faults as a table; nothing where none was found."""
    if not fixes:
        return
    title = tell("what to fix first; weight: share of conversations × how much lower overall is there")
    heads = (tell("kind of fault"), tell("/ 100 turns"), tell("overall lower by"), tell("weight"), "95%")
    rows = [
        (one.kind, *(figure(value, ".2f") for value in (one.rate, one.effect, one.weight)), bounds(one.interval))
        for one in fixes
    ]
    print_sheet(TerminalTable(title, heads, rows), on)
