"""Which revision a database has, the way back to an older one, and a database that a newer version made."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.errors import InvalidRequest, SettingsInvalid
from app.storage.sql.engine import write
from app.storage.sql.keys import APIKeyStore
from app.storage.sql.schema import downgrade, find_revision, known_revisions, migrate, revisions_above

NEWEST = known_revisions()[-1].number
NEWER = "9999"


async def make_newer(engine: AsyncEngine) -> None:
    async with write(engine) as connection:
        await connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{NEWER}'")


def test_each_revision_says_what_it_brought() -> None:
    numbers = [revision.number for revision in known_revisions()]
    assert numbers == sorted(numbers)
    assert all(revision.about for revision in known_revisions())


async def test_a_database_that_is_up_to_date_has_the_newest_revision(engine: AsyncEngine) -> None:
    assert await find_revision(engine) == NEWEST
    assert await revisions_above(engine, NEWEST) == []


async def test_the_way_back_names_what_is_lost_and_leaves_the_rest(engine: AsyncEngine) -> None:
    made, key = await APIKeyStore(engine).create("ci", "team", "write")
    above = [revision for revision in known_revisions() if revision.number > "0005"]
    assert await revisions_above(engine, "0005") == above[::-1]
    await downgrade(engine, "0005")
    assert await find_revision(engine) == "0005"
    await migrate(engine)
    assert await find_revision(engine) == NEWEST
    assert await APIKeyStore(engine).find(key) == made


@pytest.mark.parametrize("number", ["base", "0000", "0007", NEWER, "-1", "head", ""])
async def test_there_is_no_way_back_to_what_is_not_below(engine: AsyncEngine, number: str) -> None:
    await downgrade(engine, "0006")
    with pytest.raises(InvalidRequest, match=r"has revision 0006; it can go back to one of 0001, .*0006$"):
        await revisions_above(engine, number)


async def test_a_database_of_a_newer_version_is_left_as_it_is(engine: AsyncEngine) -> None:
    await make_newer(engine)
    for attempt in (migrate(engine), revisions_above(engine, "0001"), downgrade(engine, "0001")):
        with pytest.raises(SettingsInvalid, match=f"newer version of Saiten .revision {NEWER}; this one knows"):
            await attempt
    assert await find_revision(engine) == NEWER
    assert await APIKeyStore(engine).list() == []
