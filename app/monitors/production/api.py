"""`/v1/monitors/{id}/dataset`, `/rounds` and `/baseline`: what production does becomes what is tested."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from saiten_server.core.batch import Baseline
from saiten_server.monitors.production.service import ProductionService
from saiten_server.monitors.production.values import (
    DatasetGrowth,
    DatasetRequest,
    MonitorRound,
    MonitorRoundRequest,
    WindowRequest,
)
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.values import Monitor
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Serving, note, refuse_other_queries, tell_value
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.ratings.values import UNDRAWN, RoundOptions
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/monitors", tags=["monitors"])


async def find_monitor(request: Request, container: Serving, monitor_id: str) -> Monitor:
    """The monitor: found before the body is read, so that another project's is none whatever is asked of it."""
    return (await container.find(MonitorService).find(request.state.project, monitor_id)).monitor


Watching = Annotated[Monitor, Depends(find_monitor)]

DATASET_BODY = reads(
    {JSON: form(DatasetRequest, {"dataset": "hard-cases", "filter": {"at_most": {"overall": 3}}, "limit": 50})},
    repeatable=True,
)
MONITOR_ROUND_BODY = reads({JSON: form(MonitorRoundRequest, {"name": "yesterday", "items": 50})}, repeatable=True)
WINDOW_BODY = reads({JSON: form(WindowRequest, {})})


@router.post(
    "/{monitor_id}/dataset",
    summary="Add conversations to a dataset",
    responses={200: {"model": DatasetGrowth}, **PROBLEMS},
    openapi_extra=DATASET_BODY,
)
async def add_to_dataset(
    request: Request,
    container: Serving,
    monitor: Watching,
    body: Annotated[DatasetRequest, Depends(body_of(DatasetRequest))],
) -> Response:
    """Adds chosen conversations of a monitor, or the newest that fit a filter, to the next version of a dataset.

    Each is a whole conversation, its texts as they were redacted. Its metadata say where it is from: `monitor`,
    `window`, `conversation`, and of one in the sample the `probability` with which it was drawn. What is there already
    is not added again.
    """
    refuse_other_queries(request)
    project = request.state.project

    async def make() -> Response:
        grown = await container.find(ProductionService).add_to_dataset(project, monitor, body)
        await note(request, container, "dataset.grown", grown.id, monitor=monitor.id, added=grown.added)
        return tell_value(request, grown)

    return await once(request, container.scoring.evaluations, make)


@router.post(
    "/{monitor_id}/rounds",
    status_code=201,
    summary="Open a rating round of a window",
    responses={201: {"model": MonitorRound}, **PROBLEMS},
    openapi_extra=MONITOR_ROUND_BODY,
)
async def open_monitor_round(
    request: Request,
    container: Serving,
    monitor: Watching,
    body: Annotated[MonitorRoundRequest, Depends(body_of(MonitorRoundRequest))],
) -> Response:
    """Draws conversations of a complete window for people to rate, as a rating round of its run does.

    Corrected figures of the run weigh each rating by the inverse of both probabilities: that with which the monitor
    sampled the conversation, and that with which the round drew it. Those of `worst` and `chosen` do not count there.
    """
    refuse_other_queries(request)
    project = request.state.project

    async def make() -> Response:
        drawn = body.choose not in UNDRAWN
        window = await container.find(ProductionService).find_window(project, monitor.id, body.run, complete=drawn)
        options = RoundOptions.model_construct(**body.model_dump(exclude={"run"}))
        opened = await container.ratings.rounds.open(project, window.run, options)
        address = f"/rate/{opened.id}"
        made = MonitorRound(round=opened.id, run=window.run, drawn=opened.drawn, address=address)
        return tell_value(request, made, 201)

    return await once(request, container.scoring.evaluations, make)


@router.post(
    "/{monitor_id}/baseline",
    summary="Pin a window as the baseline",
    responses={200: {"model": Baseline}, **PROBLEMS},
    openapi_extra=WINDOW_BODY,
)
async def pin_window(
    request: Request,
    container: Serving,
    monitor: Watching,
    body: Annotated[WindowRequest, Depends(body_of(WindowRequest))],
) -> Response:
    """Makes the run of the last complete window, or of the one that is named, the baseline of the monitor's name.

    It is what `PUT /v1/baselines/{name}` does: comparisons and gates of runs of that name use it from then on.
    """
    refuse_other_queries(request)
    project = request.state.project
    window = await container.find(ProductionService).find_window(project, monitor.id, body.run)
    run = await container.batches.find(project, window.run)
    pinned = await container.comparison.pin(project, run.name or "", run.id)
    await note(request, container, "baseline.pinned", pinned.batch)
    return tell_value(request, pinned)
