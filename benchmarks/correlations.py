"""How often intervals of correlations hold the truth, two equal judges are told apart, and a judge is said to follow
people.

    python -m benchmarks.correlations                # 2,000 samples a case, 20 minutes
    python -m benchmarks.correlations --runs 50      # does everything run?

Scores and ratings are cut out of normal values that correlate, so that the coefficient is what the case says. Where
they cluster, dialogues of 1, 2, 3, 8, 12 and 4 turns share so much of the variance of both. `cover` is the share of the
intervals that hold the truth, and `given` the share of samples that have one: the others have too few values or
dialogues, which their reason says. A *look* is at the badge after every five items, from 20 to 100.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from saiten.core.messages import Message
from saiten_server.core.reliability import STRONG
from saiten_server.stats.correlation import find_tail
from saiten_server.stats.correlation_intervals import (
    Coefficient,
    CorrelationEstimate,
    Difference,
    GradedColumn,
    compare_estimates,
    describe_tables,
    estimate_coefficient,
    estimate_within,
)
from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.statistics import kendall, pearson, spearman

RUNS = 2_000
SIZES = (20, 40, 100, 200)
CORRELATIONS = (0.0, 0.3, 0.7)
TURNS = (1, 2, 3, 8, 12, 4)
LOOKS = range(20, 101, 5)
SHARES: dict[str, tuple[float, ...]] = {
    "0–1, half": (0.5, 0.5),
    "0–1, 90% at the top": (0.1, 0.9),
    "0–1, 95% at the top": (0.05, 0.95),
    "1–3, 90% at the top": (0.03, 0.07, 0.9),
    "1–5": (0.1, 0.2, 0.4, 0.2, 0.1),
    "1–5, 90% at the top": (0.01, 0.01, 0.03, 0.05, 0.9),
}
"""The shares of a scale's levels."""


@dataclass(frozen=True)
class Case:
    """Scores and ratings on one scale, `alike` being the intra-class correlation of both in their dialogues."""

    kind: Coefficient
    scale: str
    correlation: float
    n: int
    alike: float


@cache
def find_latent(kind: Coefficient, scale: str, correlation: float) -> float:
    """The correlation of the normal values of which the coefficient is this one."""
    share = np.array(SHARES[scale])
    levels = GradedColumn(np.arange(len(share), dtype=np.float64), np.arange(len(share)), share)

    def reach(latent: float) -> float:
        table = cut_table(tuple(SHARES[scale]), latent)
        # Every level once: that is what `GradedColumn` averages its values over.
        return float(describe_tables(kind, table[None], levels, levels)[0][0]) - correlation

    return float(brentq(reach, 0.0, 0.995, xtol=1e-4)) if correlation else 0.0


def cut_table(shares: tuple[float, ...], latent: float) -> Floats:
    """The probability of each pair of levels, shape (levels, levels)."""
    ends = np.append(-8.0, np.append(ndtri(np.cumsum(shares)[:-1]), 8.0))
    grid = np.array(list(product(ends, ends)))
    joint = multivariate_normal([0, 0], [[1, latent], [latent, 1]]).cdf(grid).reshape(len(ends), len(ends))
    table: Floats = np.diff(np.diff(joint, axis=0), axis=1)
    whole: Floats = table / table.sum()
    return whole


def cut(values: Floats, scale: str) -> Floats:
    """Normal values as levels of the scale."""
    found: Floats = np.searchsorted(ndtri(np.cumsum(SHARES[scale])[:-1]), values).astype(np.float64)
    return found


def find_clusters(n: int, alike: float) -> Integers:
    """The dialogue of each of n items; without `alike` each stands alone."""
    if not alike:
        return np.arange(n)
    turns = np.tile(TURNS, n)
    return np.repeat(np.arange(len(turns)), turns)[:n]


def draw_values(cluster: Integers, alike: float, draw: np.random.Generator) -> Floats:
    """Normal values of which the dialogues share so much, shape (n,)."""
    shared = draw.standard_normal(int(cluster.max()) + 1)[cluster]
    found: Floats = np.sqrt(alike) * shared + np.sqrt(1 - alike) * draw.standard_normal(len(cluster))
    return found


def follow(values: Floats, latent: float, cluster: Integers, alike: float, draw: np.random.Generator) -> Floats:
    """Normal values that correlate so with these."""
    found: Floats = latent * values + np.sqrt(1 - latent**2) * draw_values(cluster, alike, draw)
    return found


