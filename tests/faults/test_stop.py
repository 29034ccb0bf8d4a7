"""SIGTERM: readiness fails, the listener stays for a while, requests in flight finish."""

import asyncio
import signal
from pathlib import Path

import httpx

from tests.support.command import served
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.services import PostgresServer
from tests.support.waiting import LIMIT_SECONDS


class SlowOpenAI(FakeOpenAI):
    """Answers when it is let go. Each connection to it releases `asked` once."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.release()
        await self.go.wait()
        await super()._serve(reader, writer)


async def status_of(client: httpx.AsyncClient, path: str) -> tuple[int, str]:
    response = await client.get(path)
    return response.status_code, response.json().get("code", "")


async def test_a_stop_fails_nobody(tmp_path: Path) -> None:
    """The listener stays as long as the test needs it, on any machine: a second signal ends the longest drain."""
    async with SlowOpenAI() as judge, asyncio.timeout(LIMIT_SECONDS):
        settings = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": judge.base_url, "SAITEN_DRAIN_SECONDS": "15"}
        with served(tmp_path, **settings) as (url, process):
            async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SECONDS, trust_env=False, verify=False) as client:
                assert await status_of(client, "/readyz") == (200, "")
                flying = asyncio.create_task(client.post("/v1/evaluations", json=BODY))
                await judge.asked.acquire()
                process.send_signal(signal.SIGTERM)
                while await status_of(client, "/readyz") != (503, "stopping"):
                    await asyncio.sleep(0.01)
                # A load balancer that has not noticed yet still sends requests, and on new connections.
                async with httpx.AsyncClient(
                    base_url=url, timeout=LIMIT_SECONDS, trust_env=False, verify=False
                ) as late:
                    assert await status_of(late, "/livez") == (200, "")
                    coming = asyncio.create_task(late.post("/v1/evaluations", json={**BODY, "response": "はい。"}))
                    await judge.asked.acquire()
                    judge.go.set()
                    assert [(await sent).status_code for sent in (flying, coming)] == [200, 200]
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, LIMIT_SECONDS) in {0, -signal.SIGTERM}
    assert len(judge.requests) == 2


async def test_a_service_whose_database_hangs_leaves_all_the_same(tmp_path: Path) -> None:
    """With a result in hand that cannot be stored."""
    server = PostgresServer()
    try:
        server.start()
        async with SlowOpenAI() as judge:
            # The longest drain leaves least time to requests after it, and a second signal ends it.
            settings = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": judge.base_url, "SAITEN_DRAIN_SECONDS": "15"}
            with served(tmp_path, DATABASE_URL=server.url, **settings) as (url, process):
                async with httpx.AsyncClient(
                    base_url=url, timeout=LIMIT_SECONDS, trust_env=False, verify=False
                ) as client:
                    flying = asyncio.create_task(client.post("/v1/evaluations", json=BODY))
                    async with asyncio.timeout(LIMIT_SECONDS):
                        await judge.asked.acquire()
                        server.freeze()
                        judge.go.set()
                        while not judge.requests:
                            await asyncio.sleep(0.01)
                    process.send_signal(signal.SIGTERM)
                    while await status_of(client, "/readyz") != (503, "stopping"):
                        await asyncio.sleep(0.01)
                    process.send_signal(signal.SIGTERM)
                    assert (await flying).status_code == 503
                assert await asyncio.to_thread(process.wait, LIMIT_SECONDS) in {0, -signal.SIGTERM}
    finally:
        server.remove()
