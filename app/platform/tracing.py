"""OpenTelemetry traces over OTLP, configured by the standard OTEL_* variables and imported only if they are on.

A trace continues the caller's trace ids and nothing else of the caller's headers. Spans are recorded for work that a
request or batch led to. An allow list limits their attributes to ids, figures and names of Saiten, because
instrumentations record addresses, statements and error messages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastapi import FastAPI
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.environment_variables import OTEL_PROPAGATORS
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor
from opentelemetry.propagators.textmap import CarrierT, Getter, default_getter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceState,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status
from opentelemetry.util.types import Attributes, AttributeValue
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.telemetry import Span, about


class BareTraceContext(TraceContextTextMapPropagator):
    """W3C's `traceparent` without `tracestate` and `baggage`, which may hold any text and would be copied into every
    span and every call to the judge."""

    def extract(
        self, carrier: CarrierT, context: Context | None = None, getter: Getter[CarrierT] = default_getter
    ) -> Context:
        found = super().extract(carrier, context, getter)
        parent = get_current_span(found).get_span_context()
        if not parent.is_valid or not parent.trace_state:
            return found
        bare = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=parent.trace_flags)
        return set_span_in_context(NonRecordingSpan(bare), found)


class LedSampler(Sampler):
    """Drops calls to database, Redis and judge without a parent: periodic sweeps would be most of what is recorded. The
    operator's sampler decides on all other spans."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(  # noqa: PLR0917 (the SDK's own signature)
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        led = get_current_span(parent_context).get_span_context().is_valid
        if kind is SpanKind.CLIENT and not led:
            return SamplingResult(Decision.DROP)
        return self._sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"LedSampler({self._sampler.get_description()})"


OWN_PREFIX = "saiten."
"""Prefix of Saiten's own attributes."""

EXPORTED_ATTRIBUTES = frozenset(
    {
        "db.system",
        "db.system.name",
        "error.type",
        "http.method",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "http.status_code",
    }
)
"""Other attributes that are exported. No addresses: a query string is a caller's text, and a base URL may hold a
password."""

STATEMENTS = frozenset({"db.statement", "db.query.text"})
"""Exported for SQL, where values are placeholders and quoted literals are removed; not for Redis."""

SQL_STRING = re.compile(r"'(?:[^']|'')*'")
COMMANDS = re.compile(r"[A-Za-z]{1,20}(?: [A-Z]{1,20}){0,10}(?![^\s])")
MOST_ATTRIBUTE_CHARACTERS = 2000


class ScrubbingExporter(SpanExporter):
    """Exports spans without anything that may hold a text, a key or an address."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([scrub(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def scrub(span: ReadableSpan) -> ReadableSpan:
    """The span with only the allowed attributes, and only the type of an error."""
    attributes = keep_attributes(span.attributes or {})
    return ReadableSpan(
        name=span_name_of(span, attributes),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=[scrubbed for event in span.events if (scrubbed := scrub_event(event)) is not None],
        links=[Link(link.context) for link in span.links],
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def keep_attributes(attributes: object) -> dict[str, AttributeValue]:
    """The attributes that are exported."""
    given: dict[str, AttributeValue] = dict(attributes) if hasattr(attributes, "keys") else {}  # type: ignore[call-overload]
    redis = "redis" in {given.get("db.system"), given.get("db.system.name")}
    kept = {name: value for name, value in given.items() if name.startswith(OWN_PREFIX) or name in EXPORTED_ATTRIBUTES}
    for name in STATEMENTS & given.keys() if not redis else ():
        kept[name] = SQL_STRING.sub("'?'", str(given[name]))[:MOST_ATTRIBUTE_CHARACTERS]
    return kept


def span_name_of(span: ReadableSpan, attributes: dict[str, AttributeValue]) -> str:
    """Method and route of a request, the command of a database call, or the name of a Saiten span."""
    if span.kind is SpanKind.SERVER:
        method = attributes.get("http.request.method") or attributes.get("http.method") or "HTTP"
        return " ".join(str(part) for part in (method, attributes.get("http.route")) if part)
    if span.kind is SpanKind.CLIENT:
        commands = COMMANDS.match(span.name)
        return commands.group() if commands else "call"
    return span.name


def scrub_event(event: Event) -> Event | None:
    """The type of an error. Its message and the source lines of its trace may quote a text."""
    if event.name != "exception":
        return None
    kind = (event.attributes or {}).get("exception.type", "")
    return Event("exception", {"exception.type": kind}, event.timestamp)


FLUSH_SECONDS = 3.0
"""Limit for sending the last spans: an unreachable collector must not delay a stop."""

EXCLUDED = "OTEL_PYTHON_FASTAPI_EXCLUDED_URLS"
PROBES = "/(livez|readyz|metrics)$"
IDS = ("request_id", "batch_id", "chunk", "position")
"""Ids that a span takes from the log's context."""


