"""How often the gate fails a system that is as good as before, and one that is worse: simulated CI runs.

    python -m benchmarks.gate                 # 1,000 CI runs a row, two or three minutes
    python -m benchmarks.gate --runs 200 --seed 1

Each CI run scores the same contexts with two systems, on six aspects with the scales of ja-dialogue. A rating is a
normal value cut into levels: part of it is the context's, shared by both systems, part is the system's own way with
that context, shared by its responses, part is the response's, shared by its aspects, part is noise. A drop lowers
single ratings by one level, as often as it takes to lower the mean by that much.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Beside, Figure, Report, at_most, finish, make_parser
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateReport, GateRule, PairingTest
from saiten_server.runs.frame import key_all, make_frame

SHARES: Mapping[str, Mapping[int, float]] = {
    "naturalness": {1: 0.1, 2: 0.3, 3: 0.6},
    "coherence": {0: 0.25, 1: 0.75},
    "interestingness": {1: 0.3, 2: 0.5, 3: 0.2},
    "relevance": {1: 0.15, 2: 0.35, 3: 0.5},
    "consistency": {0: 0.15, 1: 0.85},
    "overall": {1: 0.08, 2: 0.2, 3: 0.36, 4: 0.26, 5: 0.1},
}
"""How often each level of each aspect is given."""

SCALES = {aspect: (float(min(levels)), float(max(levels))) for aspect, levels in SHARES.items()}
SIGNATURE = "saiten:1|rubric:ja-dialogue@1|judge:simulated"
ALPHA = 0.05
RUNS, QUICK_RUNS = 1000, 20
TIMED, ROUNDS = 20, 3


@dataclass(frozen=True)
class Scenario:
    """One row: `drops` in scale points by aspect, `responses` to each item. `context`, `own` and `response` are the
    shares of a rating's variance that are the context's, the system's own with that context, and the response's; the
    rest is noise."""

    name: str
    items: int = 200
    test: PairingTest = "paired"
    drops: Mapping[str, float] = field(default_factory=dict)
    rules: Sequence[GateRule] = ()
    context: float = 0.7
    response: float = 0.15
    own: float = 0.0
    responses: int = 1


@dataclass(frozen=True)
class Outcome:
    """Of `runs` simulated CI runs, how many had each verdict. `sd` is that of the paired differences of overall."""

    scenario: Scenario
    runs: int
    verdicts: Counter[str]
    sd: float
    seconds: float

    @property
    def failed(self) -> float:
        """The share of runs that the gate failed."""
        return self.verdicts["fail"] / self.runs


OVERALL = (GateRule(aspect="overall", max_drop=0.0),)
AT_THEIR_MEAN = tuple(
    GateRule(aspect=aspect, min_mean=math.fsum(level * share for level, share in levels.items()))
    for aspect, levels in SHARES.items()
)
"""The minima that a system of these shares has exactly."""

ALL_DROP = dict.fromkeys(SHARES, 0.3)
SCENARIOS = (
    Scenario("no difference, paired"),
    Scenario("no difference, paired, aspects independent", response=0.0, context=0.0),
    Scenario("no difference, paired, one rule", rules=OVERALL),
    Scenario("no difference, paired", items=20),
    Scenario("no difference, 8 responses each", items=25, responses=8, context=0.4, own=0.3),
    Scenario("no difference, 8 responses each, one rule", items=25, responses=8, context=0.4, own=0.3, rules=OVERALL),
    Scenario("no difference, unpaired", test="unpaired"),
    Scenario("no difference, unpaired, 8 responses each", items=25, responses=8, context=0.4, own=0.3, test="unpaired"),
    Scenario("no difference, unpaired", test="unpaired", items=20),
    Scenario("overall drops by 0.3, six rules", drops={"overall": 0.3}),
    Scenario("overall drops by 0.3, one rule", drops={"overall": 0.3}, rules=OVERALL),
    Scenario("relevance drops by 0.3, six rules", drops={"relevance": 0.3}),
    Scenario("all aspects drop by 0.3, six rules", drops=ALL_DROP),
    Scenario("all aspects drop by 0.3, unpaired", drops=ALL_DROP, test="unpaired"),
    Scenario("all aspects drop by 0.3, six rules", drops=ALL_DROP, items=20),
    Scenario("exactly at six minima", rules=AT_THEIR_MEAN),
    Scenario("exactly at six minima", rules=AT_THEIR_MEAN, items=20),
)


def simulate(scenario: Scenario, runs: int, seed: int) -> Outcome:
    """So many CI runs of one scenario."""
    generator = np.random.default_rng(seed)
    started = time.perf_counter()
    verdicts: Counter[str] = Counter()
    spread = []
    for _ in range(runs):
        baseline, candidate = draw(scenario, generator)
        verdicts[judge(scenario, baseline, candidate).verdict] += 1
        differences = (candidate["overall"] - baseline["overall"]).reshape(scenario.items, -1).mean(axis=1)
        spread.append(np.std(differences, ddof=1))
    return Outcome(scenario, runs, verdicts, float(np.mean(spread)), time.perf_counter() - started)


def draw(scenario: Scenario, generator: np.random.Generator) -> Iterator[dict[str, NDArray[np.int64]]]:
    """The baseline's ratings by aspect, each of shape (items · responses,), item by item, then the candidate's."""
    items, aspects, rows = scenario.items, len(SHARES), scenario.items * scenario.responses
    shared = math.sqrt(scenario.context / 2)
    context = shared * generator.standard_normal((items, 1)) + shared * generator.standard_normal((items, aspects))
    noise = math.sqrt(1 - scenario.context - scenario.own - scenario.response)
    for drops in ({}, scenario.drops):
        own = math.sqrt(scenario.own) * generator.standard_normal((items, aspects))
        response = math.sqrt(scenario.response) * generator.standard_normal((rows, 1))
        values = np.repeat(context + own, scenario.responses, axis=0) + response
        values += noise * generator.standard_normal((rows, aspects))
        ratings = {aspect: cut(values[:, column], SHARES[aspect]) for column, aspect in enumerate(SHARES)}
        for aspect, size in drops.items():
            ratings[aspect] = lower(ratings[aspect], size, SHARES[aspect], generator)
        yield ratings


def cut(values: NDArray[np.float64], shares: Mapping[int, float]) -> NDArray[np.int64]:
    """Standard normal values as levels, each as often as its share says."""
    levels = np.array(list(shares))
    bounds = [NormalDist().inv_cdf(share) for share in np.cumsum(list(shares.values()))[:-1]]
    found: NDArray[np.int64] = levels[np.searchsorted(bounds, values)]
    return found


def lower(
    ratings: NDArray[np.int64], size: float, shares: Mapping[int, float], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Ratings lowered by one level, above the lowest, as often as lowers the expected mean by `size` points."""
    lowest = min(shares)
    chosen = generator.random(len(ratings)) < size / (1 - shares[lowest])
    found: NDArray[np.int64] = ratings - (chosen & (ratings > lowest))
    return found


