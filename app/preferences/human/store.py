"""Preferences of people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Row, and_, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import plan_of
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.evaluation import Choice, Pair, Record
from saiten_server.core.model import digest
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import take_turn
from saiten_server.platform.sql.sizes import (
    PREFERENCE_SIZE,
    ROW_BYTES,
    add_bytes,
    count_bytes,
    fetch_page,
    remove_sized,
)
from saiten_server.platform.sql.tables import can_store, equals, evaluations
from saiten_server.preferences.human.values import (
    ORDERS,
    HumanPreference,
    KeptOpinion,
    NamedPair,
    PreferenceFilter,
    PreferencesAdded,
    Side,
    StoredPreference,
    digest_context,
    digest_opening,
)
from saiten_server.preferences.values import ShownPair
from saiten_server.ratings.rounds.store import note_done
from saiten_server.ratings.values import RoundSide
from saiten_server.runs.store.rows import RECEIVING, STATEMENT_ROWS
from saiten_server.scoring.store import PAIR_PREFIX, STORED, read_candidate, read_evaluation, read_options

table, result = t.human_preferences.c, evaluations.c
rounds, drawn, excluded = t.rating_rounds.c, t.round_pairs.c, t.rating_exclusions.c

RECORDS_AT_ONCE = 100
"""Preferences of the judge's that are read at a time."""

MOST_LOOKS = 1_000_000
"""Looks of people that a ranking takes."""


