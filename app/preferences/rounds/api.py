"""`/v1/rounds`: which pairs of responses people compare. Raters compare them on the pages under `/rate`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from saiten_server.platform.web.body import JSON, body_of
from saiten_server.platform.web.dependencies import Serving, Whole, refuse_other_queries, tell_value
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.ratings.rounds.pairs import PairAgreement
from saiten_server.ratings.rounds.service import no_round
from saiten_server.ratings.values import PairItem, PairOptions, RatingRound, RoundProgress
from saiten_server.scoring.idempotency import once

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/v1/rounds", tags=["preferences"])

PAIR_ROUND_EXAMPLE = {"kind": "preference", "runs": ["ba_…", "ba_…"], "name": "nightly", "items": 100}
PAIR_ROUND_BODY = reads({JSON: form(PairOptions, PAIR_ROUND_EXAMPLE)}, repeatable=True)


class PreferenceRound(BaseModel):
    """A round of preferences as it is now."""

    id: str = Field(description="the round's id, `rr_…`")
    options: PairOptions = Field(description="as asked for")
    drawn: int = Field(description="pairs that were drawn, without those erased since")
    created_at: datetime
    closed_at: datetime | None = Field(description="null while pairs are handed out")
    progress: RoundProgress = Field(description="how far it is, in pairs")
    address: str = Field(description="path of the page on which people compare")


class PreferenceRounds(BaseModel):
    """Rounds of preferences, newest first."""

    items: list[PreferenceRound]


class PairItems(BaseModel):
    """What a round drew, in its order."""

    items: list[PairItem]


@router.post(
    "",
    status_code=201,
    summary="Open a round of preferences",
    responses={201: {"model": PreferenceRound}, **PROBLEMS},
    openapi_extra=PAIR_ROUND_BODY,
)
async def open_preference_round(
    request: Request, container: Serving, asked: Annotated[PairOptions, Depends(body_of(PairOptions))]
) -> Response:
    """Draws pairs of responses of the runs to the same item, for people to say which is better: of each two runs the
    same number, without pairs of equal texts. Raters see the two side by side and blind, in an order of their own.

    `GET /v1/preferences/human?round=` reads what they say.
    """

    async def make() -> Response:
        opened = await container.ratings.pairs.open(request.state.project, asked)
        return answer_json(await describe_round(request, container, opened), 201)

    return await once(request, container.scoring.evaluations, make)


@router.get("", summary="List rounds of preferences", responses={200: {"model": PreferenceRounds}, **PROBLEMS})
async def list_preference_rounds(
    request: Request, container: Serving, *, limit: Annotated[Whole, Query(ge=1, le=200)] = 50
) -> Response:
    """The newest rounds of the project."""
    refuse_other_queries(request, "limit")
    project = request.state.project
    found = await container.ratings.rounds.list(project, limit=limit, of_pairs=True)
    progress = await container.ratings.rounds.progress(project, [one.id for one in found])
    # One that was erased in between is left out.
    rounds = [present(one, progress[one.id]) for one in found if one.id in progress]
    return answer_json(PreferenceRounds(items=rounds))


@router.get(
    "/{preference_round_id}",
    summary="Look at a round of preferences",
    responses={200: {"model": PreferenceRound}, **PROBLEMS},
)
async def read_preference_round(request: Request, container: Serving, preference_round_id: str) -> Response:
    """Its options, and how far it is."""
    refuse_other_queries(request)
    found = await container.ratings.pairs.find(request.state.project, preference_round_id)
    return answer_json(await describe_round(request, container, found))


@router.get(
    "/{preference_round_id}/items",
    summary="Read the pairs of a round",
    responses={200: {"model": PairItems}, **PROBLEMS},
)
async def read_preference_round_items(request: Request, container: Serving, preference_round_id: str) -> Response:
    """Each pair with its name and the probability with which it was drawn, in the round's order."""
    refuse_other_queries(request)
    found = await container.ratings.pairs.items(request.state.project, preference_round_id)
    return answer_json(PairItems(items=[*found]))


@router.get(
    "/{preference_round_id}/agreement",
    summary="Read how far the raters of a round agree",
    responses={200: {"model": PairAgreement}, **PROBLEMS},
)
async def read_preference_round_agreement(request: Request, container: Serving, preference_round_id: str) -> Response:
    """Chance-corrected agreement over pairs with two raters or more, and whether raters follow the order in which
    responses stood. Excluded raters are left out."""
    refuse_other_queries(request)
    return tell_value(request, await container.ratings.pairs.agreement(request.state.project, preference_round_id))


@router.post(
    "/{preference_round_id}/close",
    summary="Close a round of preferences",
    responses={200: {"model": PreferenceRound}, **PROBLEMS},
)
async def close_preference_round(request: Request, container: Serving, preference_round_id: str) -> Response:
    """Hands nothing more out. What raters have in hand they may still compare; a closed round is unchanged."""
    await container.ratings.pairs.find(request.state.project, preference_round_id)
    closed = await container.ratings.rounds.close(request.state.project, preference_round_id)
    return answer_json(await describe_round(request, container, closed))


async def describe_round(request: Request, container: Container, found: RatingRound) -> PreferenceRound:
    """The round with its progress; raises NotFound where it was erased a moment ago."""
    progress = await container.ratings.rounds.progress(request.state.project, [found.id])
    if found.id not in progress:
        raise no_round()
    return present(found, progress[found.id])


def present(found: RatingRound, progress: RoundProgress) -> PreferenceRound:
    """The round as the API has it."""
    return PreferenceRound(
        id=found.id,
        options=PairOptions.model_construct(**dict(found.options)),
        drawn=found.drawn,
        created_at=found.created_at,
        closed_at=found.closed_at,
        progress=progress,
        address=f"/rate/{found.id}",
    )


def answer_json(found: BaseModel, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(found.model_dump_json(), status, media_type=JSON)
