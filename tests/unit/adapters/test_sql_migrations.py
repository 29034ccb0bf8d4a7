"""The migrations make what the tables say, and take it back, on each database."""

from __future__ import annotations

import asyncio

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from app.adapters.sql.engine import alembic_config, connect, migrate, open_engine
from app.adapters.sql.tables import metadata


async def test_the_schema_is_what_the_tables_say(engine) -> None:
    async with connect(engine) as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync, opts={"compare_type": True}), metadata)
        )
    assert differences == []


async def test_up_down_up(engine) -> None:
    async with connect(engine) as connection:
        await connection.run_sync(lambda sync: command.downgrade(alembic_config(sync), "base"))
    async with connect(engine) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert names == ["alembic_version"]
    await migrate(engine)
    async with connect(engine) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert set(names) == {*metadata.tables, "alembic_version"}


async def test_replicas_that_start_at_once_migrate_once(postgres_url: str) -> None:
    engines = [open_engine(postgres_url) for _ in range(4)]
    await asyncio.gather(*(migrate(engine) for engine in engines))
    async with connect(engines[0]) as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert "evaluations" in names
    for engine in engines:
        await engine.dispose()
