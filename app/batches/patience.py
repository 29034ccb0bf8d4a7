"""Tells a judge that is down, for which everybody waits, from a candidate that it cannot take."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

LONGEST_WAIT_SECONDS = 8.0
"""Between two rounds of a candidate: work is to be under way again 30 s after an outage at the latest."""

FIRST_WAIT_SECONDS = 0.5

MOST_STRIKES = 3
"""Rounds that a candidate may fail while others succeed. A round is already several tries."""


@dataclass
class Trial:
    """One candidate's rounds so far. `strikes` counts those during which another candidate fared well."""

    rounds: int = 0
    strikes: int = 0
    seen: int = 0


class Patience:
    """Counts successes of one worker. While nobody succeeds, nobody's failures count: that is an outage."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._sleep = sleep
        self._spread = spread
        self._successes = 0

    def succeeded(self) -> None:
        """A candidate was scored."""
        self._successes += 1

    def begin(self) -> Trial:
        """A candidate that has not been tried yet."""
        return Trial(seen=self._successes)

    async def wait(self, trial: Trial) -> bool:
        """Waits for the next round, exponentially longer with full jitter; False where there is to be none."""
        trial.rounds += 1
        if self._successes > trial.seen:
            trial.strikes += 1
        if trial.strikes >= MOST_STRIKES:
            return False
        most_seconds = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(trial.rounds, 10))
        await self._sleep(self._spread(0, most_seconds))
        trial.seen = self._successes
        return True
