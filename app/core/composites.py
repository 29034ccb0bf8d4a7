"""Blended ratings, and the composites that a rubric declares over its aspects, such as SSA or LLM-MATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saiten_server.core.rubric import LinearComposite, MeanComposite, Rubric, Transform


def blend(rating: float, similarity: float, baseline: float, weight: float) -> float:
    """c + w(b − b̄): equation 1 of 寺内ほか「ChatGPT を用いた日本語対話応答の多面的自動評価」, where w is 10.

    `rating` is c, in the aspect's scale points; `similarity` is b, the BERTScore F1 of last utterance and response,
    in [-1, 1]; `baseline` is b̄, a mean of such similarities; `weight` is w, in scale points per unit of F1. The
    result is off the scale by design and is never clamped: clamping would tie values that the term distinguishes.
    """
    return rating + weight * (similarity - baseline)


def compose(rubric: Rubric, ratings: Mapping[str, float | None]) -> dict[str, float | None]:
    """Every composite of the rubric by id, in its own scale points. `ratings` holds a rating per aspect id. A composite
    is None if one of its aspects is unrated, that is, None or absent."""
    composed: dict[str, float | None] = {}
    for composite in rubric.composites:
        rated = {aspect: rating for aspect in composite.aspects if (rating := ratings.get(aspect)) is not None}
        complete = all(aspect in rated for aspect in composite.aspects)
        composed[composite.id] = evaluate(composite, rated) if complete else None
    return composed


def compose_runs(rubric: Rubric, samples: Mapping[str, Sequence[int | None]]) -> dict[str, float | None]:
    """Every composite per run (that is, per sample), averaged over the runs in which all its aspects are rated.

    `samples` holds the ratings per aspect id, one per run. A composite without a complete run is None. Kamoda et al.
    average composites of repeated runs in this way. With an absolute term the composite of the means differs: a run
    that is too stiff and one that is too casual are two faults, but their mean is none.
    """
    runs = max(map(len, samples.values()), default=0)
    per_run = [compose(rubric, {name: ratings[run] for name, ratings in samples.items()}) for run in range(runs)]
    composed: dict[str, float | None] = {}
    for composite in rubric.composites:
        values = [value for each in per_run if (value := each[composite.id]) is not None]
        composed[composite.id] = sum(values) / len(values) if values else None
    return composed


def depends_on_runs(rubric: Rubric) -> bool:
    """Whether a composite of the means can differ from the mean of composites, that is, whether a term is absolute."""
    return any(
        term.transform.absolute
        for composite in rubric.composites
        if isinstance(composite, LinearComposite)
        for term in composite.terms
    )


def evaluate(composite: MeanComposite | LinearComposite, rated: Mapping[str, float]) -> float:
    """One composite of complete ratings."""
    if isinstance(composite, MeanComposite):
        return sum(rated[aspect] for aspect in composite.of) / len(composite.of)
    return composite.intercept + sum(
        term.weight * transform(term.transform, rated[term.aspect]) for term in composite.terms
    )


def transform(step: Transform, rating: float) -> float:
    """(rating − subtract) / divide; its absolute value if the step says so."""
    value = (rating - step.subtract) / step.divide
    return abs(value) if step.absolute else value


def range_of(composite: MeanComposite | LinearComposite, rubric: Rubric) -> tuple[float, float]:
    """The lowest and the highest value that the composite can have on its aspects' scales."""
    if isinstance(composite, MeanComposite):
        scales = [rubric.aspect(aspect).scale for aspect in composite.of]
        return sum(low for low, _ in scales) / len(scales), sum(high for _, high in scales) / len(scales)
    parts = [
        [term.weight * transform(term.transform, value) for value in rubric.aspect(term.aspect).values]
        for term in composite.terms
    ]
    low, high = sum(min(values) for values in parts), sum(max(values) for values in parts)
    return composite.intercept + low, composite.intercept + high
