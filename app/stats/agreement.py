"""How far raters agree: Krippendorff's alpha, each rater beside the others, and the report on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.reports import AgreementReport, AspectAgreement, Confusion, Correlations
from saiten_server.stats.observations import NO_RATER, Floats, Integers, Mask, Observations, number_keys, weigh_units
from saiten_server.stats.phrases import tell_count
from saiten_server.stats.severity import find_average
from saiten_server.stats.statistics import (
    FEWEST_CORRELATED,
    equalize,
    obstacle,
    pearson,
    pearson_weighted,
    pearson_within,
    rank_places,
    rank_values,
    rank_weighted,
    rank_within,
    refuse_wide,
)

MOST_RATERS_LISTED = 200
"""Raters up to which a report lists each one's figure."""


FEW_RATERS = Message("few-raters")


@dataclass(frozen=True)
class Agreement:
    """Each of `compared` raters correlated with the mean of the others, averaged; `reason` says why there is no figure.
    Of the other raters `few` share too few items with others, and `constant` share enough, but there they or the others
    never vary."""

    raters: int
    compared: int
    spearman: float | None
    pearson: float | None
    reason: Message | None
    few: int = 0
    constant: int = 0
    by_rater: Mapping[int, float | None] = field(default_factory=dict)
    """Spearman by the rater's number, None if undefined; empty with more than `MOST_RATERS_LISTED` raters."""


@dataclass(frozen=True)
class NamedRatings:
    """The ratings of one aspect by raters who have a name: unit, rater and value, shapes (n,)."""

    unit: Integers
    rater: Integers
    values: Floats


def named_ratings(observations: Observations, aspect: str, units: Mask | None = None) -> NamedRatings:
    """What named raters gave for the aspect, where wanted only on some units (a mask of shape (units,)). A rating
    without a rater may be a mean of several, so it is excluded."""
    column = observations.ratings[aspect]
    kept = ~np.isnan(column) & (observations.rater != NO_RATER)
    if units is not None:
        kept &= units[observations.unit]
    if kept.all():
        return NamedRatings(observations.unit, observations.rater, column)
    return NamedRatings(observations.unit[kept], observations.rater[kept], column[kept])


def compare_raters(rated: NamedRatings) -> Agreement:
    """Each rater against the mean of the others, item by item, on the items that both rated. Raters with fewer than
    three such items, or on which they or the others never vary, have no correlation and are left out of the
    averages."""
    rater = number_keys(rated.rater)
    raters = int(rater.max(initial=-1)) + 1
    if raters < 2:
        return Agreement(raters, 0, None, None, FEW_RATERS)
    count = np.bincount(rated.unit)
    shared = count[rated.unit] >= 2
    if not shared.any():
        return Agreement(raters, 0, None, None, Message("no-shared-item"), few=raters)
    rows = slice(None) if shared.all() else shared
    rater, own = rater[rows], rated.values[rows]
    others = settled_others(rated, count, rows)
    pearson = pearson_within(rater, raters, own, others)
    spearman = pearson_within(rater, raters, rank_within(rater, own), rank_within(rater, others))
    known = ~np.isnan(pearson)
    few = int((np.bincount(rater, minlength=raters) < FEWEST_CORRELATED).sum())
    constant = raters - few - int(known.sum())
    if not known.any():
        reason = Message("no-rater-shares-enough", least=FEWEST_CORRELATED)
        return Agreement(raters, 0, None, None, reason, few=few, constant=constant)
    listed = np.flatnonzero(np.bincount(rated.rater)).tolist() if raters <= MOST_RATERS_LISTED else []
    return Agreement(
        raters,
        int(known.sum()),
        float(spearman[known].mean()),
        float(pearson[known].mean()),
        reason=None,
        few=few,
        constant=constant,
        by_rater={number: None if np.isnan(one) else float(one) for number, one in zip(listed, spearman, strict=False)},
    )


