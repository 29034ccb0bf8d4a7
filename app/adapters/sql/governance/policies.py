"""`PolicyStore` in SQL: a row for each project whose policy is not the default."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import change, read
from app.adapters.sql.governance_tables import project_policies
from app.adapters.sql.store import insert_or_ignore
from app.adapters.sql.tables import can_hold
from app.domain.policy import DEFAULT_POLICY, ProjectPolicy

SALT_BYTES = 32

policy = project_policies.c
SHOWN = (policy.integrity, policy.texts, policy.after_days)


class SQLPolicyStore:
    """Keeps policies on any engine that `app.adapters.sql.engine` opens."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find_policy(self, project: str) -> ProjectPolicy:
        if not can_hold(project):
            return DEFAULT_POLICY
        async with read(self._engine) as connection:
            row = (await connection.execute(select(*SHOWN).where(policy.project == project))).one_or_none()
        return DEFAULT_POLICY if row is None else ProjectPolicy.model_validate(row._asdict())

    async def save_policy(self, project: str, wanted: ProjectPolicy, now: datetime) -> None:
        values = {**wanted.model_dump(), "updated_at": now}
        # The salt outlives every change: digests of one project are to stay comparable with each other.
        made = {**values, "project": project, "salt": secrets.token_hex(SALT_BYTES), "redacted_to": None}
        async with change(self._engine) as connection:
            if (await connection.execute(insert_or_ignore(connection, project_policies, made))).rowcount == 1:
                return
            this = policy.project == project
            held = (await connection.execute(select(*SHOWN).where(this).with_for_update())).one()
            goes_further = (held.texts, held.after_days) != (wanted.texts, wanted.after_days)
            again = {"redacted_to": None} if goes_further else {}
            await connection.execute(update(project_policies).where(this).values(**values, **again))

    async def policies(self) -> Mapping[str, ProjectPolicy]:
        query = select(policy.project, *SHOWN).order_by(policy.project)
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        return {
            row.project: ProjectPolicy(integrity=row.integrity, texts=row.texts, after_days=row.after_days)
            for row in rows
        }
