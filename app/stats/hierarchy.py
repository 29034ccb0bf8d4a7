"""Dependencies between aspects, and what is left of an aspect once another is removed from it (Tsuta & Yoshinaga 2024).

Section 3.1: an aspect that needs another first (a response that is not fluent cannot be relevant) tells apart all
systems that the other tells apart, in the same direction, and more. Y depends on X if D(X), the significant pairs of
systems, is not empty and a strict subset of D(Y).

Section 3.2: two methods remove x from y. `principal-axis` projects all items (x, y) of all systems on the principal
axis of their covariance that loads more on y, oriented so that this loading is positive. `residual` subtracts from y
its least-squares line on x. If x and y vary equally, both axes load equally on y; then the minor axis is taken, since
its projection has the smaller correlation with x, √((1 − |r|) / 2) rather than √((1 + |r|) / 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.reports import AspectPairs, Decorrelated, Decorrelation, Dependency, HierarchyReport
from saiten_server.stats.observations import Floats, Integers, Mask, Observations, refuse_uneven
from saiten_server.stats.statistics import (
    SUM_ROUNDING,
    PairTests,
    compare_systems,
    join_ties,
    refuse_many,
    refuse_wide,
    settled_means,
)


def find_hierarchy(
    observations: Observations, *, alpha: float = 0.01, method: Decorrelation = "principal-axis"
) -> HierarchyReport:
    """The significant pairs of every aspect and the dependencies between aspects, each with its decorrelation.

    On the items' rater means. An item without a value for an aspect is left out of that aspect, and out of a pair's
    decorrelation where either is missing. Raises InvalidRequest for an `alpha` that is not between 0 and 1, and for
    more systems, aspects and items than could be compared in a minute.
    """
    refuse_uneven(observations)
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
            Dependency(
                lower=lower.aspect,
                higher=higher.aspect,
                common=int((lower.better & higher.better).sum()),
                higher_only=int((higher.better & ~lower.better).sum()),
                decorrelated=count_changes(lower, higher, observations.unit_system, alpha, method),
            )
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


def explain_empty(values: Floats, tests: PairTests, alpha: float) -> Message | None:
    """Why these items could not give any significant pair, or None where they could."""
    smallest = tests.smallest_p()
    if not tests.n.any():
        return Message("no-item-has-value")
    if smallest is None:
        return Message("one-system-has-values")
    if smallest >= alpha:
        return Message("too-few-for-alpha", least=smallest, alpha=alpha)
    held = values[~np.isnan(values)]
    return Message("same-value") if held.min() == held.max() else None


def explain_none(systems: Sequence[str], standings: Sequence[Standing]) -> dict[str, Message]:
    """Why there could not be any dependency; empty where there could."""
    if len(systems) <= 1:
        return {"dependencies": Message("one-system" if systems else "no-system")}
    if len(standings) <= 1:
        return {"dependencies": Message("one-aspect" if standings else "no-aspect")}
    if not any(standing.better.any() for standing in standings):
        return {"dependencies": Message("nothing-told-apart")}
    return {}


EQUAL_SPREAD = 1e-9
"""Variances that differ by less, relative to their sum, are equal."""

FEWEST_OFF_LINE = 3
"""Two points lie on a line, whatever they are."""


@dataclass(frozen=True)
class Remainder:
    """`values` has the shape and unit of y, up to a constant; None where there are none, and `reason` says why."""

    values: Floats | None
    reason: Message | None = None


@dataclass(frozen=True)
class Standing:
    """How the systems stand on one aspect: its value by unit, shape (units,), NaN for none, and D as a mask (k, k)."""

    aspect: str
    values: Floats
    better: Mask


def decorrelate(x: Floats, y: Floats, method: Decorrelation) -> Remainder:
    """Takes `x` out of `y`, both of shape (n,) and without NaN. Points that are equal stay equal, to the last bit. Of
    finite numbers up to 1e300 the result is finite too."""
    if len(x) < FEWEST_OFF_LINE:
        return Remainder(None, Message("few-items-of-both-aspects", least=FEWEST_OFF_LINE))
    if is_constant(x):
        return Remainder(None, Message("same-lower-value"))
    if is_constant(y):
        return Remainder(None, Message("same-higher-value"))
    return subtract_line(x, y) if method == "residual" else project(x, y)


def is_constant(values: Floats) -> bool:
    """Whether only rounding tells the values apart."""
    top = float(np.abs(values).max())
    return float(np.ptp(values)) <= SUM_ROUNDING * top


def project(x: Floats, y: Floats) -> Remainder:
    """The principal axis that loads more on y. Undefined where the points spread equally in all directions."""
    scale = max(float(np.abs(x).max()), float(np.abs(y).max()))
    x, y = x / scale, y / scale
    (x_variance, covariance), (_, y_variance) = np.cov(x, y)
    gap, both = y_variance - x_variance, x_variance + y_variance
    if np.hypot(2 * covariance, gap) <= EQUAL_SPREAD * both:
        return Remainder(None, Message("no-principal-axis"))
    angle = 0.5 * float(np.arctan2(2 * covariance, -gap))
    across, along = float(np.cos(angle)), float(np.sin(angle))
    # (across, along) is the major axis, (-along, across) the minor; across is never negative.
    if gap > EQUAL_SPREAD * both:
        sign = 1.0 if along > 0 else -1.0
        return combine_tests(x, y, sign * across, sign * along, scale)
    return combine_tests(x, y, -along, across, scale)


def subtract_line(x: Floats, y: Floats) -> Remainder:
    """The residuals of y on x by least squares with intercept."""
    scale = float(np.abs(y).max())
    x, y = x / float(np.abs(x).max()), y / scale
    (x_variance, covariance), _ = np.cov(x, y)
    return combine_tests(x, y, -float(covariance / x_variance), 1.0, scale)


def combine_tests(x: Floats, y: Floats, x_weight: float, y_weight: float, scale: float) -> Remainder:
    """The weighted sum, with ties where only rounding tells values apart."""
    x, y = x_weight * x, y_weight * y
    return Remainder(join_ties(x + y, np.abs(x) + np.abs(y)) * scale)


def count_changes(
    lower: Standing, higher: Standing, unit_system: Integers, alpha: float, method: Decorrelation
) -> Decorrelated:
    """What becomes of the higher aspect's pairs. `unit_system`, of shape (units,), is each unit's system. Common are
    the pairs of both aspects, as counted before on all items of each; the test after has only the items that have both
    values, `n` of them."""
    held = ~(np.isnan(lower.values) | np.isnan(higher.values))
    remainder = decorrelate(lower.values[held], higher.values[held], method)
    changes: dict[str, int | None] = dict.fromkeys(("common_change", "higher_only_change", "new"))
    undefined: dict[str, Message] = {}
    if remainder.values is None:
        undefined = {name: remainder.reason for name in changes if remainder.reason is not None}
    else:
        after = compare_systems(remainder.values, unit_system[held], len(higher.better)).better(alpha)
        lost = higher.better & ~after
        changes["common_change"] = -int((lost & lower.better).sum())
        changes["higher_only_change"] = -int((lost & ~lower.better).sum())
        changes["new"] = int((after & ~higher.better).sum())
    return Decorrelated(method=method, n=int(held.sum()), left_out=int((~held).sum()), **changes, undefined=undefined)
