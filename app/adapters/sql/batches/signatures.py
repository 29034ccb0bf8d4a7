"""How many results of a batch have which signature."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.engine import insert_or_add
from app.adapters.sql.tables import batch_signatures

table = batch_signatures.c


async def count_in(connection: AsyncConnection, changes: Mapping[tuple[str, str], int]) -> None:
    """Adds to the counts, by batch and signature. The caller has locked the batches."""
    rows = [
        {
            "batch_id": batch_id,
            "digest": hashlib.sha256(signature.encode()).hexdigest(),
            "signature": signature,
            "count": change,
        }
        for (batch_id, signature), change in changes.items()
        if change
    ]
    if rows:
        await connection.execute(insert_or_add(connection, batch_signatures, table.count), rows)
    ids = {batch_id for (batch_id, _), change in changes.items() if change < 0}
    if ids:
        await connection.execute(delete(batch_signatures).where(table.batch_id.in_(ids), table.count <= 0))
