"""`/v1/preference-runs`: pairs of the responses that stored runs hold, judged as a batch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from saiten.core.messages import Message
from saiten_server.core.batch import Batch, BatchOptions, EstimateReport, KeyedAnswer
from saiten_server.core.validation import InvalidDocument
from saiten_server.governance.limits import require_money
from saiten_server.governance.policies import settle_for
from saiten_server.platform.web.body import JSON, NDJSON, body_of, while_connected
from saiten_server.platform.web.dependencies import (
    METADATA_FILTER,
    Serving,
    Whole,
    note,
    refuse_other_queries,
    tell_page,
    tell_value,
)
from saiten_server.platform.web.openapi import LINK, PROBLEMS, STREAM, form, header, lines, reads
from saiten_server.platform.web.problems import language_of
from saiten_server.preferences.runs.lines import stream_pair_table, stream_pairs
from saiten_server.preferences.runs.service import PairBatchSource, PreferenceRunService, add_plan
from saiten_server.preferences.runs.values import (
    FailedPair,
    PreferenceLine,
    PreferenceRun,
    PreferenceRunRequest,
    PreferenceSummary,
)
from saiten_server.runs.answers import ACCEPTED, Listing, keep_under
from saiten_server.runs.result import Result
from saiten_server.runs.watching import LastEvent, Opened, follow_run
from saiten_server.scoring.idempotency import claimed, digest_request, read_key
from saiten_server.scoring.limits import require_price

router = APIRouter(prefix="/v1/preference-runs", tags=["preferences"])

RUN_EXAMPLE = {"name": "spring", "runs": ["ba_…", "ba_…"], "pairs": "all", "orders": "both", "budget_usd": 5}
RUN_BODY = {JSON: form(PreferenceRunRequest, RUN_EXAMPLE)}
Asked = Annotated[PreferenceRunRequest, Depends(body_of(PreferenceRunRequest))]
PREFERENCE_RUN_LOCATION = header("the preference run's address", required=True)
MOST_POSITION = 2**31 - 1

LINE_EXAMPLE = {
    "position": 0,
    "item": "sea-1",
    "cluster": "9f2c4e0a7b1d3358",
    "id": "pr_…",
    "status": "scored",
    "first": {"id": None, "length": 14, "run": "ba_…", "system": "bot-a"},
    "second": {"id": None, "length": 9, "run": "ba_…", "system": "bot-b"},
    "aspects": {},
}
RESULTS = {
    "description": "Results in order; a connection that breaks off says that it is not all of them",
    "content": {
        NDJSON: lines(
            (PreferenceLine, FailedPair),
            "a line per pair: its place, then what a comparison says; if there is none, `status` is `failed` and "
            "`error` holds `code` and `detail`",
            LINE_EXAMPLE,
        ),
        "text/csv": {"schema": {**STREAM, "description": "RFC 4180 with a header; formulas are defused"}},
    },
}
EVENTS = {
    "description": "`progress`, and at the end `completed`, `cancelled` or `erased`; the data is the run as JSON, "
    "without `pairs`",
    "content": {"text/event-stream": {"schema": {"description": "server-sent events, as of a batch"}}},
}


class PreferenceRunPage(BaseModel):
    """A page of preference runs, newest first; `next` is the cursor of the next page, null on the last."""

    items: list[PreferenceRun]
    next: str | None


def runs_of(container: Serving) -> PreferenceRunService:
    """The service."""
    return container.find(PreferenceRunService)


async def plan_run(request: Request, container: Serving, body: PreferenceRunRequest) -> PairBatchSource:
    """The run that is asked for, with the project's policy."""
    own = await settle_for(request.state.project, BatchOptions(integrity=body.integrity), container.governance.policies)
    asked = body.model_copy(update={"integrity": own.integrity})
    return await while_connected(request, runs_of(container).plan(request.state.project, asked))


