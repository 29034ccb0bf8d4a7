"""Turns the judgement and the similarity into the complete record: ratings, blended values, composites, signature."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, reduce
from operator import add
from typing import Literal, Protocol

from saiten.core.messages import Message
from saiten_server import __version__
from saiten_server.core import signature
from saiten_server.core.conversation import Finding
from saiten_server.core.evaluation import (
    AspectResult,
    CompositeReading,
    ConversationRequest,
    Evaluation,
    EvaluationRequest,
    IntegrityReport,
    Path,
    PathResult,
    Paths,
    Record,
    RelevanceResult,
    RubricReference,
    Translation,
    Unrated,
    Usage,
    Warned,
)
from saiten_server.core.rubric import Aspect, Rubric, blend, compose, compose_runs
from saiten_server.core.sentences import in_english
from saiten_server.providers.ports import Judgement, Translated, Verdict
from saiten_server.scoring.masked_rejudging import MaskedJudgement
from saiten_server.scoring.subject import Subject


def rate_samples(aspect: Aspect, verdict: Verdict, language: str) -> AspectResult:
    """One aspect's result from its samples, without the blend. The rating is the lower median of the valid samples, so
    that it is always a level of the scale. Without a valid sample the aspect is unrated, with the first sample's
    reason. `sd` is the population standard deviation."""
    if len(verdict.samples) == 1 and (verdict.expected, verdict.off_scale_mass, verdict.reason) == (None, None, None):
        [only] = verdict.samples
        if isinstance(only, int):
            return report_one(only, aspect.scale, aspect.level(only).label[language])
    valid = [sample for sample in verdict.samples if isinstance(sample, int)]
    missing = [sample for sample in verdict.samples if isinstance(sample, Unrated)]
    rating = statistics.median_low(valid) if valid else None
    return AspectResult(
        rating=rating,
        scale=aspect.scale,
        label=None if rating is None else aspect.level(rating).label[language],
        samples=tuple(sample if isinstance(sample, int) else None for sample in verdict.samples),
        mean=statistics.fmean(valid) if valid else None,
        sd=None if not valid else statistics.pstdev(valid) if len(valid) > 1 else 0.0,  # its exact fractions are slow
        expected=verdict.expected,
        off_scale_mass=verdict.off_scale_mass,
        reason=verdict.reason,
        unrated=missing[0] if missing and not valid else None,
    )


@lru_cache(maxsize=1024)
def report_one(rating: int, scale: tuple[int, int], label: str) -> AspectResult:
    """The result of a single rating without further details: equal results share one object."""
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


def blend_aspect(result: AspectResult, relevance: RelevanceResult | None) -> AspectResult:
    """The result with `blended` = c + w(b − b̄), where c is the mean of the samples."""
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
    """All aspects and composites of one language path. A composite is the average over the samples, or with `means` is
    computed from the aspects' means."""
    chosen = set(blended)
    aspects = {}
    for aspect in rubric.aspects:
        result = rate_samples(aspect, judgement.verdicts[aspect.id], language)
        aspects[aspect.id] = blend_aspect(result, relevance) if aspect.id in chosen else result
    if composites == "means":
        return aspects, compose(rubric, {name: result.mean for name, result in aspects.items()})
    return aspects, compose_runs(rubric, {name: result.samples for name, result in aspects.items()})


def compare_paths(source: PathResult, english: PathResult) -> Paths:
    """Both paths and the differences English minus source. They are translation-sensitive if the ratings of any aspect
    that both rated differ."""
    sensitive = any(
        result.rating is not None and english.aspects[name].rating not in (None, result.rating)
        for name, result in source.aspects.items()
    )
    difference = subtract(english.aspects, source.aspects)
    return Paths(source=source, english=english, difference=difference, translation_sensitive=sensitive)


def subtract(one: Mapping[str, AspectResult], other: Mapping[str, AspectResult]) -> dict[str, float | None]:
    """By aspect, the mean in `one` minus that in `other`; None if either is unrated."""
    means = {name: (one[name].mean, result.mean) for name, result in other.items()}
    return {name: None if a is None or b is None else a - b for name, (a, b) in means.items()}


def status_of(paths: Sequence[Mapping[str, AspectResult]]) -> Literal["scored", "partial", "failed"]:
    """`scored` if every aspect is rated on every path in use, `failed` if no aspect is rated on any, else `partial`.
    Aspects that do not apply to a conversation do not count. A conversation that the judge in use cannot rate is
    `partial`, since its result has what rules found."""
    results = [result for aspects in paths for result in aspects.values()]
    reasons = [None if result.unrated is None else result.unrated.reason for result in results]
    rated = [reason is None for reason in reasons if reason != "not-applicable"]
    if "not-supported" in reasons:
        return "partial"
    return "scored" if all(rated) else "partial" if any(rated) else "failed"


def warn_of_samples(aspects: Mapping[str, AspectResult]) -> tuple[Warned, ...]:
    """Warnings for ratings that rest on fewer samples than requested."""
    return tuple(
        Warned(
            code="samples-unrated",
            where=f"aspects/{name}",
            **in_english(
                Message("samples-unrated", count=result.samples.count(None), total=len(result.samples)),
            ),
        )
        for name, result in aspects.items()
        if result.unrated is None and None in result.samples
    )


