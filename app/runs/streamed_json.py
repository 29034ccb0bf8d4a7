"""Strict JSON as a stream: an object's members value by value, and one of its lists element by element, with no more in
memory than one value and the last data received. And NDJSON as a stream, cut into lines."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any, NamedTuple, TypeVar

from saiten.core.messages import Message
from saiten.core.strict_json import BYTE_ORDER_MARK, SAME_KEY, StrictJSONError, refuse_surrogates, strict_decoder

JSON_SPACE = re.compile(r"[ \t\n\r]*")
NUMBER_CHARACTERS = re.compile(r"[-+.0-9eE]+")

CUT_TOKEN = 12
"""An error this close to the end of the data may come from a token that is cut: `-Infinit`, `\\ud83`."""


class Member(NamedTuple):
    """A member of the object, other than the streamed list."""

    key: str
    value: Any


class Element(NamedTuple):
    """An element of the streamed list."""

    value: Any


class ValueTooLarge(Exception):
    """A single value is larger than it may be; `where` says which, and is empty for a key."""

    def __init__(self, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(where)
        self.where = where


class IsAList(Exception):
    """The document is a list where an object is wanted."""


T = TypeVar("T")
Reading = Generator[None, None, T]
"""Yields None whenever it needs more text, and returns the value read."""


class ReceivedText:
    """The part of a document that has been received but not read; a value may have at most `value_bytes`."""

    def __init__(self, value_bytes: int) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._scan = strict_decoder().raw_decode
        self._value_bytes = value_bytes
        self._text = ""
        self._position = 0
        self._lines = 0
        self._columns = 0
        self._bytes = 0
        self._began = False
        self._ended = False

    def add(self, data: bytes, *, last: bool = False) -> None:
        """Adds the next data; raises StrictJSONError if it is not UTF-8."""
        waiting = len(self._decode.getstate()[0])
        try:
            new = self._decode.decode(data, last)
        except UnicodeDecodeError as error:
            where = self._bytes - waiting + error.start
            raise StrictJSONError(Message("not-utf-8", place=where)) from None
        if new and not self._began:
            self._began = True
            if new[0] == "\ufeff":
                raise StrictJSONError(BYTE_ORDER_MARK)
        self._bytes += len(data)
        self._lines, self._columns = self._place(self._position)
        self._text = self._text[self._position :] + new
        self._position = 0
        self._ended = last

    def peek(self) -> Reading[str]:
        """The next character that is not white space; empty at the document's end."""
        while True:
            match = JSON_SPACE.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if self._ended:
                return ""
            yield

    def take(self, expected: str, what: str) -> Reading[str]:
        """Consumes one of the characters `expected`; raises StrictJSONError for any other."""
        found = yield from self.peek()
        if found == "" or found not in expected:
            raise self.error(f"Expecting {what}")
        self._position += 1
        return found

    def value(self, *where: str | int) -> Reading[Any]:
        """The value that begins after white space. Raises StrictJSONError, and TooLarge with its place `where`. One
        that is cut is read again only when twice as much of it has arrived, so the cost stays linear."""
        yield from self.peek()
        wanted = 1
        while True:
            while len(self._text) - self._position < wanted and not self._ended:
                yield
            found = self._attempt()
            if found is not None:
                value, end = found
                self._check_size(end, where)
                refuse_surrogates(value, self._text, self._position, end)
                self._position = end
                return value
            arrived = len(self._text) - self._position
            self._check_size(len(self._text), where)
            wanted = min(2 * arrived, self._value_bytes + 1)

    def error(self, what: str, position: int | None = None) -> StrictJSONError:
        """An error of the document, with its place in all of it: here, or at a position of the text."""
        lines, columns = self._place(self._position if position is None else position)
        return StrictJSONError(Message("json-invalid", reason=what, line=lines + 1, column=columns + 1))

    def _attempt(self) -> tuple[Any, int] | None:
        """The value and where it ends; None where it is cut."""
        text, start = self._text, self._position
        number = NUMBER_CHARACTERS.match(text, start)
        if number and number.end() == len(text) and not self._ended:
            return None
        try:
            return self._scan(text, start)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated") or error.pos >= len(text) - CUT_TOKEN
            if cut and not self._ended:
                return None
            raise self.error(error.msg, error.pos) from None
        except RecursionError:
            raise StrictJSONError(Message("json-too-deep")) from None

    def _check_size(self, end: int, where: tuple[str | int, ...]) -> None:
        characters = end - self._position
        if 4 * characters <= self._value_bytes:
            return
        if len(self._text[self._position : end].encode()) > self._value_bytes:
            raise ValueTooLarge(where)

    def _place(self, position: int) -> tuple[int, int]:
        """Lines before a position of the text, and characters before it in its line."""
        lines = self._text.count("\n", 0, position)
        if lines == 0:
            return self._lines, self._columns + position
        return self._lines + lines, position - self._text.rfind("\n", 0, position) - 1


def read_object(window: ReceivedText, streamed: str) -> Iterator[Member | Element | None]:
    """Every member of the document's object. Where that with the key `streamed` is a list, it comes as a Member that is
    empty, then its elements. Yields None where more text is needed. Raises StrictJSONError, TooLarge for a value that
    is, and IsAList at a list's first character."""
    seen: set[str] = set()
    if (yield from window.peek()) == "[":
        raise IsAList
    yield from window.take("{", "an object")
    more = (yield from window.peek()) != "}"
    if not more:
        yield from window.take("}", "'}'")
    while more:
        key = yield from read_key(window, seen)
        if key == streamed and (yield from window.peek()) == "[":
            yield Member(key, [])
            yield from read_list(window, key)
        else:
            yield Member(key, (yield from window.value(key)))
        more = (yield from window.take(",}", "',' delimiter")) == ","
    if (yield from window.peek()) != "":
        raise window.error("Extra data")


def read_key(window: ReceivedText, seen: set[str]) -> Reading[str]:
    """The next key, with its colon; raises StrictJSONError where it was `seen` before."""
    if (yield from window.peek()) != '"':
        raise window.error("Expecting property name enclosed in double quotes")
    key: str = yield from window.value()
    if key in seen:
        raise StrictJSONError(SAME_KEY)
    seen.add(key)
    yield from window.take(":", "':' delimiter")
    return key


def read_list(window: ReceivedText, name: str) -> Iterator[Element | None]:
    """Every element of the list that begins here; None where more text is needed."""
    yield from window.take("[", "a list")
    if (yield from window.peek()) == "]":
        yield from window.take("]", "']'")
        return
    for number in count():
        yield Element((yield from window.value(name, number)))
        if (yield from window.take(",]", "',' delimiter")) == "]":
            return


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
