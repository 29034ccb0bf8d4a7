"""What an erasure still owes: replies in the call cache that could not be removed at once."""

from __future__ import annotations

import logging

from app.domain.errors import StoreError
from app.ports import CallCache

logger = logging.getLogger("saiten.batches")

FORGOTTEN_AT_ONCE = 1000


class Erasure:
    """Removes the replies that an erased batch rested on from the call cache.

    Where the cache is out of reach the rest is remembered in this process, so that a caller who asks for the same
    erasure again has it completed rather than hearing that there is no such batch.
    """

    def __init__(self, cache: CallCache) -> None:
        self._cache = cache
        self._owed: dict[tuple[str, str], list[str]] = {}

    def owes(self, project: str, batch_id: str) -> bool:
        """Whether replies of this erased batch are still to be removed."""
        return (project, batch_id) in self._owed

    async def forget(self, project: str, batch_id: str, calls: tuple[str, ...] = ()) -> None:
        """Removes `calls`, and what is owed of before. Raises StoreError, with the rest still owed."""
        left = self._owed.pop((project, batch_id), []) + list(calls)
        try:
            while left:
                await self._cache.forget(left[:FORGOTTEN_AT_ONCE])
                del left[:FORGOTTEN_AT_ONCE]
        except StoreError:
            logger.warning("an erasure is not complete", extra={"batch_id": batch_id, "replies": len(left)})
            raise
        finally:
            # A cancelled request owes them too.
            if left:
                self._owed[project, batch_id] = left
