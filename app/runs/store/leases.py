"""Leases of chunks, from the job queue to the commit. They are how a batch resumes after a crash: `claim_chunk` takes
over a lease that has run out, and finds the candidates without a result, as far as the budget allows. `commit_results`
stores results with everything that follows from them."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, exists, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten.core.messages import Message
from saiten_server.core.batch import EXPIRED
from saiten_server.core.evaluation import Evaluation
from saiten_server.core.redaction import ERASED_FAILURE
from saiten_server.governance.store import charge_keys, find_money
from saiten_server.platform.sql.erased_calls import note_erased_calls
from saiten_server.platform.sql.sizes import count_bytes, measure_result, sum_up
from saiten_server.platform.sql.tables import api_keys, batch_chunks, batch_items, batches, evaluations, result_figures
from saiten_server.runs.store.account import (
    RELEASED,
    Locked,
    close_chunks,
    count_in,
    lock_batches,
    log_paused,
    settle_begun,
    spend_lost,
    store_accounts,
    upgrade_locks,
)
from saiten_server.runs.store.rows import (
    ACTIVE,
    RECEIVING,
    Measures,
    Placed,
    describe_result,
    extend_measures,
    figure,
    find_figures,
    insert_figures,
    read_faulty,
    read_measures,
    read_placed,
    rewrite_figures,
    write_measures,
)
from saiten_server.runs.store.running_time import read_running_time
from saiten_server.runs.summary import ResultFigures, Tally, measure_evaluation, tally_results
from saiten_server.runs.work import COLLECT, FINISH, ChunkJob, Committed, FinishedCandidate, Work, price_candidate
from saiten_server.scoring.store import read_options, replace_parts

chunk, item, result = batch_chunks.c, batch_items.c, evaluations.c


@dataclass(frozen=True)
class CandidateSpan:
    """The candidates of a leased chunk, both ends included."""

    first: int
    last: int
    state: str

    @property
    def positions(self) -> range:
        return range(self.first, self.last + 1)


def match_jobs(jobs: Iterable[ChunkJob]) -> ColumnElement[bool]:
    """The condition that finds the jobs' chunks, by the primary key on either database."""
    numbers: dict[str, list[int]] = {}
    for job in jobs:
        numbers.setdefault(job.batch, []).append(job.chunk)
    return or_(*((chunk.batch_id == batch_id) & chunk.number.in_(found) for batch_id, found in numbers.items()))


async def find_leased(
    connection: AsyncConnection, owner: str, jobs: Iterable[ChunkJob]
) -> dict[ChunkJob, CandidateSpan]:
    """Those of the jobs whose chunk the owner has leased, locked in a fixed order, which prevents deadlocks."""
    query = select(chunk.batch_id, chunk.number, chunk.first, chunk.last, chunk.state)
    mine = query.where(match_jobs(jobs), chunk.owner == owner).order_by(chunk.batch_id, chunk.number)
    rows = await connection.execute(mine.with_for_update())
    return {ChunkJob(row.batch_id, row.number): CandidateSpan(row.first, row.last, row.state) for row in rows}


EXHAUSTED = "budget-exhausted"
MONEY_ROUNDING = 1e-9
"""A budget that is a whole multiple of the cost must not lose a candidate to binary fractions."""


@dataclass(frozen=True)
class CandidateBudget:
    """A batch's budget. `spent_usd` is None if the cost of a result is not known: then no more may be spent.
    `reserved_usd` is what other chunks may still spend, `unit_usd` what one candidate may cost."""

    total_usd: float | None
    spent_usd: float | None
    reserved_usd: float
    unit_usd: float

    def afford(self, wanted: int) -> int:
        """How many of `wanted` candidates, from 0 to all."""
        if self.total_usd is None:
            return wanted
        if self.spent_usd is None:
            return 0
        left_usd = self.total_usd - self.spent_usd - self.reserved_usd
        if left_usd < -MONEY_ROUNDING:
            return 0
        if self.unit_usd <= 0:
            return wanted
        # A budget that is huge compared with the cost allows infinitely many, which cannot be rounded down.
        return max(0, math.floor(min(wanted, left_usd / self.unit_usd + MONEY_ROUNDING)))

    def explain(self) -> Message:
        """One sentence that says why the batch pauses."""
        if self.spent_usd is None:
            return Message("pause-cost-unknown")
        return Message("pause-budget", unit=self.unit_usd, total=self.total_usd, spent=self.spent_usd)


