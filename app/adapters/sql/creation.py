"""The whole schema at once, for a database in which nothing is yet: what the migrations would make one after the other.

A test holds that both make the same, down to the catalogs of either database.
"""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select
from sqlalchemy.engine import Connection

# Their tables belong to the same metadata.
from app.adapters.sql import governance_tables, provider_tables, round_tables  # noqa: F401
from app.adapters.sql.tables import metadata

MIGRATIONS = Path(__file__).parent / "migrations"

# Alembic's own, where it notes a database's revision. Not among Saiten's tables: no migration makes it.
stamp = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def newest_revision() -> str:
    """The number of the last migration, as its file is named: to ask Alembic would be to load all of it."""
    names = (path.name for path in (MIGRATIONS / "versions").iterdir())
    return max(name[:4] for name in names if re.match(r"\d{4}_", name))


def is_current(connection: Connection) -> bool:
    """Whether the schema is that of the newest migration."""
    if not inspect(connection).has_table(stamp.name):
        return False
    return connection.execute(select(stamp.c.version_num)).scalars().all() == [newest_revision()]


def is_empty(connection: Connection) -> bool:
    """Whether there is no table at all, not even another program's."""
    return not inspect(connection).get_table_names()


def create_schema(connection: Connection) -> None:
    """Makes all tables and notes the newest revision, inside the caller's transaction. Needs an empty database."""
    stamp.create(connection, checkfirst=False)
    metadata.create_all(connection, checkfirst=False)
    connection.execute(stamp.insert().values(version_num=newest_revision()))
