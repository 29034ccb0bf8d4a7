"""How often rankings are wrong, how often intervals hold the truth, and what active choice saves: simulated looks.

    python -m benchmarks.rankings                    # 400 runs a case, some 40 minutes
    python -m benchmarks.rankings --runs 2000        # as the method asks, some hours
    python -m benchmarks.rankings --quick            # 20 runs a case: does everything run?
    python -m benchmarks.rankings --only judge_choice

Each look follows Davidson's model exactly, and what looks at one prompt share (how well each system answers it) is a
Gaussian copula, so that the strengths are known. Systems come in pairs of equal strength: a resolved pair of these is
wrong, whichever is called better. `position` is by how much more than half the first of two equals is preferred.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import log, sqrt
from typing import Any

import numpy as np

from saiten_server.stats.active_choice import PairStanding, SystemNumbers, allocate, plan_round, take_stock
from saiten_server.stats.corrected_ranks import correct_ranks
from saiten_server.stats.rank_sets import RankSets, estimate_share, rank_systems, share_preferred
from saiten_server.stats.resampling import find_quantile
from saiten_server.stats.sequences import spend
from saiten_server.stats.shown_pairs import ShownPairs
from saiten_server.stats.strengths import estimate_strengths
from tests.support.preferences import PreferenceWorld, draw_pairs, make_pairs

ALPHA = 0.05
RUNS, QUICK_RUNS = 400, 20


@dataclass(frozen=True)
class Row:
    """A case with its figure, of so many runs, and the ends that it must lie within."""

    case: str
    data: str
    figure: float
    runs: int
    low: float | None = None
    high: float | None = None
    share: bool = True
    note: str = ""

    @property
    def required(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"≥ {self.low:g}" if self.low is not None else f"≤ {self.high:g}" if self.high is not None else ""

    @property
    def holds(self) -> bool:
        """Whether it is within the ends but for two standard errors of so many runs."""
        slack = 2 * sqrt(max(self.figure * (1 - self.figure), 0.0) / self.runs) if self.share else 0.0
        above = self.low is None or self.figure >= self.low - slack
        return above and (self.high is None or self.figure <= self.high + slack)


def make_world(systems: int, alike: float = 0.3, position: float = 0.15, ties: float = 0.3) -> PreferenceWorld:
    """Pairs of equal systems, from −0.9 to 0.9 log odds."""
    strengths = np.repeat(np.linspace(-0.9, 0.9, systems // 2), 2)
    odds = log((0.5 + position) / (0.5 - position))
    return PreferenceWorld(tuple(strengths.tolist()), odds, 2 * ties / (1 - ties), alike)


def name_world(world: PreferenceWorld, prompts: int) -> str:
    """What the case's data are."""
    ties, position = world.nu / (2 + world.nu), 1 / (1 + np.exp(-world.position)) - 0.5
    size = f"{world.systems} systems, {prompts} prompts"
    return f"{size}, correlation {world.alike:g}, position {position:.2g}, ties {ties:.2g}"


def is_wrong(sets: RankSets, truth: np.ndarray) -> bool:
    """Whether a resolved pair is not so."""
    return bool(np.any(sets.better & (truth[:, None] <= truth[None, :] + 1e-12)))


