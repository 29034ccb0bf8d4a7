"""Rounds of human ratings: which responses are drawn, which rater was given which, and how far each round is."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, case, func, insert, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.sizes import DRAWN_BYTES
from saiten_server.platform.sql.tables import (
    Instant,
    batch_items,
    batches,
    can_store,
    equals,
    evaluations,
    human_ratings,
    rating_rounds,
    round_items,
    round_pairs,
    round_tasks,
)
from saiten_server.ratings.store import read_stored_rating
from saiten_server.ratings.values import (
    ABANDONED_SECONDS,
    DrawnItem,
    DrawnPair,
    PairItem,
    PairOptions,
    RatedTask,
    RatingRound,
    RoundDraw,
    RoundOptions,
    RoundProgress,
    RoundSide,
    Task,
    own_order,
)
from saiten_server.runs.store.rows import RECEIVING, STATEMENT_ROWS
from saiten_server.scoring.store import STORED

rounds, item, task, rating = rating_rounds.c, round_items.c, round_tasks.c, human_ratings.c
pair = round_pairs.c


class RoundStore:
    """Rounds of human ratings by project, which are erased with their batches. Methods return None, or nothing, if the
    project has no such round. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def open_round(self, project: str, opened: RatingRound, drawn: RoundDraw) -> None:
        """Stores the round with what it drew. Raises NotFound if the project has no such batch."""
        runs = opened.options.runs if isinstance(opened.options, PairOptions) else (opened.batch,)
        if not can_store(project, opened.id, *runs):
            raise NotFound(Message("batch-not-found"))
        mine = (batches.c.id == opened.batch) & (batches.c.project == project) & (batches.c.status != RECEIVING)
        all_of = (batches.c.id.in_(runs)) & (batches.c.project == project) & (batches.c.status != RECEIVING)
        row = {
            **opened.model_dump(exclude={"batch", "options", "signals"}),
            "project": project,
            "batch_id": opened.batch,
            "kind": "preference" if opened.of_pairs else None,
            # Without defaults: an older Saiten, as during an upgrade, would refuse options that it does not know.
            "options": opened.options.model_dump_json(exclude_defaults=True),
            "signals": " ".join(opened.signals) or None,
        }
        items = [
            {"round_id": opened.id, "number": number, "position": position, "probability": probability}
            for number, (position, probability) in enumerate(zip(drawn.positions, drawn.probabilities, strict=True))
        ]
        async with db.change(self._engine) as connection:
            # Held to the end: an erasure then takes the round along.
            held = select(batches.c.id).where(all_of).order_by(batches.c.id).with_for_update(key_share=True, read=True)
            known = {*(await connection.execute(held)).scalars()}
            for name in runs:
                if name not in known:
                    raise NotFound(Message("batch-named-not-found", batch=name[:64]))
            await connection.execute(insert(rating_rounds), row)
            for some in db.cut_pieces(items, STATEMENT_ROWS):
                await connection.execute(insert(round_items), some)
            for pairs in db.cut_pieces(write_pairs(opened.id, drawn), STATEMENT_ROWS):
                await connection.execute(insert(round_pairs), pairs)
            grown = batches.c.stored_bytes + DRAWN_BYTES * len(items)
            await connection.execute(update(batches).where(mine).values(stored_bytes=grown))

    async def find_round(self, project: str, round_id: str) -> RatingRound | None:
        found = await db.fetch_one(self._engine, select(rating_rounds).where(*round_conditions(project, round_id)))
        return None if found is None else read_round(found)

    async def list_rounds(
        self, project: str, batch_id: str | None = None, *, limit: int = 200, of_pairs: bool | None = False
    ) -> builtins.list[RatingRound]:
        """The rounds of one batch, or of all, newest first; those in which responses are rated, or pairs compared, or,
        with None, both."""
        mine = [equals(rounds.project, project), *([] if batch_id is None else [equals(rounds.batch_id, batch_id)])]
        if of_pairs is not None:
            mine.append(rounds.kind.is_not(None) if of_pairs else rounds.kind.is_(None))
        newest = select(rating_rounds).where(*mine).order_by(rounds.created_at.desc(), rounds.id.desc()).limit(limit)
        return [read_round(row) for row in await db.fetch(self._engine, newest)]

    async def items(self, project: str, round_id: str) -> builtins.list[DrawnItem]:
        """What the round drew, in its order, without what was erased since."""
        query = (
            select(item.position, batch_items.c.item, batch_items.c.candidate, item.probability)
            .join(rating_rounds, rounds.id == item.round_id)
            .join(batch_items, (batch_items.c.batch_id == rounds.batch_id) & (batch_items.c.position == item.position))
            .where(*round_conditions(project, round_id))
            .order_by(item.number)
        )
        rows = await db.fetch(self._engine, query) if can_store(round_id) else []
        return [DrawnItem.model_construct(**row._mapping) for row in rows]

    async def pairs(self, project: str, round_id: str) -> builtins.list[PairItem]:
        """What a round of preferences drew, in its order, without what was erased since."""
        here = (batch_items.c.batch_id == pair.first_batch_id) & (batch_items.c.position == pair.first_position)
        query = (
            select(round_pairs, batch_items.c.item, item.probability)
            .join(rating_rounds, rounds.id == pair.round_id)
            .join(round_items, (item.round_id == pair.round_id) & (item.position == pair.position))
            .join(batch_items, here)
            .where(*round_conditions(project, round_id))
            .order_by(item.number)
        )
        return [
            PairItem.model_construct(
                pair=name_pair(round_id, row.position),
                item=row._mapping["item"],
                first=row.first_batch_id,
                first_position=row.first_position,
                second=row.second_batch_id,
                second_position=row.second_position,
                probability=row.probability,
            )
            for row in (await db.fetch(self._engine, query) if can_store(round_id) else [])
        ]

    async def find_pair(self, round_id: str, position: int) -> DrawnPair | None:
        """The pair of the round at that place; None where one of its sides was erased."""
        query = select(round_pairs).where(pair.round_id == round_id, pair.position == position)
        row = await db.fetch_one(self._engine, query)
        if row is None:
            return None
        return DrawnPair(
            RoundSide(row.first_batch_id, row.first_position), RoundSide(row.second_batch_id, row.second_position)
        )

    async def taken_at(self, round_id: str, rater: str, position: int) -> datetime | None:
        """When the rater was given what stands there; None where it was not."""
        this = (task.round_id == round_id, task.key == digest(rater), task.position == position)
        return await db.fetch_value(self._engine, select(task.taken_at).where(*this))

    async def close_round(self, project: str, round_id: str, now: datetime) -> RatingRound | None:
        """Closes the round and returns it. A closed round keeps the time at which it was closed."""
        closed = (
            update(rating_rounds)
            .where(*round_conditions(project, round_id))
            .values(closed_at=func.coalesce(rounds.closed_at, literal(now, Instant())))
        )
        async with db.write(self._engine) as connection:
            found = (await connection.execute(closed.returning(rating_rounds))).first()
        return None if found is None else read_round(found)

    async def take(self, project: str, round_id: str, rater: str, now: datetime) -> Task | None:
        """The response that the rater is to rate next: the one that was given and is not done, else a new one. None if
        the rater has had as many as possible, or the round is closed.

        No response is given to more than `raters_per_item` raters at a time; one that was given `ABANDONED_SECONDS` ago
        and not rated no longer counts. A rater who asks again is given it again, unless others have taken the place
        meanwhile; it may still be rated then. The responses that most others rated come first, so that they become
        complete; among equals each rater has a separate order (`own_order`). Raises InvalidRequest if the rater's name
        cannot be stored.
        """
        if not can_store(rater):
            raise InvalidRequest(Message("rater-name-not-kept"))
        async with db.change(self._engine) as connection:
            # Those who take from the round wait here for each other.
            locked = select(rating_rounds).where(*round_conditions(project, round_id)).with_for_update()
            row = (await connection.execute(locked)).first()
            if row is None or row.closed_at is not None:
                return None
            return await take_next(connection, read_round(row), rater, now)

    async def tasks(self, project: str, round_id: str, rater: str) -> builtins.list[Task]:
        """All tasks that the rater was given, in order."""
        found = await self.find_round(project, round_id) if can_store(rater) else None
        if found is None:
            return []
        query = select(round_tasks).where(task.round_id == found.id, task.key == digest(rater)).order_by(task.number)
        return [read_task(row, found.most_per_rater) for row in await db.fetch(self._engine, query)]

    async def finish(self, project: str, round_id: str, rater: str, position: int, now: datetime) -> bool:
        """Notes that the rater rated this response, in a closed round too. False if the rater was not given it."""
        if not can_store(rater):
            return False
        owned = select(rounds.id).where(*round_conditions(project, round_id))
        given = (task.round_id.in_(owned), task.key == digest(rater), task.position == position)
        return bool(await db.execute(self._engine, update(round_tasks).where(*given).values(done_at=now)))

    async def rated(self, project: str, round_id: str, *, limit: int) -> builtins.list[RatedTask]:
        """The ratings that the round got, in the order in which they came in; the first `limit` of them."""
        same = (rating.project == rounds.project) & (rating.evaluation == evaluations.c.id)
        query = (
            select(human_ratings, task.position)
            .join_from(round_tasks, rating_rounds, rounds.id == task.round_id)
            .join(
                evaluations,
                (evaluations.c.batch_id == rounds.batch_id) & (evaluations.c.position == task.position),
            )
            .join(human_ratings, same & (rating.rater == task.rater))
            .where(*round_conditions(project, round_id), task.done_at.is_not(None))
            .order_by(rating.number)
            .limit(limit)
        )
        rows = await db.fetch(self._engine, query) if can_store(round_id) else []
        return await asyncio.to_thread(
            lambda: [RatedTask.model_construct(position=row.position, rating=read_stored_rating(row)) for row in rows]
        )

    async def count_shared(self, project: str, round_id: str, other: str) -> tuple[int, int]:
        """How many raters rated in both rounds, and how many responses of the first they rated; of rounds that the
        project does not have, none."""
        if not can_store(round_id, other):
            return 0, 0
        both = round_tasks.alias().c
        elsewhere = select(both.key).where(both.round_id == other, both.done_at.is_not(None))
        query = (
            select(func.count(task.key.distinct()), func.count(task.position.distinct()))
            .join_from(round_tasks, rating_rounds, rounds.id == task.round_id)
            .join(round_items, (item.round_id == task.round_id) & (item.position == task.position))
            .where(*round_conditions(project, round_id), task.done_at.is_not(None), task.key.in_(elsewhere))
        )
        found = await db.fetch_one(self._engine, query)
        return (0, 0) if found is None else (found[0], found[1])

    async def progress(self, project: str, round_ids: Sequence[str]) -> dict[str, RoundProgress]:
        """The progress of each round; rounds that the project does not have are left out."""
        ids = [one for one in dict.fromkeys(round_ids) if can_store(one)]
        if not ids:
            return {}
        query = select(rating_rounds).where(equals(rounds.project, project), rounds.id.in_(ids))
        async with db.read(self._engine) as connection:
            found = {row.id: read_round(row) for row in await connection.execute(query)}
            rated = await count_rated(connection, [*found])
            raters = await count_by_rater(connection, [*found])
        return {
            name: count_progress(found[name], rated.get(name, []), raters.get(name, {}))
            for name in ids
            if name in found
        }


