"""From what a caller asks to the analysis that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from saiten.core.messages import Message
from saiten_server.analyses.requests import (
    AgreementRequest,
    AnalysisRequest,
    BlendFitRequest,
    CompositeFitRequest,
    CorrectedRequest,
    CorrelationRequest,
    HierarchyRequest,
    JudgesRequest,
    Values,
    WinRatesRequest,
)
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import AnalysisReport
from saiten_server.core.rubric import LinearComposite, Rubric, evaluate
from saiten_server.core.validation import MOST_NAME, clip
from saiten_server.runs.summaries import bounds_of
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.stats.observations import NO_DIALOGUE, NO_RATER, Floats, Observations
from saiten_server.stats.reading import ObservationReader, ReadingLimits


def make_reader(
    request: AnalysisRequest, rubrics: RubricSource, noun: str = "line", bounds: ReadingLimits | None = None
) -> ObservationReader:
    """A reader that knows the aspects and scales of the request's rubric, if it names one."""
    scales, aspects = None, request.aspects
    if request.rubric is not None:
        rubric = rubrics.get(request.rubric)
        scales = {aspect.id: (float(aspect.scale[0]), float(aspect.scale[1])) for aspect in rubric.aspects}
        aspects = aspects or tuple(scales)
    corrected = isinstance(request, CorrectedRequest)
    if isinstance(request, CorrectedRequest):
        scales = {**(scales or {}), **request.ranges}
    return ObservationReader(
        labels=request.labels,
        label_aspect=request.label_aspect,
        scores_field=request.scores_field,
        aspects=aspects,
        scales=scales,
        scale_scores=corrected,
        noun=noun,
        name_characters=MOST_NAME,
        bounds=bounds,
        by_scorer=isinstance(request, JudgesRequest),
    )


def analyse(request: AnalysisRequest, observations: Observations, rubrics: RubricSource) -> AnalysisReport:
    """The analysis that the request's type names. It takes seconds at worst: not for an event loop. Raises
    InvalidRequest where the request asks for what the rubric or the data have not. scipy is loaded here."""
    return compute(request, prepare_observations(request, observations, rubrics), rubrics)


def prepare_observations(request: AnalysisRequest, observations: Observations, rubrics: RubricSource) -> Observations:
    """The observations as the analysis takes them, and as a drawing of it must: the values that were asked for stand as
    ratings, and more of them is better, as far as a named rubric says what is. Raises InvalidRequest."""
    if not isinstance(request, HierarchyRequest | WinRatesRequest):
        return observations
    chosen = choose_values(observations, request.values or "ratings")
    return chosen if request.rubric is None else orient(chosen, rubrics.get(request.rubric).best)


def compute(  # noqa: PLR0911 (one per analysis)
    request: AnalysisRequest, observations: Observations, rubrics: RubricSource
) -> AnalysisReport:
    """The analysis of observations that are prepared. As `analyse`."""
    match request:
        case AgreementRequest():
            from saiten_server.stats.agreement import measure_agreement

            return measure_agreement(observations)
        case JudgesRequest():
            from saiten_server.stats.scorers import compare_scorers, list_records

            records = tuple(list_records(observations)) if request.records else None
            report = compare_scorers(observations, match=request.match, resamples=request.resamples, seed=request.seed)
            return report.model_copy(update={"records": records})
        case CorrelationRequest():
            from saiten_server.stats.correlation import correlate_scores

            if not observations.scores:
                detail = Message("no-values-in-field", field=repr(request.scores_field))
                raise InvalidRequest(detail, pointer="/scores_field")
            return correlate_scores(observations, match=request.match, resamples=request.resamples, seed=request.seed)
        case HierarchyRequest():
            from saiten_server.stats.hierarchy import find_hierarchy

            return find_hierarchy(observations, alpha=request.alpha, method=request.method)
        case WinRatesRequest():
            from saiten_server.stats.win_rates import rate_wins

            return rate_wins(observations)
        case CompositeFitRequest() | BlendFitRequest():
            return fit_weights(request, observations, rubrics)
        case CorrectedRequest():
            return correct_means(request, observations, rubrics)
    raise NotImplementedError(type(request).__name__)


