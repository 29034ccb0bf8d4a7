"""Suspected attacks on the judge: what in an untrusted text is addressed to whoever scores it."""

from app.domain.untrusted.findings import Finding, Kind
from app.domain.untrusted.inspection import inspect_dialogue, inspect_text
from app.domain.untrusted.masking import Budget, Span, find_spans, without

__all__ = ["Budget", "Finding", "Kind", "Span", "find_spans", "inspect_dialogue", "inspect_text", "without"]
