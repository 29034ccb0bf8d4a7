"""`/v1/analyses/ranking` and `/v1/leaderboards`: systems ranked by preferences."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from saiten.core.messages import Message
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import ID_PATTERN
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.web.body import JSON, NDJSON, decode_as, receive, require_media_type, while_connected
from saiten_server.platform.web.dependencies import (
    Serving,
    answer_in_language,
    read_options,
    refuse_other_queries,
)
from saiten_server.platform.web.openapi import PROBLEMS, STREAM, form, reads, write_ndjson
from saiten_server.preferences.rankings.service import RankingService, rank_text
from saiten_server.preferences.rankings.values import Leaderboard, Ranking, RankingRequest

router = APIRouter(tags=["analyses"])

CSV = "text/csv"
PLAIN_NUMBER = re.compile(r"\d{1,20}(\.\d{1,40})?([eE]-?\d{1,3})?", re.ASCII)
NUMBER_OPTIONS = frozenset({"alpha", "penalty"})
QUERY_OPTIONS = frozenset({"alpha", "ties", "clusters", "by", "penalty"})

RECORDS = [
    {"item": "sea-1", "dialogue": "sea", "a": "bot-a", "b": "bot-b", "winner": "a"},
    {"item": "sea-1", "dialogue": "sea", "a": "bot-b", "b": "bot-a", "winner": "tie"},
]
RANKING_BODY = {
    JSON: form(RankingRequest, {"data": RECORDS, "alpha": 0.05}),
    NDJSON: {
        "schema": {**STREAM, "description": "one preference per line; options go in the query"},
        "example": write_ndjson(*RECORDS),
    },
    CSV: {
        "schema": {
            **STREAM,
            "description": "columns `item`, `a`, `b`, `winner`; `dialogue`, `rater`, `length_a`, `length_b` and "
            "`covariate:NAME`",
        },
        "example": "item,dialogue,a,b,winner\nsea-1,sea,bot-a,bot-b,a\n",
    },
}


@router.post(
    "/v1/analyses/ranking",
    summary="Rank systems by preferences",
    responses={200: {"model": Ranking}, **PROBLEMS},
    openapi_extra=reads(RANKING_BODY),
)
async def rank_systems(request: Request, container: Serving) -> Response:
    """Ranks systems by `data`, by the ratings of stored `runs`, or by a `preference_run`.

    A record is one look: `a` was shown before `b`, and both orders of an item are two records. Records with a `rater`
    are people's; with the judge's beside them, `corrected` is what people would say. The unit of all intervals is the
    dialogue or the item.
    """
    limits: Limits = request.app.state.limits
    media_type = require_media_type(request.headers, JSON, NDJSON, CSV)
    # A JSON document is parsed in one piece, so its limit is lower than that of lines.
    most = limits.body_bytes if media_type == JSON else limits.analysis_bytes
    body = await receive(request, most, request.app.state.body_timeout_seconds)
    if media_type == JSON:
        for option in request.query_params:
            raise InvalidRequest(Message("options-in-body"), pointer=f"/query/{option[:64]}")
        asked = await decode_as(RankingRequest, body, limits, unlimited=("data",))
        work = await container.find(RankingService).prepare(request.state.project, asked)
        ranking = await while_connected(request, container.comparison.compute(work))
        return await answer_in_language(request, container, ranking)
    asked = validate(RankingRequest, read_options(request, QUERY_OPTIONS, read_option), limits)
    ranking = await while_connected(
        request, container.comparison.compute(lambda: rank_text(asked, body, csv=media_type == CSV))
    )
    return await answer_in_language(request, container, ranking)


@router.get("/v1/leaderboards", summary="Read a leaderboard", responses={200: {"model": Leaderboard}, **PROBLEMS})
async def show_leaderboard(
    request: Request,
    container: Serving,
    name: Annotated[str | None, Query(min_length=1, max_length=1000, description="the name of completed runs")] = None,
    preference_run: Annotated[
        str | None, Query(min_length=1, max_length=64, description="the id of a preference run")
    ] = None,
    aspect: Annotated[str | None, Query(pattern=ID_PATTERN, description="the aspect that is compared")] = None,
) -> Response:
    """The systems of a preference run, or of the newest completed runs of a name, ranked by the judge's comparisons, by
    what people prefer, and by the judge's ratings of single responses, with how far these agree."""
    refuse_other_queries(request, "name", "preference_run", "aspect")
    if (name is None) == (preference_run is None):
        raise InvalidRequest(Message("leaderboard-one-source"), pointer="/query/name")
    asked = RankingRequest(preference_run=preference_run, aspect=aspect)
    work = await container.find(RankingService).prepare_leaderboard(request.state.project, asked, name)
    board = await while_connected(request, container.comparison.compute(work))
    return await answer_in_language(request, container, board)


def read_option(name: str, text: str, where: str) -> Any:
    """One option of the query as a JSON value. Raises InvalidDocument for a number that is none."""
    if name not in NUMBER_OPTIONS:
        return text
    if not PLAIN_NUMBER.fullmatch(text):
        raise InvalidDocument([(where, Message("must-be-number"))])
    return float(text)
