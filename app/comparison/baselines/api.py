"""`/v1/baselines`: the runs that a project's other runs are compared with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from saiten_server.core.batch import Baseline, BaselineRequest
from saiten_server.core.model import Value
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Serving, note, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS, form, reads

router = APIRouter(prefix="/v1/baselines", tags=["comparisons"])

BODY = reads({JSON: form(BaselineRequest, {"batch": "ba_…"})})


class Baselines(Value):
    """All pinned baselines of the project."""

    items: tuple[Baseline, ...] = Field(description="in the order of their names")


@router.get("", summary="List pinned baselines", responses={200: {"model": Baselines}, **PROBLEMS})
async def list_baselines(request: Request, container: Serving) -> Response:
    """By the name of the runs that are compared with them."""
    refuse_other_queries(request)
    found = Baselines(items=tuple(await container.comparison.baselines.list(request.state.project)))
    return Response(found.model_dump_json(), media_type=JSON)


@router.put(
    "/{name:path}",
    summary="Pin a baseline",
    responses={200: {"model": Baseline}, **PROBLEMS},
    openapi_extra=BODY,
)
async def pin_baseline(
    request: Request, container: Serving, name: str, body: Annotated[BaselineRequest, Depends(body_of(BaselineRequest))]
) -> Response:
    """Makes a completed batch of this name its baseline, in the place of an earlier one.

    The dashboard compares runs of the same name, system and rubric with it, and a gate that needs a baseline and names
    none uses it. Erasing the batch unpins it.
    """
    found = await container.comparison.pin(request.state.project, name, body.batch)
    await note(request, container, "baseline.pinned", found.batch)
    return Response(found.model_dump_json(), media_type=JSON)


@router.delete("/{name:path}", status_code=204, summary="Unpin a baseline", responses=PROBLEMS)
async def unpin_baseline(request: Request, container: Serving, name: str) -> Response:
    """Runs of the name are again compared with the run before them."""
    refuse_other_queries(request)
    batch = await container.comparison.unpin(request.state.project, name)
    await note(request, container, "baseline.unpinned", batch)
    return Response(status_code=204)
