"""Reference metrics without a model: random other questions, perplexity from likelihood, and the report."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from app.domain.reference_metrics import (
    FIGURES,
    Figure,
    FigureCorrelation,
    FigureMean,
    ItemFigures,
    Language,
    MetricItem,
    ReferenceReport,
    SystemFigures,
)
from app.stats.observations import Floats
from app.stats.statistics import obstacle, pearson, settle, spearman

MOST_NATS = 230.0
"""e^230 is 1e100: beyond it a model does not know the language at all, and a mean could leave floats."""


def draw_other_questions(questions: Iterable[str], seed: int) -> dict[str, str]:
    """Each distinct question's random other question, for RQA. Empty where there are fewer than two.

    A random cyclic permutation (Sattolo 1986): no question keeps its own, each gets any other with the same
    probability, and each is given once. Over distinct questions, because several systems answer the same: by items, one
    could be given its own question from another system's item. So all answers to a question get the same other, and
    the order of the items changes nothing.
    """
    drawn = sorted(set(questions))
    own = list(drawn)
    if len(own) < 2:
        return {}
    # No `shuffle`: of all that `random` offers, Python keeps the sequence of `random()` alone over versions.
    generator = random.Random(seed)  # noqa: S311 - for an experiment, not a secret
    for last in range(len(drawn) - 1, 0, -1):
        other = int(generator.random() * last)
        drawn[last], drawn[other] = drawn[other], drawn[last]
    return dict(zip(own, drawn, strict=True))


def compute_perplexity(nats: float) -> float | None:
    """exp of the mean negative log-likelihood (nats per token); None if that is NaN or above 230."""
    return math.exp(nats) if nats <= MOST_NATS else None


def summarise(
    items: Sequence[MetricItem],
    figures: Sequence[ItemFigures],
    *,
    language: Language,
    seed: int,
    tools: Mapping[str, str],
) -> ReferenceReport:
    """The report over the items and their figures, which are in the same order."""
    systems: dict[str | None, list[ItemFigures]] = {}
    for one in figures:
        systems.setdefault(one.system, []).append(one)
    return ReferenceReport(
        language=language,
        seed=seed,
        items=len(figures),
        systems=tuple(
            SystemFigures(system=system, items=len(own), figures=average(own)) for system, own in systems.items()
        ),
        overall=average(figures),
        correlations=correlate_with_humans(items, figures),
        unavailable=count_reasons(figures),
        tools=dict(tools),
    )


def average(figures: Sequence[ItemFigures]) -> dict[Figure, FigureMean]:
    """Every figure's mean over the items that have it."""
    return {figure: average_one(figure, figures) for figure in FIGURES}


def average_one(figure: Figure, figures: Sequence[ItemFigures]) -> FigureMean:
    """One figure's mean; null over no items."""
    values = [value for one in figures if (value := one.value(figure)) is not None]
    return FigureMean(
        n=len(values),
        mean=statistics.fmean(values) if values else None,
        truncated=sum(figure in one.truncated for one in figures),
    )


def count_reasons(figures: Sequence[ItemFigures]) -> dict[Figure, dict[str, int]]:
    """How many items lack a figure, by figure and reason; figures that none lacks are left out."""
    counts = {
        figure: Counter(one.unavailable[figure] for one in figures if figure in one.unavailable) for figure in FIGURES
    }
    return {figure: dict(reasons) for figure, reasons in counts.items() if reasons}


def correlate_with_humans(
    items: Sequence[MetricItem], figures: Sequence[ItemFigures]
) -> dict[str, dict[Figure, FigureCorrelation]]:
    """Each figure against each aspect that any item has a human value of: by aspect, then figure."""
    aspects = list(dict.fromkeys(aspect for item in items for aspect in item.ratings))
    return {
        aspect: {
            figure: correlate(
                [
                    (value, item.ratings[aspect])
                    for item, one in zip(items, figures, strict=True)
                    if aspect in item.ratings and (value := one.value(figure)) is not None
                ]
            )
            for figure in FIGURES
        }
        for aspect in aspects
    }


def correlate(pairs: Sequence[tuple[float, float]]) -> FigureCorrelation:
    """Pearson's and Spearman's coefficients of (figure, human value) pairs."""
    figures, ratings = map(scale, np.array(pairs, dtype=np.float64).reshape(-1, 2).T)
    why = obstacle(settle(figures), settle(ratings), "figures", "human values")
    if why is not None:
        return undefined(len(pairs), why)
    return FigureCorrelation(
        n=len(pairs), pearson=float(pearson(figures, ratings)), spearman=float(spearman(figures, ratings))
    )


def scale(values: Floats) -> Floats:
    """The values, shape (n,), in a unit in which the largest is about 1: the sum of large ones could leave floats.

    The unit is a power of two, so nothing is rounded.
    """
    _, exponent = np.frexp(np.abs(values).max(initial=0))
    scaled: Floats = np.ldexp(values, -exponent)
    return scaled


def undefined(n: int, reason: str) -> FigureCorrelation:
    """Neither coefficient, with the reason for both."""
    return FigureCorrelation(n=n, pearson=None, spearman=None, undefined={"pearson": reason, "spearman": reason})
