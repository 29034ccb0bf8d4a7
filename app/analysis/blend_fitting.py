"""The weight w of c + w(b − b̄), from items of which humans rated the aspect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from app.analysis.correlation import values_by_unit
from app.analysis.hints import hint
from app.analysis.observations import Floats, Integers, Observations, number_first
from app.analysis.resampling import (
    Counts,
    ResampledRanks,
    correlate_deviations,
    count_clusters,
    deviations,
    draw,
    interval_of,
)
from app.analysis.statistics import FEWEST, STATISTICS, Statistic, settled_means
from app.domain.errors import InvalidRequest, UnknownAspect
from app.domain.reports import BlendFit
from app.domain.validation import clip

GREATEST = 50.0
STEP = 0.5
DEFAULT = 10.0
WEIGHTS = np.arange(0, GREATEST + STEP, STEP)
NEGLIGIBLE = 1e-9
"""A correlation that is better by no more than this is not better: of equals, the smallest weight is chosen."""

RESAMPLES = 500
DRAWS = 2_000_000
MOST_ITEMS = 100_000
"""Each is resampled with every weight; of more, contexts are drawn."""

FEWEST_RESAMPLES = 100


def fit_blend(
    observations: Observations, aspect: str, *, folds: int = 5, seed: int = 0, statistic: Statistic = "spearman"
) -> BlendFit:
    """The weight that correlates best with the aspect's ratings, its scores being c and the similarity b.

    b̄ moves all values alike, and no correlation. What systems answered to the items of one dialogue is of one fold, and
    is drawn together. `folds` is at least 2. Of more than MOST_ITEMS items some clusters are drawn, and a note says so.
    Raises UnknownAspect where the aspect has no ratings or no scores, InvalidRequest where one cluster is too large.
    """
    c, b, y = columns_of(observations, aspect)
    complete = ~(np.isnan(c) | np.isnan(b) | np.isnan(y))
    # In an order that does not hang on that of the lines: the same seed must make the same folds.
    units = observations.unit_order[complete[observations.unit_order]]
    units = thin(units, number_first(observations.unit_cluster[units]), seed)
    thinned = () if len(units) == complete.sum() else (note_thinned(len(units), int(complete.sum())),)
    c, b, y = c[units], b[units], y[units]
    cluster = number_first(observations.unit_cluster[units])
    parts = [part for part in split(cluster, folds, seed) if len(part) >= FEWEST and np.ptp(y[part]) > 0]
    curves = np.array([curve(c[part], b[part], y[part], statistic) for part in parts]).reshape(len(parts), len(WEIGHTS))
    undefined: dict[str, str] = {}
    reason = hindrance(c, b, parts)
    resamples = 0 if reason else max(FEWEST_RESAMPLES, min(RESAMPLES, DRAWS // len(y)))
    if reason:
        undefined |= dict.fromkeys(("weight", "interval", "correlation"), reason)
    interval: tuple[float, float] | str | None = None
    if not reason:
        drawn = resampled_weights(c, b, y, cluster, parts, resamples=resamples, seed=seed, statistic=statistic)
        interval = interval_of(drawn, count_clusters(cluster))
    if isinstance(interval, str):
        undefined["interval"] = interval
        interval = None
    weight = None if reason else float(WEIGHTS[best(curves)])
    return BlendFit(
        aspect=aspect,
        n=len(y),
        clusters=count_clusters(cluster),
        left_out=observations.units - int(complete.sum()),
        folds=folds,
        seed=seed,
        statistic=statistic,
        weight=weight,
        interval=interval,
        correlation=None if reason else nested(curves),
        unblended=at_weight(curves, 0.0, "unblended", undefined),
        default=at_weight(curves, DEFAULT, "default", undefined),
        tried=(0.0, GREATEST),
        resamples=resamples,
        notes=(*thinned, *find_notes(curves, weight, interval)),
        undefined=undefined,
    )


def find_notes(curves: Floats, weight: float | None, interval: tuple[float, float] | None) -> Iterator[str]:
    """Where the choice, or its interval, ends only because no greater weight was tried."""
    if weight is None:
        return
    means = np.nan_to_num(curves).mean(axis=0)
    if weight >= GREATEST:
        yield f"{GREATEST:g} is the greatest weight tried: a greater one may do better"
    elif means[-1] >= means.max() - NEGLIGIBLE:
        yield f"{GREATEST:g}, the greatest weight tried, does as well as {weight:g}: the items set it no bound"
    elif interval is not None and interval[1] >= GREATEST:
        yield f"the interval ends at {GREATEST:g}, the greatest weight tried"


def columns_of(observations: Observations, aspect: str) -> tuple[Floats, Floats, Floats]:
    """Scores, similarity and rater means by unit, shapes (units,), NaN where there is none."""
    for columns, what in ((observations.ratings, "ratings"), (observations.scores, "scores")):
        if aspect not in columns:
            raise UnknownAspect(f"the aspect {clip(aspect)!r} has no {what}{hint(aspect, columns)}")
    similarity = observations.similarity
    return (
        values_by_unit(observations, observations.scores[aspect]),
        np.full(observations.units, np.nan) if similarity is None else values_by_unit(observations, similarity),
        settled_means(observations, observations.ratings[aspect]),
    )


def thin(units: Integers, cluster: Integers, seed: int) -> Integers:
    """The units of whole clusters, drawn by the seed, as many as MOST_ITEMS has room for; all where it has for all.

    `cluster`, of shape (n,), is each unit's. Raises InvalidRequest where one cluster alone is too large.
    """
    if len(units) <= MOST_ITEMS:
        return units
    held = np.bincount(cluster)
    if held.max() > MOST_ITEMS:
        raise InvalidRequest(f"one item or dialogue has {held.max():,} answers; at most {MOST_ITEMS:,} are taken")
    drawn = np.random.default_rng((seed, len(held))).permutation(len(held))
    chosen = np.zeros(len(held), dtype=bool)
    chosen[drawn[np.cumsum(held[drawn]) <= MOST_ITEMS]] = True
    return units[chosen[cluster]]


def note_thinned(kept: int, of: int) -> str:
    """That not all items were fitted on."""
    return f"fitted on {kept:,} of {of:,} items, in whole clusters drawn by the seed: more would say hardly more"


def split(cluster: Integers, folds: int, seed: int) -> list[Integers]:
    """The items' numbers in as many parts as there are folds, by chance. `cluster`, of shape (n,), is each item's: the
    parts have whole clusters, and their numbers differ by 1 at most."""
    shuffled = np.random.default_rng(seed).permutation(count_clusters(cluster))
    return [np.flatnonzero(np.isin(cluster, part)) for part in np.array_split(shuffled, folds)]


def curve(c: Floats, b: Floats, y: Floats, statistic: Statistic) -> Floats:
    """The correlation of c + w·b with y for each weight, shape (weights,); NaN where all blended values are equal."""
    return np.array([STATISTICS[statistic](c + weight * b, y) for weight in WEIGHTS])


def hindrance(c: Floats, b: Floats, parts: list[Integers]) -> str | None:
    """Why no weight can be chosen; None where one can."""
    if not len(b):
        return "no item has a score, a similarity and a rating"
    if len(parts) < 2:
        return f"fewer than two folds have {FEWEST} items whose ratings differ"
    if all(np.ptp(b[part]) == 0 for part in parts):
        return "the similarity is the same on all items, and no weight does better than another"
    if all(np.ptp(c[part]) == 0 for part in parts):
        return "the score is the same on all items, and every weight above 0 does as well as another"
    return None


def best(curves: Floats) -> Integers:
    """The place of the weight with the highest mean over folds, from shape (folds, weights, …) to (…).

    Values that are all equal correlate with nothing: 0. Of equal weights it is the smallest.
    """
    means = np.nan_to_num(curves).mean(axis=0)
    chosen: Integers = np.argmax(means >= means.max(axis=0) - NEGLIGIBLE, axis=0)
    return chosen


def nested(curves: Floats) -> float:
    """Each fold's correlation at the weight that the other folds chose, averaged."""
    folds = range(len(curves))
    return float(np.mean([np.nan_to_num(curves[fold, best(np.delete(curves, fold, axis=0))]) for fold in folds]))


