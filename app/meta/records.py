"""What an analysis of batches is asked for, and of what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app.domain.analysis_request import (
    AnalysisRequest,
    CompositeFitRequest,
    HierarchyRequest,
    WinRatesRequest,
)
from app.domain.batch import Batch
from app.domain.errors import InvalidRequest, UnknownAspect
from app.domain.rubric import Rubric
from app.domain.validation import clip

if TYPE_CHECKING:
    from app.meta.opinions import Opinions


def adapt(request: AnalysisRequest, batches: Sequence[Batch]) -> AnalysisRequest:
    """The request as it is to be understood of batches: their results' values stand in `scores`, win rates are the
    judge's unless humans' are asked for, and the rubric is the batches' own.

    Only of a composite it says whose. Raises InvalidRequest where it names another than the batches'.
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
    """Whether the analysis asks which system is better, so that the scales' best levels matter."""
    return isinstance(request, WinRatesRequest | HierarchyRequest)


def uses_scores(request: AnalysisRequest) -> bool:
    """Whether the judge's values are what is analysed, and no human is asked."""
    return isinstance(request, WinRatesRequest | HierarchyRequest) and request.values == "scores"


def refuse_unknown(opinions: Opinions, wanted: Sequence[str] | None) -> None:
    """Raises UnknownAspect for a wanted aspect that nobody rated."""
    known = opinions.names
    for number, name in enumerate(wanted or ()):
        if name not in known:
            raise UnknownAspect(f"nobody rated {clip(name)!r} here", pointer=f"/aspects/{number}")


def best_of(rubric: Rubric) -> dict[str, float]:
    """The best value where it is not the highest, by aspect, and by what is blended from it."""
    return {**rubric.best, **{f"{name}.blended": value for name, value in rubric.best.items()}}


def signatures_of(batch: Batch) -> list[str]:
    """Every line that says how results of the batch were made; none without results."""
    return list(batch.signatures) or ([batch.signature] if batch.signature else [])
