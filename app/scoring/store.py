"""Records of single evaluations, similarity baselines, and the answers stored under Idempotency-Keys.

What is stored is read without the limits of requests.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import from_json, to_json
from sqlalchemy import ColumnElement, delete, exists, insert, literal, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import BatchOptions, Candidate, PairRunOptions, any_request_of
from saiten_server.core.dialogue import CHECKED
from saiten_server.core.errors import StoreError, StoreUnavailable, TextsErased
from saiten_server.core.evaluation import CallTrace, Evaluation, EvaluationFilter, Explanation, Record, write_json
from saiten_server.core.redaction import is_covered
from saiten_server.core.rubric import split_name
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import has_marks
from saiten_server.platform.sql.erased_calls import note_erased_calls
from saiten_server.platform.sql.sizes import ANSWER_SIZE, add_bytes, count_bytes, measure_result, sum_up
from saiten_server.platform.sql.tables import (
    Instant,
    batch_items,
    batch_metadata,
    batches,
    can_store,
    equals,
    evaluations,
    idempotency_keys,
    similarity_baselines,
)

STORED = {"limits": CHECKED}
"""The validation context for stored values, because limits apply only to requests."""
FIRST_VERSIONS = {"ja-dialogue": "ja-dialogue@1"}
"""The rubric of a batch that names no version, from before rubrics had several."""


class EvaluationPart(BaseModel):
    """Of a stored record the evaluation: to pass over the calls takes a third less time."""

    evaluation: Evaluation


class TracePart(BaseModel):
    """Of a stored record the calls to the judge."""

    trace: tuple[CallTrace, ...] = ()


def read_evaluation(record: str) -> Evaluation:
    """The evaluation in a stored record."""
    return EvaluationPart.model_validate_json(record, context=STORED).evaluation


def read_trace(record: str) -> tuple[CallTrace, ...]:
    """The calls to the judge in a stored record."""
    return TracePart.model_validate_json(record, context=STORED).trace


def replace_parts(record: str, **parts: Evaluation | tuple[CallTrace, ...]) -> str:
    """A stored record with another `evaluation`, or another `trace` too."""
    return to_json({**from_json(record), **parts}).decode()


STORED_OPTIONS: TypeAdapter[BatchOptions] = TypeAdapter(PairRunOptions | BatchOptions)
"""Of a preference run, or of any other batch: no other has `pairs`."""


def read_options(text: str) -> BatchOptions:
    """The options in a column of text."""
    options = STORED_OPTIONS.validate_json(text, context=STORED)
    then = FIRST_VERSIONS.get(options.rubric)
    return options if then is None else options.model_copy(update={"rubric": then})


def read_candidate(text: str) -> Candidate:
    """The candidate in a column of text."""
    return Candidate.model_validate_json(text, context=STORED)


held = idempotency_keys.c

KEY_SECONDS = 20.0
"""How long an Idempotency-Key is held without a sign of life from its request, whose process then has died."""

EvaluationRow = Mapping[str, Any]
"""Values by column of `evaluations`; all rows have the same columns."""

MOST_SAVED_ROWS = 64
"""Rows per transaction. A row has some 6 kB, and a few hundred kB at most."""

SAVE_LINGER_SECONDS = 0.008
"""A transaction costs a millisecond of CPU whatever it holds: while several save at once, a dozen share one."""

IDEMPOTENCY_LIFE = timedelta(hours=48)
"""How long an answered Idempotency-Key is kept; the contract promises 24 hours at least."""

ABANDONED = timedelta(seconds=KEY_SECONDS)

CLAIMS = 5
"""Attempts to claim a key that others release and claim between two statements."""

PAIR_PREFIX = "pr_"
"""How the ids of comparisons of two begin, which stand among the evaluations and are none."""

EVALUATION = re.compile(rb'\{"id":\s*"((?:ev|pr)_[0-9A-Za-z_-]{1,64})"')
"""The beginning of an answer that is an evaluation."""


@dataclass(frozen=True)
class StoredAnswer:
    """The answer to the first request with an Idempotency-Key; its `status` is None while the request runs."""

    body_digest: str
    status: int | None
    body: bytes | None


def has_covered_request(record: str) -> bool:
    """Whether the text that a stored record asks about was replaced. The record of a batch's result has none."""
    asked = from_json(record).get("request") or {}
    return is_covered(asked.get("response") or "")


