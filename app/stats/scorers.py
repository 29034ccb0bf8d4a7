"""Scorers side by side: which judge, path, blend or metric agrees best with the same human ratings.

After table 5 of the Japanese paper and table 1 of the long-form one, with intervals, and with a test of whether two
scorers really differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr

from app.domain.errors import InvalidRequest
from app.domain.reports import AspectScorers, JudgesReport, ScorerCorrelation, ScorerDifference
from app.domain.validation import clip
from app.stats.agreement import confuse
from app.stats.correlation import TOO_MANY, ceiling_of, correlations, values_by_unit
from app.stats.observations import NO_DIALOGUE, NO_RATER, Floats, Integers, Observations, number_first
from app.stats.resampling import (
    COEFFICIENTS,
    NANOSECONDS,
    afford,
    count_clusters,
    interval_of,
    resample,
)
from app.stats.statistics import adjust_holm, settled_means

MOST_SCORERS = 32
"""Scorers of one aspect: 496 pairs."""

MOST_RECORDS = 100_000


@dataclass(frozen=True)
class Bootstrap:
    """How the correlations are resampled: how often, from which seed, and for about how many nanoseconds a scorer."""

    resamples: int
    seed: int
    nanoseconds: float


def compare_scorers(
    observations: Observations, *, match: Mapping[str, str] | None = None, resamples: int = 2000, seed: int = 0
) -> JudgesReport:
    """Every scorer of every aspect, whose columns are named `scorer:aspect`, against the rater means.

    An aspect's scorers are compared on the units that all of them have, in the same resamples of whole clusters. With
    `match`, a scorer's value of that name is compared with the rating of another (`mate`: `acceptability`) and stands
    as `SCORER (mate)`. Raises InvalidRequest where there is no score, or none of a matched name."""
    columns = group_columns(observations, match or {})
    if not columns:
        detail = "no record has scores by a scorer; each has them as an object of scorers"
        raise InvalidRequest(detail, pointer="/data")
    for rating, scorers in columns.items():
        if len(scorers) > MOST_SCORERS:
            raise InvalidRequest(f"{clip(rating)!r} has {len(scorers)} scorers; {MOST_SCORERS} may be", pointer="/data")
    compared = {rating: scorers for rating, scorers in columns.items() if rating in observations.ratings}
    bootstrap = Bootstrap(resamples, seed, NANOSECONDS / max(1, sum(map(len, compared.values()))))
    return JudgesReport(
        systems=len(observations.systems),
        items=observations.units,
        raters=len(observations.raters),
        clusters=None if observations.dialogue is None else len(np.unique(observations.unit_cluster)),
        resamples=resamples,
        seed=seed,
        aspects={
            rating: compare_aspect(observations, rating, scorers, bootstrap) for rating, scorers in compared.items()
        },
        unmatched={
            **{aspect: "only the ratings have it" for aspect in observations.ratings if aspect not in columns},
            **{aspect: "only the scores have it" for aspect in columns if aspect not in compared},
        },
    )


def group_columns(observations: Observations, match: Mapping[str, str]) -> dict[str, dict[str, Floats]]:
    """Columns of scores by the rating that they are compared with and the scorer's name. Raises InvalidRequest."""
    found: dict[str, dict[str, Floats]] = {rating: {} for rating in observations.ratings}
    matched: set[str] = set()
    for name, column in observations.scores.items():
        scorer, _, aspect = name.rpartition(":")
        if aspect in match:
            matched.add(aspect)
            found.setdefault(match[aspect], {})[f"{scorer} ({aspect})"] = column
        if aspect not in match or aspect in observations.ratings:
            found.setdefault(aspect, {})[scorer] = column
    for score, rating in match.items():
        if score not in matched:
            raise InvalidRequest(f"no scorer has the score {clip(score)!r}", pointer="/match")
        if rating not in observations.ratings:
            raise InvalidRequest(f"no record has the rating {clip(rating)!r}", pointer="/match")
    return {rating: scorers for rating, scorers in found.items() if scorers}


def list_records(observations: Observations) -> Iterator[dict[str, Any]]:
    """The rows as records with the values of each scorer, whose columns are named `scorer:aspect`: what
    `ObservationReader` reads as the same observations. Raises InvalidRequest for more than `MOST_RECORDS`."""
    if observations.n > MOST_RECORDS:
        raise InvalidRequest(f"there are {observations.n:,} records; {MOST_RECORDS:,} may be asked for")
    ratings = {name: column.tolist() for name, column in observations.ratings.items()}
    scores = [(*name.rpartition(":")[::2], column.tolist()) for name, column in observations.scores.items()]
    for row in range(observations.n):
        record: dict[str, Any] = {"system": observations.systems[observations.system[row]]}
        record["item"] = observations.items[observations.item[row]]
        if observations.dialogue is not None and (dialogue := int(observations.dialogue[row])) != NO_DIALOGUE:
            record["dialogue"] = str(dialogue)
        if (rater := int(observations.rater[row])) != NO_RATER:
            record["rater"] = observations.raters[rater]
        record["ratings"] = {name: value for name, column in ratings.items() if not isnan(value := column[row])}
        values: dict[str, dict[str, float]] = {}
        for scorer, aspect, column in scores:
            if not isnan(column[row]):
                values.setdefault(scorer, {})[aspect] = column[row]
        yield {**record, "scores": values}


