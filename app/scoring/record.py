"""Turns the judgement and the similarity into the complete record: ratings, blended values, composites, signature."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, reduce
from operator import add
from typing import Any, Literal, Protocol

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
    JudgeOptions,
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


def write_path(
    subject: Judged,
    path: Path,
    judgement: Judgement,
    options: JudgeOptions,
    *,
    evaluation_id: str,
    now: datetime,
    pieces: Mapping[str, str],
    relevance: RelevanceResult | None = None,
    blended: Iterable[str] = (),
) -> Evaluation:
    """Rates, blends, composes and signs one language path, as if there were no other. `pieces` are those of the
    signature that only some evaluations have."""
    rubric = subject.rubric
    aspects, composites = assemble(
        rubric, subject.language(path), judgement, relevance, blended, composites=options.composites
    )
    pieces = {
        **signature.describe_rubric(__version__, rubric),
        **signature.describe_judge(judgement.provenance, options),
        **signature.describe_composites(rubric, options),
        "path": path,
        **pieces,
    }
    return Evaluation(
        id=evaluation_id,
        status=status_of([aspects]),
        rubric=RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest),
        path=subject.request.path,
        aspects=aspects,
        composites=composites,
        relevance=relevance,
        translation=subject.translation,
        paths=None,
        judge=judgement.provenance,
        usage=judgement.usage,
        warnings=(*judgement.warnings, *warn_of_samples(aspects), *warn_of_relevance(relevance)),
        signature=signature.sign(pieces),
        signature_pieces=pieces,
        cached=judgement.cached,
        created_at=now,
        metadata=subject.request.metadata,
        dialogue=subject.request.dialogue,
    )


def write_record(
    subject: Judged,
    evaluations: Mapping[Path, Evaluation],
    judgements: Sequence[Judgement],
    suspicions: tuple[Warned, ...],
    *,
    rejudged: MaskedJudgement | None = None,
) -> Record:
    """The record, from the evaluation of each path by its judgement. With both paths, the source path's result is at
    the top level and `paths` holds both. `rejudged` is the judgement without the suspicious spans."""
    each = [*evaluations.values()]
    judgements = [*judgements, *([rejudged.judgement] if rejudged else [])]
    spent = [judgement.usage for judgement in judgements]
    if subject.translated is not None:
        spent.append(Usage(translated_characters=subject.translated.billed_characters))
    warnings = (*suspicions, *(warned for one in each for warned in one.warnings))
    changed: dict[str, Any] = {
        "usage": reduce(add, spent),
        "warnings": tuple({(one.code, one.where, one.detail): one for one in warnings}.values()),
    }
    if len(each) > 1:
        source, english = evaluations["source"], evaluations["english"]
        pieces = signature.merge_paths(source.signature_pieces, english.signature_pieces)
        changed |= {
            "status": status_of([source.aspects, english.aspects]),
            "paths": compare_paths(read_only_path(source), read_only_path(english)),
            "signature": signature.sign(pieces),
            "signature_pieces": pieces,
            "cached": source.cached and english.cached,
        }
    # Signature and `cached` do not depend on the masked re-judging; otherwise an attack in one text would make two
    # runs incomparable.
    if rejudged is not None:
        changed["integrity"] = report_integrity(subject, evaluations, rejudged)
    trace = tuple(call for judgement in judgements for call in judgement.trace)
    return Record(evaluation=each[0].model_copy(update=changed), request=subject.request, trace=trace)


def read_only_path(evaluation: Evaluation) -> PathResult:
    """The result of the path of an evaluation of one, as `Paths` holds it."""
    return PathResult.model_construct(**{name: getattr(evaluation, name) for name in PathResult.model_fields})


def count_kinds(findings: Sequence[Finding]) -> dict[str, int]:
    """How many system turns have a fault of each kind, most frequent first; a turn counts once a kind."""
    turns = {(one.kind, one.turn) for one in findings if one.kind is not None}
    return dict(Counter(kind for kind, _ in sorted(turns)).most_common())


def report_integrity(
    subject: Judged, evaluations: Mapping[Path, Evaluation], rejudged: MaskedJudgement
) -> IntegrityReport:
    """Each aspect's mean without the suspicious spans, on the path on which they were removed, and the lift: the mean
    of the whole minus that mean. Both are None if either is unrated."""
    masked, _ = assemble(subject.rubric, subject.language(rejudged.path), rejudged.judgement, None, ())
    lift = subtract(evaluations[rejudged.path].aspects, masked)
    means = {name: None if lift[name] is None else result.mean for name, result in masked.items()}
    return IntegrityReport(spans=rejudged.spans, masked=means, lift=lift)