async def replace_evaluation(connection: AsyncConnection, found: Any, told: Evaluation, calls: Sequence[str]) -> None:
    """Writes another evaluation into the row `found`, which rests on these calls too."""
    values = {
        "record": replace_parts(found.record, evaluation=told),
        "calls": json.dumps([*dict.fromkeys([*json.loads(found.calls or "[]"), *calls])]),
    }
    grown = sum(count_bytes(value) for value in values.values())
    grown -= count_bytes(found.record) + count_bytes(found.calls)
    await connection.execute(update(evaluations).where(evaluations.c.id == found.id).values(values))
    if found.batch_id is None:
        await add_bytes(connection, {found.project: grown})
    else:
        size = batches.c.stored_bytes + grown
        await connection.execute(update(batches).where(batches.c.id == found.batch_id).values(stored_bytes=size))


SCANNED = 5_000
"""Evaluations that one page looks at, so that a rare filter ends in time however many a project has."""

EvaluationCursor = tuple[datetime, str]
"""Creation and id of an evaluation, by which they are listed."""


class EvaluationStore:
    """Records of single evaluations, similarity baselines and idempotency keys. Raises the `Store…` errors of
    `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._rows = Coalescer(
            self._write, most=MOST_SAVED_ROWS, linger_seconds=SAVE_LINGER_SECONDS, company=2, own_context=True
        )

    async def save(
        self, project: str, record: Record, calls: Sequence[str] = (), *, evaluation: str | None = None
    ) -> None:
        """Stores the record, and returns when it is committed. Records that are saved at the same moment share one
        transaction; the record of a caller who is cancelled meanwhile may be stored too. `calls` are the call cache's
        keys of all outside calls that it rests on, for an erasure. `evaluation` is the JSON of the record's evaluation
        if it has been written already."""
        error = await self._rows(make_evaluation_row(project, record, calls, evaluation))
        if error is not None:
            raise error

    async def save_all(self, project: str, records: Sequence[tuple[Record, Sequence[str]]]) -> None:
        """Stores the records, each with its calls, in one transaction: all of them or none."""

        def write() -> list[EvaluationRow]:
            return [make_evaluation_row(project, record, calls) for record, calls in records]

        # In a thread: of a conversation's turns that were scored each holds the turns before it.
        await self._insert(await asyncio.to_thread(write))

    async def close(self) -> None:
        """Waits for writes in progress, including those whose callers were cancelled."""
        await db.finish(self._engine, "evaluations", self._rows)

    async def _write(self, rows: Sequence[EvaluationRow]) -> list[StoreError | ValueError | None]:
        """The error of each row, or None."""
        try:
            await self._insert(rows)
        except StoreUnavailable as error:
            # No row's own fault: none would fare better alone.
            return [error] * len(rows)
        except (StoreError, ValueError) as error:
            # ValueError: a text that SQLite's driver cannot encode. It concerns one row, and the others can be
            # written without it; so it is where space is left for some and not for all.
            return [error] if len(rows) == 1 else [found for row in rows for found in await self._write([row])]
        return [None] * len(rows)

    async def _insert(self, rows: Sequence[EvaluationRow]) -> None:
        sizes = sum_up((row["project"], measure_result(row)) for row in rows)
        async with db.write(self._engine) as connection:
            await connection.execute(insert(evaluations), rows)
            await add_bytes(connection, sizes)

    async def find(self, project: str, evaluation_id: str, *, pair: bool = False) -> Record | None:
        """The record of that id, of a comparison of two with `pair` and of anything else without; None if there is
        none."""
        if evaluation_id.startswith(PAIR_PREFIX) != pair:
            return None
        table, item = evaluations.c, batch_items.c
        query = (
            select(table.record, table.failure, table.batch_id, item.request, batches.c.options)
            .outerjoin(batches, batches.c.id == table.batch_id)
            .outerjoin(batch_items, (item.batch_id == table.batch_id) & (item.position == table.position))
            .where(equals(table.id, evaluation_id), equals(table.project, project))
        )
        found = await db.fetch_one(self._engine, query)
        if found is None or found.failure is not None:
            return None
        if found.batch_id is None:
            return Record.model_validate_json(found.record, context=STORED)
        # A batch keeps each request once, as options and candidates.
        request = any_request_of(read_options(found.options), read_candidate(found.request))
        evaluation, trace = read_evaluation(found.record), read_trace(found.record)
        return Record.model_construct(evaluation=evaluation, request=request, trace=trace)

    async def explain(
        self, project: str, evaluation_id: str, explained: Explanation, calls: Sequence[str]
    ) -> Evaluation | None:
        """Adds to an evaluation what the judge said when it was asked again, which rests on these `calls`, and returns
        it as it is then; one that was explained meanwhile stays as it is. None where it is gone. Raises TextsErased
        where its texts are, which the judge's words may quote. In both cases the replies leave the call cache."""
        row = evaluations.c
        this = (equals(row.id, evaluation_id), equals(row.project, project), row.failure.is_(None))
        async with db.change(self._engine) as connection:
            # The batch before its result, as all do who lock both.
            batch_id = (await connection.execute(select(row.batch_id).where(*this))).scalar_one_or_none()
            held = select(batches.c.texts).where(batches.c.id == batch_id).with_for_update()
            texts = (await connection.execute(held)).scalar_one_or_none()
            columns = (row.id, row.project, row.batch_id, row.record, row.calls)
            query = select(*columns).where(*this).with_for_update()
            found = (await connection.execute(query)).one_or_none()
            kept = None if found is None else read_evaluation(found.record)
            if kept is not None and kept.explained is not None:
                return kept
            covered = found is not None and (texts is not None or has_covered_request(found.record))
            if kept is None or covered:
                await note_erased_calls(connection, calls)
            else:
                kept = kept.model_copy(update={"explained": explained})
                await replace_evaluation(connection, found, kept, calls)
        if covered:
            raise TextsErased(Message("explanation-without-response"))
        return kept

    async def list(
        self, project: str, wanted: EvaluationFilter, *, after: EvaluationCursor | None, limit: int
    ) -> tuple[list[Evaluation], EvaluationCursor | None]:
        """The evaluations that are wanted, newest first, those of batches among them, and where the next page begins;
        `after` is that of the page before. A page looks at `SCANNED` evaluations at most, so it may be short, or empty,
        although another one follows."""
        texts = (wanted.rubric, wanted.batch, wanted.dialogue, *wanted.metadata, *wanted.metadata.values())
        if not can_store(project, *(text for text in texts if text is not None)):
            return [], None
        picks = any((wanted.rubric, wanted.status, wanted.batch, wanted.dialogue, wanted.metadata))
        scanned = SCANNED if picks else limit + 1
        order = (evaluations.c.created_at.desc(), evaluations.c.id.desc())
        column = (evaluations.c.id, evaluations.c.created_at)
        looked_at = select(*column).where(equals(evaluations.c.project, project), *range_of(wanted, after))
        window = looked_at.order_by(*order).limit(scanned)
        seen, record = window.subquery(), evaluations.c.record
        own = has_marks(self._engine, record, wanted.metadata)
        fits = [
            *evaluation_conditions(wanted),
            *map(or_, own, map(is_of_batch, wanted.metadata, wanted.metadata.values())),
        ]
        if wanted.dialogue is not None:
            # Single evaluations have its name in the record alone.
            fits += has_marks(self._engine, record, {"dialogue": wanted.dialogue})
        query = (
            select(*column, record, batches.c.options)
            .join(seen, seen.c.id == evaluations.c.id)
            .outerjoin(batches, batches.c.id == evaluations.c.batch_id)
            .where(*fits)
        )
        rows = await db.fetch(self._engine, query.order_by(*order).limit(limit + 1))
        found = await asyncio.to_thread(read_evaluations, rows[:limit], wanted)
        if len(rows) > limit:
            last = rows[limit - 1]
        else:
            last = await db.fetch_one(self._engine, window.limit(1).offset(scanned - 1))
        return found, None if last is None else (last.created_at, last.id)

    async def ping(self) -> None:
        # A real table: a database without its tables answers SELECT 1 too.
        await db.fetch(self._engine, select(evaluations.c.id).limit(1))

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None:
        column = similarity_baselines.c
        this = (column.language == language) & (column.calibration == calibration) & equals(column.encoder, encoder)
        return await db.fetch_value(self._engine, select(column.value).where(this))

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None:
        if not can_store(encoder):
            return
        row = {"encoder": encoder, "language": language, "calibration": calibration, "value": value}
        await db.execute(self._engine, db.insert_or_ignore(self._engine, similarity_baselines), row)

    async def claim_key(self, project: str, key: str, body_digest: str) -> StoredAnswer | None:
        """Reserves the key and returns None, or returns what is stored under it."""
        if not can_store(project, key):
            return None
        table, now = idempotency_keys, datetime.now(UTC)
        row = {"project": project, "key": key, "body_digest": body_digest, "created_at": now}
        stale = (held.created_at < now - IDEMPOTENCY_LIFE) | (
            held.status.is_(None) & (held.created_at < now - ABANDONED)
        )
        async with db.write(self._engine) as connection:
            gone = (await connection.execute(delete(table).where(stale).returning(held.project, ANSWER_SIZE))).all()
            claimed, found = await take_key(connection, row)
            await add_bytes(connection, sum_up((name, -size) for name, size in gone))
        if claimed or found is not None:
            return found
        raise StoreUnavailable(Message("idempotency-key-contended"))

    async def renew_key(self, project: str, key: str) -> None:
        """Notes a sign of life of the request that holds the key."""
        this = update(idempotency_keys).where(key_condition(project, key), held.status.is_(None))
        await db.execute(self._engine, this.values(created_at=datetime.now(UTC)))

    async def answer_key(self, project: str, key: str, status: int, body: bytes) -> None:
        """Stores the answer, or releases the key if the answer is an evaluation that was erased meanwhile."""
        async with db.change(self._engine) as connection:
            await answer_under(connection, project, key, status, body)

    async def release_key(self, project: str, key: str) -> None:
        await db.execute(
            self._engine, delete(idempotency_keys).where(key_condition(project, key), held.status.is_(None))
        )


