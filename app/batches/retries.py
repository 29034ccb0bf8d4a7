"""When a candidate is tried again, and when it is given up: others tell its own trouble from an outage."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from app.domain.evaluation import Usage

logger = logging.getLogger("saiten.batches")

Service = Literal["judge", "translator"]

Probe = Callable[[], Awaitable[Usage | None]]
"""Asks a service about a candidate that it has served before: what that took, None where it could not be had."""

LONGEST_WAIT_SECONDS = 8.0
"""Between two rounds of a candidate: work is to be under way again 30 s after an outage at the latest."""

FIRST_WAIT_SECONDS = 0.5

MOST_STRIKES = 3
"""Rounds that a candidate may fail while others are served. A round is already several tries."""


@dataclass(eq=False)
class Trial:
    """One candidate's rounds so far. `strikes` counts the failed ones that count against it: the service had served
    another candidate since the round before, or since it was begun. `seen` is how many had been served by then."""

    rounds: int = 0
    strikes: int = 0
    seen: Counter[Service] = field(default_factory=Counter)


class RetryPolicy:
    """Decides by what one worker sees. While a service serves nobody, nobody's failures count: that is an outage.

    Where nothing but candidates in trouble is left, nobody would be served even by a sound service. Then a candidate
    that was scored before is asked about again, one at a time; what these probes took is billed to its batch.
    """

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._sleep = sleep
        self._spread = spread
        self._served: Counter[Service] = Counter()
        self._untroubled: set[Trial] = set()
        self._probing: asyncio.Task[None] | None = None
        self._bills: dict[str, Usage] = {}

    def served(self, usage: Usage) -> None:
        """A candidate was served, at this expense. What came from the cache says nothing of a service."""
        self._served["judge"] += usage.judge_calls > 0
        self._served["translator"] += usage.translated_characters > 0

    @contextmanager
    def trying(self) -> Iterator[Trial]:
        """A candidate that has not been tried yet, and is in hand inside."""
        trial = Trial(seen=self._served.copy())
        self._untroubled.add(trial)
        try:
            yield trial
        finally:
            self._untroubled.discard(trial)

    def count(self, trial: Trial, service: Service | None, batch_id: str, probe: Probe) -> bool:
        """A round failed at the service; None where it was neither's doing. Whether there is to be another round."""
        self._untroubled.discard(trial)
        trial.rounds += 1
        if service is not None:
            trial.strikes += self._served[service] > trial.seen[service]
        trial.seen = self._served.copy()
        if trial.strikes >= MOST_STRIKES:
            return False
        if service is not None and not self._untroubled and self._probing is None:
            self._probing = asyncio.create_task(self._probe(batch_id, probe))
        return True

    async def wait(self, trial: Trial) -> None:
        """Waits for the next round, exponentially longer with full jitter."""
        most_seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(trial.rounds, 10))
        await self._sleep(self._spread(0, most_seconds))

    def take_bill(self, batch_id: str) -> Usage:
        """What the batch's probes took since the last bill."""
        return self._bills.pop(batch_id, Usage())

    async def close(self) -> None:
        """Ends a probe that is under way."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})

    async def _probe(self, batch_id: str, probe: Probe) -> None:
        try:
            usage = await probe()
        except Exception:
            # The candidate's own rounds go on, and meet what there is to be met.
            logger.exception("unexpected error in a probe", extra={"batch_id": batch_id})
            usage = None
        finally:
            self._probing = None
        if usage is not None:
            self.served(usage)
            self._bills[batch_id] = self._bills.get(batch_id, Usage()) + usage
