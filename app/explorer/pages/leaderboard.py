"""`/leaderboard`: the systems of one name and rubric by their newest runs, with the places that are told apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request, Response

from saiten_server.comparison.service import MOST_RANKED, MOST_RANKED_RESULTS
from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.reports import CorrectedFigure, Interval
from saiten_server.core.rubric import Rubric, range_of
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.pages import run_values
from saiten_server.explorer.pages.trend import ways_of
from saiten_server.platform.computations import TURN_WAIT_SECONDS, PendingComputation
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.runs.names import build_of, name_measures, signatures_of, system_of
from saiten_server.runs.summary import Spread, Summary
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.comparison.ranking import RunPlaces
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_RUNS_READ = 200
"""Runs of a name among which the newest of each system are looked for."""

MOST_ASKED_CHARACTERS = 1000


class RunsRanked(NamedTuple):
    """The newest run of each system, newest first, and those that were left out: judged otherwise, or too many."""

    runs: Sequence[Batch]
    otherwise: Sequence[Batch] = ()
    excess: Sequence[Batch] = ()


class PlaceCell(NamedTuple):
    """One system on one measure; `places` are the best and the worst that it can have, and `needed` is how many ratings
    by people a corrected mean needs where there is none."""

    mean: float | None
    interval: Interval
    places: tuple[int, int]
    needed: int | None = None


@router.get("/leaderboard")
async def show_ranked_runs(request: Request, container: Serving, project: Project) -> Response:
    """The systems of a name; without a name, the names of the newest runs."""
    given = request.query_params
    name = given.get("name", "").strip()[:MOST_ASKED_CHARACTERS]
    chosen = given.get("rubric", "").strip()[:MOST_ASKED_CHARACTERS]
    wanted = BatchFilter(status="completed", name=name or None, rubric=chosen or None)
    listed = await container.batches.list(project, wanted, after=None, limit=MOST_RUNS_READ)
    if not name:
        systems: dict[tuple[str, str], set[str | None]] = {}
        for batch in listed:
            if batch.name is not None:
                systems.setdefault((batch.name, batch.rubric), set()).add(system_of(batch))
        return render(request, "leaderboard.html", state="pick", name="", systems=systems)
    asked = {one[:MOST_ASKED_CHARACTERS] for one in given.getlist("run")[:MOST_RANKED]}
    found = choose_ranked(listed, asked)
    page: dict[str, Any] = {"name": name, "found": found, "system_of": system_of, "build_of": build_of}
    rubric = find_rubric(container, found.runs[0].rubric_name) if found.runs else None
    if rubric is None or len(found.runs) < 2:
        return render(request, "leaderboard.html", state="few", **page)
    rated = await run_values.mark_ratings(container, project)
    ranked = await rank_runs(container, project, found.runs, rubric, rated=rated)
    if isinstance(ranked, PendingComputation):
        return render(request, "leaderboard.html", state="computing", **page)
    figures = "corrected" if given.get("figures") == "corrected" else "judge"
    summaries = await container.batches.summaries(project, found.runs)
    scales = list_scales(rubric)
    known, is_corrected = [one for one in scales if one in ranked.judged], figures == "corrected"
    rows = list_rows(found.runs, ranked, summaries, known, is_corrected=is_corrected)
    measures = [one for one in known if is_corrected or any(cells[one].mean is not None for _, cells in rows)]
    sort = given.get("aspect", "") if given.get("aspect", "") in measures else pick_first(measures)
    lines = {line for batch in found.runs for line in signatures_of(batch)}

    def address(**changes: Any) -> str:
        """This page, asked otherwise."""
        state = {
            "name": name,
            "rubric": chosen or None,
            "run": sorted(asked),
            "aspect": sort,
            "figures": figures if figures != "judge" else None,
        }
        return query("/leaderboard", **{**state, **changes})

    return render(
        request,
        "leaderboard.html",
        state="ready",
        **page,
        rubric=rubric,
        rows=order_rows(rows, sort, rubric),
        measures=measures,
        names=name_measures(rubric, speech_of(request), marked=True),
        scales=scales,
        trust=await container.ratings.reliabilities.weakest(project, lines, measures),
        sort=sort,
        rises=find_best(sort, rubric) == 0,
        figures=figures,
        has_corrected=bool(ranked.corrected),
        address=address,
    )


def list_scales(rubric: Rubric) -> dict[str, tuple[float, float]]:
    """The lowest and the highest value of each measure."""
    scales: dict[str, tuple[float, float]] = {aspect.id: aspect.scale for aspect in rubric.aspects}
    scales |= {composite.id: range_of(composite, rubric) for composite in rubric.composites}
    scales.setdefault(FAULTY_TURNS, (0, 100))
    return scales


def choose_ranked(listed: Sequence[Batch], asked: set[str]) -> RunsRanked:
    """The newest run of each system (newest first), or those asked for, that were judged as the newest of them was."""
    newest: dict[str | None, Batch] = {}
    for batch in listed:
        if (batch.id in asked or not asked) and batch.counts.scored + batch.counts.partial:
            newest.setdefault(batch.id if asked else system_of(batch), batch)
    runs = [*newest.values()]
    same = [run for run in runs if run.rubric_name == runs[0].rubric_name and ways_of(run) == ways_of(runs[0])]
    kept: list[Batch] = []
    for run in same:
        if len(kept) < MOST_RANKED and sum(one.counts.total for one in [*kept, run]) <= MOST_RANKED_RESULTS:
            kept.append(run)
    return RunsRanked(kept, [run for run in runs if run not in same], [run for run in same if run not in kept])


async def rank_runs(
    container: Container,
    project: str,
    runs: Sequence[Batch],
    rubric: Rubric,
    *,
    rated: Hashable,
    wait_seconds: float | None = TURN_WAIT_SECONDS,
) -> RunPlaces | PendingComputation:
    """The places, once they are computed; `rated` is of `mark_ratings`, `wait_seconds` as of `Computations.get`."""
    key = ("leaderboard", *map(state_of, runs), rubric.digest, rated)
    ids = [run.id for run in runs]
    return await container.dashboard.computations.get(
        project, key, lambda: container.comparison.rank(project, ids), wait_seconds=wait_seconds
    )


def pick_first(measures: Sequence[str]) -> str:
    """What systems are sorted by at first."""
    return "overall" if "overall" in measures else measures[0] if measures else ""


RankedRun = tuple[Batch, Mapping[str, PlaceCell]]


def list_rows(
    runs: Sequence[Batch],
    ranked: RunPlaces,
    summaries: Mapping[str, Summary],
    measures: Sequence[str],
    *,
    is_corrected: bool,
) -> list[RankedRun]:
    """Each run with its cells by measure."""
    rows: list[RankedRun] = []
    for number, run in enumerate(runs):
        cells = {}
        for name in measures:
            summary = summaries.get(run.id)
            found: Spread | CorrectedFigure | None = None
            places, needed = ranked.judged[name][number], None
            if is_corrected:
                corrected = ranked.corrected[name][number] if ranked.corrected else None
                if corrected is not None:
                    found, needed, places = corrected.figure, corrected.needed, corrected.places
            elif summary is not None:
                found = summary.aspects.get(name) or summary.composites.get(name)
            cells[name] = (
                PlaceCell(None, None, places, needed)
                if found is None
                else PlaceCell(found.mean, found.interval, places)
            )
            if found is None and name == FAULTY_TURNS and not is_corrected and summary and summary.faulty_turns:
                cells[name] = PlaceCell(summary.faulty_turns.rate, summary.faulty_turns.interval, places)
        rows.append((run, cells))
    return rows


def find_best(name: str, rubric: Rubric) -> float | None:
    """The best value of the measure where it is not the highest."""
    return {FAULTY_TURNS: 0, **rubric.best}.get(name)


def order_rows(rows: Sequence[RankedRun], name: str, rubric: Rubric) -> list[RankedRun]:
    """By the places on the measure, and where these are the same by the mean: the best first."""
    best = find_best(name, rubric)

    def key(row: RankedRun) -> tuple[float, float]:
        cell = row[1][name]
        if cell.mean is None:
            return math.inf, 0.0
        return sum(cell.places), -cell.mean if best is None else abs(cell.mean - best)

    return sorted(rows, key=key) if name else [*rows]
