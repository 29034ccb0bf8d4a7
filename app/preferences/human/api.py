"""`/v1/preferences/human`: which of two responses people prefer."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.responses import JSONResponse

from saiten.core.messages import Message
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.validation import validate
from saiten_server.platform.web.body import JSON, NDJSON, decode, receive, require_media_type
from saiten_server.platform.web.dependencies import MOST_CURSOR, Serving, Whole, note, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS, form, lines, reads, write_ndjson
from saiten_server.preferences.human.service import HumanPreferences
from saiten_server.preferences.human.values import (
    HumanPreference,
    PreferenceFilter,
    PreferencesAdded,
    StoredPreference,
    read_preference_lines,
    tell_preference,
)
from saiten_server.ratings.values import locate_fault
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/preferences/human", tags=["preferences"])

PREFERENCE_EXAMPLES: list[dict[str, Any]] = [
    {"pair": "rr_….12", "rater": "r1", "preference": "first", "reason": "質問に答えている"},
    {
        "context": ["週末は何をしましたか。"],
        "first": {"response": "海に行きました。", "id": "bot-a"},
        "second": {"response": "はい。", "id": "bot-b"},
        "shown": ["second", "first"],
        "rater": "r1",
        "preference": "first",
    },
]
PREFERENCES_BODY = reads(
    {
        NDJSON: lines(HumanPreference, "one `HumanPreference` per line", *PREFERENCE_EXAMPLES),
        JSON: form(HumanPreference, PREFERENCE_EXAMPLES[0]),
    },
    repeatable=True,
)
PREFERENCES = {
    "description": "one `StoredPreference` per line",
    "headers": {
        "X-Next-Cursor": {
            "description": "`cursor` of the next page; none on the last",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
    },
    "content": {NDJSON: lines(StoredPreference, "one `StoredPreference` per line")},
}


def filter_of(
    pair: Annotated[str | None, Query(description="the pair's name")] = None,
    round: Annotated[str | None, Query(description="the round that drew the pair")] = None,  # noqa: A002 - its name in the API
    run: Annotated[str | None, Query(description="a batch: preferences of its responses")] = None,
    rater: str | None = None,
) -> PreferenceFilter:
    """A FastAPI dependency that reads the filter from the query."""
    return PreferenceFilter(pair=pair, round=round, run=run, rater=rater)


PreferenceQuery = Annotated[PreferenceFilter, Depends(filter_of)]


@router.post(
    "",
    summary="Store preferences of people",
    responses={200: {"model": PreferencesAdded}, **PROBLEMS},
    openapi_extra=PREFERENCES_BODY,
)
async def add_human_preferences(request: Request, container: Serving) -> Response:
    """Stores all preferences in the body, or none if one is not valid.

    A rater has one preference per pair: a later one replaces the earlier. One body has at most one of each rater and
    pair, so that it cannot contradict itself.
    """
    limits: Limits = request.app.state.limits
    media_type = require_media_type(request.headers, NDJSON, JSON)
    body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
    request.state.body = body
    # In a thread of its own, not in the queue of analyses, which may take a minute.
    given, numbers = await asyncio.to_thread(parse_preferences, body, media_type, limits)

    async def make() -> Response:
        try:
            kept = await container.find(HumanPreferences).keep(request.state.project, given)
        except (NotFound, InvalidRequest) as error:
            raise locate_fault(error, numbers) from None
        return JSONResponse({"added": kept.added, "replaced": kept.replaced})

    return await once(request, container.scoring.evaluations, make)


def parse_preferences(body: bytes, media_type: str, limits: Limits) -> tuple[list[HumanPreference], list[int]]:
    """The preferences, each with its line. Raises RequestRefused (400), InvalidDocument and InvalidLines."""
    if media_type == JSON:
        return [validate(HumanPreference, decode(body), limits)], [1]
    given, numbers = read_preference_lines(body, limits)
    if not given:
        raise InvalidRequest(Message("preferences-body-empty"))
    return given, numbers


@router.get("", summary="Read preferences of people", response_class=Response, responses={200: PREFERENCES, **PROBLEMS})
async def list_human_preferences(
    request: Request,
    container: Serving,
    wanted: PreferenceQuery,
    *,
    limit: Annotated[Whole, Query(ge=1, le=10_000)] = 1000,
    cursor: Annotated[Whole, Query(ge=0, le=MOST_CURSOR, description="from `X-Next-Cursor` of the page before")] = 0,
) -> Response:
    """NDJSON, in the order of arrival: at most `limit`, and fewer where texts are long. If there are more,
    `X-Next-Cursor` leads to the next page."""
    refuse_other_queries(request, *PreferenceFilter.model_fields, "limit", "cursor")
    service = container.find(HumanPreferences)
    found, last = await service.list(request.state.project, wanted, after=cursor, limit=limit)
    headers = {} if last is None else {"X-Next-Cursor": str(last)}
    written = await asyncio.to_thread(lambda: write_ndjson(*map(tell_preference, found)))
    return Response(written, headers=headers, media_type=NDJSON)


@router.delete("", summary="Remove preferences of people", responses=PROBLEMS)
async def remove_human_preferences(request: Request, container: Serving, wanted: PreferenceQuery) -> dict[str, int]:
    """Removes the preferences that match the filter, which must not be empty, and returns their number."""
    refuse_other_queries(request, *PreferenceFilter.model_fields)
    removed = await container.find(HumanPreferences).remove(request.state.project, wanted)
    if removed:
        # Only ids that Saiten made: names of raters are the caller's texts.
        by = [*wanted.model_dump(exclude_none=True)]
        target = wanted.round or wanted.run or "preferences"
        await note(request, container, "preferences.removed", target, removed=removed, by=by)
    return {"removed": removed}
