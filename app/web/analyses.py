"""`/v1/analyses/{name}`: agreement, correlation with humans, dependency, fits and win rates."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from app.domain.analysis_request import REQUESTS, AnalysisRequest
from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest, NotFound
from app.domain.reports import Report
from app.domain.validation import validate
from app.web.body import JSON, decode_as, receive, require_media_type
from app.web.evaluations import Serving
from app.web.meta_openapi import ANALYSES
from app.web.openapi import PROBLEMS
from app.web.upload import NDJSON

router = APIRouter(prefix="/v1/analyses", tags=["analyses"])

CSV = "text/csv"
NUMBERS = {"alpha": float, "seed": int, "resamples": int, "folds": int}
PLAIN_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,40})?([eE]-?\d{1,3})?", re.ASCII)


@router.post(
    "/{name}",
    summary="Analyse ratings",
    responses={
        200: {"model": Report},
        **PROBLEMS,
    },
    openapi_extra=ANALYSES,
)
async def run_analysis(
    request: Request, service: Serving, name: Annotated[str, Path(json_schema_extra={"enum": [*REQUESTS]})]
) -> Response:
    """Analyses `data`, or a batch's results with the human ratings kept for them; nothing but those is read.

    JSON holds the options beside `data` or `batch`. NDJSON and CSV hold records alone: options then stand in the query.
    A `correlation` of a batch becomes the reliability badge of its judge, unless the key may only read.
    """
    model = REQUESTS.get(name)
    if model is None:
        raise NotFound(f"the analyses are {', '.join(REQUESTS)}")
    limits: Limits = request.app.state.limits
    media_type = require_media_type(request.headers, JSON, NDJSON, CSV)
    # A JSON document is read in one go, while nobody else gets a turn: whoever has much sends lines.
    most = limits.body_bytes if media_type == JSON else limits.analysis_bytes
    body = await receive(request, most, request.app.state.body_timeout_seconds)
    if media_type == JSON:
        refuse_query(request)
        asked = await decode_as(model, body, limits, unlimited=("data",))
        report = await service.meta.analyse(request.state.project, asked, remember=may_write(request))
    else:
        asked = validate(model, read_query(request, model), limits)
        report = await service.meta.analyse_text(asked, body, csv=media_type == CSV)
    return Response(await service.meta.compute(report.model_dump_json), media_type=JSON)


def may_write(request: Request) -> bool:
    """Whether the caller's key allows more than reading."""
    return bool(request.state.scope != "read")


def refuse_query(request: Request) -> None:
    """Raises InvalidRequest for options in the query of a request whose body holds them."""
    for name in request.query_params:
        raise InvalidRequest("with a JSON body, options stand in it", pointer=f"/query/{name[:64]}")


def read_query(request: Request, model: type[AnalysisRequest]) -> dict[str, Any]:
    """The options in the query as JSON has them; raises InvalidRequest for what is no option or given twice."""
    found: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        where = f"/query/{name[:64]}"
        if name not in model.model_fields or name in {"data", "batch", "batches", "labels"}:
            raise InvalidRequest("is not an option of this analysis", pointer=where)
        if name in found:
            raise InvalidRequest("is given more than once", pointer=where)
        found[name] = text.split(",") if name == "aspects" else read_number(name, text, where)
    return found


def read_number(name: str, text: str, where: str) -> Any:
    """The text, as a number where the option is one; spelled as JSON has it."""
    kind = NUMBERS.get(name, str)
    if kind is str:
        return text
    if not PLAIN_NUMBER.fullmatch(text):
        raise InvalidRequest("must be a number", pointer=where)
    try:
        return kind(text)
    except ValueError:
        raise InvalidRequest("must be an integer", pointer=where) from None
