"""How right corrected figures of a monitor's window are: `python -m benchmarks.corrected_windows [--runs N]`.

A window of 2,000 conversations is sampled with probabilities by stratum, a round draws some of the sample, and people
rate those. Asked is how often the interval holds people's mean of all 2,000, and how far the figure is off on average,
beside the one that takes the rated conversations as they are. A conversation is a cluster, or all of one user's. What
raters' severity adds is the matter of `corrected_raters`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from saiten_server.stats.choosing import stratify
from saiten_server.stats.corrected import CorrectedSample, CorrectionOptions, correct, find_mean_interval
from saiten_server.stats.observations import Floats, Integers, weigh_inversely

POPULATION = 2_000
SCALE = (1.0, 9.0)


@dataclass(frozen=True)
class WindowDesign:
    """A window. `unhappy` is the share of conversations in a stratum of its own, which people rate `apart` lower, and
    the judge by `lenient` less than that; they are sampled at `rates[1]`, the others at `rates[0]`. Of the sample
    `rated` conversations are drawn, evenly or `by_level` of the judge's ratings. A user has `users` conversations."""

    name: str
    rates: tuple[float, float]
    rated: int
    unhappy: float = 0.15
    apart: float = 2.0
    lenient: float = 0.8
    by_level: bool = False
    users: int = 1


DESIGNS = (
    WindowDesign("one rate, 30 rated", (0.1, 0.1), 30),
    WindowDesign("strata .05 and 1, 30 rated", (0.05, 1.0), 30),
    WindowDesign("strata .05 and 1, 60 rated", (0.05, 1.0), 60),
    WindowDesign("strata .05 and .5, 40 rated by level", (0.05, 0.5), 40, by_level=True),
    WindowDesign("strata .1 and 1, 60 rated, 4 a user", (0.1, 1.0), 60, users=4),
    WindowDesign("strata .1 and 1, 60 rated by level, 4 a user", (0.1, 1.0), 60, by_level=True, users=4),
)


@dataclass(frozen=True)
class WindowOutcome:
    """What simulated windows came to: the share of intervals that hold the mean, of those given; the share given; the
    mean error of the weighted figure, and of the one without weights; and the mean width."""

    design: WindowDesign
    coverage: float
    given: float
    bias: float
    bias_unweighted: float
    width: float


@dataclass(frozen=True)
class Population:
    """People's and the judge's ratings of all conversations, whose they are, and whether they are in the stratum."""

    people: Floats
    judge: Floats
    user: Integers
    unhappy: Integers


def populate(design: WindowDesign, generator: np.random.Generator) -> Population:
    """A window's conversations."""
    user = np.arange(POPULATION) // design.users
    own = generator.normal(0, 0.8, POPULATION) + generator.normal(0, 0.8, user.max() + 1)[user]
    unhappy = (generator.random(POPULATION) < design.unhappy).astype(np.int64)
    people = np.clip(np.round(6.2 + own - design.apart * unhappy), *SCALE)
    seen = 6.8 + 0.7 * own - design.apart * unhappy + design.lenient * unhappy + generator.normal(0, 0.7, POPULATION)
    return Population(people, np.clip(np.round(seen), *SCALE), user, unhappy)


def sample_window(design: WindowDesign, found: Population, generator: np.random.Generator) -> CorrectedSample:
    """What corrected figures of the window's run are from."""
    chances: Floats = np.where(found.unhappy == 1, design.rates[1], design.rates[0])
    taken = np.flatnonzero(generator.random(POPULATION) < chances)
    judge, people, user, probability = found.judge[taken], found.people[taken], found.user[taken], chances[taken]
    size = min(design.rated, len(taken))
    chance = np.full(len(taken), size / len(taken))
    drawn = generator.choice(len(taken), size, replace=False)
    if design.by_level:
        strata = np.clip(((judge - 1) / 8 * 5).astype(np.int64), 0, 4)
        chance = stratify(np.unique(strata, return_inverse=True)[1], size)
        drawn = np.flatnonzero(generator.random(len(taken)) < chance)
    ratings = np.full(len(taken), np.nan)
    ratings[drawn] = people[drawn]
    shares = weigh_inversely(probability)
    weights = np.where(np.isnan(ratings), np.nan, 1 / chance * (1.0 if shares is None else shares))
    uneven = shares is not None or design.by_level
    return CorrectedSample(
        judge, ratings, np.unique(user, return_inverse=True)[1], weights if uneven else None, None, shares
    )


def run_design(design: WindowDesign, runs: int, seed: int = 1) -> WindowOutcome:
    """The figures of so many windows."""
    generator = np.random.default_rng(seed)
    options = CorrectionOptions(bounds=SCALE)
    held, widths, errors, plain = 0, list[float](), list[float](), list[float]()
    for _ in range(runs):
        found = populate(design, generator)
        sample, truth = sample_window(design, found, generator), float(found.people.mean())
        outcome = correct(sample, options)
        bare = correct(replace(sample, weights=None, shares=None), options)
        if bare.corrected is not None:
            plain.append(bare.corrected.clustered.mean - truth)
        if outcome.corrected is None:
            continue
        errors.append(outcome.corrected.clustered.mean - truth)
        if (interval := find_mean_interval(outcome.corrected, options, outcome.seen)) is not None:
            held += interval[0] <= truth <= interval[1]
            widths.append(interval[1] - interval[0])
    return WindowOutcome(
        design,
        coverage=held / max(1, len(widths)),
        given=len(widths) / runs,
        bias=float(np.mean(errors)) if errors else float("nan"),
        bias_unweighted=float(np.mean(plain)) if plain else float("nan"),
        width=float(np.mean(widths)) if widths else float("nan"),
    )


def tabulate(outcomes: Sequence[WindowOutcome]) -> Iterator[str]:
    """The rows of a table in Markdown."""
    yield "| window | covered | given | bias | unweighted | width |"
    yield "|---|---|---|---|---|---|"
    for one in outcomes:
        yield (
            f"| {one.design.name} | {one.coverage:.3f} | {one.given:.2f} | {one.bias:+.3f} | "
            f"{one.bias_unweighted:+.3f} | {one.width:.2f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000, help="windows of each kind (%(default)s)")
    for line in tabulate([run_design(design, parser.parse_args().runs) for design in DESIGNS]):
        print(line)
