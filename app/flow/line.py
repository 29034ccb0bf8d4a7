"""Those who wait for their turn, lane by lane."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from app.domain.errors import JudgeUnavailable, UpstreamError
from app.flow.state import CALLS_A_BATCH_CALL, batch_places
from app.providers.ports import Lane


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
    """Keeps the order of coming within a lane. Interactive calls go before batches' calls, but for the batches' minimum
    share: while both wait, every tenth call is a batch's."""

    def __init__(self) -> None:
        self._interactive: OrderedDict[Waiter, None] = OrderedDict()
        self._batch: OrderedDict[Waiter, None] = OrderedDict()
        self._passed = 0
        """Interactive calls let through since a batch's, while one waited."""

    def __len__(self) -> int:
        return len(self._interactive) + len(self._batch)

    def __iter__(self) -> Iterator[Waiter]:
        return chain(self._interactive, self._batch)

    def join(self, waiter: Waiter) -> None:
        self._lane_of(waiter)[waiter] = None

    def leave(self, waiter: Waiter) -> None:
        self._lane_of(waiter).pop(waiter, None)

    def admit(self, waiter: Waiter) -> None:
        """The call is let through."""
        self.leave(waiter)
        self._passed = self._passed + 1 if waiter.lane == "interactive" and self._batch else 0

    def next(self, places: int, in_flight: int) -> tuple[list[Waiter], int]:
        """Those for whom there is room, the first to be let through first, and how many of them, from the first, may
        take every place."""
        interactive, batch = waiting(self._interactive), waiting(self._batch)
        first: list[Waiter] = []
        passed = self._passed
        while len(first) < places - in_flight:
            due = next(batch, None) if passed >= CALLS_A_BATCH_CALL - 1 else None
            waiter = due or next(interactive, None)
            if waiter is None:
                break
            passed = 0 if due else passed + 1
            first.append(waiter)
        free = batch_places(places) - in_flight - len(first)
        return [*first, *islice(batch, max(0, free))], len(first)

    def _lane_of(self, waiter: Waiter) -> OrderedDict[Waiter, None]:
        return self._interactive if waiter.lane == "interactive" else self._batch


def waiting(lane: Iterable[Waiter]) -> Iterator[Waiter]:
    """Those who were not refused a moment ago, and have not gone away."""
    return (waiter for waiter in lane if not waiter.turn.done())


def copy_refusal(refusal: UpstreamError) -> UpstreamError:
    """The same for somebody else: without the words that answered another's dialogue."""
    return type(refusal)(refusal.loggable)
