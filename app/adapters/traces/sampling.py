"""Which spans there are: those that somebody's request or batch led to."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes


class LedSampler(Sampler):
    """Leaves out calls to database, Redis and judge that nothing led to: sweeps look every two seconds, and would be
    most of what is recorded. All else is the operator's sampler's."""

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
