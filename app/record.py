"""The complete record of an evaluation, written from what each language path gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from app import __version__
from app.case import Case
from app.domain import signature
from app.domain.evaluation import (
    Evaluation,
    Path,
    PathResult,
    Record,
    RelevanceResult,
    RubricReference,
    Usage,
    Warned,
)
from app.ports import Judgement
from app.results import assemble, compare_paths, status_of, warn_of_relevance, warn_of_samples


@dataclass(frozen=True)
class PathReading:
    """What one language path gave. `pieces` are its signature's."""

    result: PathResult
    pieces: dict[str, str]
    judgement: Judgement

    @property
    def warnings(self) -> tuple[Warned, ...]:
        of_result = (*warn_of_samples(self.result.aspects), *warn_of_relevance(self.result.relevance))
        return (*self.judgement.warnings, *of_result)


def write_reading(case: Case, path: Path, judgement: Judgement, relevance: RelevanceResult | None) -> PathReading:
    """Rates, blends, composes and signs one language path."""
    aspects, composites = assemble(case.rubric, case.language(path), judgement, relevance, case.blended)
    translated = case.translated if path == "english" else None
    pieces = {
        **signature.describe_rubric(__version__, case.rubric),
        **signature.describe_judge(judgement.provenance, case.request.judge),
        "path": path,
        "translator": translated.translation.engine if translated else signature.NONE,
        **signature.describe_relevance(relevance, case.blended),
    }
    result = PathResult(aspects=aspects, composites=composites, relevance=relevance, signature=signature.sign(pieces))
    return PathReading(result, pieces, judgement)


def write_record(
    case: Case, readings: Mapping[Path, PathReading], suspicions: tuple[Warned, ...], evaluation_id: str, now: datetime
) -> Record:
    """The record. With both paths the source path's aspects stand at the top and `paths` holds both."""
    main = next(iter(readings.values()))
    both = len(readings) > 1
    pieces = signature.merge_paths(main.pieces, readings["english"].pieces) if both else main.pieces
    translated = case.translated
    evaluation = Evaluation(
        id=evaluation_id,
        status=status_of([reading.result.aspects for reading in readings.values()]),
        rubric=RubricReference(id=case.rubric.id, version=case.rubric.version, digest=case.rubric.digest),
        path=case.request.path,
        aspects=main.result.aspects,
        composites=main.result.composites,
        relevance=main.result.relevance,
        translation=translated.translation if translated else None,
        paths=compare_paths(readings["source"].result, readings["english"].result) if both else None,
        judge=main.judgement.provenance,
        usage=add_usage(case, readings),
        warnings=collect_warnings(suspicions, readings),
        signature=signature.sign(pieces),
        signature_pieces=pieces,
        cached=all(reading.judgement.cached for reading in readings.values()),
        created_at=now,
        metadata=case.request.metadata,
    )
    trace = tuple(call for reading in readings.values() for call in reading.judgement.trace)
    return Record(evaluation=evaluation, request=case.request, trace=trace)


def add_usage(case: Case, readings: Mapping[Path, PathReading]) -> Usage:
    """What all calls of the evaluation spent together."""
    translated = Usage(translated_characters=case.translated.billed_characters if case.translated else 0)
    return sum((reading.judgement.usage for reading in readings.values()), translated)


def collect_warnings(suspicions: tuple[Warned, ...], readings: Mapping[Path, PathReading]) -> tuple[Warned, ...]:
    """Every warning once: of the texts, of the judge, of the similarity."""
    of_paths = (warned for reading in readings.values() for warned in reading.warnings)
    seen = {(warned.code, warned.where, warned.detail): warned for warned in (*suspicions, *of_paths)}
    return tuple(seen.values())