def estimate_columns(kind: Coefficient, x: Floats, y: Floats, cluster: Integers) -> CorrelationEstimate | None:
    """The coefficient; None where a column is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    value = kendall(x, y) if kind == "kendall" else float((pearson if kind == "pearson" else spearman)(x, y))
    return estimate_coefficient(kind, x, y, cluster, value)


def cover(case: Case, runs: int) -> tuple[float | None, float]:
    """The share of intervals that hold the truth, and of samples that have one. Equal samples are computed once."""
    draw = np.random.default_rng(7)
    cluster, latent = find_clusters(case.n, case.alike), find_latent(case.kind, case.scale, case.correlation)
    known: dict[bytes, bool | None] = {}
    held = []
    for _ in range(runs):
        values = draw_values(cluster, case.alike, draw)
        x, y = (cut(one, case.scale) for one in (values, follow(values, latent, cluster, case.alike, draw)))
        if not case.alike:
            order = np.lexsort((y, x))
            x, y = x[order], y[order]
        sample = np.stack([x, y]).astype(np.int8).tobytes()
        if sample not in known:
            found = estimate_columns(case.kind, x, y, cluster)
            interval = "constant" if found is None else found.interval()
            known[sample] = (
                None if isinstance(interval, Message | str) else interval[0] <= case.correlation <= interval[1]
            )
        held.append(known[sample])
    given = [one for one in held if one is not None]
    return (sum(given) / len(given) if len(given) >= runs / 50 else None), len(given) / runs


def show_difference(scale: str, n: int, correlation: float, alike: float, runs: int) -> tuple[float | None, float]:
    """How often two judges with one correlation are told apart at .05, of the samples with a test; and their share."""
    draw, found = np.random.default_rng(8), []
    cluster, latent = find_clusters(n, alike), find_latent("spearman", scale, correlation)
    for _ in range(runs):
        people = draw_values(cluster, alike, draw)
        y = cut(people, scale)
        judges = [cut(follow(people, latent, cluster, alike, draw), scale) for _ in range(2)]
        pair = [estimate_columns("spearman", x, y, cluster) for x in judges]
        if pair[0] is not None and pair[1] is not None:
            one = compare_estimates(pair[0], pair[1])
            found += [one.p < 0.05] if isinstance(one, Difference) else []
    return (sum(found) / len(found) if len(found) >= runs / 50 else None), len(found) / runs


def make_heavy(n: int, draw: np.random.Generator) -> tuple[Floats, Floats]:
    """Scores and ratings whose spread differs tenfold from item to item."""
    spread, one = np.exp(0.8 * draw.standard_normal(n)), draw.standard_normal(n)
    return spread * one, spread * (0.4 * one + 0.9 * draw.standard_normal(n))


def make_uneven(n: int, draw: np.random.Generator) -> tuple[Floats, Floats]:
    """Ratings of which 10% are 1, others 0, and scores that spread 2.5 times as far where they are 1."""
    y = (draw.random(n) < 0.1).astype(np.float64)
    return draw.standard_normal(n) * (1 + 1.5 * y) + y, y


SHAPES = {"heavy tails": make_heavy, "10% ones, where scores spread 2.5 times as far": make_uneven}


def write_shapes(runs: int) -> None:
    """Coverage where the copula does not fit."""
    print("\n| data | figure | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("|---|---|" + "---|" * len(SIZES))
    kinds: tuple[Coefficient, ...] = ("spearman", "pearson")
    for (name, make), kind in product(SHAPES.items(), kinds):
        x, y = make(1_000_000, np.random.default_rng(10))
        truth = float((pearson if kind == "pearson" else spearman)(x, y))
        cells = []
        for n in SIZES:
            draw, held = np.random.default_rng(11), list[bool]()
            for _ in range(runs):
                x, y = make(n, draw)
                found = estimate_columns(kind, x, y, np.arange(n))
                interval = "constant" if found is None else found.interval()
                held += [] if isinstance(interval, Message | str) else [interval[0] <= truth <= interval[1]]
            cells.append(write(sum(held) / len(held), len(held) / runs))
        print(f"| {name} | {kind} | {' | '.join(cells)} |", flush=True)


@dataclass(frozen=True)
class Judge:
    """A judge that correlates so with quality, on `aspects` of a scale, looked at after each of `looks` items. Two
    systems lie `gap` standard deviations apart in what judge and people say."""

    scale: str
    aspects: int
    correlation: float
    looks: Sequence[int] = LOOKS
    gap: float = 0.0
    alike: float = 0.0


def count_claims(judge: Judge, runs: int) -> tuple[float, float]:
    """How often it is said of any aspect at any look that the judge follows people, and that it lies above STRONG."""
    draw, n = np.random.default_rng(9), max(judge.looks)
    cluster = find_clusters(n, judge.alike)
    system = np.arange(n) % 2 if judge.gap else np.zeros(n, dtype=np.int64)
    follows = validated = 0
    for _ in range(runs):
        lows = list(list_lows(judge, cluster, system, draw))
        follows += any(low > 0 for low in lows)
        validated += any(low > STRONG for low in lows)
    return follows / runs, validated / runs


def list_lows(judge: Judge, cluster: Integers, system: Integers, draw: np.random.Generator) -> Iterator[float]:
    """The lower ends of the badge's intervals, over aspects and looks."""
    for _ in range(judge.aspects):
        quality, shift = draw_values(cluster, judge.alike, draw), judge.gap * (system - 0.5)
        x = cut(follow(quality, judge.correlation, cluster, judge.alike, draw) + shift, judge.scale)
        raters = [cut(0.8 * quality + 0.6 * draw.standard_normal(len(x)) + shift, judge.scale) for _ in range(2)]
        y = (raters[0] + raters[1]) / 2
        for n in judge.looks:
            varies = all(
                any(np.ptp(column[:n][system[:n] == one]) > 0 for one in np.unique(system)) for column in (x, y)
            )
            if varies:
                found = estimate_within(x[:n], y[:n], cluster[:n], system[:n])
                interval = found.interval(find_tail(n, judge.aspects))
                if not isinstance(interval, Message):
                    yield interval[0]


