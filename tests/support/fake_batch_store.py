"""A `BatchStore` in memory, held to the same contract as the real one. Nothing in it awaits, so every call is atomic."""

from __future__ import annotations

import builtins
import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from app.adapters.sql.batches.figures import extend_measures, measure
from app.adapters.sql.evaluations import StoredAnswer
from app.batch_ports import (
    CHUNK_SIZE,
    COLLECT,
    FINISH,
    MOST_PAIRED,
    MOST_SET_ASIDE,
    NOTHING_BEGUN,
    BatchFilter,
    Committed,
    Finished,
    Job,
    KeyedAnswer,
    Scored,
    Scores,
    ValuesPage,
    Work,
    age_of_oldest,
    reckon_candidate,
)
from app.domain.batch import EXPIRED, Batch, BatchOptions, BatchUsage, Candidate, Counts, Entry, Failure, ItemResult
from app.domain.dialogue import digest_context
from app.domain.errors import IdempotencyKeyInUse, StoreError
from app.domain.evaluation import Evaluation, Usage
from app.domain.redaction import ERASED_CODE
from app.domain.rubric import split_name
from app.domain.summary import Intervals
from app.domain.tally import Tally
from app.scores import failed_scores, scores_of
from app.tally import add_scores
from tests.support.fake_spending import FakeSpending
from tests.support.fake_store import FakeStore

ACTIVE = ("queued", "running")


@dataclass
class Chunk:
    """`state`: waiting, queued, leased, done or blocked."""

    first: int = 0
    last: int = -1
    state: str = "waiting"
    queued_at: datetime | None = None
    owner: str | None = None
    lease_until: datetime | None = None
    crashes: int = 0
    reserved_usd: float = 0.0
    begun: int = 0
    set_aside: bool = False

    def close(self, state: str) -> None:
        self.begun, self.set_aside = 0, False
        self.state, self.owner, self.lease_until, self.queued_at, self.reserved_usd = state, None, None, None, 0.0

    def is_overdue(self, now: datetime, told_before: datetime) -> bool:
        told_long_ago = self.queued_at is not None and self.queued_at < told_before
        if self.state == "leased":
            run_out = self.lease_until is not None and self.lease_until < now
            return run_out and (self.queued_at is None or told_long_ago)
        return self.state == "queued" and told_long_ago


