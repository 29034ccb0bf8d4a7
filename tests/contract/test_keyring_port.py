"""API keys on each database: shown once, stored hashed, revoked at once."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from app.adapters.sql.engine import read
from app.adapters.sql.keys import SQLKeyring
from app.adapters.sql.tables import api_keys


async def test_a_key_finds_its_project_and_scope(engine) -> None:
    keyring = SQLKeyring(engine)
    assert not await keyring.any()
    made, key = await keyring.create("ci", "team", "write")
    assert await keyring.find(key) == made
    assert await keyring.find(key[:-1]) is None
    assert await keyring.list() == [made]


async def test_the_database_never_holds_the_key(engine) -> None:
    _, key = await SQLKeyring(engine).create("ci", "team", "write")
    async with read(engine) as connection:
        [row] = (await connection.execute(select(api_keys))).all()
    assert key not in str(row)
    assert key.removeprefix("saiten_") not in str(row)


async def test_a_revoked_key_is_no_key_but_the_service_stays_closed(engine) -> None:
    keyring = SQLKeyring(engine)
    made, key = await keyring.create("ci", "team", "write")
    assert await keyring.revoke(made.id)
    assert not await keyring.revoke(made.id)
    assert await keyring.find(key) is None
    assert await keyring.any()


@pytest.mark.parametrize("text", ["\0", "saiten_\0", "\ud800"])
async def test_what_no_column_can_hold_is_no_key(engine, text: str) -> None:
    keyring = SQLKeyring(engine)
    await keyring.create("ci", "team", "write")
    assert await keyring.find(text) is None
    assert not await keyring.revoke(text)
