"""Values as columns and rows: options, candidates, results and figures, written and read back."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import Row, bindparam, insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.batch import BatchOptions, Candidate, Entry, Failure
from app.domain.browsing import FINDING, MOST_MEASURES
from app.domain.conversation import ANY_CODE
from app.domain.dialogue import CHECKED, digest_context
from app.domain.evaluation import CallTrace, ConversationRequest, Evaluation
from app.domain.model import key_of
from app.domain.result import Result
from app.domain.summary import Scores, failed_scores, find_faulty, pack_scores, scores_of, unpack_scores
from app.domain.work import FinishedCandidate
from app.storage.sql.tables import result_figures

ACTIVE = ("queued", "running")
"""Statuses of a batch that is worked on."""

RECEIVING = "receiving"
"""The status of a batch that was begun and not accepted: no caller sees it."""

ROWS = 1000
"""Rows of one statement, where there are many: 31,000 to 49,000 rows a second on SQLite."""


def utc_now() -> datetime:
    """The current time, by this machine's clock."""
    return datetime.now(UTC)


STORED = {"limits": CHECKED}
"""The validation context for stored values, because limits apply only to requests."""


FIRST_VERSIONS = {"ja-dialogue": "ja-dialogue@1"}
"""The rubric of a batch that names no version, from before rubrics had several."""


def read_evaluation(record: str) -> Evaluation:
    """The evaluation in a stored record."""
    return Evaluation.model_validate(from_json(record)["evaluation"], context=STORED)


def read_trace(record: str) -> tuple[CallTrace, ...]:
    """The calls to the judge in a stored record: validating them takes as long as the evaluation."""
    return tuple(CallTrace.model_validate(call, context=STORED) for call in from_json(record).get("trace", ()))


def replace_parts(record: str, **parts: Evaluation | tuple[CallTrace, ...]) -> str:
    """A stored record with another `evaluation`, or another `trace` too."""
    return to_json({**from_json(record), **parts}).decode()


def read_options(text: str) -> BatchOptions:
    """The options in a column of text."""
    options = BatchOptions.model_validate_json(text, context=STORED)
    then = FIRST_VERSIONS.get(options.rubric)
    return options if then is None else options.model_copy(update={"rubric": then})


def read_candidate(text: str) -> Candidate:
    """The candidate in a column of text."""
    return Candidate.model_validate_json(text, context=STORED)


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


PLACE = ("position", "item", "candidate", "dialogue", "cluster")
"""Columns of a result's place in its batch."""

UNSAID = Failure(code="internal-error", detail="the candidate has no evaluation, and no reason was given")


def score_result(finished: FinishedCandidate) -> Scores:
    """The figures of a candidate's result."""
    if finished.record is None:
        return failed_scores(finished.failure or UNSAID)
    request = finished.record.request
    evaluation = finished.record.evaluation
    if isinstance(request, ConversationRequest):
        return scores_of(evaluation, None, find_faulty(evaluation, request))
    return scores_of(evaluation, digest_context(request.context))


def describe_result(finished: FinishedCandidate, scores: Scores, batch: Row[Any], now: datetime) -> dict[str, Any]:
    """The row of a candidate's result with these scores: its evaluation, or the failure in its place, which has an id
    of its own."""
    record, failure = finished.record, finished.failure or UNSAID
    evaluation = record and record.evaluation
    return {
        "project": batch.project,
        "batch_id": finished.job.batch,
        **{name: getattr(finished.entry, name) for name in PLACE},
        "calls": json.dumps(finished.calls),
        "status": scores.status,
        "scores": pack_scores(scores),
        "id": evaluation.id if evaluation else "ev_" + secrets.token_hex(12),
        "created_at": evaluation.created_at if evaluation else now,
        "rubric": evaluation.rubric.id if evaluation else batch.rubric,
        "record": record.model_dump_json(exclude={"request"}) if record else "",
        "signature": evaluation.signature if evaluation else "",
        "failure": None if evaluation else failure.model_dump_json(),
    }


figure = result_figures.c
BLENDED = ".blended"
VALUES = tuple(f"v{number:02}" for number in range(MOST_MEASURES))
REWRITTEN = ("status", "system", "warnings", "unrated", "context_key", "spread", *VALUES)
REWRITE = (
    update(result_figures)
    .where(figure.batch_id == bindparam("this"), figure.position == bindparam("place"))
    .values({name: bindparam(f"new_{name}") for name in REWRITTEN})
)

