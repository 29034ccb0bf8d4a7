"""The schema's revisions: which one a database has, and the way back to an older one."""

from __future__ import annotations

from dataclasses import dataclass

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.creation import MIGRATIONS
from app.adapters.sql.engine import migrating, read
from app.domain.errors import InvalidRequest, SettingsInvalid

NEWEST = "head"
"""Alembic's name for the last revision."""


@dataclass(frozen=True)
class Revision:
    """One migration: its number, which grows from one to the next, and what it brought."""

    number: str
    about: str


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without an ini file; the migrations are part of the package."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def known_revisions() -> list[Revision]:
    """All that this version of Saiten knows, the oldest first."""
    return [describe(script) for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]


def describe(script: Script) -> Revision:
    """The migration's number and the first line of its docstring."""
    return Revision(script.revision, (script.doc or "").partition("\n")[0])


def refuse_newer(connection: Connection) -> None:
    """Raises SettingsInvalid where the schema's revision is none that this version of Saiten knows."""
    known = {revision.number for revision in known_revisions()}
    unknown = sorted(set(MigrationContext.configure(connection).get_current_heads()) - known)
    if unknown:
        raise SettingsInvalid(
            f"the database was made by a newer version of Saiten (revision {', '.join(unknown)[:64]}; this one knows "
            f"up to {max(known)}): run that version, or have it take the schema back, or restore a backup"
        )


def upgrade(connection: Connection, number: str = NEWEST) -> None:
    """Walks the migrations up to `number`, inside the caller's transaction, from whichever the database has.

    Raises SettingsInvalid for a database that a newer version made.
    """
    refuse_newer(connection)
    command.upgrade(alembic_config(connection), number)


async def find_revision(engine: AsyncEngine) -> str | None:
    """The database's own; None where it has no tables of Saiten. Also tells one that this version does not know."""

    def look(connection: Connection) -> str | None:
        return MigrationContext.configure(connection).get_current_revision()

    async with read(engine) as connection:
        return await connection.run_sync(look)


async def revisions_above(engine: AsyncEngine, number: str) -> list[Revision]:
    """What going back to `number` takes away, the newest first; nothing where that is the database's own.

    Raises InvalidRequest for a revision that is unknown or above the database's own, and SettingsInvalid for a database
    that a newer version made.
    """
    async with read(engine) as connection:
        await connection.run_sync(refuse_newer)
    own = await find_revision(engine)
    if own is None:
        raise InvalidRequest("the database has no tables yet: there is nothing to take back")
    there = [revision for revision in known_revisions() if revision.number <= own]
    if number not in {revision.number for revision in there}:
        below = ", ".join(revision.number for revision in there)
        raise InvalidRequest(f"the database has revision {own}; it can go back to one of {below}")
    return [revision for revision in reversed(there) if revision.number > number]


async def downgrade(engine: AsyncEngine, number: str) -> None:
    """Takes the schema back, in one transaction, and with it what the later revisions kept.

    Raises SettingsInvalid for a database that a newer version made, and the `Store…` errors.
    """

    def go_back(connection: Connection) -> None:
        refuse_newer(connection)
        command.downgrade(alembic_config(connection), number)

    async with migrating(engine) as connection:
        await connection.run_sync(go_back)
