"""What a rule of the gate finds: it held, it failed, or the data cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log2, sqrt
from typing import Literal

from scipy import stats

from app.analysis.differences import find_least_p, reach
from app.analysis.observations import Floats
from app.domain.comparison import GateRule, GateVerdict, Measure

Code = Literal["drop", "below-minimum", "not-enough-data", "no-values", "held"]


@dataclass(frozen=True)
class Finding:
    """What one check of a rule found, in one clause with its figures."""

    code: Code
    verdict: GateVerdict
    detail: str


@dataclass(frozen=True)
class Drop:
    """A measure whose drop is to be judged. `p` is adjusted by Holm over the `tests` measures that have such a rule.

    `must_detect` is the drop that the data must be able to show, in scale points; `step` is what one value drops by.
    """

    measure: Measure
    p: float | None
    tests: int
    alpha: float
    tolerated: float
    must_detect: float
    step: float = 1.0

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < self.alpha

    @property
    def size(self) -> float:
        """Baseline mean minus candidate mean."""
        return -(self.measure.difference or 0.0)

    @property
    def worse(self) -> bool:
        return self.significant and self.size > 0 and self.measure.ranks_favour == "baseline"

    @property
    def better(self) -> bool:
        return self.significant and self.size < 0 and self.measure.ranks_favour == "candidate"

    @property
    def detectable(self) -> float | None:
        """The smallest drop shown with 80 % power, at the level that the first of Holm's steps leaves to each test."""
        found = self.measure.smallest_detectable
        return None if found is None else found * reach(self.alpha / self.tests) / reach(self.alpha)

    @property
    def changing(self) -> float:
        """The share of pairs that differ at least where the mean drops by `must_detect`: Wilcoxon's test sees no more
        than these, and what has hardly changed yet shows too small a spread to judge by."""
        return min(1.0, self.must_detect / self.step)

    @property
    def possible(self) -> bool:
        """Whether such a drop can be significant at all at the level that Holm's first step leaves."""
        measure = self.measure
        if measure.test == "wilcoxon":
            least = find_least_p(floor(measure.n * self.changing))
        else:
            least = find_least_p(measure.n_baseline, measure.n_candidate)
        return least < self.alpha / self.tests


def judge_drop(drop: Drop) -> Finding:
    """Whether the measure fell by more than is tolerated."""
    measure = drop.measure
    if measure.difference is None:
        return Finding("no-values", "inconclusive", "there are no values in both runs to compare")
    figures = tell_change(drop)
    if drop.worse:
        if drop.size > drop.tolerated:
            return Finding("drop", "fail", f"{figures}: more than the {drop.tolerated:g} tolerated")
        return Finding("held", "pass", f"{figures}: significant, but within the {drop.tolerated:g} tolerated")
    if stands_still(measure):
        return Finding("held", "pass", f"no value differs between the runs ({tell_size(measure)})")
    if drop.better:
        return Finding("held", "pass", f"{figures}: better")
    return weigh_evidence(drop, figures)


def weigh_evidence(drop: Drop, figures: str) -> Finding:
    """No significant change: that means something only where a drop that matters would have been seen."""
    aim, detectable = f"{drop.must_detect:g}", drop.detectable
    if not drop.possible:
        return lack(f"{figures}: not significant, which a drop of {aim} could not be; {tell_fewest(drop)}")
    if detectable is None:
        why = drop.measure.undefined.get("smallest_detectable", "the smallest detectable drop is not known")
        return lack(f"{figures}: not significant; {why}")
    seen = f"{figures}: no significant drop; one of {detectable:.3f} would have been seen with 80 % power"
    if detectable > drop.must_detect:
        needed = ceil(drop.measure.n * (detectable / drop.must_detect) ** 2)
        return lack(f"{seen}, and {aim} must be: about {needed:,} items{where(drop.measure)} would do")
    if drop.size > drop.must_detect:
        return lack(f"{figures}: not significant by ranks, though more than the {aim} that must be seen")
    return Finding("held", "pass", seen)


