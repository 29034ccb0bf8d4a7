"""`/v1/analyses/{name}`, `/v1/comparisons` and `/v1/judge-checks`."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from app.domain.analysis_request import REQUESTS, AnalysisRequest, ComparisonRequest, read_ranges
from app.domain.comparison import Comparison, GateReport
from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest, NotFound
from app.domain.judge_check import JudgeCheck, JudgeCheckRequest
from app.domain.reports import Report
from app.domain.validation import validate
from app.web.body import JSON, NDJSON, body_of, decode_as, receive, require_media_type, while_connected
from app.web.dependencies import Serving, may_write
from app.web.given_runs import read_runs, receive_runs
from app.web.idempotency import once
from app.web.languages import DEFAULT, tell_report
from app.web.limits import evaluating, require_place, require_price
from app.web.openapi import PROBLEMS, STREAM, form, reads, refer_to, write_lines
from app.web.problems import language_of
from saiten.core.messages import Message

router = APIRouter(prefix="/v1/analyses", tags=["analyses"])

CSV = "text/csv"
NUMBERS = {"alpha": float, "margin": float, "seed": int, "resamples": int, "folds": int}
PLAIN_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,40})?([eE]-?\d{1,3})?", re.ASCII)
RECORDS = [
    {"system": "bot-a", "item": "sea-1", "rater": "r1", "ratings": {"naturalness": 3, "overall": 4}},
    {"system": "bot-a", "item": "sea-1", "rater": "r2", "ratings": {"naturalness": 2, "overall": 4}},
]
ANALYSIS_BODY = {
    JSON: {"schema": {"anyOf": [refer_to(model) for model in REQUESTS.values()]}, "example": {"data": RECORDS}},
    NDJSON: {
        "schema": {**STREAM, "description": "one record per line; options go in the query"},
        "example": write_lines(*RECORDS),
    },
    CSV: {
        "schema": {
            **STREAM,
            "description": "columns `system`, `item`, `rater`, `similarity`, `probability`, `score:NAME`, and one per "
            "aspect",
        },
        "example": "system,item,rater,naturalness,overall\nbot-a,sea-1,r1,3,4\n",
    },
}
COMPARISON = {"baseline": "ba_…", "candidate": "ba_…", "alpha": 0.05, "test": "auto"}


@router.post(
    "/{name}",
    summary="Analyse ratings",
    responses={200: {"model": Report}, **PROBLEMS},
    openapi_extra=reads(ANALYSIS_BODY),
)
async def run_analysis(
    request: Request, container: Serving, name: Annotated[str, Path(json_schema_extra={"enum": [*REQUESTS]})]
) -> Response:
    """Analyses `data`, or a batch's results with their human ratings.

    A JSON body holds the options beside `data` or `batch`. NDJSON and CSV hold records only, and options go in the
    query. A `correlation` of a batch becomes the reliability badge of its judge, unless the key may only read.
    """
    model = REQUESTS.get(name)
    if model is None:
        raise NotFound(Message("analyses-are", names=", ".join(REQUESTS)))
    limits: Limits = request.app.state.limits
    media_type = require_media_type(request.headers, JSON, NDJSON, CSV)
    # A JSON document is parsed in one piece, so its limit is lower than that of lines.
    most = limits.body_bytes if media_type == JSON else limits.analysis_bytes
    body = await receive(request, most, request.app.state.body_timeout_seconds)
    if media_type == JSON:
        for option in request.query_params:
            raise InvalidRequest(Message("options-in-body"), pointer=f"/query/{option[:64]}")
        asked = await decode_as(model, body, limits, unlimited=("data",))
        report = await container.comparison.analyse(request.state.project, asked, remember=may_write(request))
    else:
        asked = validate(model, read_query(request, model), limits)
        report = await container.comparison.analyse_text(asked, body, csv=media_type == CSV)
    return Response(await container.comparison.compute(report.model_dump_json), media_type=JSON)


def read_query(request: Request, model: type[AnalysisRequest]) -> dict[str, Any]:
    """The options in the query as JSON values. Raises InvalidRequest for an unknown or repeated option."""
    found: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        where = f"/query/{name[:64]}"
        if name not in model.model_fields or name in {"data", "batch", "batches", "labels", "match", "records"}:
            raise InvalidRequest(Message("option-unknown"), pointer=where)
        if name in found:
            raise InvalidRequest(Message("given-twice"), pointer=where)
        found[name] = read_option(name, text, where)
    return found


def read_option(name: str, text: str, where: str) -> Any:
    """One option of the query as a JSON value."""
    if name == "aspects":
        return text.split(",")
    if name != "ranges":
        return read_number(name, text, where)
    try:
        return read_ranges(text)
    except ValueError:
        raise InvalidRequest(Message("scales-form"), pointer=where) from None


def read_number(name: str, text: str, where: str) -> Any:
    """The option's value, a number where it is one. Raises InvalidRequest unless that is written as in JSON."""
    kind = NUMBERS.get(name, str)
    if kind is str:
        return text
    if not PLAIN_NUMBER.fullmatch(text):
        raise InvalidRequest(Message("must-be-number"), pointer=where)
    try:
        return kind(text)
    except ValueError:
        raise InvalidRequest(Message("must-be-integer"), pointer=where) from None


comparisons = APIRouter(prefix="/v1", tags=["comparisons"])


@comparisons.post(
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
    comparison = await container.comparison.compare(request.state.project, body, given)
    return await answer_in_language(request, container, comparison)


@comparisons.post(
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
        return Response(check.model_dump_json(), media_type=JSON)

    return await once(request, container.scoring.evaluations, make)


async def answer_in_language(request: Request, container: Serving, report: Comparison | GateReport) -> Response:
    """The report, its sentences in the language that the caller prefers."""
    language = language_of(request)
    headers = {"Content-Language": language, "Vary": "Accept-Language"}

    def write() -> str:
        if language == DEFAULT:
            return report.model_dump_json()
        return json.dumps(tell_report(report.model_dump(mode="json"), language), ensure_ascii=False)

    return Response(await container.comparison.compute(write), headers=headers, media_type=JSON)
