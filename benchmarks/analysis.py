"""Dependencies of ten aspects among eleven systems, every pair of aspects decorrelated, beside SciPy's test in a loop.

    python -m benchmarks.analysis

2,200 items are the size of DSTC9 (200 of each system); 24,200 are as many of each system. Ratings are the means of
three raters on a scale of 1 to 5, and, for the worst case, numbers no two of which are equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.record import Beside, Figure, Report, at_most, run_alone
from saiten_server.stats.hierarchy import Standing, count_changes, find_hierarchy
from saiten_server.stats.observations import Floats, Observations
from saiten_server.stats.statistics import compare_systems, settled_means
from saiten_server.stats.win_rates import rate_wins

NAME = "analysis"
SYSTEMS = 11
ASPECTS = 10
RATERS = 3
ROUNDS = 3
ALPHA = 0.01
LIMIT_SECONDS = 5.0


def make_ratings(items: int, *, discrete: bool) -> Observations:
    """`items` of each system, rated by three: aspects that lean on the one before, systems that differ a little."""
    random = np.random.default_rng(0)
    rows = SYSTEMS * items * RATERS
    system = np.repeat(np.arange(SYSTEMS), items * RATERS)
    item = np.tile(np.repeat(np.arange(items), RATERS), SYSTEMS)
    quality = np.repeat(random.normal(size=SYSTEMS * items), RATERS)
    ratings: dict[str, Floats] = {}
    for number in range(ASPECTS):
        quality = 0.8 * quality + 0.6 * random.normal(size=rows)
        value = 3 + quality + 0.03 * number * system / SYSTEMS
        ratings[f"aspect-{number}"] = np.clip(np.round(value), 1, 5) if discrete else value
    return Observations(
        systems=tuple(f"system-{number}" for number in range(SYSTEMS)),
        items=tuple(f"item-{number}" for number in range(items)),
        raters=tuple(f"rater-{number}" for number in range(RATERS)),
        system=system,
        item=item,
        rater=np.tile(np.arange(RATERS), SYSTEMS * items),
        ratings=ratings,
    )


def decorrelate_all(observations: Observations) -> int:
    """Every ordered pair of aspects, dependent or not; how many pairs of systems changed."""
    standings = []
    for name, column in observations.ratings.items():
        values = settled_means(observations, column)
        better = compare_systems(values, observations.unit_system, SYSTEMS).better(ALPHA)
        standings.append(Standing(name, values, better))
    changed = 0
    for lower, higher in permutations(standings, 2):
        found = count_changes(lower, higher, observations.unit_system, ALPHA, "principal-axis")
        changed += (found.new or 0) - (found.common_change or 0) - (found.higher_only_change or 0)
    return changed


def time_plainly(observations: Observations) -> tuple[float, float]:
    """Seconds of SciPy for the pairs of systems of one aspect, and how far its p lie from Saiten's at most."""
    column = next(iter(observations.ratings.values()))
    values = settled_means(observations, column)
    found = compare_systems(values, observations.unit_system, SYSTEMS).p
    samples = [values[observations.unit_system == number] for number in range(SYSTEMS)]
    started = time.perf_counter()
    plain = {(a, b): float(mannwhitneyu(samples[a], samples[b]).pvalue) for a, b in combinations(range(SYSTEMS), 2)}
    seconds = time.perf_counter() - started
    return seconds, max(abs(found[pair] - p) for pair, p in plain.items())


def time_rounds(measured: Callable[[], object], rounds: int) -> list[float]:
    """Seconds of each round."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        measured()
        seconds.append(time.perf_counter() - started)
    return seconds


def measure_size(report: Report, items: int, rounds: int, *, discrete: bool) -> None:
    """Dependencies and decorrelation beside as many plain tests, and win rates."""
    observations = make_ratings(items, discrete=discrete)
    name = f"{observations.units:,} items, {'1-5' if discrete else 'no ties'}"
    dependencies = len(find_hierarchy(observations, alpha=ALPHA).dependencies)
    tests = ASPECTS + ASPECTS * (ASPECTS - 1)
    hierarchy, every, plain, furthest = list[float](), list[float](), list[float](), 0.0
    for _ in range(rounds):  # in turns
        hierarchy += time_rounds(lambda: find_hierarchy(observations, alpha=ALPHA), 1)
        every += time_rounds(lambda: decorrelate_all(observations), 1)
        seconds, furthest = time_plainly(observations)
        plain.append(seconds * tests)
    peer = Beside("as many tests by SciPy in a loop", plain)
    report.add(Figure(NAME, f"{name}: dependencies", "s", hierarchy, note=f"{dependencies} found"))
    report.add(
        Figure(
            NAME,
            f"{name}: all pairs decorrelated",
            "s",
            every,
            peer=peer,
            target=at_most(LIMIT_SECONDS),
            note=f"SciPy's time from one aspect's; p differ by {furthest:.1e} at most",
        )
    )
    wins = time_rounds(lambda: rate_wins(observations), rounds)
    report.add(Figure(NAME, f"{name}: win rates", "s", wins))


def measure(report: Report, *, quick: bool = False) -> None:
    """DSTC9's size, and eleven times as much."""
    rounds = 1 if quick else ROUNDS
    report.say(f"  {SYSTEMS} systems × {ASPECTS} aspects × {RATERS} raters, {rounds} rounds")
    for items in (200,) if quick else (200, 2200):
        for discrete in (True, False):
            measure_size(report, items, rounds, discrete=discrete)


def main() -> None:
    run_alone(measure, __doc__)


if __name__ == "__main__":
    main()
