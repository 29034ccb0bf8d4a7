"""Descriptions of batches, and the conditions that find them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from saiten_server.core.access import TextKeeping
from saiten_server.core.batch import ENDED_STATUSES, MOST_PAIRED, Batch, BatchFilter, BatchUsage, Counts
from saiten_server.core.rubric import split_name
from saiten_server.core.signature import read_signature
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import Instant, can_store
from saiten_server.runs.store.account import read_pause
from saiten_server.runs.store.rows import RECEIVING
from saiten_server.runs.summary import SYSTEM
from saiten_server.runs.work import PROVIDER_TIME
from saiten_server.scoring.store import read_options

FINISHED = ("scored", "partial", "failed", "expired")
LEFT = t.batches.c.total - t.batches.c.scored - t.batches.c.partial - t.batches.c.failed - t.batches.c.expired
"""Candidates without a result."""

SEEN = t.batches.c.status != RECEIVING
OF_RATINGS = t.batches.c.unit.is_(None)
"""The condition of a batch whose candidates are rated."""

OF_PAIRS = t.batches.c.unit == "pair"
"""The condition of a batch whose candidates are pairs."""

NAME_START_CHARACTERS = 64
NAME_START: ColumnElement[str] = literal_column(f"substr(batches.name, 1, {NAME_START_CHARACTERS})")
"""What the index holds of a name."""

TEXT_KEEPINGS: Mapping[str | None, TextKeeping] = {
    "hashing": "hash",
    "hash": "hash",
    "dropping": "drop",
    "drop": "drop",
}
"""What has become of a batch's texts, by the column: some are gone while they are being removed."""


def can_be_asked(project: str, wanted: BatchFilter) -> bool:
    """Whether the columns can hold the wanted texts; otherwise no batch has them."""
    texts = (text or "" for text in (wanted.name, wanted.text, wanted.rubric))
    return can_store(project, *texts, *wanted.metadata, *wanted.metadata.values())


def list_newest(
    project: str, wanted: BatchFilter, after: tuple[datetime, str] | None, limit: int, seen: ColumnElement[bool] = SEEN
) -> Select[Any]:
    """The wanted batches, newest first; `after` is (created_at, id) of the last one of the page before."""
    query = select(t.batches).where(seen, t.batches.c.project == project, *batch_conditions(wanted))
    if after is not None:
        place = tuple_(literal(after[0], Instant()), literal(after[1]))
        query = query.where(tuple_(t.batches.c.created_at, t.batches.c.id) < place)
    return query.order_by(t.batches.c.created_at.desc(), t.batches.c.id.desc()).limit(limit)


def age_of_oldest(now: datetime, live: datetime | None, given: datetime | None) -> float:
    """Age in seconds of the oldest batch, 0 if there is none: `live` is the creation of the oldest one that workers
    score, `given` that of the oldest one that the provider has. The provider has a day, so those count from its end."""
    due = min(live or now, given + PROVIDER_TIME if given else now)
    return max(0.0, (now - due).total_seconds())


def pair_with_predecessors(project: str, wanted: BatchFilter, limit: int) -> Select[Any]:
    """The ids of the newest completed batch of each name, system and rubric, and of the one `before` it."""
    table, entry = t.batches.c, t.batch_metadata.c
    completed = select(table.id, table.name, table.rubric, table.created_at).where(
        OF_RATINGS,
        table.project == project,
        table.status == "completed",
        table.name.is_not(None),
        *batch_conditions(wanted),
    )
    recent = completed.order_by(table.created_at.desc(), table.id.desc()).limit(MOST_PAIRED).subquery("recent")
    one = recent.c
    line = [one.name, one.rubric, entry.value]
    newest_first = [one.created_at.desc(), one.id.desc()]
    named = (entry.batch_id == one.id) & (entry.key == SYSTEM)
    placed = (
        select(
            one.id,
            one.created_at,
            func.row_number().over(partition_by=line, order_by=newest_first).label("place"),
            func.lead(one.id).over(partition_by=line, order_by=newest_first).label("before"),
        )
        .select_from(recent.outerjoin(t.batch_metadata, named))
        .subquery("placed")
    )
    newest = select(placed.c.id, placed.c.before).where(placed.c.place == 1, placed.c.before.is_not(None))
    return newest.order_by(placed.c.created_at.desc(), placed.c.id.desc()).limit(limit)


