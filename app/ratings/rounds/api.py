"""`/v1/ratings/rounds`: which responses of a batch people rate. Raters rate on the pages under `/rate`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from saiten.core.messages import Message
from saiten_server.analyses.requests import CorrectedRequest
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import LEAST_ALPHA, CorrectedReport, Looks
from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Serving, Whole, refuse_other_queries, tell_value
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.ratings.rounds.service import no_round
from saiten_server.ratings.values import (
    DrawnItem,
    RatingRound,
    RoundOptions,
    RoundProgress,
    RoundRequest,
    SharedProgress,
    Signal,
)
from saiten_server.scoring.idempotency import once

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/v1/ratings/rounds", tags=["ratings"])

NO_SIGNAL = (
    "no result tells where the judge is unsteady, as several samples, expected ratings, both paths or other judges "
    "would, so that responses were drawn at random"
)
NO_SAMPLE = (
    "its responses were chosen on purpose and not drawn, so that their ratings say nothing of the others and are left "
    "out of figures"
)
RATING_ROUND_EXAMPLE = {"batch": "ba_…", "name": "nightly", "items": 100, "choose": "informative"}
RATING_ROUND_BODY = reads({JSON: form(RoundRequest, RATING_ROUND_EXAMPLE)}, repeatable=True)


class Round(BaseModel):
    """A rating round as it is now."""

    id: str
    batch: str = Field(description="the batch whose responses people rate")
    options: RoundOptions = Field(description="as asked for")
    drawn: int = Field(description="responses that were drawn, without those erased since")
    signals: list[Signal] = Field(description="what told where the judge is unsteady; empty where that did not count")
    note: str | None = Field(
        description="why an informative choice was made at random, or why ratings are left out of figures; else null"
    )
    created_at: datetime
    closed_at: datetime | None = Field(description="null while responses are handed out")
    progress: RoundProgress
    address: str = Field(description="path of the page on which people rate")
    shared: SharedProgress | None = Field(
        default=None, description="how far people rated both rounds that share items; null without one, and in lists"
    )


class RoundList(BaseModel):
    """Rounds, newest first."""

    items: list[Round]


class DrawnItems(BaseModel):
    """What a round drew, in its order."""

    items: list[DrawnItem]


@router.post(
    "",
    status_code=201,
    summary="Open a rating round",
    responses={201: {"model": Round}, **PROBLEMS},
    openapi_extra=RATING_ROUND_BODY,
)
async def open_round(
    request: Request, container: Serving, asked: Annotated[RoundRequest, Depends(body_of(RoundRequest))]
) -> Response:
    """Draws responses of one batch for people to rate: all that are scored, where there are fewer than `items`.

    The probability of each is kept, and weights its ratings in corrected figures of the batch. With `shared_with` they
    are the responses to the items of another batch's round: people who rate in both make the batches comparable.
    """

    async def make() -> Response:
        options = RoundOptions.model_construct(**asked.model_dump(exclude={"batch"}))
        opened = await container.ratings.rounds.open(request.state.project, asked.batch, options)
        return answer_json(await describe_progress(request, container, opened), 201)

    return await once(request, container.scoring.evaluations, make)


@router.get("", summary="List rating rounds", responses={200: {"model": RoundList}, **PROBLEMS})
async def list_rounds(
    request: Request,
    container: Serving,
    *,
    batch: str | None = None,
    limit: Annotated[Whole, Query(ge=1, le=200)] = 50,
) -> Response:
    """The newest rounds, of one batch or of all."""
    refuse_other_queries(request, "batch", "limit")
    project = request.state.project
    found = await container.ratings.rounds.list(project, batch, limit=limit)
    progress = await container.ratings.rounds.progress(project, [one.id for one in found])
    # One that was erased in between is left out.
    return answer_json(RoundList(items=[present(one, progress[one.id]) for one in found if one.id in progress]))


@router.get("/{round_id}", summary="Look at a rating round", responses={200: {"model": Round}, **PROBLEMS})
async def read_round(request: Request, container: Serving, round_id: str) -> Response:
    """Its options, and how far it is."""
    refuse_other_queries(request)
    return answer_json(await describe_progress(request, container, await find_round(request, container, round_id)))


@router.get("/{round_id}/items", summary="Read what a round drew", responses={200: {"model": DrawnItems}, **PROBLEMS})
async def read_round_items(request: Request, container: Serving, round_id: str) -> Response:
    """Each response with the probability with which it was drawn, in the round's order."""
    refuse_other_queries(request)
    await find_round(request, container, round_id)
    return answer_json(DrawnItems(items=await container.ratings.rounds.items(request.state.project, round_id)))


@router.get(
    "/{round_id}/corrected",
    summary="Read the corrected figures of a round's batch",
    responses={200: {"model": CorrectedReport}, **PROBLEMS},
)
async def read_round_figures(
    request: Request,
    container: Serving,
    round_id: str,
    *,
    margin: Annotated[float | None, Query(gt=0, le=1e15, allow_inf_nan=False)] = None,
    alpha: Annotated[float, Query(ge=LEAST_ALPHA, lt=0.5)] = 0.05,
    looks: Looks = "once",
) -> Response:
    """What people would say of the batch, as `corrected` under `/v1/analyses` says, and how many more ratings would
    bring it to ± `margin`. Refused for a round of `worst` or `chosen` responses, which is no sample of the batch."""
    refuse_other_queries(request, "margin", "alpha", "looks")
    found = await find_round(request, container, round_id)
    if not found.is_sample:
        raise InvalidRequest(Message("round-not-a-sample"))
    asked = CorrectedRequest(batch=found.batch, margin=margin, alpha=alpha, looks=looks)
    report = await container.comparison.analyse(request.state.project, asked)
    return tell_value(request, report)


@router.post("/{round_id}/close", summary="Close a rating round", responses={200: {"model": Round}, **PROBLEMS})
async def close_round(request: Request, container: Serving, round_id: str) -> Response:
    """Hands nothing more out. What raters have in hand they may still rate; a closed round is unchanged."""
    await find_round(request, container, round_id)
    closed = await container.ratings.rounds.close(request.state.project, round_id)
    return answer_json(await describe_progress(request, container, closed))


async def find_round(request: Request, container: Container, round_id: str) -> RatingRound:
    """The round; raises NotFound where there is none in which responses are rated."""
    found = await container.ratings.rounds.find(request.state.project, round_id)
    if found.of_pairs:
        raise no_round()
    return found


async def describe_progress(request: Request, container: Container, found: RatingRound) -> Round:
    """The round with its progress; raises NotFound where it was erased a moment ago."""
    progress = await container.ratings.rounds.progress(request.state.project, [found.id])
    if found.id not in progress:
        raise no_round()
    return present(found, progress[found.id], await container.ratings.rounds.shared(request.state.project, found))


def present(found: RatingRound, progress: RoundProgress, shared: SharedProgress | None = None) -> Round:
    """The round as the API has it."""
    return Round(
        id=found.id,
        batch=found.batch,
        options=RoundOptions.model_construct(**dict(found.options)),
        drawn=found.drawn,
        signals=[*found.signals],
        note=NO_SIGNAL if found.fell_back else None if found.is_sample else NO_SAMPLE,
        created_at=found.created_at,
        closed_at=found.closed_at,
        progress=progress,
        address=f"/rate/{found.id}",
        shared=shared,
    )


def answer_json(found: BaseModel, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(found.model_dump_json(), status, media_type=JSON)
