"""Fixtures that many tests share."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.adapters.sql.engine import migrate, open_engine
from tests.support.services import private_postgres, private_redis

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and settings of the machine that it runs on."""
    for name in [*os.environ]:
        known = name in {
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "DEEPL_API_KEY",
            "DEEPL_SERVER_URL",
            "DATABASE_URL",
            "REDIS_URL",
        }
        if known or (name.startswith("SAITEN_") and not name.startswith("SAITEN_TEST_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a database on a real PostgreSQL in which databases may be made."""
    given = os.environ.get("SAITEN_TEST_POSTGRES_URL")
    if given:
        yield given.replace("postgresql://", "postgresql+asyncpg://", 1)
        return
    with private_postgres() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A fresh database of this test's own."""
    name = "saiten_test_" + secrets.token_hex(6)
    asyncio.run(administer(postgres_server, f"CREATE DATABASE {name}"))
    yield postgres_server.rsplit("/", 1)[0] + "/" + name
    asyncio.run(administer(postgres_server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


async def administer(url: str, statement: str) -> None:
    """Runs one statement outside a transaction."""
    admin = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with admin.connect() as connection:
        await connection.execute(text(statement))
    await admin.dispose()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a real Redis whose databases these tests may empty."""
    given = os.environ.get("SAITEN_TEST_REDIS_URL")
    if given:
        yield own_database(given)
        return
    with private_redis() as url:
        yield url


def own_database(url: str) -> str:
    """The URL with a database of this process's own: those side by side under `-n` must not empty each other's."""
    parts, place = urlsplit(url), os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return urlunsplit(parts._replace(path=f"/{int(parts.path.strip('/') or 0) + int(place)}"))


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """That Redis, empty."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushdb()
    return redis_server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each database that Saiten runs on, empty."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine with the schema of today, on each database."""
    made = open_engine(database_url)
    await migrate(made)
    yield made
    await made.dispose()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and checks that lie beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared is absent: its data and checks are not part of the project")
    return SHARED
