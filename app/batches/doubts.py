"""Tells a judge that refuses some candidates from one that refuses all: a wrong model, or a wrong address."""

from __future__ import annotations

MOST_REFUSED = 8
"""Candidates of a batch refused, and none ever taken: then it is not the candidates."""


class Doubts:
    """Counts refusals by batch until the judge takes one of its candidates. For one worker."""

    def __init__(self) -> None:
        self._refused: dict[str, int] = {}
        self._taken: set[str] = set()

    def took(self, batch_id: str) -> None:
        """The judge has taken a candidate: it takes this batch's."""
        self._taken.add(batch_id)
        self._refused.pop(batch_id, None)

    def refused(self, batch_id: str) -> bool:
        """The judge has refused a candidate; whether the batch is to pause. A pause starts the count anew."""
        if batch_id in self._taken:
            return False
        count = self._refused.pop(batch_id, 0) + 1
        if count >= MOST_REFUSED:
            return True
        self._refused[batch_id] = count
        return False
