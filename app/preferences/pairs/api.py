"""`/v1/preferences`: which of two responses, or of two conversations, is better."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from saiten.core.messages import Message
from saiten.core.plain_text import is_korean
from saiten_server.core.errors import NotFound, RubricRequired
from saiten_server.core.evaluation import (
    Evaluation,
    PreferenceRequest,
)
from saiten_server.governance.policies import settle_for
from saiten_server.platform.web.body import JSON, body_of, while_connected
from saiten_server.platform.web.dependencies import Serving, refuse_other_queries, tell_stored
from saiten_server.platform.web.openapi import EVALUATION_EXAMPLE, PROBLEMS, form, reads
from saiten_server.preferences.values import Preference
from saiten_server.scoring.admission import admit
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_place, require_price
from saiten_server.scoring.preferring import prefer

router = APIRouter(prefix="/v1/preferences", tags=["preferences"])


def tell_preference(found: Evaluation) -> Preference:
    """What a stored evaluation of two says. Raises NotFound for one of anything else."""
    if found.pair is None:
        raise NotFound(Message("preference-not-found"))
    own = Preference.model_fields.keys() - {"aspects", "first", "second"}
    same, pair = {name: getattr(found, name) for name in own}, found.pair
    return Preference(**same, aspects=pair.aspects, first=pair.first, second=pair.second)


PAIR_EXAMPLE = {
    "rubric": "ja-dialogue",
    "context": EVALUATION_EXAMPLE["context"],
    "first": {"response": EVALUATION_EXAMPLE["response"], "id": "bot-a"},
    "second": {"response": "そうですか。", "id": "bot-b"},
    "aspects": ["overall", "interestingness"],
    "orders": "both",
}


def settle_rubric(body: PreferenceRequest) -> PreferenceRequest:
    """The request with the rubric of its unit where it names none. Raises RubricRequired for Korean texts."""
    if "rubric" in body.model_fields_set:
        return body
    if is_korean(text for given in body.sides.values() for text in given.texts):
        if body.is_conversation:
            raise RubricRequired(["/rubric"], default="ja-conversation", other="ko-conversation", comments=None)
        raise RubricRequired(["/rubric"])
    return body.model_copy(update={"rubric": "ja-conversation"}) if body.is_conversation else body


@router.post(
    "",
    summary="Compare two",
    responses={200: {"model": Preference}, **PROBLEMS},
    openapi_extra=reads({JSON: form(PreferenceRequest, PAIR_EXAMPLE)}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def create_preference(
    request: Request, container: Serving, body: Annotated[PreferenceRequest, Depends(body_of(PreferenceRequest))]
) -> Response:
    """Asks the judge which of two responses to one context, or of two conversations, is better, in both orders.

    Equal answers make a preference, opposite ones a tie that is `position_dependent`; where an order has no verdict
    there is no preference. Which of the two an order shows first does not depend on which is named first here.
    """
    asked = settle_rubric(body)

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, asked.rubric, asked.judge)
            settled = await settle_for(request.state.project, asked, container.governance.policies)
            context = container.scoring.context
            await admit([settled], context, scope)
            record = await while_connected(request, prefer(settled, context, scope))
        await container.scoring.evaluations.save(request.state.project, record, tuple(scope.keys))
        return tell_stored(request, tell_preference(record.evaluation).model_dump_json())

    return await once(request, container.scoring.evaluations, make)


@router.get("/{preference_id}", summary="Read a comparison again", responses={200: {"model": Preference}, **PROBLEMS})
async def read_preference(request: Request, container: Serving, preference_id: str) -> Response:
    """The stored answer; of a preference run's results too."""
    refuse_other_queries(request)
    record = await container.scoring.evaluations.find(request.state.project, preference_id, pair=True)
    if record is None:
        raise NotFound(Message("preference-not-found"))
    return tell_stored(request, tell_preference(record.evaluation).model_dump_json())
