"""`/v1/evaluations` and `/v1/conversations`: rate a response or a whole conversation, and read the results again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator
from starlette.responses import JSONResponse

from saiten.core.messages import Message, Misfit, value_as_json
from saiten.core.plain_text import is_korean
from saiten_server.core.errors import NotFound, RubricRequired
from saiten_server.core.evaluation import (
    CallTrace,
    ConversationRequest,
    Evaluation,
    EvaluationFilter,
    EvaluationRequest,
    EvaluationStatus,
    Record,
    add_badge,
    require_rubric,
)
from saiten_server.core.model import require_moment
from saiten_server.core.sentences import LANGUAGE, Sentence, Telling, translate
from saiten_server.governance.policies import settle_for
from saiten_server.platform.web.body import JSON, body_of, while_connected
from saiten_server.platform.web.dependencies import (
    METADATA,
    METADATA_FILTER,
    Serving,
    Whole,
    link_next,
    read_cursor,
    read_metadata_query,
    refuse_other_queries,
    tell_results,
    tell_stored,
    write_cursor,
)
from saiten_server.platform.web.openapi import EVALUATION_EXAMPLE, LINK, PROBLEMS, form, reads
from saiten_server.platform.web.problems import language_of
from saiten_server.scoring.admission import admit
from saiten_server.scoring.conversation import evaluate_conversation
from saiten_server.scoring.evaluate import evaluate
from saiten_server.scoring.idempotency import once
from saiten_server.scoring.limits import evaluating, require_place, require_price
from saiten_server.scoring.reasons import ask_reasons

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/v1/evaluations", tags=["evaluations"])

Include = Literal["trace", "request"]


def require_zone(moment: datetime) -> datetime:
    """Raises ValueError for a moment without a time zone, or at an end of the calendar, which has no other zones."""
    if moment.tzinfo is None:
        raise Misfit(Message("time-zone-needed"))
    if not FIRST_YEAR < moment.year < LAST_YEAR:
        raise Misfit(Message("must-be-date-and-time"))
    return moment


FIRST_YEAR, LAST_YEAR = 1, 9999
Moment = Annotated[datetime, BeforeValidator(require_moment), AfterValidator(require_zone)]


class Reread(Evaluation, Telling):
    """An evaluation with what is told of its texts."""

    texts_missing: Sentence | None = None


class ReadEvaluation(Reread):
    """An evaluation with the extra fields that `include` selects."""

    trace: list[CallTrace] | None = None
    request: EvaluationRequest | ConversationRequest | None = None


@router.post(
    "",
    summary="Score one response",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    openapi_extra=reads({JSON: form(EvaluationRequest, EVALUATION_EXAMPLE)}, repeatable=True),
    dependencies=[Depends(require_place)],
)
async def create_evaluation(
    request: Request, container: Serving, body: Annotated[EvaluationRequest, Depends(body_of(EvaluationRequest))]
) -> Response:
    """Rates every aspect of the rubric, blends in the relevance, signs the result and stores it."""
    require_rubric(body)

    async def make() -> Response:
        async with evaluating(request) as scope:
            require_price(request, body.rubric, body.judge)
            asked = await settle_for(request.state.project, body, container.governance.policies)
            context = container.scoring.context
            await admit([asked], context, scope)
            record = await while_connected(request, evaluate(asked, context, scope))
        project: str = request.state.project
        # Written once, for the store and for the answer.
        evaluation = record.evaluation.model_dump_json()
        await container.scoring.evaluations.save(project, record, tuple(scope.keys), evaluation=evaluation)
        badge = await container.ratings.reliabilities.badge_of(project, record.evaluation)
        return tell_stored(request, add_badge(evaluation, badge, language_of(request)))

    return await once(request, container.scoring.evaluations, make)


class EvaluationPage(BaseModel):
    """A page of evaluations, newest first; `next` is the cursor of the next page, null on the last."""

    items: list[Evaluation]
    next: str | None


@router.get(
    "",
    summary="List scores",
    responses={200: {"model": EvaluationPage, "headers": {"Link": LINK}}, **PROBLEMS},
    openapi_extra={"parameters": [METADATA_FILTER]},
)
async def list_evaluations(
    request: Request,
    container: Serving,
    *,
    rubric: str | None = None,
    status: EvaluationStatus | None = None,
    batch: Annotated[str | None, Query(description="results of this batch")] = None,
    dialogue: Annotated[str | None, Query(description="turns of the dialogue of this name")] = None,
    created_from: Annotated[Moment | None, Query(description="created then or later")] = None,
    created_before: Annotated[Moment | None, Query(description="created before")] = None,
    limit: Annotated[Whole, Query(ge=1, le=200)] = 50,
    cursor: str | None = None,
) -> Response:
    """The project's evaluations, newest first, results of batches among them. `metadata.KEY=VALUE`, such as
    `metadata.system=bot-a`, lists those whose metadata, or whose batch's, hold that entry.

    `next` and the `Link` header lead to the next page; new evaluations do not shift the pages. A page looks at a few
    thousand evaluations: with a rare filter it may be short, or empty, although `next` leads to another one.
    """
    known = (*EvaluationFilter.__dataclass_fields__, "limit", "cursor")
    refuse_other_queries(request, *(name for name in known if name != "metadata"), beginning=METADATA)
    wanted = EvaluationFilter(
        rubric=rubric,
        status=status,
        batch=batch,
        dialogue=dialogue,
        created_from=created_from,
        created_before=created_before,
        metadata=read_metadata_query(request),
    )
    project: str = request.state.project
    store = container.scoring.evaluations
    found, place = await store.list(project, wanted, after=read_cursor(cursor), limit=limit)
    marked = [await container.ratings.reliabilities.mark(project, one) for one in found]
    page = EvaluationPage.model_construct(items=marked, next=None if place is None else write_cursor(*place))
    headers = {} if page.next is None else link_next(request, cursor=page.next)
    answer = await asyncio.to_thread(tell_results, request, page)
    answer.headers.update(headers)
    return answer


@router.get("/{evaluation_id}", summary="Read a score again", responses={200: {"model": ReadEvaluation}, **PROBLEMS})
async def read_evaluation(
    request: Request, container: Serving, evaluation_id: str, include: Annotated[list[Include] | None, Query()] = None
) -> Response:
    """The stored result; `include=trace` adds the judge's raw replies, `include=request` the request."""
    refuse_other_queries(request, "include", repeated="include")
    project: str = request.state.project
    record = await container.scoring.evaluations.find(project, evaluation_id)
    if record is None:
        raise NotFound(Message("evaluation-not-found"))
    return await write_evaluation(request, container, record, include)


