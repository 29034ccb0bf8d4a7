"""From a JSON value to a domain value, with a JSON pointer to everything that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest
from app.domain.model import pointer

Model = TypeVar("Model", bound=BaseModel)


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
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    found = {(locate(fault["loc"], value), fault["msg"].removeprefix("Value error, ")): None for fault in faults}
    # Where a value may have one of several forms, the form that it fits best says where; the others say nothing.
    return [fault for fault in found if not any(other.startswith(fault[0] + "/") for other, _ in found)]


def locate(location: tuple[int | str, ...], value: Any) -> str:
    """A pointer into the document that was sent, without pydantic's names of union members, which are not in it."""
    kept: list[int | str] = []
    for position, part in enumerate(location):
        if isinstance(value, dict) and isinstance(part, str):
            if part in value:
                value = value[part]
            elif position + 1 < len(location):
                continue
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            continue
        kept.append(part)
    return pointer(kept)
