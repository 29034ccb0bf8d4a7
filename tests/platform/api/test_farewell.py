"""How a service that stops parts from its callers."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from google.rpc.status_pb2 import Status
from starlette.types import Message, Receive, Scope, Send

from saiten_server.cli.process import bind
from saiten_server.cli.server import SENT_PIECE_BYTES, ConnectionClose, DrainingServer, has_unread, make_server
from saiten_server.platform.settings import Settings
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.waiting import LIMIT_SECONDS

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"keep-alive")]})
    await send({"type": "http.response.body", "body": b"done"})


@pytest.mark.parametrize(
    "size", [1, SENT_PIECE_BYTES, SENT_PIECE_BYTES + 1, 2 * SENT_PIECE_BYTES, 5 * SENT_PIECE_BYTES // 2]
)
async def test_a_long_answer_is_sent_in_pieces(size: int) -> None:
    whole = bytes(range(256)) * (size // 256) + b"." * (size % 256)

    async def answer_at_length(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": whole})

    sent = (await call(answer_at_length, draining=False))[1:]
    assert b"".join(message["body"] for message in sent) == whole
    assert [len(message["body"]) <= SENT_PIECE_BYTES for message in sent] == [True] * len(sent)
    assert [message.get("more_body", False) for message in sent] == [True] * (len(sent) - 1) + [False]


async def cut_off(scope: Scope, receive: Receive, send: Send) -> None:
    raise asyncio.CancelledError


async def begin_and_be_cut_off(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise asyncio.CancelledError


async def call(app: Any, path: str = "/v1/evaluations", *, draining: bool) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope: Scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    scope["state"] = {"request_id": "abc"}
    await ConnectionClose(app, SimpleNamespace(draining=draining))(scope, receive, send)
    return sent


async def test_answers_take_leave_only_while_it_drains() -> None:
    start, body = await call(answer, draining=True)
    assert (start["headers"], body["body"]) == ([(b"connection", b"close")], b"done")
    start, _ = await call(answer, draining=False)
    assert start["headers"] == [(b"connection", b"keep-alive")]


async def test_a_request_that_the_stop_cuts_off_may_be_sent_again() -> None:
    start, body = await call(cut_off, draining=True)
    headers = dict(start["headers"])
    assert (start["status"], headers[b"connection"], headers[b"retry-after"]) == (503, b"close", b"2")
    assert headers[b"x-request-id"] == b"abc"
    assert json.loads(body["body"])["code"] == "stopping"
    # An exporter is told so in its own form.
    start, body = await call(cut_off, "/v1/traces", draining=True)
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"2")
    assert Status.FromString(body["body"]).code == 14


@pytest.mark.parametrize(("app", "draining"), [(cut_off, False), (begin_and_be_cut_off, True)])
async def test_a_cancellation_of_another_kind_goes_on(app: Any, draining: bool) -> None:
    with pytest.raises(asyncio.CancelledError):
        await call(app, draining=draining)


def test_bytes_and_an_end_that_wait_are_seen() -> None:
    ours, theirs = socket.socketpair()
    transport: Any = SimpleNamespace(get_extra_info=lambda _: ours)
    with ours, theirs:
        assert not has_unread(transport)
        theirs.send(b"G")
        assert has_unread(transport)
        ours.recv(1)
        assert not has_unread(transport)
        theirs.close()
        assert has_unread(transport)
    assert not has_unread(transport)


@asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[tuple[DrainingServer, int]]:
    """A server and its port."""
    database = f"sqlite+aiosqlite:///{folder / 'saiten.db'}"
    listener = bind("127.0.0.1", 0)
    server = make_server(Settings(database_url=database, encoder="off", log_level="error", **settings))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def read_until(connection: socket.socket, end: bytes) -> bytes:
    """What comes back up to `end`, or to the connection's end."""
    answered = b""
    while end not in answered or not end:
        piece = await asyncio.to_thread(connection.recv, 65536)
        if not piece:
            break
        answered += piece
    return answered


@asynccontextmanager
async def two_connections(port: int) -> AsyncIterator[tuple[socket.socket, socket.socket]]:
    """Each has been answered once, and is kept open."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as late,
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as idle,
    ):
        for connection in (late, idle):
            connection.send(REQUEST)
            assert b"close" not in await read_until(connection, b'"alive"}')
        yield late, idle


async def assert_parted(late: socket.socket, idle: socket.socket) -> None:
    """The one is answered and told that this was the end, the other is closed."""
    answered = await read_until(late, b"")
    assert answered.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answered.lower()
    assert await read_until(idle, b"") == b""


async def test_a_request_on_its_way_is_answered_before_its_connection_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, port), two_connections(port) as (late, idle):
        late.send(REQUEST)
        # The request is here, and this turn of the loop has not read it: the server must not close under it.
        server._state.draining = True
        for open_connection in list(server.server_state.connections):
            open_connection.shutdown()
        await assert_parted(late, idle)


async def test_while_it_drains_connections_end_one_by_one(tmp_path: Path) -> None:
    async with (
        running(tmp_path, drain_seconds=10) as (server, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False) as client,
    ):
        try:
            assert "connection" not in (await client.get("/livez")).headers
            server.handle_exit(signal.SIGTERM, None)
            assert not server.should_exit
            assert (await client.get("/livez")).headers["connection"] == "close"
            # Whoever signals again does not wait for the drain.
            server.handle_exit(signal.SIGTERM, None)
            assert server.should_exit
        finally:
            # Else the server passes them on to this process at its end.
            server._captured_signals.clear()


def test_before_it_is_ready_it_need_not_drain() -> None:
    server = make_server(Settings(drain_seconds=10))
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit


@pytest.mark.parametrize("drain_seconds", [0.0, 5.0, 15.0])
def test_drain_and_the_last_requests_fit_into_a_stop(drain_seconds: float) -> None:
    grace = make_server(Settings(drain_seconds=drain_seconds)).config.timeout_graceful_shutdown
    assert grace is not None
    assert grace >= 5
    assert grace + drain_seconds <= 23


class HangingOpenAI(FakeOpenAI):
    """Never answers. `asked` is set when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.set()
        await reader.read()
        writer.close()


async def test_a_request_that_outlasts_the_stop_is_told_so(tmp_path: Path) -> None:
    async with (
        HangingOpenAI() as judge,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=LIMIT_SECONDS) as client,
    ):
        async with running(tmp_path, openai_api_key="k", openai_base_url=judge.base_url) as (server, port):
            server.config.timeout_graceful_shutdown = 1
            flying = asyncio.create_task(client.post(f"http://127.0.0.1:{port}/v1/evaluations", json=BODY))
            async with asyncio.timeout(LIMIT_SECONDS):
                await judge.asked.wait()
        response = await flying
    assert (response.status_code, response.json()["code"]) == (503, "stopping")
    assert response.headers["retry-after"] == "2"


async def test_after_the_drain_an_idle_connection_may_be_used_once_more(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, port), two_connections(port) as (late, idle):
        server._state.draining, server._state.close_seconds = True, 0.3
        for open_connection in list(server.server_state.connections):
            open_connection.shutdown()
        # Nothing of the request is here yet when the listener closes.
        await asyncio.sleep(0.05)
        late.send(REQUEST)
        await assert_parted(late, idle)