@router.post(
    "/{evaluation_id}/reasons",
    summary="Ask for the judge's reasons",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    dependencies=[Depends(require_place)],
)
async def explain_evaluation(
    request: Request,
    container: Serving,
    evaluation_id: str,
    budget_usd: Annotated[
        float | None, Query(ge=0, allow_inf_nan=False, description="the most that asking may cost")
    ] = None,
) -> Response:
    """Asks the judge again, this time for its reasons, where it gave none. What it says is in `explained` from then on,
    also in the batch's results; its ratings there may differ, and those of the evaluation stay. An evaluation with
    reasons is returned as it is, at no cost."""
    refuse_other_queries(request, "budget_usd")
    found = await while_connected(request, ask_reasons(request, container, evaluation_id, budget_usd=budget_usd))
    marked = await container.ratings.reliabilities.mark(request.state.project, found)
    return tell_results(request, marked)


async def write_evaluation(
    request: Request, container: Container, record: Record, include: Sequence[Include] | None
) -> Response:
    """A stored evaluation with its judge's badge and the extra fields that `include` selects."""
    more: dict[str, Any] = {}
    told: dict[str, Any] = {}
    if include and "trace" in include:
        more["trace"] = [call.model_dump(mode="json") for call in record.trace]
    if include and "request" in include:
        record, untold = await container.texts.fill_record(request.state.project, record)
        more["request"] = record.request.model_dump(mode="json")
        if untold is not None:
            told = {"texts_missing": str(untold), "messages": {"texts_missing": value_as_json(untold)}}
    evaluation = await container.ratings.reliabilities.mark(request.state.project, record.evaluation)
    if not more:
        return tell_results(request, evaluation)
    language = language_of(request)
    said = evaluation.model_dump(mode="json", context={LANGUAGE: language})
    return JSONResponse(translate(said | told, language) | more)


conversations = APIRouter(prefix="/v1/conversations", tags=["conversations"])

CONVERSATION = {
    "rubric": "ja-conversation",
    "turns": [
        {"speaker": "客", "role": "user", "text": "予約を金曜に変えられますか。"},
        {"speaker": "受付", "role": "system", "text": "はい、金曜の十時に空きがございます。"},
    ],
    "persona": {"name": "受付", "style": "丁寧な敬語"},
    "goal": "予約を金曜に変える。",
    "metadata": {"system": "bot-a"},
}


class ReadConversation(Reread):
    """The result of a conversation with the extra fields that `include` selects."""

    request: ConversationRequest | None = None


@conversations.post(
    "",
    summary="Rate one conversation",
    responses={200: {"model": Evaluation}, **PROBLEMS},
    openapi_extra=reads({JSON: form(ConversationRequest, CONVERSATION)}, repeatable=True),
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
        evaluation = record.evaluation.model_dump_json()
        return tell_stored(request, add_badge(evaluation, badge, language_of(request)))

    return await once(request, container.scoring.evaluations, make)


@conversations.get(
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
