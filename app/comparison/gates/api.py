"""`/v1/gates`: pass or fail a run, and the verdicts that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from saiten_server.comparison.given_bodies import Given, read_runs, receive_runs
from saiten_server.comparison.given_runs import batch_of
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.values import GateReport
from saiten_server.core.model import Value
from saiten_server.platform.web.body import while_connected
from saiten_server.platform.web.dependencies import (
    Serving,
    answer_in_language,
    may_write,
    note,
    read_cursor,
    refuse_other_queries,
    tell_page,
    write_cursor,
)
from saiten_server.platform.web.openapi import LINK, PROBLEMS
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_price

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

router = APIRouter(prefix="/v1/gates", tags=["comparisons"])

RULES = {"rules": [{"aspect": "overall", "max_drop": 0.1}], "min_coverage": 0.98}
EXAMPLE = {"candidate": "ba_…", "baseline": "ba_…", **RULES, "keep": True, "metadata": {"commit": "1a2b3c"}}


class GatePage(Value):
    """A page of kept verdicts, without their comparisons."""

    items: tuple[GateReport, ...] = Field(description="newest first; `comparison` is null and `corrected` empty here")
    next: str | None = Field(description="the cursor of the next page; null on the last")


@router.post(
    "",
    summary="Pass or fail a run",
    responses={200: {"model": GateReport}, **PROBLEMS},
    openapi_extra=read_runs(GateRequest, EXAMPLE, repeatable=True),
)
async def create_gate(request: Request, container: Serving) -> Response:
    """The verdict, with every reason. A run is the id of a batch, or `{"results": […]}`, of which nothing is stored.

    With `check_judge` the judge rates the anchors first, and with `keep` the verdict is stored: both need a key that
    can write. A kept verdict is erased with either of its batches.
    """
    body, given = await receive_runs(request, GateRequest)
    if not may_write(request):
        if body.check_judge:
            detail = Message("check-needs-write-key")
            raise RequestRefused(403, "insufficient-scope", detail)
        if body.keep:
            raise RequestRefused(403, "insufficient-scope", Message("keep-needs-write-key"))

    async def make() -> Response:
        report = await judge(request, container, body, given)
        if report.id is not None:
            await note(request, container, "gate.kept", report.id, verdict=report.verdict)
        return await answer_in_language(request, container, report)

    return await once(request, container.scoring.evaluations, make)


async def judge(request: Request, container: Container, body: GateRequest, given: Given) -> GateReport:
    """The verdict; the judge is checked only while the caller waits for it."""
    if not body.check_judge:
        return await container.comparison.gate(request.state.project, body, given=given)
    async with evaluating(request) as scope:
        candidate = batch_of(body.candidate)
        if body.judge_check is None and candidate is not None:  # otherwise the judge is not called
            rated = await container.batches.find(request.state.project, candidate)
            require_price(request, rated.rubric_name, rated.judge, pointer="/check_judge")
        gating = container.comparison.gate(request.state.project, body, scope, given)
        return await while_connected(request, gating)


@router.get("", summary="List kept gates", responses={200: {"model": GatePage, "headers": {"Link": LINK}}, **PROBLEMS})
async def list_gates(
    request: Request,
    container: Serving,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> Response:
    """The project's kept verdicts, newest first, without their comparisons; those of a candidate batch and of a
    baseline batch where these are named."""
    refuse_other_queries(request, "candidate", "baseline", "limit", "cursor")
    # One more than requested shows whether there is a next page.
    found = await container.comparison.gates.list(
        request.state.project, candidate=candidate, baseline=baseline, after=read_cursor(cursor), limit=limit + 1
    )
    last = found[limit - 1] if len(found) > limit else None
    following = None if last is None or last.at is None else write_cursor(last.at, str(last.id))
    items = tuple(one.model_copy(update={"comparison": None, "corrected": {}}) for one in found[:limit])
    page = GatePage(items=items, next=following)
    return await container.comparison.compute(lambda: tell_page(request, page, following))


@router.get("/{gate_id}", summary="Read a kept gate", responses={200: {"model": GateReport}, **PROBLEMS})
async def get_gate(request: Request, container: Serving, gate_id: str) -> Response:
    """The verdict as it was kept, with its rules, reasons and comparison."""
    refuse_other_queries(request)
    report = await container.comparison.gates.find(request.state.project, gate_id)
    return await answer_in_language(request, container, report)
