"""What is wrong in a rubric file, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import ErrorDetails

from app.domain.faults import Location
from app.domain.rubric import Rubric

MESSAGES: Mapping[str, str] = {
    "missing": "is missing",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "union_tag_not_found": "is missing: mean or linear",
    "union_tag_invalid": "must be mean or linear; found {tag!r:.60}",
    "too_short": "must hold at least {min_length}; holds {actual_length}",
    "value_error": "{error}",
    "fault": "{detail}",
}
"""Pydantic's error types in the words of somebody who writes YAML, to be filled from the error's context."""

SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong in a rubric file.

    `line` is 1-based, or None where the file could not be read; `field` is a JSON pointer, empty for the whole file.
    """

    line: int | None
    field: str
    detail: str

    def report(self, path: Path | str) -> str:
        """`FILE:LINE: FIELD: detail` on one line, safe to print whatever the file holds."""
        place = str(path) if self.line is None else f"{path}:{self.line}"
        return printable(": ".join(filter(None, (place, self.field, self.detail))))


def describe(error: ErrorDetails, location: Location) -> str:
    """What is wrong, in a few words that follow the field's name. `location` is the error's place in the file."""
    kind = error["type"]
    if kind in MESSAGES:
        return MESSAGES[kind].format(**error.get("ctx", {}))
    if kind == "extra_forbidden":
        near = get_close_matches(str(location[-1]), known_fields(), n=1)
        return "is not a field of this mapping" + (f"; did you mean {near[0]}?" if near else "")
    found = error["input"]
    shown = f"; found {quoted(found)}" if isinstance(found, str | int | float | None) else ""
    return error["msg"][:1].lower() + error["msg"][1:] + shown


@cache
def known_fields() -> tuple[str, ...]:
    """Every field name of the rubric format."""
    schema = Rubric.model_json_schema()
    return tuple(sorted({name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", ())}))


def quoted(value: Any) -> str:
    """A value for a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 3] + "..."


def printable(text: str) -> str:
    """The text with controls and lone surrogates escaped: a file's words must not steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