@dataclass(frozen=True)
class KeyMoney:
    """What a batch's key has spent today and may spend a day, and what chunks in hand of all its batches may cost."""

    spent_usd: float
    limit_usd: float
    reserved_usd: float

    def afford(self, wanted: int, unit_usd: float) -> int:
        """How many of `wanted` candidates may begin. Where nothing is in hand one always may: the batch pauses once the
        limit is reached, and not while something is left that no candidate seems to fit into."""
        if unit_usd <= 0:
            return wanted
        left_usd = self.limit_usd - self.spent_usd - self.reserved_usd
        fewest = 0 if self.reserved_usd > 0 else 1
        return max(fewest, math.floor(min(wanted, left_usd / unit_usd + MONEY_ROUNDING)))


OVERSPENT = "cost-limit-reached"


@dataclass(frozen=True)
class Lease:
    """A lease for `owner` until `until`, with `begun` candidates that it may begin before it reports more."""

    owner: str
    until: datetime
    begun: int


async def claim_chunk(
    connection: AsyncConnection, job: ChunkJob, lease: Lease, usd_per_day: float | None, now: datetime
) -> Work | None:
    """Leases the job's chunk, see `BatchStore.claim`. `usd_per_day` is the limit of a key without its own."""
    batch, money = await lock_claimed(connection, job, usd_per_day, now)
    time = await read_running_time(connection, now)
    if batch is None or not is_open(batch, job, time):
        return None
    if money is not None and money.spent_usd >= money.limit_usd:
        await pause_overspent(connection, batch.id, money, now)
        return None
    query = select(batch_chunks).where(chunk.batch_id == job.batch, chunk.number == job.chunk)
    # skip_locked: a chunk that is being committed to is leased.
    found = (await connection.execute(query.with_for_update(skip_locked=True))).one_or_none()
    if found is None or not is_free(found, now):
        return None
    if found.begun:
        batch = await spend_begun(connection, batch, job.batch, found.begun, now)
    todo = await select_todo(connection, job.batch, found)
    if not todo and job.chunk >= 0:
        await close_stored(connection, job, now)
        return None
    crashes = found.crashes + (found.owner not in {None, lease.owner})
    budget = await find_budget(connection, batch, job)
    within_budget = budget.afford(len(todo))
    affordable = within_budget if money is None else min(within_budget, money.afford(len(todo), budget.unit_usd))
    if todo and not affordable:
        await connection.execute(this_chunk(job).values(state="waiting", crashes=crashes, **RELEASED))
        if not within_budget:  # else what is in hand may cost all that is left of the key's money
            await pause_exhausted(connection, batch, budget.explain(), time)
        return None
    bounded = money is not None or budget.total_usd is not None
    await connection.execute(
        this_chunk(job).values(
            state="leased",
            owner=lease.owner,
            lease_until=lease.until,
            queued_at=None,
            crashes=crashes,
            reserved_usd=affordable * budget.unit_usd if bounded else 0.0,
            begun=min(lease.begun, affordable),
            set_aside=False,
        )
    )
    options = read_options(batch.row.options)
    if batch.account.status == "queued":
        batch.account.start(now, time, 3600.0 * options.running_hours)
        await store_accounts(connection, [batch])
    return Work(
        job=job,
        project=batch.row.project,
        options=options,
        # In a thread: long conversations take milliseconds each.
        todo=await asyncio.to_thread(lambda: [read_placed(row) for row in todo]),
        suspect=crashes > 0,
        affordable=affordable,
        unit_usd=budget.unit_usd if bounded else None,
        tries={row.position: row.tries for row in todo if row.tries},
    )


