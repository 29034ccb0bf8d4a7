"""The gate: which measures may not drop, which must reach a minimum, and the verdict for a CI job.

It fails only on what is significant, and passes only if a drop that matters would have been detected. Too little
coverage or a judge that moved make it inconclusive whatever the rules find.

A minimum needs care near the ends of a scale, where rare values may not have occurred yet: ten threes are what a mean
of 3.1 gives one time in three if one rating in ten is a four. The t interval excludes that. The interval is therefore
computed with a few values added at the end of the scale that speaks against the finding; if values belong to dialogues,
whole dialogues are added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor, hypot, isfinite, log2, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from saiten.core.figures import find_digits, write_figure
from saiten.core.messages import Message, Value
from saiten.core.wording import stands_still
from saiten_server.comparison.corrected_runs import judge_corrected
from saiten_server.comparison.differences import (
    TOO_WIDE,
    Sides,
    adjust_measures,
    compare_closely,
    cover,
    find_best,
    find_mean,
    find_reached,
    judge_measure,
    refuse_mixed,
    tell_contexts,
    unfold,
    with_faulty_turns,
)
from saiten_server.comparison.gate_plan import PlannedRule, plan_rules, point_name
from saiten_server.comparison.judge_checks.values import JudgeCheck
from saiten_server.comparison.links.rules import LinkedValues, LinkUse, weigh_responses
from saiten_server.comparison.pairing import ItemMeans, average_items, number_items
from saiten_server.comparison.values import (
    ChosenTest,
    ComparedRun,
    Comparison,
    CorrectedMeasure,
    EstimateKind,
    GateReason,
    GateReport,
    GateRule,
    GateVerdict,
    Measure,
)
from saiten_server.core.conversation import ANY_CODE, FINDING, KIND
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import Looks
from saiten_server.runs.summary import MeasureKey, flat_name
from saiten_server.stats import resampling
from saiten_server.stats.observations import Floats, Integers, weigh_inversely
from saiten_server.stats.phrases import (
    NEITHER_HAS_VALUES,
    NO_COMMON_VALUES,
    NO_VALUES,
    join_clauses,
    tell_adjusted,
    tell_count,
    tell_count_within,
    tell_ends,
    tell_why,
)
from saiten_server.stats.resampling import Clustered
from saiten_server.stats.severity import find_average
from saiten_server.stats.statistics import DECIMALS, reach

MIN_COVERAGE = 0.98

Share = tuple[int, int, str, str | None]
"""How many there are, of how many, of what, and of which measure if of one."""


def judge_gate(
    candidate: ComparedRun,
    baseline: ComparedRun | None,
    rules: Sequence[GateRule] | None = None,
    *,
    alpha: float = 0.05,
    min_coverage: float = MIN_COVERAGE,
    test: ChosenTest = "auto",
    allow_signature_mismatch: bool = False,
    seed: int = 0,
    judge: JudgeCheck | None = None,
    estimate: EstimateKind = "judge",
    looks: Looks = "once",
    link: LinkUse | None = None,
) -> GateReport:
    """The verdict on the candidate run. Without rules no aspect may drop against the baseline run. With the `estimate`
    `corrected` rules are judged on people's scale, by the ratings that the runs' items hold; `looks` says how often
    that is looked at while people go on rating.

    `min_coverage` is the share that must be there of each measure that a rule names, and of its pairs.
    `judge` is what a check of the judge found. `link` says that the baseline run is on another judge's scale. Raises
    InvalidRequest where there is nothing to judge by, UnknownAspect where a rule names what the run does not have, and
    what `compare` raises.
    """
    asked = plan_rules(rules, candidate, baseline)
    comparison: Comparison | None = None
    sides: Mapping[MeasureKey, Sides] = {}
    if baseline is not None:
        comparison, sides = compare_closely(
            baseline,
            candidate,
            alpha=alpha,
            test=test,
            allow_signature_mismatch=allow_signature_mismatch,
            seed=seed,
            link=link,
        )
    elif not allow_signature_mismatch:
        refuse_mixed(candidate)
    corrected: dict[str, CorrectedMeasure] = {}
    if estimate == "corrected":
        refuse_findings(asked)
        paired = comparison is not None and comparison.pairing.test == "paired"
        ruled, corrected = judge_corrected(asked, baseline, candidate, alpha=alpha, paired=paired, looks=looks)
    else:
        ruled = list(judge_rules(asked, candidate, comparison, alpha, sides, link=link))
        comparison = comparison and retell(comparison, asked, alpha, ruled)
    shares = list_shares(asked, candidate, baseline, comparison)
    covered = judge_coverage(shares, min_coverage, remarks=tell_differing(comparison))
    report = report_reasons(candidate, [*tell_judge(judge), covered, *ruled], alpha, min_coverage, measures_of(asked))
    return report.model_copy(
        update={
            "rules": tuple(one.rule for one in asked),
            "comparison": comparison,
            "estimate": estimate,
            "looks": looks,
            "corrected": corrected,
        }
    )


def report_reasons(
    run: ComparedRun, reasons: Sequence[GateReason], alpha: float, min_coverage: float, measures: Sequence[MeasureKey]
) -> GateReport:
    """The verdict by these reasons, without rules and a comparison. The coverage is over the measures."""
    return GateReport(
        verdict=conclude(reasons),
        reasons=tuple(sorted(reasons, key=order_of)),
        alpha=alpha,
        min_coverage=min_coverage,
        coverage=cover(run, measures),
        rules=(),
        comparison=None,
        candidate=run.name,
        signatures=dict(run.signatures),
    )


def refuse_findings(asked: Sequence[PlannedRule]) -> None:
    """Raises InvalidRequest for a rule on findings that people do not mark."""
    for one in asked:
        if one.rule.code not in {None, ANY_CODE}:
            detail = Message("findings-people-do-not-mark")
            raise InvalidRequest(detail, pointer=point_name(one.number, one.rule))


def tell_differing(comparison: Comparison | None) -> list[Message]:
    """What a coverage says of pairs whose contexts differ, if any do."""
    if comparison is None or not comparison.pairing.contexts_differ:
        return []
    return [tell_contexts(comparison.pairing)]


def tell_coverage(run: ComparedRun, check: JudgeCheck | None, *, alpha: float, min_coverage: float) -> GateReport:
    """A report without a comparison: whether every aspect has enough verdicts for a baseline."""
    measures: list[MeasureKey] = [("aspect", name) for name in run.aspects]
    covered = judge_coverage(share_verdicts(run, measures, "candidate"), min_coverage)
    return report_reasons(run, [*tell_judge(check), covered], alpha, min_coverage, measures)


def judge_again(report: GateReport, check: JudgeCheck) -> GateReport:
    """The report of `judge_gate` with the finding of a later check; the report must not have one yet."""
    reasons = [*tell_judge(check), *report.reasons]
    return report.model_copy(update={"verdict": conclude(reasons), "reasons": tuple(sorted(reasons, key=order_of))})


def measures_of(asked: Sequence[PlannedRule]) -> list[MeasureKey]:
    """The measures that rules name, each once."""
    return list(dict.fromkeys(one.key for one in asked))


def tell_judge(check: JudgeCheck | None) -> Iterator[GateReason]:
    """The finding of a check of the judge: a judge that moved is not a regression of the system."""
    if check is None:
        return
    if check.verdict == "moved":
        detail = Message("judge-moved", check=check.detail)
        yield GateReason(code="judge-moved", aspect=None, verdict="inconclusive", detail=detail, about="judge")
    else:
        yield GateReason(code="held", aspect=None, verdict="pass", detail=check.detail, about="judge")


def list_shares(
    asked: Sequence[PlannedRule], candidate: ComparedRun, baseline: ComparedRun | None, comparison: Comparison | None
) -> Iterator[Share]:
    """What must be covered. Where drops are judged this holds for the baseline run too: what it lacks may be just its
    worst."""
    yield from share_verdicts(candidate, measures_of(asked), "candidate")
    compared = [one for one in asked if one.rule.most is not None]
    if baseline is None or comparison is None or not compared:
        return
    yield from share_verdicts(baseline, measures_of(compared), "baseline")
    if comparison.pairing.test == "paired":

        def unfit(key: MeasureKey) -> int:
            return max(run.frame.inapplicable.get(key[1], 0) for run in (candidate, baseline))

        yield from share_pairs(comparison, measures_of(compared), unfit)


def share_verdicts(run: ComparedRun, measures: Sequence[MeasureKey], role: str) -> Iterator[Share]:
    """The run's verdicts over these measures, and where one has fewer than the others, those of the poorest."""
    covered = cover(run, measures)
    yield covered.rated, covered.expected, f"{role}-verdicts", None
    alone = {key: cover(run, [key]) for key in measures}
    poorest, fewest = min(alone.items(), key=lambda pair: pair[1].rated, default=(None, covered))
    if poorest is not None and fewest.rated * len(measures) < covered.rated:
        yield fewest.rated, fewest.expected, "fewest-verdicts", flat_name(poorest)


