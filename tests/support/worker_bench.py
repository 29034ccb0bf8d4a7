"""One worker's parts between a real store on SQLite and a fake judge that answers when it is let, in time that is moved."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import Failure
from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql.engine import close_engine, open_engine
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import Judgement, JudgingTask
from saiten_server.runs.attempt import RefusalCounter, RetryPolicy
from saiten_server.runs.chunk import ChunkRun, WorkerContext
from saiten_server.runs.commits import CommitBuffer, LeasedChunk
from saiten_server.runs.store.account import read_pause
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.rows import read_failure
from saiten_server.runs.work import AsyncioJobQueue, ChunkJob, Committed, FinishedCandidate, Work
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import Relevance
from tests.support.batches import LEASE, START, claim, make_batch
from tests.support.databases import lay_schema, unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.faults import words
from tests.support.small_rubrics import joint_rubric

RUBRIC = joint_rubric()
OWNER = "w1"
DATABASE_SECONDS = 0.0002
"""Between two looks at whether the database is done."""

SHORT_SECONDS = 0.05
"""Sleeps up to this are over at once: they gather company, and wait for nothing."""


ENGINES: list[AsyncEngine] = []
"""Those of the benches that are open."""


async def turns(number: int = 40) -> None:
    """Lets everything that can go on go on: nothing here waits for anything but the event loop and the database."""
    for _ in range(number):
        await asyncio.sleep(0)
        while any(engine.pool.checkedout() for engine in ENGINES):  # type: ignore[attr-defined]
            await asyncio.sleep(DATABASE_SECONDS)


class HandTime:
    """Time that goes only when it is moved, for clocks and sleepers alike."""

    def __init__(self) -> None:
        self.now = START
        self._sleepers: list[tuple[datetime, asyncio.Event]] = []

    def __call__(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds <= SHORT_SECONDS:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        self._sleepers.append((self.now + timedelta(seconds=seconds), woken))
        await woken.wait()

    async def move(self, seconds: float, step: float = 0.25) -> None:
        """In small steps, so that everybody does in time what is due in between."""
        ends = self.now + timedelta(seconds=seconds)
        while self.now < ends:
            self.now = min(ends, self.now + timedelta(seconds=step))
            for due, woken in self._sleepers:
                if due <= self.now:
                    woken.set()
            self._sleepers = [one for one in self._sleepers if one[0] > self.now]
            await turns()

    async def move_until(self, task: Awaitable[Any], most: float = 3600) -> None:
        """On and on until the task has ended, as its threads may take longer than the moves before took."""
        running, ends = asyncio.ensure_future(task), self.now + timedelta(seconds=most)
        while not running.done() and self.now < ends:
            await self.move(1)
        assert running.done(), f"still running after {most} s"
        await running


class HeldJudge(FakeJudge):
    """Answers at once, or only what is let go where it is told to hold. `held` are the responses that wait, in the order
    of asking. `errors` are raised by response, an `outage` for each."""

    def __init__(self, *, hold: bool = False) -> None:
        super().__init__()
        self.holds = hold
        self._waiting: list[tuple[str, asyncio.Event]] = []
        self.errors: dict[str, Exception] = {}
        self.outage: Exception | None = None
        self.cancelled: list[str] = []

    async def judge(self, task: JudgingTask) -> Judgement:
        response = task.dialogue.response
        if task.scope.announce is not None:
            await task.scope.announce()
        if self.holds:
            waiting = (response, asyncio.Event())
            self._waiting.append(waiting)
            try:
                await waiting[1].wait()
            except asyncio.CancelledError:
                self.cancelled.append(response)
                raise
            finally:
                self._waiting.remove(waiting)
        if error := self.outage or self.errors.get(response):
            self.tasks.append(task)
            raise error
        return await super().judge(task)

    def let_go(self, *responses: str) -> None:
        """These, or all that wait now."""
        for response, event in self._waiting:
            if not responses or response in responses:
                event.set()

    def let_all_go(self) -> None:
        """Holds nothing any more."""
        self.holds = False
        self.let_go()

    @property
    def held(self) -> list[str]:
        return [response for response, _ in self._waiting]

    @property
    def judged(self) -> list[str]:
        return [task.dialogue.response for task in self.tasks]


class BatchRow(SimpleNamespace):
    """A batch as the database has it at this moment: the columns of `batches`, and what hangs on them."""

    def __init__(self, database: sqlite3.Connection, batch_id: str) -> None:
        [row] = database.execute("SELECT * FROM batches WHERE id = ?", [batch_id])
        super().__init__(**row)
        self.pause = (row["pause_reason"], None if (why := read_pause(row["pause_detail"])) is None else str(why))
        chunks = database.execute("SELECT * FROM batch_chunks WHERE batch_id = ? ORDER BY number", [batch_id])
        self.chunks = {one["number"]: SimpleNamespace(**one) for one in chunks}
        items = database.execute("SELECT position, tries FROM batch_items WHERE batch_id = ? AND tries", [batch_id])
        self.tries = {one["position"]: one["tries"] for one in items}


class WatchedStore(BatchStore):
    """A store that remembers its commits, and can be away: then everything that a worker asks of it fails. `gate` holds
    commits back. `path` is its file, which tests look into."""

    def __init__(self, engine: AsyncEngine, path: Path, clock: Callable[[], datetime], window: int) -> None:
        super().__init__(engine, clock=clock, window=window)
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.tried = 0
        self.commits: list[tuple[list[int], list[ChunkJob]]] = []
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable(words("the store cannot be reached"))

    async def claim(self, job: ChunkJob, owner: str, lease_seconds: float, begun: int = 0, **how: Any) -> Work | None:
        self._check()
        return await super().claim(job, owner, lease_seconds, begun, **how)

    async def renew(self, owner: str, jobs: Sequence[ChunkJob], lease_seconds: float) -> Committed:
        self._check()
        return await super().renew(owner, jobs, lease_seconds)

    async def commit(
        self, owner: str, finished: Sequence[FinishedCandidate], closed: Sequence[ChunkJob], *begun: Any
    ) -> Committed:
        self.tried += 1
        await self.gate.wait()
        self._check()
        self.commits.append(([one.entry.position for one in finished], list(closed)))
        return await super().commit(owner, finished, closed, *begun)

    async def sweep(self, window: int, patience_seconds: float) -> list[ChunkJob]:
        self._check()
        return await super().sweep(window, patience_seconds)

    def look(self, batch_id: str = "ba_1") -> BatchRow:
        """The batch as it stands in the database."""
        return BatchRow(self._database, batch_id)

    def failures(self, batch_id: str = "ba_1") -> dict[int, Failure | None]:
        """Each candidate that has a result, with its failure if it has one."""
        rows = self._database.execute(
            "SELECT position, failure FROM evaluations WHERE batch_id = ? ORDER BY position", [batch_id]
        )
        return {one["position"]: read_failure(one["failure"]) for one in rows}

    def statuses(self, batch_id: str = "ba_1") -> dict[int, str]:
        """What became of each candidate that has a result: its status, or the code of its failure."""
        rows = self._database.execute("SELECT position, status FROM evaluations WHERE batch_id = ?", [batch_id])
        status = {one["position"]: one["status"] for one in rows}
        return {
            position: failure.code if failure else status[position]
            for position, failure in self.failures(batch_id).items()
        }

    def close(self) -> None:
        self._database.close()


@dataclass
class Bench:
    """One worker's parts, each at hand."""

    engine: AsyncEngine
    path: Path
    judge: HeldJudge = field(default_factory=HeldJudge)
    places: int = 8
    window: int = 24
    ahead: int = 120
    time: HandTime = field(default_factory=HandTime)

    def __post_init__(self) -> None:
        self.store = WatchedStore(self.engine, self.path, self.time, self.window)
        self.queue = AsyncioJobQueue()
        self.cache = DictCache()
        self.telemetry = FakeTelemetry()
        numbers = count()
        self.instruments = ScoringContext(
            rubrics=FakeRubrics([RUBRIC]),
            judge=self.judge,
            translator=None,
            relevance=Relevance(FakeEncoder(), unused_store(), CachedCalls(self.cache, self.telemetry)),
            telemetry=self.telemetry,
            speech=FakeSpeech(),
            now=self.time,
            new_id=lambda: f"ev_{next(numbers)}",
            lane="batch",
        )
        self.buffer = CommitBuffer(
            self.store,
            self.queue,
            self.cache,
            owner=OWNER,
            lease_seconds=LEASE,
            ahead=self.ahead,
            sleep=self.time.sleep,
        )
        self.context = WorkerContext(
            owner=OWNER,
            store=self.store,
            buffer=self.buffer,
            instruments=self.instruments,
            telemetry=self.telemetry,
            retries=RetryPolicy(sleep=self.time.sleep, spread=lambda _, most: most),
            places=asyncio.Semaphore(self.places),
            outbox=asyncio.Semaphore(self.places),
            alone=asyncio.Lock(),
            refusals=RefusalCounter(),
        )

    async def post(self, count: int, batch_id: str = "ba_1", **options: Any) -> None:
        """An accepted batch, without similarities: they need no judge."""
        await make_batch(self.store, batch_id, count, **{"rubric": RUBRIC.id, "relevance": None, **options})

    async def lease(self, chunk: int = 0, batch_id: str = "ba_1") -> tuple[Work, LeasedChunk]:
        """A chunk of this worker."""
        work = await claim(self.store, chunk, OWNER, batch_id)
        return work, self.buffer.add(work.job)

    def begin(self, work: Work, leased: LeasedChunk) -> asyncio.Task[None]:
        """The run of a leased chunk, closed at its end."""

        async def run() -> None:
            try:
                await ChunkRun(work, leased, self.context, asyncio.Event()).run()
            finally:
                await self.buffer.close(leased)

        return asyncio.create_task(run())


MakeBench = Callable[..., Awaitable[Bench]]
"""Takes the arguments of a bench but its database."""


@asynccontextmanager
async def open_bench(path: Path, **arguments: Any) -> AsyncIterator[Bench]:
    """A bench with an empty database in that file."""
    url = f"sqlite+aiosqlite:///{path}"
    lay_schema(url)
    engine = open_engine(url)
    ENGINES.append(engine)
    made = Bench(engine, path, **arguments)
    try:
        yield made
    finally:
        ENGINES.remove(engine)
        made.store.close()
        await close_engine(engine)
