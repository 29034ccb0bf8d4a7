"""Keeping results, with everything that follows from them; failing what is missing at a deadline; rewriting results."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.batch import EXPIRED
from app.domain.evaluation import Evaluation
from app.domain.redaction import ERASED_FAILURE
from app.domain.summary import Scores, Tally, pack_scores, scores_of, tally_scores, unpack_scores
from app.domain.work import COLLECT, ChunkJob, Committed, FinishedCandidate
from app.storage.sql.batches.account import (
    Locked,
    close_chunks,
    count_in,
    lock_against_erasure,
    lock_batches,
    settle_begun,
    spend_lost,
    store_accounts,
    upgrade_locks,
)
from app.storage.sql.batches.erasure import note_erased_calls
from app.storage.sql.batches.leases import CandidateSpan, find_leased, queue_after, select_todo
from app.storage.sql.batches.rows import (
    Placed,
    describe_result,
    extend_measures,
    insert_figures,
    read_measures,
    read_placed,
    replace_evaluation,
    rewrite_figures,
    score_result,
    whole_seconds,
    write_measures,
)
from app.storage.sql.governance import charge_keys
from app.storage.sql.tables import batch_chunks, evaluations

Place = tuple[str, int]
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
    batches = await lock_against_erasure(connection, {job.batch for job in jobs})
    found = await find_leased(connection, owner, jobs)
    held = {job: span for job, span in found.items() if job.batch in batches}
    kept, erased = await find_kept(connection, held)
    await owe_late(connection, finished, erased)
    free = pick_new([each for each in finished if each.job in held], kept)
    added = await keep(connection, batches, free, now)
    ending = {job: is_done(job, held[job], kept) for job in closed if job in held}
    locked = await upgrade_locks(connection, batches)
    await enter(connection, locked, free)
    await settle_figures(connection, locked, added)
    await settle_begun(connection, locked, {job: begun[job] for job in held if job in begun}, ending, now)
    ready = await close_chunks(connection, locked, ending, now)
    await store_accounts(connection, locked.values())
    going_on = sorted({job.batch for job in ending if job.chunk >= 0 and locked[job.batch].account.is_active})
    ready += await queue_after(connection, going_on, window, now)
    # Last: while the row of a key is held, no other worker can commit for any batch of that key.
    await charge_keys(connection, sum_costs(locked, free), now)
    stopped = {job for job in held if job not in ending and not locked[job.batch].account.is_active}
    touched = {job for job, span in held.items() if span.contains_any(job.batch, erased)}
    committed = Committed(frozenset(jobs - held.keys()), frozenset(stopped), tuple(ready), frozenset(touched))
    return committed, locked.values()


async def find_kept(
    connection: AsyncConnection, held: Mapping[ChunkJob, CandidateSpan]
) -> tuple[set[Place], set[Place]]:
    """The places of the held chunks that have a result already, and those of them that were erased."""
    if not held:
        return set(), set()
    result = evaluations.c
    # Between numbers rather than between columns of the chunks: of those PostgreSQL expects a ninth of all results, and
    # reads through a large batch's from its first at every commit.
    places = or_(
        *((result.batch_id == job.batch) & result.position.between(span.first, span.last) for job, span in held.items())
    )
    rows = (await connection.execute(select(result.batch_id, result.position, result.failure).where(places))).all()
    erased = {(row.batch_id, row.position) for row in rows if row.failure == ERASED}
    return {(row.batch_id, row.position) for row in rows}, erased


async def owe_late(
    connection: AsyncConnection, finished: Sequence[FinishedCandidate], erased: Collection[Place]
) -> None:
    """Notes the calls of results that come too late, for candidates that were erased: no other row names them."""
    late = [each for each in finished if (each.job.batch, each.entry.position) in erased]
    await note_erased_calls(connection, {key for each in late for key in each.calls})


@dataclass(frozen=True)
class Added:
    """What a commit adds to the figures of one batch. `measures` say where the values of `placed` were put."""

    placed: Placed
    tally: Tally
    measures: tuple[str, ...]


def pick_new(finished: Sequence[FinishedCandidate], kept: set[Place]) -> list[tuple[FinishedCandidate, Scores]]:
    """The results whose places are free, each with its figures. `kept` grows by them."""
    new = []
    for each in finished:
        place = (each.job.batch, each.entry.position)
        if place not in kept:
            kept.add(place)
            new.append((each, score_result(each)))
    return new


async def keep(
    connection: AsyncConnection,
    batches: Mapping[str, Locked],
    new: Sequence[tuple[FinishedCandidate, Scores]],
    now: datetime,
) -> dict[str, Added]:
    """Inserts the results, and returns by batch what they add to it."""
    placed = defaultdict[str, list[tuple[int, Scores]]](list)
    for each, scores in new:
        placed[each.job.batch].append((each.entry.position, scores))
    added = {
        batch_id: Added(results, tally_scores(figures_in(results)), place_values(batches[batch_id], results))
        for batch_id, results in placed.items()
    }
    if new:
        rows = [describe_result(each, scores, batches[each.job.batch].row, now) for each, scores in new]
        await connection.execute(insert(evaluations), rows)
        clusters = {(each.job.batch, each.entry.position): each.entry.cluster for each, _ in new}
        await insert_figures(connection, placed, {name: one.measures for name, one in added.items()}, clusters)
    return added


def figures_in(placed: Placed) -> list[Scores]:
    """The figures without their places."""
    return [scores for _, scores in placed]


def place_values(batch: Locked, placed: Placed) -> tuple[str, ...]:
    """The batch's measures with those of the results."""
    return extend_measures(read_measures(batch.account.measures), figures_in(placed))


