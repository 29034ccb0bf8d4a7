"""JSON: the strict reader takes what Python's takes, less what is refused by name; the stream takes what it takes."""

import json
import re
from collections.abc import Iterable
from typing import Any

from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.runs.streamed_json import Element, IsAList, Member, ReceivedText, ValueTooLarge, read_object
from tests.fuzz.target import Target, run_guided

REFUSED = ("same key", "byte order mark", "not UTF-8", "lone surrogate", "not a JSON number", "too large", "too deeply")
"""The reasons for which a document that Python reads is refused."""

LONG_INTEGER = re.compile(r"\d{19,}")
SURROGATE = re.compile("[\ud800-\udfff]")
LIST = "items"
VALUE_BYTES = 1 << 20


class Refusal(str):
    """Why a document was not read."""

    __slots__ = ()


def read_whole(data: bytes) -> Any:
    try:
        return parse_strict_json(data)
    except StrictJSONError as error:
        assert len(str(error)) < 200
        return Refusal(error)


def read_streamed(pieces: Iterable[bytes], value_bytes: int = VALUE_BYTES) -> Any:
    """The object in the pieces, put together again."""
    window = ReceivedText(value_bytes)
    found: dict[str, Any] = {}
    source = iter(pieces)
    try:
        for part in read_object(window, LIST):
            if part is None:
                piece = next(source, None)
                window.add(piece or b"", last=piece is None)
            elif isinstance(part, Member):
                found[part.key] = part.value
            elif isinstance(part, Element):
                found[LIST].append(part.value)
        # What is left to come must still be UTF-8.
        for piece in source:
            window.add(piece)
    except StrictJSONError as error:
        return Refusal(error)
    except IsAList:
        return Refusal("a list")
    return found


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def check(data: bytes) -> None:
    """The first byte is the size of the pieces."""
    size, document = (data[0] if data else 0) + 1, data[1:]
    whole = read_whole(document)
    check_against_python(document, whole)
    check_streams(document, whole, size)


def check_against_python(document: bytes, whole: Any) -> None:
    try:
        loose = json.loads(document)
    except (ValueError, RecursionError):
        assert isinstance(whole, Refusal)
        return
    if not isinstance(whole, Refusal):
        assert whole == loose
        assert type(whole) is type(loose)
        return
    # Of UTF-16 and UTF-32, which Python guesses, no byte is UTF-8 that reads as JSON.
    guessed = b"\0" in document
    assert guessed or any(reason in whole for reason in REFUSED)
    check_rewritten(loose)


def check_rewritten(value: Any) -> None:
    """A value without anything that is refused is taken, written anew."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, RecursionError):
        return
    if not SURROGATE.search(text) and not LONG_INTEGER.search(text) and text.count("[") + text.count("{") < 500:
        assert parse_strict_json(text.encode()) == value


def check_streams(document: bytes, whole: Any, size: int) -> None:
    """Whatever the pieces, the stream gives what the whole gave, or refuses as it did."""
    for pieces in ([document], cut(document, size), cut(document, 1)):
        streamed = read_streamed(pieces)
        if isinstance(whole, Refusal) or isinstance(streamed, Refusal):
            # How deep is too deep depends on how deep the caller is already.
            if "too deeply" in f"{whole} {streamed}":
                continue
            assert isinstance(streamed, Refusal)
            assert isinstance(whole, Refusal | list | str | int | float | None)
        else:
            assert streamed == whole
            assert list(streamed) == list(whole)
    try:
        small = read_streamed(cut(document, size), value_bytes=16)
    except ValueTooLarge as error:
        assert len(error.where) <= 2
    else:
        assert isinstance(small, Refusal) or small == whole


TARGET = Target(
    "documents",
    check,
    seeds=[
        b"\x02" + b'{"name": "a", "items": [{"id": "x", "n": [1, -2.5e3, true, null]}, {}], "metadata": {"a": "b"}}',
        b"\x00" + '{"items": ["日本語\\ud83d\\ude46", "한국어\\n\\u0041"], "budget": 0.25}'.encode(),
        b"\x05" + b' {"items" : [ ] , "a":{"a":{"a":[[[]]]}}}\r\n',
        b"\x01" + b'{"a": NaN}',
        b"\x01" + b'{"a": 1, "\\u0061": 2}',
        b"\x03" + b'{"a": "\\ud800", "items": 1e999, "b": -Infinity}',
        b"\x07" + b'\xef\xbb\xbf{"a": 123456789012345678901}',
        b"\x07" + b'[{"a": 1}, "x"] {}',
        b"\x07" + '{"a": 1}'.encode("utf-16"),
        b"\x07" + b"[" * 2000,
    ],
    words=[
        *(b'"items"', b"NaN", b"-Infinity", b"1e999", b"-0", b"1E+2", b"\\ud83d", b"\\udc00", b"\\u0000", b"true"),
        *(
            b"null",
            b"{}",
            b"[]",
            b'":',
            b",",
            b"//",
            b"'",
            "\u2028".encode(),
            b"\x7f",
            b"\xc0\xaf",
            b"\xf4\x90\x80\x80",
        ),
    ],
)

if __name__ == "__main__":
    run_guided(TARGET)
