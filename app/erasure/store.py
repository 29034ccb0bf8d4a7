"""Removes dialogue texts: what bears certain metadata is erased, and what a project no longer keeps is hashed or
dropped."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.comparison.store import GateStore
from saiten_server.core import redaction
from saiten_server.core.access import DEFAULT_POLICY, ProjectPolicy, TextKeeping
from saiten_server.core.batch import ENDED_STATUSES, EXPIRED
from saiten_server.core.evaluation import Record
from saiten_server.core.model import digest, key_of
from saiten_server.core.redaction import ERASED_FAILURE, Cover, Erased
from saiten_server.core.sentences import instead
from saiten_server.monitors.store.erasing import erase_seen
from saiten_server.offline.store import forget_keys
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import has_marks, take_turn
from saiten_server.platform.sql.erased_calls import note_erased_calls
from saiten_server.platform.sql.sizes import (
    ANSWER_SIZE,
    DRAWN_BYTES,
    PREFERENCE_SIZE,
    RATING_SIZE,
    RESULT_SIZE,
    add_bytes,
    count_bytes,
    measure_candidate,
    measure_result,
    remove_sized,
)
from saiten_server.platform.sql.tables import can_store
from saiten_server.runs.datasets.store import erase_items, expire_uploads, remove_datasets
from saiten_server.runs.store.account import count_in, read_account, store_accounts
from saiten_server.runs.store.erasure import Erasure, hold_owners, remove_pairs
from saiten_server.runs.store.provider_batches import ProviderBatchStore
from saiten_server.runs.store.rows import (
    RECEIVING,
    STATEMENT_ROWS,
    describe_result,
    figure,
    insert_figures,
    read_failure,
    read_measures,
    read_placed,
    rewrite_figures,
    utc_now,
)
from saiten_server.runs.store.search import remove_index, remove_places
from saiten_server.runs.summary import measure_failure, tally_results
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from saiten_server.scoring.store import STORED, read_candidate, read_evaluation, read_trace, replace_parts

ERASED_AT_ONCE = 500
"""Candidates or evaluations of one transaction."""

ANSWERS_AT_ONCE = 100
"""Kept answers that are read at a time. Each holds an evaluation."""

result, item, batch, answer = t.evaluations.c, t.batch_items.c, t.batches.c, t.idempotency_keys.c
rating, policy, text = t.human_ratings.c, t.project_policies.c, t.batch_texts.c

ERASED_MEASURES = measure_failure(ERASED_FAILURE)
ANY_CHUNK = 0
EXPIRED_JSON = EXPIRED.model_dump_json()

ERASED_REQUEST = redaction.erased_candidate().model_dump_json()
"""What stands in `batch_items.request` for an erased candidate."""

ERASED_RESULT = {
    "record": "",
    "status": ERASED_MEASURES.status,
    "signature": "",
    "failure": ERASED_FAILURE.model_dump_json(),
    "calls": "[]",
}
"""The columns of an erased candidate's result."""


SETTLING = timedelta(seconds=60)
"""What is younger may still be on its way into the store with an earlier time: it is left for later."""

ANSWERS_KEPT = timedelta(days=1)
"""An Idempotency-Key holds for 24 hours, whatever the policy."""

UNDER_WAY = {"hash": "hashing", "drop": "dropping"}
"""What `batches.texts` says while a batch's texts are going."""

NEXT = timedelta(microseconds=1)

NO_CALLS = "[]"
SINGLE = (
    update(t.evaluations).where(result.id == bindparam("this")).values(record=bindparam("new_record"), calls=NO_CALLS)
)
ERASE_RESULT = SINGLE.values(failure=bindparam("new_failure"))
THIS_ITEM = (item.batch_id == bindparam("this")) & (item.position == bindparam("place"))
CANDIDATE = update(t.batch_items).where(THIS_ITEM).values(request=bindparam("new_request"))
THIS_FIGURE = (figure.batch_id == bindparam("this")) & (figure.position == bindparam("place"))
ERASE_CONTEXT = (
    update(t.result_figures)
    .where(THIS_FIGURE)
    .values(context=bindparam("new_context"), context_key=bindparam("new_key"))
)
ERASE_COMMENT = (
    update(t.human_ratings).where(rating.number == bindparam("this")).values(comment=bindparam("new_comment"))
)


