"""Erasing single candidates of a batch, and making its counts and figures fit what is left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json
from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.account import Account, count_in, read_account, store_accounts
from app.adapters.sql.batches.erasure import owe_calls
from app.adapters.sql.batches.rows import (
    RECEIVING,
    describe_result,
    insert_figures,
    read_measures,
    read_placed,
    rewrite_figures,
)
from app.adapters.sql.provider_tables import provider_replies
from app.adapters.sql.round_tables import rating_rounds, round_items, round_tasks
from app.adapters.sql.tables import batch_items, batch_texts, batches, evaluations, human_ratings
from app.domain.batch import EXPIRED
from app.domain.redaction import ERASED_FAILURE, erased_candidate
from app.domain.work import Finished, Job
from app.scores import failed_scores, pack
from app.tally import tally_scores

SCORES = failed_scores(ERASED_FAILURE)
ANY_CHUNK = 0
GONE = EXPIRED.model_dump_json()

result, item, rating, batch = evaluations.c, batch_items.c, human_ratings.c, batches.c

BLANK = {
    "record": "",
    "status": SCORES.status,
    "signature": "",
    "failure": ERASED_FAILURE.model_dump_json(),
    "scores": pack(SCORES),
    "calls": "[]",
}
"""The columns of an erased candidate's result."""


def bears(own: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether the metadata hold all the wanted entries."""
    return all(own.get(key) == value for key, value in wanted.items())


async def erase_candidates(
    connection: AsyncConnection, batch_id: str, places: Collection[int], metadata: Mapping[str, str], now: datetime
) -> int:
    """Erases those of the candidates that bear the metadata; how many it were. Those without a result get one, so that
    a result that a worker still has in hand finds its place taken."""
    # As an erasure of the whole: a commit that waits for the batch finds the places taken.
    row = (
        await connection.execute(
            select(batches).where(batch.id == batch_id, batch.status != RECEIVING).with_for_update()
        )
    ).one_or_none()
    if row is None:
        return 0
    asked = select(item.position, item.item, item.candidate, item.cluster, item.request).where(
        item.batch_id == batch_id, item.position.in_(places)
    )
    gone = [
        one
        for one in (await connection.execute(asked.order_by(item.position))).all()
        if bears(from_json(one.request).get("metadata", {}), metadata)
    ]
    if not gone:
        return 0
    had = await find_results(connection, batch_id, [one.position for one in gone])
    await blank_results(connection, row, gone, had, now)
    await remove_texts(connection, batch_id, [one.position for one in gone])
    await remove_ratings(connection, row.project, batch_id, gone, [one.id for one in had.values()])
    await leave_rounds(connection, batch_id, [one.position for one in gone], now)
    return len(gone)


async def find_results(connection: AsyncConnection, batch_id: str, places: Collection[int]) -> dict[int, Any]:
    """What the candidates have for results, by position."""
    query = select(result.id, result.position, result.status, result.signature, result.calls, result.failure)
    rows = await connection.execute(query.where(result.batch_id == batch_id, result.position.in_(places)))
    return {row.position: row for row in rows}


async def blank_results(
    connection: AsyncConnection, row: Any, gone: Sequence[Any], had: Mapping[int, Any], now: datetime
) -> None:
    """Puts the failure in the place of each result, and takes that out of counts, figures and signatures."""
    keys = {key for one in had.values() for key in json.loads(one.calls or "[]")}
    await owe_calls(connection, keys)
    if keys:
        kept = provider_replies.c
        await connection.execute(delete(provider_replies).where(kept.batch_id == row.id, kept.key.in_(sorted(keys))))
    if had:
        await connection.execute(
            update(evaluations).where(result.id == bindparam("this")).values(BLANK),
            [{"this": one.id} for one in had.values()],
        )
    fresh = [
        Finished(Job(row.id, ANY_CHUNK), read_placed(one)[0], None, ERASED_FAILURE)
        for one in gone
        if one.position not in had
    ]
    if fresh:
        await connection.execute(insert(evaluations), [describe_result(one, SCORES, row, now) for one in fresh])
    locked = read_account(row)
    measures = read_measures(locked.account.measures)
    await rewrite_figures(connection, row.id, [(place, SCORES) for place in had], measures)
    placed = [(one.entry.position, SCORES) for one in fresh]
    await insert_figures(connection, {row.id: placed}, {row.id: measures}, {})
    signatures = Counter((row.id, one.signature) for one in had.values() if one.signature)
    await count_in(connection, {each: -count for each, count in signatures.items()})
    recount(locked.account, had.values(), len(fresh))
    await store_accounts(connection, [locked])


def recount(account: Account, had: Collection[Any], fresh: int) -> None:
    """Counts the erased as failed. What they cost was spent all the same."""
    for one in had:
        account.count("expired" if one.failure == GONE else one.status, -1)
    account.count("failed", len(had) + fresh)
    if had:
        account.forget_figures()
    else:
        account.add(tally_scores([SCORES] * fresh))


async def remove_texts(connection: AsyncConnection, batch_id: str, places: Collection[int]) -> None:
    """What was asked, and what a search looks through."""
    these = (item.batch_id == batch_id) & item.position.in_(places)
    await connection.execute(
        update(batch_items).where(these).values(request=erased_candidate().model_dump_json(), tries=0)
    )
    text = batch_texts.c
    await connection.execute(delete(batch_texts).where(text.batch_id == batch_id, text.position.in_(places)))


async def remove_ratings(
    connection: AsyncConnection, project: str, batch_id: str, gone: Sequence[Any], evaluation_ids: Collection[str]
) -> None:
    """Ratings of these candidates. Of those that name the item alone, in no batch, the comments: they may be of other
    responses to the same. A number says too little for that: it is every batch's."""
    candidates: dict[str, set[int | None]] = {}
    for one in gone:
        candidates.setdefault(one.item, {None}).add(one.candidate)
    query = select(rating.number, rating.item, rating.candidate).where(rating.project == project)
    of_batch = query.where(rating.batch_id == batch_id, rating.item.in_([*candidates]))
    numbers = [row.number for row in await connection.execute(of_batch) if row.candidate in candidates[row.item]]
    named = [name for name in candidates if not name.isdecimal()]
    of_item = query.where(rating.batch_id.is_(None), rating.item.in_(named), rating.comment.is_not(None))
    loose = [row.number for row in await connection.execute(of_item) if row.candidate in candidates[row.item]]
    await connection.execute(delete(human_ratings).where(rating.number.in_(numbers)))
    await connection.execute(
        delete(human_ratings).where(rating.project == project, rating.evaluation.in_([*evaluation_ids]))
    )
    await connection.execute(update(human_ratings).where(rating.number.in_(loose)).values(comment=None))


async def leave_rounds(connection: AsyncConnection, batch_id: str, places: Collection[int], now: datetime) -> None:
    """No rater is given them any more. Whoever has one goes on to the next."""
    mine = select(rating_rounds.c.id).where(rating_rounds.c.batch_id == batch_id)
    drawn, task = round_items.c, round_tasks.c
    these = drawn.round_id.in_(mine) & drawn.position.in_(places)
    query = select(drawn.round_id, func.count().label("count")).where(these).group_by(drawn.round_id)
    for row in (await connection.execute(query)).all():
        await connection.execute(
            update(rating_rounds)
            .where(rating_rounds.c.id == row.round_id)
            .values(drawn=rating_rounds.c.drawn - row.count)
        )
    await connection.execute(delete(round_items).where(these))
    pending = task.round_id.in_(mine) & task.position.in_(places) & task.done_at.is_(None)
    await connection.execute(update(round_tasks).where(pending).values(done_at=now))
