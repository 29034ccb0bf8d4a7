"""Which revision a database has, the way to the next and back, and databases whose revision is not known."""

from pathlib import Path

import pytest
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import read, write
from saiten_server.platform.sql.schema import (
    LAST_CHAINED,
    downgrade,
    find_revision,
    known_numbers,
    known_revisions,
    migrate,
    revisions_above,
)
from tests.support.cases import in_turn
from tests.support.migrations import NUMBER, add_migration
from tests.support.schema_catalog import Catalog, read_catalog

OLDEST, NEWEST = known_numbers()[0], known_numbers()[-1]
NEWER = "9999"
OLDER = "0028"


async def revise(engine: AsyncEngine, number: str) -> None:
    async with write(engine) as connection:
        await connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{number}'")


async def look(engine: AsyncEngine) -> Catalog:
    async with read(engine) as connection:
        return await connection.run_sync(read_catalog)


def test_each_revision_says_what_it_brought() -> None:
    revisions = known_revisions()
    assert [revision.number for revision in revisions] == known_numbers()
    assert all(revision.about for revision in revisions)


async def test_a_database_that_is_up_to_date_has_the_newest_revision(engine: AsyncEngine) -> None:
    assert await find_revision(engine) == NEWEST
    assert await revisions_above(engine, NEWEST) == []


async def test_a_database_of_the_newest_revision_goes_on_as_it_is(engine: AsyncEngine) -> None:
    made, key = await APIKeyStore(engine).create("ci", "team", "write")
    before = await look(engine)
    await migrate(engine)
    assert await look(engine) == before
    assert await APIKeyStore(engine).find(key) == made


async def test_the_next_migration_keeps_what_is_there_and_the_way_back_names_what_is_lost(
    engine: AsyncEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, key = await APIKeyStore(engine).create("ci", "team", "write")
    before = await look(engine)
    add_migration(tmp_path, monkeypatch)
    await migrate(engine)
    assert await find_revision(engine) == NUMBER
    async with read(engine) as connection:
        assert await connection.run_sync(lambda sync: inspect(sync).has_table("notes"))
    assert await APIKeyStore(engine).find(key) == made
    assert await revisions_above(engine, NEWEST) == known_revisions()[-1:]
    await downgrade(engine, NEWEST)
    assert (await look(engine))["revision"] == before["revision"]
    async with read(engine) as connection:
        assert not await connection.run_sync(lambda sync: inspect(sync).has_table("notes"))
    assert await APIKeyStore(engine).find(key) == made


@in_turn("number", ["base", "0000", OLDER, NEWER, "-1", "head", ""])
async def test_there_is_no_way_back_to_what_is_not_below(engine: AsyncEngine, number: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"has revision {NEWEST}; it can go back to one of {OLDEST}"):
        await revisions_above(engine, number)


@in_turn(
    ("number", "words"),
    [
        (NEWER, f"was made by a newer version of Saiten .revision {NEWER}; this one knows up to {NEWEST}.: run that"),
        (
            OLDER,
            f"has revision {OLDER}, and this version of Saiten upgrades only from {OLDEST} on: make a backup, "
            f"run `saiten database upgrade` at commit {LAST_CHAINED}, then",
        ),
    ],
)
async def test_a_database_of_an_unknown_revision_is_left_as_it_is(engine: AsyncEngine, number: str, words: str) -> None:
    await revise(engine, number)
    before = await look(engine)
    for attempt in (migrate(engine), revisions_above(engine, OLDEST), downgrade(engine, OLDEST)):
        with pytest.raises(SettingsInvalid, match=words):
            await attempt
    assert await find_revision(engine) == number
    assert await look(engine) == before
    assert await APIKeyStore(engine).list() == []
