"""OTLP in protobuf: a body is walked down to its spans, and each is decoded by itself.

One that is too large or damaged is rejected alone, and never more than one is in memory as protobuf: two bytes of it
may become a hundred. This module loads protobuf, so it is imported where a body is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from saiten.core.formats.spans import SpanEvent
from saiten.core.messages import Message
from saiten_server.monitors.traces.limits import BodyDamaged, BodyTooLarge, Signal, WireLimits
from saiten_server.monitors.traces.wire import (
    MOST_SPAN_NAME,
    Decoded,
    Rejected,
    WireSpan,
    check_ids,
    make_log,
    refuse_attributes,
    take,
)

INNER, VARINT, FIXED64, FIXED32 = 2, 0, 1, 5
"""Wire types of protobuf."""

MOST_DEPTH = 32
"""Of a structured value."""

STEPS_OF_A_SPAN = 8
"""Fields around spans that are walked for each span that a body may hold."""


def decode_protobuf(body: bytes, signal: Signal, limits: WireLimits) -> Decoded:
    """The spans of a body of protobuf."""
    found = Decoded()
    steps = Steps(STEPS_OF_A_SPAN * limits.spans, Message("traces-spans-most", most=limits.spans))
    values = Steps(limits.marks, Message("traces-marks-most", most=limits.marks))
    read = read_span if signal == "traces" else read_log
    for seen, (resource, scope, place) in enumerate(walk(memoryview(body), limits, steps, values)):
        if seen >= limits.spans:
            raise BodyTooLarge(Message("traces-spans-most", most=limits.spans))
        if len(place) > limits.span_bytes:
            found.rejected["span-too-large"] += 1
            continue
        take(found, lambda p=place, r=resource, s=scope: read(bytes(p), r, s, limits, values))  # type: ignore[misc]
    return found


@dataclass
class Steps:
    """How many more fields of a body are walked, or values read, and what is said beyond."""

    left: int
    message: Message

    def take(self) -> None:
        """Counts one; raises BodyTooLarge where there are too many."""
        self.left -= 1
        if self.left < 0:
            raise BodyTooLarge(self.message)


def walk(
    body: memoryview, limits: WireLimits, steps: Steps, values: Steps
) -> Iterator[tuple[dict[str, Any], str, memoryview]]:
    """Each span's bytes with its resource's attributes and its scope's name. Raises BodyDamaged and BodyTooLarge."""
    for number, outer in read_fields(body, steps):
        if number != 1:
            continue
        inner = list(read_fields(outer, steps))
        try:
            resource = parse_field(
                Resource, next((part for field_number, part in inner if field_number == 1), None), limits
            )
            refuse_attributes(len(resource.attributes), limits)
            about = read_key_values(resource.attributes, values)
        except Rejected:
            raise BodyDamaged(Message("traces-protobuf-damaged")) from None
        for scoped in (part for field_number, part in inner if field_number == 2):
            yield from walk_scope(scoped, about, limits, steps)


def walk_scope(
    scoped: memoryview, resource: dict[str, Any], limits: WireLimits, steps: Steps
) -> Iterator[tuple[dict[str, Any], str, memoryview]]:
    """The spans of a scope, which the format writes before them."""
    name = ""
    for number, part in read_fields(scoped, steps):
        if number == 1:
            scope = parse_field(InstrumentationScope, part, limits)
            name = f"{scope.name} {scope.version}".strip()[:MOST_SPAN_NAME]
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


def parse_field(kind: Any, part: memoryview | None, limits: WireLimits) -> Any:
    """A message of protobuf; an empty one where there is none. Raises BodyDamaged, and where it is larger than a span
    may be."""
    if len(part or b"") > limits.span_bytes:
        raise BodyDamaged(Message("traces-protobuf-damaged"))
    try:
        return kind.FromString(bytes(part or b""))
    except DecodeError:
        raise BodyDamaged(Message("traces-protobuf-damaged")) from None


def parse_part(kind: Any, body: bytes) -> Any:
    """A span or a log record. Raises Rejected."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise Rejected("span-damaged") from None


def read_span(body: bytes, resource: Mapping[str, Any], scope: str, limits: WireLimits, values: Steps) -> WireSpan:
    """A span of protobuf. Raises Rejected."""
    span = parse_part(Span, body)
    refuse_attributes(len(span.attributes) + sum(len(event.attributes) for event in span.events), limits)
    return WireSpan(
        *check_ids(span.trace_id.hex(), span.span_id.hex()),
        span.parent_span_id.hex(),
        "",
        span.name[:MOST_SPAN_NAME],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == Status.STATUS_CODE_ERROR,
        read_key_values(span.attributes, values),
        [SpanEvent(event.name, read_key_values(event.attributes, values)) for event in span.events],
        resource,
        scope,
    )


def read_log(body: bytes, resource: Mapping[str, Any], scope: str, limits: WireLimits, values: Steps) -> WireSpan:
    """A log record of protobuf. Raises Rejected."""
    log = parse_part(LogRecord, body)
    refuse_attributes(len(log.attributes), limits)
    at = log.time_unix_nano or log.observed_time_unix_nano
    said = {
        **read_key_values(log.attributes, values),
        **({"body": read_value(log.body, values)} if log.HasField("body") else {}),
    }
    name = log.event_name or str(said.get("event.name", ""))
    return make_log((log.trace_id.hex(), log.span_id.hex()), name, at, said, resource=resource, scope=scope)


def read_key_values(pairs: Sequence[KeyValue], values: Steps) -> dict[str, Any]:
    """Attributes by name. Raises Rejected and BodyTooLarge."""
    return {pair.key: read_value(pair.value, values) for pair in pairs}


def read_value(value: AnyValue, values: Steps, depth: int = 0) -> Any:
    """A typed value; None for bytes. Raises Rejected for one that is nested too deeply, and BodyTooLarge."""
    values.take()
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind is None or kind == "bytes_value":
        return None
    if depth > MOST_DEPTH:
        raise Rejected("span-damaged")
    if kind == "array_value":
        return [read_value(one, values, depth + 1) for one in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: read_value(pair.value, values, depth + 1) for pair in value.kvlist_value.values}
    return getattr(value, kind)
