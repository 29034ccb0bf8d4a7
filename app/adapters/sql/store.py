"""`Store` in SQL: evaluations, similarity baselines and idempotency keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import Insert, Table, delete, insert, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.adapters.sql.engine import connect
from app.adapters.sql.tables import evaluations, idempotency_keys, similarity_baselines
from app.domain.evaluation import Record
from app.ports import StoredAnswer

KEPT = timedelta(hours=48)
"""How long an answered Idempotency-Key is kept; the contract promises 24 hours at least."""

ABANDONED = timedelta(minutes=10)
"""A key whose request has not been answered by then belonged to a process that died."""


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
        async with connect(self._engine) as connection:
            await connection.execute(insert(evaluations).values(row))

    async def find(self, project: str, evaluation_id: str) -> Record | None:
        query = select(evaluations.c.record).where(evaluations.c.id == evaluation_id, evaluations.c.project == project)
        async with connect(self._engine) as connection:
            found = (await connection.execute(query)).scalar_one_or_none()
        return None if found is None else Record.model_validate_json(found)

    async def ping(self) -> None:
        async with connect(self._engine) as connection:
            await connection.execute(text("SELECT 1"))

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None:
        table = similarity_baselines
        query = select(table.c.value).where(
            table.c.encoder == encoder, table.c.language == language, table.c.calibration == calibration
        )
        async with connect(self._engine) as connection:
            return (await connection.execute(query)).scalar_one_or_none()

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None:
        row = {"encoder": encoder, "language": language, "calibration": calibration, "value": value}
        async with connect(self._engine) as connection:
            await connection.execute(insert_or_ignore(connection, similarity_baselines, row))

    async def claim_key(self, project: str, key: str, body_digest: str) -> StoredAnswer | None:
        table, now = idempotency_keys, datetime.now(UTC)
        row = {"project": project, "key": key, "body_digest": body_digest, "created_at": now}
        stale = (table.c.created_at < now - KEPT) | (table.c.status.is_(None) & (table.c.created_at < now - ABANDONED))
        this = (table.c.project == project) & (table.c.key == key)
        async with connect(self._engine) as connection:
            await connection.execute(delete(table).where(stale))
            while True:
                claimed = await connection.execute(insert_or_ignore(connection, table, row))
                if claimed.rowcount == 1:
                    return None
                held = (
                    await connection.execute(select(table.c.body_digest, table.c.status, table.c.body).where(this))
                ).one_or_none()
                # None: whoever held it has let go between the two statements.
                if held is not None:
                    return StoredAnswer(held.body_digest, held.status, held.body)

    async def answer_key(self, project: str, key: str, status: int, body: bytes) -> None:
        table = idempotency_keys
        async with connect(self._engine) as connection:
            await connection.execute(
                update(table).where(table.c.project == project, table.c.key == key).values(status=status, body=body)
            )

    async def release_key(self, project: str, key: str) -> None:
        table = idempotency_keys
        async with connect(self._engine) as connection:
            await connection.execute(
                delete(table).where(table.c.project == project, table.c.key == key, table.c.status.is_(None))
            )

    async def close(self) -> None:
        await self._engine.dispose()


def insert_or_ignore(connection: AsyncConnection, table: Table, row: dict[str, object]) -> Insert:
    """An insert that does nothing where the primary key is taken.

    Both databases have it; SQLAlchemy has no name common to both.
    """
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).values(row).on_conflict_do_nothing()
    return sqlite.insert(table).values(row).on_conflict_do_nothing()
