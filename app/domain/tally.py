"""What many results amount to, as figures that can be added up piece by piece."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Moments:
    """Mean and squared deviations of the values so far, by Welford's updates: equal values deviate by exactly 0."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Takes one value in."""
        self.n += 1
        deviation = value - self.mean
        self.mean += deviation / self.n
        self.squares += deviation * (value - self.mean)

    def merge(self, other: Moments) -> None:
        """Takes all values of `other` in, by Chan, Golub and LeVeque's update: equal means add no deviation."""
        if not other.n:
            return
        if not self.n:
            self.n, self.mean, self.squares = other.n, other.mean, other.squares
            return
        n, deviation = self.n + other.n, other.mean - self.mean
        self.squares += other.squares + deviation * deviation * (self.n * other.n / n)
        self.mean += deviation * other.n / n
        self.n = n


@dataclass(slots=True)
class AspectTally:
    """One aspect's verdicts so far. `levels` counts ratings by their value, `reasons` why others are unrated."""

    means: Moments = field(default_factory=Moments)
    blended: Moments = field(default_factory=Moments)
    levels: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, mean: float | None, blended: float | None, reason: str | None, rating: int | None) -> None:
        """Takes one result's entry of `Scores.aspects` in."""
        if mean is None:
            self.reasons[reason or "missing"] += 1
            return
        self.means.add(mean)
        if rating is not None:
            self.levels[rating] += 1
        if blended is not None:
            self.blended.add(blended)

    def merge(self, other: AspectTally) -> None:
        """Takes all verdicts of `other` in."""
        self.means.merge(other.means)
        self.blended.merge(other.blended)
        self.levels.update(other.levels)
        self.reasons.update(other.reasons)


@dataclass(slots=True)
class Tally:
    """All results of a batch so far. `warnings` counts results by warning code, `failures` those without a single
    rating by the failure's."""

    statuses: Counter[str] = field(default_factory=Counter)
    aspects: dict[str, AspectTally] = field(default_factory=dict)
    composites: dict[str, Moments] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def results(self) -> int:
        return self.statuses.total()

    def merge(self, other: Tally) -> None:
        """Takes all results of `other` in, of which none may be in already."""
        self.statuses.update(other.statuses)
        for name, aspect in other.aspects.items():
            self.aspects.setdefault(name, AspectTally()).merge(aspect)
        for name, moments in other.composites.items():
            self.composites.setdefault(name, Moments()).merge(moments)
        self.warnings.update(other.warnings)
        self.failures.update(other.failures)