def judge_rankings(runs: int) -> Iterator[Row]:
    """Coverage, wrong resolved pairs, and whether the best are tied with the best."""
    cells = product((4, 12), (50, 200, 1000), (0.0, 0.3), (0.0, 0.15), (0.0, 0.3))
    for number, (systems, prompts, alike, position, ties) in enumerate(cells):
        world = make_world(systems, alike, position, ties)
        rng, inside, wrong, best, told = np.random.default_rng([1, number]), 0.0, 0, 0, 0.0
        differs = world.truth[:, None] > world.truth[None, :] + 1e-12
        # The largest cells take a tenth of a second a run.
        own = runs if systems * prompts < 10_000 else max(10, runs // 2)
        for _ in range(own):
            sets = rank_systems(draw_pairs(world, prompts, rng), alpha=ALPHA)
            margins = np.array([find_quantile(freedom, ALPHA) for freedom in sets.freedom]) * sets.errors
            inside += float(np.mean(np.abs(sets.strengths - world.truth) <= margins))
            wrong += is_wrong(sets, world.truth)
            best += bool(sets.tied_with_best[-1]) and bool(sets.tied_with_best[-2])
            told += float(np.mean(sets.better[differs]))
        data = name_world(world, prompts)
        yield Row("95% interval of a strength holds it", data, inside / own, own, 0.93, 0.97)
        yield Row("a resolved pair is wrong", data, wrong / own, own, high=ALPHA)
        yield Row("both best are tied with the best", data, best / own, own, low=1 - ALPHA)
        yield Row("a pair that differs is resolved", data, told / own, own, share=False)


def judge_sparse(runs: int) -> Iterator[Row]:
    """One order drawn at random, and few pairs on each prompt, in dialogues of several prompts."""
    for systems, prompts in product((4, 12), (60, 300)):
        world = make_world(systems)
        rng, inside, wrong = np.random.default_rng(2), 0.0, 0
        for _ in range(runs):
            pairs = draw_pairs(world, prompts, rng)
            kept = pairs.within(rng.random(pairs.n) < 4 / systems / (systems - 1))
            sets = rank_systems(kept, alpha=ALPHA)
            held = ~np.isnan(sets.strengths)
            margins = np.array([find_quantile(max(1.0, one), ALPHA) for one in sets.freedom]) * sets.errors
            inside += float(np.mean((np.abs(sets.strengths - world.truth) <= margins)[held]))
            wrong += is_wrong(sets, world.truth)
        data = name_world(world, prompts) + "; four looks a prompt on average"
        yield Row("95% interval of a strength holds it", data, inside / runs, runs, 0.93, 0.97)
        yield Row("a resolved pair is wrong", data, wrong / runs, runs, high=ALPHA)


def judge_bootstrap(runs: int) -> Iterator[Row]:
    """The sandwich's errors beside the cluster bootstrap's."""
    for systems, prompts in product((4, 12), (50, 200)):
        world, rng = make_world(systems), np.random.default_rng(3)
        ratios = []
        for _ in range(max(2, runs // 100)):
            pairs = draw_pairs(world, prompts, rng)
            drawn = []
            for _ in range(200):
                times = np.bincount(rng.integers(0, prompts, prompts), minlength=prompts).astype(float)
                drawn.append(estimate_strengths(pairs, weights=times[pairs.cluster]).values)
            ratios.append(estimate_strengths(pairs).errors / np.std(drawn, axis=0))
        figure = float(np.mean(ratios))
        yield Row("error by sandwich ÷ by bootstrap", name_world(world, prompts), figure, runs, 0.95, 1.07, share=False)


def judge_length(runs: int) -> Iterator[Row]:
    """How far a system whose answers are padded, and nothing else, moves against the others."""
    for strength, form in product((0.5, 1.5), ("bounded", "logarithm")):
        world, rng = make_world(4), np.random.default_rng(4)
        moved, plain = [], []
        for _ in range(runs):
            shares = []
            prompts = 300
            base = np.exp(rng.normal(5, 0.5, (prompts, 1)) + rng.normal(0, 0.3, (prompts, 4)))
            quality, seed = rng.normal(size=(prompts, 4)), int(rng.integers(2**31))
            for padding in (1.0, 1.5):
                lengths = base * np.array([1.0, padding, 1.0, 1.0])
                pairs = draw_padded(world, quality, lengths, np.random.default_rng(seed), liking=strength, form=form)
                shares.append([measure_padded(one) for one in (pairs, pairs.without_covariates())])
            moved.append(shares[1][0] - shares[0][0])
            plain.append(shares[1][1] - shares[0][1])
        data = f"4 systems, 300 prompts, one half longer; the judge's liking for length {strength:g}, {form}"
        note = f"without control {np.mean(plain):+.3f}"
        figure = abs(float(np.mean(moved)))
        yield Row("padding moves the win probability by", data, figure, runs, high=0.01, share=False, note=note)


def draw_padded(
    world: PreferenceWorld,
    quality: np.ndarray,
    lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    liking: float,
    form: str,
) -> ShownPairs:
    """All pairs in both orders, by a judge who likes length."""
    from saiten_server.preferences.rankings.columns import LENGTH, scale_lengths

    prompts, systems = lengths.shape
    orders = np.array([pair for pair in product(range(systems), repeat=2) if pair[0] != pair[1]])
    first, second = np.tile(orders, (prompts, 1)).T
    prompt = np.repeat(np.arange(prompts), len(orders))
    differences = lengths[prompt, first] - lengths[prompt, second]
    ratio = np.log(lengths[prompt, first] / lengths[prompt, second])
    added = liking * (np.tanh(differences / 100) if form == "bounded" else ratio)
    choice = world.answer(quality, prompt, first, second, rng, added)
    pairs = make_pairs(systems, first, second, choice, prompt)
    return replace(pairs, covariates={LENGTH: scale_lengths(differences)})


def measure_padded(pairs: ShownPairs) -> float:
    """The mean win probability of the second system against the others."""
    found = estimate_strengths(pairs)
    tie = None if found.tie is None else found.tie.value
    return float(np.mean([share_preferred((found.values[1], found.values[other]), tie) for other in (0, 2, 3)]))


class Judging:
    """Pairs judged round by round, in both orders."""

    def __init__(self, world: PreferenceWorld, prompts: int, rng: np.random.Generator) -> None:
        self.world, self.prompts, self.rng = world, prompts, rng
        self.quality = rng.normal(size=(prompts, world.systems))
        self.next = dict.fromkeys(combinations(range(world.systems), 2), 0)
        self.parts: list[tuple[np.ndarray, ...]] = []

    @property
    def pairs(self) -> ShownPairs:
        nothing = np.zeros(0, dtype=np.int64)
        columns = [np.concatenate(part) for part in zip(*self.parts, strict=True)] if self.parts else [nothing] * 4
        return make_pairs(self.world.systems, *columns)

    @property
    def left(self) -> dict[SystemNumbers, int]:
        return {pair: self.prompts - taken for pair, taken in self.next.items()}

    def judge(self, counts: dict[SystemNumbers, int]) -> None:
        """The next prompts of each pair."""
        for (one, other), count in counts.items():
            prompt = np.arange(self.next[one, other], self.next[one, other] + count)
            self.next[one, other] += count
            for first, second in ((one, other), (other, one)):
                places = np.full(count, first), np.full(count, second)
                self.parts.append((*places, self.world.answer(self.quality, prompt, *places, self.rng), prompt))


def choose_at_random(judging: Judging, size: int) -> dict[SystemNumbers, int]:
    """So many pairs, each as likely."""
    left = judging.left
    keys = [*left]
    pool = np.repeat(np.arange(len(keys)), [left[key] for key in keys])
    taken, counts = np.unique(judging.rng.choice(pool, min(size, len(pool)), replace=False), return_counts=True)
    return {keys[key]: int(count) for key, count in zip(taken, counts, strict=True)}


def run_rounds(
    world: PreferenceWorld, prompts: int, rng: np.random.Generator, *, active: bool
) -> tuple[int, int, bool]:
    """Pairs judged until all is resolved or nothing left; pairs unresolved; whether a resolved one is wrong."""
    judging, judged = Judging(world, prompts, rng), 0
    standing = PairStanding(0, frozenset(), tuple(judging.next))
    while standing.unresolved and sum(judging.left.values()):
        size = plan_round(world.systems, judged)
        counts = (
            allocate(judging.pairs, standing.unresolved, judging.left, size=size)
            if active
            else choose_at_random(judging, size)
        )
        judging.judge(counts)
        judged += sum(counts.values())
        standing = take_stock(judging.pairs, alpha=ALPHA, number=standing.round + 1, before=standing.resolved)
    wrong = any(world.truth[better] <= world.truth[worse] + 1e-12 for better, worse in standing.resolved)
    return judged, len(standing.unresolved), wrong


def list_spreads(systems: int) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Strengths that 1,000 prompts can tell apart: evenly spread, and growing apart towards the best."""
    steps = np.arange(systems)
    yield "even", tuple((0.35 * steps).tolist())
    yield "growing apart", tuple((0.25 * steps + 0.025 * steps**2).tolist())


def judge_choice(runs: int) -> Iterator[Row]:
    """Calls until all ranks are resolved, by active choice and at random; resolved pairs that are wrong then."""
    for systems in (4, 12):
        own = max(5, runs // 4) if systems == 12 else runs
        for name, strengths in list_spreads(systems):
            world = replace(make_world(systems), strengths=strengths)
            calls, errors = dict[bool, list[int]](), 0
            for active in (True, False):
                calls[active] = []
                for seed in range(own):
                    judged, _, wrong = run_rounds(world, 1000, np.random.default_rng([5, seed]), active=active)
                    calls[active].append(judged)
                    errors += int(active and wrong)
            saved = 1 - np.mean(calls[True]) / np.mean(calls[False])
            data = f"{systems} systems, {name}, up to 1,000 prompts a pair"
            note = f"{2 * np.mean(calls[True]):,.0f} calls, at random {2 * np.mean(calls[False]):,.0f}"
            yield Row("calls saved by active choice", data, float(saved), own, low=0.3, share=False, note=note)
            yield Row("stopped, a resolved pair is wrong", data, errors / own, own, high=ALPHA)
        twins = make_world(systems)
        failed = sum(run_rounds(twins, 100, np.random.default_rng([6, seed]), active=True)[2] for seed in range(own))
        yield Row("stopped, a resolved pair is wrong", name_world(twins, 100), failed / own, own, high=ALPHA)


def judge_gate(runs: int) -> Iterator[Row]:
    """Verdicts on two systems, once and looked at after each 25 prompts."""
    for strength, prompts, looks in product((0.0, -0.6), (50, 200), (False, True)):
        world = PreferenceWorld((0.0, strength), log(0.65 / 0.35), 0.857, 0.3)
        rng, failed, used = np.random.default_rng(7), 0, 0
        for _ in range(runs):
            pairs = draw_pairs(world, prompts, rng)
            ends = range(25, prompts + 1, 25) if looks else (prompts,)
            for number, end in enumerate(ends, start=1):
                seen = pairs.within(pairs.item < end)
                level = spend(ALPHA, number) if looks else ALPHA
                interval = estimate_share(seen, 1, alpha=level).interval
                if interval is not None and interval[1] < 0.5:
                    failed += 1
                    break
            used += end
        data = f"{prompts} prompts, " + ("a look after each 25" if looks else "one look")
        if strength:
            note = f"{used / runs:.0f} prompts on average"
            yield Row("loses by 0.6 log odds: gate fails", data, failed / runs, runs, note=note)
        else:
            yield Row("equal systems: gate fails", data, failed / runs, runs, high=ALPHA)


def judge_corrected(runs: int) -> Iterator[Row]:
    """Intervals of strengths on people's scale, by a judge who spreads systems out and likes some of them."""
    for systems, labels, alike in product((4, 12), (20, 50, 100), (0.3, 0.7)):
        own = runs if systems == 4 else max(10, runs // 2)
        people = replace(make_world(systems, alike, 0.05, 0.2))
        liked = np.array(people.strengths) * 1.3 + 0.3 * np.cos(3 * np.arange(systems))
        judge = replace(make_world(systems, alike), strengths=tuple(liked.tolist()))
        rng, inside, given, wrong, widths = np.random.default_rng(8), 0.0, 0, 0, []
        for _ in range(own):
            judged, said = draw_both(judge, people, 300, labels, rng)
            found = correct_ranks(judged, said, alpha=ALPHA)
            if found.sets is None:
                continue
            given += 1
            margins = np.array([find_quantile(one, ALPHA) for one in found.sets.freedom]) * found.sets.errors
            inside += float(np.mean(np.abs(found.sets.strengths - people.truth) <= margins))
            wrong += is_wrong(found.sets, people.truth)
            widths.append(float(found.sets.errors.mean() / estimate_strengths(said).errors.mean()))
        data = f"{systems} systems, people on {labels} of 300 prompts, agreement {alike:g}"
        note = f"given in {given / own:.0%}, {np.mean(widths):.2f} as wide as by people alone"
        yield Row("corrected interval holds it", data, inside / given, given, 0.93, 0.97, note=note)
        yield Row("corrected: a resolved pair is wrong", data, wrong / given, given, high=ALPHA)


def draw_both(
    judge: PreferenceWorld, people: PreferenceWorld, prompts: int, labels: int, rng: np.random.Generator
) -> tuple[ShownPairs, ShownPairs]:
    """The judge on all pairs in both orders, and one person on those of some prompts in one order; they agree in so far
    as prompts have something in common for both."""
    orders = np.array([pair for pair in product(range(judge.systems), repeat=2) if pair[0] != pair[1]])
    quality = rng.normal(size=(prompts, judge.systems))
    prompt = np.repeat(np.arange(prompts), len(orders))
    first, second = np.tile(orders, (prompts, 1)).T
    judged = make_pairs(judge.systems, first, second, judge.answer(quality, prompt, first, second, rng), prompt)
    pair = np.minimum(first, second) * judge.systems + np.maximum(first, second)
    ahead = rng.random((prompts, judge.systems**2)) < 0.5
    kept = (prompt < labels) & ((first < second) == ahead[prompt, pair])
    first, second, prompt = first[kept], second[kept], prompt[kept]
    said = make_pairs(judge.systems, first, second, people.answer(quality, prompt, first, second, rng), prompt)
    return judged, replace(said, rater=np.zeros(said.n, dtype=np.int64))


PARTS: Sequence[Callable[[int], Iterator[Row]]] = (
    judge_rankings,
    judge_sparse,
    judge_bootstrap,
    judge_length,
    judge_choice,
    judge_gate,
    judge_corrected,
)


def write_row(row: Row) -> str:
    """A row of the table in Markdown."""
    mark = "" if row.holds else " **no**"
    return f"| {' | '.join((row.case, row.data, f'{row.figure:.3f}{mark}', row.required, str(row.runs), row.note))} |"


def main(arguments: Sequence[str] | None = None) -> Any:
    """Prints the table. Exits with 1 where a row misses what is required by more than two standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs a case")
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--only", nargs="*", default=(), metavar="PART", help="such as judge_choice")
    options = parser.parse_args(arguments)
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    print("| case | data | figure | required | runs | |\n|---|---|---|---|---|---|", flush=True)
    rows = []
    for part in PARTS:
        for row in part(runs) if not options.only or part.__name__ in options.only else ():
            rows.append(row)
            print(write_row(row), flush=True)
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