def compare_aspect(
    observations: Observations, rating: str, columns: Mapping[str, Floats], bootstrap: Bootstrap
) -> AspectScorers:
    """The scorers of one aspect."""
    means = settled_means(observations, observations.ratings[rating])
    values = {scorer: values_by_unit(observations, column) for scorer, column in columns.items()}
    rated = ~np.isnan(means)
    held = {scorer: ~np.isnan(scores) for scorer, scores in values.items()}
    common = np.logical_and.reduce([rated, *held.values()])
    # In an order that does not hang on that of the lines: the same seed must draw the same items.
    units = observations.unit_order[common[observations.unit_order]]
    y, cluster = means[units], number_first(observations.unit_cluster[units])
    clusters = count_clusters(cluster)
    # All by as many resamples as the costliest of them can have.
    afforded = [afford(scores[units], y, bootstrap.resamples, bootstrap.nanoseconds) for scores in values.values()]
    resamples, names = min(afforded, key=lambda one: (len(one[1]), one[0]))
    bootstrap = replace(bootstrap, resamples=resamples)
    drawn: dict[str, Floats] = {}
    scorers: dict[str, ScorerCorrelation] = {}
    for scorer, scores in values.items():
        found, figures = describe(scores[units], y, cluster, bootstrap, names)
        confusion = confuse(observations, observations.ratings[rating], np.where(common, scores, np.nan))
        none = isinstance(confusion, str)
        more = {"undefined": {**found.undefined, "confusion": confusion}} if none else {"confusion": confusion}
        scorers[scorer] = found.model_copy(update=more)
        if figures is not None:
            drawn[scorer] = figures
    ordered = sorted(scorers, key=lambda scorer: rank_scorer(scorers[scorer]))
    return AspectScorers(
        n=len(units),
        left_out=int(rated.sum()) - len(units),
        clusters=clusters,
        resamples=resamples,
        ceiling=ceiling_of(observations, rating, common),
        scorers={scorer: scorers[scorer] for scorer in ordered},
        differences=tuple(compare_pairs(scorers, drawn, ordered, clusters)),
        missing={scorer: int((rated & ~had).sum()) for scorer, had in held.items() if bool((rated & ~had).any())},
    )


def rank_scorer(found: ScorerCorrelation) -> float:
    """By which scorers stand, the lowest first: a greater Spearman before a lesser, and none last."""
    return 2.0 if found.spearman is None else -found.spearman


def describe(
    x: Floats, y: Floats, cluster: Integers, bootstrap: Bootstrap, names: Sequence[str]
) -> tuple[ScorerCorrelation, Floats | None]:
    """A scorer's coefficients with intervals, and its Spearman in every resample; None where it has none."""
    clusters = count_clusters(cluster)
    figures, undefined = correlations(x, y)
    found: dict[str, tuple[float, float] | str] = dict.fromkeys(COEFFICIENTS, "there is no figure to have an interval")
    spearman = None
    if not undefined:
        drawn = resample(x, y, cluster, bootstrap.resamples, bootstrap.seed, names=names)
        found = {name: interval_of(drawn[name], clusters) if name in drawn else TOO_MANY for name in COEFFICIENTS}
        spearman = drawn.get("spearman")
    for name, interval in found.items():
        figures[f"{name}_interval"] = None if isinstance(interval, str) else interval
        if isinstance(interval, str):
            undefined[f"{name}_interval"] = interval
    return ScorerCorrelation(**figures, undefined=undefined), spearman


def compare_pairs(
    scorers: Mapping[str, ScorerCorrelation], drawn: Mapping[str, Floats], ordered: Sequence[str], clusters: int
) -> Iterator[ScorerDifference]:
    """Every pair that has both figures, the better one first."""
    pairs = [pair for pair in combinations(ordered, 2) if all(scorer in drawn for scorer in pair)]
    differences = [drawn[better] - drawn[worse] for better, worse in pairs]
    intervals = [interval_of(difference, clusters) for difference in differences]
    found = [
        None if isinstance(interval, str) else find_p(difference, clusters)
        for difference, interval in zip(differences, intervals, strict=True)
    ]
    for (better, worse), interval, p in zip(pairs, intervals, adjust_holm(found), strict=True):
        one, other = scorers[better].spearman, scorers[worse].spearman
        if one is not None and other is not None:
            yield ScorerDifference(
                better=better,
                worse=worse,
                difference=one - other,
                interval=None if isinstance(interval, str) else interval,
                p=p,
            )


def find_p(differences: Floats, clusters: int) -> float:
    """The two-sided p of resampled differences: the least alpha whose interval, expanded for the number of clusters as
    in `interval_of`, leaves 0 out. Half of the resamples that are 0 count for either side, and one is added to each,
    so that it is never 0 (Davison and Hinkley 1997, section 4.2)."""
    known = differences[~np.isnan(differences)]
    ties = (known == 0).sum() / 2
    tail = (min((known < 0).sum(), (known > 0).sum()) + ties + 1) / (len(known) + 2)
    quantile = ndtri(min(tail, 0.5)) / sqrt(clusters / (clusters - 1))
    return float(min(1.0, 2 * stdtr(clusters - 1, quantile)))
