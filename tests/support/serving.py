"""A Saiten over real HTTP: in this event loop, for tests that ask it many things."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from saiten_server.application import create_application
from saiten_server.cli.process import bind
from saiten_server.cli.server import make_server
from saiten_server.platform.settings import Settings
from tests.support.databases import lay_schema
from tests.support.fake_openai import FakeOpenAI
from tests.support.waiting import LIMIT_SECONDS


class Given(Settings):
    """Settings that are read from nowhere else: to look at each variable takes a third of what a service costs."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


@cache
def openapi_document() -> dict[str, Any]:
    """The service's OpenAPI document, which is not to be changed. No setting changes it, and it takes a second of CPU."""
    return create_application(Given(judge="lexical", encoder="off")).openapi()


@asynccontextmanager
async def serving(folder: Path, port: int = 0, /, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service with its database in `folder`, by default on a free port; keyword arguments are fields of `Settings`."""
    chosen = {"database_url": f"sqlite+aiosqlite:///{folder / 'saiten.db'}", "encoder": "off", **settings}
    lay_schema(chosen["database_url"])
    listener = bind("127.0.0.1", port)
    server = make_server(Given(**chosen))
    server.config.app._app.openapi = openapi_document  # type: ignore[union-attr]
    stopped = stop_at_once(server)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        if task.done():
            await task
            raise RuntimeError("the service stopped while it started")
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=LIMIT_SECONDS, trust_env=False, verify=False) as client:
            yield client
    finally:
        stopped.set()
        await task


def stop_at_once(server: uvicorn.Server) -> asyncio.Event:
    """The event that stops the server. uvicorn looks every tenth of a second whether it is to stop, and waits for
    another before it does, though nobody is connected any more: a minute of waiting in some hundred tests."""
    stopped, shutdown = asyncio.Event(), server.shutdown

    async def main_loop() -> None:
        await server.on_tick(0)
        await stopped.wait()

    async def shut_down(sockets: list[socket.socket] | None = None) -> None:
        state = server.server_state
        for _ in range(20):
            if not state.connections and not state.tasks:
                break
            await asyncio.sleep(0.001)
        else:
            await shutdown(sockets)
            return
        for listening in server.servers:
            listening.close()
        for listener in sockets or []:
            listener.close()
        await server.lifespan.shutdown()

    server.main_loop, server.shutdown = main_loop, shut_down  # type: ignore[method-assign]
    return stopped


def judged_by(fake: FakeOpenAI, **more: Any) -> dict[str, Any]:
    """Settings of a service that asks `fake` twice at most, with time enough on a machine that is busy."""
    patient = {"judge_timeout_seconds": 15, "judge_deadline_seconds": 30, "judge_attempts": 2}
    return {"openai_api_key": "sk-test-secret", "openai_base_url": fake.base_url, **patient, **more}
