"""What a reader is shown of runs beside their figures: the items that changed most, and which systems differ."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.domain.model import Value, listed
from app.domain.reports import Best

Unit = Literal["points", "share"]
NoChanges = Literal["unpaired", "no-values"]
Outcome = Literal["better", "worse", "none"]


class ResponsePlace(Value):
    """Where a response's result is found in its batch."""

    position: int | None = Field(description="place of the result in its batch, from 0; null where the run is no batch")
    candidate: int | None = Field(description="number among the item's candidates; null where it has one response")


class ItemSide(Value):
    """An item in one run: its responses count with their mean."""

    values: dict[str, float | None] = Field(
        description="means by aspect, on its scale, and of the chosen measure where it is no aspect; null is unrated"
    )
    responses: Annotated[tuple[ResponsePlace, ...], listed()] = Field(description="the first of them, in order")
    count: int = Field(description="all responses, repeats among them")


class ItemChange(Value):
    """An item that both runs have. Differences are candidate minus baseline, of minus the distance where a scale has a
    best level inside."""

    item: str
    baseline: ItemSide
    candidate: ItemSide
    difference: float = Field(description="what items are ordered by, in `Changes.unit`")
    differences: dict[str, float] = Field(description="in scale points, by name as in `values`; of both sides' values")


class Changes(Value):
    """The paired items that dropped and gained most, by one measure or by all aspects together.

    All together, an item counts with the mean of its aspects' differences, each as a share of its scale; an aspect
    that one side lacks has no say.
    """

    measure: str | None = Field(description="an aspect, a composite or `NAME.blended`; null for all aspects together")
    unit: Unit = Field(description="`points` of the measure's scale, or `share` of the scales")
    pairs: int = Field(description="paired items with a value on both sides")
    dropped: int = Field(description="of these, those that are worse now")
    gained: int = Field(description="of these, those that are better now")
    drops: Annotated[tuple[ItemChange, ...], listed()] = Field(description="the largest drop first")
    gains: Annotated[tuple[ItemChange, ...], listed()] = Field(description="the largest gain first")
    best: Best = Field(default_factory=dict)
    code: NoChanges | None = Field(default=None, description="stable; why there are no pairs to look at")
    reason: str | None = Field(default=None, description="the same, in a sentence")


class SystemCell(Value):
    """The row's system against the column's."""

    outcome: Outcome = Field(description="whether the row's system is significantly better or worse")
    p: float | None = Field(description="two-sided, not corrected; null where one of them has no value")


class SystemMatrix(Value):
    """Each system against each other on one aspect, by Mann and Whitney's U."""

    systems: Annotated[tuple[str, ...], listed()]
    alpha: float = Field(description="a pair is significant with a p below it")
    n: Annotated[tuple[int, ...], listed()] = Field(description="items with a value, by system")
    rows: Annotated[tuple[Annotated[tuple[SystemCell | None, ...], listed()], ...], listed()] = Field(
        description="a row by system, in it a cell by system; null on the diagonal"
    )
