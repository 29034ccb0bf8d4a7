"""A batch's counts, usage and status while one transaction changes them: when results come in, chunks close or are
lost."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten.core.messages import Message
from saiten_server.core.batch import BatchOptions
from saiten_server.core.evaluation import Usage
from saiten_server.core.model import canonical_json
from saiten_server.core.sentences import in_english, read_told
from saiten_server.governance.store import charge_keys
from saiten_server.platform.sql.engine import insert_or_add
from saiten_server.platform.sql.tables import batch_chunks, batch_signatures, batches
from saiten_server.runs.store.rows import ACTIVE, RECEIVING
from saiten_server.runs.summary import Tally, pack_tally, unpack_tally
from saiten_server.runs.work import COLLECT, FINISH, ChunkJob
from saiten_server.scoring.store import read_options

logger = logging.getLogger("saiten.batches")


@dataclass
class Account:
    """The columns of a batch that a transaction may change, as they are to be at its end."""

    status: str
    pause_reason: str | None
    pause_detail: str | None
    started_at: datetime | None
    resumed_at: datetime | None
    finished_at: datetime | None
    finished_before: int
    scored: int
    partial: int
    failed: int
    judge_calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    translated_characters: int
    cost_usd: float | None
    dearest_usd: float
    expired: int
    estimated_calls: int
    left_seconds: float | None
    expires_at: datetime | None
    chunks_left: int
    tally: str | None
    measures: str | None
    intervals: str | None
    stored_bytes: int

    @property
    def finished(self) -> int:
        return self.scored + self.partial + self.failed + self.expired

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def count(self, status: str, by: int = 1) -> None:
        """Counts `by` more results with this status: `scored`, `partial`, `failed` or `expired`."""
        setattr(self, status, getattr(self, status) + by)

    def spend(self, usage: Usage, *, estimated: bool = False) -> None:
        """Adds the usage of a result, or (`estimated`) the expected usage of candidates without one."""
        self.estimated_calls += usage.judge_calls if estimated else 0
        self.judge_calls += usage.judge_calls
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens
        self.translated_characters += usage.translated_characters
        if usage.cost_usd is None or self.cost_usd is None:
            self.cost_usd = None
        else:
            self.cost_usd += usage.cost_usd
            if not estimated:
                self.dearest_usd = max(self.dearest_usd, usage.cost_usd)

    def add(self, tally: Tally) -> None:
        """Adds new results' figures to those that are known."""
        self.intervals = None
        if self.tally is not None:
            known = unpack_tally(self.tally)
            known.merge(tally)
            self.tally = pack_tally(known)

    def forget_figures(self) -> None:
        """Drops figures after results have changed: a value cannot be removed from a tally exactly."""
        self.tally = self.intervals = None

    def start(self, now: datetime, time: datetime, whole_seconds: float) -> None:
        """queued → running. Starts the rate and the running time, of which a batch has `whole_seconds`. `time` is the
        running clock's, here and below."""
        if self.status == "queued":
            self.status = "running"
            self.started_at = self.started_at or now
            self.resumed_at, self.finished_before = now, self.finished
            self.run_out(time, whole_seconds)

    def run_out(self, time: datetime, whole_seconds: float) -> None:
        """Sets when the remaining running time ends."""
        self.left_seconds = whole_seconds if self.left_seconds is None else self.left_seconds
        self.expires_at = time + timedelta(seconds=self.left_seconds)

    def pause(self, reason: str, detail: Message, time: datetime) -> None:
        """queued or running → paused. The running time stops."""
        self.status, self.pause_reason, self.pause_detail = "paused", reason, write_pause(detail)
        if self.expires_at is not None:
            self.left_seconds, self.expires_at = max(0.0, (self.expires_at - time).total_seconds()), None

    def complete(self, now: datetime) -> None:
        """Ends the batch, unless it was cancelled. A paused one has nothing left to resume."""
        if self.status not in {"cancelled", "completed"}:
            self.status, self.finished_at, self.expires_at = "completed", now, None
            self.pause_reason = self.pause_detail = None


def write_pause(detail: Message) -> str:
    """What the column `pause_detail` holds."""
    return canonical_json(in_english(detail))


