"""An OpenAI judge on a fake server, with what a test may want to look at."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import JudgeOptions, Unrated
from saiten_server.core.rubric import Rubric
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.openai.judge import OpenAIJudge
from saiten_server.providers.openai.prices import read_prices
from saiten_server.providers.ports import Judgement, JudgingTask
from tests.support.dict_cache import DictCache
from tests.support.fake_openai import Behaviour, FakeOpenAI, valid
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.small_rubrics import joint_rubric, make_dialogue

KEY = "saiten0123456789abcdef"


@dataclass
class Bench:
    """A judge with the server it asks and the cache between them."""

    judge: OpenAIJudge
    fake: FakeOpenAI
    cache: DictCache

    async def rate(self, *args: Any, **options: Any) -> Judgement:
        return await self.judge.judge(make_task(*args, **options))


def make_judge(base_url: str | None, cache: DictCache | None = None, **settings: Any) -> OpenAIJudge:
    """A judge with short waits: its tests wait for real, but not for long."""
    chosen: dict[str, Any] = {
        "api_key": KEY,
        "base_url": base_url,
        "calls": CachedCalls(cache or DictCache(), FakeTelemetry()),
        "prices": read_prices(),
        "backoff_seconds": 0.001,
        "max_attempts": 4,
    }
    return OpenAIJudge(**chosen | settings)


@asynccontextmanager
async def open_bench(default: Behaviour = valid, **settings: Any) -> AsyncIterator[Bench]:
    cache = DictCache()
    async with FakeOpenAI(default) as fake:
        judge = make_judge(fake.base_url, cache, **settings)
        try:
            yield Bench(judge, fake, cache)
        finally:
            await judge.close()


def make_task(
    rubric: Rubric | None = None,
    dialogue: Dialogue | None = None,
    *,
    language: str = "ja",
    references: tuple[str, ...] = (),
    **options: Any,
) -> JudgingTask:
    return JudgingTask(
        rubric or joint_rubric(), language, dialogue or make_dialogue(), JudgeOptions(**options), references
    )


def ratings_of(judgement: Judgement) -> dict[str, tuple[int | None, ...]]:
    """Each aspect's samples, None where unrated."""
    return {
        aspect_id: tuple(None if isinstance(sample, Unrated) else sample for sample in verdict.samples)
        for aspect_id, verdict in judgement.verdicts.items()
    }


def reasons_of(judgement: Judgement) -> set[str]:
    return {
        sample.reason
        for verdict in judgement.verdicts.values()
        for sample in verdict.samples
        if isinstance(sample, Unrated)
    }


def details_of(judgement: Judgement) -> set[str]:
    """What is said of the unrated samples."""
    return {
        sample.detail
        for verdict in judgement.verdicts.values()
        for sample in verdict.samples
        if isinstance(sample, Unrated)
    }