@router.post(
    "",
    status_code=202,
    summary="Compare runs in pairs",
    responses={202: {"model": PreferenceRun, "headers": {"Location": PREFERENCE_RUN_LOCATION}}, **PROBLEMS},
    openapi_extra=reads(RUN_BODY, repeatable=True),
)
async def create_preference_run(request: Request, container: Serving, body: Asked) -> Response:
    """Plans a pair for each item that two of the runs share, with the same context, and judges them as a batch.

    Once 202 is returned the run is stored and will run. `pairs.left_out` says how many responses have no pair. 409
    `runs-unfit` where the runs cannot be compared, `signature-mismatch` where they were not rated alike, `texts-erased`
    where their texts are gone.
    """
    key = read_key(request)
    async with claimed(
        request, container.scoring.evaluations, key, digest_request(request, request.state.body)
    ) as replayed:
        response = replayed
        if response is None:
            await require_money(request)
            source = await plan_run(request, container, body)
            require_price(request, source.options.rubric, source.options.judge)

            def keep(batch: Batch) -> KeyedAnswer:
                return keep_under(request, key or "", add_plan(batch, source.options.pairs))

            payer = request.state.key
            run = await runs_of(container).accept(
                request.state.project, source, keep if key else None, api_key=None if payer is None else payer.id
            )
            response = tell_value(request, run, ACCEPTED)
    response.headers["Location"] = f"/v1/preference-runs/{json.loads(bytes(response.body))['id']}"
    return response


@router.get(
    "",
    summary="List preference runs",
    responses={200: {"model": PreferenceRunPage, "headers": {"Link": LINK}}, **PROBLEMS},
    openapi_extra={"parameters": [METADATA_FILTER]},
)
async def list_preference_runs(request: Request, container: Serving, listing: Listing) -> Response:
    """The project's preference runs, newest first; filters and pages are those of batches."""
    service, project = runs_of(container), request.state.project
    found, following = await listing.read(service.pairs, project)
    page = PreferenceRunPage(items=[await service.tell(project, batch) for batch in found], next=following)
    return tell_page(request, page, following)


@router.post(
    "/estimates",
    summary="Estimate a preference run",
    responses={200: {"model": EstimateReport}, **PROBLEMS},
    openapi_extra=reads(RUN_BODY),
)
async def estimate_preference_run(request: Request, container: Serving, body: Asked) -> Response:
    """Calls, tokens and cost of the run in the body, which is planned as it would be. Nothing is stored, and no judge
    is called."""
    source = await plan_run(request, container, body)
    report = await while_connected(request, runs_of(container).estimate(source))
    return tell_value(request, report)


@router.get("/{run_id}", summary="Look at a preference run", responses={200: {"model": PreferenceRun}, **PROBLEMS})
async def read_preference_run(request: Request, container: Serving, run_id: str) -> Response:
    """Status, counts, progress, rate, estimated end, usage and signature as of a batch, and what is compared."""
    service, project = runs_of(container), request.state.project
    return tell_value(request, await service.tell(project, await service.pairs.find(project, run_id)))


TEXTS_AT_ONCE = 5
"""Pairs whose texts are in memory together: two conversations may have six million characters."""


async def cut_pages(pages: AsyncIterable[Sequence[Result]]) -> AsyncIterator[Sequence[Result]]:
    """The same results, some at a time."""
    async for page in pages:
        for start in range(0, len(page), TEXTS_AT_ONCE):
            yield page[start : start + TEXTS_AT_ONCE]


Step = Literal["pause", "resume", "cancel"]


async def steer(request: Request, container: Serving, run_id: str, step: Step) -> Response:
    """Takes the step with the run, as with a batch."""
    service, project = runs_of(container), request.state.project
    batch = await getattr(service.pairs, step)(project, run_id)
    return tell_value(request, await service.tell(project, batch))


@router.post("/{run_id}/pause", summary="Pause a preference run", responses={200: {"model": PreferenceRun}, **PROBLEMS})
async def pause_preference_run(request: Request, container: Serving, run_id: str) -> Response:
    """Starts no new calls; 409 `batch-finished` if it has ended."""
    return await steer(request, container, run_id, "pause")


@router.post(
    "/{run_id}/resume", summary="Resume a preference run", responses={200: {"model": PreferenceRun}, **PROBLEMS}
)
async def resume_preference_run(request: Request, container: Serving, run_id: str) -> Response:
    """Goes on where it stopped; 409 `batch-finished` if it has ended."""
    return await steer(request, container, run_id, "resume")


