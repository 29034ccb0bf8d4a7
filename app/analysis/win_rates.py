"""Who wins: the share of dialogue contexts in which a system's value is the highest, ties apart."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from app.analysis.observations import Floats, Mask, Observations
from app.domain.intervals import NORMAL_975
from app.domain.reports import AspectWins, PairedWins, WinReport, WinShare

EQUAL_WITHIN = 1e-9
"""Values that lie no further apart than this are equal: means and blended values carry rounding."""

PREFERENCE = ("preference", "preference_interval")
NO_CONTEST = "no context has a value from both systems"


def rate_wins(observations: Observations, *, measures: Mapping[str, Floats] | None = None) -> WinReport:
    """Per measure, how often each system wins, and each pair of systems on the contexts that both answered.

    A context is an item, and the systems that have it answered it. `measures` are columns of shape (n,), NaN for no
    value: by default the ratings, or the scores where there are no ratings. A system's value on a context is the mean
    of its rows. The higher value wins: of a scale whose best lies inside, such as −1 … 1 around 0, hand in −|value|.
    """
    columns = (observations.ratings or observations.scores) if measures is None else measures
    answers = np.bincount(observations.unit_item, minlength=len(observations.items))
    contested = answers > 1
    contexts, alone = int(contested.sum()), int((answers == 1).sum())
    # Only contested contexts get a column: systems that share none would make a table of nothing but holes.
    shared = contested[observations.unit_item]
    rows, places = observations.unit_system[shared], (np.cumsum(contested) - 1)[observations.unit_item[shared]]
    aspects = {}
    for name, column in columns.items():
        values = np.full((len(observations.systems), contexts), np.nan)
        values[rows, places] = observations.means(column)[shared]
        aspects[name] = rate_aspect(values, observations.systems, alone)
    return WinReport(
        systems=observations.systems,
        contexts=contexts + alone,
        aspects=aspects,
        best={name: level for name, level in observations.folded.items() if measures is None and name in columns},
        undefined={} if contexts else {"aspects": "no context was answered by two systems"},
    )


def rate_aspect(values: Floats, systems: tuple[str, ...], alone: int) -> AspectWins:
    """One measure's wins. `values` has shape (systems, contexts); `alone` more contexts have only one answer."""
    complete = values[:, ~np.isnan(values).any(axis=0)]
    contexts = complete.shape[1]
    wins, ties = count_firsts(complete) if contexts else (np.zeros(len(systems), dtype=np.int64), 0)
    return AspectWins(
        contexts=contexts,
        left_out=values.shape[1] + alone - contexts,
        systems={name: share(int(won), contexts) for name, won in zip(systems, wins, strict=True)},
        ties=share(ties, contexts),
        pairs=tuple(
            compare_wins(systems[a], systems[b], values[a], values[b], alone=alone)
            for a in range(len(systems))
            for b in range(a + 1, len(systems))
        ),
        undefined={} if contexts else dict.fromkeys(("systems", "ties"), explain_none(values, systems)),
    )


def explain_none(values: Floats, systems: tuple[str, ...]) -> str:
    """Why no context was won."""
    if len(systems) < 2:
        return f"{len(systems) or 'no'} system: there is nobody to win against"
    if np.isnan(values).all():
        return "no context has a value"
    return "no context has a value from every system"


def count_firsts(values: Floats) -> tuple[Floats, int]:
    """How many contexts each system wins alone, shape (systems,), and how many have several winners."""
    first: Mask = values >= values.max(axis=0) - EQUAL_WITHIN
    alone = first.sum(axis=0) == 1
    return first[:, alone].sum(axis=1), int((~alone).sum())


def compare_wins(a_name: str, b_name: str, a: Floats, b: Floats, *, alone: int = 0) -> PairedWins:
    """System a against system b on the same contexts; both have shape (contexts,), NaN where there is no value.

    `alone` contexts more, which are not in the arrays, are counted as left out.
    """
    held = ~(np.isnan(a) | np.isnan(b))
    contexts = int(held.sum())
    difference = a[held] - b[held]
    a_wins, b_wins = int((difference > EQUAL_WITHIN).sum()), int((difference < -EQUAL_WITHIN).sum())
    undefined: dict[str, str] = {}
    if not contexts:
        undefined = dict.fromkeys(("a_wins", "b_wins", "ties", *PREFERENCE), NO_CONTEST)
    elif not a_wins + b_wins:
        undefined = dict.fromkeys(PREFERENCE, "every context is a tie")
    decided = share(a_wins, a_wins + b_wins)
    return PairedWins(
        a=a_name,
        b=b_name,
        contexts=contexts,
        left_out=len(a) + alone - contexts,
        a_wins=share(a_wins, contexts),
        b_wins=share(b_wins, contexts),
        ties=share(contexts - a_wins - b_wins, contexts),
        preference=decided.share,
        preference_interval=decided.interval,
        undefined=undefined,
    )


def share(wins: int, contexts: int) -> WinShare:
    """Wins of contexts, with Wilson's interval; both null without contexts."""
    if not contexts:
        return WinShare(wins=wins, share=None, interval=None)
    return WinShare(wins=wins, share=wins / contexts, interval=find_interval(wins, contexts))


def find_interval(wins: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of a proportion (1927), without continuity correction. `n` is at least 1."""
    square = NORMAL_975**2
    middle = (wins + square / 2) / (n + square)
    margin = NORMAL_975 / (n + square) * sqrt(wins * (n - wins) / n + square / 4)
    # The formula's ends are 0 and 1 there; rounding would leave them a little off.
    return (0.0 if wins == 0 else middle - margin, 1.0 if wins == n else middle + margin)