def at_weight(curves: Floats, weight: float, name: str, undefined: dict[str, str]) -> float | None:
    """The mean over folds at one weight, or None with the reason noted under `name`."""
    known = curves[:, int(np.argmin(np.abs(WEIGHTS - weight)))]
    if not len(known):
        undefined[name] = f"no fold has {FEWEST} items whose ratings differ"
        return None
    if np.isnan(known).any():
        undefined[name] = f"at the weight {weight:g} all values of a fold are equal"
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
        blended = [Resampled(c[part] + weight * b[part], statistic) for weight in WEIGHTS]
        rated = Resampled(y[part], statistic)
        start = 0
        for counts in draw(number_first(cluster[part]), resamples, (seed, number)):
            stop = start + len(counts)
            total[:, start:stop] += resampled_curve(blended, rated, counts)
            start = stop
    return WEIGHTS[best(total[None])]


class Resampled:
    """A column, shape (n,), as the statistic takes it in a resample: its deviations, or those of its ranks."""

    def __init__(self, values: Floats, statistic: Statistic) -> None:
        self._values = values
        self._ranks = ResampledRanks(values) if statistic == "spearman" else None

    def of(self, counts: Counts) -> Floats:
        """Shape (resamples, n)."""
        return deviations(counts, self._values if self._ranks is None else self._ranks.of(counts))


def resampled_curve(blended: Sequence[Resampled], rated: Resampled, counts: Counts) -> Floats:
    """The correlation by weight and resample, shape (weights, resamples), 0 where there is none."""
    places = rated.of(counts)
    found = np.array([correlate_deviations(counts, values.of(counts), places) for values in blended])
    known: Floats = np.nan_to_num(found)
    return known