def read_pause(column: str | None) -> Message | str | None:
    """Why a batch is paused; older versions stored a text."""
    if column is None or not column.startswith(PAUSE):
        return column
    found = json.loads(column)
    return read_told(found["detail"], {"code": found["message"], "values": found["values"]})  # type: ignore[no-any-return]


PAUSE = '{"detail":'
"""How `write_pause` begins, and no sentence does."""

ACCOUNT_FIELDS = tuple(Account.__dataclass_fields__)
THIS = update(batches).where(batches.c.id == bindparam("this"))
STORE = THIS.values({name: bindparam(name) for name in ACCOUNT_FIELDS})


@dataclass(frozen=True)
class Locked:
    """A batch's row, which no other transaction changes until this one ends, and its account."""

    id: str
    row: Row[Any]
    account: Account


async def lock_batches(
    connection: AsyncConnection, ids: Collection[str], *, against_erasure: bool = False
) -> dict[str, Locked]:
    """Those of the batches that were accepted and are not erased. They are locked in the order of their ids, which
    prevents deadlocks; chunks are locked after batches. With `against_erasure` the batches cannot be erased until the
    transaction ends, but any number of workers may hold one. Their accounts are then not to be written back before
    `upgrade_locks`."""
    query = select(batches).where(batches.c.id.in_(sorted(ids)), batches.c.status != RECEIVING)
    # key_share: results that refer to the batch may be inserted meanwhile.
    locked = query.order_by(batches.c.id).with_for_update(read=against_erasure, key_share=True)
    return {row.id: read_account(row) for row in await connection.execute(locked)}


async def upgrade_locks(connection: AsyncConnection, held: Mapping[str, Locked]) -> dict[str, Locked]:
    """Locks batches that were locked `against_erasure`, and reads their accounts again, before they are changed. On
    SQLite no other transaction can have written since a `change` began."""
    return dict(held) if connection.dialect.name == "sqlite" else await lock_batches(connection, held)


def read_account(row: Row[Any]) -> Locked:
    """The batch of a row with its account."""
    return Locked(row.id, row, Account(*(row._mapping[name] for name in ACCOUNT_FIELDS)))


async def store_accounts(connection: AsyncConnection, locked: Collection[Locked]) -> None:
    """Writes the accounts back."""
    if locked:
        await connection.execute(STORE, [{"this": each.id, **asdict(each.account)} for each in locked])


def log_completed(locked: Iterable[Locked]) -> None:
    """Logs the batches that a transaction completed. To be called once it is committed."""
    for batch in locked:
        if batch.account.status == "completed" != batch.row.status:
            counts = {name: getattr(batch.account, name) for name in ("scored", "partial", "failed", "expired")}
            logger.info("batch completed", extra={"batch_id": batch.id, **counts})


def log_paused(batch_id: str, reason: str) -> None:
    """Logs that a batch was paused. Its detail stays in the store: it may quote a judge."""
    logger.warning("batch paused: %s", reason, extra={"batch_id": batch_id, "code": reason})


TRIES_EXPECTED = 3
"""How many tries the cost of a candidate under a budget covers, with the default number of retries."""

chunk = batch_chunks.c
THIS_CHUNK = update(batch_chunks).where(chunk.batch_id == bindparam("this"), chunk.number == bindparam("job"))
TELL = THIS_CHUNK.values(begun=bindparam("count"))


async def settle_begun(
    connection: AsyncConnection,
    locked: Mapping[str, Locked],
    begun: Mapping[ChunkJob, int],
    closed: Collection[ChunkJob],
    now: datetime,
) -> None:
    """Notes how many candidates of each chunk may be begun; for closed chunks, counts them as spent. The caller holds
    the chunks and stores the accounts."""
    rows = [{"this": job.batch, "job": job.chunk, "count": count} for job, count in begun.items() if job not in closed]
    if rows:
        await connection.execute(TELL, rows)
    for job in closed:
        await spend_lost(connection, locked[job.batch], begun.get(job, 0), now)


async def spend_lost(connection: AsyncConnection, batch: Locked, begun: int, now: datetime) -> None:
    """Counts candidates that were begun and have no result as spent: in the batch's account, which the caller stores,
    and for the charged key."""
    row = batch.row
    # The provider's replies are kept, and each is counted with the result that it leads to.
    if not begun or row.mode == "provider-batch":
        return
    usage = expect_usage(batch.account, read_options(row.options), row.unit_cost_usd, begun)
    batch.account.spend(usage, estimated=True)
    if row.api_key is not None and usage.cost_usd:
        await charge_keys(connection, {row.api_key: usage.cost_usd}, now)


