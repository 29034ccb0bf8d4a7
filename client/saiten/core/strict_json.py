"""Strict JSON: UTF-8, one document, no duplicate keys, only finite numbers, no lone surrogates. And strict numbers in
the cells of a table."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

from saiten.core.messages import Message, Misfit
from saiten.core.plain_text import clip

MARK = b"\xef\xbb\xbf"
"""A byte order mark in UTF-8."""

CELL_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")

SURROGATES = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
"""The only way to write a surrogate in UTF-8."""

DIGITS = 20
"""The most characters of an integer, since reading one takes quadratic time."""


SAME_KEY = Message("json-same-key")
BYTE_ORDER_MARK = Message("json-byte-order-mark")


class StrictJSONError(Misfit):
    """What is wrong, in one sentence that never quotes the document."""


def parse_strict_json(body: bytes) -> Any:
    """The value of a JSON document; raises StrictJSONError.

    Python's parser accepts more than RFC 8259: NaN, duplicate keys, UTF-16. Each lets a proxy and this service read
    different values from the same bytes, so each is refused.
    """
    if body.startswith(MARK):
        raise StrictJSONError(BYTE_ORDER_MARK)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(Message("not-utf-8", place=error.start)) from None
    value = read_strict_json(text)
    refuse_surrogates(value, text, 0, len(text))
    return value


def parse_line(line: bytes, number: int) -> Any:
    """The value of a line of NDJSON; raises StrictJSONError that names the line."""
    try:
        return parse_strict_json(line)
    except StrictJSONError as error:
        fault = error.message
        if fault.id == "json-invalid":  # in a line of its own
            fault = Message("json-invalid-in-line", reason=fault.values["reason"], column=fault.values["column"])
        raise StrictJSONError(Message("fault-at", where=Message("line", number=number), fault=fault)) from None


def read_integer(digits: str) -> int:
    """The integer; raises StrictJSONError beyond 20 characters."""
    if len(digits) > DIGITS:
        raise StrictJSONError(Message("json-number-too-large"))
    return int(digits)


def read_strict_json(text: str, *, parse_int: Callable[[str], Any] = read_integer) -> Any:
    """The value of a JSON text; raises StrictJSONError for anything ambiguous or beyond RFC 8259.

    `parse_int` receives each integer as it is spelled. The caller must handle lone surrogates.
    """
    try:
        return strict_decoder(parse_int).decode(text)
    except json.JSONDecodeError as error:
        raise StrictJSONError(
            Message("json-invalid", reason=error.msg, line=error.lineno, column=error.colno)
        ) from None
    except RecursionError:
        raise StrictJSONError(Message("json-too-deep")) from None


@lru_cache(maxsize=8)
def strict_decoder(parse_int: Callable[[str], Any] = read_integer) -> json.JSONDecoder:
    """Python's decoder with strict hooks. It raises its own errors or StrictJSONError."""
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_number, parse_int=parse_int
    )


def refuse_surrogates(value: Any, text: str, start: int, end: int) -> None:
    """Raises StrictJSONError where the value, read from `text[start:end]`, holds a lone surrogate."""
    if SURROGATE_ESCAPE.search(text, start, end):
        _search_surrogates(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StrictJSONError(SAME_KEY)
    return found


def _search_surrogates(value: Any) -> None:
    """Looks at every key and string, without recursion: the parser allows as many levels as the stack does."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += [*part, *part.values()]
        elif isinstance(part, list):
            left += part
        elif isinstance(part, str) and SURROGATES.search(part):
            raise StrictJSONError(Message("json-lone-surrogate"))


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJSONError(Message("json-not-a-number", name=name))


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJSONError(Message("json-number-too-large"))
    return value


class Unfit(Misfit):
    """What is wrong with one record, in words that follow its line number."""


def number_of(cell: str, name: str) -> float:
    """The number as JSON or a spreadsheet spells it; raises Unfit for anything else that Python would take."""
    if not CELL_NUMBER.fullmatch(cell):
        raise Unfit(Message("cell-not-a-number", name=repr(clip(name))))
    return float(cell)
