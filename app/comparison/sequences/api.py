"""`/v1/sequences`: builds that gates judge against one baseline with one error rate for all of them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field

from saiten_server.comparison.values import GateSequence
from saiten_server.core.model import Value
from saiten_server.platform.web.body import JSON
from saiten_server.platform.web.dependencies import Serving, note, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS

router = APIRouter(prefix="/v1/sequences", tags=["comparisons"])


class GateSequences(Value):
    """All sequences of the project, without their builds."""

    items: tuple[GateSequence, ...] = Field(description="in the order of their names")


@router.get("", summary="List sequences", responses={200: {"model": GateSequences}, **PROBLEMS})
async def list_sequences(request: Request, container: Serving) -> Response:
    """By name, without their builds."""
    refuse_other_queries(request)
    found = GateSequences(items=tuple(await container.comparison.sequences.list(request.state.project)))
    return Response(found.model_dump_json(), media_type=JSON)


@router.get("/{name:path}", summary="Read a sequence", responses={200: {"model": GateSequence}, **PROBLEMS})
async def show_sequence(request: Request, container: Serving, name: str) -> Response:
    """The sequence with its builds in their order and what the gate said of each."""
    refuse_other_queries(request)
    found = await container.comparison.sequences.find(request.state.project, name)
    return Response(found.model_dump_json(), media_type=JSON)


@router.delete("/{name:path}", status_code=204, summary="Delete a sequence", responses=PROBLEMS)
async def delete_sequence(request: Request, container: Serving, name: str) -> Response:
    """Forgets it, and what it spent of its alpha. Its batches stay; the next gate of its name begins another."""
    refuse_other_queries(request)
    found = await container.comparison.sequences.remove(request.state.project, name)
    await note(request, container, "sequence.deleted", found.baseline)
    return Response(status_code=204)