class TextStore:
    """Removes dialogue texts wherever they are stored. On SQLite the file and its log are then cleaned of what is gone.
    Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        self._cleaning = Erasure(engine, clock=clock)

    async def erase_marked(self, project: str, metadata: Mapping[str, str]) -> Erased:
        """Removes everything whose metadata hold all these entries: batches as `BatchStore.erase` does, candidates of
        other batches (in their place stands a failure with the code `erased`, and a result that comes in later is
        refused), single evaluations, kept verdicts, and human ratings of any of them. Their calls are noted as those of
        an erased batch. Nothing bears empty metadata. It takes many small transactions; ask again for one that was cut
        off."""
        if not metadata or not can_store(project, *metadata, *metadata.values()):
            return Erased(0, 0, 0)
        try:
            whole = await self._find_batches(project, metadata)
            gone = sum([await self._erase_batch(project, batch_id) for batch_id in whole])
            candidates = await self._erase_candidates(project, metadata)
            singles = await self._erase_singles(project, metadata)
            # Before datasets: what monitors do not list any more cannot be added to one afterwards.
            await erase_seen(self._engine, project, metadata)
            marked = has_marks(self._engine, t.dataset_parts.c.content, metadata)
            items = await erase_items(self._engine, project, metadata, marked)
            await self._forget_answers(project, metadata)
            await GateStore(self._engine).erase_marked(project, has_marks(self._engine, t.gates.c.metadata, metadata))
        finally:
            # Not before: the erasure of a batch cleans too, and so does another caller's.
            self._cleaning.mark_traces()
        await self._cleaning.tidy()
        return Erased(gone, candidates, singles, items)

    async def redact(
        self, project: str, texts: TextKeeping, before: datetime, limit: int, *, under: ProjectPolicy | None = None
    ) -> int:
        """Hashes or drops texts of what is older than `before`: at most `limit` records, save those that were made in
        the same instant; returns how many. The calls that held them are noted. Several processes may do so: each
        project is one's at a time. Does nothing where the project's policy is another than `under` by now: a sweep
        takes minutes, and what is hashed stays so."""
        if texts == "keep" or not can_store(project):
            return 0
        now = self._clock()
        async with db.change(self._engine) as connection:
            found = await hold_policy(connection, project, now)
            changed = under is not None and found and (found.texts, found.after_days) != (under.texts, under.after_days)
            done = 0
            if found is not None and not changed:
                sweep = Sweep(connection, project, texts, min(before, now - SETTLING), now, found.salt)
                done = await redact_singles(sweep, found.redacted_to, limit)
                done += await redact_batches(sweep, limit - done)
                done += await redact_comments(sweep, limit - done)
                done += await drop_preference_texts(sweep, limit - done)
                done += await remove_datasets(connection, project, sweep.before, limit - done)
                done += await forget_answers(sweep)
                await add_bytes(connection, {project: -sum(sweep.freed)})
        if done:
            self._cleaning.mark_traces()
        if done < limit:
            # Once at the end of a sweep: cleaning waits for those who read.
            await self._cleaning.tidy()
        return done

    async def expire_uploads(self) -> None:
        """Removes uploaded files that were not kept in time."""
        if await expire_uploads(self._engine, self._clock()):
            self._cleaning.mark_traces()
            await self._cleaning.tidy()

    async def _find_batches(self, project: str, metadata: Mapping[str, str]) -> Sequence[str]:
        entry = t.batch_metadata.c
        this = exists().where(entry.batch_id == batch.id)
        fits = [this.where(entry.key == key, entry.value == value) for key, value in metadata.items()]
        query = select(batch.id).where(batch.project == project, batch.status != RECEIVING, *fits)
        return await db.fetch_column(self._engine, query.order_by(batch.id))

    async def _erase_batch(self, project: str, batch_id: str) -> bool:
        """As `BatchStore.erase`. What the provider still has of it is left to be removed there."""
        provider = ProviderBatchStore(self._engine, clock=self._clock)
        calls = await provider.calls(batch_id)
        async with db.write(self._engine) as connection:
            await note_erased_calls(connection, calls)
            # Before the batch: an answer is kept as its batch is accepted and never later, so none is left behind.
            sizes = await forget_answers_of(connection, project, [batch_id])
            await add_bytes(connection, {project: -sum(sizes)})
        await provider.forget(batch_id)
        return await self._cleaning.erase(project, batch_id)

    async def _erase_candidates(self, project: str, metadata: Mapping[str, str]) -> int:
        query = (
            select(item.batch_id, item.position)
            .join(t.batches, batch.id == item.batch_id)
            .where(
                batch.project == project, batch.status != RECEIVING, *has_marks(self._engine, item.request, metadata)
            )
        )
        found = await db.fetch(self._engine, query.order_by(item.batch_id, item.position))
        done = 0
        for batch_id, rows in groupby(found, key=itemgetter(0)):
            for some in db.cut_pieces(rows, ERASED_AT_ONCE):
                async with db.change(self._engine) as connection:
                    await take_turn(connection, project)
                    places = [row.position for row in some]
                    done += await erase_candidates(connection, batch_id, places, metadata, self._clock())
        return done

    async def _erase_singles(self, project: str, metadata: Mapping[str, str]) -> int:
        fits = has_marks(self._engine, result.record, metadata)
        query = select(result.id).where(result.project == project, result.batch_id.is_(None), *fits)
        gone = 0
        for some in db.cut_pieces(await db.fetch_column(self._engine, query.order_by(result.id)), ERASED_AT_ONCE):
            async with db.change(self._engine) as connection:
                await take_turn(connection, project)
                gone += await erase_singles(connection, project, some, metadata)
        return gone

    async def _forget_answers(self, project: str, metadata: Mapping[str, str]) -> None:
        """Removes stored answers that bear the metadata themselves."""
        mine = (answer.project == project) & answer.body.is_not(None)
        fits = has_marks(self._engine, answer.body, metadata)
        query = select(answer.key).where(mine, *fits).order_by(answer.key)
        for some in db.cut_pieces(await db.fetch_column(self._engine, query), ANSWERS_AT_ONCE):
            async with db.change(self._engine) as connection:
                await forget_marked_answers(connection, project, some, metadata)


async def erase_singles(
    connection: AsyncConnection, project: str, ids: Sequence[str], metadata: Mapping[str, str]
) -> int:
    """Removes those of the evaluations that bear the metadata, with their human ratings and the answers that hold them;
    returns how many. Their calls are noted."""
    query = select(result.id, result.record, result.calls).where(result.id.in_(ids), result.batch_id.is_(None))
    rows = (await connection.execute(query.order_by(result.id))).all()
    found = [row for row in rows if metadata.items() <= from_json(row.record)["evaluation"]["metadata"].items()]
    gone = [row.id for row in found]
    await note_erased_calls(connection, keys_of(found))
    of_one = (rating.project == project, rating.evaluation.in_(gone))
    sizes = await remove_sized(connection, t.human_ratings, RATING_SIZE, *of_one)
    said = (t.human_preferences.c.project == project, t.human_preferences.c.pair.in_(gone))
    sizes += await remove_sized(connection, t.human_preferences, PREFERENCE_SIZE, *said)
    sizes += await remove_sized(connection, t.evaluations, RESULT_SIZE, result.id.in_(gone))
    # After the evaluations: by now a request that was about to keep an answer has done so, or finds no evaluation.
    sizes += await forget_answers_of(connection, project, gone)
    await add_bytes(connection, {project: -sum(sizes)})
    return len(gone)


async def forget_answers_of(connection: AsyncConnection, project: str, ids: Collection[str]) -> list[int]:
    """Removes the answers that were kept for repeated requests of these evaluations or batches; returns the size of
    each."""
    sizes: list[int] = []
    starts = (b'{"id":' + to_json(one) for one in ids)
    for length, some in groupby(sorted(starts, key=len), key=len):
        names_one = func.substr(answer.body, 1, length, type_=LargeBinary).in_([*some])
        sizes += await remove_sized(connection, t.idempotency_keys, ANSWER_SIZE, answer.project == project, names_one)
    return sizes


async def forget_marked_answers(
    connection: AsyncConnection, project: str, keys: Sequence[str], metadata: Mapping[str, str]
) -> None:
    """Removes those of the answers under these keys whose own metadata hold all the entries."""
    these = (answer.project == project) & answer.key.in_(keys) & answer.body.is_not(None)
    rows = (await connection.execute(select(answer.key, answer.body).where(these))).all()
    gone = [row.key for row in rows if metadata.items() <= find_metadata(row.body).items()]
    named = (answer.project == project, answer.key.in_(gone))
    sizes = await remove_sized(connection, t.idempotency_keys, ANSWER_SIZE, *named)
    await add_bytes(connection, {project: -sum(sizes)})


def find_metadata(body: bytes) -> Mapping[str, str]:
    """The metadata that an answer tells; none where it is of another kind."""
    try:
        parsed = from_json(body)
    except ValueError:
        return {}
    own = parsed.get("metadata") if isinstance(parsed, dict) else None
    return own if isinstance(own, dict) else {}


async def erase_candidates(
    connection: AsyncConnection, batch_id: str, places: Collection[int], metadata: Mapping[str, str], now: datetime
) -> int:
    """Erases those of the candidates that bear the metadata; how many it were. Those without a result get one, so that
    a result that a worker still has in hand finds its place taken."""
    # As an erasure of the whole: a commit that waits for the batch finds the places taken.
    await hold_owners(connection, batch_id)
    locked = select(t.batches).where(batch.id == batch_id, batch.status != RECEIVING).with_for_update()
    row = (await connection.execute(locked)).one_or_none()
    if row is None:
        return 0
    asked = select(item.position, item.item, item.candidate, item.cluster, item.request).where(
        item.batch_id == batch_id, item.position.in_(places)
    )
    gone = [
        one
        for one in (await connection.execute(asked.order_by(item.position))).all()
        if metadata.items() <= from_json(one.request).get("metadata", {}).items()
    ]
    if not gone:
        return 0
    found = [one.position for one in gone]
    columns = (
        *(result.id, result.position, result.status, result.signature, result.calls, result.failure),
        RESULT_SIZE.label("size"),
    )
    results = select(*columns).where(result.batch_id == batch_id, result.position.in_(found))
    had = {one.position: one for one in await connection.execute(results)}
    await blank_results(connection, row, gone, had, now)
    blank = update(t.batch_items).where(item.batch_id == batch_id, item.position.in_(found))
    await connection.execute(blank.values(request=ERASED_REQUEST, tries=0))
    await connection.execute(delete(t.batch_texts).where(text.batch_id == batch_id, text.position.in_(found)))
    await forget_keys(connection, batch_id, found)
    await remove_places(connection, batch_id, found)
    sizes = await remove_ratings(connection, row.project, batch_id, gone, [one.id for one in had.values()])
    await leave_rounds(connection, batch_id, found, now)
    sizes += await remove_pairs(connection, batch_id, found, now)
    await add_bytes(connection, {row.project: -sum(sizes)})
    return len(gone)


async def blank_results(
    connection: AsyncConnection, row: Any, gone: Sequence[Any], had: Mapping[int, Any], now: datetime
) -> None:
    """Puts the failure in the place of each result, and takes that out of counts, figures and signatures."""
    keys = keys_of(had.values())
    await note_erased_calls(connection, keys)
    if keys:
        kept = t.provider_replies.c
        await connection.execute(delete(t.provider_replies).where(kept.batch_id == row.id, kept.key.in_(sorted(keys))))
    if had:
        await connection.execute(
            update(t.evaluations).where(result.id == bindparam("this")).values(ERASED_RESULT),
            [{"this": one.id} for one in had.values()],
        )
    fresh = [
        FinishedCandidate(ChunkJob(row.id, ANY_CHUNK), read_placed(one)[0], None, ERASED_FAILURE)
        for one in gone
        if one.position not in had
    ]
    rows = [describe_result(one, ERASED_MEASURES.status, row, now) for one in fresh]
    if rows:
        await connection.execute(insert(t.evaluations), rows)
    locked = read_account(row)
    locked.account.stored_bytes += sum(map(measure_result, [*rows, *[ERASED_RESULT] * len(had)]))
    locked.account.stored_bytes -= sum(one.size for one in had.values())
    locked.account.stored_bytes += sum(
        measure_candidate(ERASED_REQUEST) - measure_candidate(one.request) for one in gone
    )
    measures = read_measures(locked.account.measures)
    await rewrite_figures(connection, row.id, [(place, ERASED_MEASURES) for place in had], measures)
    placed = [(one.entry.position, ERASED_MEASURES) for one in fresh]
    entries = {(row.id, one.entry.position): one.entry for one in fresh}
    await insert_figures(connection, {row.id: placed}, {row.id: measures}, entries)
    signatures = Counter((row.id, one.signature) for one in had.values() if one.signature)
    await count_in(connection, {each: -count for each, count in signatures.items()})
    # They count as failed. What they cost was spent all the same.
    for one in had.values():
        locked.account.count("expired" if one.failure == EXPIRED_JSON else one.status, -1)
    locked.account.count("failed", len(had) + len(fresh))
    if had:
        locked.account.forget_figures()
    else:
        locked.account.add(tally_results([ERASED_MEASURES] * len(fresh)))
    await store_accounts(connection, [locked])


async def remove_ratings(
    connection: AsyncConnection, project: str, batch_id: str, gone: Sequence[Any], evaluation_ids: Collection[str]
) -> list[int]:
    """Ratings of these candidates. Of those that name the item alone, in no batch, the comments: they may be of other
    responses to the same. A number says too little for that: it is every batch's. Returns the bytes that each of them
    took."""
    candidates: dict[str, set[int | None]] = {}
    for one in gone:
        candidates.setdefault(one.item, {None}).add(one.candidate)
    query = select(rating.number, rating.item, rating.candidate, rating.comment).where(rating.project == project)
    of_batch = query.where(rating.batch_id == batch_id, rating.item.in_([*candidates]))
    numbers = [row.number for row in await connection.execute(of_batch) if row.candidate in candidates[row.item]]
    named = [name for name in candidates if not name.isdecimal()]
    of_item = query.where(rating.batch_id.is_(None), rating.item.in_(named), rating.comment.is_not(None))
    rows = [row for row in await connection.execute(of_item) if row.candidate in candidates[row.item]]
    loose = [row.number for row in rows]
    sizes = await remove_sized(connection, t.human_ratings, RATING_SIZE, rating.number.in_(numbers))
    of_one = (rating.project == project, rating.evaluation.in_([*evaluation_ids]))
    sizes += await remove_sized(connection, t.human_ratings, RATING_SIZE, *of_one)
    await connection.execute(update(t.human_ratings).where(rating.number.in_(loose)).values(comment=None))
    return [*sizes, *(count_bytes(row.comment) for row in rows)]


async def leave_rounds(connection: AsyncConnection, batch_id: str, places: Collection[int], now: datetime) -> None:
    """Withdraws the candidates from the rounds that rate them. A rater who has one continues with the next."""
    of_ratings = t.rating_rounds.c.kind.is_(None)
    mine = select(t.rating_rounds.c.id).where(t.rating_rounds.c.batch_id == batch_id, of_ratings)
    drawn, task = t.round_items.c, t.round_tasks.c
    these = drawn.round_id.in_(mine) & drawn.position.in_(places)
    query = select(drawn.round_id, func.count().label("count")).where(these).group_by(drawn.round_id)
    for row in (await connection.execute(query)).all():
        this = update(t.rating_rounds).where(t.rating_rounds.c.id == row.round_id)
        await connection.execute(this.values(drawn=t.rating_rounds.c.drawn - row.count))
        shrunk = update(t.batches).where(batch.id == batch_id)
        await connection.execute(shrunk.values(stored_bytes=batch.stored_bytes - DRAWN_BYTES * row._mapping["count"]))
    await connection.execute(delete(t.round_items).where(these))
    pending = task.round_id.in_(mine) & task.position.in_(places) & task.done_at.is_(None)
    await connection.execute(update(t.round_tasks).where(pending).values(done_at=now))


@dataclass(frozen=True)
class Sweep:
    """What one transaction does: which project's texts go, how, and those of what. `salt` is the project's."""

    connection: AsyncConnection
    project: str
    texts: TextKeeping
    before: datetime
    now: datetime
    salt: str
    freed: list[int] = field(default_factory=list)
    """Bytes that were taken from what `project_bytes` counts."""

    def cover(self, texts: str) -> Cover:
        return redaction.drop if texts == "drop" else redaction.hash_with(self.salt)

    async def run_each(self, statement: Any, rows: Sequence[dict[str, Any]]) -> None:
        """Runs the statement for each row."""
        if rows:
            await self.connection.execute(statement, rows)


async def hold_policy(connection: AsyncConnection, project: str, now: datetime) -> Any:
    """The project's salt, watermark and policy over texts, which no other process changes until the transaction
    ends; None where another process has them."""
    row = DEFAULT_POLICY.model_dump() | {"project": project, "salt": secrets.token_hex(32), "updated_at": now}
    await connection.execute(db.insert_or_ignore(connection, t.project_policies), row | {"redacted_to": None})
    columns = policy.salt, policy.redacted_to, policy.texts, policy.after_days
    query = select(*columns).where(policy.project == project)
    return (await connection.execute(query.with_for_update(skip_locked=True))).one_or_none()


async def redact_singles(sweep: Sweep, since: datetime | None, limit: int) -> int:
    """Evaluations outside batches, oldest first. What is done is remembered by its time."""
    query = select(result.id, result.created_at, result.record, result.calls).where(
        result.project == sweep.project, result.batch_id.is_(None), result.created_at < sweep.before
    )
    if since is not None:
        query = query.where(result.created_at >= since)
    connection = sweep.connection
    # Held: reasons that the judge is asked for afterwards are written into the same rows.
    query = query.with_for_update()
    rows = [*(await connection.execute(query.order_by(result.created_at).limit(limit))).all()]
    until = sweep.before
    if len(rows) == limit:
        last = rows[-1].created_at
        same = query.where(result.created_at == last, result.id.not_in([row.id for row in rows]))
        rows += (await connection.execute(same)).all()
        until = last + NEXT
    changed = await asyncio.to_thread(rewrite_singles, rows, sweep.cover(sweep.texts))
    await sweep.run_each(SINGLE, changed)
    sweep.freed.extend(measure_freed(rows, changed, "record"))
    await note_erased_calls(connection, keys_of(rows))
    if since is None or until > since:
        seen = update(t.project_policies).where(policy.project == sweep.project)
        await connection.execute(seen.values(redacted_to=until))
    return len(rows)


async def redact_batches(sweep: Sweep, limit: int) -> int:
    """Finished batches, one after the other."""
    done, connection = 0, sweep.connection
    while done < limit:
        found = await take_batch(sweep)
        if found is None:
            break
        texts = "drop" if found.texts == UNDER_WAY["drop"] else sweep.texts
        this = update(t.batches).where(batch.id == found.id)
        # Marked from the start: a process that still has data of the batch must not restore its texts.
        await connection.execute(this.values(texts=UNDER_WAY[texts]))
        await remove_index(connection, found.id)
        # What a search looks through is emptied as the texts go.
        query = select(text.position).where(text.batch_id == found.id, *([text.text != ""] if texts == "hash" else []))
        left = query.order_by(text.position).limit(limit - done)
        places = (await connection.execute(left)).scalars().all()
        for some in db.cut_pieces(places, STATEMENT_ROWS):
            await redact_places(sweep, found.id, texts, some)
        if len(places) < limit - done:
            await forget_provider(connection, found.id)
            await remove_index(connection, found.id)
            await connection.execute(this.values(texts=texts))
        done += len(places)
    return done


async def take_batch(sweep: Sweep) -> Any:
    """A finished batch with texts, which no other process changes until the transaction ends."""
    chunk = t.batch_chunks.c
    held_now = exists().where(chunk.batch_id == batch.id, chunk.state == "leased", chunk.lease_until >= sweep.now)
    undone = [UNDER_WAY["hash"], UNDER_WAY["drop"], *(["hash"] if sweep.texts == "drop" else [])]
    query = select(batch.id, batch.texts).where(
        batch.project == sweep.project,
        batch.status.in_(ENDED_STATUSES),
        batch.finished_at < sweep.before,
        or_(batch.texts.is_(None), batch.texts.in_(undone)),
        # The worker that holds a chunk of a cancelled batch may still commit to it.
        ~held_now,
    )
    return (await sweep.connection.execute(query.order_by(batch.id).limit(1).with_for_update())).one_or_none()


async def redact_places(sweep: Sweep, batch_id: str, texts: str, places: Sequence[int]) -> None:
    """Candidates of one batch with their results, if any."""
    connection, cover = sweep.connection, sweep.cover(texts)
    asked = select(item.batch_id, item.position, item.request).where(
        item.batch_id == batch_id, item.position.in_(places)
    )
    columns = (result.id, result.record, result.failure, result.calls)
    given = select(*columns).where(result.batch_id == batch_id, result.position.in_(places))
    context = select(figure.position, figure.context).where(
        figure.batch_id == batch_id, figure.position.in_(places), figure.context.is_not(None)
    )
    candidates = (await connection.execute(asked)).all()
    results = (await connection.execute(given)).all()
    contexts = (await connection.execute(context)).all()
    salt = None if texts == "drop" else sweep.salt
    # In a thread: reading and writing 500 records takes a good part of a second.
    covered = await asyncio.to_thread(rewrite_candidates, candidates, cover)
    await sweep.run_each(CANDIDATE, covered)
    rewritten = await asyncio.to_thread(rewrite_results, results, cover)
    await sweep.run_each(ERASE_RESULT, rewritten)
    await sweep.run_each(ERASE_CONTEXT, [rewrite_context(batch_id, row, salt) for row in contexts])
    freed = sum(measure_freed(results, rewritten, "record", "failure"))
    freed += sum(measure_candidate(one.request) for one in candidates)
    freed -= sum(measure_candidate(one["new_request"]) for one in covered)
    shrunk = update(t.batches).where(batch.id == batch_id)
    await connection.execute(shrunk.values(stored_bytes=batch.stored_bytes - freed))
    await note_erased_calls(connection, keys_of(results))
    gone: Any = delete(t.batch_texts) if texts == "drop" else update(t.batch_texts).values(text="")
    await connection.execute(gone.where(text.batch_id == batch_id, text.position.in_(places)))


async def forget_provider(connection: AsyncConnection, batch_id: str) -> None:
    """Replies that a provider's batch gave, and the keys of the translations that it took."""
    reply, call = t.provider_replies.c, t.provider_calls.c
    await connection.execute(delete(t.provider_replies).where(reply.batch_id == batch_id))
    keys = await connection.execute(select(call.key).where(call.batch_id == batch_id))
    await note_erased_calls(connection, keys.scalars().all())
    await connection.execute(delete(t.provider_calls).where(call.batch_id == batch_id))