class HumanPreferenceStore:
    """Preferences of people by project. Raises the `Store…` errors of `saiten_server.core.errors`. A rater has one
    preference per pair; a later one replaces the earlier. It gets a new number and comes last, so that a caller who
    reads in pages finds it. Those of responses of a batch are erased with the batch."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(
        self, project: str, opinions: Sequence[KeptOpinion], now: datetime, shown_at: datetime | None = None
    ) -> PreferencesAdded:
        """Stores all of them or none. Raises NotFound if a batch or round of a pair is gone, and InvalidRequest if no
        column can hold a text; the `pointer` is the preference's number from 0."""
        if not can_store(project):
            raise InvalidRequest(Message("project-name-not-kept"))
        # In a thread: many take seconds.
        rows = await asyncio.to_thread(write_rows, project, opinions, now, shown_at or now)
        replaced, grown = 0, 0
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            await hold_sources(connection, project, opinions)
            for some in db.cut_pieces(rows.values(), STATEMENT_ROWS):
                these = table.key.in_([row["key"] for row in some])
                gone = await remove_sized(connection, t.human_preferences, PREFERENCE_SIZE, these)
                replaced += len(gone)
                await connection.execute(insert(t.human_preferences), some)
                size = (await connection.execute(select(func.sum(PREFERENCE_SIZE)).where(these))).scalar_one()
                grown += int(size or 0) - sum(gone)
            await add_bytes(connection, {project: grown})
            for round_id, done in list_compared(opinions).items():
                await note_done(connection, round_id, done, now)
        return PreferencesAdded(added=len(rows) - replaced, replaced=replaced)

    async def find_pairs(self, project: str, names: Collection[str]) -> dict[str, NamedPair]:
        """The pairs of the project with these names, of rounds (`rr_….N`) and of the judge's preferences (`pr_…`);
        others are left out."""
        judged = [name for name in names if name.startswith(PAIR_PREFIX) and can_store(name)]
        drawn = await self._find_drawn(project, [name for name in names if not name.startswith(PAIR_PREFIX)])
        return drawn | await self._find_judged(project, judged)

    async def _find_judged(self, project: str, names: Sequence[str]) -> dict[str, NamedPair]:
        item, batch, found = t.batch_items.c, t.batches.c, dict[str, NamedPair]()
        there = (item.batch_id == result.batch_id) & (item.position == result.position)
        query = (
            select(result.id, result.record, result.batch_id, item.request, batch.options)
            .outerjoin(t.batches, batch.id == result.batch_id)
            .outerjoin(t.batch_items, there)
            .where(equals(result.project, project), result.failure.is_(None))
        )
        for some in db.cut_pieces(names, RECORDS_AT_ONCE):
            rows = await db.fetch(self._engine, query.where(result.id.in_(some)))
            found |= await asyncio.to_thread(read_each, rows)
        return found

    async def _find_drawn(self, project: str, names: Sequence[str]) -> dict[str, NamedPair]:
        wanted = dict[str, set[int]]()
        for name in names:
            round_id, _, position = name.rpartition(".")
            if can_store(name) and position.isascii() and position.isdecimal() and len(position) < 9:
                wanted.setdefault(round_id, set()).add(int(position))
        # First which rounds there are: each line of a body may name another one.
        known = list[str]()
        for names_of_rounds in db.cut_pieces(wanted, STATEMENT_ROWS):
            mine = (rounds.id.in_(names_of_rounds), equals(rounds.project, project))
            known += await db.fetch_column(self._engine, select(rounds.id).where(*mine))
        found = dict[str, NamedPair]()
        for round_id in known:
            for some in db.cut_pieces(sorted(wanted[round_id]), STATEMENT_ROWS):
                query = select(t.round_pairs).where(drawn.round_id == round_id, drawn.position.in_(some))
                for row in await db.fetch(self._engine, query):
                    found[f"{round_id}.{row.position}"] = NamedPair(
                        *read_sides(row), round=round_id, position=row.position
                    )
        return found

    async def list(
        self, project: str, wanted: PreferenceFilter, *, after: int, limit: int
    ) -> tuple[Sequence[StoredPreference], int | None]:
        """The wanted preferences with a number greater than `after`, in order of arrival: at most `limit`, fewer of
        long texts; and the number of the last, None where no more follow."""
        if not can_store(project, *wanted.model_dump(exclude_none=True).values()):
            return [], None
        these = (table.project == project, table.number > after, *find_conditions(wanted))
        query = select(t.human_preferences).where(*these)
        rows, last = await fetch_page(self._engine, query, table.number, PREFERENCE_SIZE, limit)
        return await asyncio.to_thread(lambda: [*map(read_stored_preference, rows)]), last

    async def remove(self, project: str, wanted: PreferenceFilter) -> int:
        """Removes the preferences that `wanted` names, and returns their number. Raises InvalidRequest where it names
        none."""
        named = wanted.model_dump(exclude_none=True)
        if not named:
            raise InvalidRequest(Message("preferences-unnamed", names=", ".join(PreferenceFilter.model_fields)))
        if not can_store(project, *named.values()):
            return 0
        these = (table.project == project, *find_conditions(wanted))
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            # An erasure locks the batch first, and then removes its preferences in an order of its own.
            for owner in (table.first_batch_id, table.second_batch_id):
                held = select(t.batches.c.id).where(t.batches.c.id.in_(select(owner).where(*these)))
                await connection.execute(held.order_by(t.batches.c.id).with_for_update(key_share=True, read=True))
            gone = await remove_sized(connection, t.human_preferences, PREFERENCE_SIZE, *these)
            await add_bytes(connection, {project: -sum(gone)})
        if gone:
            await db.scrub(self._engine)
        return len(gone)

    async def own(self, project: str, name: str, rater: str) -> tuple[Choice, str | None] | None:
        """The rater's preference of the pair with this name, and the reason."""
        query = select(table.choice, table.reason).where(table.key == digest([project, name, rater]))
        found = await db.fetch_one(self._engine, query)
        return None if found is None else (found.choice, found.reason)

    async def of_round(self, project: str, round_id: str, *, limit: int) -> Sequence[tuple[str, str, Choice, bool]]:
        """The pair, the rater, the preference as the pair names its sides, and whether the second was shown first, of
        each preference of the round; without simulated ones and those of excluded raters, oldest first."""
        columns = (table.pair, table.rater, table.choice, table.swapped)
        mine = (equals(table.project, project), equals(table.round_id, round_id), table.simulated.is_(False))
        query = select(*columns).where(*mine, without_raters(project)).order_by(table.number).limit(limit)
        return [(row.pair, row.rater, row.choice, row.swapped) for row in await db.fetch(self._engine, query)]

    async def mark(self, project: str) -> tuple[int, int]:
        """A value that changes whenever a preference of the project does, or which raters and rounds are excluded."""
        counted = (equals(table.project, project), table.simulated.is_(False), *without_excluded(project))
        query = select(func.count(), func.coalesce(func.sum(table.number), -1)).where(*counted)
        async with db.read(self._engine) as connection:
            count, numbers = (await connection.execute(query)).one()
        return count, int(numbers)

    async def shown(
        self, project: str, runs: Collection[str] | None = None, *, round_id: str | None = None
    ) -> Sequence[ShownPair]:
        """The looks of people at pairs of these batches, by one round or by all, each rater's in the order in which
        they were shown. The systems are the batches' ids. Without `runs`, and without a round, those that came with
        their texts and with names of both systems. Simulated ones, and those of excluded raters and rounds, are left
        out, and beyond `MOST_LOOKS` the newest."""
        if not can_store(project, *(runs or ()), round_id or ""):
            return []
        mine = [equals(table.project, project), table.simulated.is_(False), *without_excluded(project)]
        if round_id is not None:
            mine.append(table.round_id == round_id)
        if runs is not None:
            chosen = sorted(set(runs))
            mine += [table.first_batch_id.in_(chosen), table.second_batch_id.in_(chosen)]
        elif round_id is None:
            mine += [table.first_system.is_not(None), table.second_system.is_not(None)]
        at = and_(result.batch_id == table.first_batch_id, result.position == table.first_position)
        query = (
            select(t.human_preferences, result["item"].label("of_item"), result.cluster)
            .join_from(t.human_preferences, evaluations, at, isouter=True)
            .where(*mine)
            .order_by(table.shown_at, table.number)
            .limit(MOST_LOOKS)
        )
        return [read_shown(row) for row in await db.fetch(self._engine, query)]


