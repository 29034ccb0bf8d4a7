"""Keys and the audit log: what is done to a key and the line about it stand or fall together."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreError
from saiten_server.governance.keys import APIKeyStore
from saiten_server.governance.store import AuditLog
from saiten_server.platform.sql.engine import write


async def test_every_change_of_a_key_is_noted_once(engine: AsyncEngine) -> None:
    keyring, log = APIKeyStore(engine, actor="cli:ops"), AuditLog(engine)
    made, key = await keyring.create("ci", "team", "write", requests_per_minute=60)
    assert await keyring.limit(made.id, requests_per_minute=None, usd_per_day=2.5)
    assert await keyring.revoke(made.id)
    assert not await keyring.revoke(made.id)
    assert not await keyring.limit("key_none", requests_per_minute=1, usd_per_day=None)
    noted = await log.events(None, before=None, limit=10)
    assert [(one.action, one.actor, one.project, one.target) for one in noted] == [
        (action, "cli:ops", "team", made.id) for action in ("key.revoked", "key.limited", "key.created")
    ]
    about = {"name": "ci", "scope": "write"}
    assert noted[2].detail == about | {"requests_per_minute": 60, "usd_per_day": None}
    assert noted[1].detail == noted[0].detail == about | {"requests_per_minute": None, "usd_per_day": 2.5}
    assert key not in str(noted)


async def test_without_an_actor_nothing_is_noted(engine: AsyncEngine) -> None:
    made, _ = await APIKeyStore(engine).create("ci", "team", "write")
    assert await APIKeyStore(engine).revoke(made.id)
    assert await AuditLog(engine).events(None, before=None, limit=10) == []


async def test_what_cannot_be_noted_is_not_done(engine: AsyncEngine) -> None:
    keyring = APIKeyStore(engine, actor="cli:ops")
    made, key = await keyring.create("ci", "team", "write")
    async with write(engine) as connection:
        await connection.exec_driver_sql("ALTER TABLE audit_events RENAME TO audit_events_away")
    with pytest.raises(StoreError):
        await keyring.revoke(made.id)
    with pytest.raises(StoreError):
        await keyring.create("more", "team", "admin")
    assert await keyring.find(key) == made
    assert await keyring.list() == [made]
