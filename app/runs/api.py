"""`/v1/batches`: scoring many candidates, their progress and their results."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError
from saiten_server.core.batch import (
    Batch,
    BatchConversation,
    BatchItem,
    BatchOptions,
    Entry,
    EstimateReport,
    Failure,
)
from saiten_server.core.conversation import Persona, Turn
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import Evaluation, Metadata
from saiten_server.core.model import Value
from saiten_server.core.validation import InvalidDocument
from saiten_server.governance.limits import require_money
from saiten_server.governance.policies import settle_for
from saiten_server.platform.web.body import JSON, NDJSON, Upload, invalid_json
from saiten_server.platform.web.dependencies import (
    METADATA_FILTER,
    Serving,
    Whole,
    note,
    refuse_other_queries,
    tell_page,
    tell_value,
)
from saiten_server.platform.web.openapi import EVALUATION_EXAMPLE, LINK, PROBLEMS, STREAM, form, header, lines, reads
from saiten_server.platform.web.problems import language_of
from saiten_server.runs.answers import ACCEPTED, Listing, keep_under
from saiten_server.runs.export import stream_csv, stream_for_excel, stream_ndjson, stream_parquet
from saiten_server.runs.intake import Intake, Spool
from saiten_server.runs.service import BatchService
from saiten_server.runs.summary import Summary
from saiten_server.runs.watching import LastEvent, Opened, follow_run
from saiten_server.scoring.idempotency import claimed, digest_request, read_key
from saiten_server.scoring.limits import require_price

router = APIRouter(prefix="/v1/batches", tags=["batches"])


class BatchRequest(BatchOptions):
    """The options that all items share, and the items."""

    items: list[BatchItem | BatchConversation] = Field(min_length=1)


METADATA_EXAMPLE = {"system": "bot-a", "build": "1a2b3c"}
BATCH_EXAMPLE = {"name": "nightly", "rubric": "ja-dialogue", "budget_usd": 2.5, "metadata": METADATA_EXAMPLE}
CONTEXT = EVALUATION_EXAMPLE["context"]
ITEMS = [
    {"id": "sea-1", "context": CONTEXT, "response": EVALUATION_EXAMPLE["response"], "dialogue": "sea"},
    {"id": "sea-2", "context": CONTEXT, "responses": ["泳ぎましたか？", "そうですか。"]},
]

BATCH_BODY = {
    JSON: form(BatchRequest, {**BATCH_EXAMPLE, "items": ITEMS}),
    NDJSON: lines(
        (BatchItem, BatchConversation),
        "the first line holds the options (`BatchRequest` without `items`), every further line an item (`BatchItem`), "
        "or every one a conversation (`BatchConversation`)",
        BATCH_EXAMPLE,
        *ITEMS,
    ),
}

BATCH_LOCATION = header("the batch's address", required=True)

BATCH_STATUS = header(
    "the batch's status when the answer began: without `completed` or `cancelled` more results may come",
    required=True,
    enum=["queued", "running", "paused", "completed", "cancelled"],
)

DISPOSITION = {
    "description": "with `format=csv` and `parquet`: a file name to save it under",
    "schema": {"type": "string"},
}


class LineParts(Value):
    """What a line of results has beside the candidate's place and its evaluation: texts with `texts=true`, where they
    are still stored."""

    batch_metadata: Metadata | None = Field(default=None, description="the batch's; absent where it has none")
    context: list[Utterance] | None = Field(default=None, description="what the response answers")
    response: str | None = Field(default=None, description="what was scored")
    turns: list[Turn] | None = Field(default=None, description="of a conversation: all that was said")
    persona: Persona | None = Field(default=None, description="of a conversation, if it has one")
    goal: str | None = Field(default=None, description="of a conversation, if it has one")


class EvaluatedLine(LineParts, Evaluation, Entry):
    """A line of results: the candidate's place and its evaluation."""


class FailedLine(LineParts, Entry):
    """A line of results: the candidate's place, and why it has no evaluation."""

    status: Literal["failed"]
    error: Failure = Field(description="why there is no evaluation")


WORKER_DIED = {"code": "worker-died", "detail": "…"}
RESULTS = {
    "description": "Results in item order; a connection that breaks off says that it is not all of them",
    "headers": {"X-Batch-Status": BATCH_STATUS, "Content-Disposition": DISPOSITION},
    "content": {
        NDJSON: lines(
            (EvaluatedLine, FailedLine),
            "a line per candidate: `position`, `item`, `candidate` and `cluster`, then the fields "
            "of an `Evaluation`; if there is none, `status` is `failed` and `error` holds `code` and `detail`",
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
            {"position": 1, "item": "sea-2", "candidate": 0, "status": "failed", "error": WORKER_DIED},
        ),
        "text/csv": {"schema": {**STREAM, "description": "RFC 4180 with a header; formulas are defused"}},
        "application/vnd.apache.parquet": {"schema": {**STREAM, "description": "the columns of CSV, with their types"}},
    },
}

