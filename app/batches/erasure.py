"""What an erasure owes: the replies in the call cache on which an erased batch rested."""

from __future__ import annotations

from app.batch_ports import BatchStore
from app.ports import CallCache

FORGOTTEN_AT_ONCE = 1000


async def settle_erasures(store: BatchStore, cache: CallCache) -> None:
    """Removes them. What is owed lies in the store, so whatever dies, the next sweep of any process goes on.

    Raises StoreError, also where the cache is out of reach.
    """
    while keys := await store.owed(FORGOTTEN_AT_ONCE):
        await cache.forget(keys)
        await store.settle(keys)