def list_compared(opinions: Sequence[KeptOpinion]) -> dict[str, list[tuple[str, int]]]:
    """By round which people compared which of its pairs."""
    found = dict[str, list[tuple[str, int]]]()
    for one in opinions:
        pair = one.named
        if pair is not None and pair.round is not None and pair.position is not None and not one.given.simulated:
            found.setdefault(pair.round, []).append((one.given.rater, pair.position))
    return found


def write_rows(
    project: str, opinions: Sequence[KeptOpinion], now: datetime, shown_at: datetime
) -> dict[str, dict[str, Any]]:
    """The columns of each preference, by its key. Raises InvalidRequest for a text that no column can hold."""
    rows = dict[str, dict[str, Any]]()
    for number, opinion in enumerate(opinions):
        row = write_row(project, opinion, now, shown_at)
        if not can_store(*(value for value in row.values() if isinstance(value, str))):
            raise InvalidRequest(Message("preference-not-kept"), pointer=str(number))
        rows.pop(row["key"], None)  # the later stands last
        rows[row["key"]] = row
    return rows


def write_row(project: str, opinion: KeptOpinion, now: datetime, shown_at: datetime) -> dict[str, Any]:
    """The columns of a preference. A pair of texts is kept in the order in which it came."""
    given, named = opinion.given, opinion.named
    first, second = given.first, given.second
    lengths = named.lengths if named is not None else (first and first.length, second and second.length)
    row: dict[str, Any] = {
        "project": project,
        "key": digest([project, given.identity, given.rater]),
        "rater": given.rater,
        "choice": given.preference,
        "swapped": given.shown == ORDERS[1],
        "simulated": given.simulated,
        "shown_at": shown_at,
        "created_at": now,
        "reason": given.reason,
        "round_id": named.round if named is not None else None,
        "pair": given.pair,
        "item": given.context_key if named is None else named.item,
        "dialogue": given.dialogue if named is None else named.dialogue,
        "context": write_context(given),
    }
    systems = named.systems if named is not None else (first and first.id, second and second.id)
    places = (named.first, named.second) if named is not None else (None, None)
    columns = zip(("first", "second"), (first, second), systems, places, lengths, strict=True)
    for name, side, system, place, length in columns:
        row[f"{name}_length"] = length
        row[f"{name}_batch_id"] = None if place is None else place.batch
        row[f"{name}_position"] = None if place is None else place.position
        row[f"{name}_system"] = system
        row[name] = None if side is None else write_side(side)
    return row


def measure_preferences(given: Sequence[HumanPreference]) -> int:
    """The bytes that they will take. Takes a while: not for an event loop."""
    size = 0
    for one in given:
        sides = [write_side(side) for side in (one.first, one.second) if side is not None]
        texts = [one.rater, one.reason, one.dialogue, write_context(one), *sides]
        texts += [side.id for side in (one.first, one.second) if side is not None]
        size += ROW_BYTES + sum(map(count_bytes, texts))
    return size


def write_context(given: HumanPreference) -> str | None:
    """The context as JSON; None without one."""
    return None if given.context is None else json.dumps([said.model_dump() for said in given.context])


def write_side(side: Side) -> str:
    """A side as JSON, without its system."""
    return side.model_dump_json(exclude_none=True, exclude={"id"})


def read_each(rows: Sequence[Row[Any]]) -> dict[str, NamedPair]:
    """The pairs of preferences of the judge's, by id."""
    return {row.id: read_judged(row) for row in rows}


def read_judged(row: Row[Any]) -> NamedPair:
    """The pair of a preference of the judge's: in a preference run the places of both responses, else what the record
    says of them."""
    if row.batch_id is None:
        record = Record.model_validate_json(row.record, context=STORED)
        pair, asked = record.evaluation.pair, record.request
        systems = (None, None) if pair is None else (pair.first.id, pair.second.id)
        context, turns = getattr(asked, "context", None), getattr(getattr(asked, "first", None), "turns", None)
        item = digest_opening(asked.dialogue, turns or ()) if context is None else digest_context(context)
        return NamedPair(lengths=lengths_of(pair), systems=systems, item=item, dialogue=asked.dialogue)
    evaluation, plan = read_evaluation(row.record), plan_of(read_options(row.options))
    places = read_candidate(row.request).pair
    if plan is None or places is None:  # an erased candidate
        return NamedPair(lengths=lengths_of(evaluation.pair))
    first, second = (RoundSide(plan.runs[run], at) for run, at in zip(places.runs, places.positions, strict=True))
    return NamedPair(first, second, lengths=lengths_of(evaluation.pair))


