"""API keys, and the dashboard's sessions: stored hashed, shown once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Select, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.access import APIKey, AuditEvent, Scope
from saiten_server.governance.store import keep_event, tell_events
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.cache import pad
from saiten_server.platform.sql.tables import api_keys, can_store, equals, sessions

KEY_PREFIX = "saiten_"

MOST_HASHES = 256
"""Hashes per statement, a power of two."""

KEY_LINGER_SECONDS = 0.002
"""A statement costs most of a millisecond of CPU, whatever it asks for: under load a dozen requests share one."""

MOST_SESSIONS = 100
"""Sessions per key. If there are more, the oldest end."""

KEY_COLUMNS = tuple(api_keys.c[field.name] for field in fields(APIKey))
"""The columns of an `APIKey`, in its order."""


def hash_key(key: str) -> str:
    """SHA-256 of a key or a session's token. A plain digest is enough: both have 256 random bits, so there is nothing
    to guess."""
    return hashlib.sha256(key.encode()).hexdigest()


class APIKeyStore:
    """API keys and dashboard sessions. Raises the `Store…` errors. Every request looks its key
    up, so a revocation holds at once on every replica. Requests that come together share one statement, which begins
    after the last of them has asked. `actor` is who makes, limits and revokes keys: that goes to the audit log in the
    same transaction."""

    def __init__(self, engine: AsyncEngine, *, actor: str | None = None) -> None:
        self._engine = engine
        self._actor = actor
        self._lookups = Coalescer(
            self._find, most=MOST_HASHES, linger_seconds=KEY_LINGER_SECONDS, company=2, own_context=True
        )
        self._sessions = Coalescer(
            self._find_sessions, most=MOST_HASHES, linger_seconds=KEY_LINGER_SECONDS, company=2, own_context=True
        )
        self._looks = Coalescer(self._any, linger_seconds=KEY_LINGER_SECONDS, company=2, own_context=True)
        self._closed = False

    async def create(
        self,
        name: str,
        project: str,
        scope: Scope,
        *,
        requests_per_minute: int | None = None,
        usd_per_day: float | None = None,
    ) -> tuple[APIKey, str]:
        """Creates a key and returns it with its text, which is not stored."""
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        limits = (requests_per_minute, usd_per_day)
        made = APIKey("key_" + secrets.token_hex(6), name, project, scope, datetime.now(UTC), None, *limits)
        row = asdict(made) | {"hash": hash_key(key)}
        async with db.write(self._engine) as connection:
            await connection.execute(insert(api_keys).values(row))
            event = await self._note(connection, "key.created", made)
        tell_events(event)
        return made, key

    async def list(self) -> list[APIKey]:
        query = select(*KEY_COLUMNS).order_by(api_keys.c.created_at, api_keys.c.id)
        async with db.read(self._engine) as connection:
            return [APIKey(*row) for row in (await connection.execute(query)).all()]

    async def revoke(self, key_id: str) -> bool:
        """Returns whether there was such a key and it was valid."""
        return await self._change(key_id, "key.revoked", revoked_at=datetime.now(UTC))

    async def limit(self, key_id: str, *, requests_per_minute: int | None, usd_per_day: float | None) -> bool:
        """Sets both limits of the key, None for the service's own. Returns whether there is such a valid key."""
        limits = {"requests_per_minute": requests_per_minute, "usd_per_day": usd_per_day}
        return await self._change(key_id, "key.limited", **limits)

    async def _change(self, key_id: str, action: str, **values: Any) -> bool:
        """Whether there is such a key and it was good until now."""
        this = update(api_keys).where(equals(api_keys.c.id, key_id), api_keys.c.revoked_at.is_(None))
        async with db.write(self._engine) as connection:
            row = (await connection.execute(this.values(**values).returning(*KEY_COLUMNS))).one_or_none()
            if row is not None and "revoked_at" in values:
                await connection.execute(delete(sessions).where(sessions.c.key_id == key_id))
            event = None if row is None else await self._note(connection, action, APIKey(*row))
        tell_events(event)
        return row is not None

    async def _note(self, connection: AsyncConnection, action: str, key: APIKey) -> AuditEvent | None:
        """Stores the event in the transaction; None if there is no actor."""
        if self._actor is None:
            return None
        limits = {"requests_per_minute": key.requests_per_minute, "usd_per_day": key.usd_per_day}
        event = AuditEvent(
            at=datetime.now(UTC),
            project=key.project,
            actor=self._actor,
            action=action,
            target=key.id,
            detail={"name": key.name, "scope": key.scope, **limits},
        )
        await keep_event(connection, event)
        return event

    async def find(self, key: str) -> APIKey | None:
        return await self._lookups(hash_key(key)) if can_store(key) else None

    async def open_session(self, key: str, *, seconds: float) -> str | None:
        """A random token that stands for the key for so long and is not stored; None if the key is not valid."""
        found = await self.find(key)
        if found is None:
            return None
        token, now, of_key = secrets.token_urlsafe(32), datetime.now(UTC), sessions.c.key_id == found.id
        newest = select(sessions.c.hash).where(of_key).order_by(sessions.c.created_at.desc()).limit(MOST_SESSIONS - 1)
        row = {"hash": hash_key(token), "key_id": found.id, "created_at": now}
        async with db.change(self._engine) as connection:
            await connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
            kept = (await connection.execute(newest)).scalars().all()
            await connection.execute(delete(sessions).where(of_key, sessions.c.hash.not_in(kept)))
            await connection.execute(insert(sessions), {**row, "expires_at": now + timedelta(seconds=seconds)})
        return token

    async def find_session(self, token: str) -> APIKey | None:
        """The valid key of a session that is neither closed nor expired."""
        return await self._sessions(hash_key(token)) if can_store(token) else None

    async def close_session(self, token: str) -> None:
        """Ends the session on every replica."""
        if not can_store(token):
            return
        await db.execute(self._engine, delete(sessions).where(sessions.c.hash == hash_key(token)))

    async def any(self) -> bool:
        """Whether a key was ever created. Anonymous callers may be answered only if there was none."""
        # Rows are never removed, so there is nothing to look for any more once there was one.
        return self._closed or await self._looks(None)

    async def _find(self, hashes: Sequence[str]) -> Sequence[APIKey | None]:
        """The valid key of each hash."""
        return await self._look_up(select(api_keys.c.hash, *KEY_COLUMNS), api_keys.c.hash, hashes)

    async def _find_sessions(self, hashes: Sequence[str]) -> Sequence[APIKey | None]:
        """The valid key of each session that has not expired."""
        query = select(sessions.c.hash, *KEY_COLUMNS).join(api_keys, api_keys.c.id == sessions.c.key_id)
        return await self._look_up(query.where(sessions.c.expires_at > datetime.now(UTC)), sessions.c.hash, hashes)

    async def _look_up(self, query: Select[Any], column: Column[str], hashes: Sequence[str]) -> Sequence[APIKey | None]:
        asked = pad([*dict.fromkeys(hashes)])
        wanted = column == asked[0] if len(asked) == 1 else column.in_(asked)
        async with db.read(self._engine) as connection:
            rows = await connection.execute(query.where(wanted, api_keys.c.revoked_at.is_(None)))
            found = {row[0]: APIKey(*row[1:]) for row in rows}
        return [found.get(one) for one in hashes]

    async def _any(self, asked: Sequence[None]) -> Sequence[bool]:
        # Revoked ones count: a service that had keys must not open up when the last one is revoked.
        async with db.read(self._engine) as connection:
            self._closed = (await connection.execute(select(api_keys.c.id).limit(1))).first() is not None
        return [self._closed] * len(asked)
