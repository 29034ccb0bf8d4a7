"""Prometheus metrics and JSON logs. Labels are Saiten's own words; no caller text ever reaches them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.domain.evaluation import Usage
from app.ports import Outcome

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
    "replies",
)
OWN = ("saiten", "app")
"""First names of Saiten's own loggers."""


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


class JSONFormatter(logging.Formatter):
    """One record, one line: a line break in a message is escaped, so nobody can forge a second record."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


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