JUDGES = (
    Judge("1–5", 6, 0.0),
    Judge("1–3, 90% at the top", 6, 0.0),
    Judge("0–1, 90% at the top", 6, 0.0),
    Judge("1–5", 6, 0.0, alike=0.5),
    Judge("1–5", 1, 0.0, gap=1.5),
    Judge("1–5, 90% at the top", 1, 0.0, gap=1.5),
    *(Judge("1–5", 6, correlation, (n,)) for correlation in (0.4, 0.6, 0.8) for n in (60, 100, 200)),
)


def write(share: float | None, given: float) -> str:
    """`.952 (98%)`: of the samples in parentheses."""
    return f"none ({given:.0%})" if share is None else f"{share:.3f}".removeprefix("0") + f" ({given:.0%})"


def write_coverage(runs: int) -> None:
    """Coverage by scale, coefficient, correlation and clusters, a column for each number of items."""
    print("| scale | figure | alike | correlation | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("|---|---|---|---|" + "---|" * len(SIZES))
    kinds: tuple[Coefficient, ...] = ("spearman", "pearson", "kendall")
    for scale, kind, alike, correlation in product(SHARES, kinds, (0.0, 0.5), CORRELATIONS):
        if kind != "spearman" and len(SHARES[scale]) == 2:
            continue  # one and the same figure
        cells = [write(*cover(Case(kind, scale, correlation, n, alike), runs)) for n in SIZES]
        print(f"| {scale} | {kind} | {alike:g} | {correlation:g} | {' | '.join(cells)} |", flush=True)


def write_differences(runs: int) -> None:
    """How often equal judges are told apart."""
    print("\n| two equal judges told apart | alike | correlation | " + " | ".join(f"n = {n}" for n in SIZES) + " |")
    print("|---|---|---|" + "---|" * len(SIZES))
    scales = ("0–1, 90% at the top", "1–5", "1–5, 90% at the top")
    for scale, alike, correlation in product(scales, (0.0, 0.5), CORRELATIONS):
        cells = [write(*show_difference(scale, n, correlation, alike, runs)) for n in SIZES]
        print(f"| {scale} | {alike:g} | {correlation:g} | {' | '.join(cells)} |", flush=True)


def write_claims(runs: int) -> None:
    """What is said of judges."""
    print("\n| judge | aspects | alike | systems apart | looks | any *follows* | any above 0.3 |")
    print("|---|---|---|---|---|---|---|")
    for judge in JUDGES:
        follows, strong = count_claims(judge, runs)
        looks = f"{judge.looks[0]} to {judge.looks[-1]}" if len(judge.looks) > 1 else f"at {judge.looks[0]}"
        print(
            f"| {judge.scale}, ρ = {judge.correlation:g} | {judge.aspects} | {judge.alike:g} | {judge.gap:g} | {looks} "
            f"| {follows:.3f} | {strong:.3f} |",
            flush=True,
        )


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="samples a case")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=tuple(TABLES), help="which tables")
    wanted = parser.parse_args()
    for table in wanted.tables:
        TABLES[table](wanted.runs)


TABLES = {"coverage": write_coverage, "shapes": write_shapes, "differences": write_differences, "claims": write_claims}

if __name__ == "__main__":
    main()