def share_pairs(
    comparison: Comparison, measures: Sequence[MeasureKey], unfit: Callable[[MeasureKey], int]
) -> Iterator[Share]:
    """Items in pairs, of the larger run's, and where a measure lacks values in some, its pairs with both. `unfit` is
    how many items a measure does not apply to."""
    pairing = comparison.pairing
    items = pairing.pairs + max(pairing.only_baseline, pairing.only_candidate)
    yield pairing.pairs, items, "items-in-pairs", None
    # What does not apply to an item counts as there.
    alone = {key: unfit(key) + (measure.n if (measure := find_measure(comparison, key)) else 0) for key in measures}
    poorest = min(alone, key=lambda key: alone[key], default=None)
    if poorest is not None and alone[poorest] < pairing.pairs:
        yield alone[poorest], items, "fewest-in-pairs", flat_name(poorest)


def judge_coverage(shares: Iterable[Share], minimum: float, *, remarks: Sequence[Message] = ()) -> GateReason:
    """Whether enough is there to speak of the whole. Where nothing is expected it is not."""
    counted = list(shares)
    enough = all(of and have / of >= minimum for have, of, _, _ in counted)
    told = [*itertools.starmap(tell_share, counted), Message("must-be-there", percent=100 * minimum), *remarks]
    return GateReason(
        code="held" if enough else "coverage",
        aspect=None,
        verdict="pass" if enough else "inconclusive",
        detail=join_clauses(told),
        about="coverage",
    )