async def redact_comments(sweep: Sweep, limit: int) -> int:
    """What raters wrote."""
    if limit <= 0:
        return 0
    mine: ColumnElement[bool] = (rating.project == sweep.project) & (rating.created_at < sweep.before)
    query = select(rating.number, rating.comment).where(mine, rating.comment.is_not(None))
    if sweep.texts == "hash":
        # Exactly what the cover spares: less would keep texts, more would be found again in every step.
        hashed = rating.comment.regexp_match(rf"^{redaction.HASHED.pattern}\Z")
        query = query.where(~(hashed | rating.comment.in_([redaction.DROPPED, redaction.ERASED])))
    rows = (await sweep.connection.execute(query.order_by(rating.number).limit(limit))).all()
    covered = [
        {"this": row.number, "new_comment": None if sweep.texts == "drop" else sweep.cover(sweep.texts)(row.comment)}
        for row in rows
    ]
    await sweep.run_each(ERASE_COMMENT, covered)
    sweep.freed.extend(
        count_bytes(row.comment) - count_bytes(new["new_comment"]) for row, new in zip(rows, covered, strict=True)
    )
    return len(rows)


async def drop_preference_texts(sweep: Sweep, limit: int) -> int:
    """Texts that came with preferences, and the raters' reasons: dropped where others are hashed, for nothing asks for
    them again. Their digests, by which texts could be guessed, are salted."""
    if limit <= 0:
        return 0
    preference, connection = t.human_preferences.c, sweep.connection
    texts = dict.fromkeys(("context", "first", "second", "reason"))
    query = (
        select(preference.number, preference.key, preference["item"], PREFERENCE_SIZE.label("size"))
        .where(preference.project == sweep.project, preference.created_at < sweep.before)
        .where(or_(*(preference[name].is_not(None) for name in texts)))
    )
    rows = (await connection.execute(query.order_by(preference.number).limit(limit))).all()
    this = update(t.human_preferences).where(preference.number == bindparam("this"))
    salted = [
        {"this": row.number, "new_item": digest([sweep.salt, row.item]) if row.item is not None else None}
        | {"new_key": digest([sweep.salt, row.key]) if row.item is not None else row.key}
        for row in rows
    ]
    await sweep.run_each(this.values(**texts, item=bindparam("new_item"), key=bindparam("new_key")), salted)
    numbers = [row.number for row in rows]
    left = select(func.sum(PREFERENCE_SIZE)).where(preference.number.in_(numbers))
    sweep.freed.append(sum(row.size for row in rows) - int((await connection.execute(left)).scalar_one() or 0))
    return len(rows)


