"""What is made at first use: once, in a thread, and for all who ask."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from saiten_server.providers.openai.batches import OpenAIProviderBatches
from saiten_server.providers.openai.judge import FirstUse
from tests.support.fake_openai import FakeOpenAI
from tests.support.judges import make_judge, make_task
from tests.support.waiting import LIMIT_SECONDS

PATIENCE_SECONDS = LIMIT_SECONDS


class Made:
    def __init__(self) -> None:
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


class Maker:
    """Makes nothing before it is let go, and notes in which threads it was asked to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = [*failures]
        self.go = threading.Event()
        self.threads: list[int] = []

    def __call__(self) -> Made:
        self.threads.append(threading.get_ident())
        if not self.go.wait(PATIENCE_SECONDS):
            raise TimeoutError("nobody lets it go")
        if self.failures:
            raise self.failures.pop(0)
        return Made()


async def until(met: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not met():
            await asyncio.sleep(0.001)


async def test_all_who_ask_at_once_share_one_and_the_loop_goes_on() -> None:
    maker = Maker()
    use = FirstUse(maker)
    asking = [asyncio.create_task(use.get()) for _ in range(50)]
    await until(lambda: maker.threads)
    # The loop is here, while the maker waits.
    assert not any(one.done() for one in asking)
    maker.go.set()
    found = await asyncio.gather(*asking)
    assert len({id(one) for one in found}) == 1
    assert len(maker.threads) == 1
    assert maker.threads[0] != threading.get_ident()
    assert await use.get() is use.made is found[0]
    assert len(maker.threads) == 1


async def test_whoever_gives_up_takes_nothing_along() -> None:
    maker = Maker()
    use = FirstUse(maker)
    first = asyncio.create_task(use.get())
    await until(lambda: maker.threads)
    second = asyncio.create_task(use.get())
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    maker.go.set()
    assert await second is use.made


async def test_a_failure_is_told_and_the_next_who_asks_tries_again() -> None:
    maker = Maker(ImportError("no such package"))
    maker.go.set()
    use = FirstUse(maker)
    with pytest.raises(ImportError, match="no such package"):
        await use.get()
    assert use.made is None
    assert isinstance(await use.get(), Made)


async def test_only_what_was_made_is_closed() -> None:
    maker = Maker()
    maker.go.set()
    use = FirstUse(maker)
    await use.close()
    assert maker.threads == []
    made = await use.get()
    await use.close()
    assert made.closed == 1


async def test_what_nobody_asked_can_be_closed() -> None:
    judge, batches = make_judge("http://127.0.0.1:9/v1"), OpenAIProviderBatches(api_key="k", base_url=None)
    await judge.close()
    await batches.close()
    assert (judge._endpoint.made, batches._client.made) == (None, None)


class NoReplies:
    async def find(self, key: str) -> None:
        return None


async def test_a_judge_and_the_one_made_of_it_ask_over_one_line() -> None:
    async with FakeOpenAI() as fake:
        judge = make_judge(fake.base_url)
        of_it = judge.answered_by(NoReplies(), "live")
        await asyncio.gather(judge.judge(make_task(language="ja")), of_it.judge(make_task(language="en")))
        assert len(fake.requests) == 2
        assert of_it._endpoint is judge._endpoint
        await judge.close()
