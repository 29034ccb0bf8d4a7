"""Results that are remembered by a digest of their texts, because contexts and test sets recur."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeVar

MOST_RECENT = 4096
T = TypeVar("T")


class RecentResults(OrderedDict[bytes | int, T]):
    """The last `MOST_RECENT` results by digest, or by `hash`, by which one of them is taken for another once in 10^15.
    It holds no text. Thread-safe: each step is atomic, and two threads may at worst do the same work twice."""

    def recall(self, key: bytes | int, find: Callable[[], T]) -> T:
        """The result that is remembered, else that of `find`, which then is."""
        found = self.get(key)
        if found is None:
            found = self[key] = find()
            while len(self) > MOST_RECENT:
                self.popitem(last=False)
        return found


def digest_of(texts: Iterable[str]) -> bytes:
    """A digest of 16 bytes. The texts' lengths are part of it, so that equal concatenations differ."""
    texts = list(texts)
    lengths = ",".join(map(str, map(len, texts)))
    return blake2b(f"{lengths}\0{''.join(texts)}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
