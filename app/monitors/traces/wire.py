"""OTLP over HTTP: bodies of spans and of log records, unpacked and decoded within limits.

A body of protobuf is walked down to its spans, and each is decoded by itself: one that is too large or damaged is
rejected alone, and never more than one is in memory as protobuf. Shapes: opentelemetry-proto 1.x,
`ExportTraceServiceRequest` and `ExportLogsServiceRequest`, which nest alike.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from saiten.core.formats.records import list_objects
from saiten.core.formats.spans import SpanEvent, read_attributes
from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.errors import InvalidRequest

Signal = Literal["traces", "logs"]

SCOPED = {"traces": ("resourceSpans", "scopeSpans", "spans"), "logs": ("resourceLogs", "scopeLogs", "logRecords")}
"""The fields of JSON that nest."""

INNER, VARINT, FIXED64, FIXED32 = 2, 0, 1, 5
"""Wire types of protobuf."""

TRACE_ID, SPAN_ID = re.compile(r"(?!0+$)[0-9a-f]{32}"), re.compile(r"(?!0+$)[0-9a-f]{16}")

MOST_DEPTH = 32
"""Of a structured value."""

MOST_NAME = 200
"""Characters of a name of a span or of a library."""

PIECE_BYTES = 1024 * 1024
"""Bytes that are unpacked at a time."""

MOST_MEMBERS = 64
"""Members of a gzip body: each costs, although it may hold nothing."""

STEPS_OF_A_SPAN = 4
"""Fields around spans that are walked for each span that a body may hold."""

ERROR = 2
"""The status code of a span that failed."""

Reason = Literal["span-too-large", "span-damaged", "span-ids", "span-attributes", "conversation-full"]
"""Why a span is rejected."""


class BodyTooLarge(InvalidRequest, code="body-too-large"):
    """The body is larger, unpacked, than the limit, or holds more than it."""


class BodyDamaged(InvalidRequest, code="invalid-body"):
    """The body is neither gzip, protobuf nor JSON of the shape that it should have."""


@dataclass(frozen=True)
class WireLimits:
    """What a body may hold: `packed_bytes` on the wire, `bytes` unpacked, `spans` (or log records), and of each span
    `span_bytes` and `attributes`. `marks` are the commas and brackets of a JSON body, a bound on its values."""

    packed_bytes: int = 16 * 1024 * 1024
    bytes: int = 64 * 1024 * 1024
    spans: int = 10_000
    span_bytes: int = 4 * 1024 * 1024
    attributes: int = 4_096
    marks: int = 1_000_000


DEFAULT_LIMITS = WireLimits()


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


def unpack(body: bytes, limits: WireLimits) -> bytes:
    """The content of a gzip body. No more is unpacked than may be. Raises BodyTooLarge and BodyDamaged."""
    unpacked, left, members = bytearray(), body, 0
    try:
        while left:
            members += 1
            if members > MOST_MEMBERS:
                raise BodyDamaged(Message("traces-gzip-damaged"))
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                piece = member.decompress(left, PIECE_BYTES)
                unpacked += piece
                if len(unpacked) > limits.bytes:
                    raise BodyTooLarge(Message("traces-bytes-most", most=limits.bytes))
                left = member.unconsumed_tail
                if not piece and not left and not member.eof:
                    raise BodyDamaged(Message("traces-gzip-damaged"))
            left = member.unused_data
    except zlib.error:
        raise BodyDamaged(Message("traces-gzip-damaged")) from None
    return bytes(unpacked)


def decode(body: bytes, signal: Signal, limits: WireLimits, *, is_json: bool) -> Decoded:
    """The spans of an unpacked body. Raises BodyTooLarge and BodyDamaged where no span of it can be trusted."""
    if len(body) > limits.bytes:
        raise BodyTooLarge(Message("traces-bytes-most", most=limits.bytes))
    return decode_json(body, signal, limits) if is_json else decode_protobuf(body, signal, limits)


def decode_protobuf(body: bytes, signal: Signal, limits: WireLimits) -> Decoded:
    """The spans of a body of protobuf."""
    found, steps = Decoded(), Steps(STEPS_OF_A_SPAN * limits.spans, limits.spans)
    read = read_span if signal == "traces" else read_log
    for seen, (resource, scope, place) in enumerate(walk(memoryview(body), steps)):
        if seen >= limits.spans:
            raise BodyTooLarge(Message("traces-spans-most", most=limits.spans))
        if len(place) > limits.span_bytes:
            found.rejected["span-too-large"] += 1
            continue
        take(found, lambda p=place, r=resource, s=scope: read(bytes(p), r, s, limits))  # type: ignore[misc]
    return found


def take(found: Decoded, read: Callable[[], WireSpan]) -> None:
    """Adds what is read, or counts why it is rejected."""
    try:
        found.spans.append(read())
    except Rejected as rejected:
        found.rejected[rejected.reason] += 1
    except (DecodeError, RecursionError, ValueError, TypeError):
        found.rejected["span-damaged"] += 1


@dataclass
class Steps:
    """How many more fields are walked."""

    left: int
    most: int

    def take(self) -> None:
        """Counts a field; raises BodyTooLarge where there are too many."""
        self.left -= 1
        if self.left < 0:
            raise BodyTooLarge(Message("traces-spans-most", most=self.most))


def walk(body: memoryview, steps: Steps) -> Iterator[tuple[dict[str, Any], str, memoryview]]:
    """Each span's bytes with its resource's attributes and its scope's name. Raises BodyDamaged and BodyTooLarge."""
    for number, outer in read_fields(body, steps):
        if number != 1:
            continue
        inner = list(read_fields(outer, steps))
        resource = parse(Resource, next((part for field_number, part in inner if field_number == 1), None))
        about = read_pairs(resource.attributes)
        for scoped in (part for field_number, part in inner if field_number == 2):
            yield from walk_scope(scoped, about, steps)