async def forget_answers(sweep: Sweep) -> int:
    """Answers that were kept for a repeated request. They hold what evaluations do."""
    old = answer.created_at < min(sweep.before, sweep.now - ANSWERS_KEPT)
    mine = answer.project == sweep.project
    sizes = await remove_sized(sweep.connection, t.idempotency_keys, ANSWER_SIZE, mine, old)
    sweep.freed.extend(sizes)
    return len(sizes)


def measure_freed(rows: Iterable[Any], changed: Iterable[Mapping[str, Any]], *names: str) -> list[int]:
    """The bytes that each of the changed rows of `evaluations` loses in these columns, and in `calls`."""
    before = {row.id: row for row in rows}
    return [
        count_bytes(before[new["this"]].calls)
        - len(NO_CALLS)
        + sum(count_bytes(getattr(before[new["this"]], name)) - count_bytes(new[f"new_{name}"]) for name in names)
        for new in changed
    ]


def rewrite_singles(rows: Iterable[Any], cover: Cover) -> list[dict[str, Any]]:
    """The records without texts, those that had some."""
    changed = []
    for row in rows:
        record = Record.model_validate_json(row.record, context=STORED)
        covered = redaction.redact_record(record, cover).model_dump_json()
        if covered != row.record:
            changed.append({"this": row.id, "new_record": covered})
    return changed


