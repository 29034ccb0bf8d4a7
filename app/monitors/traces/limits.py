"""What a body of spans may hold, and how it is unpacked within that."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

from saiten.core.messages import Message

Signal = Literal["traces", "logs"]

Reason = Literal["span-too-large", "span-damaged", "span-ids", "span-attributes", "conversation-full"]
"""Why a span is rejected."""


UNPACKED_BYTES = 1024 * 1024
"""Bytes that are unpacked at a time."""

MOST_MEMBERS = 64
"""Members of a gzip body: each costs, although it may hold nothing."""


class BodyTooLarge(Exception):
    """The body is larger, unpacked, than the limit, or holds more than it; `message` says so."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class BodyDamaged(Exception):
    """The body is neither gzip, protobuf nor JSON of the shape that it should have; `message` says so."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class WireLimits:
    """What a body may hold: `packed_bytes` on the wire, `bytes` unpacked, `spans` (or log records), and of each span
    `span_bytes` and `attributes`. `marks` bounds the values of a body; in JSON its commas and brackets are counted.
    `span_bytes` and `attributes` hold for a resource and a scope, too."""

    packed_bytes: int = 16 * 1024 * 1024
    bytes: int = 64 * 1024 * 1024
    spans: int = 10_000
    span_bytes: int = 4 * 1024 * 1024
    attributes: int = 4_096
    marks: int = 1_000_000


DEFAULT_LIMITS = WireLimits()


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
                piece = member.decompress(left, UNPACKED_BYTES)
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
