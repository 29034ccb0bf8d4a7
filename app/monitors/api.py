"""`/v1/monitors`: what samples live conversations, scores them, and raises alarms."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from saiten_server.core.model import Value
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.values import (
    Alarm,
    LiveResult,
    MeasureState,
    Monitor,
    MonitorChange,
    MonitorOptions,
    Window,
)
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import (
    Serving,
    Whole,
    cut_page,
    note,
    read_cursor,
    refuse_other_queries,
    tell_page,
    tell_value,
)
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/monitors", tags=["monitors"])

MONITOR_EXAMPLE: dict[str, Any] = {
    "name": "support-bot",
    "rubric": "ja-conversation",
    "filter": {"service.name": "support-bot"},
    "rate": 0.05,
    "strata": [{"filter": {"feedback": "down"}, "rate": 1.0}],
    "window": "day",
    "budget_usd_per_day": 5.0,
    "alarm": {"aspects": ["overall"], "reference_days": 14, "alpha": 0.05},
}
MONITOR_BODY = reads({JSON: form(MonitorOptions, MONITOR_EXAMPLE)}, repeatable=True)
CHANGE_BODY = reads({JSON: form(MonitorChange, {"rate": 0.1})})

Limit = Annotated[Whole, Query(ge=1, le=200, description="at most so many")]
Cursor = Annotated[str | None, Query(description="`next` of the page before")]


class Monitors(Value):
    """All monitors of the project."""

    items: tuple[Monitor, ...] = Field(description="newest first")


class Windows(Value):
    """Windows of a monitor."""

    items: tuple[Window, ...] = Field(description="newest first")
    next: str | None = Field(default=None, description="`cursor` of the next page; null on the last")


class Alarms(Value):
    """How a monitor's measures stand, and its alarms."""

    measures: tuple[MeasureState, ...] = Field(description="each measure against the reference, by name")
    items: tuple[Alarm, ...] = Field(description="newest first")
    next: str | None = Field(default=None, description="`cursor` of the next page; null on the last")


class LiveResults(Value):
    """What a monitor saw of conversations."""

    items: tuple[LiveResult, ...] = Field(description="newest first")
    next: str | None = Field(default=None, description="`cursor` of the next page; null on the last")


def serving(container: Serving) -> MonitorService:
    """The service of monitors."""
    return container.find(MonitorService)


@router.post(
    "",
    status_code=201,
    summary="Make a monitor",
    responses={201: {"model": Monitor}, **PROBLEMS},
    openapi_extra=MONITOR_BODY,
)
async def make_monitor(
    request: Request, container: Serving, body: Annotated[MonitorOptions, Depends(body_of(MonitorOptions))]
) -> Response:
    """Samples the project's live conversations from now on, and scores each once, whole, after it has ended.

    Rules look at every conversation; the judge sees the sample.
    """

    payer = request.state.key

    async def make() -> Response:
        api_key = None if payer is None else payer.id
        made = await serving(container).make(request.state.project, body, api_key=api_key)
        await note(request, container, "monitor.created", made.id)
        return tell_value(request, made, 201)

    response = await once(request, container.scoring.evaluations, make)
    response.headers["Location"] = f"/v1/monitors/{json.loads(bytes(response.body))['id']}"
    return response


@router.get("", summary="List monitors", responses={200: {"model": Monitors}, **PROBLEMS})
async def list_monitors(request: Request, container: Serving) -> Response:
    """Newest first."""
    refuse_other_queries(request)
    return tell_value(request, Monitors(items=tuple(await serving(container).list(request.state.project))))


@router.get("/{monitor_id}", summary="Read a monitor", responses={200: {"model": Monitor}, **PROBLEMS})
async def show_monitor(request: Request, container: Serving, monitor_id: str) -> Response:
    """The monitor with what waits, what it cost today, and what became of what its sinks were to get."""
    refuse_other_queries(request)
    return tell_value(request, await serving(container).show(request.state.project, monitor_id))


@router.patch(
    "/{monitor_id}",
    summary="Change a monitor",
    responses={200: {"model": Monitor}, **PROBLEMS},
    openapi_extra=CHANGE_BODY,
)
async def change_monitor(
    request: Request,
    container: Serving,
    monitor_id: str,
    body: Annotated[MonitorChange, Depends(body_of(MonitorChange))],
) -> Response:
    """Changes the fields that are given, as a new version; the others stay.

    With another rubric, filter, judge, window or alarm alarms get another reference.
    """
    refuse_other_queries(request)
    changed = await serving(container).change(request.state.project, monitor_id, body)
    await note(request, container, "monitor.changed", monitor_id, version=changed.version)
    return tell_value(request, changed)


@router.delete("/{monitor_id}", status_code=204, summary="Delete a monitor", responses=PROBLEMS)
async def delete_monitor(request: Request, container: Serving, monitor_id: str) -> Response:
    """Removes it with its alarms. Its runs stay."""
    refuse_other_queries(request)
    await serving(container).remove(request.state.project, monitor_id)
    await note(request, container, "monitor.deleted", monitor_id)
    return Response(status_code=204)


@router.get("/{monitor_id}/windows", summary="List windows", responses={200: {"model": Windows}, **PROBLEMS})
async def list_windows(
    request: Request, container: Serving, monitor_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """The hours or days of each system and build, each with its run and the weighted means of its sample."""
    refuse_other_queries(request, "limit", "cursor")
    found = await serving(container).windows(
        request.state.project, monitor_id, before=read_cursor(cursor), limit=limit + 1
    )
    shown, following = cut_page(found, limit, lambda named: (named[1].starts_at, named[0]))
    return tell_page(request, Windows(items=tuple(one for _, one in shown), next=following), following)


@router.get("/{monitor_id}/alarms", summary="List alarms", responses={200: {"model": Alarms}, **PROBLEMS})
async def list_alarms(
    request: Request, container: Serving, monitor_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """How each measure stands against the reference, and the alarms with what explains them."""
    refuse_other_queries(request, "limit", "cursor")
    states, found = await serving(container).alarms(
        request.state.project, monitor_id, before=read_cursor(cursor), limit=limit + 1
    )
    shown, following = cut_page(found, limit, lambda one: (one.raised_at, one.id))
    return tell_page(request, Alarms(measures=tuple(states), items=tuple(shown), next=following), following)


@router.get(
    "/{monitor_id}/conversations", summary="List conversations", responses={200: {"model": LiveResults}, **PROBLEMS}
)
async def list_monitored_conversations(
    request: Request, container: Serving, monitor_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """What the monitor saw of conversations, sampled or not."""
    refuse_other_queries(request, "limit", "cursor")
    found = await serving(container).results(
        request.state.project, monitor_id, before=read_cursor(cursor), limit=limit + 1
    )
    shown, following = cut_page(found, limit, lambda named: (named[1].closed_at, named[0]))
    return tell_page(request, LiveResults(items=tuple(one for _, one in shown), next=following), following)
