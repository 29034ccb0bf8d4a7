"""How many ratings an informative choice saves, whether its intervals hold, and what looking again and again does.

    python -m benchmarks.choosing                    # 2,000 runs a case, some 15 minutes
    python -m benchmarks.choosing --quick            # 100 runs a case: does everything run?
    python -m benchmarks.choosing --part looks       # only one table: choice, looks or margin

`choice`: 1,000 items on a scale from 0 to 10. The judge is half a point too kind, and the spread of its residual is
lognormal over items with the squared coefficient of variation that a row names. The signal is that spread itself
(`exact`), its estimate from five samples (`samples`), or a spread that has nothing to do with it (`useless`). *Saved*
is how many fewer ratings an informative round needs for the interval of a uniform one, from the medians of both
widths; *best* is the most that a choice by this signal can save as long as its estimate is unbiased whatever the judge
does (Godambe & Joshi 1965): 1 − E[√E(σ² | signal)]² / E[σ²], for the spread σ itself 1 − 1 / (1 + CV²). `looks`: the
figure is looked at after every ten ratings from 20 to 300; *missed* is in how many runs any of the intervals leaves the
truth out, and *alarms* in how many any test of two systems that are alike is significant. `margin`: from 50 ratings it
is told how many more bring the interval to ± 0.15, and as many are given.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.corrected import HIGH, ITEMS, JUDGES, LOW, QUICK_RUNS, RUNS, Judge, find_latent
from saiten_server.stats.choosing import draw_items, find_probabilities, weigh_items
from saiten_server.stats.corrected import (
    CorrectedSample,
    CorrectionOptions,
    correct,
    count_for_margin,
    differ_corrected,
    find_mean_interval,
)

Array = NDArray[np.float64]

SCALE = (0.0, 10.0)
MIDDLE, SPREAD = 5.0, 0.5
VARIATIONS = (1 / 3, 0.4, 0.6, 1.0)
DIALOGUE_VARIATION = 0.5
LABELS = (50, 100, 200)
SIGNALS = ("exact", "samples", "useless")
DIALOGUES = 100
BEST_RUNS = 500
LOOKS = tuple(range(20, 301, 10))
MARGIN, FIRST = 0.15, 50


class Seen(NamedTuple):
    """What one run gave: the interval, and the share of its variance that more ratings would reduce."""

    held: bool
    width: float
    rated: float


def make_items(generator: np.random.Generator, variation: float, dialogues: int | None) -> tuple[Array, Array, Array]:
    """The judge's scores, people's ratings, and the spread of their difference."""
    sigma = math.sqrt(math.log(1 + variation))
    spread = SPREAD * np.exp(sigma * generator.standard_normal(ITEMS) - sigma**2 / 2)
    middle = MIDDLE + generator.standard_normal(ITEMS)
    noise = generator.standard_normal(ITEMS)
    if dialogues is not None:
        shared = np.repeat(generator.standard_normal((2, dialogues)), ITEMS // dialogues, axis=1)
        middle = MIDDLE + math.sqrt(1 / 3) * shared[0] + math.sqrt(2 / 3) * (middle - MIDDLE)
        noise = math.sqrt(1 / 3) * shared[1] + math.sqrt(2 / 3) * noise
    return middle + 0.5, middle + spread * noise, spread


def make_signal(generator: np.random.Generator, signal: str, spread: Array) -> Array:
    """What the results show of the spread."""
    if signal == "exact":
        return spread
    if signal == "samples":
        return spread * np.sqrt(generator.chisquare(4, ITEMS) / 4)
    return generator.permutation(spread)


def find_best(signal: str, variation: float) -> float:
    """The most that any choice by the signal can save, with σ² averaged over items of nearly the same signal."""
    generator = np.random.default_rng(33)
    spread = np.concatenate([make_items(generator, variation, None)[2] for _ in range(BEST_RUNS)])
    shown = np.concatenate([make_signal(generator, signal, part) for part in spread.reshape(BEST_RUNS, ITEMS)])
    squares = np.square(spread)[np.argsort(shown)].reshape(ITEMS, BEST_RUNS).mean(axis=1)
    return float(1 - np.mean(np.sqrt(squares)) ** 2 / np.mean(squares))


def look(sample: CorrectedSample, truth: float) -> Seen | None:
    """The corrected figure of a run; None where it is refused."""
    options = CorrectionOptions(bounds=SCALE)
    found = correct(sample, options)
    interval = None if found.corrected is None else find_mean_interval(found.corrected, options)
    if found.corrected is None or interval is None:
        return None
    share = found.corrected.rated_error**2 / found.corrected.clustered.error**2
    return Seen(interval[0] <= truth <= interval[1], interval[1] - interval[0], min(1.0, share))


def keep(ratings: Array, chosen: NDArray[np.int64]) -> Array:
    """The ratings of the chosen items alone."""
    kept = np.full(ITEMS, np.nan)
    kept[chosen] = ratings[chosen]
    return kept


class Choice(NamedTuple):
    """A row of the first table."""

    signal: str
    variation: float
    labels: int
    uniform: float
    informative: float
    saved: float
    best: float

    @property
    def holds(self) -> bool:
        return all(LOW - 0.01 <= one <= HIGH + 0.01 for one in (self.uniform, self.informative))

    def write(self) -> str:
        cells = (self.signal, f"{self.variation:.2f}", f"{self.labels}", f"{self.uniform:.3f}")
        return f"| {' | '.join(cells)} | {self.informative:.3f} | {self.saved:.0%} | {self.best:.0%} |"


def run_choice(signal: str, variation: float, labels: int, *, runs: int, dialogues: int | None = None) -> Choice:
    """A uniform and an informative round of the same items."""
    generator = np.random.default_rng([30, labels, int(100 * variation), SIGNALS.index(signal), dialogues or 0])
    clusters = np.arange(ITEMS) if dialogues is None else np.repeat(np.arange(dialogues), ITEMS // dialogues)
    uniform, informative = list[Seen](), list[Seen]()
    even = np.full(ITEMS, labels / ITEMS)
    for _ in range(runs):
        scores, ratings, spread = make_items(generator, variation, dialogues)
        chosen = draw_items(even, clusters, generator)
        if (one := look(CorrectedSample(scores, keep(ratings, chosen), clusters), MIDDLE)) is not None:
            uniform.append(one)
        probabilities = find_probabilities(make_signal(generator, signal, spread), labels)
        chosen = draw_items(probabilities, clusters, generator)
        weights = weigh_items(probabilities[chosen], np.zeros(labels, dtype=np.int64), chosen, ITEMS)
        if (one := look(CorrectedSample(scores, keep(ratings, chosen), clusters, weights), MIDDLE)) is not None:
            informative.append(one)
    width, own = (float(np.median([one.width for one in side])) for side in (uniform, informative))
    rated = float(np.median([one.rated for one in informative])) * own**2
    return Choice(
        signal=signal + ("" if dialogues is None else f", {dialogues} dialogues"),
        variation=variation,
        labels=labels,
        uniform=float(np.mean([one.held for one in uniform])),
        informative=float(np.mean([one.held for one in informative])),
        saved=1 - rated / (width**2 - (own**2 - rated)),
        best=find_best(signal, variation),
    )


class Look(NamedTuple):
    """A row of the second table."""

    case: str
    looks: str
    missed: float
    alarms: float
    width: float

    def write(self) -> str:
        return f"| {self.case} | {self.looks} | {self.missed:.3f} | {self.alarms:.3f} | {self.width:.2f} |"


def run_looks(judge: Judge, correlation: float, *, informative: bool, runs: int) -> Iterator[Look]:
    """One case, by intervals for one look, and by those for any number."""
    latent = find_latent(judge, correlation)
    generator = np.random.default_rng([31, int(10 * correlation), len(judge.name), informative])
    clusters = np.arange(ITEMS)
    once, every = CorrectionOptions(bounds=judge.scale), CorrectionOptions(bounds=judge.scale, looks="any")
    missed, alarms, widths = np.zeros(2), np.zeros(2), list[float]()
    for _ in range(runs):
        people, own = generator.standard_normal((2, 2, ITEMS))
        scores = [judge.score(one, other, latent) for one, other in zip(people, own, strict=True)]
        probabilities = np.full(ITEMS, LOOKS[-1] / ITEMS)
        if informative:
            probabilities = find_probabilities(1 + generator.random(ITEMS) * 3, LOOKS[-1])
        order = draw_items(probabilities, clusters, generator)
        out, alarm = np.zeros(2, dtype=np.bool_), np.zeros(2, dtype=np.bool_)
        for labels in LOOKS:
            chosen = order[:labels]
            weights = weigh_items(probabilities[chosen], np.zeros(labels, dtype=np.int64), chosen, ITEMS)
            samples = [
                CorrectedSample(score, keep(judge.cut(one), chosen), clusters, weights if informative else None)
                for score, one in zip(scores, people, strict=True)
            ]
            found = [correct(sample, once) for sample in samples]
            first = found[0].corrected
            if first is None:
                continue
            spans = [find_mean_interval(first, options.settle(samples[0])) for options in (once, every)]
            out |= [span is not None and not span[0] <= judge.mean <= span[1] for span in spans]
            if all(spans):
                width, wide = (span[1] - span[0] for span in spans if span is not None)
                widths.append(wide / width)
            if found[1].corrected is not None:
                tests = [differ_corrected(samples[0], samples[1], options).p for options in (once, every)]
                alarm |= [p is not None and p < once.alpha for p in tests]
        missed += out
        alarms += alarm
    case = f"{judge.name}, r {correlation:g}" + (", informative" if informative else "")
    for number, looks in enumerate(("once", "any")):
        wide = float(np.median(widths)) if number else 1.0
        yield Look(case, looks, missed[number] / runs, alarms[number] / runs, wide)


class Planned(NamedTuple):
    """The row of the third table: ratings in all that were told to be needed, and the half width that they gave."""

    told: float
    reached: float
    within: float

    def write(self) -> str:
        return f"| {MARGIN} | {self.told:.0f} | {self.reached:.3f} | {self.within:.2f} |"


def run_margin(*, runs: int) -> Iterator[Planned]:
    """The plan of one round is carried out."""
    judge, options = JUDGES[0], CorrectionOptions(bounds=JUDGES[0].scale)
    latent, clusters = find_latent(judge, 0.5), np.arange(ITEMS)
    generator = np.random.default_rng(32)
    told, reached = list[int](), list[float]()
    for _ in range(runs):
        people, own = generator.standard_normal((2, ITEMS))
        scores, order = judge.score(people, own, latent), generator.permutation(ITEMS)
        sample = CorrectedSample(scores, keep(judge.cut(people), order[:FIRST]), clusters)
        first = correct(sample, options).corrected
        more = None if first is None else count_for_margin(sample, first, options, MARGIN)
        if more is None:
            continue
        sample = CorrectedSample(scores, keep(judge.cut(people), order[: FIRST + more]), clusters)
        second = correct(sample, options).corrected
        span = None if second is None else find_mean_interval(second, options)
        if span is not None:
            told.append(FIRST + more)
            reached.append((span[1] - span[0]) / 2)
    near = np.abs(np.array(reached) / MARGIN - 1) <= 0.15
    yield Planned(float(np.median(told)), float(np.median(reached)), float(near.mean()))


def list_choice(runs: int) -> Iterator[Choice]:
    """The first table."""
    for signal in SIGNALS:
        for variation in VARIATIONS:
            for labels in LABELS:
                yield run_choice(signal, variation, labels, runs=runs)
    for signal in SIGNALS:
        yield run_choice(signal, DIALOGUE_VARIATION, 100, runs=runs, dialogues=DIALOGUES)


def list_looks(runs: int) -> Iterator[Look]:
    """The second table."""
    for judge in (JUDGES[0], JUDGES[2]):
        for informative in (False, True):
            yield from run_looks(judge, 0.5, informative=informative, runs=max(100, runs // 2))


PARTS: dict[str, tuple[str, Callable[[int], Iterator[Choice | Look | Planned]]]] = {
    "choice": ("signal | CV² | rated | uniform holds | informative holds | saved | best", list_choice),
    "looks": ("case | looks | missed | alarms | width", list_looks),
    "margin": ("margin | told | half width | within 15%", lambda runs: run_margin(runs=runs)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables. Exits with 1 where intervals hold the truth too rarely or too often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs a case")
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--part", choices=[*PARTS], help="only this part")
    options = parser.parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    kept = True
    for name, (head, rows) in PARTS.items():
        if options.part in {None, name}:
            print(f"| {head} |\n|{'---|' * (head.count('|') + 1)}", flush=True)
            for row in rows(runs):
                print(row.write(), flush=True)
                kept = kept and (row.holds if isinstance(row, Choice) else True)
                kept = kept and not (isinstance(row, Look) and row.looks == "any" and max(row[2:4]) > 1 - LOW)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