async def spend_begun(connection: AsyncConnection, batch: Locked, name: str, begun: int, now: datetime) -> Locked:
    """Spends what a previous owner of a chunk had begun: it died, or lost the lease, and that may be paid for."""
    batch = (await upgrade_locks(connection, {name: batch}))[name]
    await spend_lost(connection, batch, begun, now)
    await store_accounts(connection, [batch])
    return batch


async def lock_claimed(
    connection: AsyncConnection, job: ChunkJob, usd_per_day: float | None, now: datetime
) -> tuple[Locked | None, KeyMoney | None]:
    """The job's batch, locked, and the money of its key, if that has a limit. Then claims for the key follow each other
    since each has to count what those before it have reserved."""
    batch = (await lock_batches(connection, [job.batch], against_erasure=True)).get(job.batch)
    if batch is None:
        return None, None
    money = await find_money_of(connection, batch, job, usd_per_day, now)
    if batch.account.status == "queued" or batch.row.budget_usd is not None or money is not None:
        # The batch will be changed, or its budget computed. Most claims do neither, and need not wait for commits.
        batch = (await upgrade_locks(connection, {job.batch: batch}))[job.batch]
    if money is not None:
        # After the batch, so that no two claims can deadlock.
        key = select(api_keys.c.id).where(api_keys.c.id == batch.row.api_key)
        await connection.execute(key.with_for_update(key_share=True))
        money = await find_money_of(connection, batch, job, usd_per_day, now)
    return batch, money