async def enter(
    connection: AsyncConnection, locked: Mapping[str, Locked], new: Sequence[tuple[FinishedCandidate, Scores]]
) -> None:
    """Counts new results in their batches' accounts and signatures."""
    signatures = Counter[tuple[str, str]]()
    for each, scores in new:
        account = locked[each.job.batch].account
        account.count("expired" if each.failure == EXPIRED else scores.status)
        account.spend(each.usage)
        if each.record is not None:
            signatures[each.job.batch, each.record.evaluation.signature] += 1
    if signatures:
        await count_in(connection, signatures)


def sum_costs(locked: Mapping[str, Locked], new: Sequence[tuple[FinishedCandidate, Scores]]) -> dict[str, float]:
    """What new results cost (USD) by the key that is charged; nothing of batches without one."""
    costs = defaultdict[str, float](float)
    for each, _ in new:
        key_id = locked[each.job.batch].row._mapping["api_key"]
        if key_id is not None and each.usage.cost_usd:
            costs[key_id] += each.usage.cost_usd
    return costs


async def settle_figures(connection: AsyncConnection, locked: Mapping[str, Locked], added: Mapping[str, Added]) -> None:
    """Adds new results' figures to their batches'. Where another commit has given the values other columns since the
    results were inserted, theirs are moved there."""
    for batch_id, each in added.items():
        account = locked[batch_id].account
        account.add(each.tally)
        measures = place_values(locked[batch_id], each.placed)
        if measures[: len(each.measures)] != each.measures:
            await rewrite_figures(connection, batch_id, each.placed, measures)
        account.measures = write_measures(measures)


def is_done(job: ChunkJob, span: CandidateSpan, kept: set[Place]) -> bool:
    """Whether nothing of a chunk is left to do. A chunk for work on the whole batch is done when it was marked so,
    not when it is closed."""
    if job.chunk < 0:
        return span.state == "done"
    return sum((job.batch, position) in kept for position in range(span.first, span.last + 1)) == span.size


logger = logging.getLogger("saiten.batches")

CHUNKS_AT_ONCE = 10
"""Chunks of one transaction, some 400 results: others are to commit in between."""

chunk = batch_chunks.c


