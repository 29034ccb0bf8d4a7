"""One engine a process: SQLite in WAL mode or PostgreSQL, with the schema brought up to date before first use."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, AsyncAdaptedQueuePool, event, make_url, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random

from app.adapters.sql.creation import create_schema, is_current, is_empty
from app.adapters.sql.failures import translate_error
from app.adapters.sql.file import PATIENCE_SECONDS, DatabaseFile
from app.adapters.sql.hops import hop_once
from app.adapters.sql.pinging import ask_the_idle
from app.adapters.sql.severed import notice_severed
from app.adapters.sql.stopping import stop_once
from app.coalescing import Coalescer
from app.domain.errors import SettingsInvalid

logger = logging.getLogger("saiten.store")

MIGRATION_LOCK = 7_236_147_315_001
"""Any number that no other program on the database uses: two replicas that start at once must not both migrate."""

FILE = "saiten_file"
"""The engine's option that holds its DatabaseFile."""

READING = "saiten_reading"
"""The engine's option that holds what `read` connects through, where that is another."""

SQLITE_CONNECTIONS = 4
"""Each is a thread: one writes, the others read. More of them only contend for the interpreter."""

POSTGRES_CONNECTIONS = 16

CONNECT_SECONDS = 10
"""For a new connection to PostgreSQL."""

DRAIN_SECONDS = 1.0
"""At the end of the process PostgreSQL has so long for what is being written: longer takes only one that hangs. A
SQLite file that another process holds is waited for as always."""

LIBPQ = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"})
"""What a URL for psql or pg_dump may carry, and asyncpg's may not."""

CLOSE_SECONDS = 2.0
"""For all connections together, at the end of the process: each takes leave of the server, and one that hangs would be
waited for without end."""

LOCK = "BEGIN IMMEDIATE"
"""Opens SQLite's transaction at once, and keeps every other writer out from there."""


def open_engine(url: str) -> AsyncEngine:
    """An engine for an `sqlite+aiosqlite` or `postgresql+asyncpg` URL. Connects at first use.

    Raises SettingsInvalid where the URL cannot be read or its driver is not installed.
    """
    try:
        made = make_url(url)
        if foreign := sorted(LIBPQ & made.query.keys()):
            raise SettingsInvalid(
                f"DATABASE_URL: {foreign[0]} is for PostgreSQL's own programs; write ssl=require or ssl=verify-full"
            )
        return _create_engine(made)
    except ModuleNotFoundError as error:
        raise SettingsInvalid(f"DATABASE_URL needs {error.name}; install saiten[postgres]") from error
    except (ArgumentError, ValueError):
        # `from None`: the words of either may hold the password.
        raise SettingsInvalid("DATABASE_URL is not an SQLAlchemy URL; check its host, port and path") from None


def _create_engine(url: URL) -> AsyncEngine:
    # hide_parameters: the values of a failed statement are texts and key hashes, and a traceback would show them.
    common: dict[str, Any] = {"hide_parameters": True, "max_overflow": 0, "pool_timeout": PATIENCE_SECONDS}
    if url.get_backend_name() == "sqlite":
        return _create_sqlite_engine(url, common)
    engine = create_async_engine(
        url,
        pool_size=POSTGRES_CONNECTIONS,
        # The last one used comes first, so that it need not be asked whether it still answers.
        pool_use_lifo=True,
        connect_args={"timeout": CONNECT_SECONDS},
        **common,
    )
    event.listen(engine.sync_engine, "connect", notice_severed)
    ask_the_idle(engine)
    # PostgreSQL's driver would frame a read in BEGIN and ROLLBACK, a round trip each.
    view = engine.execution_options(isolation_level="AUTOCOMMIT")
    engine.sync_engine.update_execution_options(**{READING: view})
    return engine


def _create_sqlite_engine(url: URL, common: dict[str, Any]) -> AsyncEngine:
    file = DatabaseFile()
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        # A database in memory lives in its one connection.
        pool_size=1 if url.database in {None, "", ":memory:"} else SQLITE_CONNECTIONS,
        # `write` and `read` end their transaction themselves; the pool's second rollback would be a hop to the thread.
        pool_reset_on_return=None,
        connect_args={"timeout": PATIENCE_SECONDS},
        execution_options={FILE: file},
        **common,
    )
    event.listen(engine.sync_engine, "connect", hop_once)
    event.listen(engine.sync_engine, "connect", partial(_prepare_sqlite, file))
    event.listen(engine.sync_engine, "connect", stop_once)
    return engine


