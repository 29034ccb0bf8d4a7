"""A Saiten over real HTTP: in this event loop, for tests that ask it many things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from app.cli.process import bind
from app.runtime.settings import Settings
from app.web.server import make_server
from tests.support.databases import lay_schema
from tests.support.waiting import LIMIT_SECONDS


@asynccontextmanager
async def serving(folder: Path, port: int = 0, /, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service with its database in `folder`, by default on a free port; keyword arguments are fields of `Settings`."""
    chosen = {"database_url": f"sqlite+aiosqlite:///{folder / 'saiten.db'}", "encoder": "off", **settings}
    lay_schema(chosen["database_url"])
    listener = bind("127.0.0.1", port)
    server = make_server(Settings(**chosen))
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
        server.should_exit = True
        await task
