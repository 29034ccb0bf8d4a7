"""`/monitors`: what is watched live, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from saiten.core.messages import Message
from saiten_server.core.conversation import ANY_CODE, RULE_CODES
from saiten_server.core.errors import InvalidRequest, NotFound, Overloaded, SaitenError
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import validate
from saiten_server.monitors.production.service import ProductionService
from saiten_server.monitors.production.values import MOST_ADDED, DatasetRequest
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.values import MeasureState, Monitor
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.web.dependencies import Serving, may_write, note
from saiten_server.platform.web.language import mark, query
from saiten_server.platform.web.page import PageRoute, Project, WritableProject, read_form, redirect, render
from saiten_server.platform.web.problems import find_status
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

NEWEST = 30
"""Conversations, windows and alarms on the page."""

NOTHING_GIVEN: Mapping[str, str] = {"dataset": "", "finding": "", "at_most": "", "aspect": "overall", "limit": "100"}
"""The form by which conversations are added to a dataset, before anyone sent it."""

STATES = {"ok": mark("no change shown"), "alarm": mark("worse"), "not-enough": mark("not enough yet")}
SAMPLING_OUTCOMES = {
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
    return await render_monitor(request, container, project, monitor_id)


@router.post("/monitors/{monitor_id}/dataset")
async def add_to_dataset(request: Request, container: Serving, project: WritableProject, monitor_id: str) -> Response:
    """Adds the conversations that are ticked, or those that fit the filter, to the dataset, and redirects to it."""
    form = await read_form(request)
    monitor = (await container.find(MonitorService).find(project, monitor_id)).monitor
    await count_request(request, request.state.key)
    given = {name: form.get(name) for name in ("dataset", "finding", "at_most", "aspect", "limit")}
    document: dict[str, Any] = {"dataset": given["dataset"]}
    if form.get("by") == "filter":
        most = {given["aspect"]: read_number(given["at_most"])} if given["at_most"] else {}
        document |= {"filter": {"finding": given["finding"] or None, "at_most": most}}
        document |= {"limit": read_number(given["limit"])} if given["limit"] else {}
    else:
        document["conversations"] = form.all("conversation")[:MOST_ADDED]
    try:
        asked = validate(DatasetRequest, document, container.settings.limits)
        if asked.conversations == ():
            raise InvalidRequest(Message("no-conversation-ticked"))
        grown = await container.find(ProductionService).add_to_dataset(project, monitor, asked)
    except (InvalidRequest, Overloaded) as error:
        return await render_monitor(request, container, project, monitor_id, given=given, fault=error)
    await note(request, container, "dataset.grown", grown.id, monitor=monitor_id, added=grown.added)
    return redirect(query(f"/datasets/{grown.id}", kept="new" if grown.added else "same"))


@router.post("/monitors/{monitor_id}/baseline")
async def pin_window(request: Request, container: Serving, project: WritableProject, monitor_id: str) -> Response:
    """Makes the run of the last complete window, or of the one in the form, the baseline of the monitor's name."""
    form = await read_form(request)
    await container.find(MonitorService).find(project, monitor_id)
    try:
        window = await container.find(ProductionService).find_window(project, monitor_id, form.get("run") or None)
        run = await container.batches.find(project, window.run)
        pinned = await container.comparison.pin(project, run.name or "", run.id)
    except (InvalidRequest, NotFound) as error:
        return await render_monitor(request, container, project, monitor_id, fault=error)
    await note(request, container, "baseline.pinned", pinned.batch)
    return redirect(f"/monitors/{monitor_id}#windows")


def read_number(text: str) -> float | int | str:
    """The number, whole where it is one, or the text if it is none."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


async def render_monitor(
    request: Request,
    container: Container,
    project: str,
    monitor_id: str,
    *,
    given: Mapping[str, str] = NOTHING_GIVEN,
    fault: SaitenError | None = None,
) -> Response:
    """The page of the monitor; `given` are the fields of a form that was refused, and `fault` is why."""
    service = container.find(MonitorService)
    monitor = await service.show(project, monitor_id)
    states, alarms = await service.alarms(project, monitor_id, before=None, limit=NEWEST)
    windows = await service.windows(project, monitor_id, before=None, limit=NEWEST)
    results = await service.results(project, monitor_id, before=None, limit=NEWEST)
    rubric = find_rubric(container, monitor.options.rubric)
    pins = await container.comparison.baselines.list(project, [monitor.options.name])
    return render(
        request,
        "monitor.html",
        200 if fault is None else find_status(fault),
        monitor=monitor,
        baseline=next((one.batch for one in pins), None),
        given={**given, "dataset": given["dataset"] or monitor.options.name},
        fault=fault,
        codes=(ANY_CODE, *RULE_CODES),
        rated=[] if rubric is None else [aspect.id for aspect in rubric.aspects],
        most_added=MOST_ADDED,
        name_characters=container.settings.limits.name_characters,
        may_write=may_write(request),
        alarms=alarms,
        states=sorted(states, key=rank_state),
        windows=[one for _, one in windows],
        results=[one for _, one in results],
        measures={} if rubric is None else {aspect.id: aspect.name for aspect in rubric.aspects},
        aspects=list_shown(rubric, monitor),
        state_names=STATES,
        outcomes=SAMPLING_OUTCOMES,
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
