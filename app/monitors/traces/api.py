"""`/v1/traces` and `/v1/logs`: OTLP over HTTP, and the conversations that were put together from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from saiten.core.messages import Message
from saiten_server.core.conversation import Role
from saiten_server.core.errors import NotFound
from saiten_server.monitors.traces.limits import BodyDamaged, BodyTooLarge, Signal
from saiten_server.monitors.traces.service import IntakeOutcome, TraceIntake
from saiten_server.monitors.traces.values import LiveConversation, State
from saiten_server.platform.web.body import JSON, receive, unsupported
from saiten_server.platform.web.dependencies import (
    Serving,
    Whole,
    cut_page,
    note,
    read_cursor,
    refuse_other_queries,
    tell_page,
)
from saiten_server.platform.web.openapi import PROBLEMS
from saiten_server.platform.web.otlp import PROTOBUF, media_type_of
from saiten_server.platform.web.problems import RequestRefused, language_of


def describe_body(name: str) -> dict[str, Any]:
    """The OpenAPI document's part on a body with this list. An empty body is protobuf of nothing."""
    content = {
        PROTOBUF: {"schema": {"type": "string", "format": "binary"}, "example": ""},
        JSON: {"schema": {"type": "object"}, "example": {name: []}},
    }
    description = "what an exporter of OpenTelemetry sends, also with `Content-Encoding: gzip`"
    return {"requestBody": {"required": True, "description": description, "content": content}}


OTLP_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Everything is stored, except what `partialSuccess` names; in the encoding of the request",
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "description": "`ExportTraceServiceResponse` or `ExportLogsServiceResponse`",
                    "properties": {
                        "partialSuccess": {
                            "type": "object",
                            "description": "what was rejected, and why; sending it again does not help",
                        }
                    },
                }
            },
            PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}

STATUS = {
    "type": "object",
    "description": "`google.rpc.Status`",
    "properties": {
        "code": {"type": "integer", "description": "gRPC's code"},
        "message": {"type": "string", "description": "the code of a problem, and what is wrong"},
    },
}
OTLP_PROBLEMS = {
    status: {
        **described,
        "content": {JSON: {"schema": STATUS}, PROTOBUF: {"schema": {"type": "string", "format": "binary"}}},
    }
    for status, described in PROBLEMS.items()
}
"""Whatever is wrong is answered as OTLP says, in the request's encoding."""

MOST_LISTED = 200


class TraceConvention(BaseModel):
    """Spans that no convention reads."""

    library: str = Field(description="the instrumentation library and its version")
    attributes: tuple[str, ...] = Field(description="names of attributes that may hold what was said; never values")
    spans: int = Field(description="how many came")
    last_at: datetime = Field(description="when the last one came")


class TraceReport(BaseModel):
    """What the project's bots sent, and what became of it."""

    conversations: dict[State, int] = Field(description="how many there are now, by state")
    counts: dict[str, int] = Field(
        description="spans that were read (`spans`), and what was left out: `tool-calls`, spans that stem from no call"
        " of a model (`other`), steps `around` calls, calls `without-content`, and `rejected-…`"
    )
    unread: list[TraceConvention] = Field(description="conventions that are not known, the most frequent first")


class TracedTurn(BaseModel):
    """One turn of a live conversation."""

    speaker: str = Field(description="`user` or `assistant`")
    role: Role = Field(description="`system` for the bot")
    text: str = Field(description="verbatim")
    at: datetime = Field(description="by the sender's clock; when it arrived, where that is not to be believed")
    trace_id: str = Field(description="of the span that tells it")
    span_id: str = Field(description="of the span that tells it")
    system: str | None = Field(description="`service.name`")
    build: str | None = Field(description="`service.version`")
    latency_seconds: float | None = Field(description="how long the answer took")


