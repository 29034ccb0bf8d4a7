"""`/v1/runs/adopt`: a run that `saiten offline` scored becomes a run of the service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from saiten_server.core.batch import Batch
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.offline.service import UPLOAD, AdoptionService, AdoptRequest
from saiten_server.platform.web.body import JSON, Upload, decode_as, receive, require_media_type, while_connected
from saiten_server.platform.web.dependencies import (
    METADATA,
    Serving,
    note,
    read_metadata_query,
    refuse_other_queries,
    tell_value,
)
from saiten_server.platform.web.openapi import PROBLEMS, STREAM, form, header, reads
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/runs", tags=["batches"])

PARQUET = "application/vnd.apache.parquet"
BODY = {
    JSON: form(
        AdoptRequest,
        {"url": "s3://results/nightly", "name": "nightly", "metadata": {"system": "bot-a", "build": "1a2b3c"}},
    ),
    PARQUET: {
        "schema": {**STREAM, "description": "one file of results, with `name` and `metadata.KEY` in the query"},
        "example": "PAR1…PAR1",
    },
}
BATCH_LOCATION = header("the batch's address", required=True)


@router.post(
    "/adopt",
    status_code=201,
    summary="Adopt a run that was scored elsewhere",
    responses={
        200: {
            "model": Batch,
            "description": "These results are a run already",
            "headers": {"Location": BATCH_LOCATION},
        },
        201: {"model": Batch, "headers": {"Location": BATCH_LOCATION}},
        **PROBLEMS,
    },
    openapi_extra=reads(BODY, repeatable=True),
)
async def adopt_run(
    request: Request,
    container: Serving,
    *,
    name: Annotated[str | None, Query(description="of a file in the body: the batch's name")] = None,
    rubric: Annotated[str | None, Query(description="of a file in the body that names no rubric")] = None,
) -> Response:
    """Figures and ids become a batch that is completed, without any call of a judge; texts stay where they are. All
    results or none: what does not fit is named with its file and row group, or its row.

    The same results under the same name are one run, however often they are adopted. A run may have as many results as
    a batch; files of more are compared by `saiten gate` without a service.
    """
    refuse_other_queries(request, "name", "rubric", beginning=METADATA)
    service = container.find(AdoptionService)
    limits: Limits = request.app.state.limits
    with tempfile.TemporaryDirectory(prefix="saiten-") as folder:
        if require_media_type(request.headers, JSON, PARQUET) == JSON:
            request.state.body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
            asked = await decode_as(AdoptRequest, request.state.body, limits)
            address = service.find_place(asked.url, request.state.project)
        else:
            given = {"url": UPLOAD, "name": name, "rubric": rubric, "metadata": read_metadata_query(request)}
            with pointing_at_upload():
                asked = validate(AdoptRequest, given, limits)
            address = "upload.parquet"
            request.state.body = await keep_upload(request, os.path.join(folder, address))

        async def make() -> Response:
            with pointing_at_upload() if asked.url == UPLOAD else nullcontext():
                found = await while_connected(request, service.adopt(request.state.project, address, asked, folder))
            if found.new:
                rows = found.batch.counts.total
                await note(request, container, "run.adopted", found.batch.id, rows=rows, url=asked.url[:200])
            return tell_value(request, found.batch, 201 if found.new else 200)

        response = await once(request, container.scoring.evaluations, make)
        response.headers["Location"] = f"/v1/batches/{json.loads(bytes(response.body))['id']}"
        return response


@contextmanager
def pointing_at_upload() -> Iterator[None]:
    """Errors point at the file, which is the whole body, or at the query, and not at members of a JSON body."""
    try:
        yield
    except InvalidDocument as error:
        raise InvalidDocument([(point_at_upload(where), what) for where, what in error.faults]) from None
    except InvalidRequest as error:
        if error.pointer is not None:
            error.pointer = point_at_upload(error.pointer)
        raise


def point_at_upload(where: str) -> str:
    """The place in an upload that says what this member of a JSON body says."""
    return "" if where == "/url" else f"/query{where.replace('/metadata/', '/metadata.', 1)}"


async def keep_upload(request: Request, path: str) -> bytes:
    """Writes the body there; returns its digest."""
    found = hashlib.sha256()
    file = await asyncio.to_thread(open, path, "wb")
    with file:
        async for piece in Upload(request, PARQUET):
            found.update(piece)
            await asyncio.to_thread(file.write, piece)
    return found.hexdigest().encode()
