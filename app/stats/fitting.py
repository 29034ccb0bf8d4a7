"""Weights fitted to human ratings: of the relevance term in a blend, and of the terms of a composite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtrit

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, UnknownAspect
from saiten_server.core.reports import BlendFit, CompositeFit
from saiten_server.core.rubric import LinearComposite, transform
from saiten_server.core.validation import clip, suggest_name
from saiten_server.stats import resampling
from saiten_server.stats.correlation import values_by_unit
from saiten_server.stats.observations import Floats, Integers, Mask, Observations, number_first, refuse_uneven
from saiten_server.stats.phrases import tell_count
from saiten_server.stats.statistics import FEWEST_CORRELATED, STATISTICS, Statistic, obstacle, pearson, settled_means

RESAMPLES = 2000
WORST_CONDITION = 1e12
"""Of the normal equations: beyond it weights are rounding."""


def fit_composite(
    observations: Observations, composite: LinearComposite, target: str, *, seed: int = 0, test_share: float = 0.2
) -> CompositeFit:
    """Least squares of the target's ratings on the composite's terms, judged on items that were held out.

    About `test_share`, in (0, 1), of the items that have all values is held out, chosen by `seed`, in whole clusters:
    what several systems answered to one question, or to the questions of one dialogue, stays together. Raises
    UnknownAspect if the target or one of the aspects has no ratings.
    """
    refuse_uneven(observations)
    y = rated_means(observations, target) - composite.intercept
    columns = []
    for term in composite.terms:
        sign = -1.0 if term.weight < 0 else 1.0  # weights then are positive
        ratings = rated_means(observations, term.aspect)
        columns.append([sign * transform(term.transform, rating) for rating in ratings])
    x = np.column_stack(columns)
    complete = ~np.isnan(y) & ~np.isnan(x).any(axis=1)
    # In an order that does not hang on that of the lines: the same seed must hold the same items out.
    units = observations.unit_order[complete[observations.unit_order]]
    cluster = number_first(observations.unit_cluster[units])
    held_out = hold_out(cluster, seed, test_share)
    train, test = np.sort(units[~held_out]), np.sort(units[held_out])
    aspects = [term.aspect for term in composite.terms]
    # An aspect that several terms have is numbered from its second term on.
    before = [aspects[:place].count(aspect) for place, aspect in enumerate(aspects)]
    names = [f"{aspect} ({n + 1})" if n else aspect for aspect, n in zip(aspects, before, strict=True)]
    declared = np.array([abs(term.weight) for term in composite.terms])
    undefined: dict[str, Message] = {}
    fitted = least_squares(x[train], y[train], names)
    intervals: dict[str, tuple[float, float] | None] = dict.fromkeys(names)
    if isinstance(fitted, Message):
        undefined |= dict.fromkeys(("weights", "intervals", "pearson"), fitted)
        weights, reached = None, None
    else:
        weights = fitted[0]
        reached = judge_prediction(x[test] @ weights, y[test], "pearson", undefined)
        own = number_first(observations.unit_cluster[train])
        spans = interval_weights(x[train], y[train], fitted, own, seed)
        if isinstance(spans, Message):
            undefined["intervals"] = spans
        else:
            intervals |= zip(names, spans, strict=True)
    return CompositeFit(
        composite=composite.id,
        target=target,
        n=int(complete.sum()),
        clusters=resampling.count_clusters(cluster),
        left_out=observations.units - int(complete.sum()),
        train=len(train),
        test=len(test),
        seed=seed,
        weights={name: None if weights is None else float(weights[at]) for at, name in enumerate(names)},
        intervals=intervals,
        declared=dict(zip(names, map(float, declared), strict=True)),
        pearson=reached,
        declared_pearson=judge_prediction(x[test] @ declared, y[test], "declared_pearson", undefined),
        undefined=undefined,
    )


def rated_means(observations: Observations, aspect: str) -> Floats:
    """The aspect's rater means by unit, shape (units,); raises UnknownAspect where it has no ratings."""
    if aspect not in observations.ratings:
        known = observations.ratings
        raise UnknownAspect(
            Message("aspect-without-ratings", aspect=repr(clip(aspect)), near=suggest_name(aspect, known))
        )
    return observations.means(observations.ratings[aspect])