def tell_share(have: int, of: int, what: str, measure: str | None) -> Message:
    """How many there are; without a percentage where nothing is expected."""
    named = {} if measure is None else {"measure": measure}
    if not of:
        return Message(f"{what}-of-none", have=have, of=of, **named)
    return Message(what, have=have, of=of, percent=100 * have / of, **named)


def judge_rules(
    asked: Sequence[PlannedRule],
    candidate: ComparedRun,
    comparison: Comparison | None,
    alpha: float,
    sides: Mapping[MeasureKey, Sides],
    *,
    link: LinkUse | None = None,
) -> Iterator[GateReason]:
    """One reason a rule. `sides` has the values of measures whose power is to be told by them."""
    drops = list_drops(asked, comparison, alpha, sides)
    minima = list_minima(asked, candidate, alpha, None if link is None else link.candidate)
    unlinked = comparison.link.refused if comparison is not None and comparison.link is not None else {}
    for one in asked:
        findings = []
        aspect = one.rule.aspect
        if one.number in drops and aspect is not None and aspect in unlinked:
            reason = Message("not-linked", aspect=aspect, reason=unlinked[aspect])
            findings.append(RuleFinding("no-values", "inconclusive", reason))
        elif one.number in drops:
            findings.append(judge_drop(drops[one.number]))
        elif one.rule.most is not None:
            findings.append(RuleFinding("no-values", "inconclusive", NEITHER_HAS_VALUES))
        if one.number in minima:
            findings.append(judge_minimum(minima[one.number]))
        yield tell_rule(one, findings, drops[one.number].detectable if one.number in drops else None)


def tell_rule(one: PlannedRule, findings: list[RuleFinding], detectable: float | None) -> GateReason:
    """The checks of a rule as a reason. `detectable` is the smallest drop that would be seen, or None."""
    found = join_checks(findings)
    return GateReason(
        code=found.code,
        aspect=one.rule.aspect,
        finding=one.rule.finding,
        measure=one.rule.measure,
        verdict=found.verdict,
        detail=found.detail,
        rule=one.number,
        detectable=detectable,
    )


def list_minima(
    asked: Sequence[PlannedRule], candidate: ComparedRun, alpha: float, linked: LinkedValues | None = None
) -> dict[int, Minimum]:
    """By number of the rule, what there is to judge its minimum by. The rules with one share alpha (Bonferroni).
    `linked` is what the error of the candidate run's link is computed from, where it has one."""
    wanted = [one for one in asked if one.rule.min_mean is not None]
    if not wanted:
        return {}
    means = average_items(candidate)
    clusters = number_items(means)
    found = {}
    for one in wanted:
        values, ratings = means.column(one.key), means.rating_column(one.key)
        held = ~np.isnan(values)
        if one.rule.min_mean is not None and one.scale is not None and one.shortfall is not None:
            found[one.number] = Minimum(
                values=values[held],
                clusters=clusters[held],
                weights=weigh_inversely(means.frame.probability[held]),
                least=one.rule.min_mean,
                scale=one.scale,
                alpha=alpha / len(wanted),
                shortfall=one.shortfall,
                best=find_best(one.key, candidate, candidate),
                ratings=find_mean(ratings[held], weigh_inversely(means.frame.probability[held])),
                link=None if linked is None else find_link_error(candidate, means, one.key, linked),
            )
    return found


def find_link_error(
    run: ComparedRun, means: ItemMeans, key: MeasureKey, linked: LinkedValues
) -> tuple[float, int] | None:
    """The link's standard error of the run's mean, and its degrees of freedom; None where the measure has no link."""
    made_of = linked.aspects_of(*key)
    if not made_of:
        return None
    held = (~np.isnan(run.frame.values[key])).astype(np.float64)
    weights = weigh_responses(means.row, held, np.flatnonzero(~np.isnan(means.column(key))))
    draws = linked.draw_means(*key, weights, find_best(key, run, run))
    return float(np.std(draws, ddof=1)), min(linked.freedom[one] for one in made_of)


def list_drops(
    asked: Sequence[PlannedRule], comparison: Comparison | None, alpha: float, sides: Mapping[MeasureKey, Sides]
) -> dict[int, Drop]:
    """By number of the rule, what there is to judge its drop by. Holm's adjustment is over the measures of these rules
    alone: what no rule asks about does not make the gate blinder."""
    if comparison is None:
        return {}
    compared = [one for one in asked if one.rule.most is not None]
    found, adjusted = adjust_ruled(compared, comparison)
    tests = sum(one is not None and one.p is not None and not stands_still(one) for one in found.values())
    return {
        one.number: Drop(
            measure=measure,
            p=adjusted[one.key],
            tests=max(1, tests),
            alpha=alpha,
            tolerated=one.rule.most,
            must_detect=max(one.must_detect, LEAST_SIZE),
            step=one.step,
            width=None if one.scale is None or one.key[0] == "blended" else one.scale[1] - one.scale[0],
            largest=None if one.scale is None else one.scale[1] - one.scale[0],
            same=comparison.baseline == comparison.candidate,
            sides=partial(sides.__getitem__, one.key) if one.key in sides else None,
            linked=comparison.link is not None,
        )
        for one in compared
        if (measure := found[one.key]) and one.rule.most is not None and one.must_detect is not None
    }


