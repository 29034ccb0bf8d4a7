"""Those who wait for their turn, lane by lane."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from app.domain.errors import JudgeUnavailable, UpstreamError
from app.flow.state import batch_places
from app.ports import Lane


@dataclass(eq=False)
class Waiter:
    """A call that waits. `expected` are its tokens as foretold, `reserved` as reckoned with; `ends_at` is the moment,
    by flow control's clock, at which it gives up."""

    lane: Lane
    expected: int
    reserved: int
    ends_at: float
    turn: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def admitted(self) -> bool:
        return self.turn.done() and not self.turn.cancelled() and self.turn.exception() is None

    def refuse(self, error: BaseException) -> None:
        if not self.turn.done():
            self.turn.set_exception(error)

    def heed_closing(self, opens_at: float, now: float) -> None:
        """Refuses the call at once where nobody may call until after it would give up."""
        if now < opens_at and self.ends_at < opens_at:
            seconds = opens_at - now
            told = f"the judge asked for no calls for another {seconds:.0f} s"
            self.refuse(JudgeUnavailable(told, retry_after_seconds=seconds))


class Line:
    """Keeps the order of coming within a lane. Interactive calls are before all batches' calls."""

    def __init__(self) -> None:
        self._interactive: OrderedDict[Waiter, None] = OrderedDict()
        self._batch: OrderedDict[Waiter, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._interactive) + len(self._batch)

    def __iter__(self) -> Iterator[Waiter]:
        return chain(self._interactive, self._batch)

    def join(self, waiter: Waiter) -> None:
        self._lane_of(waiter)[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._lane_of(waiter).pop(waiter, None)

    def next(self, places: int, in_flight: int) -> list[Waiter]:
        """Those for whom there is room, the first to be let through first."""
        interactive = [*islice(waiting(self._interactive), max(0, places - in_flight))]
        free = batch_places(places) - in_flight - len(interactive)
        return [*interactive, *islice(waiting(self._batch), max(0, free))]

    def _lane_of(self, waiter: Waiter) -> OrderedDict[Waiter, None]:
        return self._interactive if waiter.lane == "interactive" else self._batch


def waiting(lane: Iterable[Waiter]) -> Iterator[Waiter]:
    """Those who were not refused a moment ago, and have not gone away."""
    return (waiter for waiter in lane if not waiter.turn.done())


def copy_refusal(refusal: UpstreamError) -> UpstreamError:
    """The same for somebody else: without the words that answered another's dialogue."""
    return type(refusal)(refusal.loggable)
