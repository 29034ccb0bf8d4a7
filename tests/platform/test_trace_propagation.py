"""A caller's trace: its ids come in, and nothing else."""

from opentelemetry.trace import format_trace_id, get_current_span

from saiten_server.platform.tracing import BareTraceContext

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_ids_come_in_and_no_state() -> None:
    found = BareTraceContext().extract({"traceparent": TRACEPARENT, "tracestate": "vendor=a-text"})
    context = get_current_span(found).get_span_context()
    assert format_trace_id(context.trace_id) == TRACEPARENT.split("-")[1]
    assert context.is_remote
    assert context.trace_flags.sampled
    assert not context.trace_state
    sent: dict[str, str] = {}
    BareTraceContext().inject(sent, found)
    assert sent == {"traceparent": TRACEPARENT}


def test_what_is_no_trace_is_none() -> None:
    for given in ({}, {"traceparent": "金魚"}, {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"}):
        context = get_current_span(BareTraceContext().extract(given)).get_span_context()
        assert not context.is_valid
