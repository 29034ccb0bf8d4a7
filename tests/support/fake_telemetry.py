"""A `Telemetry` that remembers what it was told."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from saiten_server.core.evaluation import Usage
from saiten_server.platform.telemetry import CacheOutcome, FlowFigures, Span, Telemetry


class FakeSpan(Span):
    def __init__(self, name: str, **ids: str | int | bool) -> None:
        self.name = name
        self.ids = ids

    def note(self, **ids: str | int | bool) -> None:
        self.ids |= ids


class FakeTelemetry(Telemetry):
    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.spans: list[FakeSpan] = []

    def cache(self, call: str, outcome: CacheOutcome) -> None:
        self.told.append(("cache", call, outcome))

    def left_to_others(self) -> None:
        self.told.append(("left to others",))

    def judged(self, kind: str, usage: Usage, seconds: float) -> None:
        self.told.append(("judged", kind, str(usage.judge_calls)))

    def evaluated(self, rubric: str, status: str, seconds: float) -> None:
        self.told.append(("evaluated", rubric, status))

    def warned(self, code: str) -> None:
        self.told.append(("warned", code))

    def batch_item(self, status: str, code: str) -> None:
        self.told.append(("batch_item", status, code))

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        self.told.append(("backlog", str(candidates), str(jobs)))

    def holding(self, chunks: int) -> None:
        self.told.append(("holding", str(chunks)))

    def paused(self, batches: Mapping[str, int]) -> None:
        self.told.append(("paused", *(f"{reason}={count}" for reason, count in sorted(batches.items()))))

    def encoder_failed(self) -> None:
        self.told.append(("encoder_failed",))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self.told.append(("answered", route, method, str(status)))

    def limited(self, limit: str) -> None:
        self.told.append(("limited", limit))

    def gated(self, verdict: str) -> None:
        self.told.append(("gated", verdict))

    def checked(self, verdict: str) -> None:
        self.told.append(("checked", verdict))

    def dealt_with(self, policy: str) -> None:
        self.told.append(("dealt_with", policy))

    @contextmanager
    def span(self, name: str, **ids: str | int | bool) -> Iterator[FakeSpan]:
        self.spans.append(FakeSpan(name, **ids))
        yield self.spans[-1]

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        self.look = look
