"""Results as Arrow tables: what a scorer returns, and what is written as Parquet.

A table has the columns of `columns.list_columns`. pyarrow, of the extra `offline`, is imported when it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from saiten.core.messages import Message
from saiten_server.core.batch import Entry, Failure
from saiten_server.core.errors import SettingsInvalid
from saiten_server.core.evaluation import (
    AspectResult,
    ConversationRequest,
    EvaluationRequest,
    PreferenceRequest,
    Record,
    Usage,
)
from saiten_server.core.model import COMPACT, key_of
from saiten_server.core.rubric import Rubric
from saiten_server.offline.columns import REASON, list_columns
from saiten_server.runs.clusters import name_dialogue
from saiten_server.runs.summary import ResultFigures, measure_failure, measure_record

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"saiten"
"""The key of the schema's metadata under which the rubric stands, as JSON."""

UNTOLD = "-"
"""In `unrated.ASPECT`: why there is no rating is not told."""


class ScoredRow(NamedTuple):
    """A result to be written: its key, its place among the input's items, and the record, or the `failure` in its
    place. `usage` is what was spent on it."""

    key: str
    entry: Entry
    record: Record | None
    failure: Failure | None = None
    usage: Usage = Usage()


def require_arrow() -> None:
    """Raises SettingsInvalid, which says what to install, where pyarrow is not there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise SettingsInvalid(Message("offline-extra-missing")) from None


def make_schema(rubric: Rubric, *, texts: bool = False) -> pa.Schema:
    """The schema of the results by this rubric; with `texts` with what was said and the judge's reasons."""
    require_arrow()
    import pyarrow as pa

    fields = [
        pa.field(one.name, getattr(pa, one.type)(), nullable=one.nullable, metadata={"meaning": one.meaning})
        for one in list_columns(rubric, texts=texts)
    ]
    about = {"format": 1, "rubric": rubric.name, "digest": rubric.digest, "unit": rubric.unit}
    return pa.schema(fields, metadata={METADATA_KEY: json.dumps(about)})


def make_table(rows: Iterable[ScoredRow], rubric: Rubric, *, texts: bool = False) -> pa.Table:
    """The results as a table of `make_schema`, in their order."""
    schema = make_schema(rubric, texts=texts)
    import pyarrow as pa

    cells = [describe_row(row, rubric, texts=texts) for row in rows]
    columns = [pa.array([one.get(field.name) for one in cells], type=field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def describe_row(row: ScoredRow, rubric: Rubric, *, texts: bool = False) -> dict[str, Any]:
    """The cells of a result by column; those that are null may be left out. Raises ValueError for a row with neither a
    record nor a failure."""
    if row.record is None and row.failure is None:
        raise ValueError("a row holds a record or a failure")
    figures = measure_record(row.record) if row.record else measure_failure(row.failure)  # type: ignore[arg-type]
    cells = {**describe_place(row, rubric), **describe_figures(figures), **describe_usage(row)}
    if row.record is not None:
        cells |= describe_record(row.record)
        if texts:
            cells |= describe_texts(row.record)
    return cells


def describe_place(row: ScoredRow, rubric: Rubric) -> dict[str, Any]:
    """What names the result, and what became of it."""
    entry = row.entry
    cluster = entry.cluster or (name_dialogue(entry.dialogue) if entry.dialogue else None)
    return {
        "key": row.key,
        "row_key": key_of(row.key),
        "item": entry.item,
        "item_key": key_of(entry.item),
        "candidate": entry.candidate,
        "dialogue": entry.dialogue,
        "cluster": cluster,
        "cluster_key": None if cluster is None else key_of(cluster),
        "rubric": rubric.name,
        "failure.detail": row.failure.detail if row.failure else None,
    }


def describe_figures(figures: ResultFigures) -> dict[str, Any]:
    """What is counted of the result."""
    faulty = figures.faulty
    cells: dict[str, Any] = {
        "status": figures.status,
        "failure": figures.failure,
        "warnings": " ".join(figures.warnings) or None,
        "system": figures.system,
        "build": figures.build,
        "context_key": None if figures.context is None else key_of(figures.context),
        "similarity": figures.similarity,
        "spread": figures.spread,
        "probability": figures.probability,
        "system_turns": None if faulty is None else faulty.system_turns,
        "faults": None if faulty is None else COMPACT.encode(faulty.found),
    }
    for (kind, name), value in figures.values.items():
        cells[f"mean.{name}" if kind == "aspect" else f"{kind}.{name}"] = value
    cells |= {f"unrated.{name}": reason or UNTOLD for name, reason in figures.unrated.items()}
    return cells


def describe_usage(row: ScoredRow) -> dict[str, Any]:
    """What the result took."""
    usage = row.record.evaluation.usage if row.record else row.usage
    return {name: getattr(usage, name) for name in ("judge_calls", "prompt_tokens", "completion_tokens", "cost_usd")}


OF_ASPECT: Mapping[str, Callable[[AspectResult], Any]] = {
    "rating": lambda one: one.rating,
    "sd": lambda one: one.sd,
    "expected": lambda one: one.expected,
}
"""What figures do not tell of an aspect."""


def describe_record(record: Record) -> dict[str, Any]:
    """What only the record tells."""
    evaluation = record.evaluation
    cells: dict[str, Any] = {"signature": evaluation.signature}
    if evaluation.metadata:
        cells["metadata"] = COMPACT.encode(evaluation.metadata)
    for name, aspect in evaluation.aspects.items():
        cells |= {f"{what}.{name}": read(aspect) for what, read in OF_ASPECT.items()}
    return cells


def describe_texts(record: Record) -> dict[str, Any]:
    """What was said, and the judge's reasons."""
    evaluation, request = record.evaluation, record.request
    if isinstance(request, PreferenceRequest):
        raise TypeError("pairs are not judged offline")
    reasons = {f"{REASON.name}.{name}": one.reason for name, one in evaluation.aspects.items()}
    return {**reasons, **describe_request(request), "findings": write_findings(evaluation.findings)}


def describe_request(request: EvaluationRequest | ConversationRequest) -> dict[str, Any]:
    """The texts of a response, or of a conversation."""
    if isinstance(request, EvaluationRequest):
        return {"context": write_all(request.context), "response": request.response}
    persona = None if request.persona is None else COMPACT.encode(request.persona)
    return {"turns": write_all(request.turns), "persona": persona, "goal": request.goal}


def write_all(values: Sequence[Any]) -> str:
    """Values as a JSON list."""
    return COMPACT.encode([value.model_dump(mode="json", exclude_none=True) for value in values])


def write_findings(findings: Sequence[Any] | None) -> str | None:
    """The findings of a conversation as a JSON list; None of a response."""
    return None if findings is None else write_all(findings)