def adjust_ruled(
    compared: Sequence[PlannedRule], comparison: Comparison
) -> tuple[dict[MeasureKey, Measure | None], dict[MeasureKey, float | None]]:
    """The measures that these rules name, and their p by Holm over them alone."""
    found = {key: find_measure(comparison, key) for key in measures_of(compared)}
    return found, dict(zip(found, adjust_measures(found.values()), strict=True))


def retell(
    comparison: Comparison, asked: Sequence[PlannedRule], alpha: float, reasons: Iterable[GateReason]
) -> Comparison:
    """The comparison in which what a rule on drops names has the p of the rules, the verdict by it, and what the rule's
    reason says would be seen: the table below a gate's verdict says no other."""
    compared = [one for one in asked if one.rule.most is not None]
    found, adjusted = adjust_ruled(compared, comparison)
    told = {reason.rule: reason.detectable for reason in reasons}
    seen = {one.key: told.get(one.number) for one in compared}
    kinds: dict[str, dict[str, Measure]] = {}
    for (kind, name), measure in found.items():
        field, own = (f"{kind}s" if kind != "blended" else kind), name.removeprefix(FINDING).removeprefix(KIND)
        if measure is not None:
            p = adjusted[kind, name]
            # A rate of findings stands there as it is: less of them is better.
            turned = unfold(measure) if kind in {"finding", "kind"} else measure
            update = {
                "p_adjusted": p,
                "verdict": judge_measure(turned, p, alpha),
                **retell_power(measure, seen[kind, name]),
            }
            kinds.setdefault(field, dict(getattr(comparison, field)))[own] = measure.model_copy(update=update)
    return with_faulty_turns(comparison.model_copy(update=kinds))


def retell_power(measure: Measure, detectable: float | None) -> dict[str, Any]:
    """The smallest detectable difference as the rule has it, and why there is none."""
    name = "smallest_detectable"
    if detectable is None:
        return {name: None, "undefined": {name: TOO_WIDE, **measure.undefined}}
    return {name: detectable, "undefined": {key: why for key, why in measure.undefined.items() if key != name}}


def find_measure(comparison: Comparison, key: MeasureKey) -> Measure | None:
    """The measure in the comparison; None where neither run has it."""
    kind, name = key
    if kind == "finding":
        return comparison.findings.get(name.removeprefix(FINDING))
    if kind == "kind":
        return comparison.kinds.get(name.removeprefix(FINDING + KIND))
    by_kind = {"aspect": comparison.aspects, "composite": comparison.composites, "blended": comparison.blended}
    return by_kind[kind].get(name)


def conclude(reasons: Sequence[GateReason]) -> GateVerdict:
    """What the reasons amount to: without coverage, or with another judge, the rules decide nothing."""
    verdicts = {reason.verdict for reason in reasons}
    if any(reason.about != "rule" and reason.verdict == "inconclusive" for reason in reasons):
        return "inconclusive"
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"


def order_of(reason: GateReason) -> int:
    """The order of reasons: those that override the rules, then failures, inconclusive ones, and passes."""
    if reason.about != "rule" and reason.verdict != "pass":
        return 0
    return {"fail": 1, "inconclusive": 2, "pass": 3}[reason.verdict]


LEAST_SIZE = 1e-9
"""The smallest drop or shortfall that items are counted for: for less they would be more than can be told."""

FEWEST_TO_PLAN = 6
"""Dialogues from whose spread it is told how many more are needed; a comparison needs as many to find anything."""

Code = Literal["drop", "rise", "below-minimum", "not-enough-data", "no-values", "held"]


@dataclass(frozen=True)
class RuleFinding:
    """What one check of a rule found, in one clause with its figures."""

    code: Code
    verdict: GateVerdict
    detail: Message


