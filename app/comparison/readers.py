"""What reads the records of a request. No analysis is loaded here: a command that only checks its input stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.domain.analysis_request import AnalysisRequest
from app.domain.validation import MOST_NAME
from app.runtime.ports import RubricSource

if TYPE_CHECKING:
    from app.stats.reading import ObservationReader, ReadingLimits


def make_reader(
    request: AnalysisRequest, rubrics: RubricSource, noun: str = "line", bounds: ReadingLimits | None = None
) -> ObservationReader:
    """A reader that knows the aspects and scales of the request's rubric, where it names one."""
    from app.stats.reading import ObservationReader

    scales: Mapping[str, tuple[float, float]] | None = None
    aspects = request.aspects
    if request.rubric is not None:
        rubric = rubrics.get(request.rubric)
        scales = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
        aspects = aspects or tuple(scales)
    return ObservationReader(
        labels=request.labels,
        label_aspect=request.label_aspect,
        scores_field=request.scores_field,
        aspects=aspects,
        scales=scales,
        noun=noun,
        name_characters=MOST_NAME,
        bounds=bounds,
    )
