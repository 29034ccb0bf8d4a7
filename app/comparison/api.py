"""Two runs compared, and what is kept of it: `/v1/comparisons`, `/v1/judge-checks`, baselines, gates and sequences.

The runs of comparisons and gates may be results in place of ids: JSON in one piece, or NDJSON as a stream. In NDJSON
the first line holds the options, and every further line a result with `run`, the name of its run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_line
from saiten_server.comparison.given_runs import ROLES, RUN, GivenLine, GivenResult, GivenResults, GivenRun, batch_of
from saiten_server.comparison.judge_checks.values import JudgeCheck, JudgeCheckRequest
from saiten_server.comparison.links.values import RunRole
from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.comparison.values import Comparison, GateReport, GateSequence
from saiten_server.core.batch import Baseline, BaselineRequest
from saiten_server.core.dialogue import Limits
from saiten_server.core.model import Value
from saiten_server.core.validation import InvalidDocument, name_line, validate
from saiten_server.platform.web.body import (
    JSON,
    MOST_BODY_BYTES,
    NDJSON,
    SMALL_BYTES,
    Upload,
    body_of,
    decode,
    invalid_json,
    receive,
    require_media_type,
    while_connected,
)
from saiten_server.platform.web.dependencies import (
    Serving,
    Whole,
    answer_in_language,
    may_write,
    note,
    read_cursor,
    refuse_other_queries,
    tell_page,
    tell_value,
    write_cursor,
)
from saiten_server.platform.web.openapi import LINK, PROBLEMS, form, lines, reads, refer_to
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.runs.streamed_json import LineCutter, LineTooLong
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_place, require_price

if TYPE_CHECKING:
    from saiten_server.container import Container

RunsRequest = TypeVar("RunsRequest", ComparisonRequest, GateRequest)
Given = Mapping[RunRole, GivenResults]

PARSED_PIECE_BYTES = 64 * 1024
"""What is read in a thread at a time, so that other requests have a turn."""

RESULT_EXAMPLE = {
    "item": "sea-1",
    "candidate": None,
    "status": "scored",
    "rubric": {"id": "ja-dialogue", "version": 2},
    "aspects": {"overall": {"mean": 4.0}},
    "composites": {},
    "signature": "…",
}


def read_runs(model: type[RunsRequest], example: Mapping[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route whose body `receive_runs` reads; the example has ids for runs."""
    refer_to(GivenResult)
    options = {name: value for name, value in example.items() if name != "candidate"}
    described = lines(
        GivenLine,
        f"the first line holds the options (`{model.__name__}`, without the runs that follow as results), every "
        "further line a result with `run`, the run that it is of; up to as many results a run as a batch may have",
        options,
        {RUN: "candidate", **RESULT_EXAMPLE},
    )
    return reads({JSON: form(model, example), NDJSON: described}, repeatable=repeatable)


async def receive_runs(request: Request, model: type[RunsRequest]) -> tuple[RunsRequest, Given]:
    """What is asked, and the results of the runs that are given as such. `request.state.body` becomes the body, or the
    digest of a stream. Raises RequestRefused, InvalidDocument and Overloaded."""
    limits: Limits = request.app.state.limits
    if require_media_type(request.headers, JSON, NDJSON) == NDJSON:
        return await receive_lines(request, RunLines(model, limits))
    body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
    request.state.body = body
    if len(body) <= SMALL_BYTES:
        return read_document(model, body, limits)
    return await asyncio.to_thread(read_document, model, body, limits)


def read_document(model: type[RunsRequest], body: bytes, limits: Limits) -> tuple[RunsRequest, Given]:
    """The same of one JSON document."""
    value = decode(body)
    results: dict[RunRole, Any] = {}
    for role in ROLES:
        run = value.get(role) if isinstance(value, dict) else None
        if isinstance(run, dict) and isinstance(run.get("results"), list):
            # Apart from the rest, because each result is read and counted by itself.
            results[role] = run["results"]
            value = {**value, role: {name: part for name, part in run.items() if name != "results"}}
    asked = validate(model, value, limits)
    return asked, read_all(asked, results, limits)


def read_all(asked: ComparisonRequest | GateRequest, results: Mapping[RunRole, Iterable[Any]], limits: Limits) -> Given:
    """The results of the runs that are given as such."""
    given = {role: GivenResults(role, limits) for role in ROLES if isinstance(getattr(asked, role), GivenRun)}
    for role, run in given.items():
        for value in results.get(role, ()):
            run.add(value)
        run.finish()
    return given


