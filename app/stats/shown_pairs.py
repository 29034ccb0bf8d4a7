"""Preferences as columns: what rankings are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from saiten_server.stats.observations import Floats, Integers, Mask, number_keys

FIRST, SECOND, TIE = 0, 1, 2
"""The values of `ShownPairs.choice`: which of the two, as they were shown, is better."""


@dataclass(frozen=True)
class ShownPairs:
    """`n` looks at two systems' responses to one item; `first` was shown before `second`.

    All have shape (n,). `first` and `second` index `systems`, `choice` is FIRST, SECOND or TIE. `item`, `cluster` and
    `rater` are numbers from 0; `rater` is −1 where the judge looked. `covariates` are differences, the first's value
    minus the second's, by name.
    """

    systems: tuple[str, ...]
    first: Integers
    second: Integers
    choice: Integers
    item: Integers
    cluster: Integers
    rater: Integers
    covariates: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many looks there are."""
        return len(self.first)

    @cached_property
    def pair(self) -> Integers:
        """Each look's pair of systems, in whatever order they were shown; numbers from 0 with gaps, shape (n,)."""
        found: Integers = np.minimum(self.first, self.second) * len(self.systems) + np.maximum(self.first, self.second)
        return found

    def within(self, rows: Mask | Integers) -> ShownPairs:
        """These looks alone, of the same systems."""
        return replace(
            self,
            first=self.first[rows],
            second=self.second[rows],
            choice=self.choice[rows],
            item=self.item[rows],
            cluster=self.cluster[rows],
            rater=self.rater[rows],
            covariates={name: values[rows] for name, values in self.covariates.items()},
        )

    def among(self, members: Integers) -> ShownPairs:
        """The looks at two of these systems, numbered in the order of `members`."""
        place = np.full(len(self.systems), -1)
        place[members] = np.arange(len(members))
        found = self.within((place[self.first] >= 0) & (place[self.second] >= 0))
        return replace(
            found,
            systems=tuple(self.systems[number] for number in members),
            first=place[found.first],
            second=place[found.second],
        )

    def without_covariates(self) -> ShownPairs:
        """The same looks, as if nothing else were known of the responses."""
        return replace(self, covariates={})

    def count_outcomes(self) -> Floats:
        """How often system i was better than j, shape (systems, systems, 2): in the second place how often the two
        tied, in both directions."""
        size = len(self.systems)
        better = np.where(self.choice == SECOND, self.second, self.first)
        worse = np.where(self.choice == SECOND, self.first, self.second)
        tied = self.choice == TIE
        won = np.bincount((better * size + worse)[~tied], minlength=size * size).reshape(size, size)
        even = np.bincount((better * size + worse)[tied], minlength=size * size).reshape(size, size)
        return np.stack([won, even + even.T], axis=-1).astype(np.float64)

    def is_shown_both_ways(self) -> bool:
        """Whether a pair of systems was shown in both orders: else what the order does cannot be told from what the
        systems are."""
        ahead = self.first < self.second
        return bool(np.intersect1d(self.pair[ahead], self.pair[~ahead]).size)


def number_clusters(pairs: ShownPairs) -> tuple[Integers, int]:
    """Each look's cluster, from 0 without gaps, and how many there are."""
    found = number_keys(pairs.cluster)
    return found, int(found.max()) + 1 if len(found) else 0
