"""The store of batches, with its methods in the order of a batch's life: taken in, read, summarised, steered, erased,
worked on, and ended. Each is one transaction, or a few where others have to commit in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import (
    Batch,
    BatchFilter,
    BatchOptions,
    BatchUnit,
    Candidate,
    Entry,
    KeyedAnswer,
    PairPlaces,
    plan_of,
)
from saiten_server.core.errors import IdempotencyKeyInUse, StoreError
from saiten_server.core.evaluation import Evaluation
from saiten_server.core.redaction import erased_candidate
from saiten_server.core.rubric import split_name
from saiten_server.governance.store import find_money
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.erased_calls import note_erased_calls
from saiten_server.platform.sql.sizes import add_bytes, measure_candidate, octets
from saiten_server.platform.sql.tables import can_store, equals
from saiten_server.runs.result import Result
from saiten_server.runs.store import leases, views
from saiten_server.runs.store.account import lock_batches, log_completed, log_paused, store_accounts
from saiten_server.runs.store.erasure import Erasure
from saiten_server.runs.store.frames import FrameStore, read_page
from saiten_server.runs.store.rows import (
    ACTIVE,
    RATED,
    RECEIVING,
    STATEMENT_ROWS,
    describe_candidates,
    read_placed,
    read_result,
    select_results,
    utc_now,
)
from saiten_server.runs.store.running_time import read_running_time, sign
from saiten_server.runs.store.search import describe_texts
from saiten_server.runs.store.views import LEFT, OF_PAIRS, OF_RATINGS, SEEN
from saiten_server.runs.summary import Intervals, Tally, pack_tally, unpack_tally
from saiten_server.runs.work import (
    CHUNK_SIZE,
    COLLECT,
    FINISH,
    MOST_SET_ASIDE,
    NOTHING_BEGUN,
    ChunkJob,
    Committed,
    FinishedCandidate,
    Work,
)
from saiten_server.scoring.store import read_options

if TYPE_CHECKING:
    from saiten_server.runs.frame import RunFrame

logger = logging.getLogger("saiten.batches")

STARTING_AT_ZERO = [column.name for column in t.batches.columns if isinstance(column.type, Integer)]
"""Columns of a batch that start at 0."""

BATCH_GONE = Message("batch-discarded")

chunk, item = t.batch_chunks.c, t.batch_items.c

RUNNING = select(t.batches.c.id, t.batches.c.expires_at).where(t.batches.c.status == "running")


class BatchStore:
    """Batches. Raises the `Store…` errors; times are in UTC. A batch is invisible to callers and workers from `begin`
    to `accept`. `window` is how many chunks of all batches together are queued or leased when a commit makes room for
    more. `unit` says which batches callers see: those whose candidates are rated, those of pairs, or all, for a worker.
    `usd_per_day` is what a key without its own limit may cost per day (UTC), None for any amount. Processes share
    leases, so their clocks have to agree to a fraction of one."""

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        window: int = 24,
        unit: BatchUnit | Literal["any"] = "rating",
        usd_per_day: float | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._engine = engine
        self._window = window
        self._usd_per_day = usd_per_day
        self._clock = clock
        self.frames = FrameStore(engine)
        self._erasure = Erasure(engine, clock=clock)
        self._of_unit: ColumnElement[bool] = {"rating": OF_RATINGS, "pair": OF_PAIRS, "any": true()}[unit]
        self._seen = SEEN & self._of_unit

    # Taking in

    async def begin(
        self,
        project: str,
        batch_id: str,
        options: BatchOptions,
        now: datetime,
        rubric_digest: str | None = None,
        *,
        ids_given: bool | None = None,
    ) -> None:
        """Opens a batch without candidates. `rubric_digest` is that of the rubric it is to be scored by. `ids_given`:
        whether any of its items has an id, None where not known."""
        row = {
            "id": batch_id,
            "project": project,
            "name": options.name,
            "created_at": now,
            "status": RECEIVING,
            "mode": options.mode,
            "rubric": split_name(options.rubric)[0],
            "options": options.model_dump_json(),
            "unit": None if plan_of(options) is None else "pair",
            "rubric_digest": rubric_digest,
            "rubric_differs": False,
            "budget_usd": options.budget_usd,
            "cost_usd": 0.0,
            "dearest_usd": 0.0,
            "tally": pack_tally(Tally()),
            "ids_given": ids_given,
            **dict.fromkeys(STARTING_AT_ZERO, 0),
        }
        entries = [
            {"batch_id": batch_id, "number": number, "key": key, "value": value}
            for number, (key, value) in enumerate(options.metadata.items())
        ]
        async with db.write(self._engine) as connection:
            await connection.execute(insert(t.batches).values(row))
            if entries:
                await connection.execute(insert(t.batch_metadata), entries)

    async def append(self, batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]) -> None:
        """Adds candidates in order; positions continue from the last call."""
        rows = await asyncio.to_thread(describe_candidates, batch_id, candidates)
        texts, grams = await asyncio.to_thread(describe_texts, batch_id, candidates)
        size = sum(measure_candidate(row["request"]) for row in rows)
        grown = update(t.batches).where(t.batches.c.id == batch_id, t.batches.c.status == RECEIVING)
        async with db.write(self._engine) as connection:
            sums = {"total": t.batches.c.total + len(rows), "stored_bytes": t.batches.c.stored_bytes + size}
            if (await connection.execute(grown.values(sums))).rowcount != 1:
                raise StoreError(BATCH_GONE)
            for table, added in ((t.batch_items, rows), (t.batch_texts, texts), (t.text_grams, grams)):
                for some in db.cut_pieces(added, STATEMENT_ROWS):
                    await connection.execute(insert(table), some)

    async def accept(
        self,
        project: str,
        batch_id: str,
        *,
        unit_cost_usd: float | None,
        answer: KeyedAnswer | None,
        api_key: str | None = None,
    ) -> Batch:
        """Cuts the batch into chunks, makes it visible and `queued`, and stores the keyed answer: all or nothing.
        `unit_cost_usd` is the highest expected cost of one candidate, for the budget; None if unknown. `api_key` is the
        id of the key that is charged with the cost of the results; None if no key is charged."""
        async with db.change(self._engine) as connection:
            found = (
                await connection.execute(
                    select(t.batches.c.total, t.batches.c.options)
                    .where(t.batches.c.id == batch_id, t.batches.c.project == project, t.batches.c.status == RECEIVING)
                    .with_for_update()
                )
            ).one_or_none()
            if found is None:
                raise StoreError(BATCH_GONE)
            count = await insert_chunks(connection, batch_id, found.total, found.options)
            await connection.execute(
                update(t.batches)
                .where(t.batches.c.id == batch_id)
                .values(status="queued", chunks_left=count, unit_cost_usd=unit_cost_usd, api_key=api_key)
            )
            if answer is not None:
                await keep_answer(connection, project, answer)
        accepted = await self.find(project, batch_id)
        if accepted is None:  # a caller who saw it in a list has erased it in between
            raise StoreError(BATCH_GONE)
        return accepted

    async def discard(self, batch_id: str) -> None:
        """Removes a batch that was begun and will not be accepted."""
        begun = (t.batches.c.id == batch_id) & (t.batches.c.status == RECEIVING)
        await db.execute(self._engine, delete(t.batches).where(begun))

    # Reading

    async def find(self, project: str, batch_id: str) -> Batch | None:
        """The batch; None if there is none in this project."""
        return await self._look(batch_condition(batch_id, project))

    async def find_all(self, project: str, ids: Collection[str]) -> list[Batch]:
        """Those of these batches that there are in this project."""
        mine = (self._seen, equals(t.batches.c.project, project), t.batches.c.id.in_(sorted(ids)))
        return await self._read(select(t.batches).where(*mine)) if ids else []

    async def _look(self, *conditions: ColumnElement[bool]) -> Batch | None:
        """The one batch that meets the conditions, if any."""
        found = await self._read(select(t.batches).where(self._seen, *conditions))
        return found[0] if found else None

    async def _is_seen(self, connection: AsyncConnection, batch_id: str) -> bool:
        """Whether callers see the batch."""
        query = select(t.batches.c.id).where(self._seen, t.batches.c.id == batch_id)
        return (await connection.execute(query)).first() is not None

    async def _read(self, query: Select[Any]) -> list[Batch]:
        async with db.read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
            signatures = await views.count_signatures(connection, [row.id for row in rows]) if rows else {}
        return [views.read_batch_row(row, signatures.get(row.id, {}), self._clock()) for row in rows]

    async def options(self, project: str, batch_id: str) -> BatchOptions | None:
        """The batch's options; None if there is no such batch in this project."""
        query = select(t.batches.c.options).where(self._seen, batch_condition(batch_id, project))
        found = await db.fetch_value(self._engine, query)
        return None if found is None else read_options(found)

    async def active_options(self, batch_id: str) -> BatchOptions | None:
        """The options of a batch that is worked on; None where it is not, or there is none."""
        query = select(t.batches.c.options).where(SEEN, batch_condition(batch_id), t.batches.c.status.in_(ACTIVE))
        found = await db.fetch_value(self._engine, query)
        return None if found is None else read_options(found)

    async def project_of(self, batch_id: str) -> str | None:
        """The batch's project; None if there is no such batch."""
        query = select(t.batches.c.project).where(SEEN, batch_condition(batch_id))
        found: str | None = await db.fetch_value(self._engine, query)
        return found

    async def newest_pairs(self, project: str, wanted: BatchFilter, *, limit: int) -> Sequence[tuple[Batch, Batch]]:
        """For each name, system (`metadata.system`) and rubric, the newest completed batch and the one before it; the
        pair of the newest batch first. Considers the project's `MOST_PAIRED` newest completed batches."""
        if not views.can_be_asked(project, wanted):
            return []
        pairs = [
            (row.id, row.before)
            for row in await db.fetch(self._engine, views.pair_with_predecessors(project, wanted, limit))
        ]
        ids = [one for pair in pairs for one in pair]
        found = {batch.id: batch for batch in await self._read(select(t.batches).where(SEEN, t.batches.c.id.in_(ids)))}
        # A batch that was erased in between is left out.
        return [(found[id_], found[before]) for id_, before in pairs if id_ in found and before in found]

    async def befores(self, project: str, ids: Sequence[str]) -> Mapping[str, str]:
        """By id of a batch that of the completed one before it of its name, system and rubric, in whatever version."""
        rows = await db.fetch(self._engine, views.find_before(project, ids)) if ids else ()
        return {row.id: row.before for row in rows if row.before is not None}

    async def results(self, project: str, batch_id: str, *, after: int, limit: int) -> list[Result]:
        """Results with a position greater than `after`, in order; candidates without one are left out."""
        table = t.evaluations.c
        mine = (equals(table.batch_id, batch_id), equals(table.project, project), table.position > after)
        rows = await db.fetch(self._engine, select_results().where(*mine).order_by(table.position).limit(limit))
        query = select(t.batches.c.ids_given).where(SEEN, batch_condition(batch_id, project))
        ids_given: bool | None = await db.fetch_value(self._engine, query) if rows else None
        # Each takes some tenths of a millisecond, and one of a long conversation more: in a thread, beside the loop.
        return await asyncio.to_thread(lambda: [read_result(row, ids_given=ids_given) for row in rows])

    async def frame(self, project: str, batch_id: str, *, after: int, limit: int) -> RunFrame:
        """The same results as columns, which are cheap to read for a whole batch."""
        return await read_page(self._engine, project, batch_id, after=after, limit=limit)

    async def find_evaluation(self, project: str, batch_id: str, position: int) -> str | None:
        """The id of the result at that position; None if there is none."""
        table = t.evaluations.c
        mine = (equals(table.batch_id, batch_id), equals(table.project, project), table.position == position)
        found: str | None = await db.fetch_value(self._engine, select(table.id).where(*mine))
        return found

    async def candidates(self, batch_id: str, *, after: int, limit: int) -> list[tuple[Entry, Candidate]]:
        """Candidates with a position greater than `after`, in order, with or without a result."""
        query = (
            select(item.position, item.item, item.candidate, item.cluster, item.request)
            .join(t.batches, t.batches.c.id == item.batch_id)
            .where(equals(item.batch_id, batch_id), item.position > after, SEEN)
        )
        rows = await db.fetch(self._engine, query.order_by(item.position).limit(limit))
        return await self.show_pairs(batch_id, [read_placed(row) for row in rows])

    async def show_pairs(
        self, batch_id: str, placed: list[tuple[Entry, Candidate]], options: BatchOptions | None = None
    ) -> list[tuple[Entry, Candidate]]:
        """The same, each pair with the two that it compares, which stand in other batches. One that is gone is like one
        that was erased. `options` are the batch's, if they are known."""
        places = [one.pair for _, one in placed if one.pair is not None]
        plan = plan_of(options or await self._options(batch_id)) if places else None
        if plan is None:
            return placed
        wanted = dict[int, set[int]]()
        for pair in places:
            for run, position in zip(pair.runs, pair.positions, strict=True):
                wanted.setdefault(run, set()).add(position)
        found = {run: await self.asked(plan.runs[run], positions) for run, positions in wanted.items()}
        return [
            (entry, one if one.pair is None else one.model_copy(update={"shown": pick_pair(one.pair, found)}))
            for entry, one in placed
        ]

    async def _options(self, batch_id: str) -> BatchOptions:
        """The options of a batch of any project; those of none where it is gone."""
        found = await db.fetch_value(self._engine, select(t.batches.c.options).where(batch_condition(batch_id)))
        return BatchOptions() if found is None else read_options(found)

    async def text_sizes(self, batch_id: str, first: int, last: int) -> dict[int, int]:
        """The bytes of each candidate from position `first` to `last`."""
        query = select(item.position, octets(item.request)).where(
            equals(item.batch_id, batch_id), item.position.between(first, last)
        )
        return {row[0]: row[1] for row in await db.fetch(self._engine, query)}

    async def asked(self, batch_id: str, positions: Collection[int]) -> dict[int, Candidate]:
        """The candidates at these positions, pairs with the two that they compare."""
        query = select(item.position, item.item, item.candidate, item.cluster, item.request).where(
            equals(item.batch_id, batch_id), item.position.in_(positions)
        )
        rows = await db.fetch(self._engine, query)
        # In a thread, as `results`.
        placed = await asyncio.to_thread(lambda: [read_placed(row) for row in rows])
        return {entry.position: one for entry, one in await self.show_pairs(batch_id, placed)}

    async def find_scored(self, batch_id: str) -> Candidate | None:
        """A candidate that the judge has rated and whose texts are not redacted; None if there is none."""
        result = t.evaluations.c
        query = (
            select(item.position)
            .join(t.batches, t.batches.c.id == item.batch_id)
            .join(t.evaluations, (result.batch_id == item.batch_id) & (result.position == item.position))
            .where(equals(item.batch_id, batch_id), t.batches.c.texts.is_(None), result.status.in_(RATED))
        )
        found = await db.fetch_value(self._engine, query.limit(1))
        return None if found is None else (await self.asked(batch_id, [found])).get(found)

    # Figures of whole batches

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        """The figures of each batch's current results; batches of other projects are left out. None if they are not
        stored and have to be added up."""
        if not ids or not can_store(project, *ids):
            return {}
        table = t.batches.c
        query = select(table.id, table.tally).where(self._seen, table.id.in_(ids), table.project == project)
        rows = await db.fetch(self._engine, query)
        return {row.id: row.tally and unpack_tally(row.tally) for row in rows}

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        """Stores the computed figures of a completed or cancelled batch that has none. Does nothing if results have
        arrived meanwhile, or may still arrive."""
        settled = views.has_settled(batch_condition(batch_id, project), tally.results)
        unknown = update(t.batches).where(*settled, t.batches.c.tally.is_(None))
        await db.execute(self._engine, unknown.values(tally=pack_tally(tally)))

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        """The intervals of the batches' means, for those batches that have them stored."""
        if not ids or not can_store(project, *ids):
            return {}
        table = t.batches.c
        query = select(table.id, table.intervals).where(
            table.id.in_(ids), table.project == project, table.intervals.is_not(None)
        )
        return {row.id: Intervals.model_validate_json(row.intervals) for row in await db.fetch(self._engine, query)}

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        """Stores the intervals of a completed or cancelled batch, under the conditions of `keep_tally`. They are
        removed when a result changes."""
        settled = update(t.batches).where(*views.has_settled(batch_condition(batch_id, project), intervals.results))
        await db.execute(self._engine, settled.values(intervals=intervals.model_dump_json()))

    # Figures of all batches

    async def backlog(self) -> tuple[int, float]:
        """Candidates without a result in batches that are queued or running, and the age in seconds of the oldest such
        batch, as `age_of_oldest` defines it. One that grows is as old as its window, however little waits in it: it has
        no age until it is sealed, which is when it has as many chunks left as it counts."""
        given, oldest = t.batches.c.mode == "provider-batch", func.min(t.batches.c.created_at)
        unfinished = (
            select(func.count())
            .where(chunk.batch_id == t.batches.c.id, chunk.state != "done", chunk.number >= 0)
            .scalar_subquery()
        )
        live = ~given & (t.batches.c.chunks_left <= unfinished)
        query = select(func.sum(LEFT), oldest.filter(live), oldest.filter(given)).where(t.batches.c.status.in_(ACTIVE))
        async with db.read(self._engine) as connection:
            count, *created_at = (await connection.execute(query)).one()
        return int(count or 0), views.age_of_oldest(self._clock(), *created_at)

    async def waiting(self, project: str) -> tuple[int, int]:
        """Candidates without a result in batches that are queued or running: of all projects, and of this one."""
        # A project that no column can store has nothing waiting, and PostgreSQL would refuse to compare it.
        mine = case((t.batches.c.project == project, LEFT), else_=0) if can_store(project) else literal(0)
        query = select(func.sum(LEFT), func.sum(mine)).where(t.batches.c.status.in_(ACTIVE))
        async with db.read(self._engine) as connection:
            everywhere, own = (await connection.execute(query)).one()
        return int(everywhere or 0), int(own or 0)

    async def paused(self) -> Mapping[str, int]:
        """How many batches are paused, by `pause_reason`; all projects together."""
        reason = t.batches.c.pause_reason
        query = select(reason, func.count()).where(SEEN, t.batches.c.status == "paused").group_by(reason)
        return {named or "": count for named, count in await db.fetch(self._engine, query)}

    # Steering. Each method returns the changed batch, or None if there is none in this project. Leases stay with their
    # owners, which learn of the change when they renew or commit.

    async def pause(self, batch_id: str, reason: str, detail: Message, *, project: str | None = None) -> Batch | None:
        """queued or running → paused; any other status stays. `project` None: on behalf of a worker."""
        if not can_store(batch_id, project or ""):
            return None
        async with db.change(self._engine) as connection:
            found = (await lock_batches(connection, [batch_id])).get(batch_id)
            changes = found is not None and found.account.is_active and project in {None, found.row.project}
            changes = changes and (project is None or await self._is_seen(connection, batch_id))
            if found is not None and changes:
                found.account.pause(reason, detail, await read_running_time(connection, self._clock()))
                await store_accounts(connection, [found])
        if changes:
            log_paused(batch_id, reason)
        return await self._look(batch_condition(batch_id, project))

    async def resume(self, project: str, batch_id: str) -> Batch | None:
        """paused → queued; any other status stays."""
        this = batch_condition(batch_id, project) & self._of_unit
        waiting = {"status": "queued", "pause_reason": None, "pause_detail": None}
        async with db.write(self._engine) as connection:
            paused = update(t.batches).where(this, t.batches.c.status == "paused")
            resumed = await connection.execute(paused.values(waiting))
            if resumed.rowcount == 1:
                # Workers have refused its queued jobs meanwhile.
                refused = update(t.batch_chunks).where(chunk.batch_id == batch_id, chunk.state == "queued")
                await connection.execute(refused.values(state="waiting", queued_at=None))
        if resumed.rowcount:
            logger.info("batch resumed", extra={"batch_id": batch_id})
        return await self._look(this)

    async def cancel(self, project: str, batch_id: str) -> Batch | None:
        """queued, running or paused → cancelled; any other status stays."""
        this = batch_condition(batch_id, project) & self._of_unit
        ended = {"status": "cancelled", "finished_at": self._clock(), "pause_reason": None, "pause_detail": None}
        steerable = t.batches.c.status.in_((*ACTIVE, "paused"))
        if await db.execute(self._engine, update(t.batches).where(this, steerable).values(ended)):
            logger.info("batch cancelled", extra={"batch_id": batch_id})
        return await self._look(this)

    # Erasing

    async def erase(self, project: str, batch_id: str) -> bool:
        """Removes the batch with all texts and results; returns whether there was one. The cache keys of its calls stay
        noted until `settle_erasures`."""
        if await self.find(project, batch_id) is None:
            return False
        return await self._erasure.erase(project, batch_id)

    async def note_erased_calls(self, keys: Sequence[str]) -> None:
        """Notes cache keys whose replies are to be removed from the call cache."""
        async with db.change(self._engine) as connection:
            await note_erased_calls(connection, keys)

    async def list_erased_calls(self, limit: int) -> tuple[str, ...]:
        """Cache keys whose replies are still to be removed."""
        key = t.erased_calls.c.key
        return tuple(await db.fetch_column(self._engine, select(key).order_by(key).limit(limit)))

    async def settle_erasures(self, cache: CallCache) -> None:
        """Removes all replies that are noted from the cache. If this process dies, the next sweep of any process
        continues. Raises StoreError, also if the cache is down."""
        while keys := await self.list_erased_calls(STATEMENT_ROWS):
            await cache.forget(keys)
            async with db.change(self._engine) as connection:
                await connection.execute(delete(t.erased_calls).where(t.erased_calls.c.key.in_(keys)))

    async def limits_money(self, api_key: str) -> bool:
        """Whether the key of this id may cost only so much a day."""
        async with db.read(self._engine) as connection:
            return await find_money(connection, api_key, self._usd_per_day, self._clock()) is not None

    # Working. `owner` is one worker process; its lease ends unless it is renewed. A batch resumes after a crash when
    # `sweep` queues chunks whose lease has run out, and `claim` leases them to another owner.

    async def claim(
        self,
        job: ChunkJob,
        owner: str,
        lease_seconds: float,
        begun: int = 0,
        *,
        has_rubric: Callable[[str, str], bool] = lambda *_: True,
    ) -> Work | None:
        """Leases the chunk; None if it is done, leased by another owner, or its batch is not active or past its
        deadline, or the owner does not have its rubric. `has_rubric` says so of a name and a digest; the chunk is then
        left to other workers.

        If another owner's lease has run out, the chunk is suspect, and what that owner may have begun is counted as
        spent. `begun` is how many candidates the new owner may begin before it reports more (`commit`). The first claim
        starts the batch and its running time.

        The batch pauses with `budget-exhausted` if its budget does not allow even one candidate and no other chunk is
        leased, and with `cost-limit-reached` if its key has reached today's limit (UTC) and the job may cost something.
        """
        if not can_store(job.batch):
            return None
        now = self._clock()
        lease = leases.Lease(owner, now + timedelta(seconds=lease_seconds), begun)
        async with db.change(self._engine) as connection:
            if not await leases.knows_rubric(connection, job, has_rubric):
                return None
            work = await leases.claim_chunk(connection, job, lease, self._usd_per_day, now)
        if work is None or plan_of(work.options) is None:
            return work
        return replace(work, todo=await self.show_pairs(job.batch, [*work.todo], work.options))

    async def renew(self, owner: str, jobs: Sequence[ChunkJob], lease_seconds: float) -> Committed:
        """Extends the leases that still belong to the owner."""
        if not jobs:
            return Committed()
        until = self._clock() + timedelta(seconds=lease_seconds)
        async with db.change(self._engine) as connection:
            held = await leases.find_leased(connection, owner, jobs)
            if held:
                mine = update(t.batch_chunks).where(leases.match_jobs(held), chunk.owner == owner)
                await connection.execute(mine.values(lease_until=until, queued_at=None))
            ids = {job.batch for job in held}
            query = select(t.batches.c.id).where(t.batches.c.id.in_(ids), t.batches.c.status.not_in(ACTIVE))
            ended = set((await connection.execute(query)).scalars())
        stopped = frozenset(job for job in held if job.batch in ended)
        return Committed(lost=frozenset(jobs) - held.keys(), stopped=stopped)

    async def commit(
        self,
        owner: str,
        finished: Sequence[FinishedCandidate],
        closed: Sequence[ChunkJob],
        begun: Mapping[ChunkJob, int] = NOTHING_BEGUN,
    ) -> Committed:
        """Stores results and closes chunks, in one transaction with the batches' counts, usage, signatures and charges.

        `begun` is, by chunk, the number of candidates without a stored result for which the owner has made calls, or
        may make them before its next commit. If the owner dies, that many are counted as spent, at the expected cost of
        a candidate. For a closed chunk they are counted at once.

        A closed chunk whose candidates all have a result is done; one with candidates left is queued again. When the
        last chunk of a batch is done, the batch is completed, or, with `relevance.baseline: batch`, the job `FINISH` is
        ready.
        """
        if not {*(each.job for each in finished), *closed, *begun}:
            return Committed()
        now = self._clock()
        async with db.change(self._engine) as connection:
            committed, locked = await leases.commit_results(
                connection, owner, finished, closed, begun, window=self._window, now=now
            )
        log_completed(locked)
        return committed

    async def set_aside(self, job: ChunkJob, owner: str) -> None:
        """Notes that all candidates left of the owner's chunk wait, so that the batch may have another chunk under way
        in its place."""
        aside = select(func.count()).where(chunk.batch_id == job.batch, chunk.set_aside).scalar_subquery()
        mine = leases.this_chunk(job).where(chunk.owner == owner, chunk.state == "leased", aside < MOST_SET_ASIDE)
        await db.execute(self._engine, mine.values(set_aside=True))

    async def find_halted(self, jobs: Sequence[ChunkJob]) -> Committed:
        """The jobs that are not to be worked on any more: `lost` if the batch is erased, `stopped` if it is paused or
        cancelled, and also `cancelled` if it is cancelled. Cheap enough to be called twice a second."""
        if not jobs:
            return Committed()
        query = select(t.batches.c.id, t.batches.c.status).where(t.batches.c.id.in_({job.batch for job in jobs}))
        status = {row.id: row.status for row in await db.fetch(self._engine, query)}
        return Committed(
            lost=frozenset(job for job in jobs if job.batch not in status),
            stopped=frozenset(job for job in jobs if status.get(job.batch) in {"paused", "cancelled"}),
            cancelled=frozenset(job for job in jobs if status.get(job.batch) == "cancelled"),
        )

    async def mark(self, job: ChunkJob, owner: str, position: int) -> int:
        """Counts a try of a candidate of a suspect chunk before it begins; returns how many there were before."""
        this = (item.batch_id == job.batch) & (item.position == position)
        mine = exists().where(chunk.batch_id == job.batch, chunk.number == job.chunk, chunk.owner == owner)
        async with db.change(self._engine) as connection:
            query = select(item.tries).where(this).with_for_update()
            tries: int | None = (await connection.execute(query)).scalar_one_or_none()
            # A try by an owner that has lost the chunk does not count.
            await connection.execute(update(t.batch_items).where(this, mine).values(tries=item.tries + 1))
        return tries or 0

    # Giving out jobs. Safe in every process at once: a batch's row is locked while its chunks are chosen.

    async def next_jobs(self, batch_id: str, window: int) -> list[ChunkJob]:
        """Chunks to be queued so that at most `window` of the batch are queued or leased, each marked as queued."""
        async with db.change(self._engine) as connection:
            return await leases.queue_next(connection, batch_id, window, self._clock())

    async def release_held_chunks(self, batch_id: str) -> list[ChunkJob]:
        """Releases the chunks of a batch of the mode `provider-batch`, and returns the first ones to be queued. Until
        then `sweep` returns the job `COLLECT` in their place."""
        mine = update(t.batch_chunks).where(chunk.batch_id == batch_id)
        async with db.change(self._engine) as connection:
            if batch_id not in await lock_batches(connection, [batch_id]):
                return []
            collected = mine.where(chunk.number == COLLECT, chunk.state != "done").values(state="done", queued_at=None)
            if (await connection.execute(collected)).rowcount == 0:
                return []
            await connection.execute(mine.where(chunk.number >= 0, chunk.state == "blocked").values(state="waiting"))
            return await leases.queue_next(connection, batch_id, self._window, self._clock())

    async def sweep(self, window: int, requeue_seconds: float) -> list[ChunkJob]:
        """Jobs to put on the queue, each returned once: chunks whose lease has run out, chunks that were queued more
        than `requeue_seconds` ago and never claimed (the queue has lost them), new chunks of batches with fewer than
        `window` under way, and ends of batches. Also discards batches begun an hour ago and never accepted."""
        now = self._clock()
        overdue = leases.overdue_at(now, now - timedelta(seconds=requeue_seconds))
        await self._erasure.tidy()
        async with db.read(self._engine) as connection:
            due = await leases.find_due(connection, window, overdue, now)
        if not due.batches and not due.abandoned:
            return []
        async with db.change(self._engine) as connection:
            jobs = await leases.queue_due(connection, due, overdue, now)
        if due.abandoned:
            self._erasure.mark_traces()
        return jobs

    # Ending

    async def expire(self) -> list[ChunkJob]:
        """Signs that a worker is alive, and ends batches whose running time is over: candidates without a result fail
        with `EXPIRED`. Returns the jobs that follow, to be put on the queue. Any number of processes may do so at
        once."""
        now = self._clock()
        running = await db.fetch(self._engine, RUNNING)
        if not running:
            return []
        time = await sign(self._engine, now)
        jobs: list[ChunkJob] = []
        for batch_id in [row.id for row in running if row.expires_at is None or row.expires_at <= time]:
            ended: Sequence[ChunkJob] | None = None
            while ended is None or ended:
                async with db.change(self._engine) as connection:
                    ended, ready, batch = await leases.expire_chunks(connection, batch_id, now, time)
                log_completed([batch] if batch else [])
                if ended:
                    logger.warning("a batch has reached its deadline", extra={"batch_id": batch_id, "code": "expired"})
                jobs += ready
        return jobs

    async def rewrite(self, batch_id: str, changed: Sequence[tuple[int, Evaluation]]) -> None:
        """Replaces the evaluations at these positions, with their signatures and scores."""
        async with db.change(self._engine) as connection:
            locked = await lock_batches(connection, [batch_id])
            # A worker that lost the job `FINISH` and still works on it must not restore texts that were redacted.
            if batch_id not in locked or locked[batch_id].row.texts is not None:
                return
            for some in db.cut_pieces(changed, STATEMENT_ROWS):
                await leases.rewrite_results(connection, locked[batch_id], dict(some))
            await store_accounts(connection, locked.values())

    async def grow(
        self, batch_id: str, options: BatchOptions, candidates: Sequence[tuple[Entry, Candidate]], total: int
    ) -> bool:
        """Adds candidates to a running batch of `total` whose chunks are all done, and whose end is leased by the
        caller: it comes again once they are. Replaces the options. Returns whether there are more now: not where the
        batch was stopped, has reached its deadline, or was given more by another caller meanwhile."""
        rows = await asyncio.to_thread(describe_candidates, batch_id, candidates)
        texts, grams = await asyncio.to_thread(describe_texts, batch_id, candidates) if rows else ([], [])
        now = self._clock()
        async with db.change(self._engine) as connection:
            found = (await lock_batches(connection, [batch_id])).get(batch_id)
            if found is None or not found.account.is_active or found.row.total != total:
                return False
            if found.account.chunks_left:
                return True  # by an owner of its end that died before it closed that
            time = await read_running_time(connection, now)
            this = update(t.batches).where(t.batches.c.id == batch_id)
            await connection.execute(this.values(options=options.model_dump_json()))
            if not rows or (found.account.expires_at is not None and found.account.expires_at <= time):
                return False
            for table, added in ((t.batch_items, rows), (t.batch_texts, texts), (t.text_grams, grams)):
                for some in db.cut_pieces(added, STATEMENT_ROWS):
                    await connection.execute(insert(table), some)
            last = func.coalesce(func.max(chunk.number), -1)
            numbers = select(last).where(chunk.batch_id == batch_id, chunk.number >= 0)
            first_number = (await connection.execute(numbers)).scalar_one() + 1
            firsts = range(total, total + len(rows), CHUNK_SIZE)
            new = [
                {
                    "batch_id": batch_id,
                    "number": number,
                    "state": "waiting",
                    "first": first,
                    "last": min(first + CHUNK_SIZE, total + len(rows)) - 1,
                    "crashes": 0,
                    "reserved_usd": 0.0,
                }
                for number, first in enumerate(firsts, first_number)
            ]
            await connection.execute(insert(t.batch_chunks), new)
            # The owner stays, because it still has to close the chunk.
            end = update(t.batch_chunks).where(chunk.batch_id == batch_id, chunk.number == FINISH)
            await connection.execute(end.values(state="blocked", queued_at=None))
            await connection.execute(this.values(total=total + len(rows)))
            found.account.chunks_left += len(new)
            found.account.stored_bytes += sum(measure_candidate(row["request"]) for row in rows)
            await store_accounts(connection, [found])
        return True

    async def complete(self, batch_id: str) -> None:
        """Completes a batch whose chunks are all done."""
        async with db.change(self._engine) as connection:
            locked = await lock_batches(connection, [batch_id])
            if batch_id not in locked or locked[batch_id].account.chunks_left:
                return
            locked[batch_id].account.complete(self._clock())
            # The owner stays, because it still has to close the chunk.
            end = update(t.batch_chunks).where(chunk.batch_id == batch_id, chunk.number == FINISH)
            await connection.execute(end.values(state="done", queued_at=None))
            await store_accounts(connection, locked.values())
        log_completed(locked.values())

    async def list(
        self, project: str, wanted: BatchFilter, *, after: tuple[datetime, str] | None, limit: int
    ) -> list[Batch]:
        """Batches, newest first; `after` is (created_at, id) of the last one of the page before."""
        # Last in the class, because its name shadows the built-in type.
        if not views.can_be_asked(project, wanted):
            return []
        return [*await self._read(views.list_newest(project, wanted, after, limit, self._seen))]


