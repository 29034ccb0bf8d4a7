"""Which results of a run a visitor wants to see: read from an address, and written into one again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.datastructures import QueryParams

from app.domain.browsing import ANY_ASPECT, ResultQuery
from app.domain.rubric import Rubric
from app.web.dashboard.item_columns import BLENDED

POSITION = "position"
"""As `sort`: the batch's own order."""

BEST, WORST = "best", "worst"
"""As `order`: what comes first."""

STATUSES = ("scored", "partial", "failed")
MOST_CHARACTERS = 200
MOST_VALUE = 1e15
MOST_NUMBER = 10_000_000


MOST_VALUES = 8
"""Values that an address may ask for together: each that leaves nothing is counted without."""


@dataclass(frozen=True)
class Listing:
    """A sorted and filtered list of results. `sort` None is the batch's own order."""

    sort: str | None
    best_first: bool = False
    values: Mapping[str, float] = field(default_factory=dict)
    unrated: str | None = None
    warning: str | None = None
    status: str | None = None
    system: str | None = None
    text: str | None = None

    def query(self, best: Mapping[str, float]) -> ResultQuery:
        """What to ask the browser for; `best` holds the best value of measures on which it is not the highest."""
        target = best.get((self.sort or "").removesuffix(BLENDED))
        # Far from the target is bad, low without one.
        descending = self.best_first if target is None else not self.best_first
        return ResultQuery(
            sort=self.sort,
            descending=descending,
            target=target,
            values=self.values,
            unrated=self.unrated,
            warning=self.warning,
            status=self.status,
            system=self.system,
            text=self.text,
        )

    def parameters(self) -> dict[str, Any]:
        """The list as an address has it."""
        return {
            "sort": self.sort or POSITION,
            "order": BEST if self.best_first else None,
            "value": [f"{measure}:{write_value(value)}" for measure, value in self.values.items()],
            "unrated": self.unrated,
            "warning": self.warning,
            "status": self.status,
            "system": self.system,
            "text": self.text,
        }

    def sorted_by(self, measure: str | None) -> Listing:
        """The same results by this measure, worst first; best first where they are sorted so already."""
        return replace(self, sort=measure, best_first=self.sort == measure and not self.best_first)

    def without_each(self) -> Iterator[tuple[str, str, Listing]]:
        """Each filter in force, as its parameter and value, with the list without it."""
        for measure, wanted in self.values.items():
            left = {name: other for name, other in self.values.items() if name != measure}
            yield "value", f"{measure}:{write_value(wanted)}", replace(self, values=left)
        singles = {
            "unrated": (self.unrated, replace(self, unrated=None)),
            "warning": (self.warning, replace(self, warning=None)),
            "status": (self.status, replace(self, status=None)),
            "system": (self.system, replace(self, system=None)),
            "text": (self.text, replace(self, text=None)),
        }
        for name, (value, without) in singles.items():
            if value is not None:
                yield name, value, without


def write_value(value: float) -> str:
    """Whole levels without a point, anything else with every digit."""
    return str(int(value)) if value.is_integer() else repr(value)


def read_listing(asked: QueryParams, measures: Sequence[str], rubric: Rubric | None) -> Listing:
    """The list that an address asks for. What it asks and the run has not is left out."""
    sort = asked.get("sort")
    if sort not in measures and sort != POSITION:
        sort = worst_measure(measures, rubric)
    unrated = asked.get("unrated")
    status = asked.get("status")
    return Listing(
        sort=None if sort == POSITION else sort,
        best_first=asked.get("order") == BEST,
        values=dict(read_values(asked.getlist("value")[:MOST_VALUES], measures)),
        unrated=unrated if unrated == ANY_ASPECT or unrated in measures else None,
        warning=clean(asked.get("warning")),
        status=status if status in STATUSES else None,
        system=clean(asked.get("system")),
        text=clean(asked.get("text")),
    )


def worst_measure(measures: Sequence[str], rubric: Rubric | None) -> str | None:
    """By what the worst results are found: the overall impression, else the first composite, else the first aspect."""
    composites = [composite.id for composite in rubric.composites] if rubric else []
    aspects = [aspect.id for aspect in rubric.aspects] if rubric else []
    preferred = ("overall", *composites, *aspects, *measures)
    return next((measure for measure in preferred if measure in measures), None)


def read_values(given: Sequence[str], measures: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Measures with the values that they are to have, out of `coherence:0`."""
    for text in given[: 2 * len(measures)]:
        measure, _, number = text.rpartition(":")
        try:
            value = float(number)
        except ValueError:
            continue
        if measure in measures and math.isfinite(value) and abs(value) <= MOST_VALUE:
            yield measure, value


def clean(text: str | None) -> str | None:
    """What somebody typed, on one line and not too long; None where nothing is left."""
    shown = "".join(character for character in (text or "")[:MOST_CHARACTERS] if character.isprintable())
    return shown.strip() or None


def read_number(text: str | None, *, least: int = 0) -> int | None:
    """A count in an address; None where it is none."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 8:
        return None
    number = int(text)
    return number if least <= number <= MOST_NUMBER else None
