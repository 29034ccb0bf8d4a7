"""Callers who send or read a byte now and then, and callers who hold connections for nothing."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest

from tests.support.waiting import LIMIT_SECONDS

WAIT_SECONDS = LIMIT_SECONDS
"""How long a test waits for a cut that is due within a fraction of a second."""

HEAD = "Host: x\r\nContent-Type: {kind}\r\nContent-Length: 100000\r\n\r\n"
ASKED = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def service_settings() -> dict[str, Any]:
    return {"judge": "lexical", "body_timeout_seconds": 0.3}


@asynccontextmanager
async def dripping(client: httpx.AsyncClient, beginning: bytes, drop: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection on which, after the beginning, comes a drop now and then for ever."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(beginning)

    async def drip() -> None:
        while not writer.is_closing():
            writer.write(drop)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(drip())
    try:
        yield reader
    finally:
        task.cancel()
        writer.close()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is closed; raises TimeoutError where it is not."""
    try:
        return await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"GET /livez", b"a"),
        (b"GET /livez HTTP/1.1\r\n", b"X-A: b\r\n"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: ", b"a"),
        (b"", b"\n"),
    ],
)
async def test_a_head_that_drips_is_cut(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, beginning: bytes, drop: bytes
) -> None:
    monkeypatch.setattr("saiten_server.cli.server.HEADER_SECONDS", 0.3)
    async with dripping(client, beginning, drop) as reader:
        said = await read_to_end(reader)
    assert said == b"" or said.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("path", "kind", "drop"),
    [
        ("/v1/evaluations", "application/json", b" "),
        ("/v1/ratings", "application/x-ndjson", b"\n"),
        ("/v1/analyses/agreement", "text/csv", b"a"),
        ("/v1/batches", "application/x-ndjson", b" "),
        ("/v1/estimates", "application/json", b" "),
        ("/v1/comparisons", "application/json", b" "),
    ],
)
async def test_a_body_that_drips_is_cut(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, drop: bytes
) -> None:
    # A batch may take its time as long as it comes at a pace; a drop in 20 ms is none.
    monkeypatch.setattr("saiten_server.platform.web.body.SLOWEST_BYTES_PER_SECOND", 50_000)
    beginning = f"POST {path} HTTP/1.1\r\n{HEAD.format(kind=kind)}".encode()
    async with dripping(client, beginning, drop) as reader:
        said = await read_to_end(reader)
    assert said == b"" or said.startswith(b"HTTP/1.1 408")
    assert said == b"" or b"body-timeout" in said


@contextmanager
def narrow(client: httpx.AsyncClient) -> Iterator[socket.socket]:
    """A connection whose system keeps little for its reader, so that what is not read stays with the server."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((client.base_url.host, client.base_url.port))
    connection.setblocking(False)
    try:
        yield connection
    finally:
        connection.close()


async def is_cut(connection: socket.socket) -> bool:
    """Whether the server breaks the connection off, without anything being read here."""
    watched = select.poll()
    watched.register(connection, 0)
    for _ in range(int(WAIT_SECONDS / 0.05)):
        if watched.poll(0):
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("bytes_at_once", [0, 1])
async def test_an_answer_that_nobody_takes_is_cut_off(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    monkeypatch.setattr("saiten_server.cli.server.READER_SECONDS", 0.5)
    with narrow(client) as connection:
        await asyncio.get_running_loop().sock_sendall(connection, ASKED * 200)

        async def sip() -> None:
            while bytes_at_once:
                await asyncio.get_running_loop().sock_recv(connection, bytes_at_once)
                await asyncio.sleep(0.02)

        sipping = asyncio.create_task(sip())
        assert await is_cut(connection)
        sipping.cancel()
        await asyncio.wait([sipping])
        # A sip may have met the cut before the poll did.
        assert sipping.cancelled() or sipping.exception() is None or isinstance(sipping.exception(), ConnectionError)
    assert (await client.get("/livez")).status_code == 200


async def test_who_takes_an_answer_at_a_pace_gets_all_of_it(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saiten_server.cli.server.READER_SECONDS", 2.0)
    once = len((await client.get("/openapi.json")).content)
    loop = asyncio.get_running_loop()
    with narrow(client) as connection:
        await loop.sock_sendall(connection, ASKED * 20)
        received = 0
        while received < 20 * once:
            data = await loop.sock_recv(connection, 32_768)
            assert data
            received += len(data)
            await asyncio.sleep(0.001)


async def test_idle_connections_are_in_nobodys_way(client: httpx.AsyncClient) -> None:
    host, port = client.base_url.host, client.base_url.port
    idle = await asyncio.gather(*(asyncio.open_connection(host, port) for _ in range(300)))
    try:
        for _ in range(3):
            assert (await client.get("/livez")).status_code == 200
            assert (await client.get("/v1/batches")).status_code == 200
    finally:
        for _, writer in idle:
            writer.close()


async def test_what_is_no_http_is_told_as_a_problem_and_ends_the_connection(client: httpx.AsyncClient) -> None:
    async with dripping(client, b"GET /livez HTTP/1.1\r\nHost : x\r\n\r\n", b"") as reader:
        head, _, body = (await read_to_end(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"content-type: application/problem+json" in head.lower()
    assert b"x-request-id: " in head.lower()
    assert httpx.Response(400, content=body).json()["code"] == "invalid-http"


async def test_a_broken_chunk_behind_an_answer_closes_and_is_no_defect(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    beginning = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with dripping(client, beginning, b"") as reader:
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
    assert answer.startswith(b"HTTP/1.1 404")
    async with dripping(client, beginning, b"zz\r\n") as reader:
        said = await read_to_end(reader)
    assert said == b"" or said.count(b"HTTP/1.1 4") == 1
    assert "unexpected error" not in caplog.text
    assert "Traceback" not in caplog.text
    assert "data_received" not in caplog.text
