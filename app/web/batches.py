"""`/v1/batches`: many candidates in one request, and what becomes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from app.batches.intake import Spool
from app.domain.batch import Batch, BatchFilter, BatchStatus, KeyedAnswer
from app.domain.errors import InvalidRequest
from app.domain.model import pointer
from app.governance.integrity import settle_for
from app.web.audit import note
from app.web.batch_openapi import CREATES_BATCH, FILTERED, LINK, LOCATION
from app.web.body import JSON
from app.web.evaluations import Serving
from app.web.idempotency import claimed, digest_of, key_of
from app.web.limits import require_money, require_price
from app.web.openapi import PROBLEMS
from app.web.pages import link_next, read_cursor, write_cursor
from app.web.queries import refuse_other_queries
from app.web.upload import receive_batch

router = APIRouter(prefix="/v1/batches", tags=["batches"])

ACCEPTED = 202
METADATA = "metadata."


class BatchPage(BaseModel):
    """Some batches, newest first; `next` is the cursor of the page after it, null on the last."""

    items: list[Batch]
    next: str | None


@router.post(
    "",
    status_code=202,
    summary="Score many responses",
    responses={202: {"model": Batch, "headers": {"Location": LOCATION}}, **PROBLEMS},
    openapi_extra=CREATES_BATCH,
)
async def create_batch(request: Request, service: Serving) -> Response:
    """Takes a batch whole or not at all: one bad item refuses it, with a pointer to the fault.

    Once it is answered with 202 the batch is stored and will run, whatever stops in between. The body is read as a
    stream: 100,000 items are no trouble. In a pointer into NDJSON, `/items/0` is the first line after the options.
    """
    key = key_of(request)
    async with Spool() as spool:
        intake = await receive_batch(request, service.desk, spool)
        async with claimed(request, service.store, key, digest_of(request, intake.digest.encode())) as replayed:
            response = replayed
            if response is None:
                keep = None if key is None else partial(keep_under, key)
                await require_money(request)
                require_price(request, intake.options.rubric, intake.options.judge)
                project, payer = request.state.project, request.state.key
                intake = replace(intake, options=await settle_for(project, intake.options, service.policies))
                api_key = None if payer is None else payer.id
                response = accepted(await service.desk.accept(project, intake, keep, api_key=api_key))
    # A replay leads to the same batch: its address is made from the answer that was kept.
    response.headers["Location"] = f"/v1/batches/{json.loads(bytes(response.body))['id']}"
    return response


@router.get(
    "",
    summary="List batches",
    responses={200: {"model": BatchPage, "headers": {"Link": LINK}}, **PROBLEMS},
    openapi_extra=FILTERED,
)
async def list_batches(
    request: Request,
    service: Serving,
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
    found = await service.desk.list(request.state.project, wanted, after=after, limit=limit + 1)
    following = write_cursor(found[limit - 1]) if len(found) > limit else None
    page = BatchPage(items=found[:limit], next=following)
    return Response(page.model_dump_json(), headers=link_next(request, following), media_type=JSON)


@router.get("/{batch_id}", summary="Look at a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def read_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """Status, counts, progress, rate, estimated end, usage and signature, as they are now."""
    return answer(await service.desk.find(request.state.project, batch_id))


@router.post("/{batch_id}/pause", summary="Pause a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def pause_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """Begins nothing new; what the judge is rating at this moment is still kept. A paused batch stays as it is.

    409 `batch-finished` where it is completed or cancelled.
    """
    return answer(await service.desk.pause(request.state.project, batch_id))


@router.post("/{batch_id}/resume", summary="Resume a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def resume_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """Goes on with a paused batch where it stopped. One that is queued or running stays as it is.

    409 `batch-finished` where it is completed or cancelled; 429 `queue-limit-reached` or 503 `overloaded` where too
    much waits already.
    """
    return answer(await service.desk.resume(request.state.project, batch_id))


@router.post("/{batch_id}/cancel", summary="Cancel a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def cancel_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """Ends the batch for good; its results until now are kept. A cancelled batch stays as it is.

    Workers stop within a second: no call is begun later than that, and calls under way are cut off. The provider may
    bill those; `usage` counts them among `estimated_calls`.

    409 `batch-finished` where it is completed.
    """
    return answer(await service.desk.cancel(request.state.project, batch_id))


@router.delete("/{batch_id}", status_code=204, summary="Erase a batch", responses=PROBLEMS)
async def erase_batch(request: Request, service: Serving, batch_id: str) -> None:
    """Removes the batch, its texts, its results and what the call cache holds of them, also while it runs.

    After the 204 nothing of it is stored. Workers that have it in hand stop within a second: until then they may still
    send texts to the judge, and what comes back is refused. There is no way back.
    """
    await service.desk.erase(request.state.project, batch_id)
    await note(request, service, "batch.erased", batch_id)


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