async def take_next(connection: AsyncConnection, taken: RatingRound, rater: str, now: datetime) -> Task | None:
    """The rater's next response, see `RoundStore.take`. The transaction holds the round."""
    of_round, of_rater = task.round_id == taken.id, task.key == digest(rater)
    counts = or_(task.done_at.is_not(None), task.taken_at > now - timedelta(seconds=ABANDONED_SECONDS))
    number, pending = func.count(), func.min(case((task.done_at.is_(None), task.number)))
    had, waiting = (await connection.execute(select(number, pending).where(of_round, of_rater))).one()
    if waiting is not None:
        # The response that the rater has is given again if there is still room for the rater.
        this = of_round & of_rater & (task.number == waiting)
        held = (await connection.execute(select(round_tasks).where(this))).one()
        others = of_round & (task.position == held.position) & ~of_rater
        query = select(func.count()).select_from(round_tasks).where(others, counts)
        if (await connection.execute(query)).scalar_one() < taken.options.raters_per_item:
            await connection.execute(update(round_tasks).where(this).values(taken_at=now))
        return read_task(held, taken.most_per_rater)
    position = await choose_position(connection, taken, rater, counts) if had < taken.most_per_rater else None
    if position is None:
        return None
    row = {"round_id": taken.id, "key": digest(rater), "number": had, "rater": rater, "position": position}
    await connection.execute(insert(round_tasks), {**row, "taken_at": now, "done_at": None})
    return Task(number=had, of=taken.most_per_rater, position=position, done=False)


