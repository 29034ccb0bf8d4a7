"""What several samples and expected ratings add, by simulation: `python -m benchmarks.samples`.

No model is asked. A simulated judge has an opinion of each conversation that follows people's to a known degree, and
rates it on 1 to 9 with a known noise from sample to sample, of levels. Part of that noise arises in the reasons that it
writes first: the token of the rating then has its probabilities around what these reasons say, so that `expected` takes
away only the rest. The tables stand in `docs/validity.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import spearmanr

LEVELS = np.arange(1, 10)
CENTRE, SPREAD = 5.5, 1.7
"""Mean and standard deviation, in levels, of the judge's opinions."""

FOLLOWS = 0.8
"""Correlation of the judge's opinion, without noise, with people's mean."""

NOISES = (0.5, 1.0, 1.5)
SHARES = (0.0, 0.5, 0.9)
"""Of the noise's variance, the part that arises before the token of the rating."""

SAMPLES = (1, 3, 5, 10)
HIT, FALSE, STABLE = 0.8, 0.05, 0.5
"""How often a sample names a faulty turn and one that is not, and the part of these errors that is in every sample."""

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Talks:
    """Simulated conversations: people's mean and the judge's opinion, in levels."""

    people: Array
    opinions: Array

    @classmethod
    def draw(cls, count: int, generator: np.random.Generator) -> Talks:
        """So many of them."""
        people, own = generator.standard_normal((2, count))
        return cls(people, CENTRE + SPREAD * (FOLLOWS * people + np.sqrt(1 - FOLLOWS**2) * own))

    def judge(
        self, samples: int, noise: float, share: float, generator: np.random.Generator, *, expected: bool
    ) -> Array:
        """The mean over the samples of the rating, or of its expectation over the levels."""
        shape = (samples, len(self.opinions))
        reasoned = self.opinions + noise * np.sqrt(share) * generator.standard_normal(shape)
        rest = noise * np.sqrt(1 - share)
        if not expected:
            rated = np.clip(np.rint(reasoned + rest * generator.standard_normal(shape)), LEVELS[0], LEVELS[-1])
            return np.asarray(rated.mean(axis=0))
        borders = (LEVELS[:-1] + 0.5 - reasoned[..., None]) / rest
        # Σ level · P(level) = 1 + Σ P(above each border).
        return np.asarray((LEVELS[0] + (1 - ndtr(borders)).sum(axis=-1)).mean(axis=0))


def find_gain(
    noise: float, share: float, samples: int, *, expected: bool, count: int, seed: int
) -> tuple[float, float]:
    """How far two judgements of the same conversations correlate, and one with people (both Spearman)."""
    generator = np.random.default_rng([seed, samples, expected, round(10 * noise), round(10 * share)])
    talks = Talks.draw(count, generator)
    one, two = (talks.judge(samples, noise, share, generator, expected=expected) for _ in range(2))
    return float(spearmanr(one, two).statistic), float(spearmanr(one, talks.people).statistic)


def find_faults(samples: int, *, count: int, seed: int) -> tuple[float, float]:
    """The shares of faulty turns and of others that more than half of the samples name."""
    generator = np.random.default_rng([seed, samples])
    shares = []
    for rate in (HIT, FALSE):
        stable, always = generator.random(count) < STABLE, generator.random(count) < rate
        named = np.where(stable, always, generator.random((samples, count)) < rate)
        shares.append(float((2 * named.sum(axis=0) > samples).mean()))
    return shares[0], shares[1]


def tabulate(count: int, seed: int) -> Iterator[str]:
    """The lines of both tables."""
    head = [f"{samples} ×" for samples in SAMPLES]
    yield "| noise, levels | " + " | ".join([*head, *(f"`expected`, {share:.0%} before" for share in SHARES)]) + " |"
    for noise in NOISES:
        found = [find_gain(noise, 0.5, samples, expected=False, count=count, seed=seed) for samples in SAMPLES]
        found += [find_gain(noise, share, 1, expected=True, count=count, seed=seed) for share in SHARES]
        cells = " | ".join(f"{again:.2f}, {people:.2f}" for again, people in found)
        yield f"| {noise} | {cells} |"
    yield "| samples | recall | false flags |"
    for samples in SAMPLES:
        recall, flags = find_faults(samples, count=count, seed=seed)
        yield f"| {samples} | {recall:.3f} | {flags:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000, help="conversations, and turns, a figure")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for line in tabulate(given.count, given.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
