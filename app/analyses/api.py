"""`/v1/analyses/{name}`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from saiten.core.messages import Message
from saiten_server.analyses.requests import REQUESTS, read_ranges
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.reports import AnalysisReport
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.web.body import JSON, NDJSON, decode_as, receive, require_media_type, while_connected
from saiten_server.platform.web.dependencies import Serving, answer_in_language, may_write, read_options
from saiten_server.platform.web.openapi import PROBLEMS, STREAM, reads, refer_to, write_ndjson

router = APIRouter(prefix="/v1/analyses", tags=["analyses"])

CSV = "text/csv"
OPTION_TYPES = {"alpha": float, "margin": float, "seed": int, "resamples": int, "folds": int}
IN_BODIES = frozenset({"data", "batch", "batches", "labels", "match", "records"})
"""What no query says."""

PLAIN_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,40})?([eE]-?\d{1,3})?", re.ASCII)
RECORDS = [
    {"system": "bot-a", "item": "sea-1", "rater": "r1", "ratings": {"naturalness": 3, "overall": 4}},
    {"system": "bot-a", "item": "sea-1", "rater": "r2", "ratings": {"naturalness": 2, "overall": 4}},
]
ANALYSIS_BODY = {
    JSON: {"schema": {"anyOf": [refer_to(model) for model in REQUESTS.values()]}, "example": {"data": RECORDS}},
    NDJSON: {
        "schema": {**STREAM, "description": "one record per line; options go in the query"},
        "example": write_ndjson(*RECORDS),
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


@router.post(
    "/{name}",
    summary="Analyse ratings",
    responses={200: {"model": AnalysisReport}, **PROBLEMS},
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
        analysing = container.comparison.analyse(request.state.project, asked, remember=may_write(request))
        # Of batches it may become a badge, which is kept.
        report = await (analysing if asked.batch_ids else while_connected(request, analysing))
    else:
        known = model.model_fields.keys() - IN_BODIES
        asked = validate(model, read_options(request, known, read_option), limits)
        analysing = container.comparison.analyse_text(asked, body, csv=media_type == CSV)
        report = await while_connected(request, analysing)
    return await answer_in_language(request, container, report)


def read_option(name: str, text: str, where: str) -> Any:
    """One option of the query as a JSON value."""
    if name == "aspects":
        return text.split(",")
    if name != "ranges":
        return read_number_or_text(name, text, where)
    try:
        return read_ranges(text)
    except ValueError:
        raise InvalidDocument([(where, Message("scales-form"))]) from None


def read_number_or_text(name: str, text: str, where: str) -> Any:
    """The option's value, a number where it is one. Raises InvalidRequest unless that is written as in JSON."""
    kind = OPTION_TYPES.get(name, str)
    if kind is str:
        return text
    if not PLAIN_NUMBER.fullmatch(text):
        raise InvalidDocument([(where, Message("must-be-number"))])
    try:
        return kind(text)
    except ValueError:
        raise InvalidDocument([(where, Message("must-be-integer"))]) from None