class TracedSpan(Span):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **ids: str | int | bool) -> None:
        self._span.set_attributes({OWN_PREFIX + name: value for name, value in ids.items()})


class SpanIds(logging.Filter):
    """Adds the ids of the current span to every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            record.trace_id = trace.format_trace_id(context.trace_id)
            record.span_id = trace.format_span_id(context.span_id)
        return True


class Tracing:
    """Records the spans of requests and batches, and exports them in the background. `version` is Saiten's. `exporter`
    defaults to OTLP over HTTP, configured by OTEL_EXPORTER_OTLP_*."""

    def __init__(self, version: str, exporter: SpanExporter | None = None) -> None:
        own = Resource({"service.name": "saiten", "service.version": version})
        # The operator's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last and take precedence.
        resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.sampler = LedSampler(self._provider.sampler)
        self._provider.add_span_processor(BatchSpanProcessor(ScrubbingExporter(exporter or OTLPSpanExporter())))
        self._tracer = self._provider.get_tracer("saiten", version)
        self._log_ids = SpanIds()
        self._handlers: list[logging.Handler] = []

    def watch_application(self, application: FastAPI) -> None:
        """Records a span per request. Call it before the application receives its first request."""
        FastAPIInstrumentor.instrument_app(
            application,
            tracer_provider=self._provider,
            excluded_urls=os.environ.get(EXCLUDED, PROBES),
            exclude_spans=["receive", "send"],
        )

    def watch(self, engine: AsyncEngine) -> None:
        """Records spans for statements of this engine, for Redis and for calls to the judge, and adds ids to logs."""
        if OTEL_PROPAGATORS not in os.environ:
            propagate.set_global_textmap(BareTraceContext())
        # It requires SQLAlchemy below 2.1 but works with 2.1 too, because the engine's events are the same.
        SQLAlchemyInstrumentor().instrument(
            engine=engine.sync_engine, tracer_provider=self._provider, skip_dep_check=True
        )
        RedisInstrumentor().instrument(tracer_provider=self._provider)
        AioHttpClientInstrumentor().instrument(tracer_provider=self._provider)
        self._handlers = [*logging.getLogger().handlers]
        for handler in self._handlers:
            handler.addFilter(self._log_ids)

    @contextmanager
    def span(self, name: str, **ids: str | int | bool) -> Iterator[TracedSpan]:
        """A span of Saiten's own, with the ids of the log's context."""
        known = {key: value for key, value in about.get().items() if key in IDS and isinstance(value, str | int)}
        with self._tracer.start_as_current_span(name) as span:
            traced = TracedSpan(span)
            traced.note(**{**known, **ids})
            yield traced

    async def close(self) -> None:
        """Undoes `watch`, and sends the remaining spans within `FLUSH_SECONDS`."""
        for instrumentor in (SQLAlchemyInstrumentor(), RedisInstrumentor(), AioHttpClientInstrumentor()):
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
        for handler in self._handlers:
            handler.removeFilter(self._log_ids)
        # The SDK would wait 30 s, longer than a whole stop may take; a daemon thread ends with the process.
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, FLUSH_SECONDS)
