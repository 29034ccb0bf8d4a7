"""What the data say of a rule on drops: it held, it failed, or they cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Literal

from app.analysis.differences import find_least_p, reach
from app.analysis.statistics import count
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
    `same` says that the run is compared with itself.
    """

    measure: Measure
    p: float | None
    tests: int
    alpha: float
    tolerated: float
    must_detect: float
    step: float = 1.0
    same: bool = False

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
    def level(self) -> float:
        """What the first of Holm's steps leaves to each test."""
        return self.alpha / self.tests

    @property
    def detectable(self) -> float | None:
        """The smallest drop shown with 80 % power at that level; None where the values show no spread."""
        error = self.measure.standard_error
        return reach(self.level) * error if error else None

    @property
    def changing(self) -> float:
        """The share of pairs that differ at least where the mean drops by `must_detect`: Wilcoxon's test sees no more
        than these, and what has hardly changed yet shows too small a spread to judge by."""
        return min(1.0, self.must_detect / self.step)

    @property
    def possible(self) -> bool:
        """Whether such a drop can be significant at all."""
        return self.least_p(self.changing) < self.level

    def least_p(self, share: float = 1.0) -> float:
        """The smallest p that there can be where this share of the pairs differs."""
        measure = self.measure
        if measure.test == "wilcoxon":
            return find_least_p(floor(measure.n * share))
        return find_least_p(measure.n_baseline, measure.n_candidate)


def judge_drop(drop: Drop) -> Finding:
    """Whether the measure fell beyond chance, and as observed by more than is tolerated."""
    measure = drop.measure
    if measure.difference is None:
        return Finding("no-values", "inconclusive", "there are no values in both runs to compare")
    figures = tell_change(drop)
    if drop.worse:
        if drop.size > drop.tolerated:
            return Finding("drop", "fail", f"{figures}: beyond chance, and as observed more than {tolerance(drop)}")
        return Finding("held", "pass", f"{figures}: beyond chance, but as observed no more than {tolerance(drop)}")
    if stands_still(measure):
        return judge_standstill(drop)
    if drop.better:
        return Finding("held", "pass", f"{figures}: better")
    return weigh_evidence(drop, figures)


def tolerance(drop: Drop) -> str:
    """The drop that the rule lets pass."""
    return f"the {drop.tolerated:g} tolerated"


def judge_standstill(drop: Drop) -> Finding:
    """Nothing differs: that means something only where there are enough values for a drop of all to be significant."""
    runs = "the run and itself: baseline and candidate are the same" if drop.same else "the runs"
    told = f"{name_value(drop.measure)} differs between {runs} ({tell_size(drop.measure)}{tell_ratings(drop.measure)})"
    if drop.least_p() < drop.level:
        return Finding("held", "pass", told)
    return lack(f"{told}, but so few could not show a drop; {tell_fewest(drop, share=1.0)}")


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
        return lack(f"{seen}, and {aim} must be: about {count(needed, 'item')}{where(drop.measure)} would do")
    if drop.size > drop.must_detect:
        return lack(f"{figures}: not significant by ranks, though more than the {aim} that must be seen")
    return Finding("held", "pass", seen)


def lack(detail: str) -> Finding:
    """The data cannot tell."""
    return Finding("not-enough-data", "inconclusive", detail)


def tell_fewest(drop: Drop, share: float | None = None) -> str:
    """How many items it takes for such a drop to be significant: all signs of the pairs that differ may be equal."""
    if drop.measure.test != "wilcoxon":
        return f"more items{where(drop.measure)} are needed"
    fewest = floor(1 + log2(1 / drop.level)) + 1
    return f"about {count(ceil(fewest / (share or drop.changing)), 'item')} are the fewest"


def where(measure: Measure) -> str:
    """Of which run."""
    return "" if measure.test == "wilcoxon" else " in each run"


def stands_still(measure: Measure) -> bool:
    """Whether there are values and none differs: in no pair, or, unpaired, in neither run."""
    if measure.wins is not None:
        return measure.n > 0 and measure.wins.a_wins.wins == measure.wins.b_wins.wins == 0
    return measure.p == 1 and measure.standard_error == 0 and measure.difference == 0


def tell_change(drop: Drop) -> str:
    """The change with its interval, p and n."""
    measure = drop.measure
    word = "fell" if drop.size > 0 else "rose" if drop.size < 0 else "changed"
    interval = measure.interval
    level = f"{100 * (1 - drop.alpha):g} % interval of the difference"
    within = f"; {level} {interval[0]:+.3f} to {interval[1]:+.3f}" if interval is not None else ""
    p = f"; {tell_p(drop.p)} after Holm over {drop.tests}" if drop.p is not None else ""
    means = f"from {measure.baseline_mean:.3f} to {measure.candidate_mean:.3f}{tell_ratings(measure)}"
    return f"{word} by {abs(drop.size):.3f} ({means}{within}{p}; {tell_size(measure)})"


def name_value(measure: Measure) -> str:
    """What is compared."""
    return "no value" if measure.best is None else f"no value's distance from {measure.best:g}"


def tell_ratings(measure: Measure) -> str:
    """Where distances are compared, that they are, and the ratings' own means; else nothing."""
    before, after = measure.baseline_rating_mean, measure.candidate_rating_mean
    if measure.best is None or before is None or after is None:
        return ""
    return f", minus the distance from {measure.best:g}; mean rating {before:.3f} to {after:.3f}"


def tell_size(measure: Measure) -> str:
    """How many values there are."""
    if measure.test == "wilcoxon":
        return count(measure.n, "pair")
    return f"{measure.n_baseline:,} against {count(measure.n_candidate, 'item')}, unpaired"


def tell_p(p: float) -> str:
    """A probability in few digits."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def join(findings: list[Finding]) -> Finding:
    """A rule's checks as one: the worst decides, each is told."""
    order: dict[GateVerdict, int] = {"fail": 0, "inconclusive": 1, "pass": 2}
    ranked = sorted(findings, key=lambda finding: order[finding.verdict])
    return Finding(ranked[0].code, ranked[0].verdict, "; ".join(finding.detail for finding in ranked))


def describe_rule(rule: GateRule) -> str:
    """The rule in a few words: `max_drop 0.1, min_mean 2`."""
    asked = {"max_drop": rule.max_drop, "min_mean": rule.min_mean}
    return ", ".join(f"{name} {value:g}" for name, value in asked.items() if value is not None)
