"""A batch's counts, usage and status while one transaction changes them, and its row while nobody else does."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.part import ACTIVE, RECEIVING
from app.adapters.sql.tables import batches
from app.domain.evaluation import Usage
from app.domain.tally import Tally
from app.tally import pack, unpack

logger = logging.getLogger("saiten.batches")


@dataclass
class Account:
    """What a transaction may change of a batch, as it is to be at the transaction's end.

    `cost_usd` is None where the cost of any result is not known; `dearest_usd` what the dearest result cost. `tally`,
    `measures` and `intervals` are as the columns have them: most transactions change none of them.
    """

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

    @property
    def finished(self) -> int:
        return self.scored + self.partial + self.failed + self.expired

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def count(self, status: str, by: int = 1) -> None:
        """Counts `by` more results that are `scored`, `partial`, `failed` or `expired`."""
        setattr(self, status, getattr(self, status) + by)

    def spend(self, usage: Usage, *, estimated: bool = False) -> None:
        """Adds what one result took; `estimated`: what candidates without one are expected to have taken."""
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
            known = unpack(self.tally)
            known.merge(tally)
            self.tally = pack(known)

    def forget_figures(self) -> None:
        """Results have changed: a value cannot be taken out of a tally again to the last digit."""
        self.tally = self.intervals = None

    def start(self, now: datetime, whole_seconds: float) -> None:
        """queued → running. The rate counts from here, and the running time, of which a batch has `whole_seconds`."""
        if self.status == "queued":
            self.status = "running"
            self.started_at = self.started_at or now
            self.resumed_at, self.finished_before = now, self.finished
            self.run_out(now, whole_seconds)

    def run_out(self, now: datetime, whole_seconds: float) -> None:
        """Sets the moment at which the running time that is left will be over."""
        self.left_seconds = whole_seconds if self.left_seconds is None else self.left_seconds
        self.expires_at = now + timedelta(seconds=self.left_seconds)

    def pause(self, reason: str, detail: str, now: datetime) -> None:
        """queued or running → paused. The running time stands still."""
        self.status, self.pause_reason, self.pause_detail = "paused", reason, detail
        if self.expires_at is not None:
            self.left_seconds, self.expires_at = max(0.0, (self.expires_at - now).total_seconds()), None

    def complete(self, now: datetime) -> None:
        """Ends the batch, unless it was cancelled. A paused one whose last results came in has nothing to resume."""
        if self.status not in {"cancelled", "completed"}:
            self.status, self.finished_at, self.expires_at = "completed", now, None
            self.pause_reason = self.pause_detail = None


FIELDS = tuple(Account.__dataclass_fields__)
STORE = (
    update(batches).where(batches.c.id == bindparam("this")).values({name: bindparam(name) for name in FIELDS})
)  # fmt: skip


@dataclass(frozen=True)
class Locked:
    """A batch's row, which nobody else changes until the transaction ends, and its account."""

    id: str
    row: Row[tuple[object, ...]]
    account: Account


async def hold_batches(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Locked]:
    """The same batches, kept from being erased until the transaction ends, and from nothing else: any number of workers
    may hold one. Their accounts are as they were, and not to be written back."""
    query = select(batches).where(batches.c.id.in_(sorted(ids)), batches.c.status != RECEIVING)
    rows = await connection.execute(query.order_by(batches.c.id).with_for_update(read=True, key_share=True))
    return {row.id: read_account(row) for row in rows}


async def lock_batches(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Locked]:
    """Those of the batches that were accepted and are not erased. In the order of their ids, so that none waits for
    another in a circle; chunks are locked after batches."""
    query = select(batches).where(batches.c.id.in_(sorted(ids)), batches.c.status != RECEIVING)
    # key_share: results that refer to the batch may be inserted meanwhile.
    rows = await connection.execute(query.order_by(batches.c.id).with_for_update(key_share=True))
    return {row.id: read_account(row) for row in rows}


async def lock_held(connection: AsyncConnection, held: Mapping[str, Locked]) -> dict[str, Locked]:
    """The batches that `hold_batches` holds, locked, with their accounts as they are now; they are in a `change`, and
    not changed yet. On SQLite nobody else has written since it began: they are as they were read."""
    return dict(held) if connection.dialect.name == "sqlite" else await lock_batches(connection, held)


def read_account(row: Row[Any]) -> Locked:
    """A batch as its row has it."""
    return Locked(row.id, row, Account(*(row._mapping[name] for name in FIELDS)))


async def store_accounts(connection: AsyncConnection, locked: Collection[Locked]) -> None:
    """Writes the accounts back."""
    if locked:
        await connection.execute(STORE, [{"this": each.id, **asdict(each.account)} for each in locked])


def log_completed(locked: Iterable[Locked]) -> None:
    """Logs the batches that a transaction completed. To be called once it is committed."""
    for batch in locked:
        account = batch.account
        if account.status == "completed" != batch.row.status:
            counts = {name: getattr(account, name) for name in ("scored", "partial", "failed", "expired")}
            logger.info("batch completed", extra={"batch_id": batch.id, **counts})


def log_paused(batch_id: str, reason: str) -> None:
    """Logs that a batch was paused. Its detail stays in the store: it may quote what a judge said."""
    logger.warning("batch paused: %s", reason, extra={"batch_id": batch_id, "code": reason})