class TracedHead(BaseModel):
    """A live conversation without its turns."""

    id: str = Field(description="begins with `lc_`")
    name: str = Field(description="the id that its spans name; that of the trace where they name none")
    state: State = Field(
        description="`open` while it goes on, `closed` when it ended, `done` when monitors have seen it"
    )
    first_at: datetime = Field(description="when its first span arrived")
    last_at: datetime = Field(description="when its last span arrived")
    closed_at: datetime | None = Field(description="when it ended")
    attributes: dict[str, str] = Field(description="those that monitors name")
    late_spans: int = Field(description="spans that came too late to be part of it")
    refused_spans: int = Field(description="spans beyond what a conversation may hold")


class TracedConversation(TracedHead):
    """A live conversation as its spans tell it, each turn once."""

    turns: list[TracedTurn] = Field(description="in the order of time")
    system: str | None = Field(description="`service.name` of most of the bot's turns")
    build: str | None = Field(description="`service.version` of most of the bot's turns")
    errors: int = Field(description="calls that failed")
    tool_calls: int = Field(description="calls of tools, which are no turns")
    repeats: int = Field(description="answers that another span repeats or replaces")


class TracedConversations(BaseModel):
    """Live conversations, the newest first."""

    items: list[TracedHead] = Field(description="the newest first")
    next: str | None = Field(description="`cursor` of the next page; null on the last")


router = APIRouter(tags=["traces"])


@router.post(
    "/v1/traces",
    summary="Send spans",
    responses={**OTLP_ANSWER, **OTLP_PROBLEMS},
    openapi_extra=describe_body("resourceSpans"),
)
async def receive_traces(request: Request, container: Serving) -> Response:
    """Takes spans as OTLP over HTTP, in protobuf or JSON. A 200 means that they are stored; a span that is sent again
    is stored once. Only what was said is kept, and what puts it in order: no raw spans, no other attributes.

    Any key but a read-only one may send; a key with the scope `ingest` may do nothing else.
    """
    return await take(request, container, "traces")


@router.post(
    "/v1/logs",
    summary="Send log events",
    responses={**OTLP_ANSWER, **OTLP_PROBLEMS},
    openapi_extra=describe_body("resourceLogs"),
)
async def receive_logs(request: Request, container: Serving) -> Response:
    """Takes log records as OTLP over HTTP: the events in which some instrumentations send what was said. Others are
    left out."""
    return await take(request, container, "logs")


async def take(request: Request, container: Serving, signal: Signal) -> Response:
    """Stores the spans, and answers as OTLP says, in the request's encoding."""
    intake = container.find(TraceIntake)
    is_json = read_media_type(request.headers) == JSON
    is_packed = read_encoding(request.headers) == "gzip"
    body = await receive(request, intake.limits.packed_bytes, request.app.state.body_timeout_seconds)
    try:
        outcome = await intake.take(request.state.project, body, signal, is_json=is_json, is_packed=is_packed)
    except BodyTooLarge as error:
        raise RequestRefused(413, "body-too-large", error.message) from None
    except BodyDamaged as error:
        raise RequestRefused(400, "invalid-body", error.message) from None
    rejected = {str(why): count for why, count in outcome.rejected.items()}
    container.telemetry.traced(len(body), outcome.stored, rejected, outcome.unread)
    return answer_outcome(outcome, signal, language_of(request), is_json=is_json)


def read_media_type(headers: Mapping[str, str]) -> str:
    """The media type of the body. Raises RequestRefused (415)."""
    found = media_type_of(headers)
    if found not in (JSON, PROTOBUF):
        raise unsupported(Message("media-type-wrong", types=f"{PROTOBUF} or {JSON}"))
    return found


def read_encoding(headers: Mapping[str, str]) -> Literal["gzip", "identity"]:
    """How the body is packed. Raises RequestRefused (415)."""
    found = headers.get("content-encoding", "identity").strip().lower()
    if found == "gzip":
        return "gzip"
    if found not in ("identity", ""):
        raise unsupported(Message("traces-encoding"))
    return "identity"