@dataclass(frozen=True)
class Drop:
    """A measure whose drop is to be judged. `p` is adjusted by Holm over the `tests` measures that have such a rule.
    `must_detect` is the drop that the data must be able to show, in scale points; `step` is what one value drops by,
    `width` the scale's, None where values know none. `largest` is the largest drop that a rating's scale allows, None
    where it is not known. `same` says that the run is compared with itself. `sides` makes the values, None where their
    power is told by the standard error alone. `linked` says that this error holds a link's, which they do not tell."""

    measure: Measure
    p: float | None
    tests: int
    alpha: float
    tolerated: float
    must_detect: float
    step: float = 1.0
    width: float | None = None
    largest: float | None = None
    same: bool = False
    sides: Callable[[], Sides] | None = None
    linked: bool = False

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < self.alpha

    @property
    def size(self) -> float:
        """How much worse the candidate is: baseline mean minus candidate mean, of findings the other way round."""
        difference = self.measure.difference or 0.0
        return difference if self.rises else -difference

    @property
    def rises(self) -> bool:
        """Whether a rise is for the worse."""
        return self.measure.kind in {"finding", "kind"}

    @property
    def word(self) -> Literal["drop", "rise"]:
        """What a change for the worse is."""
        return "rise" if self.rises else "drop"

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
        """The smallest drop shown with 80% power at that level; None where the values show no spread, or too much for
        any drop that the scale allows."""
        reached = self.reached
        if reached is None or not isfinite(reached) or (self.width is not None and reached > self.width):
            return None
        return reached

    @cached_property
    def reached(self) -> float | None:
        """The same, though the scale were to allow no such drop; infinite where no such drop is found."""
        error, freedom = self.measure.standard_error, self.measure.freedom
        if not error or freedom is None or self.least_p() >= self.level:
            return None
        told = reach(self.level, freedom) * error
        if self.sides is None:
            return told
        if self.few_differ or self.measure.interval is None:
            return None
        found = find_reached(self.sides(), self.level)
        return max(found, told) if self.linked else found

    @property
    def few_differ(self) -> bool:
        """Whether so few dialogues differ that no test finds a drop in them."""
        return self.sides is not None and self.measure.differing < resampling.FEWEST_TEST_CLUSTERS

    @property
    def allowed(self) -> float:
        """The drop up to which a rule may hold."""
        return max(self.must_detect, self.tolerated)

    @cached_property
    def effective(self) -> float | None:
        """How many dialogues of one size these are worth; None where the values are not known."""
        return None if self.sides is None else self.sides().weighed.effective

    @cached_property
    def unseen(self) -> float | None:
        """The largest mean drop, with 1 − alpha confidence, if no more dialogues differ than do, each by the whole
        scale. None where the scale is not known."""
        if self.largest is None or self.effective is None:
            return None
        share = resampling.bound_share(self.measure.differing, self.effective, self.alpha)
        return max(self.size, self.largest * share)

    def count_to_exclude(self) -> int:
        """How many items it takes for `unseen` to be what is allowed, if no more dialogues differ."""
        if self.largest is None or self.effective is None:
            return self.measure.n
        share = max(self.allowed, LEAST_SIZE) / self.largest
        times = resampling.count_to_bound(share, self.measure.differing, self.alpha) / self.effective
        return ceil(ceil(times * self.measure.clusters - 1e-6) * self.turns - 1e-9)

    @property
    def changing(self) -> float:
        """The share of pairs that differ at least where the mean drops by `must_detect`: the flips of others change
        nothing, and what has hardly changed yet shows too small a spread to judge by."""
        return min(1.0, self.must_detect / self.step)

    @property
    def turns(self) -> float:
        """Pairs to a dialogue, on average."""
        return self.measure.n / max(1, self.measure.clusters)

    def least_p(self, share: float = 1.0) -> float:
        """The smallest p that there can be where this share of the pairs differs, whatever dialogues they are in."""
        measure, flips = self.measure, resampling.count_flips(self.level)
        if measure.clusters < resampling.FEWEST_TEST_CLUSTERS:
            return 1.0
        if measure.test == "sign-flip":
            differing = measure.clusters * float(1 - (1 - share) ** self.turns)
            return resampling.find_least_p(flips, floor(differing + 1e-9))
        return resampling.find_least_p(flips, measure.clusters_baseline, measure.clusters_candidate)

    def count_fewest(self, share: float) -> int:
        """How many items it takes for a drop in this share of them to be significant: all signs may be equal."""
        fewest = max(resampling.FEWEST_TEST_CLUSTERS, floor(1 + log2(1 / self.level)) + 1)
        touched = float(1 - (1 - share) ** self.turns)
        return ceil(fewest / touched * self.turns - 1e-9)


def judge_drop(drop: Drop) -> RuleFinding:
    """Whether the measure fell beyond chance, and as observed by more than is tolerated."""
    measure = drop.measure
    if measure.difference is None:
        return RuleFinding("no-values", "inconclusive", NO_COMMON_VALUES)
    change, power = tell_change(drop), tell_power(drop)
    unreachable = None if drop.p is None else resampling.explain_unreachable(drop.level)
    if unreachable is not None:
        return lack([Message("not-significant", change=change), unreachable])
    if drop.worse:
        return judge_worse(drop, change, power)
    if stands_still(measure):
        return judge_standstill(drop)
    if drop.better:
        return RuleFinding("held", "pass", join_clauses([Message("better", change=change), *power]))
    return weigh_evidence(drop, change)


def judge_worse(drop: Drop, change: Message, power: Sequence[Message]) -> RuleFinding:
    """It fell beyond chance: whether by more than is tolerated."""
    if drop.size > drop.tolerated:
        detail = Message("beyond-tolerated", change=change, tolerated=drop.tolerated)
        return RuleFinding(drop.word, "fail", join_clauses([detail, *power]))
    return hold(drop, [Message("within-tolerated", change=change, tolerated=drop.tolerated), *power])


def judge_standstill(drop: Drop) -> RuleFinding:
    """Nothing differs: that means something only where there are enough values for a drop of all to be significant."""
    best = drop.measure.best
    what = "rate" if drop.rises else "value" if best is None else "distance"
    ideal = {"best": best} if what == "distance" else {}
    detail = Message(
        f"no-{what}-differs{'-from-itself' if drop.same else ''}",
        **ideal,
        figures=tell_ratings(drop.measure, tell_size(drop.measure)),
    )
    if drop.least_p() >= drop.level:
        return lack([Message(f"too-few-to-show-{drop.word}", what=detail), tell_fewest(drop, share=1.0)])
    return weigh_few(drop, [detail])


