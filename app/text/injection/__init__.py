"""Suspected attacks on the judge: what in an untrusted text is addressed to whoever scores it."""

from app.text.injection.inspection import Finding, Kind, inspect_dialogue, inspect_text
from app.text.injection.masking import Budget, Span, find_spans, without

__all__ = ["Budget", "Finding", "Kind", "Span", "find_spans", "inspect_dialogue", "inspect_text", "without"]
