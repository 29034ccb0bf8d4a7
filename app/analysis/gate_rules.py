"""What the data say of a rule on drops: it held, it failed, or they cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log2
from typing import Literal

from app.analysis.differences import reach
from app.analysis.permutations import FEWEST_CLUSTERS, count_flips, find_least_p
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

    `must_detect` is the drop that the data must be able to show, in scale points; `step` is what one value drops by,
    `width` the scale's, None where values know none.
    `same` says that the run is compared with itself.
    """

    measure: Measure
    p: float | None
    tests: int
    alpha: float
    tolerated: float
    must_detect: float
    step: float = 1.0
    width: float | None = None
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
        return self.significant and self.size > 0

    @property
    def better(self) -> bool:
        return self.significant and self.size < 0

    @property
    def level(self) -> float:
        """What the first of Holm's steps leaves to each test."""
        return self.alpha / self.tests

    @property
    def detectable(self) -> float | None:
        """The smallest drop shown with 80 % power at that level; None where the values show no spread, or too much for
        any drop that the scale allows."""
        reached = self.reached
        return None if reached is None or (self.width is not None and reached > self.width) else reached

    @property
    def reached(self) -> float | None:
        """The same, though the scale were to allow no such drop."""
        error, freedom = self.measure.standard_error, self.measure.freedom
        if not error or freedom is None or self.least_p() >= self.level:
            return None
        return reach(self.level, freedom) * error

    @property
    def changing(self) -> float:
        """The share of pairs that differ at least where the mean drops by `must_detect`: the flips of others change
        nothing, and what has hardly changed yet shows too small a spread to judge by."""
        return min(1.0, self.must_detect / self.step)

    @property
    def turns(self) -> float:
        """Pairs to a dialogue, on average."""
        return self.measure.n / max(1, self.measure.clusters)

    @property
    def possible(self) -> bool:
        """Whether such a drop can be significant at all."""
        return self.least_p(self.changing) < self.level

    def least_p(self, share: float = 1.0) -> float:
        """The smallest p that there can be where this share of the pairs differs, whatever dialogues they are in."""
        measure, flips = self.measure, count_flips(self.level)
        if measure.clusters < FEWEST_CLUSTERS:
            return 1.0
        if measure.test == "sign-flip":
            differing = measure.clusters * float(1 - (1 - share) ** self.turns)
            return find_least_p(flips, floor(differing + 1e-9))
        return find_least_p(flips, measure.clusters_baseline, measure.clusters_candidate)

    def count_fewest(self, share: float) -> int:
        """How many items it takes for a drop in this share of them to be significant: all signs may be equal."""
        fewest = max(FEWEST_CLUSTERS, floor(1 + log2(1 / self.level)) + 1)
        touched = float(1 - (1 - share) ** self.turns)
        return ceil(fewest / touched * self.turns - 1e-9)


def judge_drop(drop: Drop) -> Finding:
    """Whether the measure fell beyond chance, and as observed by more than is tolerated."""
    measure = drop.measure
    if measure.difference is None:
        return Finding("no-values", "inconclusive", "there are no values in both runs to compare")
    figures = tell_change(drop)
    if drop.worse:
        if drop.size > drop.tolerated:
            told = f"{figures}: beyond chance, and as observed more than {tolerance(drop)}{tell_power(drop)}"
            return Finding("drop", "fail", told)
        told = f"{figures}: beyond chance, but as observed no more than {tolerance(drop)}{tell_power(drop)}"
        return Finding("held", "pass", told)
    if stands_still(measure):
        return judge_standstill(drop)
    if drop.better:
        return Finding("held", "pass", f"{figures}: better{tell_power(drop)}")
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
    aim, detectable = f"{drop.must_detect:g}", drop.reached
    if drop.p is None:
        return lack(f"{figures}: not tested; {drop.measure.undefined.get('p', 'there is no test')}")
    if not drop.possible:
        return lack(f"{figures}: not significant, which a drop of {aim} could not be; {tell_fewest(drop)}")
    if detectable is None:
        why = drop.measure.undefined.get("smallest_detectable", "the smallest detectable drop is not known")
        return lack(f"{figures}: not significant; {why}")
    seen = f"{figures}: no significant drop; one of {detectable:.3f} would have been seen with 80 % power"
    if drop.detectable is None:
        seen = f"{figures}: no significant drop; no drop that the scale allows is sure to be seen with such data"
    if detectable > drop.must_detect:
        needed = drop.measure.n * (detectable / drop.must_detect) ** 2
        return lack(f"{seen}, and {aim} must be: about {tell_needed(drop, needed)}{where(drop.measure)} would do")
    if drop.size > drop.must_detect:
        return lack(f"{figures}: not significant, though more than the {aim} that must be seen: too few items differ")
    return Finding("held", "pass", seen)


def lack(detail: str) -> Finding:
    """The data cannot tell."""
    return Finding("not-enough-data", "inconclusive", detail)


def tell_fewest(drop: Drop, share: float | None = None) -> str:
    """How many items it takes for such a drop to be significant: all signs of the pairs that differ may be equal."""
    if drop.measure.test != "sign-flip":
        return f"more items{where(drop.measure)} are needed"
    return f"about {tell_needed(drop, drop.count_fewest(share or drop.changing))} are the fewest"


def tell_needed(drop: Drop, items: float) -> str:
    """So many items, and in how many dialogues where several share one."""
    if drop.turns <= 1:
        return count(ceil(items), "item")
    return f"{count(ceil(items), 'item')} in {count(ceil(items / drop.turns), 'dialogue')}"


def tell_power(drop: Drop) -> str:
    """What these data could show, where that is known."""
    if drop.detectable is None:
        return ""
    return f"; a drop of {drop.detectable:.3f} would be seen with 80 % power"


def where(measure: Measure) -> str:
    """Of which run."""
    return "" if measure.test == "sign-flip" else " in each run"


def stands_still(measure: Measure) -> bool:
    """Whether there are values and none differs: in no pair, or, unpaired, in neither run."""
    if measure.wins is not None:
        return measure.n > 0 and measure.wins.a_wins.wins == measure.wins.b_wins.wins == 0
    return measure.cliffs_delta == 0 and measure.standard_error == 0 and measure.difference == 0


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
    """How many values there are, and in how many dialogues where several share one."""
    if measure.test == "sign-flip":
        within = f" in {count(measure.clusters, 'dialogue')}" if measure.clusters < measure.n else ""
        return count(measure.n, "pair") + within
    ours, theirs = measure.clusters_baseline, measure.clusters_candidate
    shared = ours < measure.n_baseline or theirs < measure.n_candidate
    within = f" in {ours:,} against {count(theirs, 'dialogue')}" if shared else ""
    return f"{measure.n_baseline:,} against {count(measure.n_candidate, 'item')}{within}, unpaired"


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
