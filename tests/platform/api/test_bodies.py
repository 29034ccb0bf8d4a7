"""Large bodies that arrive together have a bound, which small ones do not notice; and callers who hang up."""

import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from saiten_server.core.errors import Overloaded
from saiten_server.platform.web.body import FREE_BYTES, BodyMemory, while_connected
from saiten_server.platform.web.problems import RequestRefused
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.serving import judged_by, serving


def test_the_first_bytes_of_each_are_free() -> None:
    bodies = BodyMemory(maximum=10)
    with bodies.arriving() as one, bodies.arriving() as other:
        one(FREE_BYTES)
        other(FREE_BYTES)
        assert bodies.held == 0
        one(FREE_BYTES + 10)
        assert bodies.held == 10
        with pytest.raises(Overloaded) as refused:
            other(FREE_BYTES + 1)
        assert refused.value.retry_after_seconds > 0
    assert bodies.held == 0


def test_what_one_body_leaves_is_there_for_the_next() -> None:
    bodies = BodyMemory(maximum=10)
    for _ in range(3):
        with bodies.arriving() as hold:
            hold(FREE_BYTES + 4)
            hold(FREE_BYTES + 10)
    with pytest.raises(Overloaded), bodies.arriving() as hold:
        hold(FREE_BYTES + 11)
    assert bodies.held == 0


@pytest.mark.parametrize("path", ["/v1/evaluations", "/v1/batches"])
async def test_with_no_room_left_large_bodies_are_refused_and_small_ones_served(
    fake: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("saiten_server.platform.web.body.FREE_BYTES", 2000)
    monkeypatch.setattr("saiten_server.application.BodyMemory", lambda: BodyMemory(maximum=100))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n"
    async with serving(tmp_path, **judged_by(fake)) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(head.encode() + b'{"name": "' + b"a" * 4000)
        said = await asyncio.wait_for(reader.readuntil(b"}"), 15)
        small = await client.post("/v1/evaluations", json=BODY)
        writer.close()
    assert said.startswith(b"HTTP/1.1 503")
    assert b"overloaded" in said
    assert b"retry-after" in said.lower()
    assert small.status_code == 200


async def test_a_caller_who_hangs_up_ends_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        await begun.wait()
        return {"type": "http.disconnect"}

    async def work(*, long: bool) -> str:
        try:
            begun.set()
            await (asyncio.Event().wait() if long else asyncio.sleep(0))
        finally:
            ended.set()
        return "done"

    with pytest.raises(RequestRefused):
        await while_connected(Request({"type": "http"}, receive), work(long=True))
    assert ended.is_set()
    begun.clear()

    async def stay() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    assert await while_connected(Request({"type": "http"}, stay), work(long=False)) == "done"
