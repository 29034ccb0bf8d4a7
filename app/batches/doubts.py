"""Tells a judge that refuses some candidates from one that refuses all: a wrong model, or a wrong address."""

from __future__ import annotations

from cachetools import LRUCache

MOST_REFUSED = 8
"""Candidates of a batch refused, and none ever taken: then it is not the candidates."""


MOST_BATCHES = 1000
"""Remembered at a time: far more than are ever under way together."""

TAKEN = 0


class Doubts:
    """Counts refusals by batch until the judge takes one of its candidates. For one worker.

    Of a batch that it has not heard of for long it knows nothing any more; then it counts anew.
    """

    def __init__(self) -> None:
        self._counts: LRUCache[str, int] = LRUCache(MOST_BATCHES)

    def took(self, batch_id: str) -> None:
        """The judge has taken a candidate: it takes this batch's."""
        self._counts[batch_id] = TAKEN

    def refused(self, batch_id: str) -> bool:
        """The judge has refused a candidate; whether the batch is to pause. A pause starts the count anew."""
        known = self._counts.pop(batch_id, None)
        if known == TAKEN:
            self._counts[batch_id] = TAKEN
            return False
        count = (known or 0) + 1
        if count >= MOST_REFUSED:
            return True
        self._counts[batch_id] = count
        return False
