"""`/v1/conversations`: rate a whole conversation, and read the result again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from saiten.core.messages import Message
from saiten.core.plain_text import is_korean
from saiten_server.core.errors import NotFound, RubricRequired
from saiten_server.core.evaluation import ConversationRequest, Evaluation, add_badge
from saiten_server.governance.policies import settle_for
from saiten_server.platform.web.answers import tell_stored
from saiten_server.platform.web.body import JSON, body_of, while_connected
from saiten_server.platform.web.dependencies import Serving, refuse_other_queries
from saiten_server.platform.web.openapi import PROBLEMS, form, reads
from saiten_server.scoring.admission import admit
from saiten_server.scoring.api.evaluations import Include, write_evaluation
from saiten_server.scoring.conversation import evaluate_conversation
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_place, require_price

router = APIRouter(prefix="/v1/conversations", tags=["conversations"])

EXAMPLE = {
    "rubric": "ja-conversation",
    "turns": [
        {"speaker": "客", "role": "user", "text": "予約を金曜に変えられますか。"},
        {"speaker": "受付", "role": "system", "text": "はい、金曜の十時に空きがございます。"},
    ],
    "persona": {"name": "受付", "style": "丁寧な敬語"},
    "goal": "予約を金曜に変える。",
    "metadata": {"system": "bot-a"},
}


class ReadConversation(Evaluation):
    """The result of a conversation with the extra fields that `include` selects."""

    request: ConversationRequest | None = None


@router.post(
    "",
    summary="Rate one conversation",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    openapi_extra=reads({JSON: form(ConversationRequest, EXAMPLE)}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def create_conversation(
    request: Request, container: Serving, body: Annotated[ConversationRequest, Depends(body_of(ConversationRequest))]
) -> Response:
    """Rates every aspect of the whole conversation, names the system turns that lower them, and stores the result."""
    if "rubric" not in body.model_fields_set and is_korean(turn.text for turn in body.turns):
        raise RubricRequired(["/rubric"], default="ja-conversation", other="ko-conversation", comments=None)

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, body.rubric, body.judge)
            asked = await settle_for(request.state.project, body, container.governance.policies)
            context = container.scoring.context
            await admit([asked], context, scope)
            record, turns = await while_connected(request, evaluate_conversation(asked, context, scope))
        project: str = request.state.project
        # In one transaction, so that nothing is stored half.
        await container.scoring.evaluations.save_all(project, [*turns, (record, tuple(scope.keys))])
        badge = await container.ratings.reliabilities.badge_of(project, record.evaluation)
        return tell_stored(request, add_badge(record.evaluation.model_dump_json(), badge))

    return await once(request, container.scoring.evaluations, make)


@router.get(
    "/{conversation_id}",
    summary="Read the result of a conversation again",
    responses={200: {"model": ReadConversation}, **PROBLEMS},
)
async def read_conversation(
    request: Request, container: Serving, conversation_id: str, include: Annotated[list[Include] | None, Query()] = None
) -> Response:
    """The stored result; `include=trace` adds the judge's raw replies, `include=request` the conversation."""
    refuse_other_queries(request, "include", repeated="include")
    project: str = request.state.project
    record = await container.scoring.evaluations.find(project, conversation_id)
    if record is None or not isinstance(record.request, ConversationRequest):
        raise NotFound(Message("conversation-not-found"))
    return await write_evaluation(request, container, record, include)