def _prepare_sqlite(file: DatabaseFile, connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA database_list")
    path = next((row[2] for row in cursor.fetchall() if row[1] == "main"), "")
    file.path = Path(path) if path else None
    # NORMAL, with the WAL mode that `migrate` sets: a crash of the process loses nothing, only one of the machine may.
    # secure_delete: what an erasure frees is overwritten.
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


async def close_engine(engine: AsyncEngine) -> None:
    """Closes the connections. A server that does not answer is not waited for: the process ends, and they with it."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await engine.dispose()
    except TimeoutError:
        await engine.dispose(close=False)


async def finish(engine: AsyncEngine, what: str, *queues: Coalescer[Any, Any]) -> None:
    """Waits at the end of the process for what is still asked of the database; `what` it is, for the log."""
    seconds = DRAIN_SECONDS if file_of(engine) is None else None
    for queue in queues:
        if not await queue.drain(seconds):
            logger.warning("the database does not answer: the last %s are not stored", what)


def file_of(engine: AsyncEngine) -> DatabaseFile | None:
    """The file behind the engine; None for PostgreSQL."""
    found: DatabaseFile | None = engine.get_execution_options().get(FILE)
    return found


async def migrate(engine: AsyncEngine) -> None:
    """Brings the schema to the newest revision, one process at a time; raises StoreUnavailable where that cannot be
    done, and SettingsInvalid where a newer version of Saiten made the database."""
    file = file_of(engine)
    if file is not None:
        async with read(engine) as connection:
            await _enter_wal(connection)
    async with migrating(engine) as connection:
        await connection.run_sync(_bring_up)
    if file is not None:
        file.remember()


@asynccontextmanager
async def migrating(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A `write` in which no other process changes the schema."""
    async with write(engine) as connection:
        if file_of(engine) is None:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        else:
            # Python's driver opens no transaction before CREATE TABLE, so without this nothing would be locked.
            await connection.exec_driver_sql(LOCK)
        yield connection


def _bring_up(connection: Connection) -> None:
    """Looks first: nothing is to be done at most starts, and Alembic takes as long to load as a schema to make."""
    if is_current(connection):
        return
    if is_empty(connection):
        create_schema(connection)
        return
    from app.adapters.sql.schema import upgrade

    upgrade(connection)


async def _enter_wal(connection: AsyncConnection) -> None:
    """WAL lets readers go on while one writes, and is a property of the file.

    The switch needs the file alone, and SQLite does not wait for that: it says `locked` at once.
    """
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(_is_locked),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_random(0.01, 0.1),
        reraise=True,
    ):
        with attempt:
            await connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _is_locked(error: BaseException) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", 0) if isinstance(error, DBAPIError) else 0
    return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@contextmanager
def translating(file: DatabaseFile | None) -> Iterator[None]:
    """Looks for the file first, then lets database trouble leave as a `Store…` error."""
    if file is not None:
        file.check()
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise translate_error(error, file.path if file else None) from error


@asynccontextmanager
async def write(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection inside one transaction, committed at the end; database trouble leaves as a `Store…` error."""
    file = file_of(engine)
    async with file.writing() if file else nullcontext():
        with translating(file):
            async with engine.begin() as connection:
                yield connection


@asynccontextmanager
async def change(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A `write` that looks before it writes. On SQLite nothing changes in between: Python's driver would open the
    transaction only at the first change. On PostgreSQL, rows that are looked at are to be locked."""
    async with write(engine) as connection:
        if file_of(engine) is not None:
            await connection.exec_driver_sql(LOCK)
        yield connection


async def scrub(engine: AsyncEngine) -> bool:
    """Leaves no trace of deleted rows in SQLite's file and its log; nothing to do on PostgreSQL.

    Deleted rows are overwritten in the log's newest pages (`secure_delete`); this moves those into the file and empties
    the log. False where another process went on reading for so long that it could not be done.
    """
    file = file_of(engine)
    if file is None:
        return True
    async with file.writing(), read(engine) as connection:
        # (busy, pages in the log, pages moved)
        busy: int = (await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")).scalar_one()
    return not busy


@asynccontextmanager
async def read(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection for one statement that changes nothing; database trouble leaves as a `Store…` error."""
    # SQLite's driver frames no reads.
    view: AsyncEngine = engine.get_execution_options().get(READING, engine)
    with translating(file_of(engine)):
        async with view.connect() as connection:
            yield connection