def fit_weights(
    request: CompositeFitRequest | BlendFitRequest, observations: Observations, rubrics: RubricSource
) -> AnalysisReport:
    """The weights of a composite, or the weight of the blend."""
    from saiten_server.stats.fitting import fit_blend, fit_composite

    if isinstance(request, CompositeFitRequest):
        composite = find_composite(rubrics.get(request.rubric or "lfqa"), request.composite)
        return fit_composite(observations, composite, request.target, seed=request.seed)
    if observations.similarity is None:
        raise InvalidRequest(Message("no-similarity"), pointer="/data")
    return fit_blend(observations, request.aspect, folds=request.folds, seed=request.seed, statistic=request.statistic)


def correct_means(request: CorrectedRequest, observations: Observations, rubrics: RubricSource) -> AnalysisReport:
    """The judge's means corrected by people's ratings; with a rubric those of its composites too."""
    from saiten_server.stats.corrected import report_corrected

    ranges = dict(request.ranges)
    if request.rubric is not None:
        rubric = rubrics.get(request.rubric)
        observations, ranges = add_composites(observations, rubric), {**bounds_of(rubric), **ranges}
    for name in () if request.batch_ids else request.ranges:
        if name not in observations.scores and name not in observations.ratings:
            raise InvalidRequest(Message("no-score-of", name=repr(clip(name))), pointer="/ranges")
    return report_corrected(
        observations,
        alpha=request.alpha,
        units=request.units,
        quantile=request.quantile,
        ranges=ranges,
        aspects=request.aspects,
        looks=request.looks,
        margin=request.margin,
    )


def add_composites(observations: Observations, rubric: Rubric) -> Observations:
    """The observations with the rubric's composites of people's ratings and of scores, where all parts are there."""

    def add(columns: Mapping[str, Floats]) -> dict[str, Floats]:
        complete = [one for one in rubric.composites if one.id not in columns and {*one.aspects} <= columns.keys()]
        return {**columns, **{one.id: cast("Floats", evaluate(one, cast("Any", columns))) for one in complete}}

    return replace(observations, ratings=add(observations.ratings), scores=add(observations.scores))


def orient(observations: Observations, best: Mapping[str, float]) -> Observations:
    """Aspects whose best level is not the highest count by minus their distance from it; `folded` says which do. Raters
    are averaged first: one who says −1 and one who says 1 agree on nothing, but their mean is 0. What nothing is to be
    done to is handed back as it is."""
    columns = {**observations.scores, **observations.ratings}
    levels = {name: level for name, level in best.items() if name in columns and name not in observations.folded}
    if not levels:
        return observations
    averaged = average_ratings(observations)

    def fold(columns: Mapping[str, Floats]) -> dict[str, Floats]:
        return {name: -np.abs(column - levels[name]) if name in levels else column for name, column in columns.items()}

    return replace(
        averaged, ratings=fold(averaged.ratings), scores=fold(averaged.scores), folded={**observations.folded, **levels}
    )


def average_ratings(observations: Observations) -> Observations:
    """One row for each system's item, without raters: its ratings are their means."""
    from saiten_server.stats.statistics import settled_means

    units = observations.units
    dialogue = None
    if observations.dialogue is not None:
        dialogue = np.full(units, NO_DIALOGUE, dtype=np.int64)
        np.maximum.at(dialogue, observations.unit, observations.dialogue)
    return replace(
        observations,
        raters=(),
        system=observations.unit_system,
        item=observations.unit_item,
        rater=np.full(units, NO_RATER, dtype=np.int64),
        ratings={name: settled_means(observations, column) for name, column in observations.ratings.items()},
        scores={name: settled_means(observations, column) for name, column in observations.scores.items()},
        similarity=None if observations.similarity is None else observations.means(observations.similarity),
        lines=None,
        dialogue=dialogue,
    )


def choose_values(observations: Observations, values: Values) -> Observations:
    """The observations with the values asked for as their ratings."""
    if values == "ratings":
        return observations
    if not observations.scores:
        raise InvalidRequest(Message("no-scores"), pointer="/values")
    return replace(observations, ratings=observations.scores)


def find_composite(rubric: Rubric, wanted: str | None) -> LinearComposite:
    """The rubric's linear composite of that id, else its first one."""
    linear = [composite for composite in rubric.composites if isinstance(composite, LinearComposite)]
    for composite in linear:
        if wanted in {None, composite.id}:
            return composite
    known = ", ".join(composite.id for composite in linear) or "none"
    raise InvalidRequest(Message("composites-of-rubric", rubric=rubric.id, names=known), pointer="/composite")
