"""What callers do with batches, below HTTP: accepted means kept, erased means forgotten."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import Batch, KeyedAnswer
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import (
    BatchFinished,
    InvalidRequest,
    NotFound,
    QueueLimitReached,
    RubricNotSupported,
    StoreUnavailable,
    UnknownRubric,
)
from saiten_server.platform.sql.engine import open_engine
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import JudgingEstimate, JudgingTask
from saiten_server.runs.intake import Spool
from saiten_server.runs.service import BatchService, QueueLimits
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import ChunkJob, JobQueue, QueueUnavailable
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import Relevance
from saiten_server.scoring.store import EvaluationStore
from tests.support.databases import unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.fake_translator import FakeTranslator
from tests.support.faults import words
from tests.support.small_rubrics import joint_rubric

RUBRIC = joint_rubric()
SHOWING = RUBRIC.model_copy(update={"id": "showing", "references": True})
CONTEXT = [{"speaker": "甲", "text": "おはよう"}]


class FakeQueue:
    """Keeps what is put; `away` makes it raise."""

    def __init__(self) -> None:
        self.jobs: list[ChunkJob] = []
        self.away = False

    async def put(self, jobs: Sequence[ChunkJob]) -> None:
        if self.away:
            raise QueueUnavailable("the queue is away")
        self.jobs += jobs

    async def work(self, *_: object) -> None:
        raise NotImplementedError

    async def depth(self) -> int:
        return len(self.jobs)

    async def close(self) -> None:
        return


class FragileCache(DictCache):
    """Fails to forget after the first `good` times."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good
        self.forgotten: list[str] = []

    async def forget(self, keys: Sequence[str]) -> None:
        if self.good == 0:
            raise StoreUnavailable(words("the cache is away"))
        self.good -= 1
        self.forgotten += keys


class UnwillingJudge(FakeJudge):
    """Rates no rubric."""

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        raise RubricNotSupported(words("not this one"))


class UnpricedJudge(FakeJudge):
    """Does not know what it costs."""

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        return replace(super().estimate(task), cost_usd=None)


class Desk:
    """A desk before a real store, with what it stands on."""

    def __init__(
        self, store: BatchStore, answers: EvaluationStore, judge: FakeJudge, limits: QueueLimits | None = None
    ) -> None:
        names = (f"ba_{number}" for number in count(1))
        self.store, self.answers, self.queue = store, answers, FakeQueue()
        telemetry = FakeTelemetry()
        self._instruments = ScoringContext(
            rubrics=FakeRubrics([RUBRIC, SHOWING]),
            judge=judge,
            translator=FakeTranslator(),
            relevance=Relevance(FakeEncoder(), unused_store(), CachedCalls(DictCache(), telemetry)),
            telemetry=telemetry,
            speech=FakeSpeech(),
            now=lambda: datetime(2026, 11, 21, tzinfo=UTC),
            new_id=lambda: "ev_1",
        )
        queue: JobQueue = self.queue
        self.desk = BatchService(
            store=store,
            queue=queue,
            instruments=self._instruments,
            cache=DictCache(),
            limits=DEFAULT_LIMITS,
            new_id=lambda: next(names),
            window=2,
            queue_limits=limits or QueueLimits(),
        )

    async def accept(self, *items: dict[str, Any], key: str | None = None, **options: Any) -> Batch:
        """A batch of these items, or of 50."""
        chosen = items or [{"context": CONTEXT, "response": f"はい{number}"} for number in range(50)]
        body = json.dumps({"rubric": RUBRIC.id, **options, "items": chosen}).encode()
        keep = None if key is None else lambda batch: KeyedAnswer(key, 202, batch.model_dump_json().encode())
        async with Spool() as spool:
            intake = await self.desk.take_in(stream(body), spool, ndjson=False)
            return await self.desk.accept("p", intake, keep)


async def stream(body: bytes) -> AsyncIterator[bytes]:
    yield body


@pytest.fixture
def judge() -> FakeJudge:
    return FakeJudge()


@pytest.fixture
async def site(sqlite_url: str, judge: FakeJudge) -> AsyncIterator[Desk]:
    engine = open_engine(sqlite_url)
    yield Desk(BatchStore(engine, window=2), EvaluationStore(engine), judge)
    await engine.dispose()


async def test_an_accepted_batch_is_what_the_store_holds_and_is_queued(site: Desk, judge: FakeJudge) -> None:
    batch = await site.accept(name="夜間", metadata={"k": "v"})
    assert await site.desk.find("p", batch.id) == batch
    assert (batch.status, batch.counts.total) == ("queued", 50)
    # No more than the window, however many chunks there are.
    assert site.queue.jobs == [ChunkJob("ba_1", 0), ChunkJob("ba_1", 1)]
    assert judge.tasks == []


