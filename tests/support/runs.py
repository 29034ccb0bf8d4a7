"""Runs to compare, from columns of ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.comparison import ComparedRun
from app.domain.summary import RunItem

SIGNATURE = "saiten:1|rubric:small@1|model:judge-1:8b"

Column = Sequence[float | None]


def make_run(name: str, columns: Mapping[str, Column], **changes: Any) -> ComparedRun:
    """A complete run whose items are numbered from 0, with a rating of each aspect from its column; scales are 1–5."""
    count = max((len(column) for column in columns.values()), default=0)
    items = [
        RunItem(
            str(number), None, name, f"context-{number}", {aspect: column[number] for aspect, column in columns.items()}
        )
        for number in range(count)
    ]
    fields: dict[str, Any] = {
        "items": items,
        "expected": count,
        "signatures": {SIGNATURE: count} if count else {},
        "scales": dict.fromkeys(columns, (1.0, 5.0)),
        "aspects": tuple(columns),
    }
    return ComparedRun(name=name, **{**fields, **changes})
