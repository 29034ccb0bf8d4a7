"""How often corrected intervals hold what people would say, and how much a judge saves: simulated runs.

    python -m benchmarks.corrected                    # 2,000 runs a case, some 20 minutes
    python -m benchmarks.corrected --quick            # 100 runs a case: does everything run?
    python -m benchmarks.corrected --json FILE        # the rows as JSON as well

People's ratings are normal values cut into levels, and the judge's come from values that correlate with them, so that
the *ratings* have the correlation that a row names. `bias`: on 1–5 the judge is half a standard deviation too kind.
`compression`: it uses half of the range. `skewed`: nine tenths of the ratings are the highest of three. `drift`: each
item may have been judged before or after the judge became stricter by 0.17 standard deviations, which a t test of 500
items against 500 finds in fewer than 80% of cases. Rated items are drawn at random from 1,000, from 40 dialogues of
25 where a row says so.

`faulty turns` are of few conversations of 4 to 15 system turns, whose own rates of faulty turns are Beta(4 rate,
4 − 4 rate), so that most have none; where a row says so, three that begin alike share theirs. The judge misses a fifth
of what people mark, and names a twentieth of the other turns.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from saiten_server.stats.corrected import (
    CorrectedSample,
    CorrectionOptions,
    correct,
    differ,
    differ_corrected,
    estimate_corrected,
    find_mean_interval,
)

Array = NDArray[np.float64]

RUNS, QUICK_RUNS = 2_000, 100
ITEMS = 1_000
PROBE = 200_000
DRIFT = 0.17
MIDDLE, SKEWED = (0.08, 0.2, 0.36, 0.26, 0.1), (0.03, 0.07, 0.9)
LABELS, CORRELATIONS = (20, 50, 100, 200), (0.3, 0.5, 0.7)
LOW, HIGH = 0.935, 0.965
MISSED, IMAGINED = 0.2, 0.05
ALIKE = 4.0
LOW_TURNS = 0.93


@dataclass(frozen=True)
class Judge:
    """How a judge departs from people, in standard deviations."""

    name: str
    shares: tuple[float, ...]
    shift: float = 0.0
    stretch: float = 1.0

    @property
    def scale(self) -> tuple[float, float]:
        return 1.0, float(len(self.shares))

    @property
    def mean(self) -> float:
        """People's true mean."""
        return math.fsum((level + 1) * share for level, share in enumerate(self.shares))

    def cut(self, values: Array) -> Array:
        """Standard normal values as levels from 1."""
        return 1.0 + np.searchsorted(ndtri(np.cumsum(self.shares)[:-1]), values).astype(np.float64)

    def score(self, people: Array, own: Array, latent: float, drift: Array | float = 0.0) -> Array:
        """The judge's scores of items on which people have these values."""
        values = latent * people + math.sqrt(1 - latent**2) * own - drift
        return self.cut(values * self.stretch + self.shift)


JUDGES = (Judge("bias", MIDDLE, shift=0.5), Judge("compression", MIDDLE, stretch=0.5), Judge("skewed", SKEWED))


@lru_cache
def find_latent(judge: Judge, correlation: float) -> float:
    """The correlation of the values that gives the ratings theirs."""
    people, own = np.random.default_rng(1).standard_normal((2, PROBE))
    rated, low, high = judge.cut(people), 0.0, 0.9999
    for _ in range(25):
        middle = (low + high) / 2
        below = np.corrcoef(rated, judge.score(people, own, middle))[0, 1] < correlation
        low, high = (middle, high) if below else (low, middle)
    return low


@dataclass(frozen=True)
class Row:
    """What one case gave. `coverage` is of the intervals that were given; `gain` is the reduction of
    the variance relative to that by a λ from least squares on the rated items, at most 1; `width` is relative to that
    of people's ratings alone."""

    case: str
    labels: int
    correlation: float
    drift: bool
    given: float
    coverage: float | None
    gain: float | None
    width: float | None
    runs: int
    needed: float | None = None
    low: float = LOW
    high: float = HIGH

    @property
    def holds(self) -> bool:
        """Within two standard errors of the simulation itself."""
        if self.coverage is None:
            return True
        slack = 2 * math.sqrt(0.05 * 0.95 / max(1.0, self.given * self.runs))
        return self.low - slack <= self.coverage <= self.high + slack