def weigh_few(drop: Drop, told: Sequence[Message]) -> RuleFinding:
    """Fewer dialogues differ than a test needs: what so many may hide is bounded by how many there are."""
    bound = drop.unseen
    if bound is None:
        return RuleFinding("held", "pass", join_clauses(told))
    if bound <= drop.allowed:
        return hold(drop, [*told, Message(f"unseen-{drop.word}", size=bound)])
    needed = tell_needed(drop, drop.count_to_exclude())
    name = f"unseen-{drop.word}-{'needs' if drop.measure.test == 'sign-flip' else 'needs-in-each-run'}"
    return lack([*told, Message(name, size=bound, allowed=drop.allowed, needed=needed)])


def weigh_evidence(drop: Drop, change: Message) -> RuleFinding:
    """No significant change: that means something only where a drop that matters would have been seen."""
    lacking = find_lack(drop, change)
    if lacking:
        return lack(lacking)
    if drop.few_differ:
        return weigh_few(drop, [Message("not-significant", change=change), tell_differing_units(drop)])
    detectable = drop.reached
    if detectable is None:
        unknown = Message(f"unknown-detectable-{drop.word}")
        why = drop.measure.undefined.get("smallest_detectable", unknown)
        return lack([Message("not-significant", change=change), why])
    none, seen = Message(f"no-significant-{drop.word}", change=change), Message("seen", size=write_figure(detectable))
    if drop.detectable is None:
        seen = Message(f"no-{drop.word}-sure-to-be-seen")
    if not isfinite(detectable):
        return lack([none, seen])
    if detectable > drop.must_detect:
        needed = tell_needed(drop, drop.measure.n * (detectable / drop.must_detect) ** 2)
        name = "must-be-seen" if drop.measure.test == "sign-flip" else "must-be-seen-in-each-run"
        return lack([none, Message(name, seen=seen, least=drop.must_detect, needed=needed)])
    return hold(drop, [none, seen])


def find_lack(drop: Drop, change: Message) -> list[Message | str]:
    """Why it means nothing that the drop is not significant, whatever drop would have been seen; else empty."""
    if drop.p is None:
        return [Message("not-tested", change=change), drop.measure.undefined.get("p", Message("no-test"))]
    if drop.measure.doubt and drop.size > 0:
        return [tell_why(change, drop.measure.doubt)]
    if contradicts(drop):
        few = [tell_differing_units(drop)] if drop.few_differ else []
        return [Message("not-significant-but-worse", change=change), *few]
    if drop.least_p(drop.changing) >= drop.level:
        name = f"{drop.word}-could-not-be-significant"
        return [Message(name, change=change, size=drop.must_detect), tell_fewest(drop)]
    if drop.size > drop.must_detect:
        return [Message("too-few-differ", change=change, least=drop.must_detect)]
    return []


def hold(drop: Drop, told: Sequence[Message]) -> RuleFinding:
    """The rule holds, unless the interval reaches a drop beyond the tolerated one by more than must be detected."""
    reached = reach_worst(drop)
    if reached is not None and reached > drop.tolerated + drop.must_detect:
        limits: dict[str, Value] = {"tolerated": drop.tolerated, "least": drop.must_detect}
        if drop.measure.interval is None:
            return lack([*told, Message(f"unseen-{drop.word}-goes-beyond", size=reached, **limits)])
        return lack([*told, Message("interval-goes-beyond", **limits)])
    return RuleFinding("held", "pass", join_clauses(told))


def reach_worst(drop: Drop) -> float | None:
    """The largest drop in the interval. Where all dialogues differ alike there is none: it is then what the largest
    drops make of the mean in a share of dialogues that so many miss altogether with chance alpha. None without a scale.
    """
    interval = drop.measure.interval
    if interval is not None:
        return interval[1] if drop.rises else -interval[0]
    if drop.largest is None or drop.effective is None:
        return None
    share = 1 - drop.alpha ** (1 / drop.effective)
    return float(drop.size + share * max(0.0, drop.largest - drop.size))


def contradicts(drop: Drop) -> bool:
    """Whether all of the interval is worse, and the drop as observed is more than tolerated, though the test at the
    same level finds nothing."""
    interval, p = drop.measure.interval, drop.measure.p
    if interval is None or p is None or p < drop.alpha or drop.size <= drop.tolerated:
        return False
    return (interval[0] if drop.rises else -interval[1]) > 0


def tell_differing_units(drop: Drop) -> Message:
    """How many dialogues differ, and that these are few for a test."""
    measure = drop.measure
    units = measure.clusters if measure.test == "sign-flip" else measure.clusters_baseline + measure.clusters_candidate
    return Message(
        "few-differ", differing=measure.differing, units=tell_count(units, "item" if drop.turns <= 1 else "dialogue")
    )


def lack(told: Iterable[Message | str]) -> RuleFinding:
    """The finding that the data are not sufficient."""
    return RuleFinding("not-enough-data", "inconclusive", join_clauses(told))


def tell_fewest(drop: Drop, share: float | None = None) -> Message:
    """How many items it takes for such a drop to be significant: all signs of the pairs that differ may be equal."""
    if drop.measure.test != "sign-flip":
        return Message("more-in-each-run")
    fewest = drop.count_fewest(share or drop.changing)
    if drop.few_differ and drop.unseen is not None:
        fewest = max(fewest, drop.count_to_exclude())
    return Message("about-the-fewest", needed=tell_needed(drop, fewest))


