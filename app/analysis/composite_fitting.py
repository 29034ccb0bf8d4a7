"""The weights of a linear composite, from items of which humans rated both the parts and the whole (paper 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from app.analysis.hints import hint
from app.analysis.observations import Floats, Integers, Mask, Observations, number_first
from app.analysis.resampling import count_clusters, draw, interval_of
from app.analysis.statistics import count, obstacle, pearson
from app.domain.composites import transform
from app.domain.errors import UnknownAspect
from app.domain.reports import CompositeFit
from app.domain.rubric import LinearComposite, Term
from app.domain.validation import clip

RESAMPLES = 2000
WORST_CONDITION = 1e12
"""Of the normal equations: beyond it weights are rounding."""


def fit_composite(
    observations: Observations, composite: LinearComposite, target: str, *, seed: int = 0, test_share: float = 0.2
) -> CompositeFit:
    """Least squares of the target's ratings on the composite's terms, judged on items that were held out.

    About `test_share`, in (0, 1), of the items that have all values is held out, chosen by `seed`, in whole clusters:
    what several systems answered to one question, or to the questions of one dialogue, stays together. Raises
    UnknownAspect where nobody rated the target or one of the aspects.
    """
    y = rated_means(observations, target) - composite.intercept
    x = np.column_stack([term_values(term, rated_means(observations, term.aspect)) for term in composite.terms])
    complete = ~np.isnan(y) & ~np.isnan(x).any(axis=1)
    # In an order that does not hang on that of the lines: the same seed must hold the same items out.
    units = observations.unit_order[complete[observations.unit_order]]
    cluster = number_first(observations.unit_cluster[units])
    held_out = hold_out(cluster, seed, test_share)
    train, test = np.sort(units[~held_out]), np.sort(units[held_out])
    names = term_names(composite.terms)
    declared = np.array([abs(term.weight) for term in composite.terms])
    undefined: dict[str, str] = {}
    fitted = least_squares(x[train], y[train], names)
    intervals: dict[str, tuple[float, float] | None] = dict.fromkeys(names)
    if isinstance(fitted, str):
        undefined |= dict.fromkeys(("weights", "intervals", "pearson"), fitted)
        weights, reached = None, None
    else:
        weights = fitted[0]
        reached = judge(x[test] @ weights, y[test], "pearson", undefined)
        own = number_first(observations.unit_cluster[train])
        spans = interval_weights(x[train], y[train], fitted, own, seed)
        if isinstance(spans, str):
            undefined["intervals"] = spans
        else:
            intervals |= zip(names, spans, strict=True)
    return CompositeFit(
        composite=composite.id,
        target=target,
        n=int(complete.sum()),
        clusters=count_clusters(cluster),
        left_out=observations.units - int(complete.sum()),
        train=len(train),
        test=len(test),
        seed=seed,
        weights={name: None if weights is None else float(weights[at]) for at, name in enumerate(names)},
        intervals=intervals,
        declared=dict(zip(names, map(float, declared), strict=True)),
        pearson=reached,
        declared_pearson=judge(x[test] @ declared, y[test], "declared_pearson", undefined),
        undefined=undefined,
    )


def rated_means(observations: Observations, aspect: str) -> Floats:
    """The aspect's rater means by unit, shape (units,); raises UnknownAspect where it has no ratings."""
    if aspect not in observations.ratings:
        known = observations.ratings
        raise UnknownAspect(f"nobody rated the aspect {clip(aspect)!r}{hint(aspect, known)}")
    return observations.means(observations.ratings[aspect])


def term_values(term: Term, ratings: Floats) -> Floats:
    """The transformed aspect of shape (units,), with the sign of the term's weight: weights then are positive."""
    sign = -1.0 if term.weight < 0 else 1.0
    return np.array([sign * transform(term.transform, rating) for rating in ratings])


def term_names(terms: Sequence[Term]) -> list[str]:
    """The terms' aspects; one that stands in several terms is numbered from its second term on."""
    names: list[str] = []
    for term in terms:
        before = sum(other.aspect == term.aspect for other in terms[: len(names)])
        names.append(f"{term.aspect} ({before + 1})" if before else term.aspect)
    return names


