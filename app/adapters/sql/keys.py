"""API keys: stored hashed, shown once."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import read, write
from app.adapters.sql.tables import api_keys, can_hold
from app.ports import APIKey, Scope

PREFIX = "saiten_"


def hash_key(key: str) -> str:
    """SHA-256 of the key. A plain digest is enough: a key has 256 random bits, so there is nothing to guess."""
    return hashlib.sha256(key.encode()).hexdigest()


class SQLKeyring:
    """`Keyring` in SQL. Every request looks, so a revocation holds at once on every replica."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def create(self, name: str, project: str, scope: Scope) -> tuple[APIKey, str]:
        key = PREFIX + secrets.token_urlsafe(32)
        made = APIKey("key_" + secrets.token_hex(6), name, project, scope, datetime.now(UTC), None)
        row = {
            "id": made.id,
            "name": name,
            "project": project,
            "scope": scope,
            "hash": hash_key(key),
            "created_at": made.created_at,
        }
        async with write(self._engine) as connection:
            await connection.execute(insert(api_keys).values(row))
        return made, key

    async def list(self) -> list[APIKey]:
        table = api_keys
        query = select(
            table.c.id, table.c.name, table.c.project, table.c.scope, table.c.created_at, table.c.revoked_at
        ).order_by(table.c.created_at, table.c.id)
        async with read(self._engine) as connection:
            return [APIKey(*row) for row in (await connection.execute(query)).all()]

    async def revoke(self, key_id: str) -> bool:
        if not can_hold(key_id):
            return False
        table = api_keys
        change = update(table).where(table.c.id == key_id, table.c.revoked_at.is_(None))
        async with write(self._engine) as connection:
            return (await connection.execute(change.values(revoked_at=datetime.now(UTC)))).rowcount == 1

    async def find(self, key: str) -> APIKey | None:
        if not can_hold(key):
            return None
        table = api_keys
        query = select(
            table.c.id, table.c.name, table.c.project, table.c.scope, table.c.created_at, table.c.revoked_at
        ).where(table.c.hash == hash_key(key), table.c.revoked_at.is_(None))
        async with read(self._engine) as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else APIKey(*row)

    async def any(self) -> bool:
        # Revoked ones count: a service that had keys must not open up when the last one is revoked.
        async with read(self._engine) as connection:
            return (await connection.execute(select(api_keys.c.id).limit(1))).first() is not None