def judge(
    scenario: Scenario, baseline: Mapping[str, NDArray[np.int64]], candidate: Mapping[str, NDArray[np.int64]]
) -> GateReport:
    """The gate's verdict on these ratings."""
    return judge_gate(
        make_run("candidate", candidate, scenario.responses),
        make_run("baseline", baseline, scenario.responses),
        scenario.rules,
        test=scenario.test,
    )


def make_run(name: str, ratings: Mapping[str, NDArray[np.int64]], responses: int = 1) -> ComparedRun:
    """The ratings as a complete run, so many in a row to one item."""
    count = len(next(iter(ratings.values())))
    frame = make_frame(
        count,
        {("aspect", aspect): column.astype(np.float64) for aspect, column in ratings.items()},
        items=key_all([str(number // responses) for number in range(count)]),
    )
    return ComparedRun(name, frame, count, {SIGNATURE: count}, SCALES, tuple(ratings))


def measure(report: Report, *, quick: bool = False) -> None:
    """The table, how often systems as good as before fail, and what one verdict takes."""
    tabulate(report, runs=QUICK_RUNS if quick else RUNS, seed=0)
    time_verdicts(report, rounds=1 if quick else ROUNDS)


def tabulate(report: Report, runs: int, seed: int) -> None:
    """A line each scenario; a figure each where a failure is a mistake."""
    report.say(f"gate at alpha {ALPHA}, {runs:,} simulated CI runs a row, six aspects; max_drop 0 but for minima")
    report.say(f"{'scenario':48}{'items':>6}{'sd':>6}{'fail':>8}{'inconcl.':>10}{'pass':>8}{'ms/run':>8}")
    allowed = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
    mistakes: dict[str, float] = {}
    for scenario in SCENARIOS:
        found = simulate(scenario, runs, seed)
        shares = [found.verdicts[verdict] / found.runs for verdict in ("fail", "inconclusive", "pass")]
        told = f"{shares[0]:8.1%}{shares[1]:10.1%}{shares[2]:8.1%}"
        milliseconds = 1000 * found.seconds / found.runs
        report.say(f"{scenario.name:48}{scenario.items:6}{found.sd:6.2f}{told}{milliseconds:8.1f}")
        if not scenario.drops:
            mistakes[f"{scenario.name}, {scenario.items} items"] = found.failed
    worst = max(mistakes, key=mistakes.__getitem__)
    report.add(
        Figure(
            "gate",
            "as good as before, and failed: the worst scenario",
            "share",
            mistakes[worst],
            limit=Beside("alpha", ALPHA),
            target=at_most(round(allowed, 4)),
            note=f"{worst}; three standard errors of {runs:,} runs above alpha",
            once=True,
        )
    )


def time_verdicts(report: Report, rounds: int) -> None:
    """Milliseconds of one verdict of the first scenario: 200 items, six rules, paired."""
    scenario = SCENARIOS[0]
    runs = [list(draw(scenario, np.random.default_rng(number))) for number in range(TIMED)]
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        for baseline, candidate in runs:
            judge(scenario, baseline, candidate)
        taken.append(1000 * (time.perf_counter() - started) / TIMED)
    report.add(Figure("gate", f"a verdict, {scenario.items} items, six rules", "ms", taken))


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, help=f"{RUNS:,} without")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    report = Report()
    tabulate(report, options.runs or (QUICK_RUNS if options.quick else RUNS), options.seed)
    time_verdicts(report, rounds=1 if options.quick else ROUNDS)
    finish(report, options)


if __name__ == "__main__":
    main()
