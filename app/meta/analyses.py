"""From what a caller asks to the analysis that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch

import numpy as np

from app.analysis.observations import Floats, Observations
from app.domain.analysis_request import (
    AgreementRequest,
    AnalysisRequest,
    BlendFitRequest,
    CompositeFitRequest,
    CorrelationRequest,
    HierarchyRequest,
    Values,
    WinRatesRequest,
)
from app.domain.errors import InvalidRequest
from app.domain.reports import (
    AgreementReport,
    BlendFit,
    CompositeFit,
    CorrelationReport,
    HierarchyReport,
    WinReport,
)
from app.domain.rubric import LinearComposite, Rubric
from app.ports import RubricSource

Report = AgreementReport | CorrelationReport | HierarchyReport | CompositeFit | BlendFit | WinReport


@singledispatch
def analyse(request: AnalysisRequest, observations: Observations, rubrics: RubricSource) -> Report:
    """The analysis that the request's type names. It takes seconds at worst: not for an event loop.

    Raises InvalidRequest where the request asks for what the rubric or the data have not. scipy is loaded here.
    """
    raise NotImplementedError(type(request).__name__)


@analyse.register
def _(request: AgreementRequest, observations: Observations, rubrics: RubricSource) -> AgreementReport:
    from app.analysis.agreement import measure_agreement

    return measure_agreement(observations)


@analyse.register
def _(request: CorrelationRequest, observations: Observations, rubrics: RubricSource) -> CorrelationReport:
    from app.analysis.correlation import correlate

    if not observations.scores:
        detail = f"no record has values of a metric or a judge in its field {request.scores_field!r}"
        raise InvalidRequest(detail, pointer="/scores_field")
    return correlate(observations, resamples=request.resamples, seed=request.seed)


@analyse.register
def _(request: HierarchyRequest, observations: Observations, rubrics: RubricSource) -> HierarchyReport:
    from app.analysis.hierarchy import find_hierarchy

    chosen = choose(oriented(request, observations, rubrics), request.values)
    return find_hierarchy(chosen, alpha=request.alpha, method=request.method)


@analyse.register
def _(request: WinRatesRequest, observations: Observations, rubrics: RubricSource) -> WinReport:
    from app.analysis.win_rates import rate_wins

    return rate_wins(choose(oriented(request, observations, rubrics), request.values or "ratings"))


@analyse.register
def _(request: CompositeFitRequest, observations: Observations, rubrics: RubricSource) -> CompositeFit:
    from app.analysis.composite_fitting import fit_composite

    rubric = rubrics.get(request.rubric or "lfqa")
    return fit_composite(observations, find_composite(rubric, request.composite), request.target, seed=request.seed)


@analyse.register
def _(request: BlendFitRequest, observations: Observations, rubrics: RubricSource) -> BlendFit:
    from app.analysis.blend_fitting import fit_blend

    if observations.similarity is None:
        raise InvalidRequest("no record has a similarity: the field is `similarity`, a number", pointer="/data")
    return fit_blend(observations, request.aspect, folds=request.folds, seed=request.seed, statistic=request.statistic)


def oriented(request: AnalysisRequest, observations: Observations, rubrics: RubricSource) -> Observations:
    """The observations so that more is better, as far as a named rubric says what is better."""
    return observations if request.rubric is None else orient(observations, rubrics.get(request.rubric).best)


def orient(observations: Observations, best: Mapping[str, float]) -> Observations:
    """Aspects whose best level is not the highest count by minus their distance from it."""

    def turn(columns: Mapping[str, Floats]) -> dict[str, Floats]:
        return {name: -np.abs(column - best[name]) if name in best else column for name, column in columns.items()}

    return replace(observations, ratings=turn(observations.ratings), scores=turn(observations.scores))


def choose(observations: Observations, values: Values) -> Observations:
    """The observations with the values asked for as their ratings."""
    if values == "ratings":
        return observations
    if not observations.scores:
        raise InvalidRequest("no record has scores", pointer="/values")
    return replace(observations, ratings=observations.scores)


def find_composite(rubric: Rubric, wanted: str | None) -> LinearComposite:
    """The rubric's linear composite of that id, else its first one."""
    linear = [composite for composite in rubric.composites if isinstance(composite, LinearComposite)]
    for composite in linear:
        if wanted in {None, composite.id}:
            return composite
    known = ", ".join(composite.id for composite in linear) or "none"
    raise InvalidRequest(f"the rubric {rubric.id} has these linear composites: {known}", pointer="/composite")