def settled_others(rated: NamedRatings, count: Integers, rows: Mask | slice) -> Floats:
    """The mean of the other ratings of their unit, settled, of those rows; shape (rows,). None of them is alone.
    `count`, of shape (units,), is how many ratings each unit has."""
    order = np.argsort(rated.unit, kind="stable")
    total = add_others(rated.unit, rated.values, order)[rows]
    # Without negative values the sum of the absolute values is the same.
    size = add_others(rated.unit, np.abs(rated.values), order)[rows] if rated.values.min() < 0 else total
    others = count[rated.unit[rows]] - 1
    mean = total / others
    return equalize(mean, mean if size is total else size / others)


def add_others(unit: Integers, values: Floats, order: Integers | None = None) -> Floats:
    """The sum of all other values of each value's unit, shapes (n,); `order` is the stable one of the units, if known.
    Not by taking the value from the sum of all: beside one of 1e15 nothing would be left of the others."""
    order = np.argsort(unit, kind="stable") if order is None else order
    grouped, ordered = unit[order], values[order]
    found = np.empty(len(values))
    found[order] = add_before(grouped, ordered) + add_before(grouped[::-1], ordered[::-1])[::-1]
    return found


def add_before(group: Integers, values: Floats) -> Floats:
    """The sum of the values before each within its group, whose rows stand together; shapes (n,)."""
    sums = np.zeros(len(values))
    sums[1:] = np.where(group[1:] == group[:-1], values[:-1], 0.0)
    # What each row has doubles its reach: as many passes as the longest group's length has binary digits.
    step, longest = 1, int(np.bincount(group).max(initial=0))
    while step < longest:
        sums[step:] += np.where(group[step:] == group[:-step], sums[:-step], 0.0)
        step *= 2
    return sums


def krippendorff_alpha(rated: NamedRatings) -> float | Message:
    """Krippendorff's α with the ordinal metric, at most 1; or why there is none.

    The ordinal distance of two values is the square of the difference of their mid-ranks among all pairable values
    (the sum of the values' frequencies from one to the other, less half of both ends', is just that difference), so
    that α is one of squared differences, for which sums by unit are enough: no matrix over the values is needed,
    however many there are. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
    """
    if not len(rated.values):
        return Message("no-rater")
    unit, values = rated.unit, rated.values
    pairable = np.bincount(unit)[unit] >= 2
    if not pairable.any():
        return Message("no-item-of-two-raters")
    unit, values = number_keys(unit[pairable]), values[pairable]
    if values.min() == values.max():
        return Message("shared-ratings-equal")
    places = rank_values(values)
    places -= places.mean()
    count = np.bincount(unit)
    mean = np.bincount(unit, weights=places) / count
    squares = np.bincount(unit, weights=(places - mean[unit]) ** 2)
    # Σ over ordered pairs (a − b)² = 2 m Σ (a − ā)² for m values; a unit's pairs weigh 1 / (m − 1).
    observed = float((2 * count * squares / (count - 1)).sum()) / len(values)
    expected = 2 * float((places**2).sum()) / (len(values) - 1)
    return 1 - observed / expected


MOST_PAIRED_RATERS = 50
"""Raters up to which every two of them are compared: 1,225 pairs."""

MANY_RATERS = Message("many-raters", most=MOST_PAIRED_RATERS)


