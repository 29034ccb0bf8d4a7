"""Requests that come together look their keys up together, and each finds what holds when it asks."""

import asyncio

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.governance.keys import APIKeyStore


def watch_statements(engine: AsyncEngine) -> list[str]:
    """Grows with each statement."""
    statements: list[str] = []
    event.listen(engine.sync_engine, "before_cursor_execute", lambda *told: statements.append(told[2].split()[0]))
    return statements


async def test_what_is_asked_together_is_one_statement(engine: AsyncEngine) -> None:
    keyring = APIKeyStore(engine)
    made = [await keyring.create(f"k{number}", f"team-{number}", "write") for number in range(3)]
    statements = watch_statements(engine)
    asked = [key for _, key in made] * 4 + ["saiten_none"]
    found = await asyncio.gather(*map(keyring.find, asked))
    assert found == [key for key, _ in made] * 4 + [None]
    assert statements == ["SELECT"]


async def test_a_look_up_begins_after_it_was_asked_for(engine: AsyncEngine) -> None:
    """Nothing is remembered: the look-up that follows a revocation, alone or with others, finds no key."""
    keyring = APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write")
    assert await asyncio.gather(*(keyring.find(key) for _ in range(3))) == [made] * 3
    await APIKeyStore(engine).revoke(made.id)  # another process
    assert await asyncio.gather(*(keyring.find(key) for _ in range(3))) == [None] * 3


async def test_a_look_up_under_way_is_not_for_who_asks_later(engine: AsyncEngine) -> None:
    keyring = APIKeyStore(engine)
    made, key = await keyring.create("ci", "team", "write")
    early = asyncio.create_task(keyring.find(key))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await APIKeyStore(engine).revoke(made.id)
    assert await keyring.find(key) is None
    assert await early in {made, None}


async def test_once_there_was_a_key_nobody_looks_again_whether_there_is_one(engine: AsyncEngine) -> None:
    keyring = APIKeyStore(engine)
    statements = watch_statements(engine)
    assert await asyncio.gather(*(keyring.any() for _ in range(5))) == [False] * 5
    assert statements == ["SELECT"]
    other = APIKeyStore(engine)  # another process
    made, _ = await other.create("ci", "team", "write")
    assert await keyring.any()
    await other.revoke(made.id)
    statements.clear()
    assert await keyring.any()
    assert statements == []