async def receive_lines(request: Request, reading: RunLines[RunsRequest]) -> tuple[RunsRequest, Given]:
    """The same of a stream of NDJSON."""
    digest = hashlib.sha256()
    try:
        most = min(reading.limits.batch_bytes, MOST_BODY_BYTES)
        async for chunk in Upload(request, NDJSON, maximum=most, keeps=True):
            for start in range(0, len(chunk), PARSED_PIECE_BYTES):
                piece = chunk[start : start + PARSED_PIECE_BYTES]
                digest.update(piece)
                await asyncio.to_thread(reading.feed, piece)
        found = await asyncio.to_thread(reading.close)
    except StrictJSONError as error:
        raise invalid_json(error.message) from None
    request.state.body = digest.hexdigest().encode()
    return found


class RunLines(Generic[RunsRequest]):
    """Reads NDJSON piece by piece. Raises StrictJSONError and InvalidDocument."""

    def __init__(self, model: type[RunsRequest], limits: Limits) -> None:
        self._model: type[RunsRequest] = model
        self.limits = limits
        self._lines = LineCutter(limits.body_bytes)
        self._options: Any = None
        self._given: dict[RunRole, GivenResults] = {}

    def feed(self, data: bytes, *, last: bool = False) -> None:
        try:
            for line in self._lines.feed(data, last=last):
                self._take(line, self._lines.number)
        except LineTooLong:
            what = Message("batch-member-bytes-most", maximum=self.limits.body_bytes)
            raise InvalidDocument([("", name_line(what, self._lines.number + 1))]) from None

    def close(self) -> tuple[RunsRequest, Given]:
        """What is asked, and the results."""
        self.feed(b"", last=True)
        if self._options is None:
            raise StrictJSONError(Message("run-empty"))
        options = self._options
        if isinstance(options, dict):
            options = {**options, **{role: options.get(role, {}) for role in self._given}}
        asked = validate(self._model, options, self.limits)
        for role in ROLES:
            run = getattr(asked, role)
            if isinstance(run, GivenRun):
                if run.results:
                    raise InvalidDocument([(f"/{role}/results", Message("run-lines-apart"))])
                self._given.setdefault(role, GivenResults(role, self.limits)).finish()
            elif role in self._given:
                raise InvalidDocument([(f"/{role}", Message("run-is-batch"))])
        return asked, self._given

    def _take(self, line: bytes, number: int) -> None:
        value = parse_line(line, number)
        if self._options is None:
            if isinstance(value, dict) and RUN in value:
                raise InvalidDocument([("", name_line(Message("run-options-missing"), number))])
            self._options = value
            return
        role = value.pop(RUN, None) if isinstance(value, dict) else None
        if role not in ROLES:
            raise InvalidDocument([(f"/{RUN}", name_line(Message("role-unknown"), number))])
        if role not in self._given:
            self._given[role] = GivenResults(role, self.limits)
        self._given[role].add(value, number)


COMPARISON = {"baseline": "ba_…", "candidate": "ba_…", "alpha": 0.05, "test": "auto"}
router = APIRouter(prefix="/v1", tags=["comparisons"])


@router.post(
    "/comparisons",
    summary="Compare two runs",
    responses={200: {"model": Comparison}, **PROBLEMS},
    openapi_extra=read_runs(ComparisonRequest, COMPARISON),
)
async def compare_batches(request: Request, container: Serving) -> Response:
    """Every measure of both runs, with test, effect size, interval and smallest detectable difference. A run is the id
    of a batch, or `{"results": […]}`, of which nothing is stored.

    409 `signature-mismatch`, with the differing `pieces`, if the two were not scored in the same way.
    """
    body, given = await receive_runs(request, ComparisonRequest)
    comparison = await while_connected(request, container.comparison.compare(request.state.project, body, given))
    return await answer_in_language(request, container, comparison)


