"""One engine a process: SQLite in WAL mode or PostgreSQL, with the schema brought up to date before first use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import event, make_url, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.domain.errors import SettingsInvalid, StoreError, StoreFull, StoreUnavailable

MIGRATION_LOCK = 7_236_147_315_001
"""Any number that no other program on the database uses: two replicas that start at once must not both migrate."""

FULL = ("database or disk is full", "no space left on device", "disk full")


def open_engine(url: str) -> AsyncEngine:
    """An engine for an `sqlite+aiosqlite` or `postgresql+asyncpg` URL. Connects at first use.

    Raises SettingsInvalid where the URL cannot be read or its driver is not installed.
    """
    try:
        return _create_engine(url)
    except ModuleNotFoundError as error:
        raise SettingsInvalid(f"DATABASE_URL needs {error.name}; install saiten[postgres]") from error
    except (ArgumentError, ValueError):
        # `from None`: the words of either may hold the password.
        raise SettingsInvalid("DATABASE_URL is not an SQLAlchemy URL; check its host, port and path") from None


def _create_engine(url: str) -> AsyncEngine:
    if make_url(url).get_backend_name() == "sqlite":
        engine = create_async_engine(url, connect_args={"timeout": 15})
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        return engine
    return create_async_engine(url, pool_pre_ping=True, pool_timeout=10, connect_args={"timeout": 10})


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # WAL lets readers go on while one writes; NORMAL loses nothing when the process crashes, only when power fails.
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without an ini file; the migrations are part of the package."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


async def migrate(engine: AsyncEngine, revision: str = "head") -> None:
    """Brings the schema to `revision`; raises StoreUnavailable where the database cannot be reached."""

    def upgrade(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), revision)

    async with connect(engine) as connection:
        if connection.dialect.name == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        await connection.run_sync(upgrade)


@asynccontextmanager
async def connect(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection inside one transaction; database trouble leaves as a `Store…` error."""
    try:
        async with engine.begin() as connection:
            yield connection
    except (SQLAlchemyError, OSError) as error:
        raise translate_error(error) from error


def translate_error(error: Exception) -> StoreError:
    """The `Store…` error of a database error. The detail names no URL, statement or value."""
    words = str(getattr(error, "orig", error)).lower()
    if any(sign in words for sign in FULL):
        return StoreFull("the database has no space left; free some, then try again")
    if isinstance(error, DBAPIError) and not _is_outage(error, words):
        return StoreError(f"the database refused a statement ({type(error.orig).__name__})")
    if isinstance(error, (DBAPIError, OSError, PoolTimeout)):
        return StoreUnavailable("the database cannot be reached; check DATABASE_URL and that it runs")
    return StoreError(f"the database layer failed ({type(error).__name__})")


def _is_outage(error: DBAPIError, words: str) -> bool:
    signs = (
        "connect",
        "closed",
        "unable to open",
        "locked",
        "shutting down",
        "terminating",
        "timeout",
        "does not exist",
        "authentication failed",
    )
    return error.connection_invalidated or any(sign in words for sign in signs)
