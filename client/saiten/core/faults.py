"""What is wrong with a document, in the terms of JSON: a pointer to each fault, and a sentence without the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from saiten.core.messages import Message, Misfit
from saiten.core.plain_text import clip
from saiten.core.wording import NEAR, find_near

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

MOST_UNKNOWN = 8

FAULTS: Mapping[str, tuple[str, ...]] = {
    "missing": ("is-missing",),
    "extra_forbidden": ("unknown-field",),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), ("must-be-object",)),
    **dict.fromkeys(("tuple_type", "list_type"), ("must-be-list",)),
    "string_type": ("must-be-text",),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), ("must-be-integer",)),
    "int_parsing_size": ("integer-too-large",),
    **dict.fromkeys(("float_type", "float_parsing"), ("must-be-number",)),
    **dict.fromkeys(("bool_type", "bool_parsing"), ("must-be-boolean",)),
    "literal_error": ("must-be-one-of", "expected"),
    "too_short": ("must-hold-at-least", "min_length"),
    "too_long": ("may-hold-at-most", "max_length"),
    "string_pattern_mismatch": ("must-match", "pattern"),
    "string_too_short": ("text-too-short", "min_length"),
    "string_too_long": ("text-too-long", "max_length"),
    "string_unicode": ("must-be-unicode",),
    "greater_than": ("must-be-greater", "gt"),
    "greater_than_equal": ("must-be-at-least", "ge"),
    "less_than": ("must-be-less", "lt"),
    "less_than_equal": ("must-be-at-most", "le"),
    "finite_number": ("must-be-finite",),
    "none_required": ("must-be-null",),
    **dict.fromkeys(("datetime_type", "datetime_object_invalid"), ("must-be-time",)),
    **dict.fromkeys(("datetime_parsing", "datetime_from_date_parsing"), ("not-a-time", "error")),
    "timezone_naive": ("time-zone-not-allowed",),
    "timezone_aware": ("time-zone-missing",),
    "invalid_key": ("keys-must-be-texts",),
}
"""Pydantic's types of errors in the terms of JSON: a message's id, and what of the error's context it holds."""


def pointer(location: Sequence[str | int]) -> str:
    """A location as an RFC 6901 JSON pointer: `("a/b", 0)` is `/a~1b/0`, the whole document is empty."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def explain(error: ValidationError, value: Any, model: type[BaseModel] | None = None) -> list[tuple[str, Message]]:
    """Each fault's JSON pointer with its message, without the caller's value, each once. Unknown fields are told which
    field of the `model` they may mean."""
    faults = error.errors(include_url=False, include_input=False)
    found = {(locate(fault, value), describe_fault(fault)): fault["type"] for fault in faults}
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
    return [*kept, ("", Message("more-unknown-fields", more=more))]


def suggest(where: str, what: Message, names: Sequence[str]) -> Message:
    """What is wrong at a pointer; of an unknown field, with the name that is like it, if one is."""
    near = find_near(where.rpartition("/")[2], names) if what.id == "unknown-field" else ""
    return Message("unknown-field-near", near=repr(near)) if near else what


def suggest_name(name: str, known: Iterable[str], cutoff: float = NEAR) -> Message | str:
    """A question with the nearest known name, which ends a sentence; empty if none is near."""
    near = find_near(name, known, cutoff)
    return Message("did-you-mean", near=repr(near)) if near else ""


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


def describe_fault(fault: ErrorDetails) -> Message:
    """What is wrong, in the terms of JSON, without the caller's value."""
    context = fault.get("ctx", {})
    if isinstance(error := context.get("error"), Misfit):
        return error.message
    if fault["type"] in FAULTS:
        name, *values = FAULTS[fault["type"]]
        return Message(name, **{value: write_bound(context[value]) for value in values})
    return Message("verbatim", text=fault["msg"].removeprefix("Value error, ").removeprefix("Input "))


def write_bound(value: Any) -> Any:
    """A bound as it is written: 1 for 1.0; choices without pydantic's English "or"."""
    if isinstance(value, str):
        return value.replace("' or '", "', '")
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
