"""What an erasure owes: the replies in the call cache on which an erased batch rested."""

from __future__ import annotations

from collections.abc import Collection

from app.domain.errors import StoreError
from app.runtime.ports import CallCache
from app.storage.sql.batches.store import BatchStore

FORGOTTEN_AT_ONCE = 1000


async def forget_calls(store: BatchStore, cache: CallCache, keys: Collection[str]) -> None:
    """Removes what is cached of calls that nothing else knows of; where the cache is away they are owed.

    Raises StoreError where the store is out of reach as well.
    """
    ordered = sorted(keys)
    try:
        await cache.forget(ordered)
    except StoreError:
        await store.note_erased_calls(ordered)


async def settle_erasures(store: BatchStore, cache: CallCache) -> None:
    """Removes them. What is owed lies in the store, so whatever dies, the next sweep of any process goes on.

    Raises StoreError, also where the cache is out of reach.
    """
    while keys := await store.list_erased_calls(FORGOTTEN_AT_ONCE):
        await cache.forget(keys)
        await store.remove_erased_calls(keys)