def make_evaluation_row(
    project: str, record: Record, calls: Sequence[str], written: str | None = None
) -> dict[str, Any]:
    """The row of a single evaluation; `written` is its JSON if it has been written already."""
    evaluation = record.evaluation
    return {
        "id": evaluation.id,
        "project": project,
        "created_at": evaluation.created_at,
        "rubric": evaluation.rubric.id,
        "status": evaluation.status,
        "signature": evaluation.signature,
        "record": write_json(record, written or evaluation.model_dump_json()),
        "calls": json.dumps([*calls]),
    }


def range_of(wanted: EvaluationFilter, after: EvaluationCursor | None) -> Iterator[ColumnElement[bool]]:
    """The conditions on the time of creation."""
    created_at = evaluations.c.created_at
    if wanted.created_from is not None:
        yield created_at >= wanted.created_from
    if wanted.created_before is not None:
        yield created_at < wanted.created_before
    if after is not None:
        yield created_at <= after[0]
        yield tuple_(created_at, evaluations.c.id) < tuple_(literal(after[0], Instant()), literal(after[1]))


def evaluation_conditions(wanted: EvaluationFilter) -> Iterator[ColumnElement[bool]]:
    """The other conditions, but for those on what is in the record alone."""
    yield evaluations.c.failure.is_(None)
    yield ~evaluations.c.id.startswith(PAIR_PREFIX, autoescape=True)
    exact = (("status", wanted.status), ("batch_id", wanted.batch))
    yield from (evaluations.c[name] == value for name, value in exact if value is not None)
    if wanted.rubric is not None:
        rubric_id, version = split_name(wanted.rubric)
        yield evaluations.c.rubric == rubric_id
        if version is not None:
            yield evaluations.c.signature.concat("|").contains(f"|rubric:{wanted.rubric}|", autoescape=True)


