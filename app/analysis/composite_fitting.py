"""The weights of a linear composite, from items of which humans rated both the parts and the whole (paper 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.analysis.hints import hint
from app.analysis.observations import Floats, Integers, Observations
from app.analysis.statistics import count, obstacle, pearson
from app.domain.composites import transform
from app.domain.errors import UnknownAspect
from app.domain.intervals import quantile_t
from app.domain.reports import CompositeFit
from app.domain.rubric import LinearComposite, Term
from app.domain.validation import clip


def fit_composite(
    observations: Observations, composite: LinearComposite, target: str, *, seed: int = 0, test_share: float = 0.2
) -> CompositeFit:
    """Least squares of the target's ratings on the composite's terms, judged on items that were held out.

    `test_share`, in (0, 1), of the items that have all values is held out, chosen by `seed`. Raises UnknownAspect where
    nobody rated the target or one of the aspects.
    """
    y = rated_means(observations, target) - composite.intercept
    x = np.column_stack([term_values(term, rated_means(observations, term.aspect)) for term in composite.terms])
    complete = ~np.isnan(y) & ~np.isnan(x).any(axis=1)
    # In an order that does not hang on that of the lines: the same seed must hold the same items out.
    order = observations.unit_order
    train, test = split(order[complete[order]], seed, test_share)
    names = term_names(composite.terms)
    declared = np.array([abs(term.weight) for term in composite.terms])
    undefined: dict[str, str] = {}
    fitted = least_squares(x[train], y[train], names)
    if isinstance(fitted, str):
        undefined |= dict.fromkeys(("weights", "intervals", "pearson"), fitted)
        weights, margins, reached = None, None, None
    else:
        weights, margins = fitted
        reached = judge(x[test] @ weights, y[test], "pearson", undefined)
        if margins is None:
            undefined["intervals"] = "there are no more items to fit on than weights"
    return CompositeFit(
        composite=composite.id,
        target=target,
        n=int(complete.sum()),
        left_out=observations.units - int(complete.sum()),
        train=len(train),
        test=len(test),
        seed=seed,
        weights={name: None if weights is None else float(weights[at]) for at, name in enumerate(names)},
        intervals={
            name: None
            if weights is None or margins is None
            else (float(weights[at] - margins[at]), float(weights[at] + margins[at]))
            for at, name in enumerate(names)
        },
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


def split(complete: Integers, seed: int, test_share: float) -> tuple[Integers, Integers]:
    """The units to fit on and those to judge on, of those that have all values."""
    shuffled = np.random.default_rng(seed).permutation(complete)
    held_out = round(test_share * len(shuffled))
    return np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])


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
    margins: Floats = quantile_t(freedom) * np.sqrt(variance * (axes**2).sum(axis=0))
    return weights, margins


def judge(predicted: Floats, y: Floats, name: str, undefined: dict[str, str]) -> float | None:
    """Pearson's r on the held-out items, or None with the reason noted under `name`."""
    reason = obstacle(predicted, y, "predictions", "ratings")
    if reason is not None:
        undefined[name] = f"on the held-out items: {reason}"
        return None
    return float(pearson(predicted, y))
