"""`/aspects`: how aspects hang together, which systems differ, and how far people and the judge agree."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from app.bootstrap import Service
from app.domain.batch import Batch, BatchFilter
from app.domain.reports import AgreementReport
from app.domain.rubric import Rubric
from app.meta.computations import Pending
from app.meta.overview import Overview
from app.web.dashboard.aspects_choice import Choice, choose, name_systems
from app.web.dashboard.aspects_view import (
    chart_agreement,
    chart_dependencies,
    explain,
    list_reasons,
    make_matrices,
)
from app.web.dashboard.compare_view import name_measures
from app.web.dashboard.examining import state_of
from app.web.dashboard.page import PageRoute, render
from app.web.dashboard.painting import is_missing, paint
from app.web.dashboard.run_patterns import make_cell
from app.web.dashboard.run_values import build_of, find_rubric, system_of
from app.web.dashboard.run_view import ENDED
from app.web.dashboard.session import Project
from app.web.dashboard.speech import Speech, speech_of
from app.web.dashboard.texts import query
from app.web.evaluations import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_LISTED = 100
MOST_ASKED = 40
"""Runs that an address may name; more than are looked at together."""

LEVELS = {"0.01": 0.01, "0.05": 0.05}
VALUES = ("judge", "ratings")
LONGEST = 100


@router.get("/aspects")
async def show_aspects(request: Request, service: Serving, project: Project) -> Response:
    """The runs that were chosen, else the newest of each system."""
    given = request.query_params
    asked = [batch_id[:LONGEST] for batch_id in given.getlist("run")[:MOST_ASKED] if batch_id.strip()]
    runs = await list_runs(service, project, asked)
    rubric_id = given.get("rubric", "")[:LONGEST]
    choice = choose(runs, rubric=rubric_id, asked=asked, is_final=given.get("chosen") == "1")
    if choice is None:
        return render(request, "aspects.html", state="empty")
    level = given.get("alpha", "")
    level = level if level in LEVELS else next(iter(LEVELS))
    values = "ratings" if given.get("values") == "ratings" else "judge"
    rubric = find_rubric(service, choice.rubric)
    found: dict[str, Any] = {"state": "gone"}
    if rubric is not None:
        found = await gather(service, project, speech_of(request), choice, rubric, alpha=LEVELS[level], values=values)
    ids = [run.id for run in choice.chosen]

    def address(**changes: Any) -> str:
        """This page, asked otherwise."""
        return query("/aspects", **{"run": ids, "chosen": "1", "alpha": level, "values": values, **changes})

    return render(
        request,
        "aspects.html",
        choice=choice,
        ids=ids,
        rubric=rubric,
        level=level,
        levels=tuple(LEVELS),
        values=values,
        address=address,
        system_of=system_of,
        build_of=build_of,
        **found,
    )


async def list_runs(service: Service, project: str, asked: list[str]) -> list[Batch]:
    """The newest completed runs, and those asked for that have ended. Raises NotFound for one that is not there."""
    runs = await service.desk.list(project, BatchFilter(status="completed"), after=None, limit=MOST_LISTED)
    listed = {run.id for run in runs}
    for batch_id in dict.fromkeys(asked):
        if batch_id not in listed:
            batch = await service.desk.find(project, batch_id)
            runs += [batch] if batch.status in ENDED else []
    return runs


async def gather(
    service: Service, project: str, speech: Speech, choice: Choice, rubric: Rubric, *, alpha: float, values: str
) -> dict[str, Any]:
    """Everything that rests on the runs' results."""
    ids = [run.id for run in choice.chosen]
    aspects = [aspect.id for aspect in rubric.aspects]
    # A rating more or less, and it is another overview.
    ratings = await service.meta.mark_ratings(project)
    key = ("overview", *map(state_of, choice.chosen), rubric.digest, alpha, ratings)
    found = await service.computations.get(
        project,
        key,
        lambda: service.overview.look(project, ids, aspects=aspects, alpha=alpha),
    )
    if isinstance(found, Pending):
        return {"state": "computing"}
    report = await make_report(service, speech, choice, rubric, found, values=values)
    charts = [chart for chart in (report["graph_chart"], report["correlation_chart"]) if chart is not None]
    return {"state": "ready", "painting": any(map(is_missing, charts)), **report}


async def make_report(
    service: Service, speech: Speech, choice: Choice, rubric: Rubric, found: Overview, *, values: str
) -> dict[str, Any]:
    """What the overview says, drawn and named."""
    names = name_measures(rubric, speech)
    ranking = found.rated if values == "ratings" else found.judged
    graph, matrices, correlation = ranking.hierarchy.report, ranking.matrices.report, found.correlation.report
    return {
        "overview": found,
        "names": names,
        "graph": graph,
        "no_graph": explain(ranking.hierarchy.code),
        "graph_chart": await paint(service, speech, chart_dependencies(graph, names, speech)) if graph else None,
        "graph_reasons": list_reasons([*(each.undefined for each in graph.aspects.values())]) if graph else [],
        "matrices": make_matrices(matrices, names, name_systems(found.systems, choice.chosen)) if matrices else [],
        "no_matrices": explain(ranking.matrices.code),
        "agreement": found.agreement.report,
        "no_agreement": explain(found.agreement.code),
        "rater_rows": list_rater_rows(found.agreement.report),
        "correlation": correlation,
        "no_correlation": explain(found.correlation.code),
        "correlation_chart": await paint(service, speech, chart_agreement(correlation, names, speech))
        if correlation
        else None,
        "correlation_reasons": list_reasons([each.undefined for each in correlation.aspects.values()])
        if correlation
        else [],
    }


def list_rater_rows(report: AgreementReport | None) -> list[tuple[str, list[Any]]]:
    """The correlations of the aspects over the raters' means, a row an aspect."""
    if report is None or len(report.aspects) < 2:
        return []
    return [
        (row, [make_cell(report.correlations, "spearman", row, column) for column in report.aspects])
        for row in report.aspects
    ]
