"""What is wrong with a document, in the terms of JSON: a pointer to each fault, and a sentence without the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from saiten.core.plain_text import clip
from saiten.core.wording import hint

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

MOST_UNKNOWN = 8
MORE = "holds {more} more fields that are not known here"

MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field that is known here",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be a text",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "too_short": "must hold at least {min_length}",
    "too_long": "may hold at most {max_length}",
    "string_pattern_mismatch": "must match {pattern}",
}
"""Pydantic's error types in the terms of JSON."""

LIMITS = {
    "greater_than": "should be greater than {gt:g}",
    "greater_than_equal": "should be greater than or equal to {ge:g}",
    "finite_number": "should be a finite number",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_too_long": "may have at most {max_length:,} characters",
}
"""Further types that a file of a command can meet. The service has pydantic's own words for them."""


def pointer(location: Sequence[str | int]) -> str:
    """A location as an RFC 6901 JSON pointer: `("a/b", 0)` is `/a~1b/0`, the whole document is empty."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def explain(
    error: ValidationError,
    value: Any,
    model: type[BaseModel] | None = None,
    tell: Callable[..., str] | None = None,
) -> list[tuple[str, str]]:
    """Each fault's JSON pointer with its message, without the caller's value, each once: in English, or as `tell` of
    `saiten.core.language` tells it. Unknown fields are told which field of the `model` they may mean."""
    faults = error.errors(include_url=False, include_input=False)
    found = {(locate(fault, value), describe(fault, tell)): fault["type"] for fault in faults}
    unknown = [fault for fault, kind in found.items() if kind == "extra_forbidden"]
    for fault in unknown[MOST_UNKNOWN:]:
        del found[fault]
    # Of a union, the branch that fits best has the deepest pointer; the faults of the others are dropped.
    outer = find_ancestors(where for where, _ in found)
    names = fields_of(model) if model is not None and unknown else ()
    kept = [(where, suggest(where, what, names)) for where, what in found if where not in outer]
    more = len(unknown) - MOST_UNKNOWN
    if more <= 0:
        return kept
    return [*kept, ("", (tell or str.format)(MORE, more=more))]


def suggest(where: str, what: str, names: Sequence[str]) -> str:
    """What is wrong at a pointer; of an unknown field, with the name that is like it, if one is."""
    if what != MESSAGES["extra_forbidden"] or not names:
        return what
    return what + hint(where.rpartition("/")[2], names)


@cache
def fields_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of a model's fields and of its parts'."""
    names: set[str] = set()
    seen: set[type] = set()
    left: list[Any] = [model]
    while left:
        part = left.pop()
        if isinstance(part, type) and part not in seen:
            seen.add(part)
            for name, field in getattr(part, "model_fields", {}).items():
                names.add(field.alias or name)
                left.append(field.annotation)
        # An annotation such as `tuple[Turn, ...] | None` names its parts.
        left += [one for one in get_args(part) if isinstance(one, type) or get_args(one)]
    return tuple(sorted(names))


def find_ancestors(pointers: Iterable[str]) -> set[str]:
    """The pointers to all ancestors of these places."""
    found: set[str] = set()
    for where in pointers:
        outer = where
        while outer and (outer := outer.rpartition("/")[0]) not in found:
            found.add(outer)
    return found


def describe(fault: ErrorDetails, tell: Callable[..., str] | None = None) -> str:
    """What is wrong, in the terms of JSON, without the caller's value: in English, or as `tell` tells it."""
    known = MESSAGES.get(fault["type"]) or (LIMITS.get(fault["type"]) if tell else None)
    if known is not None:
        return (tell or str.format)(known, **fault.get("ctx", {}))
    message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return tell(message) if tell else message


def locate(fault: ErrorDetails, value: Any) -> str:
    """A pointer into the document that was sent, without pydantic's names of union members, which are not in it.

    An unknown name is cut, so that the echo stays short.
    """
    kept: list[int | str] = []
    for part in fault["loc"]:
        inside, value = step(value, part)
        if inside or (part == fault["loc"][-1] and fault["type"] == "missing"):
            kept.append(part)
    if fault["type"] == "extra_forbidden" and kept:
        kept[-1] = clip(str(kept[-1]))
    return pointer(kept)


def step(value: Any, part: str | int) -> tuple[bool, Any]:
    """Whether `part` is a key or index of the value, and the part; if not, the value itself."""
    if isinstance(value, dict) and isinstance(part, str) and part in value:
        return True, value[part]
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return True, value[part]
    return False, value