EVENTS = {
    "description": "`progress`, and at the end `completed`, `cancelled` or `erased`; the data is the batch as JSON",
    "content": {
        "text/event-stream": {
            # No type: it is text by its media type, though some readers treat each event as a value.
            "schema": {"description": "server-sent events: `event`, `data` and sometimes `retry` and `id`"},
            "example": 'event: progress\ndata: {"id":"ba_…","status":"running","progress":0.25}\n\n',
        }
    },
}


class BatchPage(BaseModel):
    """A page of batches, newest first; `next` is the cursor of the next page, null on the last."""

    items: list[Batch]
    next: str | None


@router.post(
    "",
    status_code=202,
    summary="Score many responses",
    responses={202: {"model": Batch, "headers": {"Location": BATCH_LOCATION}}, **PROBLEMS},
    openapi_extra=reads(BATCH_BODY, repeatable=True),
)
async def create_batch(request: Request, container: Serving) -> Response:
    """Accepts the whole batch or nothing: one invalid item refuses it, with a pointer to the fault. By a rubric whose
    unit is `conversation` the items are conversations.

    Once 202 is returned, the batch is stored and will run, even if the service restarts. The body is read as a stream
    and may hold 100,000 items. In a pointer into NDJSON, `/items/0` is the first line after the options.
    """
    key = read_key(request)
    async with Spool() as spool:
        intake = await receive_batch(request, container.batches, spool)
        digest = digest_request(request, intake.digest.encode())
        async with claimed(request, container.scoring.evaluations, key, digest) as replayed:
            response = replayed
            if response is None:
                keep = partial(keep_under, request, key) if key else None
                await require_money(request)
                require_price(request, intake.options.rubric, intake.options.judge)
                project, payer = request.state.project, request.state.key
                options = await settle_for(project, intake.options, container.governance.policies)
                intake, api_key = replace(intake, options=options), None if payer is None else payer.id
                accepted = await container.batches.accept(project, intake, keep, api_key=api_key)
                response = tell_value(request, accepted, ACCEPTED)
    # A replay names the same batch: its address comes from the stored answer.
    response.headers["Location"] = f"/v1/batches/{json.loads(bytes(response.body))['id']}"
    return response


@router.get(
    "",
    summary="List batches",
    responses={200: {"model": BatchPage, "headers": {"Link": LINK}}, **PROBLEMS},
    openapi_extra={"parameters": [METADATA_FILTER]},
)
async def list_batches(request: Request, container: Serving, listing: Listing) -> Response:
    """The project's batches, newest first. `metadata.KEY=VALUE` lists those whose metadata hold that entry.

    `next` and the `Link` header lead to the next page; new batches do not shift the pages.
    """
    found, following = await listing.read(container.batches, request.state.project)
    return tell_page(request, BatchPage(items=found, next=following), following)


