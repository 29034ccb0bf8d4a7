"""Spans of a small bot, as they arrive."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from saiten_server.monitors.traces.commits import Arrived
from saiten_server.monitors.traces.reading import SpanReader
from saiten_server.monitors.traces.service import KnownTexts
from saiten_server.monitors.traces.values import TraceRules
from saiten_server.monitors.traces.wire import WireSpan

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
SECOND = 10**9
BOT = {"service.name": "yoyaku-bot", "service.version": "1.4.0"}
RULES = TraceRules()
LINES = (
    "予約したいのですが。",
    "何名様でしょうか。",
    "二人です。",
    "お日にちはいつでしょうか。",
    "あしたの七時で。",
    "承知しました。",
)


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def span_id(number: int) -> str:
    return f"{number + 1:016x}"


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def chat(
    asked: Sequence[str],
    answer: str | None,
    *,
    number: int = 0,
    trace: int | None = None,
    at: float = 0,
    conversation: str = "",
    resource: Mapping[str, Any] = BOT,
    parent: str = "",
    **more: Any,
) -> WireSpan:
    """A call with its history: what a user and the bot said in turn, the user first."""
    roles = ("user", "assistant")
    messages = [message("system", "予約係です。"), *(message(roles[n % 2], text) for n, text in enumerate(asked))]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(messages),
        **({"gen_ai.output.messages": json.dumps([message("assistant", answer)])} if answer is not None else {}),
        **({"gen_ai.conversation.id": conversation} if conversation else {}),
        **more,
    }
    return make_span(attributes, number=number, trace=trace, at=at, parent=parent, resource=resource)


def make_span(
    attributes: Mapping[str, Any],
    *,
    number: int = 0,
    trace: int | None = None,
    at: float = 0,
    parent: str = "",
    resource: Mapping[str, Any] = BOT,
    name: str = "chat",
    failed: bool = False,
) -> WireSpan:
    start = int((NOON.timestamp() + at) * SECOND)
    return WireSpan(
        trace_id(number if trace is None else trace),
        span_id(number),
        parent,
        "",
        name,
        start,
        start + SECOND // 2,
        failed,
        attributes,
        [],
        resource,
        "test 1",
    )


def talk(turns: int, conversation: str, *, first: int = 0) -> list[WireSpan]:
    """A conversation of so many answers: each call sends all that was said before."""
    said = [f"{LINES[n % len(LINES)]}{n}" for n in range(2 * turns)]
    return [
        chat(said[: 2 * n + 1], said[2 * n + 1], number=first + n, at=10 * n, conversation=conversation)
        for n in range(turns)
    ]


def arrive(
    *spans: WireSpan, project: str = "team", at: float = 0, rules: TraceRules = RULES, known: KnownTexts | None = None
) -> Arrived:
    """What a body of these spans brings."""
    found = SpanReader(project, rules, known or KnownTexts(), lambda text, _: text).read(spans)
    now = NOON + timedelta(seconds=at)
    return Arrived(project, found.rows, now, rules, found.counts, found.unread, found.named)


def export(spans: Sequence[WireSpan]) -> ExportTraceServiceRequest:
    """The spans as an exporter sends them."""
    request = ExportTraceServiceRequest()
    for span in spans:
        of_resource = request.resource_spans.add()
        of_resource.resource.attributes.extend(pairs(span.resource))
        scoped = of_resource.scope_spans.add()
        scoped.scope.name = span.scope
        scoped.spans.append(
            Span(
                trace_id=bytes.fromhex(span.trace),
                span_id=bytes.fromhex(span.span),
                parent_span_id=bytes.fromhex(span.parent),
                name=span.name,
                start_time_unix_nano=span.start,
                end_time_unix_nano=span.end,
                attributes=pairs(span.attributes),
            )
        )
    return request


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=as_value(value)) for key, value in attributes.items()]


def as_value(value: Any) -> AnyValue:
    return AnyValue(bool_value=value) if isinstance(value, bool) else AnyValue(string_value=str(value))
