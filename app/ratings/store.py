"""Human ratings, exclusions and validations of judges."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json
from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import canonical_json, digest
from saiten_server.core.reliability import JudgeKey, Validation
from saiten_server.core.signature import read_signature
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import take_turn
from saiten_server.platform.sql.sizes import RATING_SIZE, add_bytes, fetch_page, remove_sized
from saiten_server.platform.sql.tables import batches, can_store, equals, evaluations, validations
from saiten_server.ratings.values import (
    MOST_EARLIER,
    MOST_EXCLUSIONS,
    UNDRAWN,
    EarlierRating,
    Excluded,
    Exclusion,
    HumanRating,
    RatedDraw,
    RatingFilter,
    RatingsAdded,
    RatingsMark,
    StoredExclusion,
    StoredRating,
)
from saiten_server.runs.result import Result
from saiten_server.runs.store.rows import RECEIVING, STATEMENT_ROWS
from saiten_server.scoring.store import STORED

METHOD = "|validation:within-systems"
"""What the judge of a stored validation ends with: how it was computed. One by an earlier method is neither read nor
compared with, and while processes of two releases run, neither takes the other's for its own."""

table, validation = t.human_ratings.c, validations.c
excluded, rounds, task, result = t.rating_exclusions.c, t.rating_rounds.c, t.round_tasks.c, evaluations.c

ITEM_START_CHARACTERS = 64
ITEM_START: ColumnElement[str] = literal_column(f"substr(human_ratings.item, 1, {ITEM_START_CHARACTERS})")
"""The part of an item's id that is in the index, because only the operator limits its length."""

EARLIER = TypeAdapter(tuple[EarlierRating, ...])

logger = logging.getLogger("saiten.ratings")

REQUESTS_AT_ONCE = 200
"""Requests, of up to a megabyte each, that are read at a time for the roles of their turns."""


MOST_RATINGS_SHOWN = 500
"""Human ratings that are shown with a page of responses."""


