"""Candidates that a worker may have begun: known before they are, and counted as spent where the worker dies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import bindparam, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Account, Locked
from app.adapters.sql.batches.texts import read_options
from app.adapters.sql.governance import charge_keys
from app.adapters.sql.tables import batch_chunks
from app.batch_ports import Job
from app.domain.batch import BatchOptions
from app.domain.evaluation import Usage

TRIES_RECKONED = 3
"""What a candidate is reckoned with under a budget bears so many tries, unless malformed replies are retried less or
more often than by default."""

chunk = batch_chunks.c
TELL = (
    update(batch_chunks)
    .where(chunk.batch_id == bindparam("this"), chunk.number == bindparam("job"))
    .values(begun=bindparam("count"))
)


async def settle_begun(
    connection: AsyncConnection,
    locked: Mapping[str, Locked],
    begun: Mapping[Job, int],
    closed: Collection[Job],
    now: datetime,
) -> None:
    """Notes how many candidates of each chunk may be begun. Of chunks that are closed they were begun in vain, and are
    counted as spent. The caller holds the chunks and stores the accounts."""
    rows = [{"this": job.batch, "job": job.chunk, "count": count} for job, count in begun.items() if job not in closed]
    if rows:
        await connection.execute(TELL, rows)
    for job in closed:
        await spend_lost(connection, locked[job.batch], begun.get(job, 0), now)


async def spend_lost(connection: AsyncConnection, batch: Locked, begun: int, now: datetime) -> None:
    """Counts candidates that were begun and have no result as spent: in the batch's account, which the caller stores,
    and for the key that is charged."""
    row = batch.row._mapping
    # The provider's replies are kept, and each is counted with the result that it leads to.
    if not begun or row["mode"] == "provider-batch":
        return
    usage = expect_usage(batch.account, read_options(row["options"]), row["unit_cost_usd"], begun)
    batch.account.spend(usage, estimated=True)
    if row["api_key"] is not None and usage.cost_usd:
        await charge_keys(connection, {row["api_key"]: usage.cost_usd}, now)


def expect_usage(account: Account, options: BatchOptions, unit_cost_usd: float | None, begun: int) -> Usage:
    """What so many candidates of the batch are expected to take: on average what those that are rated did, and a call
    each at least, since replies of some may have come from the cache. Before one is rated, a call for each sample and
    path, at the cost that the budget reckons with."""
    rated = account.scored + account.partial
    if rated == 0:
        paths = 2 if options.path == "both" else 1
        cost_usd = begun * (unit_cost_usd or 0.0) / TRIES_RECKONED
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
