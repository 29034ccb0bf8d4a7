"""Creates, upgrades and downgrades the schema."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.platform.bundled import find_folders
from saiten_server.platform.capability import CAPABILITIES, find_parts
from saiten_server.platform.sql.engine import LOCK, LOCK_WAIT_SECONDS, file_of, read, write
from saiten_server.platform.sql.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

# Alembic is imported where it is used: it takes as long to load as a schema to make, and most starts need none of it.

MIGRATIONS = Path(__file__).parent / "migrations"

LAST_CHAINED = "577e2f8c"
"""The last commit with the revisions that the first migration replaces. An older database is upgraded there first."""

# Alembic's own, where it notes a database's revision. Not among Saiten's tables: no migration makes it.
stamp = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def find_versions() -> list[Path]:
    """The folders of migrations: that of the tables that all share, and those of capabilities."""
    return [
        MIGRATIONS / "versions",
        *(one for one in find_folders("migrations") if one.parent != Path(__file__).parent),
    ]


def load_tables() -> None:
    """Loads the stores of all capabilities: each declares its tables on the one `metadata`."""
    for capability in CAPABILITIES:
        for _ in find_parts(capability, "store"):
            pass


def known_numbers() -> list[str]:
    """The numbers of the migrations, ascending, from their file names, because loading Alembic takes long."""
    names = (path.name for folder in find_versions() for path in folder.iterdir())
    return sorted(name[:4] for name in names if re.match(r"\d{4}_", name))


def newest_revision() -> str:
    """The number of the last migration."""
    return known_numbers()[-1]


def read_stamp(connection: Connection) -> str | None:
    """The database's revision, known or not; None if it has no tables of Saiten."""
    if not inspect(connection).has_table(stamp.name):
        return None
    return connection.execute(select(stamp.c.version_num)).scalar()


def is_older(number: str) -> bool:
    """Whether a revision is below the first migration of today."""
    return number < known_numbers()[0]


def refuse_unknown(connection: Connection) -> None:
    """Raises SettingsInvalid if this version of Saiten does not know the schema's revision."""
    found, known = read_stamp(connection), known_numbers()
    if found is None or found in known:
        return
    if is_older(found):
        raise SettingsInvalid(Message("database-older", revision=found[:64], oldest=known[0], commit=LAST_CHAINED))
    raise SettingsInvalid(Message("database-newer", revision=found[:64], known=known[-1]))


def is_empty(connection: Connection) -> bool:
    """Whether there is no table, not even another program's."""
    return not inspect(connection).get_table_names()


def create_schema(connection: Connection) -> None:
    """Creates all tables and notes the newest revision, in the caller's transaction. Needs an empty database."""
    load_tables()
    stamp.create(connection, checkfirst=False)
    metadata.create_all(connection, checkfirst=False)
    connection.execute(stamp.insert().values(version_num=newest_revision()))


MIGRATION_LOCK = 7_236_147_315_001
"""The key of the lock that lets one replica migrate at a time: any number that no other program uses."""


async def migrate(engine: AsyncEngine) -> None:
    """Brings the schema to the newest revision, one process at a time. Raises StoreUnavailable if that fails, and
    SettingsInvalid, with nothing written, for a database of a revision that this version of Saiten does not know."""
    file = file_of(engine)
    if file is not None:
        async with read(engine) as connection:
            await connection.run_sync(refuse_unknown)  # before the journal mode is written to the file
            await _enter_wal(connection)
    async with migrating(engine) as connection:
        # Looks first: at most starts there is nothing to do.
        if await connection.run_sync(read_stamp) != newest_revision():
            await connection.run_sync(create_schema if await connection.run_sync(is_empty) else upgrade)
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


async def _enter_wal(connection: AsyncConnection) -> None:
    """WAL, which is a property of the file, lets processes read while one writes. Switching needs exclusive access,
    and SQLite reports `locked` at once instead of waiting."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(_is_locked),
        stop=stop_after_delay(LOCK_WAIT_SECONDS),
        wait=wait_random(0.01, 0.1),
        reraise=True,
    ):
        with attempt:
            await connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _is_locked(error: BaseException) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", 0) if isinstance(error, DBAPIError) else 0
    return code & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@dataclass(frozen=True)
class Revision:
    """A migration with its number, which grows from one to the next, and what it brought."""

    number: str
    about: str


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without an ini file; the migrations are part of the package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("version_locations", os.pathsep.join(map(str, find_versions())))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def known_revisions() -> list[Revision]:
    """The revisions that this version of Saiten knows, oldest first."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    return [Revision(script.revision, (script.doc or "").partition("\n")[0]) for script in scripts][::-1]


def upgrade(connection: Connection, number: str = "head") -> None:
    """Runs the migrations from the database's revision to `number`, in the caller's transaction. Raises
    SettingsInvalid for a database of a revision that is not known."""
    from alembic import command

    refuse_unknown(connection)
    command.upgrade(alembic_config(connection), number)


async def find_revision(engine: AsyncEngine) -> str | None:
    """The database's revision, known or not; None if it has no tables of Saiten."""
    async with read(engine) as connection:
        return await connection.run_sync(read_stamp)


async def revisions_above(engine: AsyncEngine, number: str) -> list[Revision]:
    """The revisions above `number`, newest first; none if it is the database's own. Raises
    InvalidRequest for a revision that is unknown or above the database's own, and SettingsInvalid for a database of a
    revision that is not known."""
    async with read(engine) as connection:
        await connection.run_sync(refuse_unknown)
    own = await find_revision(engine)
    if own is None:
        raise InvalidRequest(Message("database-empty"))
    there = [revision for revision in known_revisions() if revision.number <= own]
    if number not in {revision.number for revision in there}:
        below = ", ".join(revision.number for revision in there)
        raise InvalidRequest(Message("database-revision-unknown", own=own, below=below))
    return [revision for revision in reversed(there) if revision.number > number]


async def downgrade(engine: AsyncEngine, number: str) -> None:
    """Downgrades the schema in one transaction; what later revisions stored is lost. Raises SettingsInvalid for
    a database of a revision that is not known, and the `Store…` errors."""
    from alembic import command

    def go_back(connection: Connection) -> None:
        refuse_unknown(connection)
        command.downgrade(alembic_config(connection), number)

    async with migrating(engine) as connection:
        await connection.run_sync(go_back)