def hold_out(cluster: Integers, seed: int, test_share: float) -> Mask:
    """Which units to judge on, shape (n,): those of whole clusters, drawn until about that share is reached. `cluster`,
    of shape (n,), is each unit's, numbered from 0 without gaps."""
    shuffled = np.random.default_rng(seed).permutation(resampling.count_clusters(cluster))
    reached = np.concatenate([[0], np.cumsum(np.bincount(cluster)[shuffled])]) if len(cluster) else np.zeros(1)
    enough = int(np.argmin(np.abs(reached - round(test_share * len(cluster)))))
    return np.isin(cluster, shuffled[:enough])


def interval_weights(
    x: Floats, y: Floats, fitted: tuple[Floats, Floats | None], cluster: Integers, seed: int
) -> list[tuple[float, float]] | Message:
    """The 95% interval of each of the fitted weights, or why there is none. `cluster`, of shape (n,), is each unit's.
    By the half widths of `fitted` where each unit is a cluster of its own. Else clusters are drawn and fitted again:
    what the errors of one cluster have in common makes these half widths too narrow."""
    weights, margins = fitted
    if margins is None:
        return Message("no-more-items-than-weights")
    if resampling.count_clusters(cluster) == len(y):
        return [(float(low), float(high)) for low, high in zip(weights - margins, weights + margins, strict=True)]
    found = []
    for column in refit(x, y, cluster, seed).T:
        interval = resampling.interval_of(column, resampling.count_clusters(cluster))
        if isinstance(interval, Message):
            return interval
        found.append(interval)
    return found


def refit(x: Floats, y: Floats, cluster: Integers, seed: int) -> Floats:
    """The weights of RESAMPLES resamples of the clusters, shape (resamples, terms); NaN where the terms depend on each
    other linearly."""
    clusters, terms = resampling.count_clusters(cluster), x.shape[1]
    squares, products = np.zeros((clusters, terms, terms)), np.zeros((clusters, terms))
    np.add.at(squares, cluster, x[:, :, None] * x[:, None, :])
    np.add.at(products, cluster, x * y[:, None])
    found = []
    for counts in resampling.draw_clusters(np.arange(clusters), RESAMPLES, seed):
        normal = np.tensordot(counts.astype(np.float64), squares, axes=1)
        fits = np.linalg.cond(normal) < WORST_CONDITION
        normal[~fits] = np.eye(terms)
        solved = np.linalg.solve(normal, (counts @ products)[:, :, None])[:, :, 0]
        solved[~fits] = np.nan
        found.append(solved)
    return np.concatenate(found)


AS_GOOD_AS_ZERO = 1e-100
"""Values of a term below which its weight, and what the squares of its error come to, would be beyond all numbers."""


def least_squares(x: Floats, y: Floats, names: Sequence[str]) -> tuple[Floats, Floats | None] | Message:
    """Weights without intercept, shape (terms,), and the half widths of their 95% t intervals; or why there are none.
    `x` has shape (n, terms), `y` shape (n,). Half widths are None where no degree of freedom is left."""
    still = [name for name, column in zip(names, x.T, strict=True) if np.abs(column).max(initial=0.0) < AS_GOOD_AS_ZERO]
    if len(y) < len(names):
        return Message(
            "fewer-items-than-weights", items=tell_count(len(y), "item"), weights=tell_count(len(names), "weight")
        )
    if still:
        return Message("term-is-zero", term=still[0])
    found, _, independent, singular = np.linalg.lstsq(x, y, rcond=None)
    if independent < len(names):
        return Message("terms-depend")
    weights: Floats = found.astype(np.float64)
    freedom = len(y) - len(names)
    if not freedom:
        return weights, None
    variance = float(((y - x @ weights) ** 2).sum()) / freedom
    # With x = U S Vᵀ the inverse of xᵀx is V S⁻² Vᵀ: no product is squared that need not be.
    axes = np.linalg.svd(x, full_matrices=False)[2] / singular[:, None]
    margins: Floats = stdtrit(freedom, 0.975) * np.sqrt(variance * (axes**2).sum(axis=0))
    return weights, margins


def judge_prediction(predicted: Floats, y: Floats, name: str, undefined: dict[str, Message]) -> float | None:
    """Pearson's r on the held-out items, or None with the reason noted under `name`."""
    reason = obstacle(predicted, y, Message("predictions-equal"))
    if reason is not None:
        undefined[name] = Message("on-held-out-items", reason=reason)
        return None
    return float(pearson(predicted, y))


GREATEST = 50.0
WEIGHT_STEP = 0.5
DEFAULT_WEIGHT = 10.0
WEIGHTS = np.arange(0, GREATEST + WEIGHT_STEP, WEIGHT_STEP)
NEGLIGIBLE = 1e-9
"""A correlation that is better by no more than this is not better: of equals, the smallest weight is chosen."""

