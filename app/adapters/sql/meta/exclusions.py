"""Raters and rating rounds whose ratings do not count, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import change, read, write
from app.adapters.sql.meta.turns import take_turn
from app.adapters.sql.round_tables import rating_exclusions, rating_rounds, round_tasks
from app.adapters.sql.tables import can_hold, evaluations
from app.domain.errors import InvalidRequest, NotFound
from app.domain.human_rating import Excluded, Exclusion, StoredExclusion
from app.domain.model import digest
from app.meta_ports import MOST_EXCLUSIONS

table, rounds, task = rating_exclusions.c, rating_rounds.c, round_tasks.c


class Exclusions:
    """The part of `RatingStore` that says whose ratings do not count."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def exclude(self, project: str, exclusion: Exclusion, now: datetime) -> bool:
        if not can_hold(project, exclusion.rater or ""):
            raise InvalidRequest("the rater's name holds a character that cannot be kept", pointer="/rater")
        async with change(self._engine) as connection:
            await take_turn(connection, project)
            count, same = func.count(), func.count().filter(table.key == identify(exclusion))
            known, held = (await connection.execute(select(count, same).where(table.project == project))).one()
            if held:
                return False
            if known >= MOST_EXCLUSIONS:
                raise InvalidRequest(f"at most {MOST_EXCLUSIONS:,} raters and rounds can be excluded")
            if exclusion.round is not None:
                this = select(rounds.id).where(rounds.id == exclusion.round, rounds.project == project)
                if not can_hold(exclusion.round) or (await connection.execute(this)).first() is None:
                    raise NotFound("there is no such rating round in this project", pointer="/round")
            row = {"rater": exclusion.rater, "round_id": exclusion.round, "created_at": now}
            await connection.execute(insert(rating_exclusions), {"project": project, "key": identify(exclusion), **row})
        return True

    async def include(self, project: str, exclusion: Exclusion) -> bool:
        if not can_hold(project):
            return False
        this = delete(rating_exclusions).where(table.project == project, table.key == identify(exclusion))
        async with write(self._engine) as connection:
            return bool((await connection.execute(this)).rowcount)

    async def exclusions(self, project: str) -> Sequence[StoredExclusion]:
        if not can_hold(project):
            return []
        query = select(rating_exclusions).where(table.project == project).order_by(table.created_at, table.key)
        async with read(self._engine) as connection:
            return [
                StoredExclusion.model_construct(rater=row.rater, round=row.round_id, created_at=row.created_at)
                for row in await connection.execute(query)
            ]

    async def excluded(self, project: str) -> Excluded:
        if not can_hold(project):
            return Excluded()
        mine = (table.project == project, table.round_id.is_not(None))
        of_rounds = (
            select(task.rater, evaluations.c.id)
            .select_from(rating_exclusions)
            .join(rating_rounds, rounds.id == table.round_id)
            .join(round_tasks, task.round_id == rounds.id)
            .join(evaluations, (evaluations.c.batch_id == rounds.batch_id) & (evaluations.c.position == task.position))
            .where(*mine, task.done_at.is_not(None))
        )
        raters = select(table.rater).where(table.project == project, table.rater.is_not(None))
        async with read(self._engine) as connection:
            names = (await connection.execute(raters)).scalars().all()
            rated = (await connection.execute(of_rounds)).all()
        pairs = frozenset((row[0], row[1]) for row in rated)
        return Excluded(frozenset(name for name in names if name is not None), pairs)


def identify(exclusion: Exclusion) -> str:
    """The digest of who is excluded: only the operator bounds the length of names."""
    return digest([exclusion.rater, exclusion.round])
