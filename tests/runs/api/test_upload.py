"""Bodies that are read as a stream: large and honest ones come through, those that drip are cut."""

import asyncio
from pathlib import Path

import pytest

from tests.support.posted import make_body, write_ndjson
from tests.support.serving import serving
from tests.support.waiting import LIMIT_SECONDS

HEAD = b"POST /v1/batches HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"


async def send_slowly(path: Path, content: bytes, piece_bytes: int, pause_seconds: float) -> bytes:
    """The answer to a body that comes piece by piece, with a time limit of a second on it."""
    async with serving(path, judge="lexical", body_timeout_seconds=1) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(HEAD % len(content))

        async def send() -> None:
            for start in range(0, len(content), piece_bytes):
                writer.write(content[start : start + piece_bytes])
                await asyncio.sleep(pause_seconds)

        sending = asyncio.create_task(send())
        answer = await asyncio.wait_for(reader.read(65536), 30)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
        return answer


async def test_a_drip_is_cut(tmp_path: Path) -> None:
    # Never silent for a second, and far below the pace of an honest upload.
    answer = await send_slowly(tmp_path, write_ndjson(make_body(100)), 1, 0.02)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"body-timeout" in answer


async def test_silence_is_cut_however_fast_the_beginning_was(tmp_path: Path) -> None:
    content = write_ndjson(make_body(1000))
    answer = await send_slowly(tmp_path, content, len(content) - 10, 60)
    assert answer.startswith(b"HTTP/1.1 408")


async def test_an_upload_at_an_honest_pace_may_take_longer(tmp_path: Path) -> None:
    # Some 200 kB in 20 pieces: longer than a second in all, and never silent for so long.
    content = write_ndjson(make_body(2000))
    answer = await send_slowly(tmp_path, content, len(content) // 20, 0.06)
    assert answer.startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize("sent", [0, 200])
async def test_an_upload_that_breaks_off_leaves_nothing(
    tmp_path: Path, sent: int, caplog: pytest.LogCaptureFixture
) -> None:
    content = write_ndjson(make_body(100))
    with caplog.at_level("INFO", logger="saiten.web"):
        async with serving(tmp_path, judge="lexical") as client:
            _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            writer.write(HEAD % len(content) + content[:sent])
            await writer.drain()
            writer.close()
            async with asyncio.timeout(LIMIT_SECONDS):
                while not any(record.message == "request" for record in caplog.records):
                    await asyncio.sleep(0.01)
            assert (await client.get("/v1/batches")).json()["items"] == []
    assert "unexpected error" not in caplog.text


async def test_an_answered_upload_that_comes_fast_is_taken_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saiten_server.cli.server.CLOSING_SECONDS", 0.2)
    head = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"
    async with serving(tmp_path, judge="lexical") as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(head)
        for _ in range(20):  # a second in all, five times what a caller who drips is given
            writer.write(b" " * 100_000)
            await writer.drain()
            await asyncio.sleep(0.05)
        answered = await asyncio.wait_for(reader.read(65536), 10)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        alive = await asyncio.wait_for(reader.read(65536), 10)
        writer.close()
    assert answered.startswith(b"HTTP/1.1 404")
    assert alive.startswith(b"HTTP/1.1 200")
