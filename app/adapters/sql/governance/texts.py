"""`TextStore` in SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.batches.erasure import Erasure
from app.adapters.sql.batches.rows import utc_now
from app.adapters.sql.governance.erasing import MarkedErasure
from app.adapters.sql.governance.redaction import Redaction
from app.domain.policy import ProjectPolicy, TextKeeping
from app.governance_ports import Erased


class SQLTextStore:
    """Erases and redacts on any engine that `app.adapters.sql.engine` opens. On SQLite the file and its log are then
    cleaned of what is gone."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._marked = MarkedErasure(engine, clock=clock)
        self._redaction = Redaction(engine, clock=clock)
        self._cleaning = Erasure(engine, clock=clock)

    async def erase_marked(self, project: str, metadata: Mapping[str, str]) -> Erased:
        self._cleaning.remember()
        erased = await self._marked.erase(project, metadata)
        await self._cleaning.tidy()
        return erased

    async def redact(
        self, project: str, texts: TextKeeping, before: datetime, limit: int, *, under: ProjectPolicy | None = None
    ) -> int:
        done = await self._redaction.sweep(project, texts, before, limit, under=under)
        if done:
            self._cleaning.remember()
        if done < limit:
            # Once at the end of a sweep: cleaning waits for whoever reads.
            await self._cleaning.tidy()
        return done
