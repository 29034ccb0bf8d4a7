"""How far human raters agree, and how aspects hang together (paper 2, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.analysis.observations import Floats, Integers, Observations
from app.analysis.raters import Agreement, compare_raters, krippendorff_alpha, named_ratings
from app.analysis.statistics import FEWEST, count, obstacle, pearson, rank_places, refuse_wide, settle
from app.domain.reports import AgreementReport, AspectAgreement, Correlations, Matrix


def measure_agreement(observations: Observations) -> AgreementReport:
    """Agreement by aspect, and the correlations between aspects.

    Raises InvalidRequest for more aspects than could be correlated on so many items in a minute.
    """
    refuse_wide(len(observations.ratings), observations.units)
    means = {aspect: observations.means(column) for aspect, column in observations.ratings.items()}
    return AgreementReport(
        systems=len(observations.systems),
        items=observations.units,
        raters=len(observations.raters),
        ratings=sum(int((~np.isnan(column)).sum()) for column in observations.ratings.values()),
        aspects={aspect: agreement_on(observations, aspect, means[aspect]) for aspect in means},
        correlations=correlate_aspects(
            {
                aspect: settle(means[aspect], observations.means(np.abs(observations.ratings[aspect])))
                for aspect in means
            }
        ),
    )


def agreement_on(observations: Observations, aspect: str, means: Floats) -> AspectAgreement:
    """The figures of one aspect, whose rater means by unit have shape (units,)."""
    values = means[~np.isnan(means)]
    rated = named_ratings(observations, aspect)
    compared = compare_raters(rated)
    alpha = krippendorff_alpha(rated)
    unnamed = int((~np.isnan(observations.ratings[aspect])).sum()) - len(rated.values)
    undefined: dict[str, str] = {}
    if not len(values):
        undefined["mean"] = "no item has a rating"
    if len(values) < 2:
        undefined["sd"] = "fewer than two items have a rating"
    if compared.reason is not None:
        undefined["spearman"] = undefined["pearson"] = compared.reason
    if isinstance(alpha, str):
        undefined["krippendorff_alpha"] = alpha
    return AspectAgreement(
        n=len(values),
        left_out=observations.units - len(values),
        raters=compared.raters,
        compared=compared.compared,
        mean=float(values.mean()) if len(values) else None,
        sd=float(values.std(ddof=1)) if len(values) > 1 else None,
        spearman=compared.spearman,
        pearson=compared.pearson,
        krippendorff_alpha=None if isinstance(alpha, str) else alpha,
        by_rater={observations.raters[number]: one for number, one in compared.by_rater.items()},
        notes=tuple(find_notes(compared, unnamed)),
        undefined=undefined,
    )


def find_notes(compared: Agreement, unnamed: int) -> Iterator[str]:
    """What the figures are not of: `unnamed` ratings beside named ones, and raters without a correlation."""
    if unnamed and compared.raters:
        yield f"{count(unnamed, 'rating')} without a rater may be means, and count only in the mean and the sd"
    if not compared.compared:
        return
    reasons = {
        f"sharing fewer than {FEWEST} items with others": compared.few,
        "being constant on the items shared with others, or held against others who are": compared.constant,
    }
    for reason, left in reasons.items():
        if left:
            yield f"spearman and pearson leave out {left} of {count(compared.raters, 'rater')}, for {reason}"


def correlate_aspects(columns: dict[str, Floats]) -> Correlations:
    """The matrices over all pairs of aspects, from their settled means by unit, shape (units,) with NaN for none."""
    known = {aspect: ~np.isnan(column) for aspect, column in columns.items()}
    places = {aspect: number_values(column) for aspect, column in columns.items()}
    by_rank: Matrix = {aspect: {} for aspect in columns}
    by_value: Matrix = {aspect: {} for aspect in columns}
    n: dict[str, dict[str, int]] = {aspect: {} for aspect in columns}
    undefined: dict[str, dict[str, str]] = {}
    names = list(columns)
    for place, a in enumerate(names):
        for b in names[place:]:
            both = known[a] & known[b]
            x, y = columns[a][both], columns[b][both]
            n[a][b] = n[b][a] = len(x)
            reason = obstacle(x, y, f"ratings of {a}", f"ratings of {b}")
            if reason is not None:
                undefined.setdefault(a, {})[b] = reason
                by_rank[a][b] = by_rank[b][a] = by_value[a][b] = by_value[b][a] = None
                continue
            ranks = rank_places(places[a][both]), rank_places(places[b][both])
            by_rank[a][b] = by_rank[b][a] = float(pearson(*ranks))
            by_value[a][b] = by_value[b][a] = float(pearson(x, y))
    return Correlations(
        spearman={a: {b: by_rank[a][b] for b in names} for a in names},
        pearson={a: {b: by_value[a][b] for b in names} for a in names},
        n={a: {b: n[a][b] for b in names} for a in names},
        undefined=undefined,
    )


def number_values(column: Floats) -> Integers:
    """Each value's place among the different ones, from 0, shape (n,); NaN comes last."""
    return np.unique(column, return_inverse=True)[1].astype(np.int64)
