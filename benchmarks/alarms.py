"""How often alarms of monitors are false over a whole life, and how soon a change is found.

    python -m benchmarks.alarms [--lives 2000]

Prints the figures of docs/monitors.md. A life is 30 days after a reference of 14, 200 scored conversations a day and
a weekly season; it is looked at after every fifth conversation, 1,200 times. Ratings on 1 to 5 come from a normal value
of standard deviation 1 by conversation; faulty turns from a share that differs between conversations, so that those of
one conversation are not independent. With strata, a tenth of the conversations is worse and sampled ten times as often,
and the budget halves what is sampled of the others on every third day.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saiten_server.stats.alarms import compare_stream, share_of_day, sum_conversations

DAYS, REFERENCE_DAYS, PER_DAY, STEP, SLOTS = 30, 14, 200, 5, 7
SEASON = np.array([0.0, 0.05, 0.1, 0.0, -0.1, -0.2, -0.15])
AT_ONCE = 100

Values = tuple[np.ndarray, np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, tuple[int, int], int, float], Values]


@dataclass(frozen=True)
class Case:
    """What is simulated: values, sizes and weights of a day's conversations, by a change of the mean."""

    name: str
    draw: Draw
    width: float
    worse: Literal[-1, 1]
    change: float = 0.0
    begins: int = 0
    measures: int = 1
    alpha: float = 0.05


def draw_ratings(
    random: np.random.Generator, shape: tuple[int, int], slot: int, change: float, mean: float = 3.6
) -> Values:
    latent = random.normal(mean + SEASON[slot] + change, 1.0, shape)
    return np.clip(np.rint(latent), 1, 5), np.ones(shape), np.ones(shape)