@router.get("/{batch_id}", summary="Look at a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def read_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Status, counts, progress, rate, estimated end, usage and signature, as they are now."""
    return tell_value(request, await container.batches.find(request.state.project, batch_id))


@router.post("/{batch_id}/pause", summary="Pause a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def pause_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Starts no new calls; results of calls under way are kept. A paused batch is unchanged.

    409 `batch-finished` if it is completed or cancelled.
    """
    return tell_value(request, await container.batches.pause(request.state.project, batch_id))


@router.post("/{batch_id}/resume", summary="Resume a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def resume_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Continues a paused batch where it stopped. A queued or running batch is unchanged.

    409 `batch-finished` if it is completed or cancelled; 429 `queue-limit-reached` or 503 `overloaded` if too much is
    waiting already.
    """
    return tell_value(request, await container.batches.resume(request.state.project, batch_id))


@router.post("/{batch_id}/cancel", summary="Cancel a batch", responses={200: {"model": Batch}, **PROBLEMS})
async def cancel_batch(request: Request, container: Serving, batch_id: str) -> Response:
    """Ends the batch permanently and keeps its results so far. A cancelled batch is unchanged.

    Workers stop within a second: they start no further calls and abort those under way. The provider may bill aborted
    calls; `usage` counts them among `estimated_calls`.

    409 `batch-finished` if it is completed.
    """
    return tell_value(request, await container.batches.cancel(request.state.project, batch_id))


@router.delete("/{batch_id}", status_code=204, summary="Erase a batch", responses=PROBLEMS)
async def erase_batch(request: Request, container: Serving, batch_id: str) -> None:
    """Removes the batch, its texts, its results and their entries in the call cache, even while it runs.

    After the 204 none of it is stored. Workers stop within a second: until then they may still send texts to the judge,
    but replies are discarded. This cannot be undone.
    """
    await container.batches.erase(request.state.project, batch_id)
    await note(request, container, "batch.erased", batch_id)


Format = Literal["ndjson", "csv", "parquet"]
TABLES = {
    "csv": ("text/csv; charset=utf-8; header=present", stream_csv),
    "parquet": ("application/vnd.apache.parquet", stream_parquet),
}
"""The media type of a table, and what writes it."""

MOST_POSITION = 2**31 - 1


@router.get(
    "/{batch_id}/results",
    summary="Read a batch's results",
    response_class=StreamingResponse,
    responses={200: RESULTS, **PROBLEMS},
)
async def read_batch_results(
    request: Request,
    container: Serving,
    batch_id: str,
    *,
    written_as: Annotated[Format, Query(alias="format")] = "ndjson",
    after: Annotated[Whole, Query(ge=-1, le=MOST_POSITION, description="results with a greater `position`")] = -1,
    limit: Annotated[Whole | None, Query(ge=1, le=MOST_POSITION, description="most results to return")] = None,
    texts: Annotated[bool, Query(description="each result with its texts, where they are still stored")] = False,
    excel: Annotated[bool, Query(description="CSV begins with the mark by which Excel knows UTF-8")] = False,
) -> Response:
    """The results so far, in item order, as a stream. While the batch runs, candidates without a result are left out.

    To page, set `limit`, then `after` to the last `position`. If the store fails midway, or the batch is erased, the
    connection breaks off: a stream that ends properly is complete.
    """
    refuse_other_queries(request, "format", "after", "limit", "texts", "excel")
    if excel and written_as != "csv":
        raise InvalidDocument([("/query/excel", Message("goes-with-csv"))])
    project: str = request.state.project
    batch = await container.batches.find(project, batch_id)
    found = container.batches.results(project, batch_id, after=after, limit=limit)
    pages = container.ratings.reliabilities.mark_pages(project, found)
    if texts:
        pages = container.batches.add_texts(batch_id, pages)
    headers: dict[str, str] = {"X-Batch-Status": batch.status}
    if written_as == "ndjson":
        language = language_of(request)
        headers |= {"Content-Language": language, "Vary": "Accept-Language"}
        return StreamingResponse(stream_ndjson(pages, batch.metadata, language), headers=headers, media_type=NDJSON)
    options = await container.batches.options(project, batch_id)
    media_type, stream = TABLES[written_as]
    stream = stream_for_excel if excel else stream
    table = stream(pages, container.scoring.context.rubrics.nearest(batch.rubric_name), options, texts=texts)
    # The id is the service's own: a file name contains no text of the caller.
    headers["Content-Disposition"] = f'attachment; filename="{batch.id}.{written_as}"'
    return StreamingResponse(table, headers=headers, media_type=media_type)


@router.get("/{batch_id}/summary", summary="Sum a batch up", responses={200: {"model": Summary}, **PROBLEMS})
async def read_batch_summary(request: Request, container: Serving, batch_id: str) -> Response:
    """Per aspect: rated and unrated counts, mean, standard deviation, 95% interval, histogram and blended mean.

    Also composites, coverage, usage and cost, over the results so far.
    """
    project: str = request.state.project
    summary = await container.batches.summarize(project, batch_id)
    summary = await container.ratings.reliabilities.mark_summary(project, summary)
    return tell_value(request, summary)


@router.get(
    "/{batch_id}/events",
    summary="Follow a batch",
    response_class=Response,
    responses={200: EVENTS, 204: {"description": "The end was sent before: do not reconnect"}, **PROBLEMS},
)
async def follow_batch(
    request: Request,
    container: Serving,
    batch_id: str,
    opened: Opened,
    *,
    last_event_id: LastEvent = None,
) -> Response:
    """`progress` with the batch at once and at every change; at the end `completed`, `cancelled` or `erased`.

    A paused batch is reported as paused, and the stream goes on, since it may be resumed. When the service stops, the
    stream ends without a last event, and an `EventSource` reconnects by itself. The same happens when the key is
    revoked: it then gets 401. An `EventSource` that reconnects after the end gets 204, which stops it.
    """
    look, missing = container.batches.look, Message("batch-not-found")
    return await follow_run(request, opened, batch_id, last_event_id, look=look, missing=missing)


estimates = APIRouter(prefix="/v1/estimates", tags=["batches"])


@estimates.post(
    "",
    summary="Estimate a batch",
    responses={200: {"model": EstimateReport}, **PROBLEMS},
    openapi_extra=reads(BATCH_BODY),
)
async def create_estimate(request: Request, container: Serving) -> Response:
    """Calls, tokens, translated characters and cost of the batch in the body, which is validated as a batch would be.

    Nothing is stored, and no judge or translator is called.
    """
    async with Spool() as spool:
        intake = await receive_batch(request, container.batches, spool)
        options = await settle_for(request.state.project, intake.options, container.governance.policies)
        report = await container.batches.estimate(replace(intake, options=options))
    return tell_value(request, report)


async def receive_batch(request: Request, batches: BatchService, spool: Spool) -> Intake:
    """The complete, valid batch in the body. Raises RequestRefused and InvalidDocument."""
    upload = Upload(request)
    try:
        return await batches.take_in(upload, spool, ndjson=upload.ndjson)
    except StrictJSONError as error:
        raise invalid_json(error.message) from None