@router.post(
    "/judge-checks",
    summary="Check the judge for drift",
    responses={200: {"model": JudgeCheck}, **PROBLEMS},
    openapi_extra=reads({JSON: form(JudgeCheckRequest, {"rubric": "ja-dialogue"})}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def check_judge(
    request: Request, container: Serving, body: Annotated[JudgeCheckRequest, Depends(body_of(JudgeCheckRequest))]
) -> Response:
    """Scores the rubric's frozen anchors without any cache, and compares them with the stored ratings."""

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, body.rubric, body.judge)
            checking = container.comparison.check_judge(request.state.project, body, scope)
            check = await while_connected(request, checking)
        return tell_value(request, check)

    return await once(request, container.scoring.evaluations, make)


class Baselines(Value):
    """All pinned baselines of the project."""

    items: tuple[Baseline, ...] = Field(description="in the order of their names")


@router.get("/baselines", summary="List pinned baselines", responses={200: {"model": Baselines}, **PROBLEMS})
async def list_baselines(request: Request, container: Serving) -> Response:
    """By the name of the runs that are compared with them."""
    refuse_other_queries(request)
    found = Baselines(items=tuple(await container.comparison.baselines.list(request.state.project)))
    return Response(found.model_dump_json(), media_type=JSON)


@router.put(
    "/baselines/{name:path}",
    summary="Pin a baseline",
    responses={200: {"model": Baseline}, **PROBLEMS},
    openapi_extra=reads({JSON: form(BaselineRequest, {"batch": "ba_…"})}),
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


@router.delete("/baselines/{name:path}", status_code=204, summary="Unpin a baseline", responses=PROBLEMS)
async def unpin_baseline(request: Request, container: Serving, name: str) -> Response:
    """Runs of the name are again compared with the run before them."""
    refuse_other_queries(request)
    batch = await container.comparison.unpin(request.state.project, name)
    await note(request, container, "baseline.unpinned", batch)
    return Response(status_code=204)


RULES = {"rules": [{"aspect": "overall", "max_drop": 0.1}], "min_coverage": 0.98}
GATE_EXAMPLE = {"candidate": "ba_…", "baseline": "ba_…", **RULES, "keep": True, "metadata": {"commit": "1a2b3c"}}


class GatePage(Value):
    """A page of kept verdicts, without their comparisons."""

    items: tuple[GateReport, ...] = Field(description="newest first; `comparison` is null and `corrected` empty here")
    next: str | None = Field(description="the cursor of the next page; null on the last")


@router.post(
    "/gates",
    summary="Pass or fail a run",
    responses={200: {"model": GateReport}, **PROBLEMS},
    openapi_extra=read_runs(GateRequest, GATE_EXAMPLE, repeatable=True),
)
async def create_gate(request: Request, container: Serving) -> Response:
    """The verdict, with every reason. A run is the id of a batch, or `{"results": […]}`, of which nothing is stored.

    With `check_judge` the judge rates the anchors first, with `keep` the verdict is stored, and with `sequence` the
    build becomes one of a sequence: these need a key that can write. A kept verdict is erased with either of its
    batches.
    """
    body, given = await receive_runs(request, GateRequest)
    if not may_write(request):
        if body.check_judge:
            detail = Message("check-needs-write-key")
            raise RequestRefused(403, "insufficient-scope", detail)
        if body.keep:
            raise RequestRefused(403, "insufficient-scope", Message("keep-needs-write-key"))
        if body.sequence is not None:
            raise RequestRefused(403, "insufficient-scope", Message("sequence-needs-write-key"))

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


@router.get(
    "/gates", summary="List kept gates", responses={200: {"model": GatePage, "headers": {"Link": LINK}}, **PROBLEMS}
)
async def list_gates(
    request: Request,
    container: Serving,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
    limit: Annotated[Whole, Query(ge=1, le=200)] = 50,
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


@router.get("/gates/{gate_id}", summary="Read a kept gate", responses={200: {"model": GateReport}, **PROBLEMS})
async def get_gate(request: Request, container: Serving, gate_id: str) -> Response:
    """The verdict as it was kept, with its rules, reasons and comparison."""
    refuse_other_queries(request)
    report = await container.comparison.gates.find(request.state.project, gate_id)
    return await answer_in_language(request, container, report)


class GateSequences(Value):
    """All sequences of the project, without their builds."""

    items: tuple[GateSequence, ...] = Field(description="in the order of their names")


@router.get("/sequences", summary="List sequences", responses={200: {"model": GateSequences}, **PROBLEMS})
async def list_sequences(request: Request, container: Serving) -> Response:
    """By name, without their builds."""
    refuse_other_queries(request)
    found = GateSequences(items=tuple(await container.comparison.sequences.list(request.state.project)))
    return Response(found.model_dump_json(), media_type=JSON)


@router.get("/sequences/{name:path}", summary="Read a sequence", responses={200: {"model": GateSequence}, **PROBLEMS})
async def show_sequence(request: Request, container: Serving, name: str) -> Response:
    """The sequence with its builds in their order and what the gate said of each."""
    refuse_other_queries(request)
    found = await container.comparison.sequences.find(request.state.project, name)
    return Response(found.model_dump_json(), media_type=JSON)


@router.delete("/sequences/{name:path}", status_code=204, summary="Delete a sequence", responses=PROBLEMS)
async def delete_sequence(request: Request, container: Serving, name: str) -> Response:
    """Forgets it, and what it spent of its alpha. Its batches stay; the next gate of its name begins another."""
    refuse_other_queries(request)
    found = await container.comparison.sequences.remove(request.state.project, name)
    await note(request, container, "sequence.deleted", found.baseline)
    return Response(status_code=204)
