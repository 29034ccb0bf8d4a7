"""Validates JSON values against models, with a JSON pointer to each fault, and suggests names for misspelt ones.

Loads no numpy, since requests that are only checked use it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.domain.dialogue import Limits
from app.domain.errors import MOST_FAULTS, InvalidRequest
from app.domain.model import pointer
from saiten.plain_text import clip
from saiten.strict_json import MARK, Unfit, number_of

__all__ = ["MARK", "Unfit", "clip", "number_of"]

LARGEST = 1e15
"""Values lie within ±LARGEST: no scale is wider, and the squares of such values can still be summed."""

Model = TypeVar("Model", bound=BaseModel)

MOST_VALUES = 10_000
"""Members and elements of a document, all levels together. An item of 200 utterances and 64 responses holds 700."""

MOST_UNKNOWN = 8

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


class InvalidDocument(InvalidRequest):
    """A document that does not fit its model.

    `faults` are (JSON pointer, what is wrong), never empty, at most MOST_FAULTS; `total` also counts those that are not
    listed.
    """

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        where, what = faults[0]
        self.total = len(faults)
        self.faults = faults[:MOST_FAULTS]
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        super().__init__(f"{where or 'the document'}: {what}{more}")


def validate(model: type[Model], value: Any, limits: Limits, *, unlimited: Collection[str] = ()) -> Model:
    """The model's instance of a parsed JSON value; raises InvalidDocument.

    The document may hold `limit_values(limits)` values, excluding its `unlimited` members, because each value may be a
    fault that costs time and memory.
    """
    most = limit_values(limits)
    where = find_excess(value, most, unlimited)
    if where is not None:
        raise InvalidDocument([(where, f"the document may hold at most {most:,} values, and this is one more")])
    try:
        return model.model_validate(value, context={"limits": limits})
    except ValidationError as error:
        raise InvalidDocument(explain(error, value)) from None


def limit_values(limits: Limits) -> int:
    """How many values a document may hold: MOST_VALUES, or what the operator's limits need."""
    entries = limits.context_utterances + limits.responses + limits.metadata_entries + limits.references
    return max(MOST_VALUES, 4 * entries)


def find_excess(value: Any, most: int, unlimited: Collection[str]) -> str | None:
    """The pointer to the member in which the document has more than `most` values; None where it has not.

    Takes time in proportion to `most`, however large the document is.
    """
    if not isinstance(value, dict):
        return "" if count_values(value, most) > most else None
    left = most - len(value)
    for key, part in value.items() if left >= 0 else ():
        if key in unlimited:
            continue
        left -= count_values(part, left)
        if left < 0:
            return pointer([clip(key)])
    return "" if left < 0 else None


def count_values(value: Any, most: int) -> int:
    """How many members and elements the value holds, all levels together; it stops counting beyond `most`."""
    counted, left = 0, [value]
    while left and counted <= most:
        part = left.pop()
        if isinstance(part, dict | list):
            counted += len(part)
            if counted <= most:
                left += part.values() if isinstance(part, dict) else part
    return counted


def explain(error: ValidationError, value: Any) -> list[tuple[str, str]]:
    """Each fault's JSON pointer with its message, without the caller's value, each once."""
    faults = error.errors(include_url=False, include_input=False)
    found = {(locate(fault, value), describe(fault)): None for fault in faults}
    unknown = [fault for fault in found if fault[1] == MESSAGES["extra_forbidden"]]
    for fault in unknown[MOST_UNKNOWN:]:
        del found[fault]
    # Of a union, the branch that fits best has the deepest pointer; the faults of the others are dropped.
    outer = find_ancestors(where for where, _ in found)
    kept = [fault for fault in found if fault[0] not in outer]
    more = len(unknown) - MOST_UNKNOWN
    return [*kept, ("", f"holds {more} more fields that are not known here")] if more > 0 else kept


def find_ancestors(pointers: Iterable[str]) -> set[str]:
    """The pointers to all ancestors of these places."""
    found: set[str] = set()
    for where in pointers:
        outer = where
        while outer and (outer := outer.rpartition("/")[0]) not in found:
            found.add(outer)
    return found


def describe(fault: ErrorDetails) -> str:
    """What is wrong, in the terms of JSON, without the caller's value."""
    known = MESSAGES.get(fault["type"])
    if known is not None:
        return known.format(**fault.get("ctx", {}))
    return fault["msg"].removeprefix("Value error, ").removeprefix("Input ")


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


MOST_NAME = 128
"""Characters of a system, an item, a rater or an aspect that a caller names: reports repeat it in every pair."""

NEAR = 0.75
"""Similarity from which a name counts as a misspelling; "factuality" and "acceptability" have 0.7."""


def hint(name: str, known: Collection[str], cutoff: float = NEAR) -> str:
    """A question with the nearest known name; empty if none is near or the name is too long to be searched quickly."""
    if len(name) > MOST_NAME:
        return ""
    near = get_close_matches(name, [other for other in known if len(other) <= MOST_NAME], n=1, cutoff=cutoff)
    return f"; did you mean {clip(near[0])!r}?" if near else ""


def check_number(value: Any, name: str) -> None:
    """Raises Unfit for anything but a number within ±LARGEST; true and false are not numbers."""
    if type(value) is not float and type(value) is not int:
        raise Unfit(f"{clip(name)!r} is not a number")
    if not -LARGEST <= value <= LARGEST:
        raise Unfit(f"{clip(name)!r} is not a number within ±{LARGEST:g}")
