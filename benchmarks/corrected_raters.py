"""How often corrected figures mistake a rater's severity for the bot's quality: simulated pairs of runs and means.

    python -m benchmarks.corrected_gate --part raters    # false failures: 2,000 pairs a case, some 15 minutes
    python -m benchmarks.corrected_gate --part means     # intervals of one run's mean, 2,000 runs a case

Nothing changed between the runs: the same 400 contexts in 40 dialogues of 10, 100 of them rated in each. A rating is
people's value with half a standard deviation of the rater's own noise, and with the rater's severity, which has the
standard deviation that a row names, cut into five levels. `overlap` is the share of the second run's ratings that are
by raters of the first run; all others are by as many new raters. `raters` is how many rate a run, one a response; other
designs say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from benchmarks.corrected import JUDGES, Array, find_latent
from saiten_server.stats.corrected import (
    CorrectedSample,
    CorrectionOptions,
    correct,
    differ_corrected,
    differ_shared,
    find_mean_interval,
    share_raters,
)
from saiten_server.stats.observations import average_groups
from saiten_server.stats.severity import IndividualRatings

Numbers = NDArray[np.int64]

ITEMS, DIALOGUES, RATED = 400, 40, 100
NOISE = 0.5
CORRELATION = 0.5
ALPHA = 0.05
MOST_FAILURES = 0.06
DROP = 0.33
"""Standard deviations: 0.3 of the points from 1 to 5."""

SEVERITIES = (0.0, 0.1, 0.3, 0.5)
JUDGE = JUDGES[0]
OPTIONS = CorrectionOptions(alpha=ALPHA, bounds=JUDGE.scale)


@dataclass(frozen=True)
class Design:
    """Who rates what. `each` raters rate a response; with `apart` the second run's rated responses are to other items;
    `rated` is how many of each run are rated, and `drop` how far people's values fall."""

    raters: int
    overlap: float
    each: int = 1
    apart: bool = False
    rated: int = RATED
    drop: float = 0.0
    uneven: bool = False
    name: str = ""


@dataclass(frozen=True)
class FailureRow:
    """Shares of pairs in which a drop is found: by the raters of both runs, of those not refused; of all, were it not
    known who rated; and in which any change is found, by the raters of both."""

    design: Design
    severity: float
    failed: float
    nameless: float
    changed: float
    refused: float
    runs: int

    @property
    def holds(self) -> bool:
        slack = 2 * math.sqrt(MOST_FAILURES * (1 - MOST_FAILURES) / max(1.0, self.runs * (1 - self.refused)))
        fine = max(self.failed, self.changed) <= MOST_FAILURES + slack
        return bool(self.design.drop) or (fine and (self.design.overlap > 0 or self.refused == 1))


