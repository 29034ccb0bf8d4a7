"""A `ProviderRun` between a real database and a fake provider, and ways to kill it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions, Candidate, request_of
from saiten_server.core.evaluation import Record
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.openai.batches import OpenAIProviderBatches
from saiten_server.providers.openai.judge import OpenAIJudge
from saiten_server.runs.provider_run import PartLimits, ProviderRun
from saiten_server.runs.store.provider_batches import ProviderBatchStore
from saiten_server.runs.work import ChunkJob
from saiten_server.scoring.evaluate import ScoringContext, evaluate
from saiten_server.scoring.relevance import Relevance
from tests.support.databases import unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_provider_batch import FakeProviderBatch
from tests.support.fake_rubrics import FakeRubrics
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.fake_translator import FakeTranslator
from tests.support.held_batches import HeldBatches
from tests.support.judges import make_judge
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue

KEY = "saiten0123456789abcdef"
LEASE_SECONDS, POLL_SECONDS = 60.0, 30.0


class Clock:
    """Stands still until it is put forward."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    def timestamp(self) -> float:
        return self.now.timestamp()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Killed(BaseException):
    """The process is gone: not even a `finally` reaches anything outside."""


@dataclass
class Death:
    """Kills at the call `at`, counted from 0 over all that is `mortal`: before it does its work, or after it."""

    at: int | None = None
    after: bool = False
    calls: list[str] = field(default_factory=list)
    dead: bool = False

    def strike(self, name: str, *, after: bool) -> None:
        if not after:
            if not self.dead:
                self.calls.append(name)
            if self.dead or (self.at == len(self.calls) - 1 and not self.after):
                self.dead = True
                raise Killed(name)
        elif self.at == len(self.calls) - 1 and self.after:
            self.dead = True
            raise Killed(name)


class Mortal:
    """A port through which its user can be killed, at each call and at each piece of what is read."""

    PURE = ("line", "concede")
    STREAMS = ("answers",)

    def __init__(self, port: Any, death: Death) -> None:
        self._port = port
        self._death = death

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name in self.PURE:
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            self._death.strike(name, after=False)
            result = await method(*arguments, **options)
            self._death.strike(name, after=True)
            return result

        async def stream(*arguments: Any) -> AsyncIterator[Any]:
            async for one in method(*arguments):
                self._death.strike(name, after=False)
                yield one

        return stream if name in self.STREAMS else call


class KeptQueue:
    """Keeps the jobs that are put."""

    def __init__(self) -> None:
        self.jobs: list[ChunkJob] = []

    async def put(self, jobs: Sequence[ChunkJob]) -> None:
        self.jobs += jobs


class Instead:
    """A port with these methods in the place of its own."""

    def __init__(self, port: Any, **methods: Any) -> None:
        self._port = port
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@dataclass
class ProviderBench:
    """Everything that a test of the provider's batch mode may look at."""

    fake: FakeProviderBatch
    store: HeldBatches
    provider_batches: ProviderBatchStore
    provider: OpenAIProviderBatches
    judge: OpenAIJudge
    cache: DictCache
    translator: FakeTranslator
    instruments: ScoringContext
    clock: Clock
    queue: KeptQueue
    limits: PartLimits

    def run(self, owner: str = "worker", death: Death | None = None, **options: Any) -> ProviderRun:
        """One process."""
        ports: dict[str, Any] = {
            "store": self.store,
            "provider_batches": self.provider_batches,
            "provider": self.provider,
        }
        if death is not None:
            ports = {name: Mortal(port, death) for name, port in ports.items()}
        chosen: dict[str, Any] = {
            "queue": self.queue,
            "judge": self.judge,
            "cache": self.cache,
            "instruments": self.instruments,
            "owner": owner,
            "limits": self.limits,
            "poll_seconds": POLL_SECONDS,
            "lease_seconds": LEASE_SECONDS,
        }
        return ProviderRun(**chosen | ports | options)

    async def add(self, count: int, **options: Any) -> str:
        """A held batch of so many different candidates."""
        chosen = BatchOptions(**{"rubric": "test-dialogue", "mode": "provider-batch", "relevance": None} | options)
        return await self.store.add(chosen, [make_candidate(number) for number in range(count)])

    async def step(self, batch_id: str, times: int = 1, run: ProviderRun | None = None) -> None:
        """Steps, with the time between them that a sweep would let pass."""
        run = run or self.run()
        for _ in range(times):
            self.clock.advance(LEASE_SECONDS + POLL_SECONDS)
            await run.step(batch_id)

    def end(self, status: str = "completed") -> None:
        """All that the provider has, ends."""
        for batch_id, batch in self.fake.batches.items():
            if batch["status"] == "in_progress":
                self.fake.end(batch_id, status)

    async def score(self, batch_id: str) -> list[Record]:
        """Every candidate's record, as the live runner makes it once the batch is let go."""
        held = self.store[batch_id]
        tools = self.run().instruments_for(batch_id, held.options, self.instruments)
        return [await evaluate(request_of(held.options, candidate), tools) for _, candidate in held.candidates]

    async def score_live(self, batch_id: str) -> list[Record]:
        """The same with live calls, and with nothing in the cache."""
        held = self.store[batch_id]
        judge = make_judge(self.fake.base_url)
        tools = ScoringContext(**{**vars(self.instruments), "judge": judge})
        records = [await evaluate(request_of(held.options, candidate), tools) for _, candidate in held.candidates]
        await judge.close()
        return records

    def released(self, batch_id: str) -> bool:
        """Whether the batch was let go, and its chunks were put on the queue once."""
        return self.queue.jobs.count(ChunkJob(batch_id, 0)) == 1

    def asked(self) -> list[str]:
        """The key of every call that the provider was asked to make, in whichever batch."""
        return [line["custom_id"] for one in self.fake.batches for line in self.fake.lines_of(one)]


def make_candidate(number: int) -> Candidate:
    dialogue = make_dialogue(f"いいですね。{number}番の店に寄りましょう。")
    return Candidate(context=dialogue.context, response=dialogue.response)


@asynccontextmanager
async def open_bench(
    engine: AsyncEngine, *, requests: int = 50_000, model: str = "gpt-6-luna", new_id: Callable[[], str] = lambda: "ev"
) -> AsyncIterator[ProviderBench]:
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(FakeProviderBatch())
        clock, cache, translator = Clock(), DictCache(), FakeTranslator()
        fake.clock = clock.timestamp
        calls = CachedCalls(cache, FakeTelemetry())
        judge = make_judge(fake.base_url, cache, calls=calls, model=model)
        stack.push_async_callback(judge.close)
        provider = OpenAIProviderBatches(api_key=KEY, base_url=fake.base_url)
        stack.push_async_callback(provider.close)
        instruments = ScoringContext(
            rubrics=FakeRubrics([joint_rubric(), independent_rubric()]),
            judge=judge,
            translator=translator,
            relevance=Relevance(None, unused_store(), calls),
            telemetry=FakeTelemetry(),
            speech=FakeSpeech(),
            now=clock,
            new_id=new_id,
            lane="batch",
        )
        yield ProviderBench(
            fake=fake,
            store=HeldBatches(engine),
            provider_batches=ProviderBatchStore(engine, clock=clock),
            provider=provider,
            judge=judge,
            cache=cache,
            translator=translator,
            instruments=instruments,
            clock=clock,
            queue=KeptQueue(),
            limits=PartLimits(requests=requests),
        )
