"""The pydantic base class of all values, digests of values, and faults at their places in a document."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from json.encoder import encode_basestring
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from saiten.core.faults import pointer
from saiten.core.messages import Message, Misfit

WRITTEN_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", re.ASCII)


__all__ = ["pointer"]

ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Ids of rubrics, aspects and composites. They cannot hold `/` or begin with `..`, so an id is safe in a path."""

RUBRIC_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}(?:@[1-9][0-9]{0,8})?$"
"""How a request names a rubric: by its id, or by `id@version`."""

Id = Annotated[str, Field(pattern=ID_PATTERN)]
RubricName = Annotated[str, Field(pattern=RUBRIC_PATTERN)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Writes JSON on one line, without spaces and with every character as it is."""


class Value(BaseModel):
    """A frozen value. Unknown fields are refused, nothing is coerced, and errors never quote the input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        hide_input_in_errors=True,
        defer_build=True,  # built on its first use: to build all of them took a fifth of a start
    )


def is_none(value: object) -> bool:
    """For `exclude_if`: a field that is left out where it says nothing."""
    return value is None


def listed(maximum: int | None = None, minimum: int = 0) -> Any:
    """Field settings of a tuple that comes from a JSON array: elements are strict, but a list is accepted."""
    return Field(strict=False, min_length=minimum, max_length=maximum)


ENCODED_CHARACTERS = 1 << 16
"""Characters of a long text that are encoded together: in a few tenths of a millisecond."""

CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no white space and no escapes, over which digests are computed."""
    return CANONICAL.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_texts(*texts: str) -> str:
    """Equal to `digest` of a list of texts, but three times as fast."""
    found = hashlib.sha256(b"[")
    for number, text in enumerate(texts):
        if number:
            found.update(b",")
        for piece in encode_pieces(text):
            found.update(piece)
    found.update(b"]")
    return found.hexdigest()


def encode_pieces(text: str) -> Iterator[bytes]:
    """The text as a JSON string in UTF-8, in pieces: at once, a long one would hold the interpreter for long."""
    if len(text) <= ENCODED_CHARACTERS:
        yield encode_basestring(text).encode()
        return
    yield b'"'
    for start in range(0, len(text), ENCODED_CHARACTERS):
        yield encode_basestring(text[start : start + ENCODED_CHARACTERS])[1:-1].encode()
    yield b'"'


def key_of(name: str) -> int:
    """A number from 1 to 2⁶³ − 1 that stands for a name: equal for equal names, and by chance alone for others."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 1 or 1


Location = tuple[str | int, ...]
"""A place in a document, such as `("aspects", 0, "name", "ja")`."""


def refuse(title: str, faults: Iterable[tuple[Location, Message]]) -> None:
    """Raises one ValidationError with every fault at its own place, if there are any. Within a model's validator,
    pydantic prepends the model's own location."""
    errors = [
        InitErrorDetails(
            type=PydanticCustomError("fault", "{detail}", {"detail": str(what), "error": Misfit(what)}),
            loc=location,
            input=None,
        )
        for location, what in faults
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def repeated(values: Mapping[Location, str]) -> Iterator[tuple[Location, Message]]:
    """Each place whose value also occurs at an earlier place."""
    seen: set[str] = set()
    for place, value in values.items():
        if value in seen:
            yield place, Message("appears-twice", name=value)
        seen.add(value)


def require_moment(value: object) -> object:
    """A datetime or its text. Pydantic would also accept a number as seconds since 1970."""
    if isinstance(value, datetime) or (isinstance(value, str) and WRITTEN_MOMENT.match(value)):
        return value
    raise Misfit(Message("must-be-date-and-time"))