@dataclass
class Kept:
    """A batch with everything that belongs to it."""

    id: str
    project: str
    options: BatchOptions
    created_at: datetime
    status: str = "receiving"
    unit_cost_usd: float | None = None
    api_key: str | None = None
    pause: tuple[str | None, str | None] = (None, None)
    started_at: datetime | None = None
    resumed_at: datetime | None = None
    finished_at: datetime | None = None
    finished_before: int = 0
    usage: Usage = field(default_factory=Usage)
    estimated_calls: int = 0
    left_seconds: float | None = None
    expires_at: datetime | None = None
    dearest_usd: float = 0.0
    items: dict[int, tuple[Entry, Candidate]] = field(default_factory=dict)
    tries: Counter[int] = field(default_factory=Counter)
    chunks: dict[int, Chunk] = field(default_factory=dict)
    results: dict[int, Finished] = field(default_factory=dict)
    tally: Tally | None = field(default_factory=Tally)
    intervals: Intervals | None = None

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def start(self, now: datetime) -> None:
        self.status, self.started_at = "running", self.started_at or now
        self.resumed_at, self.finished_before = now, len(self.results)
        left = 3600 * self.options.running_hours if self.left_seconds is None else self.left_seconds
        self.expires_at = now + timedelta(seconds=left)

    def stand_still(self, now: datetime) -> None:
        """The running time does not go on."""
        if self.expires_at is not None:
            self.left_seconds, self.expires_at = max(0.0, (self.expires_at - now).total_seconds()), None

    def lose(self, begun: int) -> Usage:
        """Counts candidates that were begun and have no result as spent."""
        if not begun or self.options.mode == "provider-batch":
            return Usage()
        rated = [one for one in self.results.values() if status_of(one) in {"scored", "partial"}]
        if not rated:
            calls = begun * self.options.judge.samples * (2 if self.options.path == "both" else 1)
            lost = Usage(judge_calls=calls, cost_usd=begun * (self.unit_cost_usd or 0.0) / 3)
        else:
            counted = self.usage.judge_calls - self.estimated_calls
            calls = max(begun, math.ceil(begun * counted / len(rated))) if counted else 0
            share = calls / self.usage.judge_calls if self.usage.judge_calls else 0.0
            lost = Usage(
                judge_calls=calls,
                prompt_tokens=math.ceil(share * self.usage.prompt_tokens),
                cached_tokens=math.floor(share * self.usage.cached_tokens),
                completion_tokens=math.ceil(share * self.usage.completion_tokens),
                translated_characters=math.ceil(share * self.usage.translated_characters),
                cost_usd=None if self.usage.cost_usd is None else share * self.usage.cost_usd,
            )
        self.usage += lost
        self.estimated_calls += lost.judge_calls
        return lost

    def in_states(self, *states: str, least: int = 0) -> list[int]:
        return [number for number, chunk in sorted(self.chunks.items()) if chunk.state in states and number >= least]

    def todo(self, chunk: Chunk) -> list[tuple[Entry, Candidate]]:
        return [self.items[place] for place in range(chunk.first, chunk.last + 1) if place not in self.results]

    def add(self, finished: Finished) -> None:
        self.results[finished.entry.position] = finished
        self.intervals = None
        if self.tally is not None:
            add_scores(self.tally, figures_of(finished))
        self.usage += finished.usage
        self.dearest_usd = max(self.dearest_usd, finished.usage.cost_usd or 0.0)

    def finish_chunk(self, number: int, now: datetime) -> builtins.list[Job]:
        """Closes a chunk whose candidates all have a result; the job of the batch's end, where that is now ready."""
        self.chunks[number].close("done")
        if any(chunk.state != "done" for other, chunk in self.chunks.items() if other >= 0):
            return []
        if FINISH not in self.chunks:
            self.complete(now)
            return []
        end = self.chunks[FINISH]
        end.state, end.queued_at = ("queued", now) if self.is_active else ("waiting", None)
        return [Job(self.id, FINISH)] if self.is_active else []

    def complete(self, now: datetime) -> None:
        if self.status not in {"cancelled", "completed"}:
            self.status, self.finished_at, self.pause, self.expires_at = "completed", now, (None, None), None

    def afford(self, number: int, wanted: int) -> tuple[int, float]:
        """How many candidates the budget allows, and what each is reckoned with."""
        unit = reckon_candidate(self.options.mode, self.unit_cost_usd, self.dearest_usd)
        if self.options.budget_usd is None:
            return wanted, 0.0
        if self.usage.cost_usd is None:
            return 0, unit
        others = [self.chunks[other].reserved_usd for other in self.in_states("leased") if other != number]
        left = self.options.budget_usd - self.usage.cost_usd - sum(others)
        if unit <= 0:
            return (wanted if left >= -1e-9 else 0), unit
        return max(0, math.floor(min(wanted, left / unit + 1e-9))), unit


