"""Win rates: the share of dialogue contexts in which a system's value is the highest, ties excluded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.special import ndtri

from saiten.core.messages import Message
from saiten_server.core.reports import AspectWins, PairedWins, WinReport, WinShare
from saiten_server.stats.observations import Floats, Integers, Mask, Observations, number_keys, refuse_uneven
from saiten_server.stats.resampling import estimate_mean
from saiten_server.stats.statistics import MOST_PAIRS, refuse_many

EQUAL_WITHIN = 1e-9
"""Values that lie no further apart than this are equal: means and blended values carry rounding."""

PREFERENCE = ("preference", "preference_interval")
NORMAL_975 = float(ndtri(0.975))
MOST_CLUSTERED_PAIRS = 20_000
"""Of systems, over all aspects, where dialogues are named: each then takes half a millisecond and more."""

NO_CONTEST = Message("no-contest")


def rate_wins(observations: Observations) -> WinReport:
    """Per aspect, by its ratings or else its scores, how often each system wins, and each pair of systems on the
    contexts that both answered.

    A context is an item, answered by the systems that have it; intervals use dialogues as units. A system's value on a
    context is the mean of its rows, and the higher value wins: of a scale whose best level lies inside, such as −1 … 1
    around 0, the values have to be −|value|. Raises InvalidRequest for more pairs of systems than a report holds.
    """
    refuse_uneven(observations)
    columns = observations.ratings or observations.scores
    clustered = observations.dialogue is not None
    refuse_many(len(observations.systems), len(columns), most=MOST_CLUSTERED_PAIRS if clustered else MOST_PAIRS)
    answers = np.bincount(observations.unit_item, minlength=len(observations.items))
    contested = answers > 1
    contexts, alone = int(contested.sum()), int((answers == 1).sum())
    return WinReport(
        systems=observations.systems,
        contexts=contexts + alone,
        clusters=None if observations.dialogue is None else len(np.unique(observations.unit_cluster)),
        aspects={name: rate_aspect(valued(observations, column), contexts + alone) for name, column in columns.items()},
        best={name: level for name, level in observations.folded.items() if name in columns},
        undefined={} if contexts else {"aspects": Message("no-shared-context")},
    )


@dataclass(frozen=True)
class Valued:
    """The units that have a value, context by context and within it system by system: where few systems share a
    context, a table of systems by contexts would be one of holes. `context` has shape (n,), `system` indexes `systems`,
    `values` are the measure's. `cluster` is each unit's, None where contexts are independent."""

    systems: tuple[str, ...]
    context: Integers
    system: Integers
    values: Floats
    cluster: Integers | None = None


def valued(observations: Observations, column: Floats) -> Valued:
    """The means of a column of shape (n,)."""
    means = observations.means(column)
    units = np.flatnonzero(~np.isnan(means))
    units = units[np.lexsort((observations.unit_system[units], observations.unit_item[units]))]
    cluster = None if observations.dialogue is None else observations.unit_cluster[units]
    return Valued(
        observations.systems, observations.unit_item[units], observations.unit_system[units], means[units], cluster
    )


def rate_aspect(found: Valued, contexts: int) -> AspectWins:
    """One measure's wins, of so many contexts in all."""
    systems = found.systems
    complete, cluster = complete_contexts(found)
    first = np.zeros(complete.shape, dtype=np.bool_)
    if complete.size:
        first = complete >= complete.max(axis=0) - EQUAL_WITHIN
        first &= first.sum(axis=0) == 1  # where several have the highest value, none wins
    return AspectWins(
        contexts=complete.shape[1],
        left_out=contexts - complete.shape[1],
        systems={name: share_of(won, cluster) for name, won in zip(systems, first, strict=True)},
        ties=share_of(np.asarray(~first.any(axis=0)), cluster),
        pairs=tuple(compare_pairs(found, contexts)),
        undefined={} if complete.size else dict.fromkeys(("systems", "ties"), explain_none(found)),
    )


def complete_contexts(found: Valued) -> tuple[Floats, Integers | None]:
    """The values of the contexts that every system, of two or more, answered with one, shape (systems, contexts), and
    the contexts' clusters."""
    systems = len(found.systems)
    if systems < 2 or not len(found.values):
        return np.empty((systems, 0)), None
    held = np.bincount(found.context)
    rows = np.flatnonzero((held == systems)[found.context])
    cluster = None if found.cluster is None else found.cluster[rows[::systems]]
    return found.values[rows].reshape(-1, systems).T, cluster


def compare_pairs(found: Valued, contexts: int) -> Iterator[PairedWins]:
    """Each pair of systems, of so many contexts in all."""
    pairs = combinations(range(len(found.systems)), 2)
    if found.cluster is None:
        outcomes = count_outcomes(found)
        for a, b in pairs:
            yield describe_pair(found.systems[a], found.systems[b], *map(int, outcomes[:, a, b]), of=contexts)
        return
    held = np.bincount(found.system, minlength=len(found.systems))
    # The places of each system's units, in the order of their contexts.
    rows = np.split(np.argsort(found.system, kind="stable"), np.cumsum(held)[:-1])
    for a, b in pairs:
        both = found.context[rows[a]], found.context[rows[b]]
        _, of_a, of_b = np.intersect1d(*both, assume_unique=True, return_indices=True)
        mine, theirs = rows[a][of_a], rows[b][of_b]
        difference, cluster = found.values[mine] - found.values[theirs], found.cluster[mine]
        yield describe_outcomes(found.systems[a], found.systems[b], difference, cluster, of=contexts)


