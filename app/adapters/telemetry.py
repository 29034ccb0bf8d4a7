"""Prometheus metrics and JSON logs. Labels are Saiten's own words; no caller text ever reaches them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.domain.errors import SaitenError
from app.domain.evaluation import Usage
from app.log_context import about
from app.ports import FlowFigures, Outcome

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
FIELDS = (
    "request_id",
    "method",
    "path",
    "status",
    "seconds",
    "code",
    "evaluation_id",
    "batch_id",
    "position",
    "chunk",
    "candidates",
    "part",
    "provider_batch_id",
    "kind",
    "asked",
    "answered",
)
"""What a record may carry beside its message: Saiten's own ids and figures."""

PLAIN_ERRORS = (AttributeError, ImportError, NameError, RecursionError, TypeError)
"""Errors that speak of the program alone."""

OWN = ("saiten", "app")
"""First names of Saiten's own loggers."""


FLOW: tuple[tuple[str, str, Callable[[FlowFigures], float]], ...] = (
    ("saiten_judge_concurrency_limit", "Judge calls that this process may make at once", lambda now: now.limit),
    ("saiten_judge_calls_in_flight", "Judge calls under way", lambda now: now.in_flight),
    ("saiten_judge_calls_waiting", "Judge calls that wait for their turn", lambda now: now.waiting),
    ("saiten_judge_closed_seconds", "For how long nobody may call the judge", lambda now: now.closed_seconds),
)
"""Gauges of flow control, which is asked when they are read: a second that passes changes them too."""


class PrometheusTelemetry:
    """Fills `ports.Telemetry`. The registry is passed in, so that each service and each test has its own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._cache = Counter(
            "saiten_call_cache", "Outside calls by cache outcome", ["call", "outcome"], registry=registry
        )
        self._calls = Counter("saiten_judge_calls", "Judge calls made", ["judge"], registry=registry)
        self._tokens = Counter("saiten_judge_tokens", "Judge tokens spent", ["judge", "kind"], registry=registry)
        self._cost = Counter(
            "saiten_judge_cost_usd", "Judge cost where the price is known", ["judge"], registry=registry
        )
        self._judging = Histogram(
            "saiten_judgement_seconds", "Time of a judgement", ["judge"], buckets=SECONDS, registry=registry
        )
        self._evaluations = Counter("saiten_evaluations", "Evaluations made", ["rubric", "status"], registry=registry)
        self._evaluating = Histogram(
            "saiten_evaluation_seconds", "Time of an evaluation", ["rubric"], buckets=SECONDS, registry=registry
        )
        self._warnings = Counter("saiten_warnings", "Warnings given", ["code"], registry=registry)

        self._items = Counter(
            "saiten_batch_items", "Candidates of batches with a result", ["status", "code"], registry=registry
        )
        self._backlog = Gauge("saiten_batch_backlog_items", "Candidates of batches without a result", registry=registry)
        self._oldest = Gauge(
            "saiten_batch_backlog_age_seconds", "Age of the oldest unfinished batch", registry=registry
        )
        self._depth = Gauge("saiten_queue_jobs", "Jobs that wait on the queue", registry=registry)
        self._chunks = Gauge("saiten_worker_chunks", "Chunks that this process works on", registry=registry)

    def cache(self, call: str, outcome: Outcome) -> None:
        self._cache.labels(call, outcome).inc()

    def judged(self, kind: str, usage: Usage, seconds: float) -> None:
        self._calls.labels(kind).inc(usage.judge_calls)
        self._tokens.labels(kind, "prompt").inc(usage.prompt_tokens)
        self._tokens.labels(kind, "cached").inc(usage.cached_tokens)
        self._tokens.labels(kind, "completion").inc(usage.completion_tokens)
        self._cost.labels(kind).inc(usage.cost_usd or 0.0)
        self._judging.labels(kind).observe(seconds)

    def evaluated(self, rubric: str, status: str, seconds: float) -> None:
        self._evaluations.labels(rubric, status).inc()
        self._evaluating.labels(rubric).observe(seconds)

    def warned(self, code: str) -> None:
        self._warnings.labels(code).inc()

    def batch_item(self, status: str, code: str) -> None:
        self._items.labels(status, code).inc()

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int) -> None:
        self._backlog.set(candidates)
        self._oldest.set(oldest_seconds)
        self._depth.set(jobs)

    def holding(self, chunks: int) -> None:
        self._chunks.set(chunks)

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        for name, told, read in FLOW:
            Gauge(name, told, registry=self.registry).set_function(partial(figure_of, look, read))


def figure_of(look: Callable[[], FlowFigures], read: Callable[[FlowFigures], float]) -> float:
    """One figure as it is now."""
    return read(look())


class JSONFormatter(logging.Formatter):
    """One record, one line: a line break in a message is escaped, so nobody can forge a second record."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        known = {**about.get(), **vars(record)}
        entry |= {name: known[name] for name in FIELDS if name in known}
        if record.exc_info and record.exc_info[1] is not None:
            entry["traceback"] = write_traceback(record.exc_info[1])
        return json.dumps(entry, ensure_ascii=False)


def message_of(record: logging.LogRecord) -> str:
    """The message. Of asyncio's the first line: below it stands a task with what its error says."""
    message = record.getMessage()
    return message.partition("\n")[0] if record.name == "asyncio" else message


def write_traceback(error: BaseException) -> str:
    """Where an error came from, and those that led to it. What they say is left out unless it is Saiten's own or speaks
    of the program alone: validators and drivers quote what they were given."""
    parts: list[str] = []
    seen: set[int] = set()
    last: BaseException | None = error
    while last is not None and id(last) not in seen:
        seen.add(id(last))
        frames = "".join(traceback.format_tb(last.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{name_error(last)}")
        if isinstance(last, BaseExceptionGroup):
            parts += [write_traceback(one) for one in last.exceptions]
        last = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
    return "\n\nIt led to:\n\n".join(reversed(parts))


def name_error(error: BaseException) -> str:
    """The error's type, with what it says where no caller's text can be in it."""
    if isinstance(error, SaitenError):
        return f"{type(error).__name__}: {error.loggable}"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if isinstance(error, PLAIN_ERRORS) else type(error).__name__


class OwnRecords(logging.Filter):
    """Lets Saiten's records through, uvicorn's from info, and everybody else's from warning.

    A list of whom to hear, not of whom to silence: below warning, libraries log what they send and store (drivers their
    statements with every value, SDKs whole requests), and the next one would not be on a list.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        family = record.name.partition(".")[0]
        if family in OWN:
            return True
        return record.levelno >= (logging.INFO if record.name == "uvicorn.error" else logging.WARNING)


def configure_logging(level: str) -> None:
    """Sends the process's logs to standard error as JSON lines; `level` is for Saiten's own."""
    chosen = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter())
    # On the handler: some SDKs set their loggers' level themselves, by an environment variable of theirs.
    handler.addFilter(OwnRecords())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, chosen))
    for name in OWN:
        logging.getLogger(name).setLevel(chosen)
    logging.getLogger("uvicorn.error").setLevel(max(logging.INFO, chosen))
