"""`/monitors`: what is watched live, and how it stands."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from saiten_server.core.rubric import Rubric
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.values import MeasureState, Monitor
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import mark
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.scoring.rubrics.files import find_rubric

router = APIRouter(include_in_schema=False, route_class=PageRoute)

NEWEST = 30
"""Conversations, windows and alarms on the page."""

STATES = {"ok": mark("no change shown"), "alarm": mark("worse"), "not-enough": mark("not enough yet")}
OUTCOMES = {
    "sampled": mark("waiting for the judge"),
    "skipped": mark("rules only"),
    "thinned": mark("left out for the budget"),
    "unreadable": mark("nothing to judge"),
}
"""What became of a conversation that has no result."""


@router.get("/monitors")
async def show_monitors(request: Request, container: Serving, project: Project) -> Response:
    """All monitors, those with an alarm first."""
    service = container.find(MonitorService)
    on = await service.store.count_alarms()
    rows = [(one, on.get(one.id, 0)) for one in await service.list(project)]
    return render(request, "monitors.html", rows=sorted(rows, key=lambda row: row[1] == 0))


@router.get("/monitors/{monitor_id}")
async def show_monitor_page(request: Request, container: Serving, project: Project, monitor_id: str) -> Response:
    """One monitor: alarms, measures, windows, and the newest conversations."""
    service = container.find(MonitorService)
    monitor = await service.show(project, monitor_id)
    states, alarms = await service.alarms(project, monitor_id, before=None, limit=NEWEST)
    windows = await service.windows(project, monitor_id, before=None, limit=NEWEST)
    results = await service.results(project, monitor_id, before=None, limit=NEWEST)
    rubric = find_rubric(container, monitor.options.rubric)
    return render(
        request,
        "monitor.html",
        monitor=monitor,
        alarms=alarms,
        states=sorted(states, key=rank_state),
        windows=[one for _, one in windows],
        results=[one for _, one in results],
        measures={} if rubric is None else {aspect.id: aspect.name for aspect in rubric.aspects},
        aspects=list_shown(rubric, monitor),
        state_names=STATES,
        outcomes=OUTCOMES,
        on=[one for one in alarms if one.resolved_at is None],
    )


def list_shown(rubric: Rubric | None, monitor: Monitor) -> list[str]:
    """The aspects whose means are in the table of windows: those that are watched, else `overall`, else the first."""
    known = [] if rubric is None else [aspect.id for aspect in rubric.aspects]
    chosen = monitor.options.alarm.aspects if monitor.options.alarm else None
    if chosen:
        return [name for name in known if name in chosen]
    return [name for name in known if name == "overall"] or known[:1]


def rank_state(state: MeasureState) -> tuple[int, str]:
    """Alarms first."""
    return ["alarm", "ok", "not-enough"].index(state.state), state.measure
