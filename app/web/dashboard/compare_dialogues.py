"""The dialogues to read of a comparison: the few that changed most, with both responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.browse_ports import Browsed, ResultBrowser, ResultQuery
from app.domain.comparison_view import Changes, ItemChange, ItemSide, Unit
from app.domain.dialogue import Utterance
from app.web.dashboard.item_order import find_offset

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
        drops = [await self._read_change(change, changes.unit) for change in changes.drops[:MOST_SHOWN]]
        gains = [await self._read_change(change, changes.unit) for change in changes.gains[:MOST_SHOWN]]
        return Dialogues(tuple(drops), tuple(gains))

    async def _read_change(self, change: ItemChange, unit: Unit) -> ChangeView:
        baseline = await self._read_side(self.ids[0], change.baseline)
        candidate = await self._read_side(self.ids[1], change.candidate)
        return ChangeView(
            change.item, change.difference, unit, baseline, candidate, tuple(list_values(change, self.names))
        )

    async def _read_side(self, batch_id: str, side: ItemSide) -> SideView:
        position = next((place.position for place in side.responses), None)
        found = None if position is None else await self._find(batch_id, position)
        if found is None:
            return SideView(None, None, None, side.count)
        context = found.candidate.context
        return SideView(
            found.candidate.response,
            context[-1] if context else None,
            f"/runs/{batch_id}/items/{position}",
            side.count,
        )

    async def _find(self, batch_id: str, position: int) -> Browsed | None:
        """The result at the position. In a complete run it is result number `position`; else it stands earlier."""
        for step in (None, find_offset):
            offset = position if step is None else await step(self.browser, self.project, batch_id, position)
            page = await self.browser.browse(self.project, batch_id, ResultQuery(), offset=offset, limit=1)
            if page.rows and page.rows[0].entry.position == position:
                return page.rows[0]
        return None


def list_values(change: ItemChange, names: Mapping[str, str]) -> Sequence[ValueView]:
    """The item's values by measure."""
    return [
        ValueView(names.get(name, name), before, change.candidate.values.get(name), change.differences.get(name))
        for name, before in change.baseline.values.items()
    ]