def compare_in_pairs(rated: NamedRatings) -> dict[str, float | Message]:
    """What depends on which rater gave what: the mean over all pairs of raters of Spearman's ρ, Pearson's r and Cohen's
    κ (1960) on the items that both rated, and ICC(2,1) (Shrout and Fleiss 1979) on the items that all rated; for each
    the figure, or why there is none. Pairs without a figure are left out of the means."""
    raters, rater = np.unique(rated.rater, return_inverse=True)
    names = ("pairwise_spearman", "pairwise_pearson", "cohen_kappa", "icc")
    if len(raters) < 2:
        return dict.fromkeys(names, FEW_RATERS)
    if len(raters) > MOST_PAIRED_RATERS:
        return dict.fromkeys(names, MANY_RATERS)
    units, unit = np.unique(rated.unit, return_inverse=True)
    table = np.full((len(units), len(raters)), np.nan)
    table[unit, rater] = rated.values
    found: dict[str, list[float]] = {name: [] for name in names[:3]}
    for one, other in combinations(range(len(raters)), 2):
        both = ~np.isnan(table[:, one]) & ~np.isnan(table[:, other])
        x, y = table[both, one], table[both, other]
        if len(x) >= FEWEST_CORRELATED and not isinstance(kappa := cohen_kappa(x, y), Message):
            found["cohen_kappa"].append(kappa)
        if obstacle(x, y) is None:
            found["pairwise_spearman"].append(float(pearson(rank_values(x), rank_values(y))))
            found["pairwise_pearson"].append(float(pearson(x, y)))
    reason = Message("no-raters-share-enough", least=FEWEST_CORRELATED)
    means: dict[str, float | Message] = {name: float(np.mean(each)) if each else reason for name, each in found.items()}
    return means | {"icc": intraclass_correlation(table[~np.isnan(table).any(axis=1)])}


def cohen_kappa(x: Floats, y: Floats) -> float | Message:
    """Cohen's κ of two raters' values as labels, shapes (n,); or why there is none."""
    expected = sum(float((x == value).mean() * (y == value).mean()) for value in np.unique(np.append(x, y)))
    if expected == 1:
        return Message("one-value-throughout")
    return (float((x == y).mean()) - expected) / (1 - expected)


def intraclass_correlation(table: Floats) -> float | Message:
    """ICC(2,1): two-way random effects, absolute agreement, a single rater; of a table of shape (items, raters) without
    gaps. Or why there is none."""
    items, raters = table.shape
    if items < FEWEST_CORRELATED:
        return Message("few-items-of-all-raters", least=FEWEST_CORRELATED)
    if table.min() == table.max():
        return Message("ratings-of-items-equal")
    mean = table.mean()
    rows = raters * ((table.mean(axis=1) - mean) ** 2).sum()
    columns = items * ((table.mean(axis=0) - mean) ** 2).sum()
    left = max(0.0, float(((table - mean) ** 2).sum() - rows - columns))
    by_row, by_column = rows / (items - 1), columns / (raters - 1)
    error = left / ((items - 1) * (raters - 1))
    whole = by_row + (raters - 1) * error + raters * (by_column - error) / items
    if not whole > 0:
        return Message("ratings-of-items-equal")
    return float((by_row - error) / whole)


