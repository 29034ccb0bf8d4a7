"""Asks a PostgreSQL connection that was idle whether it still answers, and not before every statement.

SQLAlchemy's `pool_pre_ping` asks whenever a connection is taken from the pool. With asyncpg that is three round trips,
where most reads are one.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine

TRUSTED_SECONDS = 1.0
"""Who answered so recently is not asked. A server that stops closes its connections, which is seen without asking as
soon as the event loop has read it; what goes without a word, as where a firewall forgets it, takes minutes."""

USED_AT = "saiten_used_at"


def ask_the_idle(engine: AsyncEngine) -> None:
    """Lets the pool of an asyncpg engine make connections anew that the server ended, or that no longer answer."""
    refused = (engine.dialect.loaded_dbapi.Error, OSError)

    def note(_connection: Any, record: Any) -> None:
        record.info[USED_AT] = time.monotonic()

    def ask(connection: Any, record: Any, _fairy: Any) -> None:
        used_at = record.info.get(USED_AT)
        if used_at is None:
            return  # made a moment ago
        if connection.driver_connection.is_closed():
            # This one alone: the server may end those that are idle, and every other one shows it by itself.
            raise DisconnectionError
        if time.monotonic() - used_at < TRUSTED_SECONDS:
            return
        try:
            connection.ping()
        except refused as error:
            raise InvalidatePoolError from error

    event.listen(engine.sync_engine, "checkin", note)
    event.listen(engine.sync_engine, "checkout", ask)
