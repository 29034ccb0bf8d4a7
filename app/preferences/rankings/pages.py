"""`/leaderboard/preferences`: systems ranked by preferences, who beats whom, and the cases of a pair of systems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from saiten.core.messages import Message
from saiten.core.ranking_table import HEADINGS, write_ranking
from saiten_server.core.batch import BatchFilter
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.sentences import LANGUAGE
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import Speech, mark, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.preferences.rankings.service import RankingService
from saiten_server.preferences.rankings.values import Leaderboard, Ranking, RankingRequest, Source
from saiten_server.preferences.runs.service import PreferenceRunService
from saiten_server.runs.summary import SYSTEM

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/leaderboard/preferences", include_in_schema=False, route_class=PageRoute)

MOST_LISTED = 50
"""Preference runs, and names, to choose from."""

CHART_WAIT_SECONDS = 2.0
FILE_WAIT_SECONDS = 30.0

SOURCE_NAMES: dict[Source, str] = {
    "judge": mark("The judge, in pairs"),
    "people": mark("People"),
    "ratings": mark("The judge's ratings"),
}
COLUMN_TITLES = (
    mark("Rank"),
    mark("System"),
    mark("Strength"),
    mark("Interval"),
    mark("Possible ranks"),
    mark("Won"),  # "Wins" heads wins and losses on other pages
    mark("Losses"),
    mark("Ties"),
)
"""What pages call the headings of `write_ranking`."""


@router.get("")
async def show_leaderboard(request: Request, container: Serving, project: Project) -> Response:
    """The systems of a preference run or a name; without one, what there is to choose from."""
    given = request.query_params
    run, name = given.get("preference_run", "").strip()[:64], given.get("name", "").strip()[:1000]
    if not run and not name:
        runs = await container.find(PreferenceRunService).pairs.list(
            project, BatchFilter(), after=None, limit=MOST_LISTED
        )
        named = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=200)
        systems: dict[str, set[str | None]] = {}
        for batch in named:
            if batch.name is not None:
                systems.setdefault(batch.name, set()).add(batch.metadata.get(SYSTEM))
        names = [name for name, found in systems.items() if len(found) > 1][:MOST_LISTED]
        return render(request, "preference_leaderboard.html", state="pick", runs=runs, names=names)
    found = await find_leaderboard(container, project, run, name)
    if isinstance(found, PendingComputation):
        return render(request, "preference_leaderboard.html", state="computing", run=run, name=name)
    ranking = found.main
    if ranking is None:
        return render(request, "preference_leaderboard.html", state="few", run=run, name=name)
    speech = speech_of(request)
    return render(
        request,
        "preference_leaderboard.html",
        state="ready",
        run=run,
        name=name,
        board=found,
        ranking=ranking,
        source=next(source for source in SOURCE_NAMES if getattr(found, source) is ranking),
        sources=[(source, getattr(found, source)) for source in SOURCE_NAMES if getattr(found, source) is not None],
        names_of=SOURCE_NAMES,
        chart=await paint(container, speech, ranking),
        beside={(one.a, one.b): one for one in ranking.pairs},
        address=lambda path, **more: query(path, preference_run=run or None, name=name or None, **more),
    )


@router.get(".md")
async def write_markdown(request: Request, container: Serving, project: Project) -> Response:
    """The ranking as a table for a README."""
    ranking = await find_ranking(request, container, project)
    speech = speech_of(request)
    named = dict(zip(HEADINGS, COLUMN_TITLES, strict=True))
    told = ranking.model_dump(mode="json", context={LANGUAGE: speech.language})
    text = write_ranking(told, lambda heading: speech.say(named[heading]))
    return Response(text, media_type="text/markdown; charset=utf-8")


@router.get(".svg")
async def draw_svg(request: Request, container: Serving, project: Project) -> Response:
    """The strengths as a picture."""
    return Response(await draw(request, container, project), media_type="image/svg+xml")


@router.get(".png")
async def draw_png(request: Request, container: Serving, project: Project) -> Response:
    """The strengths as a picture in pixels."""
    svg = await draw(request, container, project)

    def work() -> bytes:
        import vl_convert

        from saiten_server.platform.charts.sheet import SCALE

        found: bytes = vl_convert.svg_to_png(svg, scale=SCALE)
        return found

    return Response(await asyncio.to_thread(work), media_type="image/png")


async def draw(request: Request, container: Container, project: str) -> str:
    """The picture as a document of its own."""
    ranking, speech = await find_ranking(request, container, project), speech_of(request)

    def work() -> str:
        from saiten_server.platform.charts.sheet import ChartSection, ChartSheet, compose
        from saiten_server.preferences.rankings.charts import build_strengths

        title = speech.say(mark("Leaderboard by preferences"))
        return compose(ChartSheet(title, [ChartSection("", [build_strengths(ranking, speech)])]))

    return await container.comparison.compute(work)


async def find_ranking(request: Request, container: Container, project: str) -> Ranking:
    """The ranking of the preference run or the name in the query."""
    given = request.query_params
    run, name = given.get("preference_run", "").strip()[:64], given.get("name", "").strip()[:1000]
    if bool(run) == bool(name):
        raise InvalidRequest(Message("leaderboard-one-source"), pointer="/query/name")
    found = await find_leaderboard(container, project, run, name, wait_seconds=FILE_WAIT_SECONDS)
    if isinstance(found, PendingComputation) or found.main is None:
        raise NotFound(Message("ranking-no-preferences"))
    return found.main


async def find_leaderboard(
    container: Container, project: str, run: str, name: str, *, wait_seconds: float = 0.05
) -> Leaderboard | PendingComputation:
    """The leaderboard, computed once for what there is now."""
    service = container.find(RankingService)
    request = RankingRequest(preference_run=run or None)
    key = ("preference-leaderboard", run, name, await service.mark(project, run, name))

    async def work() -> Leaderboard:
        return await container.comparison.compute(await service.prepare_leaderboard(project, request, name or None))

    return await container.dashboard.computations.get(project, key, work, wait_seconds=wait_seconds)


async def paint(container: Container, speech: Speech, ranking: Ranking) -> Markup | None:
    """The strengths as a chart; None while it is being drawn, or where there are none."""
    from saiten_server.preferences.rankings.charts import build_strengths

    if all(one.strength is None for one in ranking.systems.values()):
        return None
    drawn = await container.dashboard.charts.draw_soon(build_strengths(ranking, speech), CHART_WAIT_SECONDS)
    return None if drawn is None else Markup(drawn)  # noqa: S704 (the renderer keeps nothing but shapes and texts)


@router.get("/pair")
async def show_pair(request: Request, container: Serving, project: Project) -> Response:
    """The items of two systems of a preference run with what was said of them, the clearest losses first."""
    given = request.query_params
    run, a, b = (given.get(name, "").strip()[:1000] for name in ("preference_run", "a", "b"))
    service = container.find(RankingService)
    cases, total = await service.list_cases(project, run, (a, b))
    return render(request, "preference_pair.html", run=run, a=a, b=b, cases=cases, total=total)
