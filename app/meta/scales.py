"""Whether a human rating fits the rubric by which the response was scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from app.analysis.hints import hint
from app.domain.composites import range_of
from app.domain.human_rating import HumanRating
from app.domain.lines import MOST_FAULTS, InvalidLines
from app.domain.rubric import Rubric
from app.domain.validation import clip

Scales = Mapping[str, tuple[float, float]]
"""Lowest and highest value by name."""

UNKNOWN = "the rubric has no such aspect"


def scales_to_rate(rubric: Rubric) -> Scales:
    """What humans may rate of a response: the rubric's aspects and composites."""
    aspects = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
    return {**aspects, **{composite.id: range_of(composite, rubric) for composite in rubric.composites}}


def check_ratings(ratings: Sequence[HumanRating], scales: Sequence[Scales | None]) -> None:
    """Raises InvalidLines, numbered from 1, where a rating does not fit the scales beside it; without any it fits."""
    faults: list[tuple[int, str]] = []
    total = 0
    for number, (rating, known) in enumerate(zip(ratings, scales, strict=True), start=1):
        if known is not None:
            for name, what in misfits(rating, known):
                total += 1
                if total <= MOST_FAULTS:  # to look for what was meant takes longer than all else
                    near = hint(name, known) if what is UNKNOWN else ""
                    faults.append((number, f"/ratings/{clip(name)}: {what}{near}"))
    if faults:
        raise InvalidLines(faults, total, "rating")


def misfits(rating: HumanRating, scales: Scales) -> Iterator[tuple[str, str]]:
    """What does not fit: the name, and what is wrong. Values between two levels fit."""
    for name, value in rating.ratings.items():
        if name not in scales:
            yield name, UNKNOWN
            continue
        low, high = scales[name]
        if not low <= value <= high:
            yield name, f"{value:g} is off its scale from {low:g} to {high:g}"
