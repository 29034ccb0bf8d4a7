"""Values as columns and rows: options, candidates, results and figures, written and read back."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.conversation import FINDING, FaultyTurns, codes_of
from saiten_server.core.model import COMPACT, key_of
from saiten_server.core.sentences import in_english
from saiten_server.platform.sql.tables import MOST_MEASURES, batches, equals, evaluations, result_figures
from saiten_server.runs.result import Result
from saiten_server.runs.summary import (
    MeasureKey,
    ResultFigures,
    flat_name,
    measure_failure,
    measure_record,
)
from saiten_server.runs.work import FinishedCandidate
from saiten_server.scoring.store import read_candidate, read_evaluation, read_trace

ACTIVE = ("queued", "running")
"""Statuses of a batch that is worked on."""

RECEIVING = "receiving"
"""The status of a batch that was begun and not accepted: no caller sees it."""

STATEMENT_ROWS = 1000
"""Rows of one statement, where there are many: 31,000 to 49,000 rows a second on SQLite."""


def utc_now() -> datetime:
    """The current time, by this machine's clock."""
    return datetime.now(UTC)


def describe_candidates(batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]) -> list[dict[str, Any]]:
    """The rows of `batch_items`. Long conversations take milliseconds each: not for an event loop."""
    return [
        {
            "batch_id": batch_id,
            "position": entry.position,
            "item": entry.item,
            "candidate": entry.candidate,
            "request": candidate.model_dump_json(),
            "tries": 0,
            "cluster": entry.cluster,
        }
        for entry, candidate in candidates
    ]


def read_failure(text: str | None) -> Failure | None:
    """The failure in a column of text that may be null."""
    return None if text is None else Failure.model_validate_json(text)


PLACE_COLUMNS = ("position", "item", "candidate", "dialogue", "cluster")
"""Columns of a result's place in its batch."""

UNSAID = Failure(code="internal-error", **in_english(Message("candidate-without-reason")))


def find_figures(finished: FinishedCandidate) -> ResultFigures:
    """The figures of a candidate's result."""
    if finished.record is None:
        return measure_failure(finished.failure or UNSAID)
    return measure_record(finished.record)


def describe_result(finished: FinishedCandidate, status: str, batch: Row[Any], now: datetime) -> dict[str, Any]:
    """The row of a candidate's result with this status: its evaluation, or the failure in its place, which has an id
    of its own."""
    record, failure = finished.record, finished.failure or UNSAID
    evaluation = record and record.evaluation
    return {
        "project": batch.project,
        "batch_id": finished.job.batch,
        **{name: getattr(finished.entry, name) for name in PLACE_COLUMNS},
        "calls": json.dumps(finished.calls),
        "status": status,
        "id": evaluation.id if evaluation else "ev_" + secrets.token_hex(12),
        "created_at": evaluation.created_at if evaluation else now,
        "rubric": evaluation.rubric.id if evaluation else batch.rubric,
        "record": record.model_dump_json(exclude={"request"}) if record else "",
        "signature": evaluation.signature if evaluation else "",
        "failure": None if evaluation else failure.model_dump_json(),
    }


figure, result = result_figures.c, evaluations.c
VALUE_COLUMNS = tuple(f"v{number:02}" for number in range(MOST_MEASURES))
FIXED = (
    *("status", "system", "build", "warnings", "unrated", "reasons", "failure", "ratings"),
    *("context", "context_key", "spread", "similarity", "system_turns", "findings", "further", "looks"),
    "probability",
)
"""What a row of figures tells beside its place and its values."""

REWRITTEN = (*FIXED, *VALUE_COLUMNS)
REWRITE = (
    update(result_figures)
    .where(figure.batch_id == bindparam("this"), figure.position == bindparam("place"))
    .values({name: bindparam(f"new_{name}") for name in REWRITTEN})
)
UNTOLD = "-"
"""Stands among the reasons where none is known."""

Placed = Sequence[tuple[int, ResultFigures]]
"""Results with their positions in one batch."""

Measures = tuple[MeasureKey, ...]
"""What the values of a batch's results are of, in the order of their columns."""


def read_measures(text: str | None) -> Measures:
    """The measures in a column that may be null."""
    return () if text is None else tuple((kind, name) for kind, name in json.loads(text))


def write_measures(measures: Measures) -> str | None:
    """The text of a column for them."""
    return json.dumps(measures) if measures else None


def extend_measures(known: Measures, results: Iterable[ResultFigures]) -> Measures:
    """The known measures, then the others of these results: aspects, composites, blended values; at most as many as
    there are columns."""
    found = dict.fromkeys(key for figures in results for key in figures.values)
    ordered = (key for kind in ("aspect", "composite", "blended") for key in found if key[0] == kind)
    return tuple(dict.fromkeys([*known, *ordered]))[:MOST_MEASURES]


def name_columns(measures: Measures) -> dict[str, str]:
    """The column of each measure by what a caller calls it. An aspect takes precedence over anything else of its name,
    and a composite over a blended value."""
    placed = sorted(zip(measures, VALUE_COLUMNS, strict=False), key=lambda pair: RANK.index(pair[0][0]), reverse=True)
    columns = {flat_name(key): column for key, column in placed}
    return {name: columns[name] for name in dict.fromkeys(map(flat_name, measures))}


RANK = ("aspect", "composite", "blended")


