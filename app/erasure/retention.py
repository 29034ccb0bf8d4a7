"""Hashes or drops texts when their retention time is over, project by project."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from saiten_server.core.access import ProjectPolicy
from saiten_server.core.errors import SaitenError, StoreError
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import PolicyStore

logger = logging.getLogger("saiten.governance")

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
            try:
                await self.sweep()
            except StoreError as error:
                logger.warning(
                    "texts that are to go wait for the store: %s", error.loggable, extra={"code": error.code}
                )
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