def tell_needed(drop: Drop, items: float) -> Message:
    """So many items, and in how many dialogues where several share one."""
    return tell_count_within(ceil(items), "item", None if drop.turns <= 1 else ceil(items / drop.turns))


def tell_power(drop: Drop) -> list[Message]:
    """What these data could show, where that is known."""
    return [] if drop.detectable is None else [Message(f"{drop.word}-seen", size=write_figure(drop.detectable))]


def tell_change(drop: Drop) -> Message:
    """The change with its interval, p and n."""
    measure = drop.measure
    words = ("rose", "fell") if drop.rises else ("fell", "rose")
    before, after = measure.baseline_mean or 0.0, measure.candidate_mean or 0.0
    # As many digits as show that there is a change, and on which side of what is tolerated.
    digits = max(
        find_digits(before, after, 3), find_digits(drop.size, 0.0, 3), find_digits(drop.size, drop.tolerated, 3)
    )
    amount = write_figure(abs(drop.size), digits)
    word = "changed" if not float(amount) else words[0] if drop.size > 0 else words[1]
    means = Message("from-to", before=write_figure(before, digits), after=write_figure(after, digits))
    figures = tell_ratings(measure, means)
    if measure.interval is not None:
        figures.append(Message("difference-interval", percent=100 * (1 - drop.alpha), **tell_ends(measure.interval)))
    figures += [*tell_adjusted(drop.p, drop.tests), tell_size(measure)]
    return Message(word, amount=amount, figures=figures)


def tell_ratings(measure: Measure, figures: Message) -> list[Message]:
    """The figures; where distances are compared they are said to be, and the ratings' own means follow."""
    before, after = measure.baseline_rating_mean, measure.candidate_rating_mean
    if measure.best is None or before is None or after is None:
        return [figures]
    ratings = Message("mean-ratings", before=write_figure(before), after=write_figure(after))
    return [Message("of-distance", figures=figures, best=measure.best), ratings]


def tell_size(measure: Measure) -> Message:
    """How many values there are, and in how many dialogues where several share one."""
    if measure.test == "sign-flip":
        return tell_count_within(measure.n, "pair", measure.clusters if measure.clusters < measure.n else None)
    ours, theirs = measure.clusters_baseline, measure.clusters_candidate
    sizes: dict[str, Value] = {"baseline": measure.n_baseline, "candidate": tell_count(measure.n_candidate, "item")}
    if ours >= measure.n_baseline and theirs >= measure.n_candidate:
        return Message("unpaired", **sizes)
    return Message("unpaired-in-dialogues", **sizes, ours=ours, theirs=tell_count(theirs, "dialogue"))


def join_checks(findings: list[RuleFinding]) -> RuleFinding:
    """Joins the checks of a rule: the worst decides, and all are reported."""
    order: dict[GateVerdict, int] = {"fail": 0, "inconclusive": 1, "pass": 2}
    ranked = sorted(findings, key=lambda finding: order[finding.verdict])
    return RuleFinding(ranked[0].code, ranked[0].verdict, join_clauses(finding.detail for finding in ranked))