def mix(generator: np.random.Generator) -> Array:
    """Standard normal values, a third of which their dialogue shares."""
    shared = np.repeat(generator.standard_normal(DIALOGUES), ITEMS // DIALOGUES)
    found: Array = math.sqrt(1 / 3) * shared + math.sqrt(2 / 3) * generator.standard_normal(ITEMS)
    return found


def assign(design: Design, generator: np.random.Generator, *, second: bool) -> tuple[Numbers, Numbers]:
    """The places of ratings among the rated responses, and their raters; new ones have numbers from `raters` on."""
    rows = np.arange(design.rated)
    shares = np.arange(design.raters, 0, -1) ** 2 if design.uneven else np.ones(design.raters)
    if design.each == 1:
        ends = np.round(np.cumsum(shares) / shares.sum() * design.rated)
        who = generator.permutation(np.searchsorted(ends, rows, side="right"))[:, None]
    else:
        who = np.argsort(generator.random((design.rated, design.raters)), axis=1)[:, : design.each]
    if second:
        new = generator.permutation(design.rated) >= round(design.overlap * design.rated)
        who = np.where(new[:, None], who + design.raters, who)
    return np.repeat(rows, design.each), who.ravel()


def draw_pair(design: Design, severity: float, generator: np.random.Generator) -> list[CorrectedSample]:
    """Two runs of one quality."""
    latent = find_latent(JUDGE, CORRELATION)
    clusters = np.repeat(np.arange(DIALOGUES), ITEMS // DIALOGUES)
    context, order = (mix(generator), mix(generator)), generator.permutation(ITEMS)
    severe = severity * generator.standard_normal(2 * design.raters)
    found = []
    for second in (False, True):
        people, own = (math.sqrt(0.5) * one + math.sqrt(0.5) * mix(generator) for one in context)
        people = people - design.drop * second
        start = design.rated if second and design.apart else 0
        place, rater = assign(design, generator, second=second)
        item = order[start : start + design.rated][place]
        heard = people[item] + severe[rater] + NOISE * generator.standard_normal(len(item))
        said = IndividualRatings(item, rater, JUDGE.cut(heard / math.hypot(1, NOISE)))
        ratings = average_groups(said.value, item, ITEMS)
        found.append(CorrectedSample(JUDGE.score(people, own, latent), ratings, clusters, None, said))
    return found


def run_failures(design: Design, severity: float, runs: int) -> FailureRow:
    """One case."""
    seed = [30, design.raters, int(100 * design.overlap), int(100 * severity), design.each, design.apart, design.rated]
    generator = np.random.default_rng(seed)
    failed = changed = refused = nameless = 0
    for _ in range(runs):
        before, after = draw_pair(design, severity, generator)
        without = differ_corrected(replace(before, said=None), replace(after, said=None), OPTIONS)
        nameless += without.p is not None and without.p < ALPHA and without.difference < 0
        shared = share_raters(before, after, OPTIONS)
        if shared.refused is not None:
            refused += 1
            continue
        found = differ_shared(shared, OPTIONS)
        significant = found.p is not None and found.p < ALPHA
        changed += significant
        failed += significant and found.difference < 0
    given = max(1, runs - refused)
    return FailureRow(design, severity, failed / given, nameless / runs, changed / given, refused / runs, runs)


def list_designs() -> Iterator[tuple[Design, tuple[float, ...]]]:
    """The designs, each with the severities that it is simulated at."""
    for raters in (1, 2, 5):
        for overlap in (0.0, 0.3, 1.0):
            yield Design(raters, overlap), SEVERITIES
    more = (0.0, 0.5)
    yield Design(2, 1.0, apart=True, name="other items of each run"), more
    yield Design(5, 0.3, apart=True, name="other items of each run"), more
    yield Design(3, 1.0, each=3, name="all three rate each"), more
    yield Design(5, 0.3, each=3, name="three of five rate each"), more
    yield Design(5, 1.0, uneven=True, name="25 to 1 ratings a rater"), more
    yield Design(50, 1.0, name="two ratings a rater"), more
    yield Design(2, 1.0, rated=30, name="30 rated"), more
    yield Design(2, 1.0, drop=DROP, name="people's mean falls by 0.3"), more
    yield Design(5, 0.3, drop=DROP, name="people's mean falls by 0.3"), more


def simulate_failures(runs: int) -> Iterator[FailureRow]:
    """All rows."""
    for design, severities in list_designs():
        for severity in severities:
            yield run_failures(design, severity, runs)


@dataclass(frozen=True)
class MeanRow:
    """Shares of runs whose interval holds people's mean: with the raters' severity in it, and for these raters alone;
    and the median widths of both."""

    raters: int
    each: int
    severity: float
    coverage: float
    conditional: float
    width: float
    narrow: float
    runs: int

    @property
    def holds(self) -> bool:
        """That intervals hold often enough: of two or three raters they may hold more often."""
        return self.coverage >= 0.935 - 2 * math.sqrt(0.05 * 0.95 / self.runs)


def find_mean(severity: float) -> float:
    """The mean of all people's ratings of all responses."""
    stretch = math.hypot(1, NOISE, severity) / math.hypot(1, NOISE)
    return float(1 + np.sum(1 - ndtr(ndtri(np.cumsum(JUDGE.shares)[:-1]) / stretch)))


def run_means(raters: int, each: int, severity: float, runs: int) -> MeanRow:
    """One case."""
    generator = np.random.default_rng([31, raters, each, int(100 * severity)])
    truth, design, spans = find_mean(severity), Design(raters, 1.0, each), []
    for _ in range(runs):
        sample, _ = draw_pair(design, severity, generator)
        found = correct(sample, OPTIONS).corrected
        if found is None:
            continue
        wide, narrow = find_mean_interval(found, OPTIONS), find_mean_interval(replace(found, severity=None), OPTIONS)
        if wide is not None and narrow is not None:
            spans.append((*wide, *narrow))
    low, high, first, last = np.array(spans).T
    held, conditional = (np.mean((a <= truth) & (truth <= b)) for a, b in ((low, high), (first, last)))
    widths = float(np.median(high - low)), float(np.median(last - first))
    return MeanRow(raters, each, severity, float(held), float(conditional), *widths, len(spans))


def simulate_means(runs: int) -> Iterator[MeanRow]:
    """All rows."""
    for raters in (2, 3, 5, 10, 20):
        for each in (1, 3) if raters > 2 else (1, 2):
            for severity in (0.0, 0.3, 0.5):
                yield run_means(raters, each, severity, runs)


def write_failures(row: FailureRow) -> str:
    """A row in Markdown."""
    design, refused = row.design, row.refused == 1
    figures = "–" if refused else f"{row.failed:.3f}{'' if row.holds else ' **no**'}"
    changed = "–" if refused else f"{row.changed:.3f}"
    cells = design.name or "one rater a response", design.raters, f"{design.overlap:g}", f"{row.severity:g}"
    return f"| {' | '.join(map(str, cells))} | {figures} | {changed} | {row.nameless:.3f} | {row.refused:.2f} |"


def write_means(row: MeanRow) -> str:
    """A row in Markdown."""
    held = f"{row.coverage:.3f}{'' if row.holds else ' **no**'}"
    return (
        f"| {row.raters} | {row.each} | {row.severity:g} | {held} | {row.conditional:.3f} | {row.width:.2f} | "
        f"{row.narrow:.2f} |"
    )


FAILURES_HEAD = "| design | raters | overlap | severity sd | fails | any change | nameless fails | refused |"
MEANS_HEAD = "| raters | each response | severity sd | holds | by these raters | width | by these raters |"


def print_part(part: str, runs: int) -> bool:
    """Prints the table of failures or of means; whether all rows hold."""
    head = FAILURES_HEAD if part == "raters" else MEANS_HEAD
    print(head)
    print("|---" * (head.count("|") - 1) + "|", flush=True)
    held = True
    if part == "raters":
        for failures in simulate_failures(runs):
            held = held and failures.holds
            print(write_failures(failures), flush=True)
    else:
        for means in simulate_means(runs):
            held = held and means.holds
            print(write_means(means), flush=True)
    return held
