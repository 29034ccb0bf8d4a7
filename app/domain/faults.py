"""Faults at their places: several in one error, each with where in the document it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

Location = tuple[str | int, ...]
"""Where in a document something stands: `("aspects", 0, "name", "ja")`."""


def refuse(title: str, faults: Iterable[tuple[Location, str]]) -> None:
    """Raises one ValidationError with every fault at its own place; does nothing where there is none.

    Within a model's validator, pydantic puts the model's own location in front of each.
    """
    errors = [
        InitErrorDetails(type=PydanticCustomError("fault", "{detail}", {"detail": detail}), loc=location, input=None)
        for location, detail in faults
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def repeated(values: Mapping[Location, str]) -> Iterator[tuple[Location, str]]:
    """Each place whose value has stood at an earlier place."""
    seen: set[str] = set()
    for place, value in values.items():
        if value in seen:
            yield place, f"{value} appears more than once"
        seen.add(value)