def draw_ceiling(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
    low = random.random(shape) < 0.04 - change / 3
    return np.where(low, 2.0, 5.0), np.ones(shape), np.ones(shape)


def draw_strata(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
    chosen = random.random(shape) < 0.5
    values, sizes, _ = draw_ratings(random, shape, slot, change)
    worse, _, _ = draw_ratings(random, shape, slot, change, mean=2.6)
    thinned = 2.0 if slot % 3 == 0 else 1.0
    return np.where(chosen, worse, values), sizes, np.where(chosen, 2.0, 20.0 * thinned)


def draw_plain_strata(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
    chosen = random.random(shape) < 0.5
    values, sizes, _ = draw_ratings(random, shape, slot, change)
    worse, _, _ = draw_ratings(random, shape, slot, change, mean=2.6)
    return np.where(chosen, worse, values), sizes, np.where(chosen, 1.0, 10.0)


def draw_high(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
    """Mean 4.8: 4% are 1, 4% are 4."""
    place = random.random(shape)
    low = 0.04 - change / 4 - SEASON[slot] / 40
    return np.where(place < low, 1.0, np.where(place > 0.96, 4.0, 5.0)), np.ones(shape), np.ones(shape)


def draw_shares(rate: float, heaviest: float = 1.0) -> Draw:
    """Whether a conversation has a finding; half of them weigh `heaviest`."""

    def draw(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
        found = random.random(shape) < rate * (1 + SEASON[slot]) + change
        return found.astype(float), np.ones(shape), np.where(random.random(shape) < 0.5, 1.0, heaviest)

    return draw


def weigh_found(heaviest: float, rate: float) -> Draw:
    """As `draw_shares`, with all findings in what weighs the most: the worst case of weights that go with values."""

    def draw(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
        heavy = random.random(shape) < 0.5
        found = heavy & (random.random(shape) < rate * (1 + SEASON[slot]) + change)
        return found.astype(float), np.ones(shape), np.where(heavy, heaviest, 1.0)

    return draw


def draw_faults(rate: float) -> Draw:
    def draw(random: np.random.Generator, shape: tuple[int, int], slot: int, change: float) -> Values:
        turns = random.integers(2, 20, shape)
        own = np.clip(rate + change + SEASON[slot] * rate, 1e-6, 1)
        share = random.beta(own * 5, (1 - own) * 5, shape)
        return random.binomial(turns, share).astype(float), turns.astype(float), np.ones(shape)

    return draw


CASES = (
    Case("1–5, nothing changed", draw_ratings, 4, -1),
    Case("1–5, 96% at the ceiling, nothing changed", draw_ceiling, 4, -1),
    Case("1–5, strata and a budget that thins, nothing changed", draw_strata, 4, -1),
    Case("2 faulty turns of 100, nothing changed", draw_faults(0.02), 1, 1),
    Case("0.3 faulty turns of 100, nothing changed", draw_faults(0.003), 1, 1),
    Case("5 faulty turns of 100, nothing changed", draw_faults(0.05), 1, 1),
    Case("1–5, strata 1:10, nothing changed", draw_plain_strata, 4, -1),
    Case("1–5, mean 4.8, nothing changed", draw_high, 4, -1),
    Case("a finding in 5 of 100 conversations, nothing changed", draw_shares(0.05), 1, 1),
    Case("a finding in 1 of 100 conversations, nothing changed", draw_shares(0.01), 1, 1),
    Case("the same, strata 1:10, nothing changed", draw_shares(0.01, 10.0), 1, 1),
    Case("the same, all in what was sampled least", weigh_found(10.0, 0.02), 1, 1),
    Case("1–5, strata 1:10, nothing changed, α = .01", draw_plain_strata, 4, -1, alpha=0.01),
    Case("a finding in 1 of 100, nothing changed, α = .01", draw_shares(0.01), 1, 1, alpha=0.01),
    Case("1–5, mean 4.8, nothing changed, α = .001", draw_high, 4, -1, alpha=0.001),
    Case("1–5, −0.3 from the first day", draw_ratings, 4, -1, change=-0.3),
    Case("1–5, −0.3 from day 15", draw_ratings, 4, -1, change=-0.3, begins=15),
    Case("the same among 17 measures", draw_ratings, 4, -1, change=-0.3, begins=15, measures=17),
    Case("1–5, strata, −0.3 from day 15", draw_strata, 4, -1, change=-0.3, begins=15),
    Case("1–5, strata 1:10, −0.3 from day 15", draw_plain_strata, 4, -1, change=-0.3, begins=15),
    Case("1–5, mean 4.8, −0.3 from day 15", draw_high, 4, -1, change=-0.3, begins=15),
    Case("a finding in 1 of 100 becomes 4 from day 15", draw_shares(0.01), 1, 1, change=0.03, begins=15),
    Case("2 faulty turns of 100 become 4 from day 15", draw_faults(0.02), 1, 1, change=0.02, begins=15),
)


def find_alarms(case: Case, lives: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """By life the day of the first alarm, as a fraction; infinite where there is none."""
    for start in range(0, lives, AT_ONCE):
        yield simulate(case, min(AT_ONCE, lives - start), random)


def simulate(case: Case, lives: int, random: np.random.Generator) -> np.ndarray:
    reference = np.zeros((lives, SLOTS, 6))
    for day in range(REFERENCE_DAYS):
        reference[:, day % SLOTS] += sum_conversations(*case.draw(random, (lives, PER_DAY), day % SLOTS, 0.0)).sum(
            axis=1
        )
    since = np.zeros((DAYS, lives, SLOTS, 6))
    found = np.full(lives, np.inf)
    for day in range(DAYS):
        slot = (REFERENCE_DAYS + day) % SLOTS
        change = case.change if day >= case.begins else 0.0
        grown = np.cumsum(sum_conversations(*case.draw(random, (lives, PER_DAY), slot, change)), axis=1)[
            :, STEP - 1 :: STEP
        ]
        evidence = np.zeros(grown.shape[:2])
        for first in range(day + 1):
            live = np.repeat(since[first][:, None], grown.shape[1], axis=1)
            live[:, :, slot] += grown
            one = compare_stream(reference[:, None], live, width=case.width)
            evidence += share_of_day(first) * np.exp(np.minimum(one.evidence(case.worse), 600))
        looks = evidence >= case.measures / case.alpha
        here = looks.any(axis=1) & np.isinf(found)
        found[here] = day + (looks[here].argmax(axis=1) + 1) * STEP / PER_DAY
        since[: day + 1, :, slot] += grown[:, -1]
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lives", type=int, default=2000)
    parser.add_argument("--only", type=int, nargs="*")
    given = parser.parse_args()
    print(f"| case ({given.lives} lives) | alarms | false | median days | 90% within |\n|---|---|---|---|---|")
    for number, case in enumerate(CASES):
        if given.only and number not in given.only:
            continue
        found = np.concatenate([*find_alarms(case, given.lives, np.random.default_rng(number))])
        false = found < case.begins if case.change else np.isfinite(found)
        after = np.where(false, np.nan, found - case.begins)
        days = [f"{np.nanquantile(after, share):.1f}" if case.change else "–" for share in (0.5, 0.9)]
        print(
            f"| {case.name} | {np.isfinite(found).mean():.3f} | {false.mean():.3f} | {' | '.join(days)} |", flush=True
        )


if __name__ == "__main__":
    main()
