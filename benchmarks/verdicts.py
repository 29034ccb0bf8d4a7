"""How often verdicts are wrong, how often they see what is there, how often intervals hold the truth: simulated runs.

    python -m benchmarks.verdicts                    # 2,000 runs a case, some 25 minutes
    python -m benchmarks.verdicts --quick            # 100 runs a case: does everything run?
    python -m benchmarks.verdicts --json FILE        # the rows as JSON as well

Ratings are normal values cut into the levels of a scale, 1–3 or 1–5. Part of a value is the dialogue's, shared by its
turns (the intra-class correlation), the rest is the turn's. `pairs` is how closely the two runs of a pair correlate, in
either part. Nothing here looks into the project: it builds runs, and asks `compare`, `judge_gate` and the estimates.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from saiten_server.comparison.differences import Sides, compare, estimate_difference, find_p, test_difference
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateRule, PairingTest
from saiten_server.runs.frame import key_all, make_frame
from saiten_server.stats.resampling import (
    add_up,
    describe_clusters,
    estimate_mean,
    estimate_paired,
    estimate_rate,
    estimate_unpaired,
)
from saiten_server.stats.statistics import reach

Array = NDArray[np.float64]
Shares = tuple[float, ...]

ALPHA = 0.05
RUNS, QUICK_RUNS = 2_000, 100
PROBE = 200_000
"""Pairs, in dialogues, of which the true mean and variance of a case are taken."""

MIDDLE: dict[str, Shares] = {"1–3": (0.3, 0.4, 0.3), "1–5": (0.08, 0.2, 0.36, 0.26, 0.1)}
AT_END: dict[str, Shares] = {"1–3": (0.03, 0.07, 0.9), "1–5": (0.01, 0.01, 0.02, 0.06, 0.9)}
"""How often each level is given: around the middle of the scale, and with nine tenths at its upper end."""

Drift = Callable[[Array, np.random.Generator], Array]


@dataclass(frozen=True)
class World:
    """Where ratings come from. `shift` lowers the candidate's values before they are cut."""

    shares: Shares
    dialogues: int
    turns: int = 1
    alike: float = 0.0
    pairs: float = 0.6
    aspects: int = 1
    shift: float = 0.0

    @property
    def items(self) -> int:
        return self.dialogues * self.turns

    @property
    def scale(self) -> tuple[float, float]:
        return 1.0, float(len(self.shares))

    @property
    def clusters(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.dialogues), self.turns)

    def draw(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Both runs' ratings, the baseline's first, shapes (items, aspects)."""
        parts = []
        for size, rows in ((self.alike, self.dialogues), (1 - self.alike, self.items)):
            shared = generator.standard_normal((rows, self.aspects))
            own = generator.standard_normal((2, rows, self.aspects))
            values = math.sqrt(size) * (math.sqrt(self.pairs) * shared + math.sqrt(1 - self.pairs) * own)
            parts.append(values if rows == self.items else np.repeat(values, self.turns, axis=1))
        before, after = parts[0] + parts[1]
        return cut(before, self.shares), cut(after - self.shift, self.shares)

    def find_mean(self, shift: float = 0.0) -> float:
        """The true mean of a run whose values are lowered by so much before they are cut."""
        normal = NormalDist()
        below = [normal.cdf(normal.inv_cdf(share) + shift) for share in np.cumsum(self.shares)[:-1]]
        return len(self.shares) - math.fsum(below)

    @property
    def difference(self) -> float:
        """The true difference of the means."""
        return self.find_mean(self.shift) - self.find_mean()

    def find_error(self) -> float:
        """The true standard error of the mean difference of pairs, from very many of them."""
        large = replace(self, dialogues=PROBE // self.turns, aspects=1)
        before, after = large.draw(np.random.default_rng(1))
        moved = (after - before)[:, 0].reshape(-1, self.turns).mean(axis=1)
        return float(moved.std() / math.sqrt(self.dialogues))


@dataclass(frozen=True)
class Row:
    """One measured share, and what it should be. `low` and `high` bound it, None where there is nothing to hold."""

    case: str
    scale: str
    data: str
    share: float
    runs: int
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def allowance(self) -> float:
        """Two standard errors of the simulation itself, at the bound."""
        bound = self.high if self.high is not None else self.low
        return 0.0 if bound is None else 2 * math.sqrt(bound * (1 - bound) / self.runs)

    @property
    def holds(self) -> bool:
        above = self.low is None or self.share >= self.low - self.allowance
        return above and (self.high is None or self.share <= self.high + self.allowance)

    @property
    def required(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g}–{self.high:g}"
        if self.high is not None:
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if self.low is not None else "–"


def cut(values: Array, shares: Shares) -> Array:
    """Standard normal values as levels from 1, each as often as its share says."""
    bounds = [NormalDist().inv_cdf(share) for share in np.cumsum(shares)[:-1]]
    found: Array = 1.0 + np.searchsorted(bounds, values).astype(np.float64)
    return found


def make_run(
    name: str,
    ratings: Array,
    world: World,
    scale: tuple[float, float] | None = None,
    dialogues: Sequence[str | None] | None = None,
) -> ComparedRun:
    """The ratings as a complete run whose items know their dialogues where several share one, or these."""
    aspects = tuple(f"a{number}" for number in range(ratings.shape[1]))
    if dialogues is None:
        dialogues = [f"d{number}" if world.turns > 1 else None for number in world.clusters.tolist()]
    count = len(ratings)
    frame = make_frame(
        count,
        {("aspect", aspect): column for aspect, column in zip(aspects, ratings.T.astype(np.float64), strict=True)},
        items=key_all([str(number) for number in range(count)]),
        clusters=key_all(dialogues),
    )
    scales = dict.fromkeys(aspects, scale or world.scale)
    return ComparedRun(name, frame, count, {"saiten:1|judge:simulated": count}, scales, aspects)


def count_failures(world: World, runs: int, *, rules: int = 1, test: PairingTest = "paired") -> float:
    """The share of gates that fail."""
    asked = [GateRule(aspect=f"a{number}", max_drop=0.0) for number in range(rules)]
    generator = np.random.default_rng(11)
    failed = 0
    for _ in range(runs):
        before, after = (make_run(name, own, world) for name, own in zip("ba", world.draw(generator), strict=True))
        failed += judge_gate(after, before, asked, alpha=ALPHA, test=test).verdict == "fail"
    return failed / runs


def judge_no_change(runs: int) -> Iterator[Row]:
    """Gates that fail though nothing changed."""
    for scale, shares in MIDDLE.items():
        for alike, rules in ((0.2, 1), (0.5, 1), (0.5, 6)):
            world = World(shares, 20, 10, alike, pairs=0.3, aspects=rules)
            share = count_failures(world, runs, rules=rules)
            data = f"{name_data(world)}, {name_rules(rules)}"
            yield Row("nothing changed: fails", scale, data, share, runs, high=0.06)
        for rules in (1, 6):
            share = count_failures(World(shares, 200, aspects=rules), runs, rules=rules)
            yield Row("nothing changed: fails", scale, f"200 items, {name_rules(rules)}", share, runs, high=0.06)
        world = World(shares, 20, 10, 0.5, pairs=0.0)
        share = count_failures(world, runs, test="unpaired")
        data = "20 dialogues × 10 turns, correlation 0.5 within, unpaired"
        yield Row("nothing changed: fails", scale, data, share, runs, high=0.06)


def list_knowledge(world: World) -> dict[str, tuple[Sequence[str | None], Sequence[str | None]]]:
    """What the runs know of the dialogues that there are, the baseline's first, by a name of the case."""
    named = [f"d{number}" for number in world.clusters.tolist()]
    nothing: list[str | None] = [None] * len(named)
    turn = [number % world.turns for number in range(len(named))]
    halves = [f"{name}{'a' if own < world.turns // 2 else 'b'}" for name, own in zip(named, turn, strict=True)]
    late = [name if own > 0 else None for name, own in zip(named, turn, strict=True)]
    early = [name if own < world.turns - 1 else None for name, own in zip(halves, turn, strict=True)]
    shifted = [f"s{(number + world.turns // 2) // world.turns}" for number in range(len(named))]
    return {
        "in the baseline only": (named, nothing),
        "in the candidate only": (nothing, named),
        "two items of the candidate share a context": (named, ["found", "found", *nothing[2:]]),
        "halves of them in the candidate": (named, halves),
        "each run lacks some turns": (late, early),
        "the candidate's begin half a dialogue later": (named, shifted),
    }


def judge_other_dialogues(runs: int) -> Iterator[Row]:
    """Gates that fail though nothing changed, where the runs do not know the same of their dialogues."""
    rule = GateRule(aspect="a0", max_drop=0.0)
    # Where pairs correlate, an unpaired test fails hardly ever, whatever its units are.
    alike = World(MIDDLE["1–5"], 20, 10, 0.5, pairs=0.3)
    tests: dict[PairingTest, World] = {"paired": alike, "unpaired": replace(alike, pairs=0.0)}
    for test, world in tests.items():
        for case, known in list_knowledge(world).items():
            generator, found = np.random.default_rng(17), {"pass": 0, "fail": 0, "inconclusive": 0}
            for _ in range(runs):
                before, after = (
                    make_run(name, own, world, dialogues=dialogues)
                    for name, own, dialogues in zip("ba", world.draw(generator), known, strict=True)
                )
                found[judge_gate(after, before, [rule], alpha=ALPHA, test=test).verdict] += 1
            data = f"{name_data(world)}; known {case}" + (", unpaired" if test == "unpaired" else "")
            note = f"passes: {found['pass'] / runs:.3f}"
            yield Row("nothing changed: fails", "1–5", data, found["fail"] / runs, runs, high=0.06, note=note)


def name_rules(rules: int) -> str:
    """`one rule`, `six rules`."""
    return "one rule" if rules == 1 else "six rules"


def judge_skewed(runs: int) -> Iterator[Row]:
    """Gates that fail, and verdicts of either kind, where the means are equal and the changes skewed."""
    for scale, step in (("1–3", 0.5), ("1–5", 1.0)):
        generator = np.random.default_rng(12)
        world, found = World((0.5, 0.5), 200), {"fail": 0, "verdict": 0, "ranks": 0}
        ends = (1.0, 1.0 + 4 * step)
        for _ in range(runs):
            before = np.full((200, 1), 1.0 + step)
            moved = step * generator.choice([-1.0, 0.0, 3.0], size=(200, 1), p=[0.3, 0.6, 0.1])
            baseline, candidate = make_run("b", before, world, ends), make_run("a", before + moved, world, ends)
            report = judge_gate(candidate, baseline, [GateRule(aspect="a0", max_drop=0.0)], alpha=ALPHA)
            found["fail"] += report.verdict == "fail"
            found["verdict"] += (
                report.comparison is not None and report.comparison.aspects["a0"].verdict != "inconclusive"
            )
            found["ranks"] += float(stats.wilcoxon(moved[moved != 0]).pvalue) < ALPHA
        data = "200 pairs, −1 with 0.3 and +3 with 0.1" + (" (half as large)" if step < 1 else "")
        note = f"Wilcoxon's test: {found['ranks'] / runs:.3f}"
        yield Row("equal means, skewed change: fails", scale, data, found["fail"] / runs, runs, high=0.06)
        yield Row("the same: better or worse", scale, data, found["verdict"] / runs, runs, high=0.06, note=note)


def judge_drop(runs: int) -> Iterator[Row]:
    """Gates that fail where the mean fell by 0.3, beside what Wilcoxon's test would find of the same ratings."""
    for pairs in (0.6, 0.3, 0.0):
        world = find_world(World(MIDDLE["1–5"], 200, pairs=pairs), lambda world: -world.difference >= 0.3)
        share, ranks = count_found(world, runs)
        data = f"200 pairs, correlation of pairs {pairs:g}, one rule"
        yield Row(
            "drop of 0.3: fails", "1–5", data, share, runs, low=ranks - 0.02, note=f"Wilcoxon's test: {ranks:.3f}"
        )


def find_world(world: World, reached: Callable[[World], bool]) -> World:
    """The world with the smallest shift, by bisection, at which its true figures are such."""
    low, high = 0.0, 3.0
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(replace(world, shift=middle)) else (middle, high)
    return replace(world, shift=high)


def count_found(world: World, runs: int) -> tuple[float, float]:
    """The share of comparisons that find the candidate worse, and what a signed-rank test over items would."""
    generator = np.random.default_rng(13)
    found = ranks = 0
    for _ in range(runs):
        before, after = world.draw(generator)
        measure = compare(make_run("b", before, world), make_run("a", after, world), alpha=ALPHA).aspects["a0"]
        found += measure.verdict == "worse"
        moved = (after - before)[:, 0]
        ranks += float(stats.wilcoxon(moved[moved != 0]).pvalue) < ALPHA and moved.mean() < 0
    return found / runs, ranks / runs


def judge_detectable(runs: int) -> Iterator[Row]:
    """How often a true difference of the smallest detectable one is found."""
    for scale, shares in MIDDLE.items():
        for base in (World(shares, 200), World(shares, 30), World(shares, 20, 10, 0.2), World(shares, 40, 5, 0.5)):
            needed = reach(ALPHA, base.dialogues - 1)

            def reached(world: World, needed: float = needed) -> bool:
                return -world.difference >= needed * world.find_error()

            world = find_world(base, reached)
            share, _ = count_found(world, runs)
            note = f"a drop of {-world.difference:.3f}"
            data = name_data(world)
            yield Row("smallest detectable difference: found", scale, data, share, runs, low=0.76, high=0.84, note=note)


def name_data(world: World) -> str:
    """`200 items`, `20 dialogues × 10 turns, correlation 0.2 within`."""
    if world.turns == 1:
        return f"{world.dialogues} items"
    return f"{world.dialogues} dialogues × {world.turns} turns, correlation {world.alike:g} within"


SIZES = ((15, 1, 0.0), (30, 1, 0.0), (200, 1, 0.0), (15, 10, 0.3), (20, 10, 0.5), (100, 4, 0.2))


def judge_intervals(runs: int) -> Iterator[Row]:
    """How often 95% intervals hold the true mean, and the true difference of pairs and of runs."""
    for where, every, low, high in (("middle", MIDDLE, 0.93, 0.97), ("at the end", AT_END, 0.90, None)):
        for scale, shares in every.items():
            for dialogues, turns, alike in SIZES:
                world = World(shares, dialogues, turns, alike, shift=0.2)
                given, held = cover(world, runs)
                apart, held_apart = cover_apart(replace(world, pairs=0.0), runs)
                for name, count, inside in (
                    ("mean", given[0], held[0]),
                    ("difference of pairs", given[1], held[1]),
                    ("difference of runs", apart, held_apart),
                ):
                    note = "" if count == runs else f"given in {count / runs:.3f}"
                    case = f"interval of a {name}, {where}: holds it"
                    yield Row(
                        case, scale, name_data(world), inside / max(1, count), count, low=low, high=high, note=note
                    )


def cover(world: World, runs: int) -> tuple[list[int], list[int]]:
    """How many intervals of the baseline's mean and of the paired difference are given, and hold the true figure."""
    truths = (world.find_mean(), world.difference)
    generator, clusters = np.random.default_rng(14), world.clusters
    given, held = [0, 0], [0, 0]
    for _ in range(runs):
        before, after = (own[:, 0] for own in world.draw(generator))
        sums, counts = add_up(before, clusters)
        rises, _ = add_up(np.maximum(after - before, 0), clusters)
        falls, _ = add_up(np.maximum(before - after, 0), clusters)
        width = world.scale[1] - world.scale[0]
        found = (
            estimate_mean(sums, counts, bounds=world.scale).interval,
            estimate_paired(rises, falls, counts, width=width).interval,
        )
        for place, (interval, truth) in enumerate(zip(found, truths, strict=True)):
            if interval is not None:
                given[place] += 1
                held[place] += interval[0] <= truth <= interval[1]
    return given, held


def cover_apart(world: World, runs: int) -> tuple[int, int]:
    """The same of the difference of two runs that share no item."""
    generator, given, held = np.random.default_rng(15), 0, 0
    for _ in range(runs):
        sides = [describe_clusters(*add_up(own[:, 0], world.clusters)) for own in world.draw(generator)]
        interval = estimate_unpaired(*sides, bounds=world.scale).interval
        if interval is not None:
            given += 1
            held += interval[0] <= world.difference <= interval[1]
    return given, held


def judge_minimum(runs: int) -> Iterator[Row]:
    """Gates that fail a run whose true mean is exactly its minimum."""
    for where, every in (("middle", MIDDLE), ("at the end", AT_END)):
        for scale, shares in every.items():
            for world in (World(shares, 60), World(shares, 20, 10, 0.5)):
                generator, failed = np.random.default_rng(16), 0
                least = math.fsum((level + 1) * share for level, share in enumerate(shares))
                rule = GateRule(aspect="a0", min_mean=least)
                for _ in range(runs):
                    _, after = world.draw(generator)
                    failed += judge_gate(make_run("a", after, world), None, [rule], alpha=ALPHA).verdict == "fail"
                case = f"exactly at its minimum, {where}: fails"
                yield Row(case, scale, name_data(world), failed / runs, runs, high=0.05)


def make_sides(moved: Array, counts: NDArray[np.int64], scale: tuple[float, float], before: float) -> Sides:
    """Pairs of which each dialogue's change is given, its turns all alike; the baseline's ratings are all `before`."""
    clusters = np.repeat(np.arange(len(moved)), counts)
    baseline = np.full(len(clusters), before)
    after = np.clip(baseline + np.repeat(moved, counts), *scale)
    return Sides(baseline, after, True, (clusters, clusters), (baseline, after), bounds=scale)


def find_worse(sides: Sides) -> bool:
    """Whether the comparison of this measure alone finds the candidate worse."""
    if not sides.testable or sides.weighed.mean >= 0:
        return False
    return float(find_p(sides, ALPHA, np.random.default_rng(0), ALPHA)["p"]) < ALPHA


def judge_few(runs: int) -> Iterator[Row]:
    """Equal means of few dialogues whose changes are skewed, with turns that all change alike, sizes equal or not; and
    no difference at all at the ceiling."""
    for dialogues in (6, 10, 20, 40):
        for noise, unequal in ((0.0, False), (0.1, False), (0.3, False), (0.0, True)):
            generator, found = np.random.default_rng(21), 0
            for _ in range(runs):
                moved = np.where(generator.random(dialogues) < 0.9, -0.2, 1.8)
                moved = moved + noise * generator.standard_normal(dialogues)
                counts = generator.integers(2, 19, dialogues) if unequal else np.full(dialogues, 10)
                found += find_worse(make_sides(moved, counts, (1.0, 5.0), 3.0))
            size = "2 to 18 turns" if unequal else "10 turns"
            data = f"{dialogues} dialogues of {size}, −0.2 in 90%, +1.8 in 10%" + (f", sd {noise:g}" if noise else "")
            yield Row("equal means, whole dialogues: worse", "1–5", data, found / runs, runs, high=0.06)
        world, generator, found = World(AT_END["1–5"], dialogues, 10, 0.3), np.random.default_rng(22), 0
        for _ in range(runs):
            before, after = (own[:, 0] for own in world.draw(generator))
            clusters = (world.clusters, world.clusters)
            found += find_worse(Sides(before, after, True, clusters, (before, after), bounds=world.scale))
        data = f"{name_data(world)}, nine tenths at the upper end"
        yield Row("nothing changed: worse", "1–5", data, found / runs, runs, high=0.06)


def judge_collapses(runs: int) -> Iterator[Row]:
    """Gates that pass where five of forty dialogues have fallen from 5 to 1, others moving a little or not."""
    rule = GateRule(aspect="a0", max_drop=0.1)
    for wobble in (0.0, 0.05, 0.2):
        generator, passed, world = np.random.default_rng(23), 0, World((0.2,) * 5, 40, 10)
        for _ in range(runs):
            moved = np.where(np.arange(400) < 50, -4.0, -1.0 * (generator.random(400) < wobble))[:, None]
            runs_of = (
                make_run("a", np.full((400, 1), 5.0) + moved, world),
                make_run("b", np.full((400, 1), 5.0), world),
            )
            passed += judge_gate(*runs_of, [rule], alpha=ALPHA).verdict == "pass"
        data = "40 dialogues × 10 turns" + (f", {wobble:.0%} of the other turns fall by 1" if wobble else "")
        yield Row("five of forty collapse from 5 to 1: passes", "1–5", data, passed / runs, runs, high=0.0)


def judge_still(runs: int) -> Iterator[Row]:
    """Gates that pass a true rise of findings of which the sample shows none."""
    for talks in (10, 30, 60, 100):
        generator, passed = np.random.default_rng(24), 0
        for _ in range(runs):
            rates = np.where(generator.random((talks, 1)) < 0.05, -100.0, 0.0)
            world = World((0.5, 0.5), talks)
            before, after = (
                make_run(name, own, world, (-100.0, 0.0)) for name, own in (("b", rates * 0), ("a", rates))
            )
            rule = GateRule(aspect="a0", max_drop=0, must_detect=5)
            passed += judge_gate(after, before, [rule], alpha=ALPHA).verdict == "pass"
        data = f"{talks} conversations, one in twenty with all turns faulty"
        yield Row("findings rise by 5 per 100: passes", "0–100", data, passed / runs, runs, high=0.05)


def judge_stated(runs: int) -> Iterator[Row]:
    """How often a true drop is found that is as large as what the comparison of another sample states."""
    for dialogues, share in ((20, 0.4), (40, 0.2), (100, 0.1), (400, 0.02)):
        generator, given, found = np.random.default_rng(25), 0, 0
        for _ in range(runs):
            first = draw_collapse(dialogues, share, generator)
            stated = test_difference(first, alpha=ALPHA, tests=1, generator=generator)[0]["smallest_detectable"]
            if stated is not None:
                given += 1
                found += find_worse(draw_collapse(dialogues, stated / 4, generator))
        note = f"stated in {given / runs:.3f}"
        data = f"{dialogues} dialogues × 10 turns, {share:.0%} fall from 5 to 1"
        yield Row("stated detectable drop: found", "1–5", data, found / max(1, given), given, 0.76, 0.84, note)
    for where, every in (("middle", MIDDLE), ("nine tenths at the upper end", AT_END)):
        for scale, shares in every.items():
            for dialogues, turns, alike in ((20, 1, 0.0), (40, 1, 0.0), (200, 1, 0.0), (20, 10, 0.2), (40, 5, 0.5)):
                share, given = count_stated(World(shares, dialogues, turns, alike), runs)
                world = World(shares, dialogues, turns, alike)
                data, note = f"{name_data(world)}, {where}", f"stated in {given / runs:.3f}"
                yield Row("stated detectable drop: found", scale, data, share, max(1, given), 0.76, 0.84, note)


def draw_collapse(dialogues: int, share: float, generator: np.random.Generator) -> Sides:
    """All 5, of which a share of the dialogues falls to 1."""
    moved = np.where(generator.random(dialogues) < share, -4.0, 0.0)
    return make_sides(moved, np.full(dialogues, 10), (1.0, 5.0), 5.0)


def count_stated(world: World, runs: int) -> tuple[float, int]:
    """How often the stated drop is found, and how often one is stated that the world can have."""
    generator, given, found = np.random.default_rng(26), 0, 0
    shifts = np.linspace(0, 3.5, 200)
    drops = [world.find_mean() - world.find_mean(float(shift)) for shift in shifts]
    for _ in range(runs):
        first, stated = draw_sides(world, generator), None
        stated = test_difference(first, alpha=ALPHA, tests=1, generator=generator)[0]["smallest_detectable"]
        if stated is not None and stated < drops[-1]:
            given += 1
            shifted = replace(world, shift=float(np.interp(stated, drops, shifts)))
            found += find_worse(draw_sides(shifted, generator))
    return found / max(1, given), given


def draw_sides(world: World, generator: np.random.Generator) -> Sides:
    """Both runs' ratings of one aspect."""
    before, after = (own[:, 0] for own in world.draw(generator))
    return Sides(before, after, True, (world.clusters, world.clusters), (before, after), bounds=world.scale)


def judge_rates(runs: int) -> Iterator[Row]:
    """How often intervals of finding rates of 2 per 100 turns hold them, and those of their difference hold 0."""
    for name, share, rate in (
        ("4% of the conversations with half their turns", 0.04, 0.5),
        ("2% with all turns", 0.02, 1.0),
        ("10% with a fifth", 0.1, 0.2),
        ("any turn alike", 1.0, 0.02),
    ):
        for talks in (20, 50, 200):
            generator, given, held, apart, inside = np.random.default_rng(27), 0, 0, 0, 0
            for _ in range(runs):
                turns = generator.integers(4, 17, talks)
                faulty = [generator.binomial(turns, rate * (generator.random(talks) < share)) for _ in range(2)]
                sums, counts = np.asarray(100 * faulty[0], np.float64), turns.astype(np.float64)
                interval = estimate_rate(sums, counts, bounds=(0.0, 100.0)).interval
                if interval is not None:
                    given += 1
                    held += interval[0] <= 2.0 <= interval[1]
                before, after = (-100.0 * own / turns for own in faulty)
                numbers = np.arange(talks)
                sides = Sides(before, after, True, (numbers, numbers), (before, after), bounds=(-100.0, 0.0))
                interval = estimate_difference(sides, ALPHA).interval
                if interval is not None:
                    apart += 1
                    inside += interval[0] <= 0 <= interval[1]
            data = f"{talks} conversations of 4 to 16 turns, {name}"
            yield Row("interval of a finding rate: holds it", "0–100", data, held / max(1, given), given, low=0.93)
            share_held = inside / max(1, apart)
            yield Row("interval of its difference: holds it", "0–100", data, share_held, max(1, apart), low=0.93)


PARTS: Sequence[Callable[[int], Iterator[Row]]] = (
    judge_no_change,
    judge_other_dialogues,
    judge_skewed,
    judge_drop,
    judge_detectable,
    judge_minimum,
    judge_intervals,
    judge_few,
    judge_collapses,
    judge_still,
    judge_stated,
    judge_rates,
)


def simulate(runs: int, only: Sequence[str] = ()) -> Iterator[Row]:
    """Every row, or those of the parts named."""
    for part in PARTS:
        if not only or part.__name__ in only:
            yield from part(runs)


def write_row(row: Row) -> str:
    """A row of the table in Markdown."""
    mark = "" if row.holds else " **no**"
    cells = (row.case, row.scale, row.data, f"{row.share:.3f}{mark}", row.required, row.note)
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table. Exits with 1 where a row misses what is required by more than two standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs a case")
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--only", nargs="*", default=(), metavar="PART", help="such as judge_few")
    options = parser.parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    print(f"{runs:,} runs a case, alpha {ALPHA}\n", flush=True)
    print("| case | scale | data | share | required | |\n|---|---|---|---|---|---|", flush=True)
    rows = []
    for row in simulate(runs, options.only):
        rows.append(row)
        print(write_row(row), flush=True)
    if options.json is not None:
        told = [{**asdict(row), "required": row.required, "holds": row.holds} for row in rows]
        options.json.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
