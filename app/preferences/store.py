"""What was seen of the pairs of a preference run, read from the figures of its results."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.batch import PairPlan, plan_of
from saiten_server.core.errors import NotFound
from saiten_server.core.evaluation import Choice
from saiten_server.core.preference import Look, PairLooks, read_looks
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.tables import equals
from saiten_server.preferences.values import ShownPair
from saiten_server.runs.store.views import OF_PAIRS, SEEN
from saiten_server.scoring.store import read_options

LOOKS_PAGE = 2_000
"""Pairs that are read at a time: some milliseconds."""

result, figure, item = t.evaluations.c, t.result_figures.c, t.batch_items.c


class PairSeen(NamedTuple):
    """One pair of a preference run: its item, the dialogue that this is a turn of, if known, and what was seen."""

    item: str
    cluster: str | None
    looks: PairLooks


class PreferenceStore:
    """Reads preference runs. Raises NotFound for a run that is not in the project, and the `Store…` errors."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find_plan(self, project: str, run_id: str) -> PairPlan:
        """What the run compares."""
        batch = t.batches.c
        mine = (SEEN, OF_PAIRS, equals(batch.id, run_id), equals(batch.project, project))
        found = await db.fetch_value(self._engine, select(batch.options).where(*mine))
        plan = None if found is None else plan_of(read_options(found))
        if plan is None:
            raise NotFound(Message("preference-run-not-found"))
        return plan

    async def pages(self, run_id: str) -> AsyncIterator[list[PairSeen]]:
        """The pairs that have a result, in the run's order, some at a time."""
        after = -1
        there = (figure.batch_id == result.batch_id) & (figure.position == result.position)
        query = select(figure.position, result.item, figure.cluster, figure.looks).join_from(
            t.result_figures, t.evaluations, there
        )
        while True:
            these = query.where(equals(figure.batch_id, run_id), figure.position > after)
            rows = await db.fetch(self._engine, these.order_by(figure.position).limit(LOOKS_PAGE))
            if not rows:
                return
            yield await asyncio.to_thread(read_seen_pairs, rows)
            after = rows[-1].position

    async def count_failed(self, run_id: str) -> Counter[tuple[int, int]]:
        """How many pairs of every two runs have no result, by the runs' places in the plan."""
        there = (figure.batch_id == item.batch_id) & (figure.position == item.position)
        query = select(item.position, item.request).join_from(t.result_figures, t.batch_items, there)
        found, after = Counter[tuple[int, int]](), -1
        while True:
            these = query.where(equals(figure.batch_id, run_id), figure.looks.is_(None), figure.position > after)
            rows = await db.fetch(self._engine, these.order_by(figure.position).limit(LOOKS_PAGE))
            if not rows:
                return found
            found.update(await asyncio.to_thread(read_runs, rows))
            after = rows[-1].position

    async def read_looks(self, project: str, run_id: str, aspect: str) -> list[ShownPair]:
        """Every look at the pairs that are not missing on the aspect; systems are called as the run's plan calls them.
        A pair that was judged in both orders makes two."""
        plan = await self.find_plan(project, run_id)
        found: list[ShownPair] = []
        async for page in self.pages(run_id):
            found += [look for seen in page for look in show_looks(seen, plan.systems, aspect)]
        return found


def read_runs(rows: Sequence[Any]) -> list[tuple[int, int]]:
    """The places of the two runs of each row's pair."""
    pairs = [json.loads(row.request).get("pair") for row in rows]
    return [(first, second) for pair in pairs if pair for first, second in [pair["runs"]]]


def read_seen_pairs(rows: Sequence[Any]) -> list[PairSeen]:
    """The pairs of rows; one that failed has no looks."""
    return [PairSeen(row.item, row.cluster, read_looks(row.looks)) for row in rows if row.looks is not None]


def show_looks(seen: PairSeen, systems: Sequence[str], aspect: str) -> Iterator[ShownPair]:
    """The looks at one pair; none where one of them has no verdict, which leaves the pair missing."""
    looks = seen.looks
    names = systems[looks.runs[0]], systems[looks.runs[1]]
    found = looks.by_aspect.get(aspect, ())
    for look in found if all(look.choice is not None for look in found) else ():
        swapped = look.shown_first == "second"
        first, second = reversed(names) if swapped else names
        first_length, second_length = reversed(looks.lengths) if swapped else looks.lengths
        yield ShownPair(
            item=seen.item,
            cluster=seen.cluster or seen.item,
            first=first,
            second=second,
            choice=as_shown(look),
            first_length=first_length,
            second_length=second_length,
        )


def as_shown(look: Look) -> Choice:
    """The verdict on the one that was shown first, and the one that was shown second."""
    if look.choice is None or look.choice == "tie":
        return "tie"
    return "first" if look.choice == look.shown_first else "second"