Placed = Sequence[tuple[int, Scores]]
"""Results with their positions in one batch."""


def read_measures(text: str | None) -> tuple[str, ...]:
    """The measures in a column that may be null."""
    return () if text is None else tuple(json.loads(text))


def extend_measures(known: Sequence[str], results: Iterable[Scores]) -> tuple[str, ...]:
    """The known measures, then the others of these results: aspects, composites, blended values; at most as many as
    there are columns."""
    aspects, composites = dict[str, None](), dict[str, None]()
    for scores in results:
        aspects.update(dict.fromkeys(scores.aspects))
        composites.update(dict.fromkeys(scores.composites))
    names = dict.fromkeys([*known, *aspects, *composites, *(name + BLENDED for name in aspects)])
    return tuple(names)[:MOST_MEASURES]


def measure(scores: Scores) -> dict[str, float | None]:
    """Every measure of a result. An aspect takes precedence over anything else with its name."""
    return {
        **{name + BLENDED: figures[1] for name, figures in scores.aspects.items()},
        **scores.composites,
        **{name: figures[0] for name, figures in scores.aspects.items()},
    }


def describe_figures(scores: Scores, measures: Sequence[str], width: int) -> dict[str, Any]:
    """The columns of a result except its place, with the first `width` values."""
    found = measure(scores)
    values = [found.get(name) for name in measures[:width]]
    return {
        "status": scores.status,
        "system": scores.system,
        "warnings": enclose((*scores.warnings, *(FINDING + code for code in codes_of(scores)))),
        "unrated": enclose([name for name, figures in scores.aspects.items() if figures[0] is None]),
        "context_key": None if scores.context is None else key_of(scores.context),
        "spread": scores.spread,
        **dict(zip(VALUES[:width], [*values, *[None] * (width - len(values))], strict=True)),
    }


def codes_of(scores: Scores) -> list[str]:
    """The codes of the findings in a conversation, after `any` if there are any."""
    codes = [code for code, turns in scores.faulty.found.items() if turns] if scores.faulty else []
    return [ANY_CODE, *codes] if codes else []


def enclose(names: Iterable[str]) -> str:
    """The names with a space before and after each, so that ` name ` finds one."""
    return "".join(f" {name}" for name in names) + " "


async def insert_figures(
    connection: AsyncConnection,
    added: Mapping[str, Placed],
    measures: Mapping[str, Sequence[str]],
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
            **describe_figures(scores, measures[batch_id], width),
        }
        for batch_id, results in added.items()
        for position, scores in results
    ]
    if rows:
        await connection.execute(insert(result_figures), rows)


async def rewrite_figures(connection: AsyncConnection, batch_id: str, results: Placed, measures: Sequence[str]) -> None:
    """Replaces the figures of results that have some already."""
    rows = [
        {
            "this": batch_id,
            "place": position,
            **{f"new_{name}": value for name, value in describe_figures(scores, measures, MOST_MEASURES).items()},
        }
        for position, scores in results
    ]
    if rows:
        await connection.execute(REWRITE, rows)


RATED = ("scored", "partial")
"""Statuses of a result that the judge gave."""


def read_entry(row: Any, *, ids_given: bool | None = None) -> Entry:
    """The place of a result's row."""
    return Entry(**{name: getattr(row, name) for name in PLACE}, ids_given=ids_given)


def read_placed(row: Any) -> tuple[Entry, Candidate]:
    """A candidate of a batch with its place."""
    candidate = read_candidate(row.request)
    entry = Entry(
        position=row.position, item=row.item, candidate=row.candidate, dialogue=candidate.dialogue, cluster=row.cluster
    )
    return entry, candidate


RESULT = ("id", *PLACE, "record", "failure", "scores")
"""Columns of a result."""


def read_result(row: Row[Any], *, ids_given: bool | None = None) -> Result:
    """The result of a row of the columns `RESULT`. `ids_given` is that of the batch."""
    failure = read_failure(row.failure)
    evaluation = read_evaluation(row.record) if failure is None else None
    scores = unpack_scores(row.scores)
    known = {"context_digest": scores.context, "system_turns": scores.faulty and scores.faulty.system_turns}
    entry = read_entry(row, ids_given=ids_given).model_copy(update=known)
    return Result(row.id, entry, evaluation, failure)


def read_whole(row: Row[Any]) -> Result:
    """The result of a row that has the candidate too, with everything that is known of it."""
    trace = () if row.failure else read_trace(row.record)
    return replace(read_result(row), asked=read_candidate(row.request), trace=trace)