def answer_outcome(outcome: IntakeOutcome, signal: Signal, language: str, *, is_json: bool) -> Response:
    """What OTLP answers, with what was rejected."""
    rejected = {why: count for why, count in outcome.rejected.items() if count}
    total = sum(rejected.values())
    reasons = "; ".join(Message(f"traces-{why}", count=count).say(language) for why, count in sorted(rejected.items()))
    if is_json:
        name = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
        # Numbers of 64 bits are texts in OTLP's JSON.
        body = {"partialSuccess": {name: str(total), "errorMessage": reasons}} if total else {}
        return Response(json.dumps(body, ensure_ascii=False), media_type=JSON)
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    answer = ExportTraceServiceResponse() if signal == "traces" else ExportLogsServiceResponse()
    if total:
        name = "rejected_spans" if signal == "traces" else "rejected_log_records"
        setattr(answer.partial_success, name, total)
        answer.partial_success.error_message = reasons
    return Response(answer.SerializeToString(), media_type=PROTOBUF)


@router.get("/v1/traces", summary="Read what became of spans", responses={200: {"model": TraceReport}, **PROBLEMS})
async def read_traces(request: Request, container: Serving) -> TraceReport:
    """How many conversations there are, what was left out of them, and which conventions are not known. Please report
    those: names of attributes are all that is needed."""
    refuse_other_queries(request)
    states, counts, unread = await container.find(TraceIntake).store.count(request.state.project)
    return TraceReport(
        conversations=dict(states),
        counts=dict(counts),
        unread=[
            TraceConvention(library=one.scope, attributes=one.attributes, spans=one.spans, last_at=one.last_at)
            for one in unread
        ],
    )


conversations = APIRouter(prefix="/v1/traces/conversations", tags=["traces"])


@conversations.get("", summary="List live conversations", responses={200: {"model": TracedConversations}, **PROBLEMS})
async def list_live_conversations(
    request: Request,
    container: Serving,
    *,
    state: Annotated[State | None, Query(description="only those in this state")] = None,
    cursor: Annotated[str | None, Query(description="`next` of the page before")] = None,
    limit: Annotated[Whole, Query(ge=1, le=MOST_LISTED)] = 50,
) -> Response:
    """Newest first. `next` and the `Link` header lead to the next page."""
    refuse_other_queries(request, "state", "cursor", "limit")
    store = container.find(TraceIntake).store
    found = await store.list(request.state.project, state=state, before=read_cursor(cursor), limit=limit + 1)
    shown, following = cut_page(found, limit, lambda one: (one.first_at, one.id))
    page = TracedConversations(items=[TracedHead(**tell_head(one)) for one in shown], next=following)
    return tell_page(request, page, following)


@conversations.get(
    "/{live_conversation_id}",
    summary="Read a live conversation",
    responses={200: {"model": TracedConversation}, **PROBLEMS},
)
async def read_live_conversation(request: Request, container: Serving, live_conversation_id: str) -> TracedConversation:
    """The conversation as its spans tell it so far."""
    refuse_other_queries(request)
    found = await container.find(TraceIntake).store.find(request.state.project, live_conversation_id)
    if found is None:
        raise NotFound(Message("live-conversation-not-found", id=live_conversation_id[:64]))
    turns = [TracedTurn.model_validate(turn, from_attributes=True) for turn in found.turns]
    counts = {"errors": found.errors, "tool_calls": found.tool_calls, "repeats": found.repeats}
    return TracedConversation(**tell_head(found), turns=turns, system=found.system, build=found.build, **counts)


@conversations.delete(
    "/{live_conversation_id}", status_code=204, summary="Erase a live conversation", responses=PROBLEMS
)
async def erase_live_conversation(request: Request, container: Serving, live_conversation_id: str) -> Response:
    """Removes the conversation with its spans and texts. What monitors made of it is theirs to remove."""
    refuse_other_queries(request)
    if not await container.find(TraceIntake).store.erase(request.state.project, live_conversation_id):
        raise NotFound(Message("live-conversation-not-found", id=live_conversation_id[:64]))
    await note(request, container, "live-conversation.erased", live_conversation_id)
    return Response(status_code=204)


def tell_head(one: LiveConversation) -> dict[str, object]:
    """The fields of a conversation without its turns."""
    names = ("id", "name", "state", "first_at", "last_at", "closed_at", "late_spans")
    told = {name: getattr(one, name) for name in names}
    return {**told, "attributes": dict(one.attributes), "refused_spans": one.refused_spans}