def is_of_batch(key: str, value: str) -> ColumnElement[bool]:
    """The condition that the evaluation is of a batch with this entry of metadata."""
    entry = batch_metadata.c
    return exists().where(entry.batch_id == evaluations.c.batch_id, entry.key == key, entry.value == value)


def read_evaluations(rows: Sequence[Any], wanted: EvaluationFilter) -> list[Evaluation]:
    """The evaluations of rows that hold metadata and dialogue themselves, and not in another part of the record."""
    found = []
    for row in rows:
        one = read_evaluation(row.record)
        # What an evaluation says itself counts more than what its batch says.
        shared = from_json(row.options).get("metadata", {}) if row.options and wanted.metadata else {}
        if wanted.metadata.items() <= {**shared, **one.metadata}.items() and wanted.dialogue in {None, one.dialogue}:
            found.append(one)
    return found


async def take_key(connection: AsyncConnection, row: EvaluationRow) -> tuple[bool, StoredAnswer | None]:
    """Whether the key of this row of `idempotency_keys` was free and is taken now, or else what is stored under it, if
    its holder did not let it go each time between two statements."""
    for _ in range(CLAIMS):
        claimed = await connection.execute(db.insert_or_ignore(connection, idempotency_keys), row)
        if claimed.rowcount == 1:
            return True, None
        query = select(held.body_digest, held.status, held.body).where(key_condition(row["project"], row["key"]))
        found = (await connection.execute(query)).one_or_none()
        if found is not None:
            return False, StoredAnswer(*found)
    return False, None


def key_condition(project: str, key: str) -> ColumnElement[bool]:
    """The condition that finds an idempotency key."""
    return equals(held.project, project) & equals(held.key, key)


async def answer_under(connection: AsyncConnection, project: str, key: str, status: int, body: bytes) -> None:
    """Stores the answer, or releases the key if the answer's evaluation is gone."""
    this, found_id = key_condition(project, key), EVALUATION.match(body)
    if found_id is not None:
        # Locked: an erasure that comes meanwhile waits and then finds the answer; one that came first leaves no row.
        result = evaluations.c
        query = select(result.id).where(result.id == found_id[1].decode(), equals(result.project, project))
        if (await connection.execute(query.with_for_update(read=True, key_share=True))).first() is None:
            await connection.execute(delete(idempotency_keys).where(this, held.status.is_(None)))
            return
    # Once: a second answer would be counted beside the first.
    open_one = update(idempotency_keys).where(this, held.body.is_(None))
    kept = await connection.execute(open_one.values(status=status, body=body))
    await add_bytes(connection, {project: kept.rowcount * len(body)})
