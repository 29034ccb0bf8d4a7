"""Preference runs: batches whose candidates are pairs of what stored runs hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from saiten.core.messages import Message
from saiten_server.core.batch import (
    ENDED_STATUSES,
    Batch,
    Candidate,
    Entry,
    EstimateReport,
    KeyedAnswer,
    PairPlaces,
    PairPlan,
    PairRound,
    PairRunOptions,
    plan_of,
)
from saiten_server.core.errors import InvalidRequest, NotFound, RunsUnfit, SignatureMismatch, TextsErased
from saiten_server.core.signature import read_comparable
from saiten_server.core.validation import InvalidDocument
from saiten_server.preferences.runs.rounds import choose_first
from saiten_server.preferences.runs.store import ItemPlace, SourceStore
from saiten_server.preferences.runs.summary import count_choices
from saiten_server.preferences.runs.values import PreferenceRun, PreferenceRunRequest, PreferenceSummary
from saiten_server.preferences.store import PreferenceStore
from saiten_server.runs.estimates import estimate
from saiten_server.runs.service import BatchService
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summary import BUILD, SYSTEM
from saiten_server.scoring.subject import check_path

if TYPE_CHECKING:
    from saiten_server.preferences.runs.planning import ChosenPairs, Responses

BLOCK_PAIRS = 1_000
"""Pairs that are stored at a time."""

ESTIMATED_PAIRS = 200
"""Pairs whose texts are in memory together while a run is estimated."""

MOST_PLANNED = 2_000_000
"""Pairs of a plan before a budget takes some of them: a hundred megabytes."""

PAIR_BYTES = 150
"""What the places of a pair take: it has no text."""


@dataclass(frozen=True)
class PairBatchSource:
    """Implements `BatchSource`: the pairs of a plan. `batches` are those whose responses they are."""

    options: PairRunOptions
    plan: ChosenPairs
    runs: SourceStore
    batches: BatchStore
    ids_given: bool
    first: int = 0
    """The position of the first pair, in a run that has some already."""

    @property
    def candidates(self) -> int:
        """The pairs."""
        return len(self.plan)

    @property
    def text_bytes(self) -> int:
        """What is stored of the pairs."""
        return PAIR_BYTES * len(self.plan)

    def pinned(self, rubric: str) -> PairBatchSource:
        """The same by this version of the rubric."""
        return replace(self, options=self.options.model_copy(update={"rubric": rubric}))

    async def stored_blocks(self, batch_id: str) -> AsyncIterator[list[tuple[Entry, Candidate]]]:
        """All pairs in order, with the item, the dialogue and the cluster of the first run that has the item."""
        for start in range(0, len(self.plan), BLOCK_PAIRS):
            yield await self._read(range(start, min(start + BLOCK_PAIRS, len(self.plan))))

    async def blocks(self) -> AsyncIterator[list[tuple[Entry, Candidate]]]:
        """The same with the texts of both."""
        for start in range(0, len(self.plan), ESTIMATED_PAIRS):
            block = await self._read(range(start, min(start + ESTIMATED_PAIRS, len(self.plan))))
            yield await self.batches.show_pairs("", block, self.options)

    async def read_rows(self, rows: Sequence[int], first: int) -> list[tuple[Entry, Candidate]]:
        """These pairs of the plan, from the position `first` of a run on."""
        chosen = replace(self, plan=self.plan.take(rows), first=first)
        return [one async for block in chosen.stored_blocks("") for one in block]

    async def _read(self, numbers: range) -> list[tuple[Entry, Candidate]]:
        own = slice(numbers.start, numbers.stop)
        owners, runs, positions = (
            part[own].tolist() for part in (self.plan.owners, self.plan.runs, self.plan.positions)
        )
        wanted: dict[int, set[int]] = {}
        for run, position in owners:
            wanted.setdefault(run, set()).add(position)
        ids = self.options.pairs.runs
        items = {run: await self.runs.read_items(ids[run], found) for run, found in wanted.items()}
        if any(position not in items[run] for run, position in owners):
            raise NotFound(Message("run-erased-meanwhile"))
        return [
            place_pair(self.first + number, items[run][position], pair, places)
            for number, (run, position), pair, places in zip(numbers, owners, runs, positions, strict=True)
        ]


def place_pair(number: int, item: ItemPlace, runs: Sequence[int], positions: Sequence[int]) -> tuple[Entry, Candidate]:
    """The pair at that position of its batch."""
    entry = Entry.model_construct(
        position=number, item=item.item, candidate=item.candidate, dialogue=item.dialogue, cluster=item.cluster
    )
    places = PairPlaces.model_construct(runs=(runs[0], runs[1]), positions=(positions[0], positions[1]))
    return entry, Candidate.model_construct(context=(), response="", dialogue=item.dialogue, pair=places)


@dataclass(frozen=True)
class PreferenceRunService:
    """Everything that a caller can do with preference runs. `pairs` is the service of their batches, `batches` has the
    runs that they compare. Methods raise NotFound for what is not in the project, and the `Store…` errors."""

    pairs: BatchService
    batches: BatchStore
    sources: SourceStore
    looks: PreferenceStore

    async def plan(self, project: str, asked: PreferenceRunRequest) -> PairBatchSource:
        """The run as it would be. Raises InvalidRequest, RunsUnfit, SignatureMismatch and TextsErased."""
        refuse_unready(asked)
        runs = [await self._find_run(project, run) for run in asked.runs]
        baseline = find_baseline(asked)
        name = settle_rubric(asked, runs)
        rubric = self.pairs.instruments.rubrics.get(name)
        check_path(rubric, asked.path)
        refuse_unfit(asked, runs, whole=rubric.unit == "conversation")
        limits = self.pairs.limits
        # Before anything is read: of a plan each pair is in memory, and of an active run all that it may choose from.
        refuse_many(runs, baseline, 2 * limits.batch_items if asked.pairs == "active" else MOST_PLANNED)
        responses = [await self._read_responses(run, whole=rubric.unit == "conversation") for run in runs]
        calls = 2 if asked.orders == "both" else 1
        most = None if asked.budget_calls is None else asked.budget_calls // (calls * asked.judge.samples)
        from saiten_server.preferences.runs.planning import plan_pairs

        rounds: tuple[PairRound, ...] = ()
        plan = await asyncio.to_thread(plan_pairs, responses, baseline, None if asked.pairs == "active" else most)
        if not len(plan):
            counts = plan.left_out.items()
            reasons = [Message(f"left-out-{name.replace('_', '-')}", count=count) for name, count in counts] or "-"
            raise RunsUnfit(Message("runs-without-pairs", reasons=reasons))
        if asked.pairs == "active":
            first = limits.batch_items if most is None else min(most, limits.batch_items)
            plan, rounds = await asyncio.to_thread(choose_first, plan, name_systems(runs), calls, first)
        if len(plan) > limits.batch_items:
            raise InvalidRequest(Message("pairs-most", count=len(plan), maximum=limits.batch_items), pointer="/runs")
        same = ("runs", "pairs", "baseline", "aspects", "orders", "budget_calls", "stop", "alpha")
        told = PairPlan(
            **{each: getattr(asked, each) for each in same},
            systems=name_systems(runs),
            items=plan.items,
            calls=len(plan) * calls * asked.judge.samples,
            responses=tuple(run.count for run in responses),
            rounds=rounds,
            left_out=plan.left_out,
        )
        same = ("name", "judge", "budget_usd", "mode", "provider_batch", "integrity", "deadline_hours", "metadata")
        own = {each: getattr(asked, each) for each in same}
        options = PairRunOptions(rubric=rubric.name, path=asked.path, relevance=None, pairs=told, **own)
        return PairBatchSource(options, plan, self.sources, self.batches, ids_given=all(run.ids_given for run in runs))

    async def _find_run(self, project: str, run_id: str) -> Batch:
        found = await self.batches.find(project, run_id)
        if found is None:
            raise NotFound(Message("batch-named-not-found", batch=run_id))
        return found

    async def _read_responses(self, run: Batch, *, whole: bool) -> Responses:
        """The run's responses; those that it ended without are failed too."""
        found = await self.sources.read_responses(run.id, whole=whole)
        return replace(found, failed=found.failed + run.counts.queued)

    async def accept(
        self,
        project: str,
        source: PairBatchSource,
        answer: Callable[[Batch], KeyedAnswer] | None,
        *,
        api_key: str | None = None,
    ) -> PreferenceRun:
        """Stores the run, which then runs, as `BatchService.accept` does."""
        batch = await self.pairs.accept_source(project, source, answer, api_key=api_key)
        return add_plan(batch, source.options.pairs)

    async def estimate(self, source: PairBatchSource) -> EstimateReport:
        """What the run would take. Stores nothing, and calls no one."""
        return await estimate(source, self.pairs.instruments)

    async def open_source(self, options: PairRunOptions) -> PairBatchSource:
        """All pairs that the run of these options could have. What was erased since it was planned is left out."""
        from saiten_server.preferences.runs.planning import plan_pairs

        rubric = self.pairs.instruments.rubrics.get(options.rubric)
        plan, whole = options.pairs, rubric.unit == "conversation"
        responses = [await self.sources.read_responses(run, whole=whole) for run in plan.runs]
        found = await asyncio.to_thread(plan_pairs, responses, None)
        return PairBatchSource(options, found, self.sources, self.batches, ids_given=True)

    async def tell(self, project: str, batch: Batch) -> PreferenceRun:
        """The run with what it compares."""
        plan = plan_of(await self.pairs.options(project, batch.id))
        if plan is None:
            raise NotFound(Message("preference-run-not-found"))
        return add_plan(batch, plan)

    async def summarize(self, project: str, run_id: str) -> PreferenceSummary:
        """The results so far."""
        batch = await self.pairs.find(project, run_id)
        plan = await self.looks.find_plan(project, run_id)
        return await count_choices(batch, plan, self.looks.pages(run_id), await self.looks.count_failed(run_id))


