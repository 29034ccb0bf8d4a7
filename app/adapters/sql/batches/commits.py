"""Keeping results, with everything that follows from them, in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked, hold_batches, lock_batches, log_completed, store_accounts
from app.adapters.sql.batches.closing import close_chunks
from app.adapters.sql.batches.figures import (
    Placed,
    extend_measures,
    insert_figures,
    read_measures,
    rewrite_figures,
    write_measures,
)
from app.adapters.sql.batches.holding import Span, find_held, hold_condition
from app.adapters.sql.batches.queueing import Queueing, count_active, queue_waiting, share_of
from app.adapters.sql.batches.rows import describe_result, score_result
from app.adapters.sql.batches.signatures import count_in
from app.adapters.sql.engine import change
from app.adapters.sql.tables import batch_chunks, evaluations
from app.batch_ports import Committed, Finished, Job, Scores
from app.domain.tally import Tally
from app.tally import tally_scores

Place = tuple[str, int]
"""A batch and a position in it."""


class Commits(Queueing):
    """The hot path: a dozen statements, however many results."""

    async def commit(self, owner: str, finished: Sequence[Finished], closed: Sequence[Job]) -> Committed:
        jobs = {*(each.job for each in finished), *closed}
        if not jobs:
            return Committed()
        now = self._clock()
        async with change(self._engine) as connection:
            # A batch's row is locked last: each statement waits for its turn in a busy worker's loop, and while one
            # worker holds the row no other can commit. Whoever locks chunks after batches skips those locked here.
            batches = await hold_batches(connection, {job.batch for job in jobs})
            found = await find_held(connection, owner, jobs)
            held = {job: span for job, span in found.items() if job.batch in batches}
            kept = await find_kept(connection, held)
            free = pick_new([each for each in finished if each.job in held], kept)
            added = await keep(connection, batches, free, now)
            ending = {job: is_done(job, held[job], kept) for job in closed if job in held}
            locked = await lock_batches(connection, batches)
            await enter(connection, locked, free)
            await settle_figures(connection, locked, added)
            ready = await close_chunks(connection, locked, ending, now)
            await store_accounts(connection, locked.values())
            ready += await self._follow_up(connection, locked, ending, now)
        log_completed(locked.values())
        stopped = {job for job in held if job not in ending and not locked[job.batch].account.is_active}
        return Committed(frozenset(jobs - held.keys()), frozenset(stopped), tuple(ready))

    async def _follow_up(
        self, connection: AsyncConnection, locked: Mapping[str, Locked], ending: Iterable[Job], now: datetime
    ) -> list[Job]:
        """The next chunks of batches whose chunks were closed."""
        ids = sorted({job.batch for job in ending if job.chunk >= 0 and locked[job.batch].account.is_active})
        if not ids:
            return []
        share = share_of(self._window, await count_active(connection))
        return [job for batch_id in ids for job in await queue_waiting(connection, batch_id, share, now)]


async def find_kept(connection: AsyncConnection, held: Mapping[Job, Span]) -> set[Place]:
    """The places of the held chunks that have a result already."""
    if not held:
        return set()
    chunk, result = batch_chunks.c, evaluations.c
    query = select(result.batch_id, result.position).join(
        batch_chunks, (result.batch_id == chunk.batch_id) & result.position.between(chunk.first, chunk.last)
    )
    return {(row.batch_id, row.position) for row in await connection.execute(query.where(hold_condition(held)))}


@dataclass(frozen=True)
class Added:
    """What a commit adds to the figures of one batch. `measures` say where the values of `placed` were put."""

    placed: Placed
    tally: Tally
    measures: tuple[str, ...]


def pick_new(finished: Sequence[Finished], kept: set[Place]) -> list[tuple[Finished, Scores]]:
    """The results whose places are free, each with its figures. `kept` grows by them."""
    new = []
    for each in finished:
        place = (each.job.batch, each.entry.position)
        if place not in kept:
            kept.add(place)
            new.append((each, score_result(each)))
    return new


async def keep(
    connection: AsyncConnection, batches: Mapping[str, Locked], new: Sequence[tuple[Finished, Scores]], now: datetime
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
        await insert_figures(connection, placed, {batch_id: one.measures for batch_id, one in added.items()})
    return added


def figures_in(placed: Placed) -> list[Scores]:
    """The figures without their places."""
    return [scores for _, scores in placed]


def place_values(batch: Locked, placed: Placed) -> tuple[str, ...]:
    """The batch's measures with those of the results."""
    return extend_measures(read_measures(batch.account.measures), figures_in(placed))


async def enter(
    connection: AsyncConnection, locked: Mapping[str, Locked], new: Sequence[tuple[Finished, Scores]]
) -> None:
    """Counts new results in their batches' accounts and signatures."""
    signatures = Counter[tuple[str, str]]()
    for each, scores in new:
        account = locked[each.job.batch].account
        account.count(scores.status)
        account.spend(each.usage)
        if each.record is not None:
            signatures[each.job.batch, each.record.evaluation.signature] += 1
    if signatures:
        await count_in(connection, signatures)


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


def is_done(job: Job, span: Span, kept: set[Place]) -> bool:
    """Whether nothing of a chunk is left to do. One that stands for the batch as a whole is done when it was said so,
    not when it is closed."""
    if job.chunk < 0:
        return span.state == "done"
    return sum((job.batch, position) in kept for position in range(span.first, span.last + 1)) == span.size
