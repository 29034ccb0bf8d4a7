"""The dialogues to read of a comparison: the few that changed most, with both responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.adapters.sql.browsing import ResultBrowser
from app.domain.browsing import Browsed
from app.domain.comparison_view import Changes, ItemChange, ItemSide, Unit
from app.domain.dialogue import Utterance

MOST_SHOWN = 5
"""Of drops and of gains."""


@dataclass(frozen=True)
class SideView:
    """One run's response. `address` is its item page's; None where its text is not there any more. `count` are all of
    the item's responses, of which this is the first."""

    response: str | None
    utterance: Utterance | None
    address: str | None
    count: int


@dataclass(frozen=True)
class ValueView:
    """A measure of the item in both runs. `difference` is candidate minus baseline, in points toward the best."""

    name: str
    before: float | None
    after: float | None
    difference: float | None


@dataclass(frozen=True)
class ChangeView:
    item: str
    difference: float
    unit: Unit
    baseline: SideView
    candidate: SideView
    values: tuple[ValueView, ...]

    @property
    def is_shared(self) -> bool:
        """Whether both answer the same last utterance."""
        return self.baseline.utterance == self.candidate.utterance


@dataclass(frozen=True)
class Dialogues:
    drops: tuple[ChangeView, ...]
    gains: tuple[ChangeView, ...]


@dataclass(frozen=True)
class Reader:
    """Reads responses of the two runs; ids are the baseline's first."""

    browser: ResultBrowser
    project: str
    ids: tuple[str, str]
    names: Mapping[str, str]

    async def read(self, changes: Changes) -> Dialogues:
        """The largest drops and gains with their texts."""
        drops, gains = changes.drops[:MOST_SHOWN], changes.gains[:MOST_SHOWN]
        before = await self._read_side(self.ids[0], [change.baseline for change in (*drops, *gains)])
        after = await self._read_side(self.ids[1], [change.candidate for change in (*drops, *gains)])
        views = [
            ChangeView(
                change.item,
                change.difference,
                changes.unit,
                describe_side(self.ids[0], change.baseline, before),
                describe_side(self.ids[1], change.candidate, after),
                tuple(list_values(change, self.names)),
            )
            for change in (*drops, *gains)
        ]
        return Dialogues(tuple(views[: len(drops)]), tuple(views[len(drops) :]))

    async def _read_side(self, batch_id: str, sides: Sequence[ItemSide]) -> Mapping[int, Browsed]:
        """The first response of each, by its position."""
        positions = [position for side in sides if (position := position_of(side)) is not None]
        return {found.entry.position: found for found in await self.browser.read(self.project, batch_id, positions)}


def position_of(side: ItemSide) -> int | None:
    """Where the first of its responses stands."""
    return next((place.position for place in side.responses), None)


def describe_side(batch_id: str, side: ItemSide, found: Mapping[int, Browsed]) -> SideView:
    """The side as the page shows it; without texts where they were erased meanwhile."""
    position = position_of(side)
    if position is None or position not in found:
        return SideView(None, None, None, side.count)
    candidate = found[position].candidate
    utterance = candidate.context[-1] if candidate.context else None
    return SideView(candidate.response, utterance, f"/runs/{batch_id}/items/{position}", side.count)


def list_values(change: ItemChange, names: Mapping[str, str]) -> Sequence[ValueView]:
    """The item's values by measure."""
    return [
        ValueView(names.get(name, name), before, change.candidate.values.get(name), change.differences.get(name))
        for name, before in change.baseline.values.items()
    ]