def find_before(project: str, ids: Sequence[str]) -> Select[Any]:
    """Each of these batches that has a name, with the id of the completed one `before` it of the same name, system and
    rubric, in whatever version; null if there is none."""
    table, entry, this = t.batches.c, t.batch_metadata.c, t.batches.alias("this")

    def system_of(batch: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[str]:
        named = select(entry.value).where(entry.batch_id == batch["id"], entry.key == SYSTEM)
        return named.correlate_except(t.batch_metadata).scalar_subquery()

    earlier = (
        select(table.id)
        .where(
            table.unit.is_(None),
            table.project == project,
            func.substr(this.c.name, 1, NAME_START_CHARACTERS) == NAME_START,
        )
        .where(table.name.concat("") == this.c.name, table.rubric == this.c.rubric, table.status == "completed")
        .where(tuple_(table.created_at, table.id) < tuple_(this.c.created_at, this.c.id))
        .where(system_of(table).is_not_distinct_from(system_of(this.c)))
        .order_by(table.created_at.desc(), table.id.desc())
        .limit(1)
    )
    before = earlier.correlate(this).scalar_subquery().label("before")
    return select(this.c.id, before).where(this.c.project == project, this.c.id.in_(ids), this.c.name.is_not(None))


def batch_conditions(wanted: BatchFilter) -> Sequence[ColumnElement[bool]]:
    """The conditions that a listed batch meets."""
    exact = (
        (NAME_START, wanted.name and wanted.name[:NAME_START_CHARACTERS]),
        # Not the column alone: SQLite would put its value into what is asked of the beginning, and miss the index.
        (t.batches.c.name.concat(""), wanted.name),
        (t.batches.c.rubric, wanted.rubric and split_name(wanted.rubric)[0]),
        (t.batches.c.status, wanted.status),
    )
    entry = exists().where(t.batch_metadata.c.batch_id == t.batches.c.id)
    key, value = t.batch_metadata.c.key, t.batch_metadata.c.value
    conditions = [column == name for column, name in exact if name is not None]
    conditions += [entry.where(key == name, value == wanted.metadata[name]) for name in wanted.metadata]
    if wanted.text:
        named = (column.icontains(wanted.text, autoescape=True) for column in (t.batches.c.id, t.batches.c.name))
        conditions.append(or_(entry.where(value.icontains(wanted.text, autoescape=True)), *named))
    if wanted.rubric and split_name(wanted.rubric)[1] is not None:
        conditions.append(scored_by(wanted.rubric))
    return conditions


def scored_by(rubric: str) -> ColumnElement[bool]:
    """The condition that the batch used this version of its rubric, by its results or its options."""
    signature, options = t.batch_signatures.c, t.batches.c.options
    signed = signature.signature.contains(f"|rubric:{rubric}|", autoescape=True)
    # Metadata cannot look like this: their values are texts, in which a quote is escaped.
    asked = options.like(f'%"rubric":"{rubric.replace("_", "/_")}","path":%"metadata":{{%', escape="/")
    # Of a batch of an earlier release only its results say it.
    return or_(exists().where(signature.batch_id == t.batches.c.id, signed), asked)


def find_version(asked: str, signatures: Iterable[str]) -> int | None:
    """The version of a batch's rubric: the one in its options, else that of its results, if they have one."""
    found = {split_name(read_signature(signature).get("rubric", ""))[1] for signature in signatures}
    return split_name(asked)[1] or (found.pop() if len(found) == 1 else None)


async def count_signatures(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Results by signature, by batch."""
    table = t.batch_signatures
    query = select(table.c.batch_id, table.c.signature, table.c.count).where(table.c.batch_id.in_(ids))
    counts: dict[str, dict[str, int]] = {}
    for batch_id, signature, count in await connection.execute(query.order_by(table.c.signature)):
        counts.setdefault(batch_id, {})[signature] = count
    return counts


def read_batch_row(row: Row[Any], signatures: dict[str, int], now: datetime) -> Batch:
    """The batch of a row."""
    options = read_options(row.options)
    finished = row.scored + row.partial + row.failed + row.expired
    queued = row.total - finished
    rate = rate_of(row, finished, now)
    is_running = row.status == "running" and rate
    return Batch(
        id=row.id,
        name=row.name,
        status=row.status,
        pause_reason=row.pause_reason,
        pause_detail=read_pause(row.pause_detail),
        waiting_reason="rubric-differs" if row.rubric_differs and row.status in {"queued", "running"} else None,
        mode=row.mode,
        rubric=row.rubric,
        rubric_version=find_version(options.rubric, signatures),
        path=options.path,
        relevance=options.relevance,
        judge=options.judge,
        budget_usd=row.budget_usd,
        deadline_hours=options.running_hours,
        counts=Counts(queued=queued, **{name: row._mapping[name] for name in ("total", *FINISHED)}),
        progress=finished / row.total if row.total else 1.0,
        rate_per_second=rate,
        estimated_end=now + timedelta(seconds=queued / rate) if is_running and rate else None,
        usage=BatchUsage(**{name: row._mapping[name] for name in BatchUsage.model_fields}),
        signature=next(iter(signatures)) if len(signatures) == 1 else None,
        signatures=signatures if len(signatures) > 1 else {},
        metadata=options.metadata,
        texts=TEXT_KEEPINGS.get(row.texts, "keep"),
        ids_given=row.ids_given,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def rate_of(row: Row[Any], finished: int, now: datetime) -> float | None:
    """Finished candidates a second: of a running batch since it last started, of a completed one until its end."""
    until = {"running": now, "completed": row.finished_at}.get(row.status)
    if until is None or row.resumed_at is None:
        return None
    seconds = (until - row.resumed_at).total_seconds()
    count = finished - row.finished_before
    return count / seconds if seconds > 0 and count > 0 else None


figure = t.result_figures.c


def has_settled(this: ColumnElement[bool], results: int) -> tuple[ColumnElement[bool], ...]:
    """The conditions that a batch has ended with so many results, and that no worker may commit to it any more."""
    table, chunk = t.batches.c, t.batch_chunks.c
    # A worker that holds a chunk of a cancelled batch may still commit to it or rewrite its results.
    held = exists().where(chunk.batch_id == table.id, chunk.state == "leased")
    unchanged = table.scored + table.partial + table.failed + table.expired == results
    return this, table.status.in_(ENDED_STATUSES), unchanged, ~held
