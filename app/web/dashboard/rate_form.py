"""The form for a new rating round: what was sent, what it means, and what does not fit where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.dialogue import Limits
from app.domain.errors import InvalidRequest, NotFound, SaitenError, UnknownRubric
from app.domain.rating_round import MOST_ITEMS, RoundOptions
from app.domain.validation import InvalidDocument, validate
from app.web.dashboard.forms import Form
from app.web.dashboard.texts import mark

WHOLE = mark("A whole number from %(low)s to %(high)s.")
BOUNDS = {
    "items": (1, MOST_ITEMS),
    "raters_per_item": (1, 100),
    "items_per_rater": (1, MOST_ITEMS),
    "seed": (0, 2**32 - 1),
}
"""What the domain takes, to be said beside the field."""

REFUSALS: Sequence[tuple[type[SaitenError], str]] = (
    (NotFound, mark("There is no such run in this project.")),
    (UnknownRubric, mark("This run's rubric is not installed any more, so nobody can be asked by it.")),
    (InvalidRequest, mark("No response of this run has been scored, so there is none to be rated.")),
)
"""Why a run can have no round; the first that fits."""


@dataclass(frozen=True)
class Fault:
    """What is wrong at a field: a message, and what stands in its places."""

    message: str
    values: Mapping[str, Any]


def defaults() -> dict[str, str]:
    """The form's fields before anybody has filled them in; empty without a default."""
    of_options = {
        name: str(info.default) if isinstance(info.default, int) else ""
        for name, info in RoundOptions.model_fields.items()
    }
    return {"run": "", **of_options}


def read_start(form: Form) -> dict[str, str]:
    """The fields of a new round as they were sent."""
    return {name: form.get(name) for name in ("run", *RoundOptions.model_fields)}


def read_options(given: Mapping[str, str], limits: Limits, faults: dict[str, Fault]) -> RoundOptions | None:
    """The round's options; None where a field does not fit, which `faults` then tells."""
    document = {name: read_whole(given[name]) for name in BOUNDS if given[name]}
    try:
        return validate(RoundOptions, {"name": given["name"], **document}, limits)
    except InvalidDocument as error:
        for where, _ in error.faults:
            name = where.removeprefix("/")
            faults[name] = describe_fault(name, limits)
        return None


def describe_fault(name: str, limits: Limits) -> Fault:
    """What the field takes."""
    if name not in BOUNDS:
        return Fault(mark("A name on one line, of %(most)s characters at most."), {"most": limits.name_characters})
    low, high = BOUNDS[name]
    return Fault(WHOLE, {"low": low, "high": high})


def read_whole(text: str) -> int | str:
    """The number, or the text that is none."""
    try:
        return int(text)
    except ValueError:
        return text


def explain_refusal(error: SaitenError) -> Fault:
    """Why the run has no round."""
    return Fault(next(message for kind, message in REFUSALS if isinstance(error, kind)), {})