async def knows_rubric(connection: AsyncConnection, job: ChunkJob, has_rubric: Callable[[str, str], bool]) -> bool:
    """Whether the owner has the rubric that the job's batch is to be scored by. If not, leaves the job to others: the
    next sweep queues it again, and the batch shows why it waits."""
    query = select(batches.c.options, batches.c.rubric_digest, batches.c.rubric_differs).where(
        batches.c.id == job.batch
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None or row.rubric_digest is None:
        return True
    has = has_rubric(read_options(row.options).rubric, row.rubric_digest)
    if has == row.rubric_differs:
        this = update(batches).where(batches.c.id == job.batch)
        await connection.execute(this.values(rubric_differs=not has))
    if not has:
        await connection.execute(this_chunk(job).where(chunk.state == "queued").values(state="waiting", queued_at=None))
    return has


async def close_stored(connection: AsyncConnection, job: ChunkJob, now: datetime) -> None:
    """Closes a chunk whose previous owner had stored every result and died before it closed the chunk."""
    batch = (await lock_batches(connection, [job.batch]))[job.batch]
    await close_chunks(connection, {batch.id: batch}, {job: True}, now)
    await store_accounts(connection, [batch])


async def pause_exhausted(connection: AsyncConnection, batch: Locked, detail: Message, time: datetime) -> None:
    """Pauses a batch whose budget affords no more candidates, unless another chunk has some of the budget reserved."""
    others = select(func.count()).where(chunk.batch_id == batch.id, chunk.state == "leased")
    if (await connection.execute(others)).scalar_one() == 0:
        batch.account.pause(EXHAUSTED, detail, time)
        await store_accounts(connection, [batch])
        log_paused(batch.id, EXHAUSTED)


async def find_money_of(
    connection: AsyncConnection, batch: Locked, job: ChunkJob, usd_per_day: float | None, now: datetime
) -> KeyMoney | None:
    """The money of the batch's key; None if it has no limit, or the job costs nothing."""
    key_id: str | None = batch.row.api_key
    # The replies of a provider's batch are already paid for, and a batch's end costs nothing.
    costs = job.chunk == COLLECT if batch.row.mode == "provider-batch" else job.chunk >= 0
    found = await find_money(connection, key_id, usd_per_day, now) if key_id is not None and costs else None
    if found is None:
        return None
    mine = select(batches.c.id).where(batches.c.api_key == key_id, batches.c.status.in_(ACTIVE))
    others = or_(chunk.batch_id != job.batch, chunk.number != job.chunk)
    query = select(func.sum(chunk.reserved_usd)).where(chunk.batch_id.in_(mine), chunk.state == "leased", others)
    return KeyMoney(*found, (await connection.execute(query)).scalar_one() or 0.0)


async def pause_overspent(connection: AsyncConnection, batch_id: str, money: KeyMoney, now: datetime) -> None:
    """Pauses a batch whose key has reached today's limit."""
    batch = (await lock_batches(connection, [batch_id]))[batch_id]
    if batch.account.is_active:
        detail = Message("pause-key-cost", limit=money.limit_usd, spent=money.spent_usd)
        batch.account.pause(OVERSPENT, detail, await read_running_time(connection, now))
        await store_accounts(connection, [batch])
        log_paused(batch.id, OVERSPENT)


def is_open(batch: Locked, job: ChunkJob, time: datetime) -> bool:
    """Whether the job may be done: its batch is active and not past its deadline by the running clock. `FINISH` may be
    done after it."""
    expires_at = batch.account.expires_at
    return batch.account.is_active and (expires_at is None or time < expires_at or job.chunk == FINISH)


def this_chunk(job: ChunkJob) -> Any:
    """An update of the job's chunk."""
    return update(batch_chunks).where(chunk.batch_id == job.batch, chunk.number == job.chunk)


def is_free(found: Row[Any], now: datetime) -> bool:
    """Whether the chunk can be leased: it is not done, not blocked, and without a valid lease."""
    held = found.state == "leased" and found.lease_until >= now
    return not held and found.state not in {"done", "blocked"}


async def select_todo(connection: AsyncConnection, batch_id: str, found: Row[Any]) -> Sequence[Row[Any]]:
    """The chunk's candidates without a result, in order."""
    has_result = exists().where(evaluations.c.batch_id == batch_id, evaluations.c.position == item.position)
    query = select(batch_items).where(item.batch_id == batch_id, item.position.between(found.first, found.last))
    return (await connection.execute(query.where(~has_result).order_by(item.position))).all()


async def find_budget(connection: AsyncConnection, batch: Locked, job: ChunkJob) -> CandidateBudget:
    """The batch's budget without what this chunk has reserved."""
    total: Any = batch.row.budget_usd
    unit = price_candidate(batch.row.mode, batch.row.unit_cost_usd, batch.account.dearest_usd)
    if total is None:
        return CandidateBudget(None, batch.account.cost_usd, 0.0, unit)
    leased = (chunk.batch_id == job.batch) & (chunk.state == "leased") & (chunk.number != job.chunk)
    reserved = (await connection.execute(select(func.sum(chunk.reserved_usd)).where(leased))).scalar_one()
    return CandidateBudget(total, batch.account.cost_usd, reserved or 0.0, unit)


ABANDONED = timedelta(hours=1)
"""A batch that has not been accepted for this long belonged to a process that died."""

LEAST_CHUNKS = 2
"""Chunks that every batch may have under way, however many others there are."""

UNDER_WAY = chunk.state.in_(("queued", "leased")) & ~chunk.set_aside


@dataclass(frozen=True)
class Due:
    """What a sweep has to do: `batches` with a job to be queued, and whether a batch was `abandoned` before it was
    accepted. `share` is how many chunks each batch may have queued or leased."""

    batches: Sequence[str]
    abandoned: bool
    share: int


async def find_due(connection: AsyncConnection, window: int, overdue: ColumnElement[bool], now: datetime) -> Due:
    """Finds what a sweep has to do, without locks: usually there is nothing to do."""
    status = batches.c.status
    open_ones = or_(status.in_(ACTIVE), and_(status == RECEIVING, batches.c.created_at < now - ABANDONED))
    rows = (await connection.execute(select(batches.c.id, status).where(open_ones))).all()
    active = [row.id for row in rows if row.status != RECEIVING]
    share = share_of(window, len(active))
    mine = chunk.batch_id == batches.c.id
    under_way = select(func.count()).where(mine, UNDER_WAY).scalar_subquery()
    has_room = and_(exists().where(mine, chunk.state == "waiting"), under_way < share)
    query = select(batches.c.id).where(status.in_(ACTIVE), or_(has_room, exists().where(mine, overdue)))
    due = (await connection.execute(query)).scalars().all() if active else []
    return Due(due, len(active) < len(rows), share)


async def queue_due(
    connection: AsyncConnection, due: Due, overdue: ColumnElement[bool], now: datetime
) -> list[ChunkJob]:
    """Discards abandoned batches, and marks the chunks that are due as queued."""
    if due.abandoned:
        abandoned = (batches.c.status == RECEIVING) & (batches.c.created_at < now - ABANDONED)
        await connection.execute(delete(batches).where(abandoned))
    jobs: list[ChunkJob] = []
    for each in (await lock_batches(connection, due.batches)).values():
        if each.account.is_active:
            # skip_locked: a chunk whose lease is being renewed is not overdue.
            query = select(chunk.number).where(chunk.batch_id == each.id, overdue).order_by(chunk.number)
            numbers = (await connection.execute(query.with_for_update(skip_locked=True))).scalars().all()
            # The owner of a lease that ran out stays, so that the next claim counts a crash.
            jobs += await mark_chunks(connection, each.id, numbers, {"queued_at": now})
            jobs += await queue_waiting(connection, each.id, due.share, now, with_end=True)
    return jobs


async def queue_next(connection: AsyncConnection, batch_id: str, window: int, now: datetime) -> list[ChunkJob]:
    """Marks the batch's next chunks as queued, up to its share of the window."""
    found = (await lock_batches(connection, [batch_id])).get(batch_id)
    if found is None or not found.account.is_active:
        return []
    return await queue_after(connection, [batch_id], window, now)


async def queue_after(connection: AsyncConnection, ids: Sequence[str], window: int, now: datetime) -> list[ChunkJob]:
    """Marks the next chunks as queued of these batches, which the caller has locked."""
    if not ids:
        return []
    active = select(func.count()).select_from(batches).where(batches.c.status.in_(ACTIVE))
    share = share_of(window, (await connection.execute(active)).scalar_one())
    return [job for batch_id in ids for job in await queue_waiting(connection, batch_id, share, now)]


def share_of(window: int, active: int) -> int:
    """How many chunks each of `active` batches may have queued or leased, so that a small one is served soon."""
    return max(LEAST_CHUNKS, math.ceil(window / max(1, active)))


def overdue_at(now: datetime, queued_before: datetime) -> ColumnElement[bool]:
    """Chunks whose lease has run out, or that the queue has lost: queued before that time and never claimed."""
    queued_long_ago = chunk.queued_at < queued_before
    run_out = and_(chunk.state == "leased", chunk.lease_until < now, or_(chunk.queued_at.is_(None), queued_long_ago))
    # The states stand first and alone, so that each database finds the few chunks by its index.
    under_way = chunk.state.in_(("queued", "leased"))
    return and_(under_way, or_(and_(chunk.state == "queued", queued_long_ago), run_out))


async def queue_waiting(
    connection: AsyncConnection, batch_id: str, share: int, now: datetime, *, with_end: bool = False
) -> list[ChunkJob]:
    """Marks the next chunks as queued, so that at most `share` are queued or leased. The caller has locked the batch.
    `with_end` includes work on the whole batch. Only a sweep queues that again, so that a failing end is not retried
    without a pause."""
    mine = chunk.batch_id == batch_id
    under_way = select(func.count()).where(mine, UNDER_WAY)
    room = share - (await connection.execute(under_way)).scalar_one()
    if room <= 0:
        return []
    waiting = select(chunk.number).where(mine, chunk.state == "waiting", chunk.number >= (COLLECT if with_end else 0))
    numbers = (await connection.execute(waiting.order_by(chunk.number).limit(room))).scalars().all()
    return await mark_chunks(connection, batch_id, numbers, {"state": "queued", "queued_at": now})


async def mark_chunks(
    connection: AsyncConnection, batch_id: str, numbers: Sequence[int], marks: dict[str, object]
) -> list[ChunkJob]:
    """Sets the marks of these chunks, and returns their jobs."""
    if numbers:
        mine = update(batch_chunks).where(chunk.batch_id == batch_id, chunk.number.in_(numbers))
        await connection.execute(mine.values(marks))
    return [ChunkJob(batch_id, number) for number in numbers]


BatchPosition = tuple[str, int]
"""A batch and a position in it."""

ERASED = ERASED_FAILURE.model_dump_json()
"""What stands in `evaluations.failure` for an erased candidate."""


async def commit_results(
    connection: AsyncConnection,
    owner: str,
    finished: Sequence[FinishedCandidate],
    closed: Sequence[ChunkJob],
    begun: Mapping[ChunkJob, int],
    *,
    window: int,
    now: datetime,
) -> tuple[Committed, Collection[Locked]]:
    """As `BatchStore.commit` says: a dozen statements, however many results. Returns the changed batches too."""
    jobs = {*(each.job for each in finished), *closed, *begun}
    # A batch's row is locked last: each statement waits for its turn in a busy worker's loop, and while one worker
    # holds the row no other can commit. Transactions that lock chunks after batches skip those locked here.
    known = await lock_batches(connection, {job.batch for job in jobs}, against_erasure=True)
    found = await find_leased(connection, owner, jobs)
    held = {job: span for job, span in found.items() if job.batch in known}
    kept, erased = await find_stored(connection, held)
    # Results that come too late, for candidates that were erased: no other row names their calls.
    late = [each for each in finished if (each.job.batch, each.entry.position) in erased]
    await note_erased_calls(connection, {key for each in late for key in each.calls})
    free: list[tuple[FinishedCandidate, ResultFigures]] = []
    for each in finished:
        place = (each.job.batch, each.entry.position)
        if each.job in held and place not in kept:
            kept.add(place)
            free.append((each, find_figures(each)))
    added = await insert_results(connection, known, free, now)
    ending = {job: is_done(job, held[job], kept) for job in closed if job in held}
    locked = await upgrade_locks(connection, known)
    costs = await enter_results(connection, locked, free)
    await settle_figures(connection, locked, added)
    await settle_begun(connection, locked, {job: begun[job] for job in held if job in begun}, ending, now)
    ready = await close_chunks(connection, locked, ending, now)
    await store_accounts(connection, locked.values())
    going_on = sorted({job.batch for job in ending if job.chunk >= 0 and locked[job.batch].account.is_active})
    ready += await queue_after(connection, going_on, window, now)
    # Last: while the row of a key is held, no other worker can commit for any batch of that key.
    await charge_keys(connection, costs, now)
    stopped = {job for job in held if job not in ending and not locked[job.batch].account.is_active}
    touched = {job for job, span in held.items() if any((job.batch, place) in erased for place in span.positions)}
    committed = Committed(frozenset(jobs - held.keys()), frozenset(stopped), tuple(ready), frozenset(touched))
    return committed, locked.values()


async def find_stored(
    connection: AsyncConnection, held: Mapping[ChunkJob, CandidateSpan]
) -> tuple[set[BatchPosition], set[BatchPosition]]:
    """The places of the held chunks that have a result already, and those of them that were erased."""
    if not held:
        return set(), set()
    # Between numbers rather than between columns of the chunks: of those PostgreSQL expects a ninth of all results, and
    # reads through a large batch's from its first at every commit.
    places = or_(
        *((result.batch_id == job.batch) & result.position.between(span.first, span.last) for job, span in held.items())
    )
    rows = (await connection.execute(select(result.batch_id, result.position, result.failure).where(places))).all()
    erased = {(row.batch_id, row.position) for row in rows if row.failure == ERASED}
    return {(row.batch_id, row.position) for row in rows}, erased


@dataclass(frozen=True)
class Added:
    """What a commit adds to one batch: figures, and bytes. `measures` say where the values of `placed` were put."""

    placed: Placed
    tally: Tally
    measures: Measures
    stored_bytes: int


async def insert_results(
    connection: AsyncConnection,
    locked: Mapping[str, Locked],
    new: Sequence[tuple[FinishedCandidate, ResultFigures]],
    now: datetime,
) -> dict[str, Added]:
    """Inserts the results, and returns by batch what they add to it."""
    placed = defaultdict[str, list[tuple[int, ResultFigures]]](list)
    for each, figures in new:
        placed[each.job.batch].append((each.entry.position, figures))
    rows = [describe_result(each, figures.status, locked[each.job.batch].row, now) for each, figures in new]
    sizes = sum_up((row["batch_id"], measure_result(row)) for row in rows)
    added = {
        name: Added(
            results,
            tally_results(figures for _, figures in results),
            place_values(locked[name], results),
            sizes[name],
        )
        for name, results in placed.items()
    }
    if rows:
        await connection.execute(insert(evaluations), rows)
        entries = {(each.job.batch, each.entry.position): each.entry for each, _ in new}
        await insert_figures(connection, placed, {name: one.measures for name, one in added.items()}, entries)
    return added


def place_values(batch: Locked, placed: Placed) -> Measures:
    """The batch's measures with those of the results."""
    return extend_measures(read_measures(batch.account.measures), [figures for _, figures in placed])


async def enter_results(
    connection: AsyncConnection, locked: Mapping[str, Locked], new: Sequence[tuple[FinishedCandidate, ResultFigures]]
) -> dict[str, float]:
    """Counts new results in their batches' accounts and signatures. Returns what they cost (USD) by the key that is
    charged."""
    signatures, costs = Counter[tuple[str, str]](), defaultdict[str, float](float)
    for each, figures in new:
        batch = locked[each.job.batch]
        batch.account.count("expired" if each.failure == EXPIRED else figures.status)
        batch.account.spend(each.usage)
        if each.record is not None:
            signatures[each.job.batch, each.record.evaluation.signature] += 1
        key_id = batch.row.api_key
        if key_id is not None and each.usage.cost_usd:
            costs[key_id] += each.usage.cost_usd
    await count_in(connection, signatures)
    return costs


async def settle_figures(connection: AsyncConnection, locked: Mapping[str, Locked], added: Mapping[str, Added]) -> None:
    """Adds new results' figures to their batches'. Where another commit has given the values other columns since the
    results were inserted, theirs are moved there."""
    for batch_id, each in added.items():
        account = locked[batch_id].account
        account.add(each.tally)
        account.stored_bytes += each.stored_bytes
        measures = place_values(locked[batch_id], each.placed)
        if measures[: len(each.measures)] != each.measures:
            await rewrite_figures(connection, batch_id, each.placed, measures)
        account.measures = write_measures(measures)


def is_done(job: ChunkJob, span: CandidateSpan, kept: set[BatchPosition]) -> bool:
    """Whether nothing of a chunk is left to do. A chunk for work on the whole batch is done when it was marked so,
    not when it is closed."""
    if job.chunk < 0:
        return span.state == "done"
    return all((job.batch, position) in kept for position in span.positions)


CHUNKS_AT_ONCE = 10
"""Chunks of one transaction, some 400 results: others are to commit in between."""


async def expire_chunks(
    connection: AsyncConnection, batch_id: str, now: datetime, time: datetime
) -> tuple[Sequence[ChunkJob], Sequence[ChunkJob], Locked | None]:
    """Ends some chunks of the batch, where its running time is over at the running clock's `time`. Returns them, the
    jobs that follow, and the batch."""
    batch = (await lock_batches(connection, [batch_id])).get(batch_id)
    if batch is None or batch.account.status != "running":
        return [], [], None
    if batch.account.expires_at is None:
        # It was started by a release without deadlines.
        batch.account.run_out(time, 3600.0 * read_options(batch.row.options).running_hours)
    if batch.account.expires_at is not None and time < batch.account.expires_at:
        await store_accounts(connection, [batch])
        return [], [], None
    ended = await end_chunks(connection, batch, now)
    ready = await close_chunks(connection, {batch_id: batch}, dict.fromkeys(ended, True), now)
    await store_accounts(connection, [batch])
    return ended, ready, batch


async def end_chunks(connection: AsyncConnection, batch: Locked, now: datetime) -> Sequence[ChunkJob]:
    """Fails what is missing in some chunks of the batch, which the caller closes."""
    mine = chunk.batch_id == batch.id
    left = select(batch_chunks).where(mine, chunk.number >= 0, chunk.state != "done").order_by(chunk.number)
    # skip_locked: one that is being committed to comes later.
    rows = (await connection.execute(left.limit(CHUNKS_AT_ONCE).with_for_update(skip_locked=True))).all()
    new: list[tuple[FinishedCandidate, ResultFigures]] = []
    for row in rows:
        for item in await select_todo(connection, batch.id, row):
            failed = FinishedCandidate(ChunkJob(batch.id, row.number), read_placed(item)[0], None, EXPIRED)
            new.append((failed, find_figures(failed)))
        await spend_lost(connection, batch, row.begun, now)
    locked = {batch.id: batch}
    added = await insert_results(connection, locked, new, now)
    await enter_results(connection, locked, new)
    await settle_figures(connection, locked, added)
    collecting = update(batch_chunks).where(mine, chunk.number == COLLECT)
    await connection.execute(collecting.values(state="done", queued_at=None))
    return [ChunkJob(batch.id, row.number) for row in rows]


REWRITE = (
    update(evaluations)
    .where(result.id == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in ("record", "status", "signature")})
)


