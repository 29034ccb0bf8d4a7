"""`/explore/aspects`: how aspects are related, which systems differ, and how well people and the judge agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request, Response

from saiten.core.wording import title_run
from saiten_server.analyses.charts.dependencies import DependencyLabels, build_dependencies
from saiten_server.analyses.charts.intervals import IntervalLabels, build_correlation
from saiten_server.core.batch import ENDED_STATUSES, Batch, BatchFilter
from saiten_server.core.reports import (
    AgreementReport,
    AspectCorrelation,
    AspectPairs,
    Confusion,
    CorrelationReport,
    HierarchyReport,
)
from saiten_server.core.rubric import Rubric
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.overview import MOST_OVERVIEW_BATCHES, MOST_RESULTS, Absence, Overview
from saiten_server.explorer.pages.run import make_cell
from saiten_server.explorer.pages.run_values import is_missing, paint
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import Speech, mark, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.runs.names import build_of, line_of, name_measures, signatures_of, system_of
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_RUNS_LISTED = 100
MOST_ASKED = 40
"""Most runs that an address may name; more than can be analysed together."""

ALPHA_LEVELS = {"0.01": 0.01, "0.05": 0.05}
MOST_PARAMETER_CHARACTERS = 100


@router.get("/explore/aspects")
async def show_aspects(request: Request, container: Serving, project: Project) -> Response:
    """The runs that were chosen, else the newest of each system."""
    given = request.query_params
    asked = [batch_id[:MOST_PARAMETER_CHARACTERS] for batch_id in given.getlist("run")[:MOST_ASKED] if batch_id.strip()]
    runs = await list_runs(container, project, asked)
    rubric_id = given.get("rubric", "")[:MOST_PARAMETER_CHARACTERS]
    choice = choose_runs(runs, rubric=rubric_id, asked=asked, is_final=given.get("chosen") == "1")
    if choice is None:
        return render(request, "aspects.html", state="empty")
    level = given.get("alpha", "")
    level = level if level in ALPHA_LEVELS else next(iter(ALPHA_LEVELS))
    values = "ratings" if given.get("values") == "ratings" else "judge"
    rubric = find_rubric(container, choice.rubric)
    found: dict[str, Any] = {"state": "gone"}
    if rubric is not None:
        found = await gather_aspects(
            container, project, speech_of(request), choice, rubric, alpha=ALPHA_LEVELS[level], values=values
        )
    ids = [run.id for run in choice.chosen]

    def address(**changes: Any) -> str:
        """This page, asked otherwise."""
        return query("/explore/aspects", **{"run": ids, "chosen": "1", "alpha": level, "values": values, **changes})

    return render(
        request,
        "aspects.html",
        choice=choice,
        ids=ids,
        rubric=rubric,
        level=level,
        levels=tuple(ALPHA_LEVELS),
        values=values,
        address=address,
        system_of=system_of,
        build_of=build_of,
        **found,
    )


async def list_runs(container: Container, project: str, asked: list[str]) -> list[Batch]:
    """The newest completed runs, and those asked for that have ended. Raises NotFound for one that is not there."""
    runs = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=MOST_RUNS_LISTED)
    listed = {run.id for run in runs}
    for batch_id in dict.fromkeys(asked):
        if batch_id not in listed:
            batch = await container.batches.find(project, batch_id)
            runs += [batch] if batch.status in ENDED_STATUSES else []
    return runs


async def gather_aspects(
    container: Container,
    project: str,
    speech: Speech,
    choice: RunSelection,
    rubric: Rubric,
    *,
    alpha: float,
    values: str,
) -> dict[str, Any]:
    """The parts of the page that depend on the runs' results."""
    ids = [run.id for run in choice.chosen]
    aspects = [aspect.id for aspect in rubric.aspects]
    # Another overview whenever ratings change.
    ratings = await container.ratings.service.mark_ratings(project)
    key = ("overview", *map(state_of, choice.chosen), rubric.digest, alpha, ratings)
    look = partial(container.dashboard.overviews.look, project, ids, aspects=aspects, alpha=alpha)
    found = await container.dashboard.computations.get(project, key, look)
    if isinstance(found, PendingComputation):
        return {"state": "computing"}
    report = await make_report(container, speech, choice, rubric, found, values=values)
    # In each request: the badges follow ratings and judge checks in the background.
    signatures = {signature for run in choice.chosen for signature in signatures_of(run)}
    report["trust"] = await container.ratings.reliabilities.weakest(project, signatures, [*report["names"]])
    charts = (report["graph_chart"], report["correlation_chart"])
    return {"state": "ready", "painting": any(is_missing(chart) for chart in charts if chart is not None), **report}