async def note_done(connection: AsyncConnection, round_id: str, done: Sequence[tuple[str, int]], now: datetime) -> None:
    """Notes what raters compared, as (rater, position), whether they were given it or not. The transaction holds the
    round."""
    names = {digest(rater): rater for rater, _ in done}
    had = dict[str, set[int]]()
    for some in db.cut_pieces(sorted(names), STATEMENT_ROWS):
        query = select(task.key, task.position).where(task.round_id == round_id, task.key.in_(some))
        for key, position in await connection.execute(query):
            had.setdefault(key, set()).add(position)
    given, new = list[dict[str, Any]](), list[dict[str, Any]]()
    for key, position in dict.fromkeys((digest(rater), position) for rater, position in done):
        mine = had.setdefault(key, set())
        if position in mine:
            given.append({"its_key": key, "its_position": position})
            continue
        row = {"round_id": round_id, "key": key, "number": len(mine), "rater": names[key], "position": position}
        new.append({**row, "taken_at": now, "done_at": now})
        mine.add(position)
    this = (task.key == bindparam("its_key"), task.position == bindparam("its_position"), task.done_at.is_(None))
    for rows in db.cut_pieces(given, STATEMENT_ROWS):
        await connection.execute(update(round_tasks).where(task.round_id == round_id, *this).values(done_at=now), rows)
    for rows in db.cut_pieces(new, STATEMENT_ROWS):
        await connection.execute(insert(round_tasks), rows)


