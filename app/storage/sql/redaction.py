"""Hashes or drops texts that a project no longer keeps, some records per transaction."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Exists, bindparam, delete, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.domain.evaluation import Record
from app.domain.governance import DEFAULT_POLICY, ProjectPolicy, TextKeeping
from app.domain.redaction import (
    DROPPED,
    ERASED,
    ERASED_CODE,
    HASHED,
    Cover,
    drop,
    hash_with,
    redact_asked,
    redact_evaluation,
    redact_record,
    redact_trace,
    rekey_context,
)
from app.domain.summary import pack_scores, unpack_scores
from app.storage.sql.batches.erasure import note_erased_calls
from app.storage.sql.batches.rows import ROWS, STORED, read_candidate, read_failure, read_record, utc_now
from app.storage.sql.batches.views import ENDED
from app.storage.sql.engine import change, insert_or_ignore
from app.storage.sql.tables import (
    batch_chunks,
    batch_items,
    batch_texts,
    batches,
    can_store,
    evaluations,
    human_ratings,
    idempotency_keys,
    project_policies,
    provider_calls,
    provider_replies,
)


def held_now(now: datetime) -> Exists:
    """Whether a worker holds a chunk of the batch of the outer query."""
    chunk = batch_chunks.c
    return exists().where(chunk.batch_id == batches.c.id, chunk.state == "leased", chunk.lease_until >= now)


logger = logging.getLogger("saiten.governance")

SETTLING = timedelta(seconds=60)
"""What is younger may still be on its way into the store with an earlier time: it is left for later."""

ANSWERS_KEPT = timedelta(days=1)
"""An Idempotency-Key holds for 24 hours, whatever the policy."""

UNDER_WAY = {"hash": "hashing", "drop": "dropping"}
"""What `batches.texts` says while a batch's texts are going."""

NEXT = timedelta(microseconds=1)

policy, result, item, text, batch = project_policies.c, evaluations.c, batch_items.c, batch_texts.c, batches.c
rating = human_ratings.c

SINGLE = update(evaluations).where(result.id == bindparam("this")).values(record=bindparam("new_record"), calls="[]")
RESULT = (
    update(evaluations)
    .where(result.id == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in ("record", "failure", "scores")} | {"calls": "[]"})
)
CANDIDATE = (
    update(batch_items)
    .where(item.batch_id == bindparam("this"), item.position == bindparam("place"))
    .values(request=bindparam("new_request"))
)
COMMENT = update(human_ratings).where(rating.number == bindparam("this")).values(comment=bindparam("new_comment"))


@dataclass(frozen=True)
class Sweep:
    """What one transaction does: which project's texts go, how, and those of what. `salt` is the project's."""

    connection: AsyncConnection
    project: str
    texts: TextKeeping
    before: datetime
    now: datetime
    salt: str

    def cover(self, texts: str) -> Cover:
        return drop if texts == "drop" else hash_with(self.salt)

    def cover_context(self, texts: str, digest: str | None) -> str | None:
        return None if texts == "drop" else rekey_context(digest, self.salt)


