"""Batches, results and a clock as tests of the batch store need them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions, Candidate, Entry, Failure, KeyedAnswer
from saiten_server.core.dialogue import Utterance
from saiten_server.core.evaluation import Usage
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql import tables as t
from saiten_server.platform.sql.engine import change
from saiten_server.platform.sql.tables import running_time
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.running_time import read_running_time
from saiten_server.runs.work import CHUNK_SIZE, ChunkJob, FinishedCandidate, Work
from tests.support.records import make_record

LEASE = 15.0
C = CHUNK_SIZE
START = datetime(2026, 11, 21, 1, 0, 0, tzinfo=UTC)


class HandClock:
    """A clock that goes only when it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


async def live(engine: AsyncEngine, clock: HandClock, seconds: float) -> None:
    """Moves the clock while workers live: the last of their signs, of which every few seconds has one, is now."""
    async with change(engine) as connection:
        time = await read_running_time(connection, clock())
        clock.move(seconds)
        skipped = clock() - timedelta(seconds=seconds) - time
        await connection.execute(update(running_time).values(seen_at=clock(), skipped_seconds=skipped.total_seconds()))


def make_candidates(count: int, first: int = 0, *, turns: int | None = None) -> list[tuple[Entry, Candidate]]:
    """Candidates, of which every `turns` are a dialogue."""
    dialogues = [None if turns is None else position // turns for position in range(first, first + count)]
    return [
        (
            Entry(
                position=position,
                item=f"item-{position}",
                candidate=None,
                dialogue=None if dialogue is None else f"d-{dialogue}",
                cluster=None if dialogue is None else f"{dialogue:016x}",
            ),
            Candidate(
                context=(Utterance(speaker="甲", text="おはよう"),),
                response=f"返事 {position}",
                dialogue=None if dialogue is None else f"d-{dialogue}",
            ),
        )
        for position, dialogue in enumerate(dialogues, start=first)
    ]


async def make_batch(
    store: BatchStore,
    batch_id: str = "ba_1",
    count: int = C * 5 // 2,
    *,
    project: str = "team",
    unit_cost_usd: float | None = None,
    created_at: datetime = START,
    answer: KeyedAnswer | None = None,
    api_key: str | None = None,
    turns: int | None = None,
    rubric_digest: str | None = None,
    **options: Any,
) -> None:
    """An accepted batch."""
    await store.begin(project, batch_id, BatchOptions(**options), created_at, rubric_digest)
    await store.append(batch_id, make_candidates(count, turns=turns))
    await store.accept(project, batch_id, unit_cost_usd=unit_cost_usd, answer=answer, api_key=api_key)


async def date_back(engine: AsyncEngine, batch_id: str) -> None:
    """Lets the batch be as old as `START`."""
    await db.execute(engine, update(t.batches).where(t.batches.c.id == batch_id).values(created_at=START))


def finish(work: Work, position: int, *, cost_usd: float | None = 0.0, **changes: Any) -> FinishedCandidate:
    """An evaluation of the candidate at the position."""
    entry = next(entry for entry, _ in work.todo if entry.position == position)
    usage = Usage(judge_calls=1, prompt_tokens=10, cost_usd=cost_usd)
    record = make_record(f"ev_{work.job.batch}_{position}", usage=usage, **changes)
    return FinishedCandidate(work.job, entry, record, None, usage, (f"key-{position}", "key-shared"))


def fail(work: Work, position: int) -> FinishedCandidate:
    """A failure in the place of an evaluation."""
    entry = next(entry for entry, _ in work.todo if entry.position == position)
    return FinishedCandidate(
        work.job, entry, None, Failure(code="judge-refused-request", detail="…"), calls=("key-failed",)
    )


def finish_all(work: Work, **changes: Any) -> list[FinishedCandidate]:
    return [finish(work, entry.position, **changes) for entry, _ in work.todo[: work.affordable]]


async def claim(store: BatchStore, number: int, owner: str = "w1", batch_id: str = "ba_1") -> Work:
    """A claim that has to succeed."""
    work = await store.claim(ChunkJob(batch_id, number), owner, LEASE)
    assert work is not None
    return work


async def run_chunk(store: BatchStore, number: int, batch_id: str = "ba_1", **changes: Any) -> list[ChunkJob]:
    """Scores a chunk and closes it; the jobs that are ready then."""
    work = await claim(store, number, batch_id=batch_id)
    told = await store.commit("w1", finish_all(work, **changes), [work.job])
    assert not told.lost
    return list(told.ready)
