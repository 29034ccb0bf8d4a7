"""The results of a run as columns, as they are kept and as cases are found in them.

Loads numpy, so requests that are only checked do not import it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Label(NamedTuple):
    """What results have in common that are alike in all but their values."""

    status: str
    warnings: frozenset[str]
    unrated: frozenset[str]


@dataclass(frozen=True)
class RunFrame:
    """The results of a run as columns of shape (n,), in the batch's order; `values` is (n, measures), NaN where there
    is none. `items` and `contexts` are keys, 0 where not known, and `label` is the number of one of the `labels`."""

    names: tuple[str, ...]
    positions: NDArray[np.int32]
    items: Integers
    contexts: Integers
    values: Singles
    spread: Singles
    label: Integers
    labels: tuple[Label, ...]

    @property
    def nbytes(self) -> int:
        return sum(
            column.nbytes
            for column in (self.positions, self.items, self.contexts, self.values, self.spread, self.label)
        )

    def at(self, positions: NDArray[np.int32]) -> Integers:
        """The rows of these positions, those that there are."""
        rows = np.searchsorted(self.positions, positions)
        there = rows < len(self.positions)
        found: Integers = rows[there][self.positions[rows[there]] == positions[there]]
        return found

    def marked(self, has: Callable[[Label], bool]) -> Flags:
        """The rows whose label has something, shape (n,)."""
        return np.array([has(label) for label in self.labels], dtype=bool)[self.label]
