"""Rows that take the place of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection


def insert_or_replace(connection: AsyncConnection, table: Table, row: Mapping[str, object]) -> Insert:
    """An insert of the row that takes the place of the one with its primary key.

    Both databases have it; SQLAlchemy has no name common to both.
    """
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    rest = {name: value for name, value in row.items() if name not in keys}
    replaced: Insert = insert(table).values(row).on_conflict_do_update(index_elements=keys, set_=rest)
    return replaced
