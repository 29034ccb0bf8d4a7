"""From a JSON value to a domain value, with a JSON pointer to everything that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest
from app.domain.model import pointer

Model = TypeVar("Model", bound=BaseModel)

MOST_UNKNOWN = 8
MOST_NAME_CHARACTERS = 24

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
"""Pydantic's error types in the words of somebody who writes JSON."""


class InvalidDocument(InvalidRequest):
    """A document that was read and does not fit; `faults` are (JSON pointer, what is wrong), never empty."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        where, what = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"{where or 'the document'}: {what}{more}")
        self.faults = faults


def validate(model: type[Model], value: Any, limits: Limits) -> Model:
    """The model's instance of a parsed JSON value; raises InvalidDocument."""
    try:
        return model.model_validate(value, context={"limits": limits})
    except ValidationError as error:
        raise InvalidDocument(explain(error, value)) from None


def explain(error: ValidationError, value: Any) -> list[tuple[str, str]]:
    """Each fault's JSON pointer with its message, without the caller's value, each once."""
    faults = error.errors(include_url=False)
    found = {(locate(fault, value), describe(fault)): None for fault in faults}
    unknown = [fault for fault in found if fault[1] == MESSAGES["extra_forbidden"]]
    for fault in unknown[MOST_UNKNOWN:]:
        del found[fault]
    # Where a value may have one of several forms, the form that it fits best says where; the others say nothing.
    kept = [fault for fault in found if not any(other.startswith(fault[0] + "/") for other, _ in found)]
    more = len(unknown) - MOST_UNKNOWN
    return [*kept, ("", f"holds {more} more fields that are not known here")] if more > 0 else kept


def describe(fault: ErrorDetails) -> str:
    """What is wrong, in the words of somebody who writes JSON. It never holds the caller's value."""
    known = MESSAGES.get(fault["type"])
    if known is not None:
        return known.format(**fault.get("ctx", {}))
    return fault["msg"].removeprefix("Value error, ").removeprefix("Input ")


def locate(fault: ErrorDetails, value: Any) -> str:
    """A pointer into the document that was sent, without pydantic's names of union members, which are not in it.

    A name that the caller made up is cut: a document's echo stays short.
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
    """Whether `part` leads into the value, and to what; where it does not, the value itself."""
    if isinstance(value, dict) and isinstance(part, str) and part in value:
        return True, value[part]
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return True, value[part]
    return False, value


def clip(name: str) -> str:
    """The beginning of a name."""
    return name if len(name) <= MOST_NAME_CHARACTERS else name[: MOST_NAME_CHARACTERS - 1] + "…"