def lack(detail: str) -> Finding:
    """The data cannot tell."""
    return Finding("not-enough-data", "inconclusive", detail)


def tell_fewest(drop: Drop) -> str:
    """How many items it takes for such a drop to be significant: all signs of the pairs that differ may be equal."""
    if drop.measure.test != "wilcoxon":
        return f"more items{where(drop.measure)} are needed"
    fewest = floor(1 + log2(drop.tests / drop.alpha)) + 1
    return f"about {ceil(fewest / drop.changing):,} items are the fewest"


def where(measure: Measure) -> str:
    """Of which run."""
    return "" if measure.test == "wilcoxon" else " in each run"


def stands_still(measure: Measure) -> bool:
    """Whether there are values and none differs: in no pair, or, unpaired, in neither run."""
    if measure.wins is not None:
        return measure.n > 0 and measure.wins.a_wins.wins == measure.wins.b_wins.wins == 0
    return measure.p == 1 and measure.smallest_detectable is None and measure.difference == 0


def tell_change(drop: Drop) -> str:
    """The change with its interval, p and n."""
    measure = drop.measure
    word = "fell" if drop.size > 0 else "rose" if drop.size < 0 else "changed"
    interval = measure.interval
    level = f"{100 * (1 - drop.alpha):g} % interval of the difference"
    within = f"; {level} {interval[0]:+.3f} to {interval[1]:+.3f}" if interval is not None else ""
    p = f"; {tell_p(drop.p)} after Holm over {drop.tests}" if drop.p is not None else ""
    means = f"from {measure.baseline_mean:.3f} to {measure.candidate_mean:.3f}"
    return f"{word} by {abs(drop.size):.3f} ({means}{within}{p}; {tell_size(measure)})"


def tell_size(measure: Measure) -> str:
    """How many values there are."""
    if measure.test == "wilcoxon":
        return f"{measure.n:,} {'pair' if measure.n == 1 else 'pairs'}"
    return f"{measure.n_baseline:,} against {measure.n_candidate:,} items, unpaired"


def tell_p(p: float) -> str:
    """A probability in few digits."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def judge_minimum(values: Floats, minimum: float, alpha: float) -> Finding:
    """Whether the mean of the candidate's values reaches the minimum; below it only beyond chance counts as failed.

    Chance is the t-interval of the mean at 1 − alpha. Where all values are equal there is nothing but their value.
    """
    if not len(values):
        return Finding("no-values", "inconclusive", "there are no values")
    n, mean = len(values), float(values.mean())
    figures = f"the mean is {mean:.3f} ({n:,} {'value' if n == 1 else 'values'}), at least {minimum:g} is asked for"
    if mean >= minimum:
        return Finding("held", "pass", figures)
    if n == 1:
        return Finding("not-enough-data", "inconclusive", f"{figures}; one value shows nothing of chance")
    margin = float(stats.t.ppf(1 - alpha / 2, n - 1)) * float(values.std(ddof=1)) / sqrt(n)
    told = f"{figures}; the {100 * (1 - alpha):g} % interval reaches {mean + margin:.3f}"
    if mean + margin < minimum:
        return Finding("below-minimum", "fail", told)
    return Finding("not-enough-data", "inconclusive", told)


def join(findings: list[Finding]) -> Finding:
    """A rule's checks as one: the worst decides, each is told."""
    order: dict[GateVerdict, int] = {"fail": 0, "inconclusive": 1, "pass": 2}
    ranked = sorted(findings, key=lambda finding: order[finding.verdict])
    return Finding(ranked[0].code, ranked[0].verdict, "; ".join(finding.detail for finding in ranked))


def describe_rule(rule: GateRule) -> str:
    """The rule in a few words: `max_drop 0.1, min_mean 2`."""
    asked = {"max_drop": rule.max_drop, "min_mean": rule.min_mean}
    return ", ".join(f"{name} {value:g}" for name, value in asked.items() if value is not None)
