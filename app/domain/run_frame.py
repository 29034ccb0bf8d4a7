"""The results of a run as columns: as they are kept, as cases are found in them, and as runs are compared.

Loads numpy, so requests that are only checked do not import it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.conversation import FINDING, KIND
from app.domain.model import key_of
from app.domain.summary import Kind, MeasureKey, RunItem

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    is none. `items`, `contexts` and `clusters` (of dialogues) are keys, 0 where not known, and `label` is the number of
    one of the `labels`."""

    names: tuple[str, ...]
    positions: NDArray[np.int32]
    items: Integers
    contexts: Integers
    clusters: Integers
    values: Floats
    spread: Singles
    label: Integers
    labels: tuple[Label, ...]

    @property
    def nbytes(self) -> int:
        keys = self.items.nbytes + self.contexts.nbytes + self.clusters.nbytes
        return keys + self.positions.nbytes + self.values.nbytes + self.spread.nbytes + self.label.nbytes

    def at(self, positions: NDArray[np.int32]) -> Integers:
        """The rows of these positions, those that there are."""
        rows = np.searchsorted(self.positions, positions)
        there = rows < len(self.positions)
        found: Integers = rows[there][self.positions[rows[there]] == positions[there]]
        return found

    def marked(self, has: Callable[[Label], bool]) -> Flags:
        """The rows whose label has something, shape (n,)."""
        return np.array([has(label) for label in self.labels], dtype=bool)[self.label]


class RunRatings(NamedTuple):
    """People's ratings one by one, each of shape (ratings,): the response's row, the rater's key, and the value."""

    row: Integers
    rater: Integers
    value: Floats


@dataclass(frozen=True)
class RunTable:
    """The responses of a run as they are compared: columns of shape (n,), in the run's order.

    `items`, `contexts` and `clusters` are keys (`key_of`), 0 where not known. `values` holds each measure by kind and
    name, NaN where there is none: aspects, composites, blended aspects, findings. `inapplicable` counts the responses
    that an aspect does not apply to, `judged` those with a result other than a failure; `valued` says whether any has a
    value. `people` holds the means of people's ratings by name, NaN where there is none, `said` the ratings themselves
    where it is known who gave them, and `weights` what they weigh; all are empty where no one rated.
    """

    items: Integers
    contexts: Integers
    clusters: Integers
    values: Mapping[MeasureKey, Floats]
    judged: int
    valued: bool
    inapplicable: Mapping[str, int] = field(default_factory=dict)
    people: Mapping[str, Floats] = field(default_factory=dict)
    said: Mapping[str, RunRatings] = field(default_factory=dict)
    weights: Floats = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.items)


def tabulate_items(items: Sequence[RunItem], aspects: Sequence[str]) -> RunTable:
    """The table of responses that were read one by one: the rubric's `aspects`, and whatever else they hold."""

    def read(values: Sequence[float | None]) -> Floats:
        return np.array(values, dtype=np.float64)

    def name(found: Sequence[Mapping[str, object]]) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(found)))

    ratings, composites = [one.ratings for one in items], [one.composites for one in items]
    blended, findings = [one.blended for one in items], [one.findings for one in items]
    values: dict[MeasureKey, Floats] = {("aspect", own): read([each.get(own) for each in ratings]) for own in aspects}
    values |= {("composite", own): read([each.get(own) for each in composites]) for own in name(composites)}
    values |= {("blended", own): read([each.get(own) for each in blended]) for own in name(blended)}
    values |= {(kind_of(own), own): read([each.get(own) for each in findings]) for own in name(findings)}
    people = [one.people for one in items]
    return RunTable(
        items=key_all([one.item for one in items]),
        contexts=key_all([one.context for one in items]),
        clusters=key_all([one.cluster for one in items]),
        values=values,
        judged=sum(map(bool, ratings)),
        valued=any(
            value is not None for kind in (ratings, composites, blended) for one in kind for value in one.values()
        ),
        inapplicable=Counter(chain.from_iterable(one.inapplicable for one in items)),
        people={own: read([each.get(own) for each in people]) for own in name(people)},
        said={own: list_ratings(items, own) for own in name([one.said for one in items])},
        weights=read([one.weight for one in items]),
    )


def kind_of(finding: str) -> Kind:
    """What a rate of findings is of: kinds of faults are tested among themselves."""
    return "kind" if finding.startswith(FINDING + KIND) else "finding"


def list_ratings(items: Sequence[RunItem], name: str) -> RunRatings:
    """What each rater said of each item by that name."""
    found = [(row, *each) for row, one in enumerate(items) for each in one.said.get(name, {}).items()]
    return RunRatings(
        np.array([row for row, *_ in found], dtype=np.int64),
        key_all([rater for _, rater, _ in found]),
        np.array([value for *_, value in found], dtype=np.float64),
    )


def key_all(names: Sequence[str | None]) -> Integers:
    """The keys of the names, 0 of None; shape (n,)."""
    keys = {name: key_of(name) for name in {*names} if name is not None}
    return np.array([0 if name is None else keys[name] for name in names], dtype=np.int64)
