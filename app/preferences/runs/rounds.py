"""The rounds of an active preference run: what is judged first, and after each round what is judged next.

The rule is that of `saiten_server.preferences.rankings.choice`. A round is a part of the run's batch: the batch's end,
which comes once all its pairs are judged, adds the next round or completes it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from saiten_server.core.batch import PairPlan, PairRound, PairRunOptions
from saiten_server.core.errors import ProjectFull
from saiten_server.preferences.runs.store import SourceStore
from saiten_server.preferences.store import PreferenceStore
from saiten_server.preferences.values import ShownPair
from saiten_server.runs.quota import StorageQuota, expect_bytes
from saiten_server.runs.store.batches import BatchStore

if TYPE_CHECKING:
    from saiten_server.preferences.runs.planning import ChosenPairs
    from saiten_server.preferences.runs.service import PairBatchSource
    from saiten_server.stats.active_choice import PairStanding

PlacePair = tuple[int, int]


def choose_first(
    plan: ChosenPairs, systems: Sequence[str], looks: int, most: int
) -> tuple[ChosenPairs, tuple[PairRound, ...]]:
    """The pairs of the first round, at most so many."""
    from saiten_server.preferences.rankings.choice import begin_choice

    rows = choose_rows([], systems, plan.list_rows(), begin_choice(systems), looks=looks, most=most)
    return plan.take(rows), (count_round(plan, rows),)


def choose_rows(
    shown: Sequence[ShownPair],
    systems: Sequence[str],
    left: Mapping[PlacePair, Sequence[int]],
    standing: PairStanding,
    *,
    looks: int,
    most: int,
) -> list[int]:
    """The rows of a plan to judge next, at most so many, of those that are `left` of every two runs. numpy and scipy
    are loaded here."""
    from saiten_server.preferences.rankings.choice import choose_next
    from saiten_server.stats.active_choice import plan_round

    size = plan_round(len(systems), len(shown) // looks)
    size = min(size, most)
    if size <= 0:
        return []
    items = {(systems[one], systems[other]): list(map(str, rows)) for (one, other), rows in left.items()}
    chosen = choose_next(shown, systems, items, standing=standing, size=size, looks=looks)
    return sorted(int(row) for _, _, row in chosen)


def count_round(plan: ChosenPairs, rows: Sequence[int]) -> PairRound:
    """The round that judges these rows."""
    counts = Counter((one, other) for one, other in plan.runs[list(rows)].tolist()) if rows else Counter[PlacePair]()
    return PairRound(pairs=tuple((*places, count) for places, count in sorted(counts.items())))


def settle_round(plan: PairPlan, shown: Sequence[ShownPair]) -> PairStanding:
    """What is known once the last round was judged. Each round is tested once, by what it may spend of the error
    rate."""
    from saiten_server.preferences.rankings.choice import begin_choice, take_stock

    known = plan.rounds[-2].resolved if len(plan.rounds) > 1 else None
    before = replace(begin_choice(plan.systems), round=len(plan.rounds) - 1, resolved=frozenset(known or ()))
    return take_stock(shown, plan.systems, alpha=plan.alpha, before=before)


@dataclass(frozen=True)
class Rounds:
    """Takes active preference runs from round to round. `open_source` gives all pairs that a run could have, of which
    it judges `limit` at most. What a round stores counts for the project's `quota`, if there is one."""

    store: BatchStore
    looks: PreferenceStore
    sources: SourceStore
    open_source: Callable[[PairRunOptions], Awaitable[PairBatchSource]]
    limit: int
    quota: StorageQuota | None = None

    async def advance(self, run_id: str) -> bool:
        """Tests what was judged, and adds the next round; returns whether the run goes on: it does too where it pauses
        because the project may not store any more. To be called once all pairs are judged. Raises StoreError."""
        project, options = await self.store.project_of(run_id), await self.store.active_options(run_id)
        if project is None or not isinstance(options, PairRunOptions) or not options.pairs.rounds:
            return False
        plan = options.pairs
        shown = await self.looks.read_looks(project, run_id, plan.aspects[0])
        standing = await asyncio.to_thread(settle_round, plan, shown)
        source, judged = await self.open_source(options), await self.sources.read_pairs(run_id)
        calls = (2 if plan.orders == "both" else 1) * options.judge.samples
        most = self.limit if plan.budget_calls is None else min(self.limit, plan.budget_calls // calls)

        def choose() -> tuple[list[int], PairPlan]:
            rows = choose_rows(
                shown,
                plan.systems,
                source.plan.list_rows(judged),
                standing,
                looks=2 if plan.orders == "both" else 1,
                most=most - len(judged),
            )
            last = plan.rounds[-1].model_copy(update={"resolved": tuple(sorted(standing.resolved))})
            rounds = (*plan.rounds[:-1], last, *([count_round(source.plan, rows)] if rows else []))
            count = source.plan.count_items(judged, rows)
            told = {"rounds": rounds, "items": count, "calls": calls * (len(judged) + len(rows))}
            return rows, plan.model_copy(update=told)

        rows, changed = await asyncio.to_thread(choose)
        pairs = await source.read_rows(rows, len(judged))
        try:
            if self.quota is not None:
                await self.quota.require_room(project, expect_bytes(0, len(rows)))
        except ProjectFull as error:
            await self.store.pause(run_id, error.code, error.message)
            return True
        return await self.store.grow(run_id, options.model_copy(update={"pairs": changed}), pairs, len(judged))
