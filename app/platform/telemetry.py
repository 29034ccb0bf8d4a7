"""Prometheus metrics and JSON logs. Their labels and fields never hold a caller's text."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from saiten_server.core.errors import SaitenError
from saiten_server.core.evaluation import Usage

NO_FIELDS: Mapping[str, object] = MappingProxyType({})

about: ContextVar[Mapping[str, object]] = ContextVar("about", default=NO_FIELDS)
"""The ids of this task and of those it starts, by the names that the log gives them."""


@contextmanager
def working_on(**ids: object) -> Iterator[None]:
    """Adds these ids to all records logged inside the block, also by tasks that are started in it."""
    token = about.set({**about.get(), **ids})
    try:
        yield
    finally:
        about.reset(token)


DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
RECORD_FIELDS = (
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
"""Fields of a record beside its message: ids, codes and figures of Saiten, and names given by operators."""

ENCODER = json.JSONEncoder(ensure_ascii=False)
"""Created once: `json.dumps` would create one per record."""

PLAIN_ERRORS = (AttributeError, ImportError, NameError, RecursionError, TypeError)
"""Errors whose messages describe the program and quote no input."""

OWN_LOGGERS = ("saiten", "saiten_server")
"""First parts of the names of Saiten's own loggers."""

CacheOutcome = Literal["hit", "miss"]


@dataclass(frozen=True)
class FlowFigures:
    """The current state of flow control in one process. `limit` is how many calls the process may have in flight,
    `waiting` how many calls wait for their turn, and `closed_seconds` for how long no call may be made."""

    limit: int
    in_flight: int
    waiting: int
    closed_seconds: float


FLOW: tuple[tuple[str, str, Callable[[FlowFigures], float]], ...] = (
    ("saiten_judge_concurrency_limit", "Judge calls that this process may make at once", lambda now: now.limit),
    ("saiten_judge_calls_in_flight", "Judge calls under way", lambda now: now.in_flight),
    ("saiten_judge_calls_waiting", "Judge calls that wait for their turn", lambda now: now.waiting),
    ("saiten_judge_closed_seconds", "For how long the judge may not be called", lambda now: now.closed_seconds),
)
"""Gauges of flow control, computed whenever they are read, because they change with time."""


METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods that are counted by name; all others, which a caller may invent, are counted as `OTHER`."""

Metric = TypeVar("Metric", Counter, Histogram)

VERDICTS = ("pass", "fail", "inconclusive")
CHECKS = ("steady", "moved", "recorded")


class Series(dict[tuple[object, ...], Metric]):
    """A metric's series by label values, in the order of the label names. They are cached because a request updates a
    dozen of them, and `labels` converts the values and takes a lock."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self._metric: Metric = metric

    def __missing__(self, values: tuple[object, ...]) -> Metric:
        found: Metric = self._metric.labels(*values)
        self[values] = found
        return found


class Span:
    """A step of a trace that has begun; this one records nothing."""

    def note(self, **ids: str | int | bool) -> None:
        """Adds ids and figures that were not known at the start; never a text."""


