"""Scorers side by side: which judge, path, blend or metric agrees best with the same human ratings.

After table 5 of the Japanese paper and table 1 of the long-form one, with intervals, and with a test of whether two
scorers really differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import isnan
from typing import Any

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import AspectScorers, JudgesReport, ScorerCorrelation, ScorerDifference
from saiten_server.core.validation import clip
from saiten_server.stats.agreement import confuse
from saiten_server.stats.correlation import NO_FIGURE, ceiling_of, correlations, estimate_all, values_by_unit
from saiten_server.stats.correlation_intervals import COEFFICIENTS, CorrelationEstimate, Difference, compare_estimates
from saiten_server.stats.observations import (
    NO_DIALOGUE,
    NO_RATER,
    Floats,
    Integers,
    Observations,
    number_first,
    refuse_uneven,
)
from saiten_server.stats.resampling import count_clusters
from saiten_server.stats.statistics import adjust_holm, settled_means

MOST_SCORERS = 32
"""Scorers of one aspect: 496 pairs."""

MOST_RECORDS = 100_000


def compare_scorers(
    observations: Observations, *, match: Mapping[str, str] | None = None, resamples: int = 2000, seed: int = 0
) -> JudgesReport:
    """Every scorer of every aspect, whose columns are named `scorer:aspect`, against the rater means.

    An aspect's scorers are compared on the units that all of them have. With `match`, a scorer's value of that name is
    compared with the rating of another (`mate`: `acceptability`) and stands as `SCORER (mate)`. `resamples` and `seed`
    are as in `correlate`. Raises InvalidRequest where there is no score, or none of a matched name."""
    refuse_uneven(observations)
    columns = group_columns(observations, match or {})
    if not columns:
        detail = Message("no-scorer")
        raise InvalidRequest(detail, pointer="/data")
    for rating, scorers in columns.items():
        if len(scorers) > MOST_SCORERS:
            raise InvalidRequest(
                Message("scorers-most", aspect=repr(clip(rating)), count=len(scorers), most=MOST_SCORERS),
                pointer="/data",
            )
    compared = {rating: scorers for rating, scorers in columns.items() if rating in observations.ratings}
    return JudgesReport(
        systems=len(observations.systems),
        items=observations.units,
        raters=len(observations.raters),
        clusters=None if observations.dialogue is None else len(np.unique(observations.unit_cluster)),
        resamples=resamples,
        seed=seed,
        aspects={rating: compare_aspect(observations, rating, scorers) for rating, scorers in compared.items()},
        unmatched={
            **{aspect: Message("only-ratings") for aspect in observations.ratings if aspect not in columns},
            **{aspect: Message("only-scores") for aspect in columns if aspect not in compared},
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
            raise InvalidRequest(Message("no-scorer-of", name=repr(clip(score))), pointer="/match")
        if rating not in observations.ratings:
            raise InvalidRequest(Message("no-rating-of", name=repr(clip(rating))), pointer="/match")
    return {rating: scorers for rating, scorers in found.items() if scorers}


def list_records(observations: Observations) -> Iterator[dict[str, Any]]:
    """The rows as records with the values of each scorer, whose columns are named `scorer:aspect`: what
    `ObservationReader` reads as the same observations. Raises InvalidRequest for more than `MOST_RECORDS`."""
    if observations.n > MOST_RECORDS:
        raise InvalidRequest(Message("records-most", count=observations.n, most=MOST_RECORDS))
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


def compare_aspect(observations: Observations, rating: str, columns: Mapping[str, Floats]) -> AspectScorers:
    """The scorers of one aspect."""
    means = settled_means(observations, observations.ratings[rating])
    values = {scorer: values_by_unit(observations, column) for scorer, column in columns.items()}
    rated = ~np.isnan(means)
    held = {scorer: ~np.isnan(scores) for scorer, scores in values.items()}
    common = np.logical_and.reduce([rated, *held.values()])
    # In an order that does not hang on that of the lines.
    units = observations.unit_order[common[observations.unit_order]]
    y, cluster = means[units], number_first(observations.unit_cluster[units])
    ranked: dict[str, CorrelationEstimate] = {}
    scorers: dict[str, ScorerCorrelation] = {}
    for scorer, scores in values.items():
        found, by_rank = describe_scorer(scores[units], y, cluster)
        confusion = confuse(observations, observations.ratings[rating], np.where(common, scores, np.nan))
        none = isinstance(confusion, Message)
        more = {"undefined": {**found.undefined, "confusion": confusion}} if none else {"confusion": confusion}
        scorers[scorer] = found.model_copy(update=more)
        if by_rank is not None:
            ranked[scorer] = by_rank
    ordered = sorted(scorers, key=lambda scorer: rank_scorer(scorers[scorer]))
    return AspectScorers(
        n=len(units),
        left_out=int(rated.sum()) - len(units),
        clusters=count_clusters(cluster),
        ceiling=ceiling_of(observations, rating, common),
        scorers={scorer: scorers[scorer] for scorer in ordered},
        differences=tuple(compare_pairs(ranked, ordered)),
        missing={scorer: int((rated & ~had).sum()) for scorer, had in held.items() if bool((rated & ~had).any())},
    )


def rank_scorer(found: ScorerCorrelation) -> float:
    """By which scorers stand, the lowest first: a greater Spearman before a lesser, and none last."""
    return 2.0 if found.spearman is None else -found.spearman


def describe_scorer(x: Floats, y: Floats, cluster: Integers) -> tuple[ScorerCorrelation, CorrelationEstimate | None]:
    """A scorer's coefficients with intervals, and what its Spearman is compared by; None where it has none."""
    figures, undefined = correlations(x, y)
    estimates = estimate_all(x, y, cluster, figures)
    for name in COEFFICIENTS:
        interval = estimates[name].interval() if name in estimates else NO_FIGURE
        figures[f"{name}_interval"] = None if isinstance(interval, Message) else interval
        if isinstance(interval, Message):
            undefined[f"{name}_interval"] = interval
    return ScorerCorrelation(**figures, undefined=undefined), estimates.get("spearman")


def compare_pairs(ranked: Mapping[str, CorrelationEstimate], ordered: Sequence[str]) -> Iterator[ScorerDifference]:
    """Every pair that has both figures, the better one first; p is adjusted over the pairs (Holm 1979)."""
    pairs = list(combinations([scorer for scorer in ordered if scorer in ranked], 2))
    compared = [compare_estimates(ranked[better], ranked[worse]) for better, worse in pairs]
    adjusted = adjust_holm([one.p if isinstance(one, Difference) else None for one in compared])
    for (better, worse), found, p in zip(pairs, compared, adjusted, strict=True):
        yield ScorerDifference(
            better=better,
            worse=worse,
            difference=ranked[better].value - ranked[worse].value,
            interval=found.interval if isinstance(found, Difference) else None,
            p=p,
        )