class Redaction:
    """Redacts projects. Several processes may: each project is one's at a time."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    async def sweep(
        self, project: str, texts: TextKeeping, before: datetime, limit: int, *, under: ProjectPolicy | None = None
    ) -> int:
        """Redacts at most `limit` records, save those that were made in the same instant; how many it was. Nothing
        where the project's policy is another than `under` by now: a sweep takes minutes, and what is hashed stays
        so."""
        if texts == "keep" or not can_store(project):
            return 0
        now = self._clock()
        async with change(self._engine) as connection:
            found = await hold_policy(connection, project, now)
            if found is None or (under is not None and (found.texts, found.after_days) != keeping_of(under)):
                return 0
            sweep = Sweep(connection, project, texts, min(before, now - SETTLING), now, found.salt)
            done = await redact_singles(sweep, found.redacted_to, limit)
            done += await redact_batches(sweep, limit - done)
            done += await redact_comments(sweep, limit - done)
            done += await forget_answers(sweep)
        return done


def keeping_of(held: ProjectPolicy) -> tuple[TextKeeping, float]:
    """What of a policy is about texts."""
    return held.texts, held.after_days


async def hold_policy(connection: AsyncConnection, project: str, now: datetime) -> Any:
    """The project's salt, watermark and policy over texts, which no other process changes until the transaction
    ends; None where another process has them."""
    row = {
        "project": project,
        **DEFAULT_POLICY.model_dump(),
        "salt": secrets.token_hex(32),
        "redacted_to": None,
        "updated_at": now,
    }
    await connection.execute(insert_or_ignore(connection, project_policies, row))
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
    rows = [*(await connection.execute(query.order_by(result.created_at).limit(limit))).all()]
    until = sweep.before
    if len(rows) == limit:
        last = rows[-1].created_at
        same = query.where(result.created_at == last, result.id.not_in([row.id for row in rows]))
        rows += (await connection.execute(same)).all()
        until = last + NEXT
    if rows:
        cover = sweep.cover(sweep.texts)
        changed = await asyncio.to_thread(rewrite_singles, rows, cover)
        await write_rows(connection, SINGLE, changed)
        await note_erased_calls(connection, keys_of(rows))
    if since is None or until > since:
        seen = update(project_policies).where(policy.project == sweep.project)
        await connection.execute(seen.values(redacted_to=until))
    return len(rows)


async def redact_batches(sweep: Sweep, limit: int) -> int:
    """Finished batches, one after the other."""
    done = 0
    while done < limit:
        found = await find_batch(sweep)
        if found is None:
            break
        texts = "drop" if found.texts == UNDER_WAY["drop"] else sweep.texts
        # Marked from the start: a process that still has data of the batch must not restore its texts.
        await set_texts(sweep.connection, found.id, UNDER_WAY[texts])
        places = await find_places(sweep.connection, found.id, texts, limit - done)
        await redact_places(sweep, found.id, texts, places)
        if len(places) < limit - done:
            await forget_provider(sweep.connection, found.id)
            await set_texts(sweep.connection, found.id, texts)
        done += len(places)
    return done


async def find_batch(sweep: Sweep) -> Any:
    """A finished batch with texts, which no other process changes until the transaction ends."""
    undone = [UNDER_WAY["hash"], UNDER_WAY["drop"], *(["hash"] if sweep.texts == "drop" else [])]
    query = select(batch.id, batch.texts).where(
        batch.project == sweep.project,
        batch.status.in_(ENDED),
        batch.finished_at < sweep.before,
        or_(batch.texts.is_(None), batch.texts.in_(undone)),
        # The worker that holds a chunk of a cancelled batch may still commit to it.
        ~held_now(sweep.now),
    )
    return (await sweep.connection.execute(query.order_by(batch.id).limit(1).with_for_update())).one_or_none()


async def set_texts(connection: AsyncConnection, batch_id: str, texts: str) -> None:
    """Says on the batch what became of its texts."""
    await connection.execute(update(batches).where(batch.id == batch_id).values(texts=texts))


async def find_places(connection: AsyncConnection, batch_id: str, texts: str, limit: int) -> Sequence[int]:
    """Positions of candidates that still have texts, by what a search looks through: it is emptied as they go."""
    query = select(text.position).where(text.batch_id == batch_id)
    if texts == "hash":
        query = query.where(text.text != "")
    return (await connection.execute(query.order_by(text.position).limit(limit))).scalars().all()


async def redact_places(sweep: Sweep, batch_id: str, texts: str, places: Sequence[int]) -> None:
    """Candidates of one batch with their results, if any."""
    connection = sweep.connection
    for start in range(0, len(places), ROWS):
        some = places[start : start + ROWS]
        asked = select(item.batch_id, item.position, item.request).where(
            item.batch_id == batch_id, item.position.in_(some)
        )
        given = select(result.id, result.record, result.failure, result.scores, result.calls).where(
            result.batch_id == batch_id, result.position.in_(some)
        )
        candidates = (await connection.execute(asked)).all()
        results = (await connection.execute(given)).all()
        cover = sweep.cover(texts)

        def rewrite(
            candidates: Sequence[Any] = candidates, results: Sequence[Any] = results, cover: Cover = cover
        ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            return rewrite_candidates(candidates, cover), [
                rewrite_result(row, cover, lambda digest: sweep.cover_context(texts, digest)) for row in results
            ]

        # In a thread: reading and writing 500 records takes a good part of a second.
        requests, records = await asyncio.to_thread(rewrite)
        await write_rows(connection, CANDIDATE, requests)
        await write_rows(connection, RESULT, records)
        await note_erased_calls(connection, keys_of(results))
        these = (text.batch_id == batch_id) & text.position.in_(some)
        gone: Any = delete(batch_texts) if texts == "drop" else update(batch_texts).values(text="")
        await connection.execute(gone.where(these))


async def forget_provider(connection: AsyncConnection, batch_id: str) -> None:
    """Replies that a provider's batch gave, and the keys of the translations that it took."""
    await connection.execute(delete(provider_replies).where(provider_replies.c.batch_id == batch_id))
    keys = select(provider_calls.c.key).where(provider_calls.c.batch_id == batch_id)
    await note_erased_calls(connection, (await connection.execute(keys)).scalars().all())
    await connection.execute(delete(provider_calls).where(provider_calls.c.batch_id == batch_id))


