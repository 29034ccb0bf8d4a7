"""Keys with limits, and what they have spent, in the database of a running service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.governance.keys import APIKeyStore
from saiten_server.governance.store import SpendingStore
from saiten_server.platform.sql.engine import open_engine

Header = dict[str, str]


@asynccontextmanager
async def database(place: Path | str) -> AsyncIterator[AsyncEngine]:
    """The database at the URL, or in the folder."""
    url = place if isinstance(place, str) else f"sqlite+aiosqlite:///{place / 'saiten.db'}"
    engine = open_engine(url)
    yield engine
    await engine.dispose()


async def make_limited_key(place: Path | str, *, project: str = "team", **limits: Any) -> tuple[str, Header]:
    """The id of a writing key, and its header."""
    async with database(place) as engine:
        made, text = await APIKeyStore(engine).create("ci", project, "write", **limits)
    return made.id, {"Authorization": f"Bearer {text}"}


async def limit_key(place: Path | str, key_id: str, usd_per_day: float | None) -> None:
    """Changes what the key may cost."""
    async with database(place) as engine:
        await APIKeyStore(engine).limit(key_id, requests_per_minute=None, usd_per_day=usd_per_day)


async def spend(place: Path | str, key_id: str, cost_usd: float) -> None:
    """Lets the key have cost so much today."""
    async with database(place) as engine:
        await SpendingStore(engine).charge(key_id, cost_usd, datetime.now(UTC))