async def test_a_queue_that_is_away_is_no_reason_to_refuse(site: Desk, caplog: pytest.LogCaptureFixture) -> None:
    site.queue.away = True
    batch = await site.accept()
    assert (await site.desk.find("p", batch.id)).status == "queued"
    assert "wait for the queue" in caplog.text
    await site.desk.pause("p", batch.id)
    assert (await site.desk.resume("p", batch.id)).status == "queued"


@pytest.mark.parametrize("reason", ["requested", "judge-quota-exhausted"])
async def test_what_is_resumed_needs_room_whoever_paused_it(sqlite_url: str, judge: FakeJudge, reason: str) -> None:
    engine = open_engine(sqlite_url)
    site = Desk(BatchStore(engine, window=2), EvaluationStore(engine), judge, QueueLimits(project=60))
    first = await site.accept()
    await site.store.pause(first.id, reason, words("…"))
    second = await site.accept()
    put = len(site.queue.jobs)
    with pytest.raises(QueueLimitReached):
        await site.desk.resume("p", first.id)
    assert (await site.desk.find("p", first.id)).pause_reason == reason
    assert len(site.queue.jobs) == put
    with pytest.raises(NotFound):
        await site.desk.resume("others", first.id)
    # That which waits is among those that are counted.
    assert (await site.desk.resume("p", second.id)).status == "queued"
    await site.desk.cancel("p", second.id)
    with pytest.raises(BatchFinished):
        await site.desk.resume("p", second.id)
    assert (await site.desk.resume("p", first.id)).status == "queued"
    await engine.dispose()


async def test_the_answer_is_kept_with_the_batch(site: Desk) -> None:
    assert await site.answers.claim_key("p", "k1", "digest") is None
    batch = await site.accept(key="k1")
    held = await site.answers.claim_key("p", "k1", "digest")
    assert held is not None
    assert (held.status, held.body) == (202, batch.model_dump_json().encode())


@pytest.mark.parametrize(
    ("kind", "options", "error", "pointer"),
    [
        (UnwillingJudge, {}, RubricNotSupported, None),
        (UnpricedJudge, {"budget_usd": 1.0}, InvalidRequest, "/budget_usd"),
        (FakeJudge, {"rubric": "none"}, UnknownRubric, "/rubric"),
        (FakeJudge, {"relevance": {"aspects": ["charm"]}}, InvalidRequest, "/relevance/aspects/0"),
    ],
)
async def test_what_cannot_be_scored_is_refused_and_nothing_stays(
    sqlite_url: str, kind: type[FakeJudge], options: dict[str, Any], error: type[Exception], pointer: str | None
) -> None:
    engine = open_engine(sqlite_url)
    site = Desk(BatchStore(engine, window=2), EvaluationStore(engine), kind())
    with pytest.raises(error) as caught:
        await site.accept(**options)
    assert getattr(caught.value, "pointer", None) == pointer
    with pytest.raises(NotFound):
        await site.desk.find("p", "ba_1")
    assert site.queue.jobs == []
    await engine.dispose()


async def test_a_reference_that_nobody_translates_is_pointed_at(site: Desk) -> None:
    plain = {"context": CONTEXT, "responses": ["はい", "いいえ"]}
    with pytest.raises(InvalidRequest) as caught:
        await site.accept(plain, plain, {**plain, "reference": "うん"}, rubric="showing", path="english")
    assert caught.value.pointer == "/items/2/reference"
    await site.accept(plain, {**plain, "reference": "うん"}, rubric="showing")


async def test_erasing_twice_is_not_found(site: Desk) -> None:
    batch = await site.accept()
    with pytest.raises(NotFound):
        await site.desk.erase("others", batch.id)
    await site.desk.erase("p", batch.id)
    with pytest.raises(NotFound):
        await site.desk.erase("p", batch.id)


async def test_an_erasure_that_the_cache_interrupts_is_completed_later(engine: AsyncEngine) -> None:
    store, cache = BatchStore(engine), FragileCache(good=1)
    calls = [f"call{number:04}" for number in range(2500)]
    await store.note_erased_calls(calls)
    with pytest.raises(StoreUnavailable):
        await store.settle_erasures(cache)
    assert len(await store.list_erased_calls(5000)) == 1500
    cache.good = 10
    await store.settle_erasures(cache)
    assert cache.forgotten == calls
    assert await store.list_erased_calls(1) == ()


async def test_a_batch_is_pinned_to_the_version_that_was_the_newest_when_it_came(site: Desk) -> None:
    batch = await site.accept()
    assert (batch.rubric, batch.rubric_version) == (RUBRIC.id, RUBRIC.version)
    options = await site.store.options("p", batch.id)
    assert options is not None
    assert options.rubric == f"{RUBRIC.id}@{RUBRIC.version}"
    found = await site.desk.find("p", batch.id)
    assert (found.rubric, found.rubric_version) == (RUBRIC.id, RUBRIC.version)
