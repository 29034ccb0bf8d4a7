"""All that a worker works with, as fakes: a store, a queue, a judge that answers when it is let, and time that is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from app.adapters.asyncio_queue import AsyncioJobQueue
from app.batch_ports import NOTHING_BEGUN, Committed, Finished, Job, Work
from app.batches.chunk import ChunkRun, Floor
from app.batches.doubts import Doubts
from app.batches.ledger import Hold, Ledger
from app.batches.retries import RetryPolicy
from app.call_cache import CachedCalls
from app.domain.errors import StoreUnavailable
from app.pipeline import Instruments
from app.providers.ports import Judgement, JudgingTask
from app.relevance import Relevance
from tests.support.batches import LEASE, START, claim, make_batch
from tests.support.dict_cache import DictCache
from tests.support.fake_batch_store import FakeBatchStore, status_of
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_store import FakeStore
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.small_rubrics import joint_rubric

RUBRIC = joint_rubric()
OWNER = "w1"
SHORT_SECONDS = 0.05
"""Sleeps up to this are over at once: they gather company, and wait for nothing."""


async def turns(number: int = 40) -> None:
    """Lets everything that can go on go on: nothing here waits for anything but the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)


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


class HeldJudge(FakeJudge):
    """Answers at once, or only what is let go where it is told to hold. `held` are the responses that wait, in the order of asking."""

    def __init__(self, *, hold: bool = False) -> None:
        super().__init__()
        self.holds = hold
        self._waiting: list[tuple[str, asyncio.Event]] = []
        self.errors: dict[str, Exception] = {}
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
        if response in self.errors:
            self.tasks.append(task)
            raise self.errors[response]
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


class WatchedStore(FakeBatchStore):
    """Remembers its commits, and can be away: then everything that a worker asks of it fails. `gate` holds commits back."""

    def __init__(self, clock: Callable[[], datetime], window: int) -> None:
        super().__init__(clock=clock, window=window)
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.tried = 0
        self.commits: list[tuple[list[int], list[Job]]] = []

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("the store cannot be reached")

    async def claim(self, job: Job, owner: str, lease_seconds: float, begun: int = 0) -> Work | None:
        self._check()
        return await super().claim(job, owner, lease_seconds, begun)

    async def renew(self, owner: str, jobs: Sequence[Job], lease_seconds: float) -> Committed:
        self._check()
        return await super().renew(owner, jobs, lease_seconds)

    async def commit(
        self,
        owner: str,
        finished: Sequence[Finished],
        closed: Sequence[Job],
        begun: Mapping[Job, int] = NOTHING_BEGUN,
    ) -> Committed:
        self.tried += 1
        await self.gate.wait()
        self._check()
        self.commits.append(([one.entry.position for one in finished], list(closed)))
        return await super().commit(owner, finished, closed, begun)

    async def sweep(self, window: int, patience_seconds: float) -> list[Job]:
        self._check()
        return await super().sweep(window, patience_seconds)

    def statuses(self, batch_id: str = "ba_1") -> dict[int, str]:
        """What became of each candidate that has a result: its status, or the code of its failure."""
        results = self.batches[batch_id].results
        return {
            position: one.failure.code if one.failure else status_of(one) for position, one in sorted(results.items())
        }


@dataclass
class Bench:
    """One worker's parts, each at hand."""

    judge: HeldJudge = field(default_factory=HeldJudge)
    places: int = 8
    window: int = 24
    ahead: int = 120
    time: HandTime = field(default_factory=HandTime)

    def __post_init__(self) -> None:
        self.store = WatchedStore(self.time, self.window)
        self.queue = AsyncioJobQueue()
        self.cache = DictCache()
        self.telemetry = FakeTelemetry()
        numbers = count()
        self.instruments = Instruments(
            rubrics=FakeRubrics([RUBRIC]),
            judge=self.judge,
            translator=None,
            relevance=Relevance(FakeEncoder(), FakeStore(), CachedCalls(self.cache, self.telemetry)),
            telemetry=self.telemetry,
            speech=FakeSpeech(),
            now=self.time,
            new_id=lambda: f"ev_{next(numbers)}",
            lane="batch",
        )
        self.ledger = Ledger(
            self.store,
            self.queue,
            self.cache,
            owner=OWNER,
            lease_seconds=LEASE,
            ahead=self.ahead,
            sleep=self.time.sleep,
        )
        self.floor = Floor(
            owner=OWNER,
            store=self.store,
            ledger=self.ledger,
            instruments=self.instruments,
            telemetry=self.telemetry,
            retries=RetryPolicy(sleep=self.time.sleep, spread=lambda _, most: most),
            places=asyncio.Semaphore(self.places),
            outbox=asyncio.Semaphore(self.places),
            alone=asyncio.Lock(),
            doubts=Doubts(),
        )

    async def post(self, count: int, batch_id: str = "ba_1", **options: Any) -> None:
        """An accepted batch, without similarities: they need no judge."""
        await make_batch(self.store, batch_id, count, **{"rubric": RUBRIC.id, "relevance": None, **options})

    async def lease(self, chunk: int = 0, batch_id: str = "ba_1") -> tuple[Work, Hold]:
        """A chunk of this worker."""
        work = await claim(self.store, chunk, OWNER, batch_id)
        return work, self.ledger.hold(work.job)

    def begin(self, work: Work, hold: Hold) -> asyncio.Task[None]:
        """The run of a leased chunk, closed at its end."""

        async def run() -> None:
            try:
                await ChunkRun(work, hold, self.floor, asyncio.Event()).run()
            finally:
                await self.ledger.close(hold)

        return asyncio.create_task(run())
