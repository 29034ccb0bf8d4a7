"""JSON as callers must send it: UTF-8, one document, no duplicate keys, only finite numbers, no lone surrogates."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

SURROGATES = re.compile("[\ud800-\udfff]")


class StrictJSONError(ValueError):
    """What is wrong, in one sentence that never quotes the document."""


def parse_strict_json(body: bytes) -> Any:
    """The value of a JSON document; raises StrictJSONError.

    Python's parser takes more than RFC 8259 gives: NaN, the last of two equal keys, UTF-16 by guess. Each lets a proxy
    and this service read different things from the same bytes, so each is refused.
    """
    if body.startswith(b"\xef\xbb\xbf"):
        raise StrictJSONError("the document starts with a byte order mark; send plain UTF-8")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(f"the document is not UTF-8 (byte {error.start})") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_number, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise StrictJSONError(f"the document is not valid JSON: {error.msg} at {where}") from None
    except RecursionError:
        raise StrictJSONError("the document is nested too deeply") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StrictJSONError("an object holds the same key twice")
    for key, value in pairs:
        _refuse_surrogates(key)
        _check_strings(value)
    return found


def _check_strings(value: Any) -> None:
    # Objects inside were checked when they were built, so only strings and arrays are left to look at.
    if isinstance(value, str):
        _refuse_surrogates(value)
    elif isinstance(value, list):
        for entry in value:
            _check_strings(entry)


def _refuse_surrogates(text: str) -> None:
    if SURROGATES.search(text):
        raise StrictJSONError("a string holds a lone surrogate")


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJSONError(f"{name} is not a JSON number")


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJSONError("a number is too large")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise StrictJSONError("a number is too large")
    return int(digits)