def open_no_span(name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
    """Opens spans if tracing is off."""
    return nullcontext(Span())


class Telemetry:
    """Counts, durations and traces for the operator. It never receives a text. The registry is injected so that each
    service and each test has its own, and so is the function that opens a span."""

    def __init__(
        self, registry: CollectorRegistry, open_span: Callable[..., AbstractContextManager[Span]] = open_no_span
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
        self._reached = gauge("saiten_queue_up", "Whether the queue answers and takes jobs, 1 or 0")
        self._reached.set(1)
        self._chunks = gauge("saiten_worker_chunks", "Chunks that this process works on")
        self._clock = gauge("saiten_clock_difference_seconds", "How far this clock is ahead of the database's")
        self._paused = gauge("saiten_batches_paused", "Batches that are paused", ["reason"])
        self._unmeasured = Counter("saiten_encoder_failures", "Similarities that are missing", registry=registry)
        self._others = Counter(
            "saiten_rubric_mismatches", "Jobs left to others: another rubric file", registry=registry
        )
        self._requests = count("saiten_http_requests", "Requests answered", "route", "method", "status")
        self._answering = time("saiten_http_request_seconds", "Time of a request", "route")
        self._limited = count("saiten_limited_requests", "Requests turned away", "limit")
        self._gates = count("saiten_gates", "Gates answered", "verdict")
        self._checks = count("saiten_judge_checks", "Judges compared with the anchors", "verdict")
        self._suspected = count("saiten_suspected_dialogues", "Dialogues that look like an attack, by policy", "policy")
        self._monitored = count("saiten_monitor_conversations", "Conversations that monitors saw", "outcome")
        self._unscored = gauge("saiten_monitor_waiting_conversations", "Sampled conversations without a result")
        self._alarms = gauge("saiten_monitor_alarms", "Alarms that are on", ["monitor"])
        self._halvings = gauge("saiten_monitor_halvings", "How often a budget halves the rates today", ["monitor"])
        self._outbox = gauge("saiten_monitor_outbox_items", "Results and alarms that wait to be sent")
        self._unsent = gauge("saiten_monitor_outbox_age_seconds", "Age of the oldest that waits to be sent")
        self._sent = count("saiten_monitor_sent", "What became of what was sent", "kind", "outcome")
        self._spans = count("saiten_traces_spans", "Spans of live conversations, by what became of them", "outcome")
        self._span_bytes = Counter("saiten_traces_received_bytes", "Bodies with spans, as they came", registry=registry)
        self._unread = Counter("saiten_traces_unread_spans", "Spans that no convention reads", registry=registry)
        self._live = gauge("saiten_traces_conversations", "Live conversations that are kept", ["state"])
        # Prometheus sees no increase in the first value of a series, so these few series start at 0.
        for verdict in VERDICTS:
            self._gates[verdict,]
        for verdict in CHECKS:
            self._checks[verdict,]
        self._sent["webhook", "refused"]
        self.conversations({})

    @staticmethod
    def _count(registry: CollectorRegistry, name: str, about: str, *labels: str) -> Series[Counter]:
        return Series(Counter(name, about, labels, registry=registry))

    @staticmethod
    def _time(registry: CollectorRegistry, name: str, about: str, label: str) -> Series[Histogram]:
        return Series(Histogram(name, about, [label], buckets=DURATION_BUCKETS, registry=registry))

    def cache(self, call: str, outcome: CacheOutcome) -> None:
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
        """Counts a result of a batch; `code` says why it failed and is otherwise empty."""
        self._items[status, code].inc()

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        """Sets the number of candidates without a result, the age of the oldest of their batches, and the jobs on the
        queue (None if the queue cannot be reached)."""
        self._backlog.set(candidates)
        self._oldest.set(oldest_seconds)
        self._reached.set(jobs is not None)
        if jobs is not None:
            self._depth.set(jobs)

    def holding(self, chunks: int) -> None:
        self._chunks.set(chunks)

    def paused(self, batches: Mapping[str, int]) -> None:
        """Sets how many batches are paused, by `pause_reason`."""
        # Cleared so that a reason that no longer applies does not keep its last value.
        self._paused.clear()
        for reason, count in batches.items():
            self._paused.labels(reason).set(count)

    def traced(self, size: int, stored: int, rejected: Mapping[str, int], unread: int) -> None:
        """Counts a body with spans: its bytes as they came, the spans that were stored and were not there before, those
        that were rejected by the reason, and those of calls that no convention reads."""
        self._span_bytes.inc(size)
        self._unread.inc(unread)
        for outcome, spans in {"stored": stored, **rejected}.items():
            if spans:
                self._spans[outcome,].inc(spans)

    def conversations(self, states: Mapping[str, int]) -> None:
        """Sets how many live conversations there are, by state."""
        for state in ("open", "closed", "done"):
            self._live.labels(state).set(states.get(state, 0))

    def monitored(self, outcome: str) -> None:
        """Counts a conversation that a monitor saw: `sampled`, `skipped`, `thinned` or `unreadable`."""
        self._monitored[outcome,].inc()

    def monitors(self, waiting: int, alarms: Mapping[str, int], halvings: Mapping[str, int]) -> None:
        """Sets how many sampled conversations have no result, and by monitor how many alarms are on and how often its
        rates are halved."""
        self._unscored.set(waiting)
        for metric, counts in ((self._alarms, alarms), (self._halvings, halvings)):
            # Cleared so that a monitor that is gone does not keep its last value.
            metric.clear()
            for monitor, number in counts.items():
                metric.labels(monitor).set(number)

    def clock(self, ahead_seconds: float) -> None:
        """Sets how far this machine's clock is ahead of the database's."""
        self._clock.set(ahead_seconds)

    def outbox(self, waiting: int, oldest_seconds: float) -> None:
        """Sets what waits to be sent, and for how long the oldest of it has."""
        self._outbox.set(waiting)
        self._unsent.set(oldest_seconds)

    def sent(self, kind: str, outcome: Literal["sent", "refused", "unanswered"]) -> None:
        """Counts what a sink of this kind did with what it was sent."""
        self._sent[kind, outcome].inc()

    def encoder_failed(self) -> None:
        """Counts a similarity that is missing because the encoder was unavailable, failed or took too long."""
        self._unmeasured.inc()

    def left_to_others(self) -> None:
        """Counts a batch's job that this worker does not do, because its file of the rubric is another."""
        self._others.inc()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts an answered request. `route` is the route's template, never the requested address."""
        self._requests[route, method if method in METHODS else "OTHER", status].inc()
        self._answering[route,].observe(seconds)

    def limited(self, limit: str) -> None:
        """Counts a request refused by a limit: `requests`, `cost`, `evaluations` or `queue`."""
        self._limited[limit,].inc()

    def gated(self, verdict: str) -> None:
        """Counts a gate's verdict: `pass`, `fail` or `inconclusive`."""
        self._gates[verdict,].inc()

    def checked(self, verdict: str) -> None:
        """Counts a comparison of a judge with its earlier ratings of the anchors: `moved`, `steady` and so on."""
        self._checks[verdict,].inc()

    def dealt_with(self, policy: str) -> None:
        """Counts a dialogue that looks like an attack, by the policy applied: `flag`, `refuse` or `judge-twice`."""
        self._suspected[policy,].inc()

    def span(self, name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
        """Records the block as a step of the trace with these ids, if tracing is on."""
        return self._open_span(name, **ids)

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        """Registers the function that gives flow control's current figures. Call it once."""

        def figure(read: Callable[[FlowFigures], float]) -> float:
            return read(look())

        for name, description, read in FLOW:
            Gauge(name, description, registry=self.registry).set_function(partial(figure, read))


def add(counter: Counter, amount: float) -> None:
    """Adds to a counter. Adding 0, as for cached replies, takes no lock."""
    if amount:
        counter.inc(amount)


class JSONFormatter(logging.Formatter):
    """Writes one line per record. Line breaks in a message are escaped, so that no message can forge a record."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        own, ids = vars(record), about.get()
        for name in RECORD_FIELDS:
            if name in own:
                entry[name] = own[name]
            elif name in ids:
                entry[name] = ids[name]
        if record.exc_info and record.exc_info[1] is not None:
            entry["traceback"] = write_traceback(record.exc_info[1])
        return ENCODER.encode(entry)


def message_of(record: logging.LogRecord) -> str:
    """The message; for asyncio's records only the first line, because the next ones show a task with its error."""
    message = record.getMessage()
    return message.partition("\n")[0] if record.name == "asyncio" else message


def write_traceback(error: BaseException) -> str:
    """The traceback of an error and of its causes. Messages are omitted unless they are Saiten's own or describe the
    program alone, because validators and drivers quote their input."""
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
    """The error's type, with its message if that cannot hold a caller's text."""
    if isinstance(error, SaitenError):
        return f"{type(error).__name__}: {error.loggable}"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if isinstance(error, PLAIN_ERRORS) else type(error).__name__


class AnswerBrokenOff(Exception):
    """Makes the server close a connection in the middle of an answer, the only way to say that it is not complete. Why
    is in the log already."""


class OwnRecords(logging.Filter):
    """Passes Saiten's records, uvicorn's from info, and those of other libraries from warning. An allow list,
    because below warning libraries log what they send and store: drivers log statements with every value, SDKs whole
    requests. What uvicorn says of AnswerBrokenOff would be a second record of the same."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], AnswerBrokenOff):
            return False
        family = record.name.partition(".")[0]
        if family in OWN_LOGGERS:
            return True
        return record.levelno >= (logging.INFO if record.name == "uvicorn.error" else logging.WARNING)


def configure_logging(level: str) -> None:
    """Sends the process's logs to standard error as JSON lines. `level` applies to Saiten's own loggers."""
    chosen = logging.getLevelNamesMapping()[level.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter())
    # On the handler, because some SDKs set the level of their loggers from environment variables.
    handler.addFilter(OwnRecords())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, chosen))
    for name in OWN_LOGGERS:
        logging.getLogger(name).setLevel(chosen)
    logging.getLogger("uvicorn.error").setLevel(max(logging.INFO, chosen))