async def rewrite_results(connection: AsyncConnection, batch: Locked, changed: dict[int, Evaluation]) -> None:
    """Puts the evaluations in, and changes the batch's account with them. Failures are left alone."""
    columns = (result.id, result.position, result.status, result.signature, result.record)
    kept = (figure.context, figure.system_turns, figure.findings)
    query = (
        select(*columns, *kept)
        .join(result_figures, (figure.batch_id == result.batch_id) & (figure.position == result.position))
        .where(result.batch_id == batch.id, result.position.in_(changed), result.failure.is_(None))
    )
    rows, placed, signatures = [], list[tuple[int, ResultFigures]](), Counter[tuple[str, str]]()
    for row in await connection.execute(query):
        evaluation = changed[row.position]
        faulty = read_faulty(row.system_turns, row.findings)
        placed.append((row.position, measure_evaluation(evaluation, row.context, faulty)))
        new = {
            "new_record": replace_parts(row.record, evaluation=evaluation),
            "new_status": evaluation.status,
            "new_signature": evaluation.signature,
        }
        rows.append({"this": row.id, **new})
        for name in ("record", "signature"):
            batch.account.stored_bytes += count_bytes(new[f"new_{name}"]) - count_bytes(getattr(row, name))
        batch.account.count(evaluation.status)
        batch.account.count(row.status, -1)
        signatures.update({(batch.id, evaluation.signature): 1})
        signatures.subtract({(batch.id, row.signature): 1})
    if not rows:
        return
    measures = place_values(batch, placed)
    await connection.execute(REWRITE, rows)
    await rewrite_figures(connection, batch.id, placed, measures)
    await count_in(connection, signatures)
    batch.account.measures = write_measures(measures)
    batch.account.forget_figures()