async def redact_comments(sweep: Sweep, limit: int) -> int:
    """What raters wrote."""
    if limit <= 0:
        return 0
    mine: ColumnElement[bool] = (rating.project == sweep.project) & (rating.created_at < sweep.before)
    query = select(rating.number, rating.comment).where(mine, rating.comment.is_not(None))
    if sweep.texts == "hash":
        # Exactly what the cover spares: less would keep texts, more would be found again in every step.
        covered_before = rating.comment.regexp_match(rf"^{HASHED.pattern}\Z") | rating.comment.in_([DROPPED, ERASED])
        query = query.where(~covered_before)
    rows = (await sweep.connection.execute(query.order_by(rating.number).limit(limit))).all()
    cover = sweep.cover(sweep.texts)
    covered = [
        {"this": row.number, "new_comment": None if sweep.texts == "drop" else cover(row.comment)} for row in rows
    ]
    await write_rows(sweep.connection, COMMENT, covered)
    return len(rows)


async def forget_answers(sweep: Sweep) -> int:
    """Answers that were kept for a repeated request. They hold what evaluations do."""
    answer = idempotency_keys.c
    old = answer.created_at < min(sweep.before, sweep.now - ANSWERS_KEPT)
    gone = delete(idempotency_keys).where(answer.project == sweep.project, old)
    return (await sweep.connection.execute(gone)).rowcount


def rewrite_singles(rows: Iterable[Any], cover: Cover) -> list[dict[str, Any]]:
    """The records without texts, those that had some."""
    changed = []
    for row in rows:
        covered = redact_record(Record.model_validate_json(row.record, context=STORED), cover).model_dump_json()
        if covered != row.record:
            changed.append({"this": row.id, "new_record": covered})
    return changed


def rewrite_candidates(rows: Iterable[Any], cover: Cover) -> list[dict[str, Any]]:
    """The candidates without texts."""
    return [
        {
            "this": row.batch_id,
            "place": row.position,
            "new_request": redact_asked(read_candidate(row.request), cover).model_dump_json(),
        }
        for row in rows
    ]


def rewrite_result(row: Any, cover: Cover, cover_context: Callable[[str | None], str | None]) -> dict[str, Any]:
    """A result without texts."""
    scores, record, failure = unpack_scores(row.scores), row.record, read_failure(row.failure)
    if failure is None:
        kept = read_record(row.record)
        record = kept.model_copy(
            update={"evaluation": redact_evaluation(kept.evaluation, cover), "trace": redact_trace(kept.trace, cover)}
        ).model_dump_json()
    elif failure.code != ERASED_CODE:
        # It may quote a judge.
        failure = failure.model_copy(update={"detail": DROPPED})
    return {
        "this": row.id,
        "new_record": record,
        "new_failure": None if failure is None else failure.model_dump_json(),
        "new_scores": pack_scores(scores._replace(context=cover_context(scores.context))),
    }


def keys_of(rows: Iterable[Any]) -> list[str]:
    """The cache keys of all calls of these results, each once."""
    return list(dict.fromkeys(key for row in rows if row.calls for key in json.loads(row.calls)))


async def write_rows(connection: AsyncConnection, statement: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Runs the statement for each row; for none, nothing."""
    if rows:
        await connection.execute(statement, rows)
