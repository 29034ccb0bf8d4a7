"""What of a span leaves, and what does not: whatever an instrumentation wrote into it."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from saiten_server.platform.tracing import LedSampler, ScrubbingExporter

TEXT = "金魚鉢の水"


def record(name: str, kind: SpanKind = SpanKind.INTERNAL, error: Exception | None = None, **more: Any) -> ReadableSpan:
    """The span as it leaves."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ScrubbingExporter(kept)))
    with provider.get_tracer("a.library").start_as_current_span(name, kind=kind, **more) as span:
        span.add_event(TEXT, {"said": TEXT})
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
    [found] = kept.get_finished_spans()
    return found


def test_only_what_may_leave_does() -> None:
    given = {
        "saiten.batch_id": "ba_1",
        "http.route": "/v1/info",
        "http.status_code": 200,
        "http.url": f"http://h/?text={TEXT}",
        "http.target": TEXT,
        "url.full": TEXT,
        "url.query": TEXT,
        "user_agent.original": TEXT,
        "http.request.header.authorization": (TEXT,),
        "db.user": "saiten",
        "a.new.one": TEXT,
    }
    span = record("evaluate", attributes=given)
    assert span.attributes == {"saiten.batch_id": "ba_1", "http.route": "/v1/info", "http.status_code": 200}
    assert span.events == ()


def test_of_an_error_the_kind_leaves() -> None:
    span = record("evaluate", error=ValueError(TEXT))
    assert [(event.name, event.attributes) for event in span.events] == [
        ("exception", {"exception.type": "ValueError"})
    ]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


@pytest.mark.parametrize(
    ("system", "statement", "told"),
    [
        ("sqlite", "SELECT x FROM t WHERE y = ?", "SELECT x FROM t WHERE y = ?"),
        ("postgresql", f"SELECT '{TEXT}', 'it''s', x", "SELECT '?', '?', x"),
        ("redis", f"SET key {TEXT}", None),
    ],
)
def test_a_statement_has_no_values(system: str, statement: str, told: str | None) -> None:
    span = record("SET", SpanKind.CLIENT, attributes={"db.system": system, "db.statement": statement})
    assert (span.attributes or {}).get("db.statement") == told


@pytest.mark.parametrize(
    ("name", "kind", "attributes", "told"),
    [
        (f"GET /{TEXT}", SpanKind.SERVER, {"http.method": "GET", "http.route": "/v1/info"}, "GET /v1/info"),
        (f"GET /{TEXT}", SpanKind.SERVER, {"http.method": "GET"}, "GET"),
        (TEXT, SpanKind.SERVER, {}, "HTTP"),
        ("SELECT /srv/saiten.db", SpanKind.CLIENT, {}, "SELECT"),
        ("GET SET EXPIRE", SpanKind.CLIENT, {}, "GET SET EXPIRE"),
        (TEXT, SpanKind.CLIENT, {}, "call"),
        ("evaluate", SpanKind.INTERNAL, {}, "evaluate"),
    ],
)
def test_a_name_is_made_of_what_may_leave(name: str, kind: SpanKind, attributes: dict[str, str], told: str) -> None:
    assert record(name, kind, attributes=attributes).name == told


def test_a_link_says_where_to_and_no_more() -> None:
    context = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    [link] = record("chunk", links=[Link(context, {"said": TEXT})]).links
    assert link.context == context
    assert not link.attributes


def test_calls_that_nothing_led_to_are_left_out() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.sampler = LedSampler(provider.sampler)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("a.library")
    with tracer.start_as_current_span("alone", kind=SpanKind.CLIENT):
        pass
    with tracer.start_as_current_span("chunk"), tracer.start_as_current_span("led", kind=SpanKind.CLIENT):
        pass
    assert [span.name for span in kept.get_finished_spans()] == ["led", "chunk"]
