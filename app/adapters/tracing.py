"""OpenTelemetry traces over OTLP. Imported only where they are on; the standard OTEL_* variables say where to and how
many."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from opentelemetry import propagate, trace
from opentelemetry.environment_variables import OTEL_PROPAGATORS
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.sqlalchemy import SQLAlchemyInstrumentor
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.traces.propagation import BareTraceContext
from app.adapters.traces.sampling import LedSampler
from app.adapters.traces.scrubbing import OWN, ScrubbingExporter
from app.log_context import about

FLUSH_SECONDS = 3.0
"""So long the last spans are waited for at the end: a collector that is away must not hold up a stop."""

EXCLUDED = "OTEL_PYTHON_FASTAPI_EXCLUDED_URLS"
PROBES = "/(livez|readyz|metrics)$"
IDS = ("request_id", "batch_id", "chunk", "position")
"""What a span takes over from the log's context."""


class TracedSpan:
    """Fills `ports.Span`."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, **ids: str | int | bool) -> None:
        self._span.set_attributes({OWN + name: value for name, value in ids.items()})


class SpanIds(logging.Filter):
    """Gives every record the ids of the span that it was logged in."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            record.trace_id = trace.format_trace_id(context.trace_id)
            record.span_id = trace.format_span_id(context.span_id)
        return True


class Tracing:
    """Records what requests and batches lead to, and sends it on in the background.

    `version` is Saiten's. `exporter` is OTLP over HTTP, as OTEL_EXPORTER_OTLP_* say, unless another is given.
    """

    def __init__(self, version: str, exporter: SpanExporter | None = None) -> None:
        own = Resource({"service.name": "saiten", "service.version": version})
        # What the operator's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes last, and holds.
        resource = Resource.create().merge(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.sampler = LedSampler(self._provider.sampler)
        self._provider.add_span_processor(BatchSpanProcessor(ScrubbingExporter(exporter or OTLPSpanExporter())))
        self._tracer = self._provider.get_tracer("saiten", version)
        self._log_ids = SpanIds()
        self._handlers: list[logging.Handler] = []

    def watch_application(self, application: FastAPI) -> None:
        """A span for each request; to be told before the application is called for the first time."""
        FastAPIInstrumentor.instrument_app(
            application,
            tracer_provider=self._provider,
            excluded_urls=os.environ.get(EXCLUDED, PROBES),
            exclude_spans=["receive", "send"],
        )

    def watch(self, engine: AsyncEngine) -> None:
        """Spans for statements of this engine, for Redis and for calls of the judge; ids in log records."""
        if OTEL_PROPAGATORS not in os.environ:
            propagate.set_global_textmap(BareTraceContext())
        # It names SQLAlchemy below 2.1 and works with 2.1 too: it stands on the engine's events, which are the same.
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
        """A step of Saiten's own, with the ids that the log has too."""
        known = {key: value for key, value in about.get().items() if key in IDS and isinstance(value, str | int)}
        with self._tracer.start_as_current_span(name) as span:
            traced = TracedSpan(span)
            traced.note(**{**known, **ids})
            yield traced

    async def close(self) -> None:
        """Undoes `watch`, and sends what is left, for a while."""
        for instrumentor in (SQLAlchemyInstrumentor(), RedisInstrumentor(), AioHttpClientInstrumentor()):
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
        for handler in self._handlers:
            handler.removeFilter(self._log_ids)
        # The SDK would wait for 30 s, which is longer than a whole stop may take; a daemon ends with the process.
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, FLUSH_SECONDS)
