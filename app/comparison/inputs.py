"""What an analysis reads: the records of a request, or the results and ratings of batches.

Loads no analysis and no numpy, so that commands which only check their input stay fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.domain.analysis_request import AnalysisRequest, CompositeFitRequest, HierarchyRequest, WinRatesRequest
from app.domain.batch import Batch
from app.domain.errors import InvalidRequest, UnknownAspect
from app.domain.validation import MOST_NAME, clip
from app.storage.rubric_files import RubricSource

if TYPE_CHECKING:
    from app.ratings.table import Opinions
    from app.stats.reading import ObservationReader, ReadingLimits


def make_reader(
    request: AnalysisRequest, rubrics: RubricSource, noun: str = "line", bounds: ReadingLimits | None = None
) -> ObservationReader:
    """A reader that knows the aspects and scales of the request's rubric, if it names one."""
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


def adapt(request: AnalysisRequest, batches: Sequence[Batch]) -> AnalysisRequest:
    """The request with the defaults that hold for batches: the results' values are in `scores`, win rates use the
    judge's values unless the request asks for human ratings, and the rubric is that of the batches.

    Only a composite fit keeps its own rubric. Raises InvalidRequest if any other request names a different rubric.
    """
    changes: dict[str, Any] = {"scores_field": "scores"}
    if isinstance(request, WinRatesRequest) and request.values is None:
        changes["values"] = "scores"
    if not isinstance(request, CompositeFitRequest):
        for batch in batches:
            if request.rubric not in {None, batch.rubric, batch.rubric_name}:
                detail = f"the batch {batch.id} was scored by the rubric {batch.rubric_name}; leave the field out"
                raise InvalidRequest(detail, pointer="/rubric")
        changes["rubric"] = None
    return request.model_copy(update=changes)


def compares_systems(request: AnalysisRequest) -> bool:
    """Whether the analysis asks which system is better, so that the best level of each scale matters."""
    return isinstance(request, WinRatesRequest | HierarchyRequest)


def uses_scores(request: AnalysisRequest) -> bool:
    """Whether the analysis uses the judge's values and no human ratings."""
    return isinstance(request, WinRatesRequest | HierarchyRequest) and request.values == "scores"


def refuse_unknown(opinions: Opinions, wanted: Sequence[str] | None) -> None:
    """Raises UnknownAspect if a wanted aspect has no rating."""
    known = opinions.names
    for number, name in enumerate(wanted or ()):
        if name not in known:
            raise UnknownAspect(f"{clip(name)!r} has no rating here", pointer=f"/aspects/{number}")
