"""What ratings are of: evaluations, batches and their items that there have to be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.batches.rows import RECEIVING, ROWS
from app.adapters.sql.tables import batch_items, batches, evaluations
from app.domain.errors import NotFound
from app.domain.human_rating import HumanRating
from app.domain.signature import read_signature


@dataclass(frozen=True)
class Targets:
    """What the project has of that which ratings name: evaluations with their batch, if any; batches; and of each
    batch the items, as (item, None), with their candidates."""

    evaluations: Mapping[str, str | None]
    batches: Set[str]
    items: Mapping[str, Set[tuple[str, int | None]]]

    def owner_of(self, rating: HumanRating, number: int) -> str | None:
        """The batch that the rating goes with, if any. Raises NotFound; the pointer is `number`."""
        absent = self._find_absent(rating)
        if absent is not None:
            raise NotFound(absent, pointer=str(number))
        return rating.batch if rating.evaluation is None else self.evaluations[rating.evaluation]

    def _find_absent(self, rating: HumanRating) -> str | None:
        if rating.evaluation is not None:
            known = rating.evaluation in self.evaluations
            return None if known else f"there is no evaluation {rating.evaluation} in this project"
        if rating.batch is None or rating.item is None:
            return None
        if rating.batch not in self.batches:
            return f"there is no batch {rating.batch} in this project"
        items = self.items[rating.batch]
        if (rating.item, None) not in items:
            return f"the batch has no item {rating.item}"
        if (rating.item, rating.candidate) not in items:
            return f"the batch's item {rating.item} has no candidate {rating.candidate}"
        return None


async def find_targets(connection: AsyncConnection, project: str, ratings: Sequence[HumanRating]) -> Targets:
    """Looks up what the ratings name. Its batches cannot be erased until the end of the transaction."""
    named = [rating.evaluation for rating in ratings if rating.evaluation is not None]
    owners = await _find_evaluations(connection, project, named)
    wanted = dict[str, set[str]]()
    for rating in ratings:
        if rating.batch is not None and rating.item is not None:
            wanted.setdefault(rating.batch, set()).add(rating.item)
    ids = {*wanted, *(batch_id for batch_id in owners.values() if batch_id is not None)}
    held = await _hold_batches(connection, project, ids)
    # One that was erased between the two statements took its evaluations along.
    left = {name: batch_id for name, batch_id in owners.items() if batch_id is None or batch_id in held}
    items = {
        batch_id: await _find_items(connection, batch_id, names)
        for batch_id, names in wanted.items()
        if batch_id in held
    }
    return Targets(left, held, items)


async def _find_evaluations(connection: AsyncConnection, project: str, ids: Collection[str]) -> dict[str, str | None]:
    """Those of the project, each with its batch. A failure in the place of an evaluation is none."""
    table, found = evaluations.c, dict[str, str | None]()
    for some in cut(dict.fromkeys(ids), ROWS):
        query = select(table.id, table.batch_id).where(
            table.id.in_(some), table.project == project, table.failure.is_(None)
        )
        found |= {row.id: row.batch_id for row in await connection.execute(query)}
    return found


async def find_rubrics(connection: AsyncConnection, project: str, ids: Collection[str]) -> dict[str, str]:
    """The rubric of each evaluation of the project, with its version where the signature tells it."""
    table, found = evaluations.c, dict[str, str]()
    for some in cut(dict.fromkeys(ids), ROWS):
        query = select(table.id, table.rubric, table.signature).where(table.id.in_(some), table.project == project)
        for row in await connection.execute(query):
            found[row.id] = read_signature(row.signature).get("rubric", row.rubric)
    return found


async def _hold_batches(connection: AsyncConnection, project: str, ids: Collection[str]) -> set[str]:
    """The accepted ones of the project, which stay until the end of the transaction."""
    table, found = batches.c, set[str]()
    # In the order of all who lock several.
    for some in cut(sorted(ids), ROWS):
        query = select(table.id).where(table.id.in_(some), table.project == project, table.status != RECEIVING)
        locked = query.order_by(table.id).with_for_update(key_share=True, read=True)
        found.update((await connection.execute(locked)).scalars())
    return found


async def _find_items(connection: AsyncConnection, batch_id: str, names: Set[str]) -> set[tuple[str, int | None]]:
    """Those of the names that are items of the batch: (item, None), and (item, candidate) for each candidate.

    Reads the batch through, 100,000 items in 0.15 s: items are in no index, for only the operator bounds their length.
    """
    table, found = batch_items.c, set[tuple[str, int | None]]()
    query = select(table.item, table.candidate).where(table.batch_id == batch_id)
    for item, candidate in await connection.execute(query):
        if item in names:
            found |= {(item, None), (item, candidate)}
    return found


def cut(names: Collection[str], size: int) -> Iterator[list[str]]:
    """The names in order, at most `size` at a time."""
    left = iter(names)
    while some := list(islice(left, size)):
        yield some
