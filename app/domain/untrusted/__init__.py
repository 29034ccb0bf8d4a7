"""Suspected attacks on the judge: what in an untrusted text is addressed to whoever scores it."""

from app.domain.untrusted.findings import Finding, Kind
from app.domain.untrusted.inspection import inspect_dialogue, inspect_text

__all__ = ["Finding", "Kind", "inspect_dialogue", "inspect_text"]
