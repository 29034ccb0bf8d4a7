"""`/live`: the progress of runs, as server-sent events with HTML for the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from app.domain.batch import Batch
from app.domain.errors import NotFound
from app.web.api import batches
from app.web.api.batches import ENDS, GoesOn, look, steady
from app.web.dashboard.language import speech_of
from app.web.dashboard.page import PageRoute, Project, render_text
from app.web.dependencies import Serving

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_RUNS = 50
OVER = "over"
"""The last event: every run has ended. A reconnection with this id is answered with 204."""

Find = Callable[[], Awaitable[Batch | None]]
Show = Callable[[Batch], str]


@router.get("/live")
async def follow_runs(
    request: Request, container: Serving, project: Project, run: Annotated[list[str] | None, Query()] = None
) -> Response:
    """`progress` with each run's progress at once and at every change, `ended` and `gone` of a run, `over` at last."""
    if request.headers.get("last-event-id") == OVER:
        return Response(status_code=204)
    finds = {
        run_id: partial(container.batches.look, project, run_id)
        for run_id in list(dict.fromkeys(run or ()))[:MOST_RUNS]
    }
    runs = {run_id: found for run_id, find in finds.items() if (found := await find()) is not None}
    if not runs:
        raise NotFound("there is none of these runs in this project")

    def show(batch: Batch) -> str:
        return render_text(request, "progress.html", batch=batch)

    stream = stream_events(runs, finds, show, partial(say_end, request), batches.make_rest(request))
    # Otherwise nginx holds events back until its buffer is full.
    return EventSourceResponse(stream, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def stream_events(
    runs: Mapping[str, Batch], finds: Mapping[str, Find], show: Show, say: Show, goes_on: GoesOn
) -> AsyncIterator[bytes]:
    """The events from `runs` to the end of all of them, or as long as the stream goes on."""
    clock = asyncio.get_running_loop().time
    open_runs = {run_id: batch for run_id, batch in runs.items() if batch.status not in ENDS}
    for batch in runs.values():
        yield write_event(batch, show, say)
    sent_at, wait = clock(), batches.SHORTEST_POLL_SECONDS
    while open_runs:
        if not await goes_on(wait):
            return
        changed = False
        for run_id, before in list(open_runs.items()):
            found = await look(finds[run_id], before)
            if found is not None and steady(found) == steady(before):
                continue
            changed = True
            yield write("gone", {"id": run_id}) if found is None else write_event(found, show, say)
            if found is None or found.status in ENDS:
                del open_runs[run_id]
            else:
                open_runs[run_id] = found
        wait = batches.SHORTEST_POLL_SECONDS if changed else min(batches.LONGEST_POLL_SECONDS, wait * 1.5)
        if changed:
            sent_at = clock()
        elif clock() - sent_at >= batches.HEARTBEAT_SECONDS:
            yield KEEPALIVE_COMMENT
            sent_at = clock()
    yield write(OVER, {}, event_id=OVER)


def write_event(batch: Batch, show: Show, say: Show) -> bytes:
    """A run's progress, with a text for screen readers if it has ended."""
    if batch.status in ENDS:
        return write("ended", {"id": batch.id, "html": show(batch), "said": say(batch)})
    return write("progress", {"id": batch.id, "html": show(batch)})


def write(name: str, data: Mapping[str, str], *, event_id: str | None = None) -> bytes:
    """One event."""
    retry = None if event_id else batches.RECONNECT_MILLISECONDS
    return format_sse_event(event=name, data_str=json.dumps(data, ensure_ascii=False), id=event_id, retry=retry)


def say_end(request: Request, batch: Batch) -> str:
    """That the run has ended, for a screen reader."""
    _, run = speech_of(request).say, batch.name or batch.id
    if batch.status == "completed":
        return _("The run %(run)s is complete.", run=run)
    return _("The run %(run)s was cancelled.", run=run)
