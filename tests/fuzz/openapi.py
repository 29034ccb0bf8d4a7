"""Schemathesis over the OpenAPI document of a running service: what it says and what the service does are one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.engine import events, from_schema

from tests.support.waiting import LIMIT_SECONDS

PHASES = ("examples", "coverage", "fuzzing", "stateful")


@dataclass
class Tally:
    """What came of a run. `failures` are the distinct ones, with the request that shows each."""

    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.statuses.total()

    @property
    def server_errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if status >= 500)

    def report(self) -> str:
        classes = Counter({f"{status // 100}xx": 0 for status in self.statuses})
        for status, count in self.statuses.items():
            classes[f"{status // 100}xx"] += count
        lines = [
            f"{self.cases} cases over {len(self.operations)} operations, {self.checks.total()} checks",
            "by class: " + ", ".join(f"{name} {count}" for name, count in sorted(classes.items())),
            "by status: " + ", ".join(f"{status} {count}" for status, count in sorted(self.statuses.items())),
            f"failures: {len(self.failures)}, errors: {len(self.errors)}",
        ]
        return "\n".join([*lines, *(f"- {shown}" for shown in self.failures.values()), *self.errors])


def configure(base_url: str, *, examples: int, seed: int, phases: Sequence[str], workers: int = 1) -> Any:
    """Schemathesis's configuration: every check but one, and the same cases for the same seed."""
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "base-url": base_url,
            "workers": workers,
            "continue-on-failure": True,
            "request-timeout": LIMIT_SECONDS,
            # Events of a paused batch never end.
            "max-stream-events": 1,
            "generation": {"max-examples": examples, "deterministic": True, "no-shrink": True, "database": "none"},
            "phases": {name: {"enabled": name in phases} for name in PHASES},
            # What fits the schema may still mean nothing: a batch that does not exist, an analysis without a rater.
            "checks": {"positive_data_acceptance": {"enabled": False}},
            "suppress-health-check": ["all"],
            "warnings": False,
        }
    )


def run(base_url: str, *, examples: int, seed: int = 1, phases: Sequence[str] = PHASES, workers: int = 1) -> Tally:
    """Asks the service at `base_url` so many times an operation and phase, and checks each answer."""
    register_texts()
    config = configure(base_url, examples=examples, seed=seed, phases=phases, workers=workers)
    schema = schemathesis.openapi.from_url(f"{base_url}/openapi.json", config=config, timeout=LIMIT_SECONDS)
    schema.validate()
    tally = Tally()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            count(tally, event.recorder)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            tally.errors.append(describe(event))
    return tally


def describe(event: Any) -> str:
    if isinstance(event, events.FatalError):
        return f"fatal: {event.exception!r}"
    return f"{event.label}: {event.value!r}"[:500]


def count(tally: Tally, recorder: Any) -> None:
    """Adds one scenario's answers and failures."""
    for case_id, interaction in recorder.interactions.items():
        if interaction.response is None:
            tally.errors.append(f"no answer: {interaction.request.method} {interaction.request.uri}"[:300])
            continue
        tally.statuses[interaction.response.status_code] += 1
        tally.operations[recorder.cases[case_id].value.operation.label] += 1
    for case_id, checks in recorder.checks.items():
        for check in checks:
            tally.checks[check.name] += 1
            if check.failure_info is not None:
                failure = check.failure_info.failure
                label = recorder.cases[case_id].value.operation.label
                shown = f"{label}: {check.name}: {failure.title}: {failure.message}\n  {check.failure_info.code_sample}"
                tally.failures.setdefault(f"{label} {check.name} {failure.title}", shown[:2000])


def register_texts() -> None:
    """Bodies that are lines or tables are sent as the text that they are."""

    @schemathesis.serializer("application/x-ndjson", "text/csv")  # type: ignore[untyped-decorator]
    def send_text(_: Any, value: Any) -> bytes:
        return value.encode("utf-8", "replace") if isinstance(value, str) else bytes(str(value), "utf-8")

    @schemathesis.serializer("application/x-protobuf", "application/vnd.apache.parquet")  # type: ignore[untyped-decorator]
    def send_bytes(_: Any, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        data = getattr(value, "data", None)  # of a generated binary
        return data if isinstance(data, bytes) else str(value).encode("utf-8", "replace")
