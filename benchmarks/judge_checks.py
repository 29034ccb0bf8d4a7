"""How often a judge check finds a judge that moved, and one that did not: `python -m benchmarks.judge_checks`.

A simulated judge rates the anchors that ship as a careful human would, but for a share of replies (its noise) that hold
another level at random. Then three tenths of one aspect's ratings become one level stricter, for good (the same anchors
each time) or at random in each run. The figures stand in `docs/gate.md`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from saiten_server.comparison.judge_checks.drift import compare_anchors
from saiten_server.comparison.judge_checks.service import count_runs, load_anchors
from saiten_server.comparison.judge_checks.values import JudgeCheckRequest
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder

ALPHA = 0.05
SHARE = 0.3
CASES = (
    ("nothing", 0.0),
    ("nothing", 0.02),
    ("nothing", 0.08),
    ("for good", 0.0),
    ("for good", 0.08),
    ("at random", 0.08),
)

Ratings = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class SimulatedJudge:
    """Rates anchors of one rubric: `levels` of shape (anchors, aspects), `scales` of shape (aspects, 2)."""

    def __init__(self, levels: Ratings, scales: Ratings, noise: float, generator: np.random.Generator) -> None:
        self.levels, self.scales, self.noise, self.generator = levels.copy(), scales, noise, generator

    def rate(self, runs: int) -> Ratings:
        """Shape (runs, anchors, aspects)."""
        shape = (runs, *self.levels.shape)
        low, high = self.scales.T
        other = self.generator.integers(low, high, shape)
        other = other + (other >= self.levels)
        return np.where(self.generator.random(shape) < self.noise, other, self.levels)

    def stricter(self, ratings: Ratings, aspect: int) -> Ratings:
        """The ratings with a share of one aspect's one level lower."""
        moved = ratings.copy()
        chosen = self.generator.random(ratings.shape[:-1]) < SHARE
        column = ratings[..., aspect]
        moved[..., aspect] = np.where(chosen, np.maximum(column - 1, self.scales[aspect, 0]), column)
        return moved


def by_aspect(ratings: Ratings) -> dict[str, dict[str, tuple[int, ...]]]:
    """By aspect, then by anchor, from shape (runs, anchors, aspects)."""
    anchors, aspects = ratings.shape[1:]
    return {
        str(aspect): {str(anchor): tuple(map(int, ratings[:, anchor, aspect])) for anchor in range(anchors)}
        for aspect in range(aspects)
    }


def simulate(rubric: Any, change: str, noise: float, checks: int) -> float:
    """The share of checks that find the judge moved."""
    request = JudgeCheckRequest(rubric=rubric.id)
    anchors = load_anchors(rubric.id)
    levels = np.array([[anchor.ratings[aspect.id] for aspect in rubric.aspects] for anchor in anchors])
    scales = np.array([(min(aspect.values), max(aspect.values)) for aspect in rubric.aspects])
    stored = count_runs(rubric, len(anchors), request, check=False)
    asked = count_runs(rubric, len(anchors), request, check=True)
    found = 0
    for number in range(checks):
        judge = SimulatedJudge(levels, scales, noise, np.random.default_rng([number, 1]))
        then, aspect = judge.rate(stored), number % len(rubric.aspects)
        if change == "for good":
            judge.levels = judge.stricter(judge.levels, aspect)
        now = judge.rate(asked)
        if change == "at random":
            now = judge.stricter(now, aspect)
        drifts, pooled = compare_anchors(by_aspect(then), by_aspect(now), {}, alpha=ALPHA, seed=number)
        found += pooled.moved or any(drift.moved for drift in drifts.values())
    return found / checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=1000, help="checks per figure")
    checks = parser.parse_args().checks
    rubrics = RubricFiles([default_folder()])
    print(f"{'rubric':<14}{'stricter':<12}{'noise':>6}  found moved in")
    for name in ("ja-dialogue", "ko-dialogue", "ko-comment", "lfqa"):
        for change, noise in CASES:
            print(
                f"{name:<14}{change:<12}{noise:>6}  {simulate(rubrics.get(name), change, noise, checks):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