@router.post(
    "/{run_id}/cancel", summary="Cancel a preference run", responses={200: {"model": PreferenceRun}, **PROBLEMS}
)
async def cancel_preference_run(request: Request, container: Serving, run_id: str) -> Response:
    """Ends it and keeps its results so far; 409 `batch-finished` if it is completed."""
    return await steer(request, container, run_id, "cancel")


@router.delete("/{run_id}", status_code=204, summary="Erase a preference run", responses=PROBLEMS)
async def erase_preference_run(request: Request, container: Serving, run_id: str) -> None:
    """Removes it, its results and their entries in the call cache, even while it runs. The runs that it compares
    stay."""
    await runs_of(container).pairs.erase(request.state.project, run_id)
    await note(request, container, "preference-run.erased", run_id)


@router.get(
    "/{run_id}/results",
    summary="Read a preference run's results",
    response_class=StreamingResponse,
    responses={200: RESULTS, **PROBLEMS},
)
async def read_preference_results(
    request: Request,
    container: Serving,
    run_id: str,
    *,
    written_as: Annotated[Literal["ndjson", "csv"], Query(alias="format")] = "ndjson",
    after: Annotated[Whole, Query(ge=-1, le=MOST_POSITION, description="results with a greater `position`")] = -1,
    limit: Annotated[Whole | None, Query(ge=1, le=MOST_POSITION, description="most results to return")] = None,
    texts: Annotated[bool, Query(description="each result with both texts, where their runs still have them")] = False,
    excel: Annotated[bool, Query(description="CSV begins with the mark by which Excel knows UTF-8")] = False,
) -> Response:
    """The results so far, in order, as a stream. All pairs of one item follow each other."""
    refuse_other_queries(request, "format", "after", "limit", "texts", "excel")
    if excel and written_as != "csv":
        raise InvalidDocument([("/query/excel", Message("goes-with-csv"))])
    if texts and written_as == "csv":
        raise InvalidDocument([("/query/texts", Message("texts-with-ndjson"))])
    service, project = runs_of(container), request.state.project
    run = await service.tell(project, await service.pairs.find(project, run_id))
    pages: AsyncIterator[Sequence[Result]] = service.pairs.results(project, run_id, after=after, limit=limit)
    headers: dict[str, str] = {"X-Batch-Status": run.status}
    if written_as == "csv":
        headers["Content-Disposition"] = f'attachment; filename="{run.id}.csv"'
        table = stream_pair_table(pages, run.pairs, excel=excel)
        return StreamingResponse(table, headers=headers, media_type="text/csv; charset=utf-8; header=present")
    pages = service.pairs.add_texts(run_id, cut_pages(pages)) if texts else pages
    language = language_of(request)
    headers |= {"Content-Language": language, "Vary": "Accept-Language"}
    return StreamingResponse(stream_pairs(pages, run.metadata, language), headers=headers, media_type=NDJSON)


@router.get(
    "/{run_id}/summary", summary="Sum a preference run up", responses={200: {"model": PreferenceSummary}, **PROBLEMS}
)
async def read_preference_summary(request: Request, container: Serving, run_id: str) -> Response:
    """For each two runs, and for all, how often either was better, neither, or no verdict could be had; and how far the
    order decided: the rate of equal answers in both orders with its interval."""
    return tell_value(request, await runs_of(container).summarize(request.state.project, run_id))


@router.get(
    "/{run_id}/events",
    summary="Follow a preference run",
    response_class=Response,
    responses={200: EVENTS, 204: {"description": "The end was sent before: do not reconnect"}, **PROBLEMS},
)
async def follow_preference_run(
    request: Request,
    container: Serving,
    run_id: str,
    opened: Opened,
    *,
    last_event_id: LastEvent = None,
) -> Response:
    """`progress` with the run, without `pairs`, at once and at every change; at the end `completed`, `cancelled` or
    `erased`."""
    look, missing = runs_of(container).pairs.look, Message("preference-run-not-found")
    return await follow_run(request, opened, run_id, last_event_id, look=look, missing=missing)
