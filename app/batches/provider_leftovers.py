"""What is left at the provider of batches that are done, cancelled or erased: removed, whenever that can be done."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta

from app.adapters.sql.provider_batches import ProviderBatchStore
from app.domain.errors import UpstreamError
from app.domain.provider_batch import Leftover
from app.provider_ports import BatchProvider

logger = logging.getLogger("saiten.batches")

AT_ONCE = 20
FOUND_FOR = timedelta(days=3)
"""A provider's batch that may exist is looked for among those of this time; it ends within a day."""


class LeftoverRemoval:
    """Removes leftovers. One that cannot be removed is not tried again for `rest_seconds`."""

    def __init__(self, course: ProviderBatchStore, provider: BatchProvider, *, rest_seconds: float) -> None:
        self._course = course
        self._provider = provider
        self._rest_seconds = rest_seconds

    async def remove(self) -> None:
        """Some of those that are there; stops where the provider fails. Raises the `Store…` errors."""
        for batch_id in await self._course.over(AT_ONCE):
            await self._course.forget(batch_id)
        for leftover in await self._course.leftovers(AT_ONCE, self._rest_seconds):
            try:
                removed = await self._remove(leftover)
            except UpstreamError as error:
                about = {"code": error.code, "kind": leftover.kind}
                logger.warning("a leftover stays at the provider: %s", error.loggable, extra=about)
                await self._course.settle(leftover, removed=False)
                return
            await self._course.settle(leftover, removed=removed)

    async def _remove(self, leftover: Leftover) -> bool:
        """Whether nothing is left of it."""
        match leftover.kind:
            case "file":
                await self._provider.delete_file(leftover.target)
            case "name":
                for file_id in await self._provider.find_uploads(leftover.target):
                    await self._provider.delete_file(file_id)
            case "tags":
                made = await self._provider.find(json.loads(leftover.target), datetime.now(UTC) - FOUND_FOR)
                await self._course.leave([Leftover("batch", made.id)] if made else [])
            case "batch":
                return await self._remove_batch(leftover.target)
        return True

    async def _remove_batch(self, provider_batch_id: str) -> bool:
        """Cancels it, and removes its files once it has ended: until then it may make more of them."""
        found = await self._provider.retrieve(provider_batch_id)
        if found is None:
            return True
        if not found.ended and found.failure is None:
            await self._provider.cancel(provider_batch_id)
            return False
        for file_id in filter(None, (found.file_id, found.output_file_id, found.error_file_id)):
            await self._provider.delete_file(file_id)
        return True
