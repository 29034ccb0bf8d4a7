"""How often a trend marks a change where there is none, and how soon and how precisely it marks a drop of 0.3 points.

    python -m benchmarks.trends                # 500 lanes a case, 10 minutes
    python -m benchmarks.trends --quick        # 10 a case: does everything run?
    python -m benchmarks.trends --noise        # only the table with noise between builds, 2,000 lanes a case

A lane has runs of `dialogues` dialogues with three responses each, rated from 1 to 5 with a spread of 0.9 within and
between dialogues together; each mean has the interval that the service gives it. *False alarms* is the share of lanes
without a change in which one is marked. Then the quality drops so that the mean is 0.3 points lower from a run on:
*detected* is the share in which a drop is marked within five runs of it, once so many runs have followed; *held* is the
share of these whose interval holds the true run.

With noise between builds each build's level is off by a draw of its own: independent, following the one before it
(`lasting`, a correlation of 0.5), on a slow drift of 0.3 points, or with one build that is 0.6 points off. *Found* is
the share in which a drop of 0.3 points in the middle is marked within five builds.
"""

from __future__ import annotations

import argparse

import numpy as np

from saiten_server.stats.change_points import QUANTILE, find_change_points
from saiten_server.stats.observations import Floats
from saiten_server.stats.resampling import estimate_mean

LANES, QUICK_LANES, NOISE_LANES = 500, 10, 2_000
RUNS = (20, 50, 200)
DIALOGUES = (30, 100)
RESPONSES = 3
LEVEL, DROP, WITHIN, BETWEEN = 3.6, 0.3, 0.75, 0.5
AFTER = (2, 3, 5, 10, 50)
NEAR = 5


def make_lane(levels: Floats, dialogues: int, draw: np.random.Generator) -> tuple[list[float], list[float]]:
    """The means of runs at these levels, with their standard errors."""
    shape = (len(levels), dialogues, RESPONSES)
    rated = levels[:, None, None] + BETWEEN * draw.standard_normal(shape[:2])[:, :, None]
    ratings = np.clip(np.round(rated + WITHIN * draw.standard_normal(shape)), 1, 5)
    counts, means, errors = np.full(dialogues, float(RESPONSES)), list[float](), list[float]()
    for run in ratings:
        found = estimate_mean(run.sum(axis=1), counts, bounds=(1.0, 5.0)).interval
        if found is not None:
            means.append(float(run.mean()))
            errors.append((found[1] - found[0]) / 2 / QUANTILE)
    return means, errors


def find_level(mean: float) -> float:
    """The level at which ratings cut off at the ends of the scale have this mean."""
    draw = np.random.default_rng(0).standard_normal(200_000) * (WITHIN**2 + BETWEEN**2) ** 0.5
    tried = np.linspace(mean - 0.5, mean + 0.5, 201)
    means = [float(np.clip(np.round(level + draw), 1, 5).mean()) for level in tried]
    return float(tried[int(np.abs(np.array(means) - mean).argmin())])


def count_alarms(runs: int, dialogues: int, lanes: int, draw: np.random.Generator) -> float:
    """The share of lanes without a change in which one is marked."""
    level = np.full(runs, find_level(LEVEL))
    return sum(bool(find_change_points(*make_lane(level, dialogues, draw))) for _ in range(lanes)) / lanes


def count_found(
    runs: int, after: int, dialogues: int, lanes: int, draw: np.random.Generator
) -> tuple[float, float | None]:
    """The share of lanes whose drop is marked, and that of these whose interval holds the first run after it."""
    at = runs - after
    levels = np.where(np.arange(runs) < at, find_level(LEVEL), find_level(LEVEL - DROP))
    near = []
    for _ in range(lanes):
        marked = find_change_points(*make_lane(levels, dialogues, draw))
        near += [one for one in marked if one.difference < 0 and abs(one.at - at) <= NEAR][:1]
    held = sum(one.earliest <= at <= one.latest for one in near)
    return len(near) / lanes, held / len(near) if near else None