async def make_report(
    container: Container, speech: Speech, choice: RunSelection, rubric: Rubric, found: Overview, *, values: str
) -> dict[str, Any]:
    """What the overview says, drawn and named."""
    names = name_measures(rubric, speech)
    ranking = found.rated if values == "ratings" else found.judged
    graph, correlation = ranking.hierarchy.report, found.correlation.report
    systems = name_systems(found.systems, choice.chosen)
    graph_chart = correlation_chart = None
    if graph is not None:
        graph_chart = await paint(container, speech, chart_dependencies(graph, names, speech))
    if correlation is not None:
        correlation_chart = await paint(container, speech, chart_agreement(correlation, names, speech))
    return {
        "overview": found,
        "names": names,
        "graph": graph,
        "no_graph": WHY_NOT.get(ranking.hierarchy.code),
        "graph_chart": graph_chart,
        "graph_reasons": list_reasons(graph.aspects.values()) if graph else [],
        "matrices": [
            (aspect, matrix, [systems.get(system, system) for system in matrix.systems])
            for aspect, matrix in (ranking.matrices.report or {}).items()
        ],
        "no_matrices": WHY_NOT.get(ranking.matrices.code),
        "agreement": found.agreement.report,
        "no_agreement": WHY_NOT.get(found.agreement.code),
        "rater_rows": list_rater_rows(found.agreement.report) if found.agreement.report else [],
        "confusions": list_confusions(found.agreement.report),
        "correlation": correlation,
        "no_correlation": WHY_NOT.get(found.correlation.code),
        "correlation_chart": correlation_chart,
        "correlation_reasons": list_reasons(correlation.aspects.values()) if correlation else [],
    }


def list_confusions(report: AgreementReport | None) -> list[tuple[str, Confusion]]:
    """The confusion matrices of the judge and people's median, by aspect."""
    aspects = {} if report is None else report.aspects
    return [(name, one.confusion) for name, one in aspects.items() if one.confusion is not None]


def list_rater_rows(report: AgreementReport) -> list[tuple[str, list[Any]]]:
    """The correlations of the aspects over the raters' means, a row per aspect."""
    names, found = list(report.aspects), report.correlations
    rows = [(row, [make_cell(found, "spearman", row, column) for column in names]) for row in names]
    return rows if len(names) > 1 else []


MOST_BUILDS = 2
"""Of each system that is chosen at first: the newest run and the one before it."""


class RunSelection(NamedTuple):
    """A rubric, its completed runs (newest first), and those chosen. `left_out` counts those that were too many."""

    rubric: str
    rubrics: tuple[str, ...]
    runs: tuple[Batch, ...]
    chosen: tuple[Batch, ...]
    left_out: int


def choose_runs(runs: Sequence[Batch], *, rubric: str, asked: Sequence[str], is_final: bool) -> RunSelection | None:
    """What to look at; None if there is no run. A single requested run is shown with the default choice, unless
    `is_final`: alone there is nothing to compare it with."""
    by_rubric: dict[str, list[Batch]] = {}
    for run in runs:
        by_rubric.setdefault(run.rubric_name, []).append(run)
    if not by_rubric:
        return None
    named_so = next((name for name in by_rubric if rubric in (name, name.partition("@")[0])), None)
    wanted = next((run.rubric_name for run in runs if run.id in asked), None)
    name = named_so or wanted or max(by_rubric, key=lambda each: len({owner_of(run) for run in by_rubric[each]}))
    mine = by_rubric[name]
    named = [run for run in mine if run.id in asked]
    if not named or (len(named) == 1 and not is_final):
        first = suggest_runs(mine)
        named = [run for run in mine if run in first or run in named]
    chosen = limit_runs(named, asked)
    return RunSelection(name, tuple(by_rubric), tuple(mine), tuple(chosen), len(named) - len(chosen))