def warn_of_relevance(relevance: RelevanceResult | None) -> tuple[Warned, ...]:
    """Warnings for text that the encoder did not read."""
    found = []
    if relevance is not None and relevance.truncated:
        detail = Message("similarity-truncated")
        found.append(Warned(code="similarity-truncated", where="relevance", **in_english(detail)))
    if relevance is not None and (share := relevance.unknown_token_share or 0.0) > 0.5:
        detail = Message("similarity-unknown-tokens", percent=round(100 * share))
        found.append(Warned(code="similarity-unknown-tokens", where="relevance", **in_english(detail)))
    return tuple(found)


@dataclass(frozen=True)
class PathReading:
    """The result of one language path, with the pieces of its signature."""

    result: PathResult
    pieces: dict[str, str]
    judgement: Judgement
    unusable: tuple[Warned, ...] = ()
    """Warnings for findings of the judge that cannot be used, of a conversation."""

    @property
    def warnings(self) -> tuple[Warned, ...]:
        of_result = (*warn_of_samples(self.result.aspects), *warn_of_relevance(self.result.relevance))
        return (*self.judgement.warnings, *of_result, *self.unusable)


def write_reading(subject: Subject, path: Path, judgement: Judgement, relevance: RelevanceResult | None) -> PathReading:
    """Rates, blends, composes and signs one language path."""
    options = subject.request.judge
    aspects, composites = assemble(
        subject.rubric, subject.language(path), judgement, relevance, subject.blended, composites=options.composites
    )
    translated = subject.translated if path == "english" else None
    pieces = {
        **signature.describe_rubric(__version__, subject.rubric),
        **signature.describe_judge(judgement.provenance, options),
        **signature.describe_composites(subject.rubric, options),
        "path": path,
        "translator": translated.translation.engine if translated else signature.NONE,
        **signature.describe_relevance(relevance, subject.blended),
    }
    result = PathResult(aspects=aspects, composites=composites, relevance=relevance, signature=signature.sign(pieces))
    return PathReading(result, pieces, judgement)


class Judged(Protocol):
    """What was judged: a response or a conversation."""

    @property
    def request(self) -> EvaluationRequest | ConversationRequest: ...
    @property
    def rubric(self) -> Rubric: ...
    @property
    def translated(self) -> Translated | None: ...
    @property
    def translation(self) -> Translation | None: ...
    def language(self, path: Path) -> str: ...


def write_record(
    subject: Judged,
    readings: Mapping[Path, PathReading],
    suspicions: tuple[Warned, ...],
    evaluation_id: str,
    now: datetime,
    *,
    rejudged: MaskedJudgement | None = None,
) -> Record:
    """The record. With both paths, the source path's result is at the top level and `paths` holds both. `rejudged` is
    the judgement without the suspicious spans."""
    request, rubric = subject.request, subject.rubric
    main = next(iter(readings.values()))
    both, found = len(readings) > 1, main.result.findings
    pieces = signature.merge_paths(main.pieces, readings["english"].pieces) if both else main.pieces
    judgements = [*(reading.judgement for reading in readings.values()), *([rejudged.judgement] if rejudged else [])]
    spent = [judgement.usage for judgement in judgements]
    if subject.translated is not None:
        spent.append(Usage(translated_characters=subject.translated.billed_characters))
    warnings = (*suspicions, *(warned for reading in readings.values() for warned in reading.warnings))
    evaluation = Evaluation(
        id=evaluation_id,
        status=status_of([reading.result.aspects for reading in readings.values()]),
        rubric=RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest),
        path=request.path,
        aspects=main.result.aspects,
        composites=main.result.composites,
        relevance=main.result.relevance,
        translation=subject.translation,
        paths=compare_paths(readings["source"].result, readings["english"].result) if both else None,
        judge=main.judgement.provenance,
        usage=reduce(add, spent),
        warnings=tuple({(one.code, one.where, one.detail): one for one in warnings}.values()),
        # Signature and `cached` do not depend on the masked re-judging; otherwise an attack in one text would make two
        # runs incomparable.
        signature=signature.sign(pieces) if both else main.result.signature,
        signature_pieces=pieces,
        cached=all(reading.judgement.cached for reading in readings.values()),
        created_at=now,
        metadata=request.metadata,
        dialogue=request.dialogue,
        integrity=report_integrity(subject, readings, rejudged) if rejudged else None,
        findings=found,
        kinds=count_kinds(found) if found is not None and rubric.kinds and not main.unusable else None,
        windows=main.result.windows,
    )
    trace = tuple(call for judgement in judgements for call in judgement.trace)
    return Record(evaluation=evaluation, request=request, trace=trace)


def count_kinds(findings: Sequence[Finding]) -> dict[str, int]:
    """How many system turns have a fault of each kind, most frequent first; a turn counts once a kind."""
    turns = {(one.kind, one.turn) for one in findings if one.kind is not None}
    return dict(Counter(kind for kind, _ in sorted(turns)).most_common())


def report_integrity(
    subject: Judged, readings: Mapping[Path, PathReading], rejudged: MaskedJudgement
) -> IntegrityReport:
    """Each aspect's mean without the suspicious spans, on the path on which they were removed, and the lift: the mean
    of the whole minus that mean. Both are None if either is unrated."""
    masked, _ = assemble(subject.rubric, subject.language(rejudged.path), rejudged.judgement, None, ())
    lift = subtract(readings[rejudged.path].result.aspects, masked)
    means = {name: None if lift[name] is None else result.mean for name, result in masked.items()}
    return IntegrityReport(spans=rejudged.spans, masked=means, lift=lift)
