"""Erases everything of a project with certain metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime

from saiten.core.messages import Message
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import InvalidRequest, StoreError
from saiten_server.core.redaction import Erased
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import AuditLog
from saiten_server.platform.caches import CallCache
from saiten_server.platform.capability import Ground
from saiten_server.runs.store.batches import BatchStore

logger = logging.getLogger("saiten.governance")


class ErasureService:
    """Erases texts and results, records it in the audit log, and removes the calls from the call cache. Methods raise
    InvalidRequest and the `Store…` errors. Without a `cache`, processes that have one do the removal."""

    def __init__(
        self,
        *,
        texts: TextStore,
        batches: BatchStore,
        cache: CallCache | None,
        audit: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self._texts = texts
        self._batches = batches
        self._cache = cache
        self._audit = audit
        self._now = now

    async def erase(self, project: str, metadata: Mapping[str, str], *, actor: str) -> Erased:
        """Erases what has all these entries. The audit log names only their keys, since a value may name a person. If
        the cache is not reachable, a later sweep removes the calls."""
        if not metadata:
            raise InvalidRequest(Message("erasure-metadata-missing"), pointer="/metadata")
        about: dict[str, object] = {"keys": sorted(metadata)}
        await self._note(project, actor, "erasure.begun", about)
        erased = await self._texts.erase_marked(project, metadata)
        if self._cache is not None:
            try:
                await self._batches.settle_erasures(self._cache)
            except StoreError as error:
                logger.warning("an erasure goes on later: %s", error.loggable)
        await self._note(project, actor, "erasure.done", about | asdict(erased))
        return erased

    async def _note(self, project: str, actor: str, action: str, detail: dict[str, object]) -> None:
        event = AuditEvent(at=self._now(), project=project, actor=actor, action=action, target=project, detail=detail)
        await self._audit.note(event)


def open_service(ground: Ground) -> ErasureService:
    """The service on what all capabilities stand on."""
    engine = ground.engine
    return ErasureService(
        texts=TextStore(engine), batches=BatchStore(engine), cache=ground.cache, audit=AuditLog(engine), now=ground.now
    )
