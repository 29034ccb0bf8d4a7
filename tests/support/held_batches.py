"""A `BatchStore` as far as the provider's batch mode needs one: batches with their candidates, held until let go."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions, Candidate, Entry
from saiten_server.platform.sql.engine import write
from saiten_server.platform.sql.tables import batches
from saiten_server.runs.store.batches import STARTING_AT_ZERO
from saiten_server.runs.work import ChunkJob

COUNTS = (*STARTING_AT_ZERO, "dearest_usd")


@dataclass
class Held:
    options: BatchOptions
    candidates: list[tuple[Entry, Candidate]]
    status: str = "running"
    paused: list[tuple[str, str]] = field(default_factory=list)
    unheld: int = 0


class HeldBatches:
    """Rows in `batches` are real, because those of the provider's course refer to them; the rest is in memory."""

    project = "default"

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._held: dict[str, Held] = {}
        self._numbers = itertools.count(1)

    async def add(self, options: BatchOptions, candidates: Sequence[Candidate]) -> str:
        batch_id = f"batch{next(self._numbers)}"
        entries = [Entry(position=number, item=str(number), candidate=None) for number in range(len(candidates))]
        self._held[batch_id] = Held(options, list(zip(entries, candidates, strict=True)))
        row: dict[str, Any] = {
            "id": batch_id,
            "project": self.project,
            "created_at": datetime.now(UTC),
            "status": "running",
            "mode": options.mode,
            "rubric": options.rubric,
            "options": options.model_dump_json(),
            **dict.fromkeys(COUNTS, 0),
        }
        async with write(self._engine) as connection:
            await connection.execute(insert(batches).values(row))
        return batch_id

    def __getitem__(self, batch_id: str) -> Held:
        return self._held[batch_id]

    async def put_status(self, batch_id: str, status: str) -> None:
        self._held[batch_id].status = status
        async with write(self._engine) as connection:
            await connection.execute(update(batches).where(batches.c.id == batch_id).values(status=status))

    async def erase(self, batch_id: str) -> None:
        del self._held[batch_id]
        async with write(self._engine) as connection:
            await connection.execute(delete(batches).where(batches.c.id == batch_id))

    async def active_options(self, batch_id: str) -> BatchOptions | None:
        held = self._held.get(batch_id)
        return held.options if held is not None and held.status in {"queued", "running"} else None

    async def candidates(self, batch_id: str, *, after: int, limit: int) -> list[tuple[Entry, Candidate]]:
        return self._held[batch_id].candidates[after + 1 : after + 1 + limit]

    async def pause(self, batch_id: str, reason: str, detail: str, *, project: str | None = None) -> None:
        held = self._held[batch_id]
        if held.status in {"queued", "running"}:
            held.paused.append((reason, detail))
            await self.put_status(batch_id, "paused")

    async def release_held_chunks(self, batch_id: str) -> list[ChunkJob]:
        held = self._held[batch_id]
        held.unheld += 1
        return [ChunkJob(batch_id, 0)] if held.unheld == 1 else []