def describe_figures(figures: ResultFigures, measures: Measures, width: int) -> dict[str, Any]:
    """The columns of a result except its place, with the first `width` values."""
    values = [figures.values.get(key) for key in measures[:width]]
    placed = {*measures[:width]}
    further = [(*key, value) for key, value in figures.values.items() if value is not None and key not in placed]
    faulty = figures.faulty
    return {
        "status": figures.status,
        "system": figures.system,
        "build": figures.build,
        "warnings": enclose((*figures.warnings, *(FINDING + code for code in codes_of(faulty)))),
        "unrated": enclose(figures.unrated),
        "reasons": enclose(reason or UNTOLD for reason in figures.unrated.values()),
        "failure": figures.failure,
        "ratings": COMPACT.encode(figures.ratings) if figures.ratings else None,
        "context": figures.context,
        "context_key": None if figures.context is None else key_of(figures.context),
        "spread": figures.spread,
        "similarity": figures.similarity,
        "system_turns": None if faulty is None else faulty.system_turns,
        "findings": None if faulty is None else COMPACT.encode(faulty.found),
        "further": COMPACT.encode(further) if further else None,
        "looks": figures.looks,
        "probability": figures.probability,
        **dict(zip(VALUE_COLUMNS[:width], [*values, *[None] * (width - len(values))], strict=True)),
    }


def read_unrated(names: str, reasons: str) -> dict[str, str | None]:
    """The reasons by aspect of two columns."""
    pairs = zip(names.split(), reasons.split(), strict=True)
    return {name: None if reason == UNTOLD else reason for name, reason in pairs}


def decode_ratings(text: str | None) -> dict[str, int]:
    """The ratings by aspect in a column of those that are not the mean."""
    found: dict[str, int] = {} if text is None else json.loads(text)
    return found


def read_further(text: str | None) -> dict[MeasureKey, float | None]:
    """The values in a column of those that have none of their own."""
    return {} if text is None else {(kind, name): value for kind, name, value in json.loads(text)}


def read_faulty(system_turns: int | None, findings: str | None) -> FaultyTurns | None:
    """A conversation's faulty turns; None of anything else."""
    return None if system_turns is None or findings is None else FaultyTurns(system_turns, json.loads(findings))


def enclose(names: Iterable[str]) -> str:
    """The names with a space before and after each, so that ` name ` finds one."""
    return "".join(f" {name}" for name in names) + " "


async def insert_figures(
    connection: AsyncConnection,
    added: Mapping[str, Placed],
    measures: Mapping[str, Measures],
    entries: Mapping[tuple[str, int], Entry],
) -> None:
    """Inserts the figures of new results, by batch. `entries` are by batch and position."""
    # All rows of a statement have the same columns; columns that no batch needs would only cost time.
    width = max((len(found) for found in measures.values()), default=0)
    rows = [
        {
            "batch_id": batch_id,
            "position": position,
            "cluster": entries[batch_id, position].cluster,
            "item_key": key_of(entries[batch_id, position].item),
            "candidate": entries[batch_id, position].candidate,
            **describe_figures(figures, measures[batch_id], width),
        }
        for batch_id, results in added.items()
        for position, figures in results
    ]
    if rows:
        await connection.execute(insert(result_figures), rows)


async def rewrite_figures(connection: AsyncConnection, batch_id: str, results: Placed, measures: Measures) -> None:
    """Replaces the figures of results that have some already."""
    rows = [
        {
            "this": batch_id,
            "place": position,
            **{f"new_{name}": value for name, value in describe_figures(figures, measures, MOST_MEASURES).items()},
        }
        for position, figures in results
    ]
    if rows:
        await connection.execute(REWRITE, rows)


RATED = ("scored", "partial")
"""Statuses of a result that the judge gave."""


def read_entry(row: Any, *, ids_given: bool | None = None) -> Entry:
    """The place of a result's row."""
    return Entry(**{name: getattr(row, name) for name in PLACE_COLUMNS}, ids_given=ids_given)


def read_placed(row: Any) -> tuple[Entry, Candidate]:
    """A candidate of a batch with its place."""
    candidate = read_candidate(row.request)
    entry = Entry(
        position=row.position, item=row.item, candidate=row.candidate, dialogue=candidate.dialogue, cluster=row.cluster
    )
    return entry, candidate


def select_results(*more: ColumnElement[Any]) -> Select[Any]:
    """The columns of results that `read_result` reads, and more of theirs."""
    columns = (
        *(result[name] for name in ("id", *PLACE_COLUMNS, "record", "failure")),
        figure.context,
        figure.system_turns,
    )
    there = (figure.batch_id == result.batch_id) & (figure.position == result.position)
    return select(*columns, *more).join(result_figures, there)


def of_batch(query: Select[Any], project: str, batch_id: str) -> Select[Any]:
    """The query of results for those of the project's batch. Whose they are is asked of the batch: SQLite, which keeps
    no statistics, might otherwise take the index of the project and read all its results."""
    mine = equals(batches.c.id, batch_id) & equals(batches.c.project, project)
    return query.join(batches, batches.c.id == result.batch_id).where(mine, equals(result.batch_id, batch_id))


def read_result(row: Row[Any], *, ids_given: bool | None = None) -> Result:
    """The result of a row of `select_results`. `ids_given` is that of the batch."""
    failure = read_failure(row.failure)
    evaluation = read_evaluation(row.record) if failure is None else None
    known = {"context_digest": row.context, "system_turns": row.system_turns}
    entry = read_entry(row, ids_given=ids_given).model_copy(update=known)
    return Result(row.id, entry, evaluation, failure)


def read_full_result(row: Row[Any]) -> Result:
    """The result of a row that has the candidate too, with everything that is known of it."""
    trace = () if row.failure else read_trace(row.record)
    return replace(read_result(row), asked=read_candidate(row.request), trace=trace)