class RatingStore:
    """Human ratings by project, exclusions and validations of judges. Raises the `Store…` errors of
    `saiten_server.core.errors`. A rater has one rating per target: (item, batch, candidate, system), or an
    evaluation. A later one replaces the earlier one, whose values it keeps. It gets a new number and comes last, so
    that a caller who reads in pages finds it. Ratings of an evaluation or of a batch's item are erased with the
    batch."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, project: str, ratings: Sequence[HumanRating], now: datetime) -> RatingsAdded:
        """Stores all ratings or none. Raises NotFound if a rating names an evaluation or batch that the project does
        not have, and InvalidRequest if no column can hold a text; the `pointer` is the rating's number from 0."""
        if not can_store(project):
            raise InvalidRequest(Message("project-name-not-kept"))
        # In a thread: many take seconds.
        keys, rows = await asyncio.to_thread(write_rows, project, ratings, now)
        replaced, grown = 0, 0
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            owners = await find_owners(connection, project, ratings)
            for key, batch_id in zip(keys, owners, strict=True):
                rows[key]["batch_id"] = batch_id
            for some in db.cut_pieces(rows.values(), STATEMENT_ROWS):
                these = table.key.in_([row["key"] for row in some])
                before = select(table.key, table.ratings, table.faulty_turns, table.created_at, table.earlier)
                had = {row.key: row for row in await connection.execute(before.where(these))}
                gone = await remove_sized(connection, t.human_ratings, RATING_SIZE, these)
                replaced += len(gone)
                fresh = [row | {"earlier": keep_earlier(had.get(row["key"]), row)} for row in some]
                await connection.execute(insert(t.human_ratings), fresh)
                size = (await connection.execute(select(func.sum(RATING_SIZE)).where(these))).scalar_one()
                grown += int(size or 0) - sum(gone)
            await add_bytes(connection, {project: grown})
        return RatingsAdded(added=len(rows) - replaced, replaced=replaced)

    async def rubrics_of(self, project: str, evaluations: Sequence[str]) -> dict[str, str]:
        """The rubric of each evaluation that the project has, `id@version`, by the evaluation's id."""
        found = dict[str, str]()
        for some in db.cut_pieces(filter(can_store, dict.fromkeys(evaluations)), STATEMENT_ROWS):
            query = select(result.id, result.rubric, result.signature).where(
                result.id.in_(some), equals(result.project, project)
            )
            for row in await db.fetch(self._engine, query):
                # The signature tells the version too.
                found[row.id] = read_signature(row.signature).get("rubric", row.rubric)
        return found

    async def turns_of(self, project: str, ratings: Sequence[HumanRating]) -> list[frozenset[int] | None]:
        """For each rating the turns of the system in what it rates, none where that is no conversation; None where the
        rating marks none, or nothing is known of what it rates: an item in no batch."""
        evaluations, items = list[str](), dict[str, list[str]]()
        for one in ratings:
            if one.faulty_turns and one.evaluation is not None:
                evaluations.append(one.evaluation)
            elif one.faulty_turns and one.batch is not None and one.item is not None:
                items.setdefault(one.batch, []).append(one.item)
        given, found = t.batch_items.c, dict[tuple[str | None, str | None], frozenset[int]]()
        both = (given.batch_id == result.batch_id) & (given.position == result.position)
        query = select(result.id, given.request, result.record).outerjoin(t.batch_items, both)
        for some in db.cut_pieces(filter(can_store, dict.fromkeys(evaluations)), REQUESTS_AT_ONCE):
            rows = await db.fetch(self._engine, query.where(result.id.in_(some), equals(result.project, project)))
            found |= await asyncio.to_thread(read_turn_sets, None, rows)
        query = select(given.item, given.request, literal(None)).join(batches, batches.c.id == given.batch_id)
        for batch_id, names in items.items():
            mine = (equals(batches.c.id, batch_id), equals(batches.c.project, project))
            for some in db.cut_pieces(filter(can_store, dict.fromkeys(names)), REQUESTS_AT_ONCE):
                rows = await db.fetch(self._engine, query.where(*mine, given.item.in_(some)))
                found |= await asyncio.to_thread(read_turn_sets, batch_id, rows)
        return [found.get((one.batch, one.evaluation or one.item)) if one.faulty_turns else None for one in ratings]

    async def of_batch(
        self, project: str, batch_id: str, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """Ratings that may concern the batch's results: of its evaluations, of its items by batch, and of items whose
        id it has, by no batch at all. Numbered as by `list`."""
        if not can_store(project, batch_id):
            return []
        items = (
            select(t.batch_items.c.item)
            .join(batches, batches.c.id == t.batch_items.c.batch_id)
            .where(batches.c.id == batch_id, batches.c.project == project, batches.c.status != RECEIVING)
        )
        mine = (table.project == project) & (table.number > after)
        # Each by one index in the order of the numbers. An OR of both conditions would read all of the project.
        own = select(t.human_ratings).where(mine, table.batch_id == batch_id).order_by(table.number).limit(limit)
        of_no_batch = select(t.human_ratings).where(mine, table.batch_id.is_(None))
        free = of_no_batch.where(table.item.in_(items)).order_by(table.number).limit(limit)
        either = union_all(select(own.subquery()), select(free.subquery())).subquery()
        query = select(either).order_by(either.c.number).limit(limit)
        async with read_by_hash(self._engine) as connection:
            # Without any, which is the rule, the batch's items, perhaps 100,000, need not be read.
            if not await connection.scalar(select(of_no_batch.exists())):
                query = own
            return [(row.number, read_stored_rating(row)) for row in await connection.execute(query)]

    async def remove(self, project: str, wanted: RatingFilter) -> int:
        """Removes the ratings that `wanted` names, and returns their number."""
        named = wanted.model_dump(exclude_none=True)
        if not named:
            raise InvalidRequest(Message("ratings-unnamed", names=", ".join(RatingFilter.model_fields)))
        if not can_store(project, *named.values()):
            return 0
        these = [table.project == project, *rating_conditions(wanted)]
        owners = select(table.batch_id).where(*these)
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            # An erasure locks the batch first, and then removes its ratings in an order of its own.
            locked = select(batches.c.id).where(batches.c.id.in_(owners)).order_by(batches.c.id)
            await connection.execute(locked.with_for_update(key_share=True, read=True))
            gone = await remove_sized(connection, t.human_ratings, RATING_SIZE, *these)
            await add_bytes(connection, {project: -sum(gone)})
        if gone and not await db.scrub(self._engine):
            logger.warning("another process reads the database; what was removed is cleaned from its log later")
        return len(gone)

    async def mark(self, project: str) -> RatingsMark:
        """A value that changes whenever a rating of the project is added, replaced or removed."""
        query = select(func.count(), func.max(table.number)).where(equals(table.project, project))
        async with db.read(self._engine) as connection:
            count, newest = (await connection.execute(query)).one()
        return RatingsMark(count, -1 if newest is None else newest)

    async def rated_batches(self, project: str, *, limit: int) -> Sequence[str]:
        """Batches that have ratings by people, or whose results have some, in the order of the newest rating."""
        newest = func.max(table.number)
        mine = (equals(table.project, project), table.batch_id.is_not(None), table.simulated.is_(False))
        query = select(table.batch_id).where(*mine).group_by(table.batch_id).order_by(newest.desc()).limit(limit)
        return await db.fetch_column(self._engine, query)

    async def exclude(self, project: str, exclusion: Exclusion, now: datetime) -> bool:
        """Stores the exclusion, and returns whether it is new. Raises NotFound for an unknown round, and InvalidRequest
        beyond `MOST_EXCLUSIONS`."""
        if not can_store(project, exclusion.rater or ""):
            raise InvalidRequest(Message("rater-name-character"), pointer="/rater")
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            count, same = func.count(), func.count().filter(excluded.key == identify_exclusion(exclusion))
            known, held = (await connection.execute(select(count, same).where(excluded.project == project))).one()
            if held:
                return False
            if known >= MOST_EXCLUSIONS:
                raise InvalidRequest(Message("raters-excluded-most", maximum=MOST_EXCLUSIONS))
            if exclusion.round is not None:
                this = select(rounds.id).where(rounds.id == exclusion.round, rounds.project == project)
                if not can_store(exclusion.round) or (await connection.execute(this)).first() is None:
                    raise NotFound(Message("round-not-found"), pointer="/round")
            row = {"rater": exclusion.rater, "round_id": exclusion.round, "created_at": now}
            await connection.execute(
                insert(t.rating_exclusions), {"project": project, "key": identify_exclusion(exclusion), **row}
            )
        return True

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        """Removes the exclusion; returns whether there was one. Raises InvalidRequest for a round whose responses were
        chosen on purpose: as though they were a sample they would make every figure wrong."""
        if exclusion.round is not None and can_store(exclusion.round):
            known = select(rounds.options).where(rounds.id == exclusion.round, equals(rounds.project, project))
            options = await db.fetch_value(self._engine, known.where(rounds.kind.is_(None)))
            if options is not None and json.loads(options).get("choose") in UNDRAWN:
                raise InvalidRequest(Message("round-not-a-sample"), pointer="/round")
        this = delete(t.rating_exclusions).where(
            equals(excluded.project, project), excluded.key == identify_exclusion(exclusion)
        )
        return bool(await db.execute(self._engine, this))

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]:
        """The project's exclusions, oldest first. That of a round is removed with the round."""
        query = (
            select(t.rating_exclusions)
            .where(equals(excluded.project, project))
            .order_by(excluded.created_at, excluded.key)
        )
        return [
            StoredExclusion.model_construct(rater=row.rater, round=row.round_id, created_at=row.created_at)
            for row in await db.fetch(self._engine, query)
        ]

    async def excluded(self, project: str) -> Excluded:
        """The raters, and the pairs of rater and evaluation, whose ratings do not count. What the rater was given in a
        round that counts as well does count: a sample would otherwise lack just what someone chose beside it."""
        mine = equals(excluded.project, project)
        others, given = t.rating_rounds.alias(), t.round_tasks.alias()
        elsewhere = (
            select(literal(1))
            .select_from(others.join(given, given.c.round_id == others.c.id))
            .where(others.c.batch_id == rounds.batch_id, others.c.kind.is_(None), given.c.done_at.is_not(None))
            .where(given.c.rater == task.rater, given.c.position == task.position)
            .where(others.c.id.not_in(list_excluded(project)))
        )
        of_rounds = (
            select(task.rater, evaluations.c.id)
            .select_from(t.rating_exclusions)
            .join(t.rating_rounds, rounds.id == excluded.round_id)
            .join(t.round_tasks, task.round_id == rounds.id)
            .join(evaluations, (evaluations.c.batch_id == rounds.batch_id) & (evaluations.c.position == task.position))
            .where(mine, excluded.round_id.is_not(None), rounds.kind.is_(None), task.done_at.is_not(None))
            .where(~elsewhere.exists())
        )
        raters = select(excluded.rater).where(mine, excluded.rater.is_not(None))
        async with db.read(self._engine) as connection:
            names = (await connection.execute(raters)).scalars().all()
            rated = (await connection.execute(of_rounds)).all()
        pairs = frozenset((row[0], row[1]) for row in rated)
        return Excluded(frozenset(names), pairs)

    async def draws(self, project: str, batch_ids: Sequence[str]) -> Sequence[RatedDraw]:
        """What was rated in rounds of these batches, with the probability with which it was drawn: 1 in rounds that
        drew all alike, and kept none. What was erased since is left out, and so are rounds that do not count."""
        item = t.round_items.c
        query = (
            select(rounds.batch_id, task.position, task.rater, rounds.id, func.coalesce(item.probability, 1.0))
            .join(t.rating_rounds, rounds.id == task.round_id)
            .join(t.round_items, (item.round_id == task.round_id) & (item.position == task.position))
            .where(equals(rounds.project, project), rounds.batch_id.in_(batch_ids), rounds.kind.is_(None))
            .where(task.done_at.is_not(None), rounds.id.not_in(list_excluded(project)))
        )
        return [RatedDraw(*row) for row in await db.fetch(self._engine, query)] if can_store(*batch_ids) else []

    async def keep_validation(self, project: str, key: JudgeKey, found: Validation) -> None:
        """Stores the validation, replacing an earlier one of the same judge."""
        judge, text = asdict(replace(key, judge=key.judge + METHOD)), found.model_dump_json()
        # JSON has escapes for what a column cannot hold; the names do not.
        if not can_store(project, *judge.values()):
            raise InvalidRequest(Message("judge-name-not-kept"))
        row = {"project": project, "key": digest(judge), "judge": canonical_json(judge), "validation": text}
        await db.execute(self._engine, db.insert_or_replace(self._engine, validations), row)

    async def validations(self, project: str) -> Mapping[JudgeKey, Validation]:
        """The project's validations by judge, without those by another method."""
        query = (
            select(validation.judge, validation.validation)
            .where(equals(validation.project, project))
            .order_by(validation.judge)
        )
        rows = await db.fetch(self._engine, query)
        keys = [JudgeKey(**json.loads(row.judge)) for row in rows]
        return {
            replace(key, judge=key.judge.removesuffix(METHOD)): Validation.model_validate_json(
                row.validation, context=STORED
            )
            for key, row in zip(keys, rows, strict=True)
            if key.judge.endswith(METHOD)
        }

    async def of_results(
        self, project: str, batch_id: str, results: Sequence[Result]
    ) -> Sequence[tuple[int, StoredRating]]:
        """People's ratings that may concern these results of the batch: of the evaluations, and of the items in this
        batch or in none. The oldest come first, and of very many the newest are left out."""
        items, ids = {one.entry.item for one in results}, {one.id for one in results}
        mine = table.project == project
        of_item = (table.batch_id == batch_id) | table.batch_id.is_(None)
        found = {}
        for condition in (of_item & table.item.in_(items), table.evaluation.in_(ids)):
            query = select(t.human_ratings).where(mine, condition).order_by(table.number).limit(MOST_RATINGS_SHOWN)
            found.update({row.number: read_stored_rating(row) for row in await db.fetch(self._engine, query)})
        return sorted(found.items(), key=lambda pair: pair[0])

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> Sequence[tuple[int, StoredRating]]:
        """The wanted ratings with a number greater than `after`, in order of arrival, each with its number."""
        query = select_wanted(project, wanted, after)
        rows = [] if query is None else await db.fetch(self._engine, query.order_by(table.number).limit(limit))
        return [(row.number, read_stored_rating(row)) for row in rows]

    async def page(
        self, project: str, wanted: RatingFilter, *, after: int, limit: int
    ) -> tuple[Sequence[StoredRating], int | None]:
        """As `list`, but fewer of long ones, and without their numbers; and the number of the last, None where no more
        follow."""
        query = select_wanted(project, wanted, after)
        if query is None:
            return [], None
        rows, last = await fetch_page(self._engine, query, table.number, RATING_SIZE, limit)
        return await asyncio.to_thread(lambda: [*map(read_stored_rating, rows)]), last


