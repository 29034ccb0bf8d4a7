"""Keeping results, with everything that follows from them, in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Locked, hold_batches, lock_held, log_completed, store_accounts
from app.adapters.sql.batches.closing import close_chunks
from app.adapters.sql.batches.erasure import owe_calls
from app.adapters.sql.batches.figures import (
    Placed,
    extend_measures,
    insert_figures,
    read_measures,
    rewrite_figures,
    write_measures,
)
from app.adapters.sql.batches.holding import Span, find_held
from app.adapters.sql.batches.queueing import Queueing, count_active, queue_waiting, share_of
from app.adapters.sql.batches.reservations import settle_begun
from app.adapters.sql.batches.rows import describe_result, score_result
from app.adapters.sql.batches.signatures import count_in
from app.adapters.sql.engine import change
from app.adapters.sql.governance import charge_keys
from app.adapters.sql.tables import evaluations
from app.batch_ports import NOTHING_BEGUN, Committed, Finished, Job, Scores
from app.domain.batch import EXPIRED
from app.domain.redaction import ERASED_FAILURE
from app.domain.tally import Tally
from app.tally import tally_scores

Place = tuple[str, int]
"""A batch and a position in it."""

ERASED = ERASED_FAILURE.model_dump_json()
"""What stands in `evaluations.failure` for an erased candidate."""


class Commits(Queueing):
    """The hot path: a dozen statements, however many results."""

    async def commit(
        self,
        owner: str,
        finished: Sequence[Finished],
        closed: Sequence[Job],
        begun: Mapping[Job, int] = NOTHING_BEGUN,
    ) -> Committed:
        jobs = {*(each.job for each in finished), *closed, *begun}
        if not jobs:
            return Committed()
        now = self._clock()
        async with change(self._engine) as connection:
            # A batch's row is locked last: each statement waits for its turn in a busy worker's loop, and while one
            # worker holds the row no other can commit. Whoever locks chunks after batches skips those locked here.
            batches = await hold_batches(connection, {job.batch for job in jobs})
            found = await find_held(connection, owner, jobs)
            held = {job: span for job, span in found.items() if job.batch in batches}
            kept, erased = await find_kept(connection, held)
            await owe_late(connection, finished, erased)
            free = pick_new([each for each in finished if each.job in held], kept)
            added = await keep(connection, batches, free, now)
            ending = {job: is_done(job, held[job], kept) for job in closed if job in held}
            locked = await lock_held(connection, batches)
            await enter(connection, locked, free)
            await settle_figures(connection, locked, added)
            await settle_begun(connection, locked, {job: begun[job] for job in held if job in begun}, ending, now)
            ready = await close_chunks(connection, locked, ending, now)
            await store_accounts(connection, locked.values())
            ready += await self._follow_up(connection, locked, ending, now)
            # Last: while the row of a key is held, no other worker can commit for any batch of that key.
            await charge_keys(connection, sum_costs(locked, free), now)
        log_completed(locked.values())
        stopped = {job for job in held if job not in ending and not locked[job.batch].account.is_active}
        touched = {job for job, span in held.items() if span.holds(job.batch, erased)}
        return Committed(frozenset(jobs - held.keys()), frozenset(stopped), tuple(ready), frozenset(touched))

    async def _follow_up(
        self, connection: AsyncConnection, locked: Mapping[str, Locked], ending: Iterable[Job], now: datetime
    ) -> list[Job]:
        """The next chunks of batches whose chunks were closed."""
        ids = sorted({job.batch for job in ending if job.chunk >= 0 and locked[job.batch].account.is_active})
        if not ids:
            return []
        share = share_of(self._window, await count_active(connection))
        return [job for batch_id in ids for job in await queue_waiting(connection, batch_id, share, now)]


async def find_kept(connection: AsyncConnection, held: Mapping[Job, Span]) -> tuple[set[Place], set[Place]]:
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


async def owe_late(connection: AsyncConnection, finished: Sequence[Finished], erased: Collection[Place]) -> None:
    """Notes the calls of results that come too late, for candidates that were erased: nobody else knows of them."""
    late = [each for each in finished if (each.job.batch, each.entry.position) in erased]
    await owe_calls(connection, {key for each in late for key in each.calls})


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
    connection: AsyncConnection, locked: Mapping[str, Locked], new: Sequence[tuple[Finished, Scores]]
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


def sum_costs(locked: Mapping[str, Locked], new: Sequence[tuple[Finished, Scores]]) -> dict[str, float]:
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


def is_done(job: Job, span: Span, kept: set[Place]) -> bool:
    """Whether nothing of a chunk is left to do. One that stands for the batch as a whole is done when it was said so,
    not when it is closed."""
    if job.chunk < 0:
        return span.state == "done"
    return sum((job.batch, position) in kept for position in range(span.first, span.last + 1)) == span.size
