"""OTLP over HTTP: bodies of spans and of log records, unpacked and decoded within limits.

Shapes: opentelemetry-proto 1.x, `ExportTraceServiceRequest` and `ExportLogsServiceRequest`, which nest alike.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saiten.core.formats.records import list_objects
from saiten.core.formats.spans import SpanEvent, read_attributes
from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.monitors.traces.limits import BodyDamaged, BodyTooLarge, Reason, Signal, WireLimits

SCOPED = {"traces": ("resourceSpans", "scopeSpans", "spans"), "logs": ("resourceLogs", "scopeLogs", "logRecords")}
"""The fields of JSON that nest."""

TRACE_ID, SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{32}"), re.compile(r"(?!0+$)[0-9a-f]{16}")

MOST_SPAN_NAME = 200
"""Characters of a name of a span or of a library."""

ERROR = 2
"""The status code of a span that failed."""


@dataclass(frozen=True, slots=True)
class WireSpan:
    """A span, or a log record on one; then `part` is not empty, and tells it from others of the span. Ids are in
    hexadecimal digits, times in nanoseconds since 1970 by the sender's clock (0 where it tells none)."""

    trace: str
    span: str
    parent: str
    part: str
    name: str
    start: int
    end: int
    failed: bool
    attributes: Mapping[str, Any]
    events: Sequence[SpanEvent]
    resource: Mapping[str, Any]
    scope: str


@dataclass
class Decoded:
    """The spans of a body, and how many were rejected for what reason."""

    spans: list[WireSpan] = field(default_factory=list)
    rejected: Counter[Reason] = field(default_factory=Counter)


class Rejected(Exception):
    """A span cannot be taken; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


def decode_signal(body: bytes, signal: Signal, limits: WireLimits, *, is_json: bool) -> Decoded:
    """The spans of an unpacked body. Raises BodyTooLarge and BodyDamaged where no span of it can be trusted."""
    if len(body) > limits.bytes:
        raise BodyTooLarge(Message("traces-bytes-most", most=limits.bytes))
    if is_json:
        return decode_json(body, signal, limits)
    from saiten_server.monitors.traces.protobuf import decode_protobuf  # which loads protobuf

    return decode_protobuf(body, signal, limits)


def take(found: Decoded, read: Callable[[], WireSpan]) -> None:
    """Adds what is read, or counts why it is rejected."""
    try:
        found.spans.append(read())
    except Rejected as rejected:
        found.rejected[rejected.reason] += 1
    except (RecursionError, ValueError, TypeError, OverflowError):
        found.rejected["span-damaged"] += 1


def make_log(
    ids: tuple[str, str], name: str, at: int, said: dict[str, Any], *, resource: Mapping[str, Any], scope: str
) -> WireSpan:
    """A log record as a part of its span. Those with the same content are one."""
    text = json.dumps([name, at, said], sort_keys=True, default=str)
    part = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    event = SpanEvent(name[:MOST_SPAN_NAME], said)
    return WireSpan(*check_ids(*ids), "", part, name[:MOST_SPAN_NAME], at, at, False, said, [event], resource, scope)


def check_ids(trace: str, span: str) -> tuple[str, str]:
    """The ids; raises Rejected for others than OpenTelemetry's."""
    trace, span = trace.lower(), span.lower()
    if not TRACE_ID.fullmatch(trace) or not SPAN_ID.fullmatch(span):
        raise Rejected("span-ids")
    return trace, span


def refuse_attributes(count: int, limits: WireLimits) -> None:
    """Raises Rejected for too many attributes."""
    if count > limits.attributes:
        raise Rejected("span-attributes")


def decode_json(body: bytes, signal: Signal, limits: WireLimits) -> Decoded:
    """The spans of a body of JSON."""
    if body.count(b",") + body.count(b"{") + body.count(b"[") > limits.marks:
        raise BodyTooLarge(Message("traces-marks-most", most=limits.marks))
    try:
        document = parse_strict_json(body)
    except StrictJSONError as error:
        raise BodyDamaged(error.message) from None
    outer, middle, inner = SCOPED[signal]
    # An empty object is an empty request. One of other fields alone is for another address, or is spelled otherwise.
    if not isinstance(document, dict) or not isinstance(document.get(outer, None if document else []), list):
        raise BodyDamaged(Message("traces-json-shape", name=outer))
    found, seen = Decoded(), 0
    read = read_json_span if signal == "traces" else read_json_log
    for of_resource in list_objects(document.get(outer)):
        resource = read_attributes(as_object(of_resource.get("resource")).get("attributes"))
        for scoped in list_objects(of_resource.get(middle)):
            scope = as_object(scoped.get("scope"))
            name = f"{scope.get('name', '')} {scope.get('version', '')}".strip()[:MOST_SPAN_NAME]
            for one in list_objects(scoped.get(inner)):
                seen += 1
                if seen > limits.spans:
                    raise BodyTooLarge(Message("traces-spans-most", most=limits.spans))
                take(found, lambda o=one, r=resource, n=name: read(o, r, n, limits))  # type: ignore[misc]
    return found


def as_object(value: Any) -> Mapping[str, Any]:
    """The value where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def read_json_span(span: Mapping[str, Any], resource: Mapping[str, Any], scope: str, limits: WireLimits) -> WireSpan:
    """A span of JSON. Raises Rejected and ValueError."""
    events = list_objects(span.get("events"))
    count = sum(len(part) for one in (span, *events) if isinstance(part := one.get("attributes"), list))
    refuse_attributes(count, limits)
    return WireSpan(
        *check_ids(str(span.get("traceId")), str(span.get("spanId"))),
        str(span.get("parentSpanId") or "").lower()[:16],
        "",
        str(span.get("name", ""))[:MOST_SPAN_NAME],
        read_nanoseconds(span.get("startTimeUnixNano")),
        read_nanoseconds(span.get("endTimeUnixNano")),
        as_object(span.get("status")).get("code") in (ERROR, "STATUS_CODE_ERROR"),
        read_attributes(span.get("attributes")),
        [SpanEvent(str(one.get("name", "")), read_attributes(one.get("attributes"))) for one in events],
        resource,
        scope,
    )


def read_json_log(log: Mapping[str, Any], resource: Mapping[str, Any], scope: str, limits: WireLimits) -> WireSpan:
    """A log record of JSON. Raises Rejected and ValueError."""
    attributes = log.get("attributes")
    refuse_attributes(len(attributes) if isinstance(attributes, list) else 0, limits)
    at = read_nanoseconds(log.get("timeUnixNano")) or read_nanoseconds(log.get("observedTimeUnixNano"))
    said = read_attributes(
        [*list_objects(attributes), *([{"key": "body", "value": log["body"]}] if "body" in log else [])]
    )
    name = str(log.get("eventName") or said.get("event.name", ""))
    return make_log((str(log.get("traceId")), str(log.get("spanId"))), name, at, said, resource=resource, scope=scope)


def read_nanoseconds(value: Any) -> int:
    """A time, which JSON writes as a number or a text; 0 for none. Raises ValueError."""
    number = int(value or 0)
    if not 0 <= number < 2**63:
        raise ValueError
    return number