def rewrite_candidates(rows: Iterable[Any], cover: Cover) -> list[dict[str, Any]]:
    """The candidates without texts."""
    return [
        {
            "this": row.batch_id,
            "place": row.position,
            "new_request": redaction.redact_asked(read_candidate(row.request), cover).model_dump_json(),
        }
        for row in rows
    ]


def rewrite_results(rows: Iterable[Any], cover: Cover) -> list[dict[str, Any]]:
    """The results without texts."""
    changed = []
    for row in rows:
        record, failure = row.record, read_failure(row.failure)
        if failure is None:
            evaluation = redaction.redact_evaluation(read_evaluation(row.record), cover)
            trace = redaction.redact_trace(read_trace(row.record), cover)
            record = replace_parts(row.record, evaluation=evaluation, trace=trace)
        elif failure.code != redaction.ERASED_CODE:
            # It may quote a judge.
            failure = failure.model_copy(update=instead(redaction.DROPPED))
        told = None if failure is None else failure.model_dump_json()
        changed.append({"this": row.id, "new_record": record, "new_failure": told})
    return changed


def rewrite_context(batch_id: str, row: Any, salt: str | None) -> dict[str, Any]:
    """What stands for the context of a result. Without a `salt` its digest goes too."""
    context = None if salt is None else redaction.rekey_context(row.context, salt)
    key = None if context is None else key_of(context)
    return {"this": batch_id, "place": row.position, "new_context": context, "new_key": key}


def keys_of(rows: Iterable[Any]) -> list[str]:
    """The cache keys of all calls of these results, each once."""
    return list(dict.fromkeys(key for row in rows if row.calls for key in json.loads(row.calls)))
