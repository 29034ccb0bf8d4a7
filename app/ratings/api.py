"""`/v1/ratings`: human ratings of responses."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel
from starlette.responses import JSONResponse

from saiten.core.messages import Message
from saiten_server.core.dialogue import UNBOUNDED, Limits
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.validation import validate
from saiten_server.platform.web.body import JSON, NDJSON, body_of, receive, require_media_type
from saiten_server.platform.web.dependencies import MOST_CURSOR, Serving, Whole, note, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS, form, lines, reads, write_ndjson
from saiten_server.ratings import values as human_rating
from saiten_server.ratings.requests import HUMAN, parse_ratings
from saiten_server.ratings.values import (
    Exclusion,
    HumanRating,
    RatingFilter,
    RatingsAdded,
    StoredExclusion,
    StoredRating,
)
from saiten_server.scoring.idempotency import once

router = APIRouter(prefix="/v1/ratings", tags=["ratings"])

RATINGS_BODY = reads(
    {NDJSON: lines(HumanRating, "one `HumanRating` per line", *HUMAN), JSON: form(HumanRating, HUMAN[0])},
    repeatable=True,
)
EXCLUSION_BODY = reads({JSON: form(Exclusion, {"rater": "R3"})}, repeatable=True)
RATINGS = {
    "description": "one `StoredRating` per line",
    "headers": {
        "X-Next-Cursor": {
            "description": "`cursor` of the next page; none on the last",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
    },
    "content": {NDJSON: lines(StoredRating, "one `StoredRating` per line")},
}


class ExclusionAdded(BaseModel):
    """1, or 0 if it was excluded already."""

    added: int


def filter_of(
    item: str | None = None, evaluation: str | None = None, batch: str | None = None, rater: str | None = None
) -> RatingFilter:
    """A FastAPI dependency that reads the filter from the query."""
    return RatingFilter(item=item, evaluation=evaluation, batch=batch, rater=rater)


RatingQuery = Annotated[RatingFilter, Depends(filter_of)]


@router.post(
    "", summary="Store human ratings", responses={200: {"model": RatingsAdded}, **PROBLEMS}, openapi_extra=RATINGS_BODY
)
async def add_ratings(request: Request, container: Serving) -> Response:
    """Stores all ratings in the body, or none if one is not valid.

    A rater has one rating per response: a later one replaces the earlier. If a rating names a batch, its aspects and
    values are validated against the rubric that the batch was scored with.
    """
    limits: Limits = request.app.state.limits
    media_type = require_media_type(request.headers, NDJSON, JSON)
    body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
    request.state.body = body
    # In a thread of its own, not in the queue of analyses, which may take a minute.
    ratings, lines = await asyncio.to_thread(parse_ratings, body, media_type, limits)

    async def make() -> Response:
        try:
            kept = await container.ratings.service.keep_ratings(request.state.project, ratings)
        except (NotFound, InvalidRequest) as error:
            raise human_rating.locate_fault(error, lines) from None
        return JSONResponse({"added": kept.added, "replaced": kept.replaced})

    return await once(request, container.scoring.evaluations, make)


@router.get("", summary="Read human ratings", response_class=Response, responses={200: RATINGS, **PROBLEMS})
async def list_ratings(
    request: Request,
    container: Serving,
    wanted: RatingQuery,
    *,
    limit: Annotated[Whole, Query(ge=1, le=10_000)] = 1000,
    cursor: Annotated[Whole, Query(ge=0, le=MOST_CURSOR, description="from `X-Next-Cursor` of the page before")] = 0,
) -> Response:
    """NDJSON, in the order of arrival: at most `limit`, and fewer where they are long. If there are more,
    `X-Next-Cursor` leads to the next page."""
    refuse_other_queries(request, *RatingFilter.model_fields, "limit", "cursor")
    service = container.ratings.service
    found, last = await service.page_ratings(request.state.project, wanted, after=cursor, limit=limit)
    headers = {} if last is None else {"X-Next-Cursor": str(last)}
    written = await asyncio.to_thread(lambda: write_ndjson(*map(human_rating.tell_rating, found)))
    return Response(written, headers=headers, media_type=NDJSON)


@router.delete("", summary="Remove human ratings", responses=PROBLEMS)
async def remove_ratings(request: Request, container: Serving, wanted: RatingQuery) -> dict[str, int]:
    """Removes the ratings that match the filter, which must not be empty, and returns their number."""
    refuse_other_queries(request, *RatingFilter.model_fields)
    if wanted == RatingFilter():
        raise InvalidRequest(Message("ratings-filter-missing"), pointer="/query")
    removed = await container.ratings.service.remove_ratings(request.state.project, wanted)
    if removed:
        # Only ids that Saiten made: names of raters and items are the caller's texts.
        target = wanted.batch or wanted.evaluation or "ratings"
        by = [*wanted.model_dump(exclude_none=True)]
        await note(request, container, "ratings.removed", target, removed=removed, by=by)
    return {"removed": removed}


@router.post(
    "/exclusions",
    summary="Exclude a rater or a round",
    responses={200: {"model": ExclusionAdded}, **PROBLEMS},
    openapi_extra=EXCLUSION_BODY,
)
async def exclude_ratings(
    request: Request, container: Serving, exclusion: Annotated[Exclusion, Depends(body_of(Exclusion))]
) -> Response:
    """Excludes the ratings of this rater or rating round from analyses of batches and from the validation of judges.
    The ratings stay stored; reliability is updated in the background."""

    async def make() -> Response:
        added = await container.ratings.service.exclude(request.state.project, exclusion)
        if added:
            # As above: a rater's name is the caller's text. GET lists the excluded raters.
            await note(request, container, "ratings.excluded", exclusion.round or "a rater")
        return JSONResponse({"added": int(added)})

    return await once(request, container.scoring.evaluations, make)


@router.get("/exclusions", summary="Read exclusions", responses=PROBLEMS)
async def list_exclusions(request: Request, container: Serving) -> dict[str, list[StoredExclusion]]:
    """Raters and rounds whose ratings do not count, oldest first."""
    refuse_other_queries(request)
    return {"items": [*await container.ratings.service.exclusions(request.state.project)]}


@router.delete("/exclusions", summary="Remove an exclusion", responses=PROBLEMS)
async def include_ratings(
    request: Request,
    container: Serving,
    rater: str | None = None,
    round_id: Annotated[str | None, Query(alias="round")] = None,
) -> dict[str, int]:
    """Makes the ratings of the rater or round count again, and returns the number of removed exclusions."""
    refuse_other_queries(request, "rater", "round")
    given = {"rater": rater, "round": round_id}
    exclusion = validate(Exclusion, {name: one for name, one in given.items() if one is not None}, UNBOUNDED)
    removed = await container.ratings.service.include(request.state.project, exclusion)
    if removed:
        await note(request, container, "ratings.included", exclusion.round or "a rater")
    return {"removed": int(removed)}
