"""`Store` in SQL: evaluations, similarity baselines and idempotency keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Insert, Table, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.engine import read, write
from app.adapters.sql.tables import can_hold, evaluations, idempotency_keys, similarity_baselines
from app.domain.errors import StoreUnavailable
from app.domain.evaluation import Record
from app.ports import StoredAnswer

KEPT = timedelta(hours=48)
"""How long an answered Idempotency-Key is kept; the contract promises 24 hours at least."""

ABANDONED = timedelta(minutes=3)
"""A key whose request has not been answered by then belonged to a process that died: longer than the judge's deadline
of 120 s with a translation before it, short enough that a caller who retries after a crash is served."""

CLAIMS = 5
"""Attempts at a key that is let go and taken again between two statements."""


class SQLStore:
    """Keeps records on any engine that `app.adapters.sql.engine` opens."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def save(self, project: str, record: Record) -> None:
        evaluation = record.evaluation
        row = {
            "id": evaluation.id,
            "project": project,
            "created_at": evaluation.created_at,
            "rubric": evaluation.rubric.id,
            "status": evaluation.status,
            "signature": evaluation.signature,
            "record": record.model_dump_json(),
        }
        async with write(self._engine) as connection:
            await connection.execute(insert(evaluations).values(row))

    async def find(self, project: str, evaluation_id: str) -> Record | None:
        if not can_hold(project, evaluation_id):
            return None
        query = select(evaluations.c.record).where(evaluations.c.id == evaluation_id, evaluations.c.project == project)
        async with read(self._engine) as connection:
            found = (await connection.execute(query)).scalar_one_or_none()
        return None if found is None else Record.model_validate_json(found)

    async def ping(self) -> None:
        async with read(self._engine) as connection:
            # A real table: a database without its tables answers SELECT 1 too.
            await connection.execute(select(evaluations.c.id).limit(1))

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None:
        if not can_hold(encoder, language, calibration):
            return None
        table = similarity_baselines
        query = select(table.c.value).where(
            table.c.encoder == encoder, table.c.language == language, table.c.calibration == calibration
        )
        async with read(self._engine) as connection:
            return (await connection.execute(query)).scalar_one_or_none()

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None:
        if not can_hold(encoder, language, calibration):
            return
        row = {"encoder": encoder, "language": language, "calibration": calibration, "value": value}
        async with write(self._engine) as connection:
            await connection.execute(insert_or_ignore(connection, similarity_baselines, row))

    async def claim_key(self, project: str, key: str, body_digest: str) -> StoredAnswer | None:
        if not can_hold(project, key):
            return None
        table, now = idempotency_keys, datetime.now(UTC)
        row = {"project": project, "key": key, "body_digest": body_digest, "created_at": now}
        stale = (table.c.created_at < now - KEPT) | (table.c.status.is_(None) & (table.c.created_at < now - ABANDONED))
        this = (table.c.project == project) & (table.c.key == key)
        async with write(self._engine) as connection:
            await connection.execute(delete(table).where(stale))
            for _ in range(CLAIMS):
                claimed = await connection.execute(insert_or_ignore(connection, table, row))
                if claimed.rowcount == 1:
                    return None
                held = (
                    await connection.execute(select(table.c.body_digest, table.c.status, table.c.body).where(this))
                ).one_or_none()
                # None: whoever held it has let go between the two statements.
                if held is not None:
                    return StoredAnswer(held.body_digest, held.status, held.body)
        raise StoreUnavailable("others keep taking this Idempotency-Key and letting it go; try again")

    async def answer_key(self, project: str, key: str, status: int, body: bytes) -> None:
        if not can_hold(project, key):
            return
        table = idempotency_keys
        async with write(self._engine) as connection:
            await connection.execute(
                update(table).where(table.c.project == project, table.c.key == key).values(status=status, body=body)
            )

    async def release_key(self, project: str, key: str) -> None:
        if not can_hold(project, key):
            return
        table = idempotency_keys
        async with write(self._engine) as connection:
            await connection.execute(
                delete(table).where(table.c.project == project, table.c.key == key, table.c.status.is_(None))
            )


def insert_or_ignore(connection: AsyncConnection, table: Table, row: dict[str, object]) -> Insert:
    """An insert that does nothing where the primary key is taken.

    Both databases have it; SQLAlchemy has no name common to both.
    """
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).values(row).on_conflict_do_nothing()
    return sqlite.insert(table).values(row).on_conflict_do_nothing()
