"""Validates JSON values against models, with a JSON pointer to each fault, and suggests names for misspelt ones.

Loads no numpy, since requests that are only checked use it too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from saiten.core.faults import MOST_UNKNOWN, describe_fault, explain, fields_of, pointer, suggest, suggest_name
from saiten.core.messages import Message
from saiten.core.plain_text import clip
from saiten.core.strict_json import MARK, Unfit, number_of
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import MOST_FAULTS, InvalidRequest, count_faults

__all__ = [
    "MARK",
    "MOST_UNKNOWN",
    "Unfit",
    "clip",
    "describe_fault",
    "explain",
    "fields_of",
    "number_of",
    "suggest",
    "suggest_name",
]

LARGEST = 1e15
"""Values lie within ±LARGEST: no scale is wider, and the squares of such values can still be summed."""

Model = TypeVar("Model", bound=BaseModel)

MOST_VALUES = 10_000
"""Members and elements of a document, all levels together. An item of 200 utterances and 64 responses holds 700."""


class InvalidDocument(InvalidRequest):
    """A document that does not fit its model. `faults` are (JSON pointer, what is wrong), never empty, at most
    MOST_FAULTS; `total` also counts those that are not listed."""

    def __init__(self, faults: Sequence[tuple[str, Message]]) -> None:
        where, what = faults[0]
        self.total = len(faults)
        self.faults = faults[:MOST_FAULTS]
        super().__init__(count_faults(where or Message("the-document"), what, self.total))


def validate(model: type[Model], value: Any, limits: Limits, *, unlimited: Collection[str] = ()) -> Model:
    """The model's instance of a parsed JSON value; raises InvalidDocument. The document may hold `limit_values(limits)`
    values, excluding its `unlimited` members, because each value may be a fault that costs time and memory."""
    most = limit_values(limits)
    where = find_excess(value, most, unlimited)
    if where is not None:
        raise InvalidDocument([(where, Message("document-values-most", maximum=most))])
    try:
        return model.model_validate(value, context={"limits": limits})
    except ValidationError as error:
        raise InvalidDocument(explain(error, value, model)) from None


def name_line(what: Message, line: int) -> Message:
    """What is wrong, with the line where it is; as it is where `line` is 0."""
    return Message("fault-at", where=Message("line", number=line), fault=what) if line else what


def limit_values(limits: Limits) -> int:
    """How many values a document may hold: MOST_VALUES, or what the operator's limits need."""
    entries = limits.context_utterances + limits.responses + limits.metadata_entries + limits.references
    return max(MOST_VALUES, 4 * entries)


def find_excess(value: Any, most: int, unlimited: Collection[str]) -> str | None:
    """The pointer to the member in which the document has more than `most` values; None where it has not. Takes time in
    proportion to `most`, however large the document is."""
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


MOST_NAME = 128
"""Characters of a system, an item, a rater or an aspect that a caller names: reports repeat it in every pair."""


def check_number(value: Any, name: str) -> None:
    """Raises Unfit for anything but a number within ±LARGEST; true and false are not numbers."""
    if type(value) is not float and type(value) is not int:
        raise Unfit(Message("not-a-number", name=repr(clip(name))))
    if not -LARGEST <= value <= LARGEST:
        raise Unfit(Message("number-range", name=repr(clip(name)), limit=LARGEST))