def walk_scope(
    scoped: memoryview, resource: dict[str, Any], steps: Steps
) -> Iterator[tuple[dict[str, Any], str, memoryview]]:
    """The spans of a scope, which the format writes before them."""
    name = ""
    for number, part in read_fields(scoped, steps):
        if number == 1:
            scope = parse(InstrumentationScope, part)
            name = f"{scope.name} {scope.version}".strip()[:MOST_NAME]
        elif number == 2:
            yield resource, name, part


def read_fields(body: memoryview, steps: Steps) -> Iterator[tuple[int, memoryview]]:
    """The length-delimited fields of a message of protobuf, by number. Raises BodyDamaged and BodyTooLarge."""
    at, end = 0, len(body)
    while at < end:
        steps.take()
        key, at = read_varint(body, at)
        kind = key & 7
        if kind == INNER:
            size, at = read_varint(body, at)
            if at + size > end:
                raise BodyDamaged(Message("traces-protobuf-damaged"))
            yield key >> 3, body[at : at + size]
            at += size
        elif kind == VARINT:
            _, at = read_varint(body, at)
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise BodyDamaged(Message("traces-protobuf-damaged"))
    if at != end:
        raise BodyDamaged(Message("traces-protobuf-damaged"))


def read_varint(body: memoryview, at: int) -> tuple[int, int]:
    """A number, and the place after it."""
    value = shift = 0
    while at < len(body) and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise BodyDamaged(Message("traces-protobuf-damaged"))


def parse(kind: Any, part: memoryview | None) -> Any:
    """A message of protobuf; an empty one where there is none. Raises BodyDamaged."""
    try:
        return kind.FromString(bytes(part or b""))
    except DecodeError:
        raise BodyDamaged(Message("traces-protobuf-damaged")) from None


def read_span(body: bytes, resource: Mapping[str, Any], scope: str, limits: WireLimits) -> WireSpan:
    """A span of protobuf. Raises Rejected and DecodeError."""
    span = Span.FromString(body)
    refuse_attributes(len(span.attributes) + sum(len(event.attributes) for event in span.events), limits)
    return WireSpan(
        *check_ids(span.trace_id.hex(), span.span_id.hex()),
        span.parent_span_id.hex(),
        "",
        span.name[:MOST_NAME],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == Status.STATUS_CODE_ERROR,
        read_pairs(span.attributes),
        [SpanEvent(event.name, read_pairs(event.attributes)) for event in span.events],
        resource,
        scope,
    )


def read_log(body: bytes, resource: Mapping[str, Any], scope: str, limits: WireLimits) -> WireSpan:
    """A log record of protobuf. Raises Rejected and DecodeError."""
    log = LogRecord.FromString(body)
    refuse_attributes(len(log.attributes), limits)
    at = log.time_unix_nano or log.observed_time_unix_nano
    said = {**read_pairs(log.attributes), **({"body": read_value(log.body)} if log.HasField("body") else {})}
    name = log.event_name or str(said.get("event.name", ""))
    return make_log((log.trace_id.hex(), log.span_id.hex()), name, at, said, resource=resource, scope=scope)


def make_log(
    ids: tuple[str, str], name: str, at: int, said: dict[str, Any], *, resource: Mapping[str, Any], scope: str
) -> WireSpan:
    """A log record as a part of its span. Those with the same content are one."""
    text = json.dumps([name, at, said], sort_keys=True, default=str)
    part = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    event = SpanEvent(name[:MOST_NAME], said)
    return WireSpan(*check_ids(*ids), "", part, name[:MOST_NAME], at, at, False, said, [event], resource, scope)


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


def read_pairs(pairs: Sequence[KeyValue]) -> dict[str, Any]:
    """Attributes by name."""
    return {pair.key: read_value(pair.value) for pair in pairs}


def read_value(value: AnyValue, depth: int = 0) -> Any:
    """A typed value; None for bytes. Raises Rejected for one that is nested too deeply."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind is None or kind == "bytes_value":
        return None
    if depth > MOST_DEPTH:
        raise Rejected("span-damaged")
    if kind == "array_value":
        return [read_value(one, depth + 1) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: read_value(pair.value, depth + 1) for pair in value.kvlist_value.values}
    return getattr(value, kind)


def decode_json(body: bytes, signal: Signal, limits: WireLimits) -> Decoded:
    """The spans of a body of JSON."""
    if body.count(b",") + body.count(b"{") + body.count(b"[") > limits.marks:
        raise BodyTooLarge(Message("traces-marks-most", most=limits.marks))
    try:
        document = parse_strict_json(body)
    except StrictJSONError as error:
        raise BodyDamaged(error.message) from None
    outer, middle, inner = SCOPED[signal]
    if not isinstance(document, dict) or not isinstance(document.get(outer, []), list):
        raise BodyDamaged(Message("traces-json-shape", name=outer))
    found, seen = Decoded(), 0
    read = read_json_span if signal == "traces" else read_json_log
    for of_resource in list_objects(document.get(outer)):
        resource = read_attributes(as_object(of_resource.get("resource")).get("attributes"))
        for scoped in list_objects(of_resource.get(middle)):
            scope = as_object(scoped.get("scope"))
            name = f"{scope.get('name', '')} {scope.get('version', '')}".strip()[:MOST_NAME]
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
        str(span.get("name", ""))[:MOST_NAME],
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
