"""`/v1/batches`: many candidates in one request, what becomes of them, and what came of them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from app.batches.export import stream_csv, stream_ndjson
from app.batches.intake import Spool
from app.domain.batch import Batch, BatchFilter, BatchItem, BatchOptions, BatchStatus, ItemResult, KeyedAnswer
from app.domain.errors import InvalidRequest, NotFound, StoreError
from app.domain.model import pointer
from app.domain.summary import Summary
from app.governance.policies import settle_for
from app.web.admission import Authenticator, credential_of
from app.web.api.evaluations import EXAMPLE
from app.web.body import JSON, NDJSON, receive_batch
from app.web.dependencies import Serving, note
from app.web.idempotency import claimed, digest_of, key_of
from app.web.limits import require_money, require_price
from app.web.openapi import PROBLEMS, form, lines, reads
from app.web.queries import link_next, read_cursor, refuse_other_queries, write_cursor

router = APIRouter(prefix="/v1/batches", tags=["batches"])

ACCEPTED = 202
METADATA = "metadata."


class BatchRequest(BatchOptions):
    """The options that all items share, and the items."""

    items: list[BatchItem] = Field(min_length=1)


OPTIONS = {
    "name": "nightly",
    "rubric": "ja-dialogue",
    "budget_usd": 2.5,
    "metadata": {"system": "bot-a", "build": "1a2b3c"},
}
CONTEXT = EXAMPLE["context"]
ITEMS = [
    {"id": "sea-1", "context": CONTEXT, "response": EXAMPLE["response"], "dialogue": "sea"},
    {"id": "sea-2", "context": CONTEXT, "responses": ["泳ぎましたか？", "そうですか。"]},
]


BATCH_BODY = {
    JSON: form(BatchRequest, {**OPTIONS, "items": ITEMS}),
    NDJSON: lines(
        BatchItem,
        "the first line holds the options (`BatchRequest` without `items`), every further line an item (`BatchItem`)",
        OPTIONS,
        *ITEMS,
    ),
}

LOCATION = {"description": "the batch's address", "required": True, "schema": {"type": "string"}}

LINK = {
    "description": 'the address of the next page as `<…>; rel="next"`; none after the last',
    "schema": {"type": "string"},
}

METADATA_FILTER = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "description": "`metadata.KEY=VALUE`, as often as needed: batches whose metadata hold all of them",
    "style": "form",
    "explode": True,
    "schema": {
        "type": "object",
        "patternProperties": {"^metadata\\.": {"type": "string"}},
        "additionalProperties": False,
        "example": {"metadata.system": "bot-a"},
    },
}

BATCH_STATUS = {
    "description": "the batch's status when the answer began: without `completed` or `cancelled` more results may come",
    "required": True,
    "schema": {"type": "string", "enum": ["queued", "running", "paused", "completed", "cancelled"]},
}

DISPOSITION = {"description": "with `format=csv`: a file name to save it under", "schema": {"type": "string"}}

RESULTS = {
    "description": "Results in item order; a connection that breaks off says that it is not all of them",
    "headers": {"X-Batch-Status": BATCH_STATUS, "Content-Disposition": DISPOSITION},
    "content": {
        NDJSON: lines(
            ItemResult,
            "a line per candidate: `position`, `item`, `candidate` and `cluster`, then the fields "
            "of an `Evaluation`; where there is none, `status` is `failed` and `error` holds `code` and `detail`",
            {
                "position": 0,
                "item": "sea-1",
                "candidate": None,
                "cluster": "9f2c4e0a7b1d3358",
                "id": "ev_…",
                "status": "scored",
                "aspects": {},
                "dialogue": "sea",
            },
            {
                "position": 1,
                "item": "sea-2",
                "candidate": 0,
                "status": "failed",
                "error": {"code": "worker-died", "detail": "…"},
            },
        ),
        "text/csv": {"schema": {"type": "string", "description": "RFC 4180 with a header; formulas are defused"}},
    },
}

EVENTS = {
    "description": "`progress`, and at the end `completed`, `cancelled` or `erased`; the data are the batch as JSON",
    "content": {
        "text/event-stream": {
            # No type: a text by its media type, though some readers take each event for a value of its own.
            "schema": {"description": "server-sent events: `event`, `data` and now and then `retry` and `id`"},
            "example": 'event: progress\ndata: {"id":"ba_…","status":"running","progress":0.25}\n\n',
        }
    },
}


class BatchPage(BaseModel):
    """Some batches, newest first; `next` is the cursor of the page after it, null on the last."""

    items: list[Batch]
    next: str | None


@router.post(
    "",
    status_code=202,
    summary="Score many responses",
    responses={202: {"model": Batch, "headers": {"Location": LOCATION}}, **PROBLEMS},
    openapi_extra=reads(BATCH_BODY, repeatable=True),
)
async def create_batch(request: Request, container: Serving) -> Response:
    """Takes a batch whole or not at all: one bad item refuses it, with a pointer to the fault.

    Once it is answered with 202 the batch is stored and will run, whatever stops in between. The body is read as a
    stream: 100,000 items are no trouble. In a pointer into NDJSON, `/items/0` is the first line after the options.
    """
    key = key_of(request)
    async with Spool() as spool:
        intake = await receive_batch(request, container.batches, spool)
        async with claimed(
            request, container.scoring.evaluations, key, digest_of(request, intake.digest.encode())
        ) as replayed:
            response = replayed
            if response is None:
                keep = None if key is None else partial(keep_under, key)
                await require_money(request)
                require_price(request, intake.options.rubric, intake.options.judge)
                project, payer = request.state.project, request.state.key
                intake = replace(
                    intake, options=await settle_for(project, intake.options, container.governance.policies)
                )
                api_key = None if payer is None else payer.id
                response = accepted(await container.batches.accept(project, intake, keep, api_key=api_key))
    # A replay leads to the same batch: its address is made from the answer that was kept.
    response.headers["Location"] = f"/v1/batches/{json.loads(bytes(response.body))['id']}"
    return response


@router.get(
    "",
    summary="List batches",
    responses={200: {"model": BatchPage, "headers": {"Link": LINK}}, **PROBLEMS},
    openapi_extra={"parameters": [METADATA_FILTER]},
)
async def list_batches(
    request: Request,
    container: Serving,
    *,
    name: str | None = None,
    rubric: str | None = None,
    status: BatchStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> Response:
    """The project's batches, newest first. `metadata.KEY=VALUE` lists those whose metadata hold that entry.

    `next`, and the `Link` header, lead to the page after this one; batches that come in meanwhile shift nothing.
    """
    known = ("name", "rubric", "status", "limit", "cursor")
    refuse_other_queries(request, *known, beginning=METADATA)
    wanted = BatchFilter(name=name, rubric=rubric, status=status, metadata=read_metadata(request))
    after = read_cursor(cursor)
    # One more than asked for tells whether there is a next page.
    found = await container.batches.list(request.state.project, wanted, after=after, limit=limit + 1)
    following = write_cursor(found[limit - 1]) if len(found) > limit else None
    page = BatchPage(items=found[:limit], next=following)
    return Response(page.model_dump_json(), headers=link_next(request, following), media_type=JSON)


@router.get("/{batch_id}", summary="Look at a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def read_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Status, counts, progress, rate, estimated end, usage and signature, as they are now."""
    return answer(await container.batches.find(request.state.project, batch_id))