def batch_condition(batch_id: str, project: str | None = None) -> ColumnElement[bool]:
    """The condition that finds the batch, in one project or in any."""
    this = equals(t.batches.c.id, batch_id)
    return this if project is None else this & equals(t.batches.c.project, project)


def pick_pair(pair: PairPlaces, found: Mapping[int, Mapping[int, Candidate]]) -> tuple[Candidate, Candidate]:
    """The two, of the candidates that were found by run and position."""
    first, second = (
        found[run].get(position) or erased_candidate() for run, position in zip(pair.runs, pair.positions, strict=True)
    )
    return first, second


async def insert_chunks(connection: AsyncConnection, batch_id: str, total: int, options: str) -> int:
    """Inserts the batch's chunks, and those that stand for work on the whole batch; returns the number of the
    former."""
    asked = read_options(options)
    held = asked.mode == "provider-batch"
    chunks: list[tuple[int, str, int, int]] = [
        (number, "blocked" if held else "waiting", first, min(first + CHUNK_SIZE, total) - 1)
        for number, first in enumerate(range(0, total, CHUNK_SIZE))
    ]
    count = len(chunks)
    if held:
        chunks.append((COLLECT, "waiting", 0, -1))
    plan = plan_of(asked)
    grows = plan is not None and plan.pairs == "active"
    if grows or (asked.relevance is not None and asked.relevance.baseline == "batch"):
        chunks.append((FINISH, "blocked", 0, -1))
    common = {"batch_id": batch_id, "crashes": 0, "reserved_usd": 0.0}
    for some in db.cut_pieces(chunks, STATEMENT_ROWS):
        rows = [dict(zip(("number", "state", "first", "last"), each, strict=True)) | common for each in some]
        await connection.execute(insert(t.batch_chunks), rows)
    return count


async def keep_answer(connection: AsyncConnection, project: str, answer: KeyedAnswer) -> None:
    """Stores the answer under its key. Raises IdempotencyKeyInUse if another request has answered under it."""
    table = t.idempotency_keys
    this = (table.c.project == project) & (table.c.key == answer.key)
    open_one = update(table).where(this, table.c.status.is_(None))
    kept = await connection.execute(open_one.values(status=answer.status, body=answer.body))
    await add_bytes(connection, {project: kept.rowcount * len(answer.body)})
    # The claim may have expired while a long body came in: then no answer is stored.
    if kept.rowcount == 0 and (await connection.execute(select(table.c.key).where(this))).first() is not None:
        raise IdempotencyKeyInUse(Message("idempotency-key-taken"))
