"""Prometheus metrics and JSON logs. Labels are Saiten's own words; no caller text ever reaches them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.domain.errors import SaitenError
from app.domain.evaluation import Usage
from app.runtime.log_context import about
from app.runtime.ports import FlowFigures, Outcome, Span

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
FIELDS = (
    "request_id",
    "trace_id",
    "span_id",
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
    "scored",
    "partial",
    "failed",
    "project",
    "actor",
    "action",
    "target",
    "texts",
    "records",
)
"""What a record may carry beside its message: Saiten's own ids, words and figures, and names that operators gave."""

ENCODER = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` would make one for each record."""

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


METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""What a request's method is counted as; every other, which a caller may make up, is `OTHER`."""

Metric = TypeVar("Metric", Counter, Histogram)

VERDICTS = ("pass", "fail", "inconclusive")
CHECKS = ("steady", "moved", "recorded")


class Series(dict[tuple[object, ...], Metric]):
    """A metric's series by their labels' values, in the order of their names.

    Remembered, since a request counts a dozen times: the client makes texts of them and takes a lock at each look.
    """

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric: Metric = metric

    def __missing__(self, values: tuple[object, ...]) -> Metric:
        found: Metric = self._metric.labels(*values)
        self[values] = found
        return found


class NoSpan:
    """A step of no trace."""

    def note(self, **ids: str | int | bool) -> None: ...


def open_no_span(name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
    """What `span` is where traces are off."""
    return nullcontext(NoSpan())


class PrometheusTelemetry:
    """Fills `ports.Telemetry`. The registry is passed in, so that each service and each test has its own; so is what
    opens a step of a trace."""

    def __init__(
        self,
        registry: CollectorRegistry,
        open_span: Callable[..., AbstractContextManager[Span]] = open_no_span,
    ) -> None:
        self.registry = registry
        self._open_span = open_span
        count, gauge = partial(self._count, registry), partial(Gauge, registry=registry)
        time = partial(self._time, registry)
        self._cache = count("saiten_call_cache", "Outside calls by cache outcome", "call", "outcome")
        self._calls = count("saiten_judge_calls", "Judge calls made", "judge")
        self._tokens = count("saiten_judge_tokens", "Judge tokens spent", "judge", "kind")
        self._cost = count("saiten_judge_cost_usd", "Judge cost where the price is known", "judge")
        self._judging = time("saiten_judgement_seconds", "Time of a judgement", "judge")
        self._evaluations = count("saiten_evaluations", "Evaluations made", "rubric", "status")
        self._evaluating = time("saiten_evaluation_seconds", "Time of an evaluation", "rubric")
        self._warnings = count("saiten_warnings", "Warnings given", "code")

        self._items = count("saiten_batch_items", "Candidates of batches with a result", "status", "code")
        self._backlog = gauge("saiten_batch_backlog_items", "Candidates of batches without a result")
        self._oldest = gauge("saiten_batch_backlog_age_seconds", "Age of the oldest unfinished batch")
        self._depth = gauge("saiten_queue_jobs", "Jobs that wait on the queue")
        self._reached = gauge("saiten_queue_up", "Whether the queue could be asked, 1 or 0")
        self._reached.set(1)
        self._chunks = gauge("saiten_worker_chunks", "Chunks that this process works on")
        self._paused = gauge("saiten_batches_paused", "Batches that are paused", ["reason"])
        self._unmeasured = Counter("saiten_encoder_failures", "Similarities that could not be had", registry=registry)
        self._requests = count("saiten_http_requests", "Requests answered", "route", "method", "status")
        self._answering = time("saiten_http_request_seconds", "Time of a request", "route")
        self._limited = count("saiten_limited_requests", "Requests turned away", "limit")
        self._gates = count("saiten_gates", "Gates answered", "verdict")
        self._checks = count("saiten_judge_checks", "Judges held against the anchors", "verdict")
        self._suspected = count("saiten_suspected_dialogues", "Dialogues that look like an attack, by policy", "policy")
        # Prometheus sees no increase in a series' first value: where there are few, they stand at 0 from the start.
        for verdict in VERDICTS:
            self._gates[verdict,]
        for verdict in CHECKS:
            self._checks[verdict,]

    @staticmethod
    def _count(registry: CollectorRegistry, name: str, about: str, *labels: str) -> Series[Counter]:
        return Series(Counter(name, about, labels, registry=registry))

    @staticmethod
    def _time(registry: CollectorRegistry, name: str, about: str, label: str) -> Series[Histogram]:
        return Series(Histogram(name, about, [label], buckets=SECONDS, registry=registry))

    def cache(self, call: str, outcome: Outcome) -> None:
        self._cache[call, outcome].inc()

    def judged(self, kind: str, usage: Usage, seconds: float) -> None:
        add(self._calls[kind,], usage.judge_calls)
        add(self._tokens[kind, "prompt"], usage.prompt_tokens)
        add(self._tokens[kind, "cached"], usage.cached_tokens)
        add(self._tokens[kind, "completion"], usage.completion_tokens)
        add(self._cost[kind,], usage.cost_usd or 0.0)
        self._judging[kind,].observe(seconds)

    def evaluated(self, rubric: str, status: str, seconds: float) -> None:
        self._evaluations[rubric, status].inc()
        self._evaluating[rubric,].observe(seconds)

    def warned(self, code: str) -> None:
        self._warnings[code,].inc()

    def batch_item(self, status: str, code: str) -> None:
        self._items[status, code].inc()

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        self._backlog.set(candidates)
        self._oldest.set(oldest_seconds)
        self._reached.set(jobs is not None)
        if jobs is not None:
            self._depth.set(jobs)

    def holding(self, chunks: int) -> None:
        self._chunks.set(chunks)

    def paused(self, batches: Mapping[str, int]) -> None:
        # Reasons that nothing is paused for any more are gone, not at their last value.
        self._paused.clear()
        for reason, count in batches.items():
            self._paused.labels(reason).set(count)

    def encoder_failed(self) -> None:
        self._unmeasured.inc()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests[route, method if method in METHODS else "OTHER", status].inc()
        self._answering[route,].observe(seconds)

    def limited(self, limit: str) -> None:
        self._limited[limit,].inc()

    def gated(self, verdict: str) -> None:
        self._gates[verdict,].inc()

    def checked(self, verdict: str) -> None:
        self._checks[verdict,].inc()

    def dealt_with(self, policy: str) -> None:
        self._suspected[policy,].inc()

    def span(self, name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
        return self._open_span(name, **ids)

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        for name, told, read in FLOW:
            Gauge(name, told, registry=self.registry).set_function(partial(figure_of, look, read))


def add(counter: Counter, amount: float) -> None:
    """Adds to a counter; nothing, as what the cache had has cost, takes no lock."""
    if amount:
        counter.inc(amount)


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
        own, ids = vars(record), about.get()
        for name in FIELDS:
            if name in own:
                entry[name] = own[name]
            elif name in ids:
                entry[name] = ids[name]
        if record.exc_info and record.exc_info[1] is not None:
            entry["traceback"] = write_traceback(record.exc_info[1])
        return ENCODER.encode(entry)


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