def refuse_many(runs: Sequence[Batch], baseline: int | None, most: int) -> None:
    """Raises InvalidRequest where there could be more pairs."""
    totals = [run.counts.total for run in runs]
    places = (
        combinations(range(len(runs)), 2) if baseline is None else ((baseline, other) for other in range(len(runs)))
    )
    count = sum(min(totals[one], totals[other]) for one, other in places if one != other)
    if count > most:
        raise InvalidRequest(Message("pairs-most", count=count, maximum=most), pointer="/runs")


def add_plan(batch: Batch, plan: PairPlan) -> PreferenceRun:
    """The batch as a preference run."""
    return PreferenceRun.model_construct(**{name: getattr(batch, name) for name in Batch.model_fields}, pairs=plan)


def refuse_unready(asked: PreferenceRunRequest) -> None:
    """Raises InvalidRequest for what does not go together, and for a run against itself."""
    if asked.stop == "resolved" and asked.pairs != "active":
        raise InvalidRequest(Message("stop-needs-active"), pointer="/stop")
    if asked.pairs == "active" and asked.mode != "live":
        raise InvalidRequest(Message("active-is-live"), pointer="/mode")
    if asked.pairs == "active" and len(asked.aspects) > 1:
        raise InvalidRequest(Message("active-by-one-aspect"), pointer="/aspects")
    for place, run in enumerate(asked.runs):
        if run in asked.runs[:place]:
            raise InvalidRequest(Message("run-against-itself", run=run), pointer=f"/runs/{place}")


