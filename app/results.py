"""From what the judge said and the encoder measured to what is reported: ratings, blended values, composites."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from app.domain.blending import blend
from app.domain.composites import compose, compose_runs
from app.domain.evaluation import AspectResult, CompositeReading, PathResult, Paths, RelevanceResult, Unrated, Warned
from app.domain.rubric import Aspect, Rubric
from app.providers.ports import Judgement, Verdict


def rate(aspect: Aspect, verdict: Verdict, language: str) -> AspectResult:
    """One aspect's result from its samples, without the blend.

    The rating is the lower median of the valid samples, so that it is always a level of the scale; their mean and
    population standard deviation stand beside it. No valid sample: unrated, with the first sample's reason.
    """
    if len(verdict.samples) == 1 and (verdict.expected, verdict.off_scale_mass, verdict.reason) == (None, None, None):
        [only] = verdict.samples
        if isinstance(only, int):
            # As mostly.
            return report_one(only, aspect.scale, aspect.level(only).label[language])
    return report(aspect, verdict, language)


def report(aspect: Aspect, verdict: Verdict, language: str) -> AspectResult:
    """What `rate` promises, of any verdict."""
    valid = [sample for sample in verdict.samples if isinstance(sample, int)]
    missing = [sample for sample in verdict.samples if isinstance(sample, Unrated)]
    rating = None if not valid else valid[0] if len(valid) == 1 else statistics.median_low(valid)
    return AspectResult(
        rating=rating,
        scale=aspect.scale,
        label=None if rating is None else aspect.level(rating).label[language],
        samples=tuple(sample if isinstance(sample, int) else None for sample in verdict.samples),
        mean=average(valid),
        sd=deviate(valid),
        expected=verdict.expected,
        off_scale_mass=verdict.off_scale_mass,
        reason=verdict.reason,
        unrated=missing[0] if missing and not valid else None,
    )


@lru_cache(maxsize=1024)
def report_one(rating: int, scale: tuple[int, int], label: str) -> AspectResult:
    """The result of a single rating that nothing is said beside: one object for all that are alike."""
    return AspectResult(
        rating=rating,
        scale=scale,
        label=label,
        samples=(rating,),
        mean=float(rating),
        sd=0.0,
        expected=None,
        off_scale_mass=None,
        reason=None,
        unrated=None,
    )


def average(valid: Sequence[int]) -> float | None:
    """The mean; None of nothing. Of one value, which is the rule, it is that value."""
    if len(valid) < 2:
        return float(valid[0]) if valid else None
    return statistics.fmean(valid)


def deviate(valid: Sequence[int]) -> float | None:
    """The population standard deviation; None of nothing. One value's is 0 without the exact fractions that it takes
    `statistics` a tenth of a whole evaluation to add up."""
    if len(valid) < 2:
        return 0.0 if valid else None
    return statistics.pstdev(valid)


def blend_aspect(result: AspectResult, relevance: RelevanceResult | None) -> AspectResult:
    """The result with `blended` = c + w(b − b̄), c the mean of the samples (the rating itself where there is one)."""
    if relevance is None or relevance.score is None or relevance.baseline is None or result.mean is None:
        return result
    value = blend(result.mean, relevance.score, relevance.baseline, relevance.weight)
    return result.model_copy(update={"blended": value})


def assemble(
    rubric: Rubric,
    language: str,
    judgement: Judgement,
    relevance: RelevanceResult | None,
    blended: Iterable[str],
    *,
    composites: CompositeReading = "runs",
) -> tuple[dict[str, AspectResult], dict[str, float | None]]:
    """All aspects and composites of one language path. Composites are those of each sample, averaged; or by `means`,
    of the aspects' means."""
    chosen = set(blended)
    aspects = {}
    for aspect in rubric.aspects:
        result = rate(aspect, judgement.verdicts[aspect.id], language)
        aspects[aspect.id] = blend_aspect(result, relevance) if aspect.id in chosen else result
    if composites == "means":
        return aspects, compose(rubric, {name: result.mean for name, result in aspects.items()})
    return aspects, compose_runs(rubric, {name: result.samples for name, result in aspects.items()})


def compare_paths(source: PathResult, english: PathResult) -> Paths:
    """Both paths with English minus source. Translation-sensitive: an aspect that both rated, and not alike."""
    difference: dict[str, float | None] = {}
    for name, result in source.aspects.items():
        other = english.aspects[name]
        known = result.mean is not None and other.mean is not None
        difference[name] = (other.mean or 0.0) - (result.mean or 0.0) if known else None
    sensitive = any(
        result.rating is not None and english.aspects[name].rating not in (None, result.rating)
        for name, result in source.aspects.items()
    )
    return Paths(source=source, english=english, difference=difference, translation_sensitive=sensitive)


def compare_masked(
    whole: Mapping[str, AspectResult], masked: Mapping[str, AspectResult]
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Each aspect's mean without the suspicious spans, and the lift: the mean as it is, minus that.

    Both None where either is unrated.
    """
    means: dict[str, float | None] = {}
    lift: dict[str, float | None] = {}
    for name, result in whole.items():
        without = masked[name].mean
        known = result.mean is not None and without is not None
        means[name] = without if known else None
        lift[name] = (result.mean or 0.0) - (without or 0.0) if known else None
    return means, lift


def status_of(paths: Sequence[Mapping[str, AspectResult]]) -> Literal["scored", "partial", "failed"]:
    """`scored` where every aspect is rated on every path in use, `failed` where none is on any."""
    rated = [result.unrated is None for aspects in paths for result in aspects.values()]
    return "scored" if all(rated) else "partial" if any(rated) else "failed"


def warn_of_samples(aspects: Mapping[str, AspectResult]) -> tuple[Warned, ...]:
    """A rating that rests on fewer samples than were asked for."""
    return tuple(
        Warned(
            code="samples-unrated",
            where=f"aspects/{name}",
            detail=f"{result.samples.count(None)} of {len(result.samples)} samples gave no valid rating",
        )
        for name, result in aspects.items()
        if result.unrated is None and None in result.samples
    )


def warn_of_relevance(relevance: RelevanceResult | None) -> tuple[Warned, ...]:
    """What a reader of the similarity should know: text that the encoder never saw."""
    found = []
    if relevance is not None and relevance.truncated:
        detail = "a text is longer than the encoder reads; the similarity is that of its beginning"
        found.append(Warned(code="similarity-truncated", where="relevance", detail=detail))
    share = (relevance.unknown_token_share if relevance else None) or 0.0
    if share > 0.5:
        detail = f"{share:.0%} of a text's tokens are unknown to the encoder; unknown tokens resemble each other"
        found.append(Warned(code="similarity-unknown-tokens", where="relevance", detail=detail))
    return tuple(found)
