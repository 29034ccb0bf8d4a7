"""What was made of texts a moment ago: a context comes again with each of its candidates."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_AGE_SECONDS = 20.0
"""Far below the 60 s after which nothing of an erased text may be left: a run may hold what it took from here."""


@dataclass(frozen=True)
class _Entry(Generic[V]):
    value: V
    size: int
    ends_at: float


class Recent(Generic[K, V]):
    """Values by key: `max_bytes` of them together, those that were used last, and none that is older than
    `max_age_seconds`, however often it was used. Of use to one thread.

    Old values go when `expire` is called, which says when to call it next; `get` never gives one away.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float], max_age_seconds: float = MAX_AGE_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._bytes = 0
        self._ends_at = 0.0
        """No value is too old before that."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which is then the one that was used last; None where it is not kept."""
        entry = self._entries.get(key)
        if entry is None or entry.ends_at <= self._clock():
            return None
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, size: int) -> None:
        """Keeps a value of `size` bytes from now on; those that were not used for longest make room."""
        self._remove(key)
        entry = _Entry(value, size, self._clock() + self._max_age_seconds)
        if not self._entries:
            self._ends_at = entry.ends_at
        self._entries[key] = entry
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._remove(next(iter(self._entries)))

    def expire(self) -> float | None:
        """Lets go of what is too old. Seconds in which none will be; None where nothing is kept."""
        now = self._clock()
        if self._entries and self._ends_at <= now:
            for key in [key for key, entry in self._entries.items() if entry.ends_at <= now]:
                self._remove(key)
            self._ends_at = min((entry.ends_at for entry in self._entries.values()), default=0.0)
        return self._ends_at - now if self._entries else None

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size