def expect_usage(account: Account, options: BatchOptions, unit_cost_usd: float | None, begun: int) -> Usage:
    """The expected usage of `begun` candidates: the average of the rated ones, and at least a call each, since replies
    of some may have come from the cache. Before one is rated: a call per sample and path, at the cost that the budget
    expects."""
    rated = account.scored + account.partial
    if rated == 0:
        paths = 2 if options.path == "both" else 1
        cost_usd = begun * (unit_cost_usd or 0.0) / TRIES_EXPECTED
        return Usage(judge_calls=begun * paths * options.judge.samples, cost_usd=cost_usd)
    counted = account.judge_calls - account.estimated_calls
    calls = max(begun, math.ceil(begun * counted / rated)) if counted else 0  # a judge may make none
    # Estimates are averages themselves, and change no ratio.
    share = calls / account.judge_calls if account.judge_calls else 0.0
    return Usage(
        judge_calls=calls,
        prompt_tokens=math.ceil(share * account.prompt_tokens),
        cached_tokens=math.floor(share * account.cached_tokens),
        completion_tokens=math.ceil(share * account.completion_tokens),
        translated_characters=math.ceil(share * account.translated_characters),
        cost_usd=None if account.cost_usd is None else share * account.cost_usd,
    )


RELEASED = {"owner": None, "lease_until": None, "queued_at": None, "reserved_usd": 0.0, "begun": 0, "set_aside": False}
CLOSE_CHUNK = THIS_CHUNK.values(state=bindparam("state"), **RELEASED)
END = update(batch_chunks).where(chunk.number == FINISH, chunk.state == "blocked")


def state_of_chunk(job: ChunkJob, account: Account, *, done: bool) -> str:
    """The state of a closed chunk. The end of a batch that has got more candidates waits for these."""
    if done:
        return "done"
    return "blocked" if job.chunk == FINISH and account.chunks_left else "waiting"


async def close_chunks(
    connection: AsyncConnection, locked: Mapping[str, Locked], closed: Mapping[ChunkJob, bool], now: datetime
) -> list[ChunkJob]:
    """Closes the chunks, which the caller holds: those with True are done. Counts them in the batches' accounts. Where
    none is left, completes the batch or frees the chunk that stands for its end; returns those to be queued."""
    rows = [
        {"this": job.batch, "job": job.chunk, "state": state_of_chunk(job, locked[job.batch].account, done=done)}
        for job, done in closed.items()
    ]
    if rows:
        await connection.execute(CLOSE_CHUNK, rows)
    for job, done in closed.items():
        if done and job.chunk >= 0:
            locked[job.batch].account.chunks_left -= 1
    # Not a step of the provider's mode: its close may come after the last chunk's, which has freed the end.
    ended = {job.batch for job, done in closed.items() if done and job.chunk != COLLECT}
    ready = []
    for each in (locked[batch_id] for batch_id in sorted(ended) if locked[batch_id].account.chunks_left == 0):
        is_active = each.account.is_active
        # One that is paused keeps its end until it is resumed; a sweep finds it then.
        freed = {"state": "queued", "queued_at": now} if is_active else {"state": "waiting", "queued_at": None}
        if (await connection.execute(END.where(chunk.batch_id == each.id).values(freed))).rowcount == 0:
            each.account.complete(now)
        elif is_active:
            ready.append(ChunkJob(each.id, FINISH))
    return ready


async def count_in(connection: AsyncConnection, changes: Mapping[tuple[str, str], int]) -> None:
    """Adds to the counts, by batch and signature. The caller has locked the batches."""
    rows = [
        {
            "batch_id": batch_id,
            "digest": hashlib.sha256(signature.encode()).hexdigest(),
            "signature": signature,
            "count": change,
        }
        for (batch_id, signature), change in changes.items()
        if change
    ]
    table = batch_signatures.c
    if rows:
        await connection.execute(insert_or_add(connection, batch_signatures, table.count), rows)
    ids = {batch_id for (batch_id, _), change in changes.items() if change < 0}
    if ids:
        await connection.execute(delete(batch_signatures).where(table.batch_id.in_(ids), table.count <= 0))
