"""An `AuditLog` in memory, held to the same contract as the real one."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.audit import AuditEvent
from app.domain.errors import StoreError


@dataclass
class FakeAuditLog:
    """`failing` is raised in place of noting anything."""

    noted: list[AuditEvent] = field(default_factory=list)
    failing: StoreError | None = None

    async def note(self, event: AuditEvent) -> None:
        if self.failing is not None:
            raise self.failing
        self.noted.append(event.model_copy(update={"number": len(self.noted) + 1}))

    async def events(self, project: str | None, *, before: int | None, limit: int) -> list[AuditEvent]:
        mine = [one for one in reversed(self.noted) if project in {None, one.project}]
        return [one for one in mine if before is None or one.number < before][:limit]
