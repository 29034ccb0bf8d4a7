"""Databases with the schema of today, made once for a process and emptied between its tests.

To make a database on PostgreSQL, its tables, and to drop it again takes a third of a second of CPU.
"""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from sqlalchemy import Dialect, make_url
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import LRUCache

import saiten_server.platform.sql.engine
from saiten_server.platform.sql.engine import close_engine, open_engine
from saiten_server.platform.sql.schema import migrate
from saiten_server.scoring.store import EvaluationStore
from tests.support.waiting import LIMIT_SECONDS

EMPTY = """
DO $$
DECLARE
  name text;
  has_rows boolean;
  filled text[] := '{}';
BEGIN
  PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  FOR name IN
    SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'
  LOOP
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM ' || name || ')' INTO has_rows;
    IF has_rows THEN
      filled := filled || name;
    END IF;
  END LOOP;
  IF cardinality(filled) > 0 THEN
    EXECUTE 'TRUNCATE ' || array_to_string(filled, ', ') || ' RESTART IDENTITY CASCADE';
  END IF;
END $$
"""

LOOK = """
SELECT md5(string_agg(part, ' ' ORDER BY part)) FROM (
  SELECT concat_ws(' ', relname, relkind, attname, attnotnull, format_type(atttypid, atttypmod)) AS part
    FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
    WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT array_to_string(setconfig, ' ') FROM pg_db_role_setting
  UNION ALL SELECT version_num FROM alembic_version
) AS parts
"""


def share_compiled_statements() -> None:
    """Lets the engines of this process on one kind of database share what they compile of statements.

    Nearly every test opens an engine, which would compile each of its statements anew: a tenth of the tests' CPU. What
    is compiled is found by its dialect, of which each engine has its own; they differ only by the server's version.
    """
    compiled: LRUCache[Any, Any] = LRUCache(5_000)

    def create(*arguments: Any, **options: Any) -> AsyncEngine:
        made = create_async_engine(*arguments, **options)
        made.sync_engine._compiled_cache = compiled
        return made

    def kind(dialect: Dialect) -> tuple[Any, ...]:
        return type(dialect), getattr(dialect, "server_version_info", None)

    def same(one: Dialect, other: object) -> bool:
        return isinstance(other, Dialect) and kind(one) == kind(other)

    for known in (SQLiteDialect_aiosqlite, PGDialect_asyncpg):
        known.__eq__ = same  # type: ignore[method-assign,assignment]
        known.__hash__ = lambda dialect: hash(type(dialect))  # type: ignore[method-assign,assignment]
    saiten_server.platform.sql.engine.create_async_engine = create  # type: ignore[attr-defined]


class KeptDatabase:
    """A database on PostgreSQL that is handed from test to test, empty, and made anew after one that changed its schema."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._url: str | None = None
        self._schema = ""
        # To connect takes five times what it takes to empty the tables. A loop of its own: no test's lasts as long.
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None

    def hand_out(self) -> str:
        """Its URL."""
        if self._url is None:
            self._url = make_database(self._server)
            asyncio.run(_migrate(self._url))
            import asyncpg

            url = self._url.replace("+asyncpg", "", 1)
            self._connection = self._loop.run_until_complete(asyncpg.connect(url))
            self._schema = self._run(self._connection.fetchval(LOOK))
        return self._url

    def _run(self, asked: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(asked, LIMIT_SECONDS))

    def take_back(self) -> None:
        """Ends the sessions in it and removes what is in it."""
        if self._url is None:
            return
        from asyncpg import InterfaceError, InternalClientError, PostgresError

        try:
            self._run(self._connection.execute(EMPTY))
            kept = self._run(self._connection.fetchval(LOOK)) == self._schema
        # A table that the statements need is gone, or the connection, or the database.
        except (PostgresError, InterfaceError, InternalClientError, OSError):
            kept = False
        if not kept:
            self.drop()

    def drop(self) -> None:
        if self._url is not None:
            self._connection.terminate()
            self._loop.run_until_complete(asyncio.sleep(0))  # the socket is closed in the loop's next turn
            drop_database(self._server, self._url)
            self._url = None

    def close(self) -> None:
        self.drop()
        self._loop.close()


def make_database(server: str) -> str:
    """The URL of a new database on that server, without tables."""
    name = "saiten_test_" + secrets.token_hex(6)
    asyncio.run(run_statement(server, f"CREATE DATABASE {name}"))
    return server.rsplit("/", 1)[0] + "/" + name


def drop_database(server: str, url: str) -> None:
    """Drops it, and whoever is connected loses the connection."""
    asyncio.run(run_statement(server, f"DROP DATABASE IF EXISTS {make_url(url).database} WITH (FORCE)"))


async def run_statement(url: str, statement: str) -> str:
    """Runs one statement outside a transaction; the first value that it returns, or an empty text."""
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            result = await connection.exec_driver_sql(statement)
            return str(result.scalar()) if result.returns_rows else ""
    finally:
        await engine.dispose()


async def _migrate(url: str) -> None:
    engine = open_engine(url)
    await migrate(engine)
    await engine.dispose()


@cache
def _template() -> tuple[TemporaryDirectory[str], Path]:
    """A SQLite file with the schema, and the folder that it lies in for as long as this process runs."""
    folder = TemporaryDirectory(prefix="saiten-schema-")
    made = Path(folder.name) / "saiten.db"
    # A loop of its own: this is also called where one is running.
    runner = Thread(target=lambda: asyncio.run(_migrate(f"sqlite+aiosqlite:///{made}")))
    runner.start()
    runner.join()
    return folder, made


@asynccontextmanager
async def open_sqlite(url: str | None = None) -> AsyncIterator[AsyncEngine]:
    """An engine on a SQLite file with the schema of today: the one at the URL, or a file that goes with the context.

    The file is a copy: that takes a third of the CPU that creating the tables in memory takes.
    """
    with TemporaryDirectory(prefix="saiten-store-") as folder:
        place = url or f"sqlite+aiosqlite:///{folder}/saiten.db"
        lay_schema(place)
        engine = open_engine(place)
        try:
            yield engine
        finally:
            await close_engine(engine)


def unused_store() -> EvaluationStore:
    """For what needs a store and never asks it: it is never connected."""
    return EvaluationStore(open_engine("sqlite+aiosqlite://"))


def lay_schema(url: str) -> None:
    """Puts a file with the schema where this URL of SQLite points, unless there is one."""
    path = Path(url.removeprefix("sqlite+aiosqlite:///"))
    if url.startswith("sqlite+aiosqlite:///") and not path.exists() and path.parent.is_dir():
        shutil.copyfile(_template()[1], path)