def find_baseline(asked: PreferenceRunRequest) -> int | None:
    """The place of the baseline; None where every two runs are compared. Raises InvalidRequest."""
    if asked.pairs != "baseline":
        if asked.baseline is not None:
            raise InvalidDocument([("/baseline", Message("baseline-beside-pairs"))])
        return None
    if asked.baseline not in asked.runs:
        what = "is-missing" if asked.baseline is None else "baseline-not-a-run"
        raise InvalidDocument([("/baseline", Message(what))])
    return asked.runs.index(asked.baseline)


def settle_rubric(asked: PreferenceRunRequest, runs: Sequence[Batch]) -> str:
    """The rubric to compare by. Raises RunsUnfit where the runs have several."""
    if len(names := {run.rubric for run in runs}) > 1:
        raise RunsUnfit(Message("runs-of-rubrics", names=", ".join(sorted(names))))
    return asked.rubric or runs[0].rubric_name


def refuse_unfit(asked: PreferenceRunRequest, runs: Sequence[Batch], *, whole: bool) -> None:
    """Raises RunsUnfit, SignatureMismatch and TextsErased for runs that cannot be compared."""
    for place, run in enumerate(runs):
        pointer = f"/runs/{place}"
        if run.status not in ENDED_STATUSES:
            raise RunsUnfit(Message("run-not-ended", run=run.id, status=run.status), pointer=pointer)
        if run.texts != "keep":
            raise TextsErased(Message("run-texts-gone", run=run.id), pointer=pointer)
        if whole and not run.ids_given:
            raise RunsUnfit(Message("run-without-ids", run=run.id), pointer=pointer)
    if not asked.allow_signature_mismatch:
        refuse_mismatch(runs)


def refuse_mismatch(runs: Sequence[Batch]) -> None:
    """Raises SignatureMismatch where two runs were not rated alike, with the pieces that differ."""
    first = gather_pieces(runs[0])
    for run in runs[1:]:
        other = gather_pieces(run)
        pieces = {
            name: (first.get(name, "-"), other.get(name, "-"))
            for name in dict.fromkeys([*first, *other])
            if first and other and first.get(name) != other.get(name)
        }
        if pieces:
            raise SignatureMismatch(Message("runs-rated-otherwise", names=", ".join(pieces)), pieces=pieces)


def gather_pieces(run: Batch) -> dict[str, str]:
    """The pieces of a run's signatures that can change a score; several values are joined."""
    found: dict[str, dict[str, None]] = {}
    for line in run.signature_lines:
        for name, value in read_comparable(line).items():
            found.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in found.items()}


def name_systems(runs: Sequence[Batch]) -> tuple[str, ...]:
    """What the runs are called: their systems, with the build where several runs are of one, else with the id."""
    forms = []
    for run in runs:
        name, build = run.metadata.get(SYSTEM) or run.name or run.id, run.metadata.get(BUILD)
        forms.append([name, f"{name} {build}" if build else name, f"{name} ({run.id})"])
    taken = Counter(form for own in forms for form in set(own))
    return tuple(next((form for form in own if taken[form] == 1), own[-1]) for own in forms)