def name_clusters(dialogues: int | None) -> NDArray[np.int64]:
    """The cluster of each item."""
    return np.arange(ITEMS) if dialogues is None else np.repeat(np.arange(dialogues), ITEMS // dialogues)


def mix(generator: np.random.Generator, dialogues: int | None) -> Array:
    """Standard normal values, a third of which their dialogue shares."""
    own = generator.standard_normal(ITEMS)
    if dialogues is None:
        return own
    shared = np.repeat(generator.standard_normal(dialogues), ITEMS // dialogues)
    return math.sqrt(1 / 3) * shared + math.sqrt(2 / 3) * own


def run_case(
    judge: Judge, labels: int, correlation: float, *, drift: bool, runs: int, dialogues: int | None = None
) -> Row:
    """One case: means."""
    latent = find_latent(judge, correlation)
    generator = np.random.default_rng([18, labels, int(10 * correlation), drift, len(judge.name), dialogues or 0])
    clusters, options = name_clusters(dialogues), CorrectionOptions(bounds=judge.scale)
    held, widths, needed, estimates = 0, [], [], []
    for _ in range(runs):
        people, own = mix(generator, dialogues), mix(generator, dialogues)
        stricter = DRIFT * (generator.random(ITEMS) < 0.5).astype(np.float64) if drift else 0.0
        rated = judge.cut(people)
        rated[generator.permutation(ITEMS)[labels:]] = np.nan
        sample = CorrectedSample(judge.score(people, own, latent, stricter), rated, clusters)
        found = correct(sample, options)
        if found.corrected is None or found.human is None:
            needed.append(found.needed or 0)
            continue
        interval = find_mean_interval(found.corrected, options)
        alone = find_mean_interval(found.human, options)
        if interval is None or alone is None:
            continue
        held += interval[0] <= judge.mean <= interval[1]
        widths.append((interval[1] - interval[0]) / (alone[1] - alone[0]))
        estimates.append((found.corrected.clustered.mean, found.human.clustered.mean, *fit(sample)))
    given = len(widths)
    gain = None
    if dialogues is None and given >= runs / 2:
        own_variance, people_variance, attainable = (float(np.var(column)) for column in zip(*estimates, strict=True))
        saved = people_variance - own_variance
        gain = saved / max(saved, people_variance - attainable)
    return Row(
        case=judge.name + ("" if dialogues is None else f", {dialogues} dialogues"),
        labels=labels,
        correlation=correlation,
        drift=drift,
        given=given / runs,
        coverage=held / given if given else None,
        gain=gain,
        width=float(np.median(widths)) if given else None,
        runs=runs,
        needed=float(np.median(needed)) if needed else None,
    )


def fit(sample: CorrectedSample) -> tuple[float]:
    """The estimate with λ from least squares on the rated items."""
    rated = ~np.isnan(sample.ratings)
    human, judged = sample.ratings[rated], sample.scores[rated]
    spread = float(judged.var())
    slope = float(np.mean((human - human.mean()) * (judged - judged.mean()))) / spread if spread else 0.0
    weight = float(np.clip(slope * (1 - len(human) / ITEMS), 0, 1))
    return (float(human.mean() + weight * (sample.scores[~rated].mean() - judged.mean())),)


def run_differences(judge: Judge, labels: int, correlation: float, *, same: bool, runs: int) -> Row:
    """The difference of two systems on the same contexts: people rate both answers of an item, or of different ones."""
    latent = find_latent(judge, correlation)
    generator = np.random.default_rng([19, labels, int(10 * correlation), same, len(judge.name)])
    options, clusters, held, given, widths = CorrectionOptions(bounds=judge.scale), np.arange(ITEMS), 0, 0, []
    truth = 0.0
    for _ in range(runs):
        shared, order = generator.standard_normal(ITEMS), generator.permutation(ITEMS)
        found = []
        for number in range(2):
            people = math.sqrt(0.5) * shared + math.sqrt(0.5) * generator.standard_normal(ITEMS)
            rated = judge.cut(people)
            first = 0 if same else number * labels
            chosen = order[first : first + labels]
            rated[np.setdiff1d(np.arange(ITEMS), chosen)] = np.nan
            scores = judge.score(people, generator.standard_normal(ITEMS), latent)
            found.append(correct(CorrectedSample(scores, rated, clusters), options))
        before, after = (one.corrected for one in found)
        if before is None or after is None:
            continue
        interval = differ_corrected(found[0].sample, found[1].sample, options).interval
        human = [one.human for one in found if one.human is not None]
        alone = differ(human[0], human[1], options).interval
        if interval is None or alone is None:
            continue
        given += 1
        held += interval[0] <= truth <= interval[1]
        widths.append((interval[1] - interval[0]) / (alone[1] - alone[0]))
    return Row(
        case=f"{judge.name}, difference, {'the same' if same else 'other'} items",
        labels=labels,
        correlation=correlation,
        drift=False,
        given=given / runs,
        coverage=held / given if given else None,
        gain=None,
        width=float(np.median(widths)) if given else None,
        runs=runs,
    )


def run_chosen(judge: Judge, labels: int, correlation: float, *, runs: int) -> Row:
    """Items are chosen with probabilities that differ by a factor of four, and that go with people's ratings."""
    latent = find_latent(judge, correlation)
    generator = np.random.default_rng([20, labels, int(10 * correlation), len(judge.name)])
    options, held, given, widths = CorrectionOptions(bounds=judge.scale), 0, 0, []
    for _ in range(runs):
        people, own = generator.standard_normal((2, ITEMS))
        rated, scores = judge.cut(people), judge.score(people, own, latent)
        wish = np.where(scores <= np.median(scores), 4.0, 1.0)
        probability = labels * wish / wish.sum()
        rated[generator.random(ITEMS) >= probability] = np.nan
        found = correct(CorrectedSample(scores, rated, np.arange(ITEMS), 1 / probability), options)
        if found.corrected is None or found.human is None:
            continue
        interval, alone = find_mean_interval(found.corrected, options), find_mean_interval(found.human, options)
        if interval is None or alone is None:
            continue
        given += 1
        held += interval[0] <= judge.mean <= interval[1]
        widths.append((interval[1] - interval[0]) / (alone[1] - alone[0]))
    return Row(
        case=f"{judge.name}, chosen unevenly",
        labels=labels,
        correlation=correlation,
        drift=False,
        given=given / runs,
        coverage=held / given if given else None,
        gain=None,
        width=float(np.median(widths)) if given else None,
        runs=runs,
    )


def run_earlier(judge: Judge, labels: int, correlation: float, *, drift: float, runs: int) -> Row:
    """What is *not* offered: people rated items of an earlier run, after which the judge drifted."""
    latent = find_latent(judge, correlation)
    generator = np.random.default_rng([21, labels, int(10 * correlation), len(judge.name)])
    options, clusters, held, given = CorrectionOptions(bounds=judge.scale), np.arange(ITEMS), 0, 0
    for _ in range(runs):
        people, own = generator.standard_normal((2, ITEMS))
        rated = judge.cut(people)
        rated[labels:] = np.nan
        stricter = np.where(np.arange(ITEMS) < labels, 0.0, drift)
        sample = CorrectedSample(judge.score(people, own, latent, stricter), rated, clusters)
        if correct(sample, options).corrected is None:
            continue
        interval = find_mean_interval(estimate_corrected(sample), options)
        given += 1
        held += interval is not None and interval[0] <= judge.mean <= interval[1]
    name = f"{judge.name}, ratings of an earlier run"
    coverage = held / given if given else None
    share = given / runs
    return Row(name, labels, correlation, drift=True, given=share, coverage=coverage, gain=None, width=None, runs=runs)


def run_turns(talks: int, labels: int, rate: float, *, together: int, runs: int) -> Row:
    """Faulty turns per 100 of each conversation, as a run's comparison has them: minus the share, so that more is
    better. People mark the turns of `labels` conversations."""
    generator = np.random.default_rng([22, talks, labels, int(100 * rate), together])
    options, clusters = CorrectionOptions(bounds=(-100.0, 0.0), rates=True), np.arange(talks) // together
    held, widths, needed, correlations = 0, [], [], []
    for _ in range(runs):
        own = generator.beta(ALIKE * rate, ALIKE * (1 - rate), clusters[-1] + 1)[clusters]
        turns = generator.integers(4, 16, talks)
        marked = generator.binomial(turns, own)
        named = generator.binomial(marked, 1 - MISSED) + generator.binomial(turns - marked, IMAGINED)
        people, scores = -100 * marked / turns, -100 * named / turns
        correlations.append(np.corrcoef(people, scores)[0, 1])
        people[generator.permutation(talks)[labels:]] = np.nan
        found = correct(CorrectedSample(scores, people, clusters), options)
        if found.corrected is None or found.human is None:
            needed.append(found.needed or 0)
            continue
        interval, alone = find_mean_interval(found.corrected, options), find_mean_interval(found.human, options)
        if interval is None or alone is None:
            continue
        held += interval[0] <= -100 * rate <= interval[1]
        widths.append((interval[1] - interval[0]) / (alone[1] - alone[0]))
    given = len(widths)
    shared = f", {together} begin alike" if together > 1 else ""
    return Row(
        case=f"faulty turns, {100 * rate:g} per 100, {talks} conversations{shared}",
        labels=labels,
        correlation=round(float(np.mean(correlations)), 2),
        drift=False,
        given=given / runs,
        coverage=held / given if given else None,
        gain=None,
        width=float(np.median(widths)) if given else None,
        runs=runs,
        needed=float(np.median(needed)) if needed else None,
        low=LOW_TURNS,
        high=1.0,
    )


def simulate_grid(runs: int) -> Iterator[Row]:
    """The grid of means."""
    for judge in JUDGES:
        for correlation in CORRELATIONS:
            for labels in LABELS:
                for drift in (False, True):
                    yield run_case(judge, labels, correlation, drift=drift, runs=runs)


def simulate_more(runs: int) -> Iterator[Row]:
    """Dialogues, differences, uneven choice."""
    for judge in JUDGES:
        for labels in (100, 200):
            yield run_case(judge, labels, 0.5, drift=False, runs=runs, dialogues=40)
            for same in (True, False):
                yield run_differences(judge, labels, 0.5, same=same, runs=runs)
            yield run_chosen(judge, labels, 0.5, runs=runs)


def simulate_earlier(runs: int) -> Iterator[Row]:
    """Ratings of earlier runs, after a drift that a t test finds in fewer than 80% of cases."""
    for labels in (50, 200):
        undetected = 2.8 * math.sqrt(1 / labels + 1 / (ITEMS - labels)) - 0.01
        yield run_earlier(JUDGES[0], labels, 0.7, drift=undetected, runs=runs)


def simulate_turns(runs: int) -> Iterator[Row]:
    """Faulty turns of few conversations."""
    for rate in (0.05, 0.1, 0.3):
        for talks, labels in ((60, 15), (60, 30), (200, 20), (200, 60)):
            yield run_turns(talks, labels, rate, together=1, runs=runs)
            if labels >= 30:  # fewer are in too few dialogues
                yield run_turns(talks, labels, rate, together=3, runs=runs)


PARTS: Sequence[Callable[[int], Iterator[Row]]] = (simulate_grid, simulate_more, simulate_turns, simulate_earlier)


def write_row(row: Row) -> str:
    """A row of the table in Markdown."""
    coverage = "–" if row.coverage is None else f"{row.coverage:.3f}" + ("" if row.holds else " **no**")
    cells = (
        row.case,
        f"{row.labels}",
        f"{row.correlation:g}",
        "yes" if row.drift else "no",
        f"{row.given:.2f}",
        coverage,
        "–" if row.gain is None else f"{row.gain:.2f}",
        "–" if row.width is None else f"{row.width:.2f}",
        "–" if row.needed is None else f"{row.needed:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table. Exits with 1 where intervals hold the truth too rarely or too often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs a case")
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--part", choices=["grid", "more", "turns", "earlier"], help="only this part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    options = parser.parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    print("| case | rated | correlation | drift | given | coverage | gain | width | needed |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rows = []
    for part in PARTS:
        if options.part in {None, part.__name__.removeprefix("simulate_")}:
            for row in part(runs):
                rows.append(row)
                print(write_row(row), flush=True)
    if options.json is not None:
        told = [{**asdict(row), "holds": row.holds} for row in rows]
        options.json.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    required = [row for row in rows if "earlier" not in row.case]
    sys.exit(0 if all(row.holds for row in required) else 1)


if __name__ == "__main__":
    main()
