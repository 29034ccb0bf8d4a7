"""`/v1/links`: links between judges."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from saiten_server.comparison.links.values import Link, LinkRequest
from saiten_server.core.model import Value
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Serving, note, refuse_other_queries, tell_value
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/links", tags=["links"])

LINK_BODY = reads({JSON: form(LinkRequest, {"old": "ba_…", "new": "ba_…"})}, repeatable=True)


class Links(Value):
    """All links of the project, newest first."""

    items: tuple[Link, ...] = Field(description="newest first")


@router.post(
    "",
    status_code=201,
    summary="Link two judges",
    responses={201: {"model": Link}, **PROBLEMS},
    openapi_extra=LINK_BODY,
)
async def make_link(
    request: Request, container: Serving, body: Annotated[LinkRequest, Depends(body_of(LinkRequest))]
) -> Response:
    """Links the judges of two batches that hold ratings of the same responses, aspect by aspect, and stores the link.

    An aspect without a link says why. Comparisons and gates use a link only where they name it.
    """

    async def make() -> Response:
        link = await container.comparison.links.make(request.state.project, body)
        await note(request, container, "link.created", link.id, old=link.old, new=link.new)
        return tell_value(request, link, 201)

    response = await once(request, container.scoring.evaluations, make)
    # A replay names the same link: its address comes from the stored answer.
    response.headers["Location"] = f"/v1/links/{json.loads(bytes(response.body))['id']}"
    return response


@router.get("", summary="List links", responses={200: {"model": Links}, **PROBLEMS})
async def list_links(request: Request, container: Serving) -> Response:
    """Newest first."""
    refuse_other_queries(request)
    found = Links(items=tuple(await container.comparison.links.list(request.state.project)))
    return tell_value(request, found)


@router.get("/{link_id}", summary="Read a link", responses={200: {"model": Link}, **PROBLEMS})
async def show_link(request: Request, container: Serving, link_id: str) -> Response:
    """The link with each aspect's table."""
    refuse_other_queries(request)
    found = await container.comparison.links.find(request.state.project, link_id)
    return tell_value(request, found)


@router.delete("/{link_id}", status_code=204, summary="Delete a link", responses=PROBLEMS)
async def delete_link(request: Request, container: Serving, link_id: str) -> Response:
    """Removes it. Reports that were made with it stay as they are."""
    refuse_other_queries(request)
    await container.comparison.links.remove(request.state.project, link_id)
    await note(request, container, "link.deleted", link_id)
    return Response(status_code=204)