def hold_out(cluster: Integers, seed: int, test_share: float) -> Mask:
    """Which units to judge on, shape (n,): those of whole clusters, drawn until about that share is reached.

    `cluster`, of shape (n,), is each unit's, numbered from 0 without gaps.
    """
    shuffled = np.random.default_rng(seed).permutation(count_clusters(cluster))
    reached = np.concatenate([[0], np.cumsum(np.bincount(cluster)[shuffled])]) if len(cluster) else np.zeros(1)
    enough = int(np.argmin(np.abs(reached - round(test_share * len(cluster)))))
    held_out: Mask = np.isin(cluster, shuffled[:enough])
    return held_out


def interval_weights(
    x: Floats, y: Floats, fitted: tuple[Floats, Floats | None], cluster: Integers, seed: int
) -> list[tuple[float, float]] | str:
    """The 95 % interval of each of the fitted weights, or why there is none. `cluster`, of shape (n,), is each unit's.

    By the half widths of `fitted` where each unit is a cluster of its own. Else clusters are drawn and fitted again:
    what the errors of one cluster have in common makes these half widths too narrow.
    """
    weights, margins = fitted
    if margins is None:
        return "there are no more items to fit on than weights"
    if count_clusters(cluster) == len(y):
        return [(float(low), float(high)) for low, high in zip(weights - margins, weights + margins, strict=True)]
    found = []
    for column in refit(x, y, cluster, seed).T:
        interval = interval_of(column, count_clusters(cluster))
        if isinstance(interval, str):
            return interval
        found.append(interval)
    return found


def refit(x: Floats, y: Floats, cluster: Integers, seed: int) -> Floats:
    """The weights of RESAMPLES resamples of the clusters, shape (resamples, terms); NaN where the terms depend on each
    other linearly."""
    clusters, terms = count_clusters(cluster), x.shape[1]
    squares, products = np.zeros((clusters, terms, terms)), np.zeros((clusters, terms))
    np.add.at(squares, cluster, x[:, :, None] * x[:, None, :])
    np.add.at(products, cluster, x * y[:, None])
    found = []
    for counts in draw(np.arange(clusters), RESAMPLES, seed):
        normal = np.tensordot(counts.astype(np.float64), squares, axes=1)
        fits = np.linalg.cond(normal) < WORST_CONDITION
        normal[~fits] = np.eye(terms)
        solved = np.linalg.solve(normal, (counts @ products)[:, :, None])[:, :, 0]
        solved[~fits] = np.nan
        found.append(solved)
    return np.concatenate(found)


def least_squares(x: Floats, y: Floats, names: Sequence[str]) -> tuple[Floats, Floats | None] | str:
    """Weights without intercept, shape (terms,), and the half widths of their 95 % t intervals; or why there are none.

    `x` has shape (n, terms), `y` shape (n,). Half widths are None where no degree of freedom is left.
    """
    still = [name for name, column in zip(names, x.T, strict=True) if not column.any()]
    if len(y) < len(names):
        return f"{count(len(y), 'item')} to fit on for {count(len(names), 'weight')}"
    if still:
        return f"the term of {still[0]} is 0 on every item to fit on"
    found, _, independent, singular = np.linalg.lstsq(x, y, rcond=None)
    if independent < len(names):
        return "the terms depend on each other linearly on the items to fit on"
    weights: Floats = found.astype(np.float64)
    freedom = len(y) - len(names)
    if not freedom:
        return weights, None
    variance = float(((y - x @ weights) ** 2).sum()) / freedom
    # With x = U S Vᵀ the inverse of xᵀx is V S⁻² Vᵀ: no product is squared that need not be.
    axes = np.linalg.svd(x, full_matrices=False)[2] / singular[:, None]
    margins: Floats = stdtrit(freedom, 0.975) * np.sqrt(variance * (axes**2).sum(axis=0))
    return weights, margins


def judge(predicted: Floats, y: Floats, name: str, undefined: dict[str, str]) -> float | None:
    """Pearson's r on the held-out items, or None with the reason noted under `name`."""
    reason = obstacle(predicted, y, "predictions", "ratings")
    if reason is not None:
        undefined[name] = f"on the held-out items: {reason}"
        return None
    return float(pearson(predicted, y))