def lengths_of(pair: Pair | None) -> tuple[int | None, int | None]:
    """The characters of both sides."""
    return (None, None) if pair is None else (pair.first.length, pair.second.length)


def read_sides(row: Row[Any]) -> tuple[RoundSide, RoundSide]:
    """The places of both sides of a drawn pair."""
    return RoundSide(row.first_batch_id, row.first_position), RoundSide(row.second_batch_id, row.second_position)


def read_stored_preference(row: Row[Any]) -> StoredPreference:
    """The preference of a row. It is not validated, because limits apply only to requests."""
    told: dict[str, Any] = {name: getattr(row, name) for name in ("pair", "rater", "reason", "simulated", "created_at")}
    told |= {name: None if getattr(row, name) is None else from_json(getattr(row, name)) for name in PAIR_TEXTS}
    for name in ("first", "second"):
        system = getattr(row, f"{name}_system")
        if system is not None:
            told[name] = {**(told[name] or {}), "id": system}
    return StoredPreference.model_construct(
        **told, round=row.round_id, preference=row.choice, shown=ORDERS[row.swapped]
    )


PAIR_TEXTS = ("context", "first", "second")


def read_shown(row: Row[Any]) -> ShownPair:
    """The look at a pair, with what was shown first as `first`."""
    item = row.of_item or row.item or row.pair or ""
    sides = [
        (row.first_batch_id or row.first_system or "", row.first_length),
        (row.second_batch_id or row.second_system or "", row.second_length),
    ]
    (first, first_length), (second, second_length) = reversed(sides) if row.swapped else sides
    return ShownPair(
        item=item,
        cluster=row.cluster or row.dialogue or item,
        first=first,
        second=second,
        choice=SWAPPED.get(row.choice, row.choice) if row.swapped else row.choice,
        rater=row.rater,
        first_length=first_length,
        second_length=second_length,
    )


SWAPPED = {"first": "second", "second": "first"}


def find_conditions(wanted: PreferenceFilter) -> Sequence[ColumnElement[bool]]:
    """The conditions of the filter."""
    exact = ((table.pair, wanted.pair), (table.round_id, wanted.round), (table.rater, wanted.rater))
    found: list[ColumnElement[bool]] = [column == value for column, value in exact if value is not None]
    if wanted.run is not None:
        found.append(or_(table.first_batch_id == wanted.run, table.second_batch_id == wanted.run))
    return found


def without_excluded(project: str) -> Sequence[ColumnElement[bool]]:
    """The conditions that leave out excluded raters and rounds."""
    of_rounds = select(excluded.round_id).where(equals(excluded.project, project), excluded.round_id.is_not(None))
    return without_raters(project), or_(table.round_id.is_(None), table.round_id.not_in(of_rounds))


def without_raters(project: str) -> ColumnElement[bool]:
    """The condition that leaves out excluded raters."""
    raters = select(excluded.rater).where(equals(excluded.project, project), excluded.rater.is_not(None))
    return table.rater.not_in(raters)


async def hold_sources(connection: AsyncConnection, project: str, opinions: Sequence[KeptOpinion]) -> None:
    """Holds the batches and rounds that the pairs are of until the end of the transaction. Raises NotFound for one that
    is gone; the pointer is the preference's number."""
    named = [(number, one.named) for number, one in enumerate(opinions) if one.named is not None]
    wanted = {place.batch for _, pair in named for place in pair.places}
    batches, held = t.batches.c, set[str]()
    # In the order of all who lock several.
    for some in db.cut_pieces(sorted(wanted), STATEMENT_ROWS):
        query = select(batches.id).where(batches.id.in_(some), batches.project == project, batches.status != RECEIVING)
        locked = query.order_by(batches.id).with_for_update(key_share=True, read=True)
        held.update((await connection.execute(locked)).scalars())
    for some in db.cut_pieces(sorted({pair.round for _, pair in named if pair.round is not None}), STATEMENT_ROWS):
        query = select(rounds.id).where(rounds.id.in_(some)).order_by(rounds.id)
        held.update((await connection.execute(query.with_for_update(key_share=True, read=True))).scalars())
    for number, pair in named:
        if {*(place.batch for place in pair.places), *([pair.round] if pair.round else [])} - held:
            raise NotFound(
                Message("pair-not-found", name=(opinions[number].given.pair or "")[:128]), pointer=str(number)
            )
