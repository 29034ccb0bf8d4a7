"""What erasing and redacting have in common: who still works on a batch."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Exists, exists

from app.adapters.sql.tables import batch_chunks, batches


def held_now(now: datetime) -> Exists:
    """Whether a worker holds a chunk of the batch of the outer query."""
    chunk = batch_chunks.c
    return exists().where(chunk.batch_id == batches.c.id, chunk.state == "leased", chunk.lease_until >= now)
