"""A `Telemetry` that remembers what it was told."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.evaluation import Usage
from app.ports import FlowFigures, Outcome


class FakeTelemetry:
    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def cache(self, call: str, outcome: Outcome) -> None:
        self.told.append(("cache", call, outcome))

    def judged(self, kind: str, usage: Usage, seconds: float) -> None:
        self.told.append(("judged", kind, str(usage.judge_calls)))

    def evaluated(self, rubric: str, status: str, seconds: float) -> None:
        self.told.append(("evaluated", rubric, status))

    def warned(self, code: str) -> None:
        self.told.append(("warned", code))

    def batch_item(self, status: str, code: str) -> None:
        self.told.append(("batch_item", status, code))

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int) -> None:
        self.told.append(("backlog", str(candidates), str(jobs)))

    def holding(self, chunks: int) -> None:
        self.told.append(("holding", str(chunks)))

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        self.look = look
