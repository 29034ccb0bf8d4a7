"""A `Spending` in memory, held to the same contract as the real one."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime


class FakeSpending:
    """`costs` are in USD, by key and day (UTC)."""

    def __init__(self) -> None:
        self.costs: defaultdict[tuple[str, date], float] = defaultdict(float)

    async def spent_usd(self, key_id: str, now: datetime) -> float:
        return self.costs[key_id, now.astimezone(UTC).date()]

    async def charge(self, key_id: str, cost_usd: float, now: datetime) -> None:
        self.add(key_id, cost_usd, now)

    async def close(self) -> None: ...

    def add(self, key_id: str, cost_usd: float, now: datetime) -> None:
        self.costs[key_id, now.astimezone(UTC).date()] += max(0.0, cost_usd)
