"""A connection that is lost costs a caller nothing: what was begun goes on, once, and is taken up again."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import saiten
from saiten.connection import Connection
from saiten.following import PATIENCE_SECONDS, Follower
from tests.support.both_clients import Kind, client_of
from tests.support.command import environment
from tests.support.cutting_proxy import CuttingProxy
from tests.support.fake_openai import FakeOpenAI, hang
from tests.support.posted import make_item, wait_for
from tests.support.services import free_port
from tests.support.serving import serving
from tests.support.waiting import LIMIT_SECONDS

ITEMS = [make_item(number) for number in range(3)]


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as found:
        yield found


def settings_of(fake: FakeOpenAI) -> dict[str, Any]:
    return {"judge": "openai", "openai_base_url": fake.base_url, "drain_seconds": 0}


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_run_is_taken_up_again_after_a_cut(tmp_path: Path, kind: Kind, fake: FakeOpenAI) -> None:
    fake.script(hang)
    async with (
        serving(tmp_path, **settings_of(fake)) as service,
        CuttingProxy(str(service.base_url)) as proxy,
        client_of(kind, proxy.url) as client,
    ):
        running = asyncio.create_task(client.run(ITEMS))
        await until(lambda: proxy.asked("/events") == 1 and fake.requests)
        proxy.cut()
        await until(lambda: proxy.asked("/events") == 2)
        fake.drop_connections()
        run = await running
        assert (run.summary.coverage.share, len(await client.batches())) == (1, 1)


async def test_a_stream_that_is_cut_before_its_first_event_is_taken_up_again(
    tmp_path: Path, kind: Kind, fake: FakeOpenAI
) -> None:
    fake.script(hang)
    async with (
        serving(tmp_path, **settings_of(fake)) as service,
        CuttingProxy(str(service.base_url)) as proxy,
        client_of(kind, proxy.url) as client,
    ):
        proxy.breaks = {"/events": 0}
        running = asyncio.create_task(client.run(ITEMS))
        await until(lambda: proxy.asked("/events") == 2)
        fake.drop_connections()
        assert (await running).summary.coverage.share == 1


async def test_a_run_outlives_a_restart_of_the_service(tmp_path: Path, kind: Kind, fake: FakeOpenAI) -> None:
    port = free_port()
    settings = settings_of(fake)
    fake.default = hang
    async with client_of(kind, f"http://127.0.0.1:{port}") as client:
        async with serving(tmp_path, port, **settings):
            running = asyncio.create_task(client.run(ITEMS))
            await until(lambda: fake.requests)
            fake.default = FakeOpenAI().default
            # A service that stops finishes its calls first: this one once it does not listen any more.
            asyncio.get_running_loop().call_later(0.5, fake.drop_connections)
        assert not running.done()
        async with serving(tmp_path, port, **settings):
            assert (await running).summary.coverage.share == 1


async def test_what_is_posted_is_taken_once_although_its_answer_is_lost(tmp_path: Path, kind: Kind) -> None:
    async with (
        serving(tmp_path, judge="lexical") as service,
        CuttingProxy(str(service.base_url)) as proxy,
        client_of(kind, proxy.url) as client,
    ):
        proxy.breaks = {"POST /v1/batches": 10, "POST /v1/evaluations": 0, "POST /v1/ratings": 0}
        await client.run(ITEMS)
        await client.evaluate(context=["やあ"], response="はい")
        added = await client.add_ratings([{"item": "i1", "rater": "r1", "ratings": {"overall": 1}}])
        assert proxy.breaks == {}
        assert proxy.asked("POST /v1/batches") == proxy.asked("POST /v1/evaluations") == 2
        assert (len(await client.batches()), added.added) == (1, 1)


async def test_results_are_read_on_where_they_broke_off(tmp_path: Path, kind: Kind) -> None:
    async with (
        serving(tmp_path, judge="lexical") as service,
        CuttingProxy(str(service.base_url)) as proxy,
        client_of(kind, proxy.url) as client,
    ):
        run = await client.run([make_item(number) for number in range(200)])
        proxy.breaks = {"/results?after=-1 ": 40_000}
        assert [row.position for row in await run.results()] == [*range(200)]
        assert (proxy.breaks, proxy.asked("/results")) == ({}, 2)


async def test_an_interrupted_run_is_paused_and_can_be_resumed(tmp_path: Path, fake: FakeOpenAI) -> None:
    fake.default = hang
    async with serving(tmp_path, **settings_of(fake)) as service, saiten.AsyncClient(str(service.base_url)) as client:
        running = asyncio.create_task(client.run(ITEMS))
        await until(lambda: fake.requests)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (batch,) = [batch async for batch in client.batches()]
        assert batch.status == "paused"
        with pytest.raises(saiten.BatchStopped, match="paused after 0 of 3 candidates"):
            await client.wait(batch)
        fake.default = FakeOpenAI().default
        fake.drop_connections()
        await client.resume_batch(batch)
        assert (await client.wait(batch)).summary.coverage.share == 1


CALLER = """
import sys, saiten
client = saiten.Client(sys.argv[1])
client.run([{"context": ["やあ"], "response": "はい"}], progress=lambda batch: print(batch.id, flush=True))
"""


async def test_ctrl_c_pauses_the_run_of_a_blocking_client(tmp_path: Path, fake: FakeOpenAI) -> None:
    fake.default = hang
    async with serving(tmp_path, **settings_of(fake)) as service:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CALLER, str(service.base_url)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
        )
        assert process.stdout is not None
        batch_id = (await process.stdout.readline()).decode().strip()
        await until(lambda: fake.requests)
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert errors.decode().rstrip().endswith("KeyboardInterrupt")
        assert (await wait_for(service, batch_id, "paused"))["pause_reason"]
        fake.default = FakeOpenAI().default
        fake.drop_connections()


# Where events do not come through


class Told:
    """A service that gives these states of a batch, and these answers to who asks for its events, the last for ever."""

    def __init__(self, *states: str, events: list[httpx.Response | Exception]) -> None:
        self.states, self.events = list(states), events
        self.headers: list[str | None] = []
        self.pauses: list[float] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            self.headers.append(request.headers.get("last-event-id"))
            found = self.events.pop(0) if len(self.events) > 1 else self.events[0]
            if isinstance(found, Exception):
                raise found
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if status == "":
            raise httpx.ConnectError("gone", request=request)
        if status.isdigit():
            return httpx.Response(int(status), content=b"<html>")
        return httpx.Response(200, json={"id": "ba_1", "status": status})

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def follow(self, **options: Any) -> list[str]:
        transport = httpx.MockTransport(self.answer)
        async with Connection("http://h", transport=transport, sleep=self.sleep) as connection:
            return [state["status"] async for state in Follower(connection, "ba_1", **options).states()]


def stream(*events: str) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content="".join(events).encode())


def tell(status: str, event: str = "progress", end: str = "\n") -> str:
    lines = [f"event: {event}", f'data: {{"id":"ba_1",{end}data: "status":"{status}"}}', "retry: 2000", "", ""]
    return end.join([*lines[:1], f"id: {event}", *lines[1:]])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_events_are_read_as_they_may_be_written(end: str) -> None:
    service = Told("", events=[stream(": hello\n\n", tell("running", end=end), tell("completed", "completed", end))])
    assert await service.follow() == ["running", "completed"]


@pytest.mark.parametrize(
    "none",
    [
        httpx.Response(404, content=b"<html>"),
        httpx.Response(204),
        httpx.Response(200, content=b"<html>"),
        httpx.ReadTimeout("a proxy that holds everything back"),
        stream('event: progress\ndata: {"stat'),
        stream("data: [\n\n"),
        stream("data: []\n\n"),
        stream("data: 1\n\n"),
    ],
)
async def test_without_events_the_batch_is_asked_for(none: httpx.Response | Exception) -> None:
    service = Told("running", "running", "completed", events=[none])
    assert await service.follow() == ["running", "running", "completed"]
    assert len(service.headers) == 1
    assert service.pauses == [0.1, 0.125]


async def test_a_stream_that_broke_off_is_asked_for_what_came_since() -> None:
    broken, rest = stream(tell("queued", "seven")), stream(tell("running"), tell("completed", "completed"))
    service = Told("running", events=[broken, rest])
    assert await service.follow() == ["queued", "running", "running", "completed"]
    assert service.headers == [None, "seven"]


async def test_an_erased_batch_is_said_to_be_gone() -> None:
    service = Told("404", events=[stream(tell("running"), 'event: erased\ndata: {"id":"ba_1"}\n\n')])
    with pytest.raises(saiten.ServiceRefused) as caught:
        await service.follow()
    assert caught.value.status == 404


@pytest.mark.parametrize("away", ["", "502"])
async def test_a_service_that_is_away_is_waited_for_within_bounds(away: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Told(*[away] * 20, "completed", events=[stream(tell("running")), httpx.ReadError("gone")])
    assert await service.follow() == ["running", "completed"]
    service = Told(away, events=[stream(tell("running")), httpx.ReadError("gone")])
    now = iter(range(0, 10**9, int(PATIENCE_SECONDS / 3)))
    monkeypatch.setattr("saiten.following.time.monotonic", lambda: next(now))
    with pytest.raises((saiten.ServiceUnreachable, saiten.ServiceRefused)):
        await service.follow()


async def test_a_status_that_is_no_text_ends_nothing() -> None:
    odd = stream('data: {"id": "ba_1", "status": []}\n\n')
    assert await Told("completed", events=[odd]).follow() == [[], "completed"]


async def test_an_event_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten.following.MOST_EVENT_CHARACTERS", 100)
    endless = stream("data: x\n" * 100, tell("running"))
    assert await Told("completed", events=[endless]).follow() == ["completed"]
