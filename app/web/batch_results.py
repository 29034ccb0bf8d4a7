"""`/v1/batches/{id}/results` and `/summary`: what came of a batch, one by one and in figures."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from app.batches.export import stream_csv, stream_ndjson
from app.domain.summary import Summary
from app.web.batch_openapi import RESULTS
from app.web.body import JSON
from app.web.evaluations import Serving
from app.web.openapi import PROBLEMS
from app.web.queries import refuse_other_queries
from app.web.upload import NDJSON

router = APIRouter(prefix="/v1/batches", tags=["batches"])

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
    service: Serving,
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
    batch = await service.desk.find(project, batch_id)
    found = service.desk.results(project, batch_id, after=after, limit=limit)
    pages = service.reliabilities.mark_pages(project, found)
    headers: dict[str, str] = {"X-Batch-Status": batch.status}
    if written_as == "ndjson":
        return StreamingResponse(stream_ndjson(pages), headers=headers, media_type=NDJSON)
    options = await service.desk.options(project, batch_id)
    table = stream_csv(pages, service.instruments.rubrics.nearest(batch.rubric_name), options)
    # The id is the service's own: nothing in a file name is the caller's.
    headers["Content-Disposition"] = f'attachment; filename="{batch.id}.csv"'
    return StreamingResponse(table, headers=headers, media_type=f"{CSV}; charset=utf-8; header=present")


@router.get("/{batch_id}/summary", summary="Sum a batch up", responses={200: {"model": Summary}, **PROBLEMS})
async def sum_batch(request: Request, service: Serving, batch_id: str) -> Response:
    """Per aspect: how many are rated and unrated, mean, standard deviation, 95 % interval, histogram, blended mean.

    Beside it composites, coverage, usage and cost; all over the results that there are now.
    """
    project: str = request.state.project
    summary = await service.reliabilities.mark_summary(project, await service.desk.summarize(project, batch_id))
    return Response(summary.model_dump_json(), media_type=JSON)
