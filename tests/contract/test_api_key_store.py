"""API keys on each database: shown once, stored hashed, revoked at once."""

import pytest
from sqlalchemy import select

from saiten_server.governance.keys import MOST_SESSIONS, APIKeyStore
from saiten_server.platform.sql.engine import read
from saiten_server.platform.sql.tables import api_keys, sessions


async def test_a_key_finds_its_project_and_scope(engine) -> None:
    keyring = APIKeyStore(engine)
    assert not await keyring.any()
    made, key = await keyring.create("ci", "team", "write")
    assert await keyring.find(key) == made
    assert await keyring.find(key[:-1]) is None
    assert await keyring.list() == [made]


async def test_the_database_never_holds_the_key(engine) -> None:
    _, key = await APIKeyStore(engine).create("ci", "team", "write")
    async with read(engine) as connection:
        [row] = (await connection.execute(select(api_keys))).all()
    assert key not in str(row)
    assert key.removeprefix("saiten_") not in str(row)


async def test_a_revoked_key_is_no_key_but_the_service_stays_closed(engine) -> None:
    keyring = APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write")
    assert await keyring.revoke(made.id)
    assert not await keyring.revoke(made.id)
    assert await keyring.find(key) is None
    assert await keyring.any()


@pytest.mark.parametrize("text", ["\0", "saiten_\0", "\ud800"])
async def test_what_no_column_can_hold_is_no_key(engine, text: str) -> None:
    keyring = APIKeyStore(engine)
    await keyring.create("ci", "team", "write")
    assert await keyring.find(text) is None
    assert not await keyring.revoke(text)


async def test_a_key_keeps_its_limits_until_they_are_changed(engine) -> None:
    keyring = APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write", requests_per_minute=60, usd_per_day=2.5)
    other, _ = await keyring.create("ops", "team", "write")
    assert (made.requests_per_minute, made.usd_per_day) == (60, 2.5)
    assert await keyring.limit(made.id, requests_per_minute=None, usd_per_day=4.0)
    found = await keyring.find(key)
    assert found is not None
    assert (found.requests_per_minute, found.usd_per_day) == (None, 4.0)
    assert other in await keyring.list()


@pytest.mark.parametrize("key_id", ["key_none", "\0"])
async def test_there_is_nothing_to_limit_of_a_key_that_is_none(engine, key_id: str) -> None:
    assert not await APIKeyStore(engine).limit(key_id, requests_per_minute=1, usd_per_day=None)


async def test_a_revoked_key_has_no_limits_to_change(engine) -> None:
    keyring = APIKeyStore(engine)
    made, _ = await keyring.create("ci", "team", "write", usd_per_day=2.5)
    await keyring.revoke(made.id)
    assert not await keyring.limit(made.id, requests_per_minute=1, usd_per_day=1.0)
    assert [key.usd_per_day for key in await keyring.list()] == [2.5]


# Sessions


async def test_a_session_stands_for_its_key_on_every_replica_until_it_is_closed(engine) -> None:
    keyring, other = APIKeyStore(engine), APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write")
    first, second = [await keyring.open_session(key, seconds=60) for _ in range(2)]
    assert first is not None
    assert second is not None
    assert await other.find_session(first) == await other.find_session(second) == made
    assert await other.find(first) is None, "a session's token is no key"
    assert await other.find_session(key) is None
    await keyring.close_session(first)
    await keyring.close_session("none")
    assert await other.find_session(first) is None
    assert await other.find_session(second) == made
    assert await keyring.open_session(first, seconds=60) is None
    async with read(engine) as connection:
        rows = str((await connection.execute(select(sessions))).all())
    assert second not in rows
    assert key not in rows


async def test_a_session_ends_with_its_key_and_with_its_time(engine) -> None:
    keyring = APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write")
    _, another = await keyring.create("ci-2", "team", "read")
    kept, gone, expired = [
        await keyring.open_session(text, seconds=seconds) for text, seconds in ((another, 60), (key, 60), (another, 0))
    ]
    assert await keyring.find_session(str(expired)) is None
    assert await keyring.find_session(str(gone)) == made
    await keyring.revoke(made.id)
    assert await keyring.find_session(str(gone)) is None
    assert await keyring.find_session(str(kept)) is not None
    assert await keyring.open_session(key, seconds=60) is None
    await keyring.open_session(another, seconds=60)
    async with read(engine) as connection:
        assert len((await connection.execute(select(sessions))).all()) == 2, "revoked and expired ones are purged"


async def test_a_key_has_so_many_sessions_and_then_the_oldest_end(engine) -> None:
    keyring = APIKeyStore(engine)
    _, key = await keyring.create("ci", "team", "read")
    tokens = [await keyring.open_session(key, seconds=60) for _ in range(MOST_SESSIONS + 1)]
    assert await keyring.find_session(str(tokens[0])) is None
    assert await keyring.find_session(str(tokens[1])) is not None
    assert await keyring.find_session(str(tokens[-1])) is not None