@router.post("/{batch_id}/pause", summary="Pause a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def pause_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Begins nothing new; what the judge is rating at this moment is still kept. A paused batch stays as it is.

    409 `batch-finished` where it is completed or cancelled.
    """
    return answer(await container.batches.pause(request.state.project, batch_id))


@router.post("/{batch_id}/resume", summary="Resume a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def resume_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Goes on with a paused batch where it stopped. One that is queued or running stays as it is.

    409 `batch-finished` where it is completed or cancelled; 429 `queue-limit-reached` or 503 `overloaded` where too
    much waits already.
    """
    return answer(await container.batches.resume(request.state.project, batch_id))


@router.post("/{batch_id}/cancel", summary="Cancel a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def cancel_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Ends the batch for good; its results until now are kept. A cancelled batch stays as it is.

    Workers stop within a second: no call is begun later than that, and calls under way are cut off. The provider may
    bill those; `usage` counts them among `estimated_calls`.

    409 `batch-finished` where it is completed.
    """
    return answer(await container.batches.cancel(request.state.project, batch_id))


@router.delete("/{batch_id}", status_code=204, summary="Erase a batch", responses=PROBLEMS)
async def erase_batch(request: Request, container: Serving, batch_id: str) -> None:
    """Removes the batch, its texts, its results and what the call cache holds of them, also while it runs.

    After the 204 nothing of it is stored. Workers that have it in hand stop within a second: until then they may still
    send texts to the judge, and what comes back is refused. There is no way back.
    """
    await container.batches.erase(request.state.project, batch_id)
    await note(request, container, "batch.erased", batch_id)


def accepted(batch: Batch) -> Response:
    """202 with the batch."""
    return Response(batch.model_dump_json(), ACCEPTED, media_type=JSON)


def keep_under(key: str, batch: Batch) -> KeyedAnswer:
    """What a replay of `accepted` answers."""
    return KeyedAnswer(key, ACCEPTED, bytes(accepted(batch).body))


def answer(batch: Batch) -> Response:
    """200 with the batch."""
    return Response(batch.model_dump_json(), media_type=JSON)


def read_metadata(request: Request) -> dict[str, str]:
    """The entries that `metadata.KEY=VALUE` ask for; raises InvalidRequest for a key that is asked for twice."""
    wanted: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if not name.startswith(METADATA):
            continue
        key = name.removeprefix(METADATA)
        if wanted.setdefault(key, value) != value:
            raise InvalidRequest("an entry can have one value only", pointer=pointer(("query", name)))
    return wanted


Format = Literal["ndjson", "csv"]
CSV = "text/csv"
MOST_POSITION = 2**31 - 1


@router.get(
    "/{batch_id}/results",
    summary="Read a batch's results",
    response_class=StreamingResponse,
    responses={200: RESULTS, **PROBLEMS},
)
async def read_results(
    request: Request,
    container: Serving,
    batch_id: str,
    *,
    written_as: Annotated[Format, Query(alias="format")] = "ndjson",
    after: Annotated[int, Query(ge=-1, le=MOST_POSITION, description="results with a greater `position`")] = -1,
    limit: Annotated[int | None, Query(ge=1, le=MOST_POSITION, description="so many results at most")] = None,
) -> Response:
    """The results that there are, in item order, as a stream. While the batch runs, candidates without one are left
    out.

    For pages ask with `limit`, then with `after` set to the last `position`. A store that fails in mid-stream breaks
    the connection off, and so does an erasure: what ends properly is whole.
    """
    refuse_other_queries(request, "format", "after", "limit")
    project: str = request.state.project
    batch = await container.batches.find(project, batch_id)
    found = container.batches.results(project, batch_id, after=after, limit=limit)
    pages = container.ratings.reliabilities.mark_pages(project, found)
    headers: dict[str, str] = {"X-Batch-Status": batch.status}
    if written_as == "ndjson":
        return StreamingResponse(stream_ndjson(pages), headers=headers, media_type=NDJSON)
    options = await container.batches.options(project, batch_id)
    table = stream_csv(pages, container.scoring.instruments.rubrics.nearest(batch.rubric_name), options)
    # The id is the service's own: nothing in a file name is the caller's.
    headers["Content-Disposition"] = f'attachment; filename="{batch.id}.csv"'
    return StreamingResponse(table, headers=headers, media_type=f"{CSV}; charset=utf-8; header=present")


@router.get("/{batch_id}/summary", summary="Sum a batch up", responses={200: {"model": Summary}, **PROBLEMS})
async def sum_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Per aspect: how many are rated and unrated, mean, standard deviation, 95 % interval, histogram, blended mean.

    Beside it composites, coverage, usage and cost; all over the results that there are now.
    """
    project: str = request.state.project
    summary = await container.ratings.reliabilities.mark_summary(
        project, await container.batches.summarize(project, batch_id)
    )
    return Response(summary.model_dump_json(), media_type=JSON)


logger = logging.getLogger("saiten.web")


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
)
async def follow_batch(
    request: Request,
    container: Serving,
    batch_id: str,
    *,
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="what an `EventSource` heard last; one that heard the end is answered with 204",
        ),
    ] = None,
) -> Response:
    """`progress` with the batch at once and at every change; at the end `completed`, `cancelled` or `erased`.

    A paused batch is told as it is, and the stream goes on: it may be resumed. When the service stops the stream ends
    without a last event; an `EventSource` connects again by itself. The same where the key is revoked: then it hears
    401. To one that had been told the end, and connects
    again all the same, the answer is 204, which stops it.
    """
    project: str = request.state.project

    async def find() -> Batch | None:
        return await container.batches.look(project, batch_id)

    if last_event_id in ENDS:
        return Response(status_code=204)
    first = await find()
    if first is None:
        raise NotFound("there is no such batch in this project")
    stream = tell(first, find, patience_of(request))
    # Nginx would keep the events back until its buffer is full.
    return EventSourceResponse(stream, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def patience_of(request: Request) -> GoesOn:
    """`rest` for this request."""
    admission: Authenticator = request.app.state.admission
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