BLEND_RESAMPLES = 500
MOST_DRAWN_VALUES = 2_000_000
MOST_RESAMPLED_ITEMS = 100_000
"""Each is resampled with every weight; of more, contexts are drawn."""

FEWEST_RESAMPLES = 100


def fit_blend(
    observations: Observations, aspect: str, *, folds: int = 5, seed: int = 0, statistic: Statistic = "spearman"
) -> BlendFit:
    """The weight that correlates best with the aspect's ratings, its scores being c and the similarity b.

    b̄ moves all values alike, and no correlation. What systems answered to the items of one dialogue is of one fold, and
    is drawn together. `folds` is at least 2. Of more than MOST_RESAMPLED_ITEMS items some clusters are drawn, and a
    note says so. Raises UnknownAspect where the aspect has no ratings or no scores, InvalidRequest where one cluster is
    too large.
    """
    refuse_uneven(observations)
    c, b, y = columns_of(observations, aspect)
    complete = ~(np.isnan(c) | np.isnan(b) | np.isnan(y))
    # In an order that does not hang on that of the lines: the same seed must make the same folds.
    units = observations.unit_order[complete[observations.unit_order]]
    units = thin(units, number_first(observations.unit_cluster[units]), seed)
    kept, held = len(units), int(complete.sum())
    thinned = Message("fitted-on-some", items=kept, of=held)
    c, b, y = c[units], b[units], y[units]
    cluster = number_first(observations.unit_cluster[units])
    parts = [
        part for part in split_folds(cluster, folds, seed) if len(part) >= FEWEST_CORRELATED and np.ptp(y[part]) > 0
    ]
    correlate = STATISTICS[statistic]
    curves = np.array([[correlate(c[part] + weight * b[part], y[part]) for weight in WEIGHTS] for part in parts])
    curves = curves.reshape(len(parts), len(WEIGHTS))
    undefined: dict[str, Message] = {}
    reason = hindrance(c, b, parts)
    resamples = 0 if reason else max(FEWEST_RESAMPLES, min(BLEND_RESAMPLES, MOST_DRAWN_VALUES // len(y)))
    if reason:
        undefined |= dict.fromkeys(("weight", "interval", "correlation"), reason)
    interval: tuple[float, float] | Message | None = None
    if not reason:
        drawn = resampled_weights(c, b, y, cluster, parts, resamples=resamples, seed=seed, statistic=statistic)
        interval = resampling.interval_of(drawn, resampling.count_clusters(cluster))
    if isinstance(interval, Message):
        undefined["interval"] = interval
        interval = None
    weight = None if reason else float(WEIGHTS[best(curves)])
    return BlendFit(
        aspect=aspect,
        n=len(y),
        clusters=resampling.count_clusters(cluster),
        left_out=observations.units - held,
        folds=folds,
        seed=seed,
        statistic=statistic,
        weight=weight,
        interval=interval,
        correlation=None if reason else nested(curves),
        unblended=at_weight(curves, 0.0, "unblended", undefined),
        default=at_weight(curves, DEFAULT_WEIGHT, "default", undefined),
        tried=(0.0, GREATEST),
        resamples=resamples,
        notes=(*([thinned] if kept < held else []), *find_notes(curves, weight, interval)),
        undefined=undefined,
    )


def find_notes(curves: Floats, weight: float | None, interval: tuple[float, float] | None) -> Iterator[Message]:
    """Where the choice, or its interval, ends only because no greater weight was tried."""
    if weight is None:
        return
    means = np.nan_to_num(curves).mean(axis=0)
    if weight >= GREATEST:
        yield Message("greatest-weight", greatest=GREATEST)
    elif means[-1] >= means.max() - NEGLIGIBLE:
        yield Message("greatest-weight-does-as-well", greatest=GREATEST, weight=weight)
    elif interval is not None and interval[1] >= GREATEST:
        yield Message("interval-ends-at-greatest-weight", greatest=GREATEST)


def columns_of(observations: Observations, aspect: str) -> tuple[Floats, Floats, Floats]:
    """Scores, similarity and rater means by unit, shapes (units,), NaN where there is none."""
    name = clip(aspect)
    if aspect not in observations.ratings:
        near = suggest_name(aspect, observations.ratings)
        raise UnknownAspect(Message("aspect-without-ratings", aspect=repr(name), near=near))
    if aspect not in observations.scores:
        near = suggest_name(aspect, observations.scores)
        raise UnknownAspect(Message("aspect-without-scores", aspect=repr(name), near=near))
    similarity = observations.similarity
    return (
        values_by_unit(observations, observations.scores[aspect]),
        np.full(observations.units, np.nan) if similarity is None else values_by_unit(observations, similarity),
        settled_means(observations, observations.ratings[aspect]),
    )


def thin(units: Integers, cluster: Integers, seed: int) -> Integers:
    """The units of whole clusters, drawn by the seed, as many as MOST_RESAMPLED_ITEMS has room for; all where it has
    for all. `cluster`, of shape (n,), is each unit's. Raises InvalidRequest where one cluster alone is too large."""
    if len(units) <= MOST_RESAMPLED_ITEMS:
        return units
    held = np.bincount(cluster)
    if held.max() > MOST_RESAMPLED_ITEMS:
        raise InvalidRequest(Message("answers-most", count=held.max(), maximum=MOST_RESAMPLED_ITEMS))
    drawn = np.random.default_rng((seed, len(held))).permutation(len(held))
    chosen = np.zeros(len(held), dtype=bool)
    chosen[drawn[np.cumsum(held[drawn]) <= MOST_RESAMPLED_ITEMS]] = True
    return units[chosen[cluster]]


def split_folds(cluster: Integers, folds: int, seed: int) -> list[Integers]:
    """The items' numbers in as many parts as there are folds, by chance. `cluster`, of shape (n,), is each item's: the
    parts have whole clusters, and their numbers differ by 1 at most."""
    shuffled = np.random.default_rng(seed).permutation(resampling.count_clusters(cluster))
    return [np.flatnonzero(np.isin(cluster, part)) for part in np.array_split(shuffled, folds)]


def hindrance(c: Floats, b: Floats, parts: list[Integers]) -> Message | None:
    """Why no weight can be chosen; None where one can."""
    if not len(b):
        return Message("no-complete-item")
    if len(parts) < 2:
        return Message("few-folds", least=FEWEST_CORRELATED)
    if all(np.ptp(b[part]) == 0 for part in parts):
        return Message("same-similarity")
    if all(np.ptp(c[part]) == 0 for part in parts):
        return Message("same-score")
    return None


def best(curves: Floats) -> Integers:
    """The place of the weight with the highest mean over folds, from shape (folds, weights, …) to (…). Values that are
    all equal correlate with nothing: 0. Of equal weights it is the smallest."""
    means = np.nan_to_num(curves).mean(axis=0)
    chosen: Integers = np.argmax(means >= means.max(axis=0) - NEGLIGIBLE, axis=0)
    return chosen


def nested(curves: Floats) -> float:
    """Each fold's correlation at the weight that the other folds chose, averaged."""
    folds = range(len(curves))
    return float(np.mean([np.nan_to_num(curves[fold, best(np.delete(curves, fold, axis=0))]) for fold in folds]))


def at_weight(curves: Floats, weight: float, name: str, undefined: dict[str, Message]) -> float | None:
    """The mean over folds at one weight, or None with the reason noted under `name`."""
    known = curves[:, int(np.argmin(np.abs(WEIGHTS - weight)))]
    if not len(known):
        undefined[name] = Message("no-fold", least=FEWEST_CORRELATED)
        return None
    if np.isnan(known).any():
        undefined[name] = Message("fold-equal", weight=weight)
        return None
    return float(known.mean())


def resampled_weights(
    c: Floats,
    b: Floats,
    y: Floats,
    cluster: Integers,
    parts: list[Integers],
    *,
    resamples: int,
    seed: int,
    statistic: Statistic,
) -> Floats:
    """The weight that each resample of the clusters, fold by fold, chooses; shape (resamples,)."""
    total = np.zeros((len(WEIGHTS), resamples))
    for number, part in enumerate(parts):
        blended = [deviate(c[part] + weight * b[part], statistic) for weight in WEIGHTS]
        rated = deviate(y[part], statistic)
        start = 0
        for counts in resampling.draw_clusters(number_first(cluster[part]), resamples, (seed, number)):
            places = rated(counts)
            found = np.array([resampling.correlate_deviations(counts, values(counts), places) for values in blended])
            total[:, start : start + len(counts)] += np.nan_to_num(found)
            start += len(counts)
    return WEIGHTS[best(total[None])]


def deviate(values: Floats, statistic: Statistic) -> resampling.Figure:
    """The deviations of a column, shape (n,), or of its ranks, in each resample; of shape (resamples, n)."""
    ranks = resampling.ResampledRanks(values) if statistic == "spearman" else None
    return lambda counts: resampling.deviations(counts, values if ranks is None else ranks.of(counts))
