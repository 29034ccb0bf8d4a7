"""The tables, as SQLAlchemy Core sees them. `migrations/` makes them; a test holds that both agree."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

UNHOLDABLE = re.compile("[\\0\\ud800-\\udfff]")


class Instant(TypeDecorator[datetime]):
    """A moment in UTC on every database. SQLite has no time zones and would give it back without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("rubric", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("signature", Text, nullable=False),
    Column("record", Text, nullable=False),
    Index(None, "project", "created_at"),
)

call_cache = Table(
    "call_cache",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

similarity_baselines = Table(
    "similarity_baselines",
    metadata,
    Column("encoder", String(512), primary_key=True),
    Column("language", String(8), primary_key=True),
    Column("calibration", String(64), primary_key=True),
    Column("value", Float(precision=53), nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("body_digest", String(64), nullable=False),
    Column("status", Integer, nullable=True),
    Column("body", LargeBinary, nullable=True),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    Column("revoked_at", Instant, nullable=True),
)


def can_hold(*texts: str) -> bool:
    """Whether a column can hold the texts. What it cannot is in no row: PostgreSQL refuses NUL, both a surrogate."""
    return not any(UNHOLDABLE.search(text) for text in texts)
