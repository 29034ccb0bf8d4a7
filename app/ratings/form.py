"""The fields of the form for a rating round, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from saiten_server.platform.web.language import mark

CHOICES: Mapping[str, str] = {
    "random": mark("At random"),
    "informative": mark("More of those in which the judge is unsteady"),
    "stratified": mark("Some of every level of the judge's ratings"),
    "worst": mark("The worst by the judge. Their ratings say nothing of the others, so they are left out of figures."),
    "chosen": mark("Chosen one by one. Their ratings say nothing of the others, so they are left out of figures."),
}
WHOLE_NUMBER = mark("Enter a whole number from %(low)s to %(high)s.")
NAME = mark("Enter a name on one line, with at most %(most)s characters.")


class RatingFault(NamedTuple):
    """The fault of a field: a message and its values."""

    message: str
    values: Mapping[str, Any]


def read_integer(text: str) -> int | str:
    """The number, or the text if it is not one."""
    try:
        return int(text)
    except ValueError:
        return text