NOISES = (0.0, 0.05, 0.1)
NOISY = ((60, 100, 3), (60, 1000, 1), (6, 100, 3), (10, 100, 3), (15, 100, 3))
"""Builds of a lane, dialogues of a build, and responses of a dialogue; every other build has half of the dialogues."""

LASTING, ODD, DRIFT = 0.5, 0.6, 0.3


def draw_noisy(
    case: tuple[int, int, int], noise: float, kind: str, draw: np.random.Generator, *, drop: float = 0.0
) -> tuple[list[float], list[float]]:
    """The means of builds with noise between them, with their standard errors. Normal, as means of so many are."""
    builds, dialogues, responses = case
    sizes = dialogues / np.where(np.arange(builds) % 2, 2, 1)
    errors = np.sqrt((BETWEEN**2 + WITHIN**2 / responses) / sizes)
    steps = noise * draw.standard_normal(builds)
    if kind == "lasting":
        for place in range(1, builds):
            steps[place] = LASTING * steps[place - 1] + (1 - LASTING**2) ** 0.5 * steps[place]
    means = LEVEL + steps + errors * draw.standard_normal(builds) - drop * (np.arange(builds) >= builds // 2)
    if kind == "drift":
        means += DRIFT * np.arange(builds) / builds
    if kind == "odd":
        means[builds // 2] += ODD
    return means.tolist(), (errors * np.sqrt(draw.chisquare(sizes - 1) / (sizes - 1))).tolist()


def measure_noise(lanes: int, draw: np.random.Generator) -> None:
    """Prints how often a change is marked where builds differ by noise."""
    kinds = ("independent", "lasting", "odd", "drift")
    print("| builds | items | noise | " + " | ".join(f"marked, {kind}" for kind in kinds) + " | found |")
    print("|---|---|---|" + "---|" * (len(kinds) + 1))
    for case in NOISY:
        for noise in NOISES:
            shares = [
                sum(bool(find_change_points(*draw_noisy(case, noise, kind, draw))) for _ in range(lanes)) / lanes
                for kind in kinds
            ]
            middle = case[0] // 2
            near = 0
            for _ in range(lanes):
                found = find_change_points(*draw_noisy(case, noise, "independent", draw, drop=DROP))
                near += any(one.difference < 0 and abs(one.at - middle) <= NEAR for one in found)
            cells = " | ".join(f"{share:.3f}" for share in (*shares, near / lanes))
            print(f"| {case[0]} | {case[1]} × {case[2]} | {noise:g} | {cells} |", flush=True)


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few lanes: does everything run?")
    parser.add_argument("--noise", action="store_true", help="only the table with noise between builds")
    asked = parser.parse_args()
    lanes = QUICK_LANES if asked.quick else LANES
    draw = np.random.default_rng(20)
    measure_noise(QUICK_LANES if asked.quick else NOISE_LANES, draw)
    if asked.noise:
        return
    print()
    print("| runs | " + " | ".join(f"false alarms, {dialogues} dialogues" for dialogues in DIALOGUES) + " |")
    print("|---|" + "---|" * len(DIALOGUES))
    for runs in RUNS:
        print(f"| {runs} | " + " | ".join(f"{count_alarms(runs, one, lanes, draw):.3f}" for one in DIALOGUES) + " |")
    print()
    print("| runs since the drop | " + " | ".join(f"detected, {one} dialogues | held" for one in DIALOGUES) + " |")
    print("|---|" + "---|---|" * len(DIALOGUES))
    for after in AFTER:
        found = [count_found(RUNS[-1], after, dialogues, lanes, draw) for dialogues in DIALOGUES]
        cells = [f"{share:.3f} | {'–' if held is None else f'{held:.3f}'}" for share, held in found]
        print(f"| {after} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
