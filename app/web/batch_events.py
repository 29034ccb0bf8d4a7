"""`/v1/batches/{id}/events`: a batch's progress as server-sent events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from app.domain.batch import Batch
from app.domain.errors import NotFound, StoreError
from app.web.admission import Admission, credential_of
from app.web.batch_openapi import EVENTS, FOLLOWS
from app.web.evaluations import Serving
from app.web.openapi import PROBLEMS

logger = logging.getLogger("saiten.web")

router = APIRouter(prefix="/v1/batches", tags=["batches"])

SHORTEST_POLL_SECONDS = 0.5
LONGEST_POLL_SECONDS = 2.0
HEARTBEAT_SECONDS = 15.0
"""Proxies close what is silent for longer."""

RECONNECT_MILLISECONDS = 2000
GoesOn = Callable[[float], Awaitable[bool]]
"""Waits so many seconds, and says whether a stream goes on."""

ENDS = frozenset({"completed", "cancelled", "erased"})


@router.get(
    "/{batch_id}/events",
    summary="Follow a batch",
    response_class=Response,
    responses={200: EVENTS, 204: {"description": "Told to the end before: do not reconnect"}, **PROBLEMS},
    openapi_extra=FOLLOWS,
)
async def follow_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """`progress` with the batch at once and at every change; at the end `completed`, `cancelled` or `erased`.

    A paused batch is told as it is, and the stream goes on: it may be resumed. When the service stops the stream ends
    without a last event; an `EventSource` connects again by itself. The same where the key is revoked: then it hears
    401. To one that had been told the end, and connects
    again all the same, the answer is 204, which stops it.
    """
    project: str = request.state.project

    async def find() -> Batch | None:
        return await service.desk.look(project, batch_id)

    if request.headers.get("last-event-id") in ENDS:
        return Response(status_code=204)
    first = await find()
    if first is None:
        raise NotFound("there is no such batch in this project")
    stream = tell(first, find, patience_of(request))
    # Nginx would keep the events back until its buffer is full.
    return EventSourceResponse(stream, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def patience_of(request: Request) -> GoesOn:
    """`rest` for this request."""
    admission: Admission = request.app.state.admission
    return partial(rest, partial(admission.holds, credential_of(request)), request.app.state.stopping)


async def rest(admitted: Callable[[], Awaitable[bool]], stopping: asyncio.Event, seconds: float) -> bool:
    """Waits, and says whether the stream goes on: not where the service stops, nor where its reader would not be let
    in any more, as a stream may outlive its key by weeks."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)
        return False
    return await admitted()


async def tell(batch: Batch, find: Callable[[], Awaitable[Batch | None]], goes_on: GoesOn) -> AsyncIterator[bytes]:
    """The events from `batch` on, to the batch's end, or as long as the stream goes on."""
    clock = asyncio.get_running_loop().time
    yield write_event("progress", batch)
    told, wait = clock(), SHORTEST_POLL_SECONDS
    while batch.status not in ENDS:
        if not await goes_on(wait):
            return
        found = await look(find, batch)
        if found is None:
            yield format_sse_event(event="erased", data_str=f'{{"id":"{batch.id}"}}', id="erased")
            return
        if steady(found) != steady(batch):
            yield write_event("progress", found)
            told, wait = clock(), SHORTEST_POLL_SECONDS
        else:
            wait = min(LONGEST_POLL_SECONDS, wait * 1.5)
        if clock() - told >= HEARTBEAT_SECONDS:
            yield KEEPALIVE_COMMENT
            told = clock()
        batch = found
    yield write_event(batch.status, batch)


async def look(find: Callable[[], Awaitable[Batch | None]], batch: Batch) -> Batch | None:
    """The batch as it is now; as it was while the store is out of reach, which must not end a stream of hours."""
    try:
        return await find()
    except StoreError as error:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code, "batch_id": batch.id})
        return batch


def steady(batch: Batch) -> Batch:
    """The batch without what changes as time passes: a change of these alone is no news."""
    return batch.model_copy(update={"rate_per_second": None, "estimated_end": None})


def write_event(name: str, batch: Batch) -> bytes:
    """One event with the batch as its data. An end's id is its name, so that who connects again says it was heard."""
    return format_sse_event(
        event=name,
        data_str=batch.model_dump_json(),
        id=name if name in ENDS else None,
        retry=None if name in ENDS else RECONNECT_MILLISECONDS,
    )