def owner_of(run: Batch) -> str:
    """Whose the run is."""
    return system_of(run) or title_run(run)


def suggest_runs(runs: Sequence[Batch]) -> list[Batch]:
    """Of each system the newest run, and the one before it of the same name."""
    found: dict[str, list[Batch]] = {}
    for run in runs:
        members = found.setdefault(owner_of(run), [])
        if not members or (len(members) < MOST_BUILDS and line_of(run) == line_of(members[0]) is not None):
            members.append(run)
    return [run for members in found.values() for run in members]


def limit_runs(runs: Sequence[Batch], asked: Sequence[str]) -> list[Batch]:
    """As many of the runs as are looked at together, those that were asked for before others."""
    kept: list[Batch] = []
    for run in sorted(runs, key=lambda each: each.id not in asked):
        results = sum(each.counts.total for each in kept) + run.counts.total
        if len(kept) < MOST_OVERVIEW_BATCHES and results <= MOST_RESULTS:
            kept.append(run)
    return [run for run in runs if run in kept]


def name_systems(systems: Sequence[str], runs: Sequence[Batch]) -> Mapping[str, str]:
    """What to call the systems of an overview of these runs: a second run of a system stands there with its id in
    brackets, and here with its build, on a line of its own."""
    names = {system: system for system in systems}
    owners: dict[str, str] = {}
    for run in runs:
        owner = owner_of(run)
        label = owner if owners.setdefault(owner, run.id) == run.id else f"{owner} ({run.id})"
        build = build_of(run)
        if label in names and build:
            names[label] = f"{owner}\n{build}"
    shown = list(names.values())
    return {system: name if shown.count(name) == 1 else system for system, name in names.items()}


WHY_NOT: Mapping[Absence | None, tuple[str, str]] = {
    "no-values": (
        mark("These runs have no ratings by the judge."),
        mark("Open a run's page to see what went wrong, or choose other runs."),
    ),
    "no-ratings": (
        mark("No one has rated responses from these runs yet."),
        mark("Start a rating round on the Rate page, or import ratings with the command below."),
    ),
    "few-systems": (
        mark("These values come from one system only, so there is nothing to compare it with."),
        mark("Choose runs of another system or build above. For human ratings, have their responses rated too."),
    ),
    "many-systems": (mark("There are too many systems for a table."), mark("Choose fewer runs above.")),
    "too-much": (mark("There is too much data to compute for a page."), mark("Choose fewer runs above.")),
    "uneven": (
        mark("These conversations were sampled with different probabilities, and this analysis counts each once."),
        mark("Choose runs whose conversations had the same probability."),
    ),
}
"""Why there is no report, and what to do about it."""

GRAPH_WIDTH = 420
"""Pixels: names are cut in what a phone leaves, and it can scroll."""


def chart_dependencies(report: HierarchyReport, names: Mapping[str, str], speech: Speech) -> dict[str, object]:
    """The graph of which aspect depends on which."""
    _ = speech.say
    labels = DependencyLabels(
        title=_("Dependencies between aspects"),
        description=_("Arrows lead from the lower aspect to the higher; the table has the figures"),
        alone=_("No dependencies"),
        nothing=_("There are no aspects to draw."),
    )
    return build_dependencies(report, labels, names=names, width=GRAPH_WIDTH)


def chart_agreement(report: CorrelationReport, names: Mapping[str, str], speech: Speech) -> dict[str, object]:
    """The judge against people, with what people reach among themselves."""
    _ = speech.say
    n = _("n =")
    labels = IntervalLabels(
        title=_("The judge compared with people"),
        description=_(
            "Correlation by aspect with its interval, compared with each rater's correlation with the others"
        ),
        value=_("judge, 95%% interval"),
        reference=_("a rater with the others"),
        axis=_("Spearman's ρ with the raters' mean"),
        nothing=_("There are no aspects to draw."),
    )
    return build_correlation(report, labels, describe=lambda found: f" · {n} {found.n:,}", names=names)


def list_reasons(found: Iterable[AspectPairs | AspectCorrelation]) -> list[Message | str]:
    """Why figures are dashes, each reason once."""
    return list(dict.fromkeys(reason for each in found for reason in each.undefined.values()))