def select_wanted(project: str, wanted: RatingFilter, after: int) -> Select[Any] | None:
    """The rows of the wanted ratings with a number greater than `after`; None where no column can hold what is asked
    for."""
    if not can_store(project, *wanted.model_dump(exclude_none=True).values()):
        return None
    return select(t.human_ratings).where(table.project == project, table.number > after, *rating_conditions(wanted))


@asynccontextmanager
async def read_by_hash(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A `read` of one statement that joins many rows with many. PostgreSQL takes a batch that came in a moment ago for
    a few rows, and would compare each rating with each item: for 10,000 ratings and 100,000 items that took 132 s, and
    by hash 0.6."""
    if db.file_of(engine) is not None:
        async with db.read(engine) as connection:
            yield connection
        return
    async with db.write(engine) as connection:
        await connection.execute(text("SET LOCAL enable_nestloop = off"))
        yield connection


def read_turn_sets(
    batch_id: str | None, rows: Iterable[Sequence[Any]]
) -> dict[tuple[str | None, str | None], frozenset[int]]:
    """By batch and name what `find_turns` finds in each row: its name, request and record."""
    return {(batch_id, row[0]): find_turns(row[1], row[2]) for row in rows}


def find_turns(request: str | None, record: str | None) -> frozenset[int]:
    """The turns of the system in what a batch's request says, or else the record of an evaluation outside of batches;
    none of what is no conversation."""
    if request is not None:
        roles = from_json(request).get("roles") or ()
    else:
        roles = [turn.get("role") for turn in from_json(record or "{}").get("request", {}).get("turns", ())]
    return frozenset(number for number, role in enumerate(roles) if role == "system")


def list_excluded(project: str) -> Any:
    """The query for the project's rounds that do not count."""
    return select(excluded.round_id).where(equals(excluded.project, project), excluded.round_id.is_not(None))


def identify_exclusion(exclusion: Exclusion) -> str:
    """A digest of the excluded rater or round, because only the operator limits the length of names."""
    return digest([exclusion.rater, exclusion.round])


def read_stored_rating(row: Row[Any]) -> StoredRating:
    """The rating of a row. It is not validated, because limits apply only to requests."""
    same = ("item", "evaluation", "candidate", "system", "rater", "comment", "simulated", "starred", "created_at")
    return StoredRating.model_construct(
        **{name: getattr(row, name) for name in same},
        batch=None if row.item is None else row.batch_id,
        ratings=json.loads(row.ratings),
        faulty_turns=None if row.faulty_turns is None else tuple(json.loads(row.faulty_turns)),
        earlier=EARLIER.validate_json(row.earlier) if row.earlier else None,
    )


def write_rows(
    project: str, ratings: Sequence[HumanRating], now: datetime
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The key of each rating, and by key the columns of the last of them but for `batch_id`. Raises InvalidRequest for
    a text that no column can hold."""
    keys, rows = list[str](), dict[str, dict[str, Any]]()
    for number, rating in enumerate(ratings):
        texts = (rating.item, rating.evaluation, rating.batch, rating.system, rating.rater, rating.comment)
        if not can_store(*filter(None, texts), *rating.ratings):
            raise InvalidRequest(Message("rating-not-kept"), pointer=str(number))
        target = (rating.item, rating.evaluation, rating.batch, rating.candidate, rating.system)
        key = digest([project, *target, rating.rater])
        rows.pop(key, None)  # the later stands last
        row = rating.model_dump(exclude={"batch", "ratings"}) | {"ratings": json.dumps(rating.ratings)}
        row["faulty_turns"] = None if rating.faulty_turns is None else json.dumps(rating.faulty_turns)
        rows[key] = row | {"project": project, "key": key, "created_at": now}
        keys.append(key)
    return keys, rows


def keep_earlier(had: Any, new: Mapping[str, Any]) -> str | None:
    """What a rating that replaces this one keeps of it, with what that kept itself: the newest `MOST_EARLIER` values. A
    rating that says the same adds none."""
    if had is None or (json.loads(had.ratings), had.faulty_turns) == (json.loads(new["ratings"]), new["faulty_turns"]):
        return None if had is None else had.earlier
    before = json.loads(had.earlier) if had.earlier else []
    turns = None if had.faulty_turns is None else json.loads(had.faulty_turns)
    now = {"ratings": json.loads(had.ratings), "faulty_turns": turns, "created_at": had.created_at.isoformat()}
    return json.dumps([*before, now][-MOST_EARLIER:])


def rating_conditions(wanted: RatingFilter) -> Sequence[ColumnElement[bool]]:
    """The conditions of the filter. A rating of an evaluation is also one of the evaluation's batch."""
    exact = (
        (ITEM_START, wanted.item and wanted.item[:ITEM_START_CHARACTERS]),
        # Not the column alone: SQLite would put its value into what is asked of the beginning, and miss the index.
        (table.item.concat(""), wanted.item),
        (table.evaluation, wanted.evaluation),
        (table.batch_id, wanted.batch),
        (table.rater, wanted.rater),
    )
    return [column == value for column, value in exact if value is not None]


async def find_owners(
    connection: AsyncConnection, project: str, ratings: Sequence[HumanRating]
) -> Sequence[str | None]:
    """The batch that each rating goes with, if any. These batches cannot be erased until the end of the transaction.
    Raises NotFound if the project does not have what a rating names; the pointer is the rating's number."""
    owners = dict[str, str | None]()
    named = dict.fromkeys(rating.evaluation for rating in ratings if rating.evaluation is not None)
    for some in db.cut_pieces(named, STATEMENT_ROWS):
        # A failure in the place of an evaluation is none.
        mine = (result.id.in_(some), result.project == project, result.failure.is_(None))
        query = select(result.id, result.batch_id).where(*mine)
        owners |= {row.id: row.batch_id for row in await connection.execute(query)}
    wanted = dict[str, set[str]]()
    for rating in ratings:
        if rating.batch is not None and rating.item is not None:
            wanted.setdefault(rating.batch, set()).add(rating.item)
    ids = {*wanted, *(batch_id for batch_id in owners.values() if batch_id is not None)}
    held = await _hold_batches(connection, project, ids)
    # One that was erased between the two statements took its evaluations along.
    owners = {name: batch_id for name, batch_id in owners.items() if batch_id is None or batch_id in held}
    items = {name: await _find_items(connection, name, wanted[name]) for name in wanted if name in held}
    for number, rating in enumerate(ratings):
        absent = _find_absent(rating, owners, items)
        if absent is not None:
            raise NotFound(absent, pointer=str(number))
    return [rating.batch if rating.evaluation is None else owners[rating.evaluation] for rating in ratings]


def _find_absent(
    rating: HumanRating, evaluations: Collection[str], items: Mapping[str, Set[tuple[str, int | None]]]
) -> Message | None:
    """A sentence about what the rating names and the project does not have, else None. `items` are by batch."""
    if rating.evaluation is not None:
        known = rating.evaluation in evaluations
        return None if known else Message("evaluation-named-not-found", evaluation=rating.evaluation)
    if rating.batch is None or rating.item is None:
        return None
    if rating.batch not in items:
        return Message("batch-named-not-found", batch=rating.batch)
    if (rating.item, None) not in items[rating.batch]:
        return Message("batch-lacks-item", item=rating.item)
    if (rating.item, rating.candidate) not in items[rating.batch]:
        return Message("item-lacks-candidate", item=rating.item, candidate=rating.candidate)
    return None


async def _hold_batches(connection: AsyncConnection, project: str, ids: Collection[str]) -> set[str]:
    """The accepted batches of the project among these, which cannot be erased until the end of the transaction."""
    table, found = batches.c, set[str]()
    # In the order of all who lock several.
    for some in db.cut_pieces(sorted(ids), STATEMENT_ROWS):
        query = select(table.id).where(table.id.in_(some), table.project == project, table.status != RECEIVING)
        locked = query.order_by(table.id).with_for_update(key_share=True, read=True)
        found.update((await connection.execute(locked)).scalars())
    return found


async def _find_items(connection: AsyncConnection, batch_id: str, names: Set[str]) -> set[tuple[str, int | None]]:
    """Those of the names that are items of the batch: (item, None), and (item, candidate) for each candidate. Reads the
    batch through, 100,000 items in 0.15 s: items are in no index, for only the operator bounds their length."""
    table, found = t.batch_items.c, set[tuple[str, int | None]]()
    query = select(table.item, table.candidate).where(table.batch_id == batch_id)
    for item, candidate in await connection.execute(query):
        if item in names:
            found |= {(item, None), (item, candidate)}
    return found
