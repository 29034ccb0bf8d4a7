"""Which aspect merely follows which: dependencies between aspects (Tsuta & Yoshinaga 2024, section 3.1).

An aspect that needs another first (a response that is not fluent cannot be relevant) tells apart all systems that the
other tells apart, in the same direction, and more. So Y depends on X where D(X), the significant pairs of systems, is
not empty and a strict subset of D(Y).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from app.analysis.decorrelation import Standing, count_changes
from app.analysis.observations import Floats, Integers, Observations
from app.analysis.significance import PairTests, compare_systems, refuse_many
from app.analysis.statistics import refuse_wide, settled_means
from app.domain.reports import AspectPairs, Decorrelation, Dependency, HierarchyReport


def find_hierarchy(
    observations: Observations, *, alpha: float = 0.01, method: Decorrelation = "principal-axis"
) -> HierarchyReport:
    """The significant pairs of every aspect and the dependencies between aspects, each with its decorrelation.

    On the items' rater means. An item without a value for an aspect is left out of that aspect, and out of a pair's
    decorrelation where either is missing. Raises InvalidRequest for an `alpha` that is not between 0 and 1, and for
    more systems, aspects and items than could be compared in a minute.
    """
    refuse_many(len(observations.systems), len(observations.ratings))
    refuse_wide(len(observations.ratings), observations.units)
    means = {name: settled_means(observations, column) for name, column in observations.ratings.items()}
    systems = observations.systems
    tests = {name: compare_systems(values, observations.unit_system, len(systems)) for name, values in means.items()}
    standings = [Standing(name, values, tests[name].better(alpha)) for name, values in means.items()]
    return HierarchyReport(
        alpha=alpha,
        systems=len(systems),
        items=observations.units,
        aspects={name: describe_pairs(means[name], tests[name], alpha, systems) for name in means},
        dependencies=tuple(
            describe_dependency(lower, higher, observations.unit_system, alpha, method)
            for lower, higher in permutations(standings, 2)
            if is_strict_subset(lower, higher)
        ),
        best={name: level for name, level in observations.folded.items() if name in means},
        undefined=explain_none(systems, standings),
    )


def is_strict_subset(lower: Standing, higher: Standing) -> bool:
    """Whether D(lower) is not empty and a strict subset of D(higher)."""
    within = not bool((lower.better & ~higher.better).any())
    return within and 0 < int(lower.better.sum()) < int(higher.better.sum())


def describe_dependency(
    lower: Standing, higher: Standing, unit_system: Integers, alpha: float, method: Decorrelation
) -> Dependency:
    """How many pairs the two share, how many only the higher has, and what decorrelation makes of both."""
    return Dependency(
        lower=lower.aspect,
        higher=higher.aspect,
        common=int((lower.better & higher.better).sum()),
        higher_only=int((higher.better & ~lower.better).sum()),
        decorrelated=count_changes(lower, higher, unit_system, alpha, method),
    )


def describe_pairs(values: Floats, tests: PairTests, alpha: float, systems: Sequence[str]) -> AspectPairs:
    """D of one aspect; where it had to be empty, whatever the systems are like, `undefined` says why."""
    significant = tests.list_pairs(alpha, systems)
    n = int(tests.n.sum())
    reason = explain_empty(values, tests, alpha)
    return AspectPairs(
        pairs=len(significant),
        tested=tests.tested,
        n=n,
        left_out=len(values) - n,
        significant=significant,
        undefined={"pairs": reason} if reason else {},
    )


def explain_empty(values: Floats, tests: PairTests, alpha: float) -> str | None:
    """Why these items could not give any significant pair, or None where they could."""
    smallest = tests.smallest_p()
    if not tests.n.any():
        return "no item has a value"
    if smallest is None:
        return "one system has values: there is no pair to test"
    if smallest >= alpha:
        return f"so few items cannot give a p below {smallest:.2g}, and alpha is {alpha:g}"
    held = values[~np.isnan(values)]
    return "every item has the same value" if held.min() == held.max() else None


def explain_none(systems: Sequence[str], standings: Sequence[Standing]) -> dict[str, str]:
    """Why there could not be any dependency; empty where there could."""
    if len(systems) <= 1:
        return {"dependencies": f"{len(systems) or 'no'} system: dependency is between pairs of systems"}
    if len(standings) <= 1:
        return {"dependencies": f"{len(standings) or 'no'} aspect: dependency is between aspects"}
    if not any(standing.better.any() for standing in standings):
        return {"dependencies": "no aspect tells any two systems apart"}
    return {}