def count_outcomes(found: Valued) -> Integers:
    """How many contexts a won, b won, and tied, by pair a before b of systems; shape (3, systems, systems)."""
    systems = len(found.systems)
    outcomes = np.zeros(3 * systems * systems, dtype=np.int64)
    rows, apart = np.arange(len(found.values)), 0
    # Each value against the next of its context, then against the one after that: as many steps as systems at most.
    while len(rows):
        apart += 1
        rows = rows[: np.searchsorted(rows, len(found.values) - apart)]
        rows = rows[found.context[rows] == found.context[rows + apart]]
        difference = found.values[rows] - found.values[rows + apart]
        outcome = np.where(difference > EQUAL_WITHIN, 0, np.where(difference < -EQUAL_WITHIN, 1, 2))
        pair = (outcome * systems + found.system[rows]) * systems + found.system[rows + apart]
        outcomes += np.bincount(pair, minlength=len(outcomes))
    return outcomes.reshape(3, systems, systems)


def explain_none(found: Valued) -> Message:
    """Why no context was won."""
    if len(found.systems) < 2:
        return Message("one-system-to-win" if found.systems else "no-system-to-win")
    if not len(found.values):
        return Message("no-context-has-value")
    return Message("no-context-of-all-systems")


def compare_wins(a_name: str, b_name: str, a: Floats, b: Floats) -> PairedWins:
    """System a against system b on the same contexts; both have shape (contexts,), NaN where there is no value."""
    held = ~(np.isnan(a) | np.isnan(b))
    difference = a[held] - b[held]
    a_wins, b_wins = int((difference > EQUAL_WITHIN).sum()), int((difference < -EQUAL_WITHIN).sum())
    return describe_pair(a_name, b_name, a_wins, b_wins, int(held.sum()) - a_wins - b_wins, of=len(a))


def describe_pair(a_name: str, b_name: str, a_wins: int, b_wins: int, ties: int, *, of: int) -> PairedWins:
    """Two systems, by the outcomes of the contexts that both answered with a value, out of so many in all."""
    contexts = a_wins + b_wins + ties
    undefined: dict[str, Message] = {}
    if not contexts:
        undefined = dict.fromkeys(("a_wins", "b_wins", "ties", *PREFERENCE), NO_CONTEST)
    elif not a_wins + b_wins:
        undefined = dict.fromkeys(PREFERENCE, Message("all-ties"))
    decided = share(a_wins, a_wins + b_wins)
    return PairedWins(
        a=a_name,
        b=b_name,
        contexts=contexts,
        left_out=of - contexts,
        a_wins=share(a_wins, contexts),
        b_wins=share(b_wins, contexts),
        ties=share(ties, contexts),
        preference=decided.share,
        preference_interval=decided.interval,
        undefined=undefined,
    )


def describe_outcomes(a_name: str, b_name: str, difference: Floats, cluster: Integers, *, of: int) -> PairedWins:
    """Two systems, by the differences and clusters of the contexts that both answered, shapes (contexts,)."""
    a_won, b_won = difference > EQUAL_WITHIN, difference < -EQUAL_WITHIN
    wins, losses = int(a_won.sum()), int(b_won.sum())
    plain = describe_pair(a_name, b_name, wins, losses, len(difference) - wins - losses, of=of)
    decided, cluster = a_won | b_won, number_keys(cluster)
    return plain.model_copy(
        update={
            "a_wins": share_of(a_won, cluster),
            "b_wins": share_of(b_won, cluster),
            "ties": share_of(~decided, cluster),
            "preference_interval": share_of(a_won[decided], cluster[decided]).interval,
        }
    )


def share_of(won: Mask, cluster: Integers | None) -> WinShare:
    """The share of contexts won, shape (contexts,), with its interval: Wilson's where contexts are independent, else
    with as many effective contexts as the variance between clusters leaves. Where all clusters are alike each counts as
    one context."""
    plain = share(int(won.sum()), len(won))
    if cluster is None or not len(won):
        return plain
    numbers = number_keys(cluster)
    counts = np.bincount(numbers).astype(np.float64)
    wins = np.bincount(numbers, weights=won).astype(np.float64)
    found = estimate_mean(wins, counts, bounds=(0.0, 1.0))
    interval = found.interval or find_wilson_interval(plain.wins / len(won) * len(counts), len(counts))
    return plain.model_copy(update={"interval": interval})


def share(wins: int, contexts: int) -> WinShare:
    """Wins of contexts, with Wilson's interval; both null without contexts."""
    if not contexts:
        return WinShare(wins=wins, share=None, interval=None)
    return WinShare(wins=wins, share=wins / contexts, interval=find_wilson_interval(wins, contexts))


def find_wilson_interval(wins: float, n: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a proportion (1927), without continuity correction. `n` is at least 1."""
    square = NORMAL_975**2
    middle = (wins + square / 2) / (n + square)
    margin = NORMAL_975 / (n + square) * sqrt(wins * (n - wins) / n + square / 4)
    # The formula's ends are 0 and 1 there; rounding would leave them a little off.
    return (0.0 if wins == 0 else middle - margin, 1.0 if wins == n else middle + margin)
