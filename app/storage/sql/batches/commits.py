"""Keeping results, with everything that follows from them; failing what is missing at a deadline; rewriting results."""

from __future__ import annotations

import json
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
    read_options,
    read_placed,
    replace_evaluation,
    rewrite_figures,
    score_result,
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
    batches = await lock_batches(connection, {job.batch for job in jobs}, against_erasure=True)
    found = await find_leased(connection, owner, jobs)
    held = {job: span for job, span in found.items() if job.batch in batches}
    kept, erased = await find_kept(connection, held)
    # Results that come too late, for candidates that were erased: no other row names their calls.
    late = [each for each in finished if (each.job.batch, each.entry.position) in erased]
    await note_erased_calls(connection, {key for each in late for key in each.calls})
    free: list[tuple[FinishedCandidate, Scores]] = []
    for each in finished:
        place = (each.job.batch, each.entry.position)
        if each.job in held and place not in kept:
            kept.add(place)
            free.append((each, score_result(each)))
    added = await keep(connection, batches, free, now)
    ending = {job: is_done(job, held[job], kept) for job in closed if job in held}
    locked = await upgrade_locks(connection, batches)
    costs = await enter(connection, locked, free)
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


@dataclass(frozen=True)
class Added:
    """What a commit adds to the figures of one batch. `measures` say where the values of `placed` were put."""

    placed: Placed
    tally: Tally
    measures: tuple[str, ...]


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
        name: Added(results, tally_scores([scores for _, scores in results]), place_values(batches[name], results))
        for name, results in placed.items()
    }
    if new:
        rows = [describe_result(each, scores, batches[each.job.batch].row, now) for each, scores in new]
        await connection.execute(insert(evaluations), rows)
        clusters = {(each.job.batch, each.entry.position): each.entry.cluster for each, _ in new}
        await insert_figures(connection, placed, {name: one.measures for name, one in added.items()}, clusters)
    return added


def place_values(batch: Locked, placed: Placed) -> tuple[str, ...]:
    """The batch's measures with those of the results."""
    return extend_measures(read_measures(batch.account.measures), [scores for _, scores in placed])


async def enter(
    connection: AsyncConnection, locked: Mapping[str, Locked], new: Sequence[tuple[FinishedCandidate, Scores]]
) -> dict[str, float]:
    """Counts new results in their batches' accounts and signatures. Returns what they cost (USD) by the key that is
    charged."""
    signatures, costs = Counter[tuple[str, str]](), defaultdict[str, float](float)
    for each, scores in new:
        batch = locked[each.job.batch]
        batch.account.count("expired" if each.failure == EXPIRED else scores.status)
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
        measures = place_values(locked[batch_id], each.placed)
        if measures[: len(each.measures)] != each.measures:
            await rewrite_figures(connection, batch_id, each.placed, measures)
        account.measures = json.dumps(measures) if measures else None


def is_done(job: ChunkJob, span: CandidateSpan, kept: set[Place]) -> bool:
    """Whether nothing of a chunk is left to do. A chunk for work on the whole batch is done when it was marked so,
    not when it is closed."""
    if job.chunk < 0:
        return span.state == "done"
    return all((job.batch, position) in kept for position in span.positions)


CHUNKS_AT_ONCE = 10
"""Chunks of one transaction, some 400 results: others are to commit in between."""

chunk = batch_chunks.c


async def expire_chunks(
    connection: AsyncConnection, batch_id: str, now: datetime
) -> tuple[Sequence[ChunkJob], Sequence[ChunkJob], Locked | None]:
    """Ends some chunks of the batch, where its running time is over. Returns them, the jobs that follow, and the
    batch."""
    batch = (await lock_batches(connection, [batch_id])).get(batch_id)
    if batch is None or batch.account.status != "running":
        return [], [], None
    if batch.account.expires_at is None:
        # It was started by a release without deadlines.
        batch.account.run_out(now, 3600.0 * read_options(batch.row.options).running_hours)
    if batch.account.expires_at is not None and now < batch.account.expires_at:
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
    new: list[tuple[FinishedCandidate, Scores]] = []
    for row in rows:
        for item in await select_todo(connection, batch.id, row):
            failed = FinishedCandidate(ChunkJob(batch.id, row.number), read_placed(item)[0], None, EXPIRED)
            new.append((failed, score_result(failed)))
        await spend_lost(connection, batch, row.begun, now)
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
    measures = place_values(batch, placed)
    await connection.execute(REWRITE, rows)
    await rewrite_figures(connection, batch.id, placed, measures)
    await count_in(connection, signatures)
    batch.account.measures = json.dumps(measures) if measures else None
    batch.account.forget_figures()
