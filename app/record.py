"""The complete record of an evaluation, written from what each language path gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import add

from app import __version__
from app.case import Case
from app.domain import signature
from app.domain.evaluation import (
    Evaluation,
    IntegrityReport,
    Path,
    PathResult,
    Record,
    RelevanceResult,
    RubricReference,
    Usage,
    Warned,
)
from app.providers.ports import Judgement
from app.results import assemble, compare_masked, compare_paths, status_of, warn_of_relevance, warn_of_samples
from app.second_look import SecondReading


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
    options = case.request.judge
    aspects, composites = assemble(
        case.rubric, case.language(path), judgement, relevance, case.blended, composites=options.composites
    )
    translated = case.translated if path == "english" else None
    pieces = {
        **signature.describe_rubric(__version__, case.rubric),
        **signature.describe_judge(judgement.provenance, options),
        **signature.describe_composites(case.rubric, options),
        "path": path,
        "translator": translated.translation.engine if translated else signature.NONE,
        **signature.describe_relevance(relevance, case.blended),
    }
    result = PathResult(aspects=aspects, composites=composites, relevance=relevance, signature=signature.sign(pieces))
    return PathReading(result, pieces, judgement)


def write_record(
    case: Case,
    readings: Mapping[Path, PathReading],
    suspicions: tuple[Warned, ...],
    evaluation_id: str,
    now: datetime,
    *,
    second: SecondReading | None = None,
) -> Record:
    """The record. With both paths the source path's aspects stand at the top and `paths` holds both. `second` is what
    the judge said without the suspicious spans."""
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
        usage=add_usage(case, readings, second),
        warnings=collect_warnings(suspicions, readings),
        # Signature and `cached` are those of the ratings that stand here, and these are the same whether or not the
        # judge was asked a second time: otherwise two runs could not be compared for an attack in one text.
        signature=signature.sign(pieces) if both else main.result.signature,
        signature_pieces=pieces,
        cached=all(reading.judgement.cached for reading in readings.values()),
        created_at=now,
        metadata=case.request.metadata,
        dialogue=case.request.dialogue,
        integrity=report_integrity(case, readings, second) if second else None,
    )
    trace = tuple(call for judgement in list_judgements(readings, second) for call in judgement.trace)
    return Record(evaluation=evaluation, request=case.request, trace=trace)


def list_judgements(readings: Mapping[Path, PathReading], second: SecondReading | None) -> list[Judgement]:
    """Everything that the judge was asked, the second look last."""
    return [*(reading.judgement for reading in readings.values()), *([second.judgement] if second else [])]


def report_integrity(case: Case, readings: Mapping[Path, PathReading], second: SecondReading) -> IntegrityReport:
    """What the ratings would be without the suspicious spans, on the path on which they were left out."""
    path = second.look.path
    masked, _ = assemble(case.rubric, case.language(path), second.judgement, None, ())
    means, lift = compare_masked(readings[path].result.aspects, masked)
    return IntegrityReport(spans=second.look.spans, masked=means, lift=lift)


def add_usage(case: Case, readings: Mapping[Path, PathReading], second: SecondReading | None) -> Usage:
    """What all calls of the evaluation spent together."""
    spent = [judgement.usage for judgement in list_judgements(readings, second)]
    if case.translated:
        spent.append(Usage(translated_characters=case.translated.billed_characters))
    return reduce(add, spent)


def collect_warnings(suspicions: tuple[Warned, ...], readings: Mapping[Path, PathReading]) -> tuple[Warned, ...]:
    """Every warning once: of the texts, of the judge, of the similarity."""
    of_paths = (warned for reading in readings.values() for warned in reading.warnings)
    seen = {(warned.code, warned.where, warned.detail): warned for warned in (*suspicions, *of_paths)}
    return tuple(seen.values())
