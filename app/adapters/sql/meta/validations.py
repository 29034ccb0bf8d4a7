"""Correlations with humans that were found, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.batches.rows import STORED
from app.adapters.sql.engine import read, write
from app.adapters.sql.meta.replacing import insert_or_replace
from app.adapters.sql.tables import can_hold, validations
from app.domain.errors import InvalidRequest
from app.domain.model import canonical_json, digest
from app.domain.reliability import JudgeKey, Validation

table = validations.c


class Validations:
    """`ValidationStore` in SQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep_validation(self, project: str, key: JudgeKey, found: Validation) -> None:
        judge, text = asdict(key), found.model_dump_json()
        # JSON has escapes for what a column cannot hold; the names do not.
        if not can_hold(project, *judge.values()):
            raise InvalidRequest("a judge's name holds NUL or half of a surrogate pair, which cannot be kept")
        row = {"project": project, "key": digest(judge), "judge": canonical_json(judge), "validation": text}
        async with write(self._engine) as connection:
            await connection.execute(insert_or_replace(connection, validations, row))

    async def validations(self, project: str) -> Mapping[JudgeKey, Validation]:
        if not can_hold(project):
            return {}
        query = select(table.judge, table.validation).where(table.project == project).order_by(table.judge)
        async with read(self._engine) as connection:
            rows = (await connection.execute(query)).all()
        return {
            JudgeKey(**json.loads(row.judge)): Validation.model_validate_json(row.validation, context=STORED)
            for row in rows
        }
