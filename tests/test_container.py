"""The service's own worker: when it works, and how it ends."""

import asyncio
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from saiten_server import container
from saiten_server.container import warm_up, warming, working
from saiten_server.platform.settings import Settings
from saiten_server.platform.tasks import WARM_SECONDS
from saiten_server.providers import registry
from tests.support.waiting import LIMIT_SECONDS


class SlowToEnd:
    """A worker with something in hand, which ends when it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ending = asyncio.Event()
        self.go = asyncio.Event()
        self.watching = False
        self.finished = False

    async def watch(self) -> None:
        self.watching = True
        try:
            await asyncio.Event().wait()
        finally:
            self.watching = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.go.wait()
            self.finished = True


def serving(worker: Any, redis_url: str | None = None) -> Any:
    return SimpleNamespace(settings=SimpleNamespace(redis_url=redis_url), worker=worker)


@pytest.mark.parametrize("told", [True, False])
async def test_what_is_in_hand_finishes_however_the_service_ends(told: bool) -> None:
    worker, stopping, leave = SlowToEnd(), asyncio.Event(), asyncio.Event()

    async def serve() -> None:
        async with working(serving(worker), stopping):
            await leave.wait()

    service = asyncio.create_task(serve())
    await worker.begun.wait()
    if told:
        # A stop that was told begins while requests are still answered; then the service ends.
        stopping.set()
        await worker.ending.wait()
    leave.set()
    await worker.ending.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not service.done()
    worker.go.set()
    await service
    assert worker.finished


async def test_where_workers_have_a_queue_of_their_own_the_service_only_watches() -> None:
    worker = SlowToEnd()
    async with working(serving(worker, "redis://localhost"), asyncio.Event()):
        await asyncio.sleep(0)
        assert worker.watching
        assert not worker.begun.is_set()
    assert not worker.watching


async def test_a_watch_that_loses_its_cancellation_holds_no_end_up() -> None:
    """As one does that asks Redis in that moment, see `cancel_for_good`."""
    begun, ended = asyncio.Event(), False

    async def watch() -> None:
        nonlocal ended
        begun.set()
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
        finally:
            ended = True

    service = serving(SimpleNamespace(watch=watch), "redis://localhost")
    async with asyncio.timeout(LIMIT_SECONDS), working(service, asyncio.Event()):
        await begun.wait()
    assert ended


async def test_patterns_and_clients_are_loaded_a_while_after_the_start_and_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    course: list[Any] = []

    async def sleep(seconds: float) -> None:
        course.append(seconds)

    monkeypatch.setattr(registry, "load_clients", lambda _: course.append(threading.get_ident()))
    monkeypatch.setattr(container, "prepare_inspection", lambda: course.append(threading.get_ident()))
    await warm_up(Settings(), sleep=sleep)
    waited, *threads = course
    assert waited == WARM_SECONDS > 0
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_a_client_that_cannot_be_loaded_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Settings) -> None:
        raise ModuleNotFoundError("No module named 'openai'")

    async def sleep(_: float) -> None:
        return

    monkeypatch.setattr(registry, "load_clients", fail)
    await warm_up(Settings(), sleep=sleep)
    assert "cannot be loaded" in caplog.text
    assert "No module named 'openai'" in caplog.text


async def test_a_service_that_ends_at_once_loads_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Settings] = []
    monkeypatch.setattr(registry, "load_clients", loaded.append)
    async with warming(Settings()):
        await asyncio.sleep(0)
    assert loaded == []
