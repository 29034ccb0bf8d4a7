"""A caller's trace: its ids are taken over, and nothing else that a caller could write beside them."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.propagators.textmap import CarrierT, Getter, default_getter
from opentelemetry.trace import NonRecordingSpan, SpanContext, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


class BareTraceContext(TraceContextTextMapPropagator):
    """W3C's `traceparent` without `tracestate`, which is any text, and would be in every span and in calls to the
    judge; nor is there `baggage`."""

    def extract(
        self, carrier: CarrierT, context: Context | None = None, getter: Getter[CarrierT] = default_getter
    ) -> Context:
        found = super().extract(carrier, context, getter)
        parent = get_current_span(found).get_span_context()
        if not parent.is_valid or not parent.trace_state:
            return found
        bare = SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=parent.trace_flags)
        return set_span_in_context(NonRecordingSpan(bare), found)
