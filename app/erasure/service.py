"""Erases everything of a project with certain metadata, and hashes or drops texts when their retention time is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from saiten.core.messages import Message
from saiten_server.core.access import AuditEvent, ProjectPolicy
from saiten_server.core.errors import InvalidRequest, SaitenError, StoreError
from saiten_server.core.redaction import Erased
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import AuditLog, PolicyStore
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.platform.capability import Ground
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.tasks import surviving
from saiten_server.runs.store.batches import BatchStore

logger = logging.getLogger("saiten.governance")


class ErasureService:
    """Erases texts and results, records it in the audit log, and removes the calls from the call cache. Methods raise
    InvalidRequest and the `Store…` errors. Without a `cache`, processes that have one do the removal."""

    def __init__(
        self,
        *,
        texts: TextStore,
        live: LiveStore,
        batches: BatchStore,
        cache: CallCache | None,
        audit: AuditLog,
        now: Callable[[], datetime],
    ) -> None:
        self._texts = texts
        self._live = live
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
        erased = replace(erased, live_conversations=await self._live.erase_marked(project, metadata))
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
        texts=TextStore(engine),
        live=LiveStore(engine),
        batches=BatchStore(engine),
        cache=ground.cache,
        audit=AuditLog(engine),
        now=ground.now,
    )


SWEEP_SECONDS = 10.0
"""Between two sweeps."""

RECORDS_AT_ONCE = 500
"""Records per transaction, which takes a fraction of a second and lets others write in between."""


class Retention:
    """Hashes or drops texts as the policies say. Several processes may run it, one per project."""

    def __init__(
        self,
        *,
        policies: PolicyStore,
        texts: TextStore,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        at_once: int = RECORDS_AT_ONCE,
    ) -> None:
        self._policies = policies
        self._texts = texts
        self._now = now
        self._sleep = sleep
        self._at_once = at_once

    async def run(self) -> None:
        """Sweeps until cancelled. What a sweep leaves undone, the next one finds."""
        while True:
            with surviving(logger, "texts that are to go"):
                await self.sweep()
            await self._sleep(SWEEP_SECONDS)

    async def sweep(self) -> int:
        """Redacts everything that is due, in steps, and returns the number of records. Raises the `Store…` errors."""
        total = 0
        await self._texts.expire_uploads()
        for project, policy in (await self._policies.policies()).items():
            try:
                total += await self._sweep_project(project, policy)
            except StoreError:
                raise
            except Exception:
                # An unreadable record, for example, must not block the other projects.
                logger.exception("texts that are to go stay", extra={"project": project, "code": SaitenError.code})
        return total

    async def _sweep_project(self, project: str, policy: ProjectPolicy) -> int:
        if policy.texts == "keep":
            return 0
        done, before = 0, timedelta(days=policy.after_days)
        while step := await self._texts.redact(
            project, policy.texts, self._now() - before, self._at_once, under=policy
        ):
            done += step
            await self._sleep(0)
        if done:
            logger.info("texts are gone", extra={"project": project, "texts": policy.texts, "records": done})
        return done
