"""Removes from the call cache the replies that an erased batch rested on."""

from __future__ import annotations

from collections.abc import Collection

from app.domain.errors import StoreError
from app.providers.call_cache import CallCache
from app.storage.sql.batches.store import BatchStore

FORGOTTEN_AT_ONCE = 1000


async def forget_calls(store: BatchStore, cache: CallCache, keys: Collection[str]) -> None:
    """Removes the replies of calls that are recorded nowhere else. If the cache is down, the store notes them.

    Raises StoreError if the store is down as well.
    """
    ordered = sorted(keys)
    try:
        await cache.forget(ordered)
    except StoreError:
        await store.note_erased_calls(ordered)


async def settle_erasures(store: BatchStore, cache: CallCache) -> None:
    """Removes all replies that the store has noted. If this process dies, the next sweep of any process continues.

    Raises StoreError, also if the cache is down.
    """
    while keys := await store.list_erased_calls(FORGOTTEN_AT_ONCE):
        await cache.forget(keys)
        await store.remove_erased_calls(keys)