@dataclass(frozen=True)
class Expired:
    """What the end of some chunks led to: whether there were any, the jobs that follow, and the batch."""

    ended: bool = False
    ready: Sequence[ChunkJob] = ()
    locked: Collection[Locked] = ()


async def expire_chunks(connection: AsyncConnection, batch_id: str, now: datetime) -> Expired:
    """Ends some chunks of the batch, where its running time is over."""
    batch = (await lock_batches(connection, [batch_id])).get(batch_id)
    if batch is None or batch.account.status != "running":
        return Expired()
    if batch.account.expires_at is None:
        # It was started by a release without deadlines.
        batch.account.run_out(now, whole_seconds(batch.row))
    if batch.account.expires_at is not None and now < batch.account.expires_at:
        await store_accounts(connection, [batch])
        return Expired()
    ended = await end_chunks(connection, batch, now)
    ready = await close_chunks(connection, {batch_id: batch}, dict.fromkeys(ended, True), now)
    await store_accounts(connection, [batch])
    return Expired(bool(ended), ready, [batch])


async def end_chunks(connection: AsyncConnection, batch: Locked, now: datetime) -> Sequence[ChunkJob]:
    """Fails what is missing in some chunks of the batch, which the caller closes."""
    mine = chunk.batch_id == batch.id
    left = select(batch_chunks).where(mine, chunk.number >= 0, chunk.state != "done").order_by(chunk.number)
    # skip_locked: one that is being committed to comes later.
    rows = (await connection.execute(left.limit(CHUNKS_AT_ONCE).with_for_update(skip_locked=True))).all()
    failed: list[FinishedCandidate] = []
    for row in rows:
        todo = await select_todo(connection, batch.id, row)
        job = ChunkJob(batch.id, row.number)
        failed += [FinishedCandidate(job, read_placed(item)[0], None, EXPIRED) for item in todo]
        await spend_lost(connection, batch, row.begun, now)
    new = [(each, score_result(each)) for each in failed]
    locked = {batch.id: batch}
    added = await keep(connection, locked, new, now)
    await enter(connection, locked, new)
    await settle_figures(connection, locked, added)
    collecting = update(batch_chunks).where(mine, chunk.number == COLLECT)
    await connection.execute(collecting.values(state="done", queued_at=None))
    return [ChunkJob(batch.id, row.number) for row in rows]


result = evaluations.c
REWRITE = (
    update(evaluations)
    .where(result.id == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in ("record", "status", "signature", "scores")})
)


async def rewrite_results(connection: AsyncConnection, batch: Locked, changed: dict[int, Evaluation]) -> None:
    """Puts the evaluations in, and changes the batch's account with them. Failures are left alone."""
    query = select(result.id, result.position, result.status, result.signature, result.record, result.scores).where(
        result.batch_id == batch.id, result.position.in_(changed), result.failure.is_(None)
    )
    rows, placed, signatures = [], list[tuple[int, Scores]](), Counter[tuple[str, str]]()
    for row in await connection.execute(query):
        evaluation = changed[row.position]
        scores = scores_of(evaluation, unpack_scores(row.scores).context)
        placed.append((row.position, scores))
        rows.append(
            {
                "this": row.id,
                "new_record": replace_evaluation(row.record, evaluation),
                "new_status": evaluation.status,
                "new_signature": evaluation.signature,
                "new_scores": pack_scores(scores),
            }
        )
        batch.account.count(evaluation.status)
        batch.account.count(row.status, -1)
        signatures.update({(batch.id, evaluation.signature): 1})
        signatures.subtract({(batch.id, row.signature): 1})
    if not rows:
        return
    measures = extend_measures(read_measures(batch.account.measures), [scores for _, scores in placed])
    await connection.execute(REWRITE, rows)
    await rewrite_figures(connection, batch.id, placed, measures)
    await count_in(connection, signatures)
    batch.account.measures = write_measures(measures)
    batch.account.forget_figures()