def fleiss_kappa(rated: NamedRatings) -> float | Message:
    """Fleiss' κ (1971) of the items with two named raters or more, not always the same ones. Where items have different
    numbers of raters, each item's agreement is that of its own pairs. Or why there is none."""
    count = np.bincount(rated.unit)
    several = count[rated.unit] >= 2
    if not several.any():
        return Message("no-item-of-two-raters")
    unit, values = number_keys(rated.unit[several]), rated.values[several]
    levels, level = np.unique(values, return_inverse=True)
    shares = np.bincount(level) / len(level)
    expected = float((shares**2).sum())
    if len(levels) == 1:
        return Message("shared-ratings-equal")
    cell, held = np.unique(unit * len(levels) + level, return_counts=True)
    raters = np.bincount(unit)
    agreeing = np.bincount(cell // len(levels), weights=held * (held - 1), minlength=len(raters))
    observed = float((agreeing / (raters * (raters - 1))).mean())
    return (observed - expected) / (1 - expected)


MOST_CONFUSED_LEVELS = 15
"""Different values up to which people or a judge have a confusion matrix: of others it says nothing."""


def confuse(observations: Observations, ratings: Floats, scores: Floats) -> Confusion | Message:
    """How often each score, by unit of shape (units,), stands beside each median of the unit's ratings, of shape (n,);
    or why there is no matrix: no unit has both, or either takes more than `MOST_CONFUSED_LEVELS` values."""
    medians = unit_medians(observations, ratings)
    both = ~(np.isnan(medians) | np.isnan(scores))
    people, row = np.unique(medians[both], return_inverse=True)
    judge, column = np.unique(scores[both], return_inverse=True)
    if not both.any():
        return Message("no-item-rated-and-scored")
    if max(len(people), len(judge)) > MOST_CONFUSED_LEVELS:
        return Message("many-levels", most=MOST_CONFUSED_LEVELS)
    counts = np.bincount(row * len(judge) + column, minlength=len(people) * len(judge))
    table = counts.reshape(len(people), len(judge))
    return Confusion(
        people=tuple(people.tolist()), judge=tuple(judge.tolist()), counts=tuple(tuple(one) for one in table.tolist())
    )


def unit_medians(observations: Observations, column: Floats) -> Floats:
    """The median of each unit's values, shape (units,); NaN for a unit without any."""
    held = np.flatnonzero(~np.isnan(column))
    order = held[np.lexsort((column[held], observations.unit[held]))]
    values = column[order]
    count = np.bincount(observations.unit[held], minlength=observations.units)
    start = np.cumsum(count) - count
    medians = np.full(observations.units, np.nan)
    some = count > 0
    low, high = (start + (count - 1) // 2)[some], (start + count // 2)[some]
    # Half of each first: the sum of two great values would have no room.
    medians[some] = values[low] / 2 + values[high] / 2
    return medians


def measure_agreement(observations: Observations) -> AgreementReport:
    """Agreement by aspect, and the correlations between aspects. Raises InvalidRequest for more aspects than could be
    correlated on so many items in a minute."""
    refuse_wide(len(observations.ratings), observations.units)
    means = {aspect: observations.means(column) for aspect, column in observations.ratings.items()}
    return AgreementReport(
        systems=len(observations.systems),
        items=observations.units,
        raters=len(observations.raters),
        ratings=sum(int((~np.isnan(column)).sum()) for column in observations.ratings.values()),
        aspects={aspect: agreement_on(observations, aspect, means[aspect]) for aspect in means},
        correlations=correlate_aspects(
            {name: equalize(means[name], observations.means(np.abs(observations.ratings[name]))) for name in means},
            weigh_units(observations, np.arange(observations.units)),
        ),
    )


def agreement_on(observations: Observations, aspect: str, means: Floats) -> AspectAgreement:
    """The figures of one aspect, whose rater means by unit have shape (units,)."""
    values, weights = means[~np.isnan(means)], weigh_units(observations, np.flatnonzero(~np.isnan(means)))
    rated = named_ratings(observations, aspect)
    compared = compare_raters(rated)
    alpha = krippendorff_alpha(rated)
    unnamed = int((~np.isnan(observations.ratings[aspect])).sum()) - len(rated.values)
    undefined: dict[str, Message] = {}
    if not len(values):
        undefined["mean"] = Message("no-item-rated")
    if len(values) < 2:
        undefined["sd"] = Message("one-item-rated")
    if compared.reason is not None:
        undefined["spearman"] = undefined["pearson"] = compared.reason
    if isinstance(alpha, Message):
        undefined["krippendorff_alpha"] = alpha
    more = {**compare_in_pairs(rated), "fleiss_kappa": fleiss_kappa(rated)}
    undefined |= {name: why for name, why in more.items() if isinstance(why, Message)}
    confusion: Confusion | Message | None = None
    if aspect in observations.scores:
        confusion = confuse(observations, observations.ratings[aspect], observations.means(observations.scores[aspect]))
    if isinstance(confusion, Message):
        undefined["confusion"] = confusion
    return AspectAgreement(
        n=len(values),
        left_out=observations.units - len(values),
        raters=compared.raters,
        compared=compared.compared,
        mean=find_average(values, weights) if len(values) else None,
        sd=find_deviation(values, weights) if len(values) > 1 else None,
        spearman=compared.spearman,
        pearson=compared.pearson,
        krippendorff_alpha=None if isinstance(alpha, Message) else alpha,
        **{name: None if isinstance(one, Message) else one for name, one in more.items()},
        confusion=None if isinstance(confusion, Message) else confusion,
        by_rater={observations.raters[number]: one for number, one in compared.by_rater.items()},
        notes=(*find_notes(compared, unnamed), *([] if weights is None else [Message("agreement-unweighted")])),
        undefined=undefined,
    )


def find_deviation(values: Floats, weights: Floats | None) -> float:
    """The standard deviation with n − 1, of two values or more, each of which counts for its weight if any."""
    if weights is None:
        return float(values.std(ddof=1))
    squares = (values - find_average(values, weights)) ** 2
    return float(np.sqrt(find_average(squares, weights) * len(values) / (len(values) - 1)))


def find_notes(compared: Agreement, unnamed: int) -> Iterator[Message]:
    """What the figures are not of: `unnamed` ratings beside named ones, and raters without a correlation."""
    if unnamed and compared.raters:
        yield Message("unnamed-ratings", ratings=tell_count(unnamed, "rating"))
    if not compared.compared:
        return
    raters = tell_count(compared.raters, "rater")
    if compared.few:
        yield Message("raters-share-few", left_out=compared.few, raters=raters, least=FEWEST_CORRELATED)
    if compared.constant:
        yield Message("raters-constant", left_out=compared.constant, raters=raters)


def correlate_aspects(columns: dict[str, Floats], weights: Floats | None = None) -> Correlations:
    """The matrices over all pairs of aspects, from their settled means by unit, shape (units,) with NaN for none, and
    what units count for, shape (units,), None where all count the same."""
    known = {aspect: ~np.isnan(column) for aspect, column in columns.items()}
    places = {aspect: np.unique(column, return_inverse=True)[1] for aspect, column in columns.items()}

    def compare(a: str, b: str) -> tuple[int, Message | tuple[float, float]]:
        both = known[a] & known[b]
        x, y = columns[a][both], columns[b][both]
        reason = obstacle(x, y, Message("ratings-of-equal", name=a), Message("ratings-of-equal", name=b))
        if reason is not None:
            return len(x), reason
        if weights is not None:
            own = weights[both]
            by_rank = pearson_weighted(rank_weighted(x, own), rank_weighted(y, own), own)
            return len(x), (by_rank, pearson_weighted(x, y, own))
        ranks = rank_places(places[a][both]), rank_places(places[b][both])
        return len(x), (float(pearson(*ranks)), float(pearson(x, y)))

    return tabulate_pairs(list(columns), compare)


def tabulate_pairs(
    names: Sequence[str], compare: Callable[[str, str], tuple[int, Message | tuple[float, float]]]
) -> Correlations:
    """The matrices over all pairs of aspects. `compare` gives the number of items that have both aspects, and their
    correlations by rank and by value, or why there are none."""
    found = {pair: compare(*pair) for pair in combinations_with_replacement(names, 2)}
    both = found | {(b, a): figures for (a, b), figures in found.items()}
    undefined: dict[str, dict[str, Message]] = {}
    for (a, b), (_, figures) in found.items():
        if isinstance(figures, Message):
            undefined.setdefault(a, {})[b] = figures
    by_rank, by_value = (
        {a: {b: None if isinstance(one := both[a, b][1], Message) else one[place] for b in names} for a in names}
        for place in (0, 1)
    )
    n = {a: {b: both[a, b][0] for b in names} for a in names}
    return Correlations(spearman=by_rank, pearson=by_value, n=n, undefined=undefined)