async def choose_position(
    connection: AsyncConnection, taken: RatingRound, rater: str, counts: ColumnElement[bool]
) -> int | None:
    """The position of a response with room for the rater, who has not had it. `counts` says which tasks take room."""
    of_item = (task.round_id == item.round_id) & (task.position == item.position)
    had = select(task.position).where(task.round_id == taken.id, task.key == digest(rater))
    query = (
        select(item.number, item.position, func.count(task.done_at).label("done"))
        .select_from(round_items.outerjoin(round_tasks, of_item))
        .where(item.round_id == taken.id, item.position.not_in(had))
        .group_by(item.number, item.position)
        .having(func.count(case((counts, 1))) < taken.options.raters_per_item)
    )
    free = (await connection.execute(query)).all()
    nearest = max((row.done for row in free), default=0)
    among = (row for row in free if row.done == nearest)
    chosen = min(among, key=lambda row: own_order(taken.options.seed, rater, row.number), default=None)
    return None if chosen is None else chosen.position


def round_conditions(project: str, round_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The conditions that find one round of the project."""
    return equals(rounds.id, round_id), equals(rounds.project, project)


def read_round(row: Row[Any]) -> RatingRound:
    """The round of a row."""
    return RatingRound.model_construct(
        id=row.id,
        batch=row.batch_id,
        options=(RoundOptions if row.kind is None else PairOptions).model_validate_json(row.options, context=STORED),
        drawn=row.drawn,
        created_at=row.created_at,
        closed_at=row.closed_at,
        signals=tuple(row.signals.split()) if row.signals else (),
    )


def write_pairs(round_id: str, drawn: RoundDraw) -> Iterator[dict[str, Any]]:
    """The rows of the round's pairs."""
    for position, (first, second) in zip(drawn.positions, drawn.pairs, strict=False):
        yield {
            "round_id": round_id,
            "position": position,
            "first_batch_id": first.batch,
            "first_position": first.position,
            "second_batch_id": second.batch,
            "second_position": second.position,
        }


def name_pair(round_id: str, position: int) -> str:
    """The name of a pair for `POST /v1/preferences/human`."""
    return f"{round_id}.{position}"


def read_task(row: Row[Any], most: int) -> Task:
    """The task of a row."""
    return Task(number=row.number, of=most, position=row.position, done=row.done_at is not None)


async def count_rated(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """By round, how many responses have how many ratings: (ratings, responses)."""
    each = (
        select(task.round_id, func.count().label("ratings"))
        # Of those that are still drawn: an erased response does not count.
        .join(round_items, (item.round_id == task.round_id) & (item.position == task.position))
        .where(task.round_id.in_(ids), task.done_at.is_not(None))
        .group_by(task.round_id, task.position)
        .subquery()
    )
    query = select(each.c.round_id, each.c.ratings, func.count()).group_by(each.c.round_id, each.c.ratings)
    found = dict[str, list[tuple[int, int]]]()
    for round_id, ratings, responses in await connection.execute(query):
        found.setdefault(round_id, []).append((ratings, responses))
    return found


async def count_by_rater(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """The number of responses that each rater has rated, by round."""
    query = (
        select(task.round_id, func.min(task.rater).label("rater"), func.count(task.done_at))
        .where(task.round_id.in_(ids))
        .group_by(task.round_id, task.key)
    )
    found = dict[str, dict[str, int]]()
    for round_id, rater, count in await connection.execute(query):
        found.setdefault(round_id, {})[rater] = count
    return {round_id: dict(sorted(counts.items())) for round_id, counts in found.items()}


def count_progress(found: RatingRound, rated: Sequence[tuple[int, int]], raters: dict[str, int]) -> RoundProgress:
    """The progress of the round. Ratings beyond the wanted number count only for the rater."""
    wanted = found.options.raters_per_item
    return RoundProgress(
        ratings=sum(min(ratings, wanted) * responses for ratings, responses in rated),
        wanted=found.drawn * wanted,
        complete=sum(responses for ratings, responses in rated if ratings >= wanted),
        raters=raters,
    )
