"""Cuts NDJSON that arrives in pieces into lines."""

from __future__ import annotations

from collections.abc import Iterator

BLANK_BYTES = b" \t\r"


class LineTooLong(ValueError):
    """The line after the last complete one has more bytes than a line may have."""


class LineCutter:
    """Lines end with LF or CRLF; blank ones are skipped, and counted. `number` is that of the last complete line, from
    1. Memory: a line of `maximum` bytes, and what is fed at a time."""

    def __init__(self, maximum: int) -> None:
        self.number = 0
        self._maximum = maximum
        self._cut = bytearray()

    def feed(self, data: bytes, *, last: bool = False) -> Iterator[bytes]:
        """The lines that are complete with this piece; it is read only as far as they are taken. Raises LineTooLong."""
        first, *others = data.split(b"\n")
        self._keep(first)
        for piece in others:
            yield from self._end_line()
            self._keep(piece)
        if last:
            yield from self._end_line()

    def _keep(self, piece: bytes) -> None:
        self._cut += piece
        if len(self._cut) > self._maximum:
            raise LineTooLong

    def _end_line(self) -> Iterator[bytes]:
        line = bytes(self._cut)
        self._cut.clear()
        self.number += 1
        if line.strip(BLANK_BYTES):
            yield line