@dataclass(frozen=True)
class Minimum:
    """A least mean that is asked for. `scale` holds the lowest and highest value that an item can have.

    `alpha` is this rule's own, two-sided; `shortfall` is that below the minimum which the data must be able to show.
    `best` is the value that distances are measured from, where they are what counts; `ratings` their ratings' mean.
    `clusters`, of the shape of `values`, number their dialogues; None where each value stands alone. `weights` are what
    values count for, on average 1; None where all do. `link` is a link's standard error of the mean with its degrees
    of freedom; None where the run is on its own judge's scale.
    """

    values: Floats
    least: float
    scale: tuple[float, float]
    alpha: float
    shortfall: float
    best: float | None = None
    ratings: float | None = None
    clusters: Integers | None = None
    weights: Floats | None = None
    link: tuple[float, int] | None = None

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return float(np.round(find_average(self.values, self.weights), DECIMALS))

    @cached_property
    def sums(self) -> tuple[Floats, Floats]:
        """Sums and numbers of the values by dialogue, shapes (units,)."""
        codes = np.arange(self.n) if self.clusters is None else self.clusters
        return resampling.add_up(self.values, codes, self.weights)

    @property
    def units(self) -> int:
        """How many dialogues the values are of, each that stands alone counting as one."""
        return len(self.sums[0])

    @property
    def seen(self) -> float:
        """Of how many dialogues it is told what none of them shows: with weights, what they are worth (Kish)."""
        return self.units if self.weights is None else resampling.find_effective(self.sums[1])

    @property
    def turns(self) -> float:
        """Values to a dialogue, on average."""
        return self.n / self.units

    @property
    def added(self) -> int:
        """How many dialogues are added: one, and more where alpha is small: a skewed mean nears the normal slowly. With
        z²/4 of them the interval covers what is rare (Poisson) at every alpha from 0.2 to 0.0008."""
        z = NormalDist().inv_cdf(self.alpha / 2)
        return max(1, ceil(z * z / 4))

    def widen(self, end: float) -> Clustered:
        """The mean with dialogues of the usual length added, of which each value is this end of the scale. With weights
        they count as much as those that make the mean: many that count little say nothing of these."""
        sums, counts = self.sums
        length = self.turns if self.weights is None else float(counts.sum()) / resampling.find_effective(counts)
        lengths = np.full(self.added, length)
        return resampling.describe_clusters(np.append(sums, end * lengths), np.append(counts, lengths))

    def bound(self, end: float) -> float:
        """The end of the interval towards this end of the scale. At least what a share of such dialogues would make of
        the mean that so many miss altogether with chance alpha."""
        widened = self.widen(end)
        low, high = self.limits
        side = 1 if end > self.mean or end >= high else -1
        own = resampling.find_quantile(widened.freedom, self.alpha) * widened.error
        unseen = (1 - self.alpha ** (1 / self.seen)) * abs(end - self.mean)
        margins = [own, unseen]
        if self.link is not None:
            extra = resampling.find_quantile(self.link[1], self.alpha) * self.link[0]
            margins = [hypot(one, extra) for one in margins]
        reached, unseen = widened.mean + side * margins[0], self.mean + side * margins[1]
        found = max(reached, unseen) if side > 0 else min(reached, unseen)
        return float(np.clip(found, low, high))

    @property
    def limits(self) -> tuple[float, float]:
        """The scale; a blend may lie beyond it."""
        return min(self.scale[0], float(self.values.min())), max(self.scale[1], float(self.values.max()))

    @property
    def hidden(self) -> float:
        """Up to which shortfall the link's error hides it, however many values there are."""
        return 0.0 if self.link is None else reach(self.alpha, self.link[1]) * self.link[0]

    def find_needed(self, shortfall: float) -> int:
        """How many values show a shortfall of so much with 80% power, by the spread of these with those added. The
        dialogues added at the top lift the mean, so that n D = (t + t') s √(n + m) + m (top − least) must hold of n
        dialogues and m added, where t' is the quantile for the power."""
        shortfall = max(sqrt(max(0.0, shortfall**2 - self.hidden**2)), LEAST_SIZE)
        widened = max((self.widen(end) for end in self.limits), key=lambda found: found.error)
        slope = reach(self.alpha, widened.freedom) * widened.error * sqrt(self.units + self.added) / shortfall
        lifted = self.added * (1 + (self.limits[1] - self.least) / shortfall)
        return ceil((((slope + sqrt(slope**2 + 4 * lifted)) / 2) ** 2 - self.added) * self.turns)


def judge_minimum(asked: Minimum) -> RuleFinding:
    """Whether the mean reaches the minimum: it fails, and it passes, only where that is shown."""
    if not asked.n:
        return RuleFinding("no-values", "inconclusive", NO_VALUES)
    mean = tell_mean(asked)
    lowest, highest = (asked.bound(end) for end in asked.limits)
    if asked.mean < round(asked.least, DECIMALS):
        if highest < asked.least:
            detail = join_clauses([mean, tell_interval(asked, "interval-reaches", highest)])
            return RuleFinding("below-minimum", "fail", detail)
        enough = tell_enough(asked, asked.least - asked.mean)
        return lack([mean, tell_interval(asked, "interval-reaches-beyond", highest, enough=enough)])
    if lowest >= asked.least:
        return RuleFinding("held", "pass", join_clauses([mean, tell_interval(asked, "interval-ends", lowest)]))
    if asked.find_needed(asked.shortfall) <= asked.n:
        return RuleFinding("held", "pass", join_clauses([mean, Message("shortfall-seen", size=asked.shortfall)]))
    enough = tell_enough(asked, asked.shortfall)
    return lack([Message("shortfall-unseen", mean=mean, size=asked.shortfall, enough=enough)])


def tell_enough(asked: Minimum, shortfall: float) -> Message:
    """How many items show such a shortfall. The spread of very few dialogues says nothing of that, and what the link's
    error hides no number of them shows."""
    if shortfall <= asked.hidden:
        return Message("better-link")
    if asked.units >= FEWEST_TO_PLAN:
        return Message("about", items=tell_items(asked, asked.find_needed(shortfall)))
    return Message("more-items" if asked.units == asked.n else "more-dialogues", units=asked.units)


def tell_items(asked: Minimum, items: int) -> Message:
    """So many items, and in how many dialogues where several share one."""
    return tell_count_within(items, "item", None if asked.units == asked.n else ceil(items / asked.turns - 1e-9))


def tell_mean(asked: Minimum) -> Message:
    """The mean, of what, and what it should be."""
    mean = write_figure(asked.mean, find_digits(asked.mean, asked.least, 3))
    figures: dict[str, Value] = {"mean": mean, "items": tell_items(asked, asked.n), "least": asked.least}
    if asked.best is None or asked.ratings is None:
        return Message("mean-is", **figures)
    return Message("mean-distance-is", best=asked.best, ratings=write_figure(asked.ratings), **figures)


def tell_interval(asked: Minimum, name: str, end: float, **more: Message) -> Message:
    """The interval, and where it ends: with as many digits as show on which side of the minimum."""
    digits = find_digits(end, asked.least, 3)
    added = tell_count(asked.added, "dialogue" if asked.units < asked.n else "value")
    return Message(name, percent=100 * (1 - asked.alpha), added=added, end=write_figure(end, digits), **more)