class FakeBatchStore:
    """`keys` is where keyed answers are kept; `clock` tells the time. `usd_per_day` is what a key may cost that is not
    in `key_limits`."""

    def __init__(
        self,
        keys: FakeStore | None = None,
        *,
        window: int = 24,
        usd_per_day: float | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.spending = FakeSpending()
        self.key_limits: dict[str, float] = {}
        self._usd_per_day = usd_per_day
        self.debts: set[str] = set()
        self.batches: dict[str, Kept] = {}
        self.keys = keys or FakeStore()
        self._window = window
        self._clock = clock

    # Taking in

    async def begin(self, project: str, batch_id: str, options: BatchOptions, now: datetime) -> None:
        self.batches[batch_id] = Kept(batch_id, project, options, now)

    async def append(self, batch_id: str, candidates: Sequence[tuple[Entry, Candidate]]) -> None:
        kept = self.batches.get(batch_id)
        if kept is None or kept.status != "receiving":
            raise StoreError("the batch was discarded before all of it had come in; send it again")
        kept.items.update({entry.position: (entry, candidate) for entry, candidate in candidates})

    async def accept(
        self,
        project: str,
        batch_id: str,
        *,
        unit_cost_usd: float | None,
        answer: KeyedAnswer | None,
        api_key: str | None = None,
    ) -> Batch:
        kept = self.batches.get(batch_id)
        if kept is None or kept.project != project or kept.status != "receiving":
            raise StoreError("the batch was discarded before all of it had come in; send it again")
        if answer is not None:
            held = self.keys.answers.get((project, answer.key))
            if held is not None and held.status is not None:
                raise IdempotencyKeyInUse("another request with this Idempotency-Key was accepted meanwhile")
            if held is not None:
                self.keys.answers[project, answer.key] = StoredAnswer(held.body_digest, answer.status, answer.body)
        total, is_held = len(kept.items), kept.options.mode == "provider-batch"
        for number, first in enumerate(range(0, total, CHUNK_SIZE)):
            state = "blocked" if is_held else "waiting"
            kept.chunks[number] = Chunk(first, min(first + CHUNK_SIZE, total) - 1, state)
        if is_held:
            kept.chunks[COLLECT] = Chunk()
        if kept.options.relevance is not None and kept.options.relevance.baseline == "batch":
            kept.chunks[FINISH] = Chunk(state="blocked")
        kept.status, kept.unit_cost_usd, kept.api_key = "queued", unit_cost_usd, api_key
        return self._describe(kept)

    async def discard(self, batch_id: str) -> None:
        if batch_id in self.batches and self.batches[batch_id].status == "receiving":
            del self.batches[batch_id]

    # Looking

    def _get(self, project: str | None, batch_id: str) -> Kept | None:
        kept = self.batches.get(batch_id)
        if kept is None or kept.status == "receiving" or project not in {None, kept.project}:
            return None
        return kept

    def _describe(self, kept: Kept) -> Batch:
        now, options = self._clock(), kept.options
        statuses = Counter("expired" if one.failure == EXPIRED else status_of(one) for one in kept.results.values())
        signatures = Counter(one.record.evaluation.signature for one in kept.results.values() if one.record)
        total, finished = len(kept.items), len(kept.results)
        until = {"running": now, "completed": kept.finished_at}.get(kept.status)
        rate = None
        if until is not None and kept.resumed_at is not None and until > kept.resumed_at:
            rate = (finished - kept.finished_before) / (until - kept.resumed_at).total_seconds() or None
        left = total - finished
        return Batch(
            id=kept.id,
            name=options.name,
            status=kept.status,  # type: ignore[arg-type]
            pause_reason=kept.pause[0],
            pause_detail=kept.pause[1],
            mode=options.mode,
            rubric=split_name(options.rubric)[0],
            rubric_version=split_name(options.rubric)[1],
            path=options.path,
            relevance=options.relevance,
            judge=options.judge,
            budget_usd=options.budget_usd,
            deadline_hours=options.running_hours,
            counts=Counts(
                total=total,
                queued=left,
                **{name: statuses[name] for name in ("scored", "partial", "failed", "expired")},
            ),
            progress=finished / total,
            rate_per_second=rate,
            estimated_end=now + timedelta(seconds=left / rate) if rate and kept.status == "running" else None,
            usage=BatchUsage(**kept.usage.model_dump(), estimated_calls=kept.estimated_calls),
            signature=next(iter(signatures)) if len(signatures) == 1 else None,
            signatures=dict(signatures) if len(signatures) > 1 else {},
            metadata=options.metadata,
            created_at=kept.created_at,
            started_at=kept.started_at,
            finished_at=kept.finished_at,
        )

    async def find(self, project: str, batch_id: str) -> Batch | None:
        kept = self._get(project, batch_id)
        return self._describe(kept) if kept else None

    def _page(self, project: str | None, batch_id: str, after: int, limit: int) -> list[Finished]:
        kept = self._get(project, batch_id)
        found = sorted(kept.results.items()) if kept else []
        return [one for position, one in found if position > after][:limit]

    async def results(self, project: str, batch_id: str, *, after: int, limit: int) -> list[ItemResult]:
        return [
            ItemResult(entry=one.entry, evaluation=one.record.evaluation if one.record else None, failure=one.failure)
            for one in self._page(project, batch_id, after, limit)
        ]

    async def scores(self, project: str, batch_id: str, *, after: int, limit: int) -> list[Scored]:
        page = self._page(project, batch_id, after, limit)
        return [Scored(one.entry, evaluation_id(one), figures_of(one)) for one in page]

    async def candidates(self, batch_id: str, *, after: int, limit: int) -> list[tuple[Entry, Candidate]]:
        kept = self._get(None, batch_id)
        found = sorted(kept.items.items()) if kept else []
        return [one for position, one in found if position > after][:limit]

    async def tallies(self, project: str, ids: Sequence[str]) -> Mapping[str, Tally | None]:
        found = {batch_id: kept.tally for batch_id in ids if (kept := self._get(project, batch_id))}
        return {batch_id: copy.deepcopy(tally) for batch_id, tally in found.items()}

    async def keep_tally(self, project: str, batch_id: str, tally: Tally) -> None:
        kept = self._get(project, batch_id)
        if kept is None or kept.tally is not None or kept.status not in {"completed", "cancelled"}:
            return
        if len(kept.results) == tally.results and not kept.in_states("leased", least=COLLECT):
            kept.tally = copy.deepcopy(tally)

    async def values(self, project: str, batch_id: str, *, after: int, limit: int) -> ValuesPage:
        kept = self._get(project, batch_id)
        if kept is None:
            return ValuesPage((), [])
        every = {position: figures_of(one) for position, one in sorted(kept.results.items())}
        names = extend_measures((), every.values())
        rows = [
            (position, kept.results[position].entry.cluster, *map(measure(scores).get, names))
            for position, scores in every.items()
            if position > after
        ]
        return ValuesPage(names, rows[:limit])

    async def intervals(self, project: str, ids: Sequence[str]) -> Mapping[str, Intervals]:
        found = {batch_id: kept.intervals for batch_id in ids if (kept := self._get(project, batch_id))}
        return {batch_id: one for batch_id, one in found.items() if one is not None}

    async def keep_intervals(self, project: str, batch_id: str, intervals: Intervals) -> None:
        kept = self._get(project, batch_id)
        if kept is None or kept.status not in {"completed", "cancelled"}:
            return
        if len(kept.results) == intervals.results and not kept.in_states("leased", least=COLLECT):
            kept.intervals = intervals

    async def options(self, project: str, batch_id: str) -> BatchOptions | None:
        kept = self._get(project, batch_id)
        return kept.options if kept else None

    async def project_of(self, batch_id: str) -> str | None:
        kept = self._get(None, batch_id)
        return kept.project if kept else None

    async def backlog(self) -> tuple[int, float]:
        active = [kept for kept in self.batches.values() if kept.is_active]
        left = sum(len(kept.items) - len(kept.results) for kept in active)
        live, given = (
            min((kept.created_at for kept in active if (kept.options.mode == "provider-batch") is away), default=None)
            for away in (False, True)
        )
        return left, age_of_oldest(self._clock(), live, given)

    async def waiting(self, project: str) -> tuple[int, int]:
        left = [(kept.project, len(kept.items) - len(kept.results)) for kept in self.batches.values() if kept.is_active]
        return sum(count for _, count in left), sum(count for owner, count in left if owner == project)

    async def paused(self) -> Mapping[str, int]:
        return Counter(str(kept.pause[0]) for kept in self.batches.values() if kept.status == "paused")

    # Steering

    def _steer(
        self, project: str | None, batch_id: str, wanted: Sequence[str], changes: dict[str, Any]
    ) -> Batch | None:
        kept = self._get(project, batch_id)
        if kept is None:
            return None
        if kept.status in wanted:
            for name, value in changes.items():
                setattr(kept, name, value)
            if changes["status"] == "paused":
                kept.stand_still(self._clock())
            for number in kept.in_states("queued", least=COLLECT) if changes["status"] == "queued" else []:
                kept.chunks[number].state, kept.chunks[number].queued_at = "waiting", None
        return self._describe(kept)

    async def pause(self, batch_id: str, reason: str, detail: str, *, project: str | None = None) -> Batch | None:
        return self._steer(project, batch_id, ACTIVE, {"status": "paused", "pause": (reason, detail)})

    async def resume(self, project: str, batch_id: str) -> Batch | None:
        return self._steer(project, batch_id, ["paused"], {"status": "queued", "pause": (None, None)})

    async def cancel(self, project: str, batch_id: str) -> Batch | None:
        changes = {"status": "cancelled", "pause": (None, None), "finished_at": self._clock()}
        return self._steer(project, batch_id, [*ACTIVE, "paused"], changes)

    async def erase(self, project: str, batch_id: str) -> bool:
        kept = self.batches.get(batch_id)
        if kept is None or kept.project != project:
            return False
        for chunk in kept.chunks.values():
            self._spend_lost(kept, chunk, self._clock())
        del self.batches[batch_id]
        self.debts.update(key for one in kept.results.values() for key in one.calls)
        return True

    async def owe(self, keys: Sequence[str]) -> None:
        self.debts.update(keys)

    async def owed(self, limit: int) -> tuple[str, ...]:
        return tuple(sorted(self.debts))[:limit]

    async def settle(self, keys: Sequence[str]) -> None:
        self.debts.difference_update(keys)

    # Working

    def _held(self, owner: str, job: Job) -> Chunk | None:
        kept = self._get(None, job.batch)
        chunk = kept.chunks.get(job.chunk) if kept else None
        return chunk if chunk is not None and chunk.owner == owner else None

    async def claim(self, job: Job, owner: str, lease_seconds: float, begun: int = 0) -> Work | None:
        now, kept = self._clock(), self._get(None, job.batch)
        chunk = kept.chunks.get(job.chunk) if kept else None
        if kept is None or chunk is None or not kept.is_active or chunk.state in {"done", "blocked"}:
            return None
        if kept.expires_at is not None and now >= kept.expires_at and job.chunk != FINISH:
            return None
        if chunk.state == "leased" and chunk.lease_until is not None and chunk.lease_until >= now:
            return None
        costs = job.chunk == COLLECT if kept.options.mode == "provider-batch" else job.chunk >= 0
        if costs and await self._is_overspent(kept, now):
            kept.status, kept.pause = "paused", ("cost-limit-reached", "the key may spend nothing more today")
            kept.stand_still(now)
            return None
        self._spend_lost(kept, chunk, now)
        todo = kept.todo(chunk)
        if not todo and job.chunk >= 0:
            kept.finish_chunk(job.chunk, now)
            return None
        chunk.crashes += chunk.owner not in {None, owner}
        affordable, unit = kept.afford(job.chunk, len(todo))
        if todo and not affordable:
            chunk.close("waiting")
            if not kept.in_states("leased"):
                kept.status, kept.pause = "paused", ("budget-exhausted", "the budget allows no further candidate")
                kept.stand_still(now)
            return None
        chunk.state, chunk.owner, chunk.queued_at = "leased", owner, None
        chunk.lease_until, chunk.reserved_usd = now + timedelta(seconds=lease_seconds), affordable * unit
        chunk.begun, chunk.set_aside = min(begun, affordable), False
        if kept.status == "queued":
            kept.start(now)
        tries = {entry.position: kept.tries[entry.position] for entry, _ in todo if kept.tries[entry.position]}
        unit_usd = None if kept.options.budget_usd is None else unit
        return Work(job, kept.project, kept.options, todo, chunk.crashes > 0, affordable, unit_usd, tries)

    def _spend_lost(self, kept: Kept, chunk: Chunk, now: datetime) -> None:
        lost = kept.lose(chunk.begun)
        chunk.begun = 0
        if kept.api_key is not None:
            self.spending.add(kept.api_key, lost.cost_usd or 0.0, now)

    async def set_aside(self, job: Job, owner: str) -> None:
        chunk = self._held(owner, job)
        if chunk is not None:
            others = sum(other.set_aside for other in self.batches[job.batch].chunks.values())
            chunk.set_aside = chunk.set_aside or others < MOST_SET_ASIDE

    async def find_halted(self, jobs: Sequence[Job]) -> Committed:
        kept = {job: self._get(None, job.batch) for job in jobs}
        status = {job: one.status for job, one in kept.items() if one is not None}
        return Committed(
            lost=frozenset(jobs) - status.keys(),
            stopped=frozenset(job for job in status if status[job] in {"paused", "cancelled"}),
            cancelled=frozenset(job for job in status if status[job] == "cancelled"),
        )

    async def find_scored(self, batch_id: str) -> Candidate | None:
        kept = self._get(None, batch_id)
        places = (
            [place for place, one in kept.results.items() if status_of(one) in {"scored", "partial"}] if kept else []
        )
        return kept.items[places[0]][1] if kept and places else None

    async def expire(self) -> builtins.list[Job]:
        now, jobs = self._clock(), list[Job]()
        for kept in self.batches.values():
            if kept.status != "running" or kept.expires_at is None or now < kept.expires_at:
                continue
            for number, chunk in sorted(kept.chunks.items()):
                if number < 0 or chunk.state == "done":
                    continue
                self._spend_lost(kept, chunk, now)
                for entry, _ in kept.todo(chunk):
                    kept.add(Finished(Job(kept.id, number), entry, None, EXPIRED))
                if COLLECT in kept.chunks:
                    kept.chunks[COLLECT].state = "done"
                jobs += kept.finish_chunk(number, now)
        return jobs

    async def _is_overspent(self, kept: Kept, now: datetime) -> bool:
        limit = self.key_limits.get(kept.api_key or "", self._usd_per_day)
        if kept.api_key is None or limit is None:
            return False
        return await self.spending.spent_usd(kept.api_key, now) >= limit

    async def renew(self, owner: str, jobs: Sequence[Job], lease_seconds: float) -> Committed:
        lost = {job for job in jobs if self._held(owner, job) is None}
        for job in set(jobs) - lost:
            chunk = self.batches[job.batch].chunks[job.chunk]
            chunk.lease_until, chunk.queued_at = self._clock() + timedelta(seconds=lease_seconds), None
        stopped = {job for job in set(jobs) - lost if not self.batches[job.batch].is_active}
        return Committed(frozenset(lost), frozenset(stopped))

    async def commit(
        self,
        owner: str,
        finished: Sequence[Finished],
        closed: Sequence[Job],
        begun: Mapping[Job, int] = NOTHING_BEGUN,
    ) -> Committed:
        now, ready = self._clock(), list[Job]()
        jobs = {*(one.job for one in finished), *closed, *begun}
        lost = {job for job in jobs if self._held(owner, job) is None}
        for one in finished:
            if one.job not in lost and one.entry.position not in self.batches[one.job.batch].results:
                kept = self.batches[one.job.batch]
                kept.add(one)
                if kept.api_key is not None:
                    self.spending.add(kept.api_key, one.usage.cost_usd or 0.0, now)
        ending = [job for job in dict.fromkeys(closed) if job not in lost]
        for job in jobs - lost:
            chunk = self.batches[job.batch].chunks[job.chunk]
            chunk.begun = begun.get(job, 0 if job in ending else chunk.begun)
            if job in ending:
                self._spend_lost(self.batches[job.batch], chunk, now)
        for job in ending:
            kept, chunk = self.batches[job.batch], self.batches[job.batch].chunks[job.chunk]
            if job.chunk < 0:
                chunk.close("done" if chunk.state == "done" else "waiting")
            elif kept.todo(chunk):
                chunk.close("waiting")
            else:
                ready += kept.finish_chunk(job.chunk, now)
        for batch_id in sorted({job.batch for job in ending if job.chunk >= 0}):
            ready += self._queue_waiting(self.batches[batch_id], self._window)
        stopped = {job for job in jobs - lost - set(ending) if not self.batches[job.batch].is_active}
        erased = {
            one.job
            for job in jobs - lost
            for one in self.batches[job.batch].results.values()
            if one.failure is not None and one.failure.code == ERASED_CODE
        }
        return Committed(frozenset(lost), frozenset(stopped), tuple(ready), frozenset(erased & jobs))

    async def mark(self, job: Job, owner: str, position: int) -> int:
        kept = self._get(None, job.batch)
        if kept is None:
            return 0
        before = kept.tries[position]
        kept.tries[position] += self._held(owner, job) is not None
        return before

    # Queueing

    def _queue_waiting(self, kept: Kept, window: int, least: int = 0) -> builtins.list[Job]:
        if not kept.is_active:
            return []
        active = sum(other.is_active for other in self.batches.values())
        told = kept.in_states("queued", "leased", least=COLLECT)
        under_way = [number for number in told if not kept.chunks[number].set_aside]
        room = max(0, max(2, math.ceil(window / active)) - len(under_way))
        return self._tell(kept, kept.in_states("waiting", least=least)[:room])

    def _tell(self, kept: Kept, numbers: Sequence[int]) -> builtins.list[Job]:
        for number in numbers:
            chunk = kept.chunks[number]
            chunk.queued_at = self._clock()
            chunk.state = "leased" if chunk.state == "leased" else "queued"
        return [Job(kept.id, number) for number in numbers]

    async def next_jobs(self, batch_id: str, window: int) -> builtins.list[Job]:
        kept = self._get(None, batch_id)
        return self._queue_waiting(kept, window) if kept else []

    async def sweep(self, window: int, patience_seconds: float) -> builtins.list[Job]:
        now, jobs = self._clock(), list[Job]()
        for kept in [*self.batches.values()]:
            if kept.status == "receiving" and kept.created_at < now - timedelta(hours=1):
                del self.batches[kept.id]
            if kept.is_active:
                told_before = now - timedelta(seconds=patience_seconds)
                numbers = [number for number, one in sorted(kept.chunks.items()) if one.is_overdue(now, told_before)]
                jobs += self._tell(kept, numbers) + self._queue_waiting(kept, window, COLLECT)
        return jobs

    async def unhold(self, batch_id: str) -> builtins.list[Job]:
        kept = self._get(None, batch_id)
        if kept is None or COLLECT not in kept.chunks or kept.chunks[COLLECT].state == "done":
            return []
        kept.chunks[COLLECT].state = "done"
        for number in kept.in_states("blocked"):
            kept.chunks[number].state = "waiting"
        return self._queue_waiting(kept, self._window)

    # The end

    async def rewrite(self, batch_id: str, changed: Sequence[tuple[int, Evaluation]]) -> None:
        kept = self._get(None, batch_id)
        for position, evaluation in changed if kept else []:
            one = kept.results.get(position) if kept else None
            if kept and one and one.record:
                record = one.record.model_copy(update={"evaluation": evaluation})
                kept.results[position] = Finished(one.job, one.entry, record, None, one.usage, one.calls)
                kept.tally = kept.intervals = None

    async def complete(self, batch_id: str) -> None:
        kept = self._get(None, batch_id)
        if kept and all(chunk.state == "done" for number, chunk in kept.chunks.items() if number >= 0):
            kept.complete(self._clock())
            if FINISH in kept.chunks:
                kept.chunks[FINISH].state = "done"

    async def newest_pairs(
        self, project: str, wanted: BatchFilter, *, limit: int
    ) -> builtins.list[tuple[Batch, Batch]]:
        lines = dict[object, builtins.list[Batch]]()
        for batch in await self.list(project, wanted, after=None, limit=MOST_PAIRED):
            if batch.status == "completed" and batch.name is not None:
                lines.setdefault((batch.name, batch.rubric, batch.metadata.get("system")), []).append(batch)
        return [(line[0], line[1]) for line in lines.values() if len(line) > 1][:limit]

    # Last, for its name hides the type's from whatever stands below

    async def list(
        self, project: str, wanted: BatchFilter, *, after: tuple[datetime, str] | None, limit: int
    ) -> builtins.list[Batch]:
        seen = [self._describe(kept) for kept in self.batches.values() if self._get(project, kept.id)]
        newest = sorted(seen, key=lambda batch: (batch.created_at, batch.id), reverse=True)
        return [
            batch for batch in newest if (after is None or (batch.created_at, batch.id) < after) and fits(batch, wanted)
        ][:limit]


def fits(batch: Batch, wanted: BatchFilter) -> bool:
    rubric = batch.rubric_name if "@" in (wanted.rubric or "") else batch.rubric
    exact = ((wanted.name, batch.name), (wanted.rubric, rubric), (wanted.status, batch.status))
    named = all(want is None or want == has for want, has in exact)
    return named and all(batch.metadata.get(key) == value for key, value in wanted.metadata.items())


def status_of(finished: Finished) -> str:
    return finished.record.evaluation.status if finished.record else "failed"


def evaluation_id(finished: Finished) -> str:
    return finished.record.evaluation.id if finished.record else f"ev_{finished.job.batch}_{finished.entry.position}"


def figures_of(finished: Finished) -> Scores:
    if finished.record is not None:
        return scores_of(finished.record.evaluation, digest_context(finished.record.request.context))
    return failed_scores(finished.failure or Failure(code="internal-error", detail=""))
