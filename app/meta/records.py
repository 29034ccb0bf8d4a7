"""What an analysis of batches reads: the batches' results, and the human ratings that concern them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.analysis.observations import Observations
from app.analysis.reading import ObservationReader
from app.domain.analysis_request import (
    AnalysisRequest,
    CompositeFitRequest,
    HierarchyRequest,
    WinRatesRequest,
)
from app.domain.batch import Batch
from app.domain.errors import InvalidRequest, UnknownAspect
from app.domain.human_rating import StoredRating
from app.domain.rubric import Rubric
from app.domain.validation import clip
from app.meta.table import AnswerTable

Record = dict[str, Any]
FIELDS = ("ratings", "scores")


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
            if request.rubric not in {None, batch.rubric}:
                detail = f"the batch {batch.id} was scored by the rubric {batch.rubric}; leave the field out"
                raise InvalidRequest(detail, pointer="/rubric")
        changes["rubric"] = None
    return request.model_copy(update=changes)


def compares_systems(request: AnalysisRequest) -> bool:
    """Whether the analysis asks which system is better, so that the scales' best levels matter."""
    return isinstance(request, WinRatesRequest | HierarchyRequest)


def uses_scores(request: AnalysisRequest) -> bool:
    """Whether the judge's values are what is analysed, and no human is asked."""
    return isinstance(request, WinRatesRequest | HierarchyRequest) and request.values == "scores"


def list_scores(table: AnswerTable) -> list[Record]:
    """A record a result that has values, in the place of ratings too; raises InvalidRequest where none has."""
    records = [record for answer in table.answers if any_value((record := answer.record())["scores"])]
    if not records:
        raise InvalidRequest("no result of the batch has values yet")
    return [{**record, "ratings": record["scores"]} for record in records]


def list_ratings(table: AnswerTable, ratings: Sequence[StoredRating]) -> list[Record]:
    """A record for each rater of each result; raises InvalidRequest where nobody rated one."""
    records = list(table.rate(ratings))
    if not records:
        told = "no human ratings concern these results; keep some with POST /v1/ratings"
        if table.ambiguous:
            told = f"{table.ambiguous} ratings fit more than one result; name the batch, the candidate or the system"
        raise InvalidRequest(told)
    return records


def any_value(values: Mapping[str, float | None]) -> bool:
    """Whether one is not null."""
    return any(value is not None for value in values.values())


def choose_aspects(records: Sequence[Record], wanted: Sequence[str] | None) -> list[Record]:
    """The records with the wanted aspects alone, those without a rating of them left out; all without a wish.

    Raises UnknownAspect for one that no record rates.
    """
    if wanted is None:
        return [*records]
    known = {name for record in records for name in record["ratings"]}
    for number, name in enumerate(wanted):
        if name not in known:
            raise UnknownAspect(f"nobody rated {clip(name)!r} here", pointer=f"/aspects/{number}")
    chosen = [
        {
            **record,
            **{field: {name: record[field][name] for name in wanted if name in record[field]} for field in FIELDS},
        }
        for record in records
    ]
    return [record for record in chosen if record["ratings"]]


def read_records(records: Sequence[Record]) -> Observations:
    """The records as columns. They are the service's own: an aspect that only one of them has is no slip of the pen."""
    names = dict.fromkeys(name for record in records for field in FIELDS for name in record[field])
    reader = ObservationReader(aspects=tuple(names), noun="result")
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    return reader.finish()


def best_of(rubric: Rubric) -> dict[str, float]:
    """The best value where it is not the highest, by aspect, and by what is blended from it."""
    return {**rubric.best, **{f"{name}.blended": value for name, value in rubric.best.items()}}


def signatures_of(batch: Batch) -> list[str]:
    """Every line that says how results of the batch were made; none without results."""
    return list(batch.signatures) or ([batch.signature] if batch.signature else [])
