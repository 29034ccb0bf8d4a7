"""How often the gate fails a run by corrected figures, and by the judge alone: simulated pairs of runs.

    python -m benchmarks.corrected_gate               # 2,000 pairs a case, some 10 minutes
    python -m benchmarks.corrected_gate --quick       # 20 pairs a case: does everything run?
    python -m benchmarks.corrected_gate --part raters # other raters a run, as `benchmarks.corrected_raters` says
    python -m benchmarks.corrected_gate --part means  # intervals of one run's mean, likewise

Two runs answer the same 1,000 contexts, in 100 dialogues of 10; `benchmarks.corrected` says how people's ratings and
the judge's come about. People rate the same items of both runs, drawn at random, and the rule is `max_drop` 0.
`equal`: the two systems are as good. `drop`: people's mean falls by 0.3 points. `drift`: people see no change, and the
judge is stricter with the second run by 0.3 standard deviations. A pair fails where corrected figures, or what the
judge says, show a drop at alpha 0.05, by the tests of the gate.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.corrected import CORRELATIONS, ITEMS, JUDGES, LABELS, Array, Judge, find_latent, mix, name_clusters
from benchmarks.corrected_raters import print_part
from saiten_server.stats import resampling
from saiten_server.stats.corrected import CorrectedSample, CorrectionOptions, correct, differ_corrected

RUNS, QUICK_RUNS = 2_000, 20
ALPHA = 0.05
DIALOGUES = 100
DROP, DRIFT = 0.3, 0.3
SHARED = 0.5
"""The share of a value's variance that is the context's, of people's and of what is the judge's own."""

EFFECTS = ("equal", "drop", "drift")


@dataclass(frozen=True)
class Row:
    """Shares of pairs that fail, by corrected figures and by the judge alone, and that were refused."""

    effect: str
    labels: int
    correlation: float
    corrected: float
    judge: float
    refused: float
    runs: int

    @property
    def holds(self) -> bool:
        """Where nothing changed for people, no more failures than alpha, within three standard errors."""
        return self.effect == "drop" or self.corrected <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / self.runs)


@dataclass(frozen=True)
class Pair:
    """What people would say of all items of two runs, and what the judge says; each of shape (2, items)."""

    people: Array
    scores: Array


@lru_cache
def find_shift(judge: Judge, drop: float) -> float:
    """By how many standard deviations values fall where the mean of people's ratings falls by so much."""
    bounds = ndtri(np.cumsum(judge.shares)[:-1])
    low, high = 0.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        fallen = judge.mean - (1 + float(np.sum(ndtr(-bounds - middle))))
        low, high = (middle, high) if fallen < drop else (low, middle)
    return low


def draw_pair(judge: Judge, correlation: float, effect: str, generator: np.random.Generator) -> Pair:
    """Two runs."""
    latent = find_latent(judge, correlation)
    shared = mix(generator, DIALOGUES), mix(generator, DIALOGUES)
    people, scores = [], []
    for candidate in (False, True):
        values, own = (math.sqrt(SHARED) * one + math.sqrt(1 - SHARED) * mix(generator, DIALOGUES) for one in shared)
        if candidate and effect == "drop":
            values = values - find_shift(judge, DROP)
        people.append(judge.cut(values))
        scores.append(judge.score(values, own, latent, DRIFT if candidate and effect == "drift" else 0.0))
    return Pair(np.stack(people), np.stack(scores))


def keep_rated(pair: Pair, rated: Sequence[int]) -> tuple[CorrectedSample, CorrectedSample]:
    """The two runs as samples, of which people rated these items."""
    clusters = name_clusters(DIALOGUES)
    ratings = np.full_like(pair.people, np.nan)
    ratings[:, rated] = pair.people[:, rated]
    before, after = (CorrectedSample(*columns, clusters) for columns in zip(pair.scores, ratings, strict=True))
    return before, after


def fail_corrected(before: CorrectedSample, after: CorrectedSample, scale: tuple[float, float]) -> bool | None:
    """Whether the corrected mean fell beyond chance; None where a figure is refused."""
    options = CorrectionOptions(alpha=ALPHA, bounds=scale)
    if any(correct(one, options).corrected is None for one in (before, after)):
        return None
    found = differ_corrected(before, after, options)
    return found.p is not None and found.p < ALPHA and found.difference < 0


def fail_judge(pair: Pair, generator: np.random.Generator) -> bool:
    """Whether the judge's mean fell beyond chance, by the sign-flip test of the dialogues' sums."""
    sums, counts = resampling.add_up(pair.scores[1] - pair.scores[0], name_clusters(DIALOGUES))
    p = resampling.flip_signs(sums, counts, generator, flips=resampling.count_flips(ALPHA))
    return p < ALPHA and sums.sum() < 0


def simulate(judge: Judge, correlation: float, effect: str, runs: int) -> Iterator[Row]:
    """One row for each number of rated items, of the same pairs of runs."""
    generator = np.random.default_rng([22, int(10 * correlation), EFFECTS.index(effect)])
    failed, refused, alone = dict.fromkeys(LABELS, 0), dict.fromkeys(LABELS, 0), 0
    for _ in range(runs):
        pair, order = draw_pair(judge, correlation, effect, generator), generator.permutation(ITEMS)
        alone += fail_judge(pair, generator)
        for labels in LABELS:
            verdict = fail_corrected(*keep_rated(pair, order[:labels].tolist()), judge.scale)
            refused[labels] += verdict is None
            failed[labels] += verdict is True
    for labels in LABELS:
        yield Row(effect, labels, correlation, failed[labels] / runs, alone / runs, refused[labels] / runs, runs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table. Exits with 1 where runs fail too often although nothing changed for people."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} pairs a case")
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--part", choices=["effects", "raters", "means"], help="only this part")
    options = parser.parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    held = options.part in {"raters", "means"} or print_effects(runs)
    for part in ("raters", "means"):
        if options.part in {None, part}:
            held = print_part(part, runs) and held
    sys.exit(0 if held else 1)


def print_effects(runs: int) -> bool:
    """Prints the table of effects; whether all rows hold."""
    print("| effect | rated | correlation | corrected fails | judge alone fails | refused |")
    print("|---|---|---|---|---|---|", flush=True)
    held = True
    for effect in EFFECTS:
        for correlation in CORRELATIONS:
            for row in simulate(JUDGES[0], correlation, effect, runs):
                held = held and row.holds
                figures = f"{row.corrected:.3f}{'' if row.holds else ' **no**'} | {row.judge:.3f} | {row.refused:.3f}"
                print(f"| {effect} | {row.labels} | {correlation:g} | {figures} |", flush=True)
    return held


if __name__ == "__main__":
    main()
