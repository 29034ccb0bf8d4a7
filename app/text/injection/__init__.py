"""Finds suspected attacks on the judge: passages of an untrusted text that are addressed to its evaluator."""

from saiten_server.text.injection.inspection import (
    AttackKind,
    AttackSign,
    inspect_dialogue,
    inspect_text,
    inspect_texts,
    list_places,
    list_translated,
    prepare_inspection,
)
from saiten_server.text.injection.masking import InspectionBudget, TextSpan, find_spans, locate_warnings, without

__all__ = [
    "AttackKind",
    "AttackSign",
    "InspectionBudget",
    "TextSpan",
    "find_spans",
    "inspect_dialogue",
    "inspect_text",
    "inspect_texts",
    "list_places",
    "list_translated",
    "locate_warnings",
    "prepare_inspection",
    "without",
]
