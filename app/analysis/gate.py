"""The gate: what a CI job should make of a run, and why.

It fails only on what is beyond chance, and passes only where a drop that matters would have been seen. Too little
coverage and a judge that moved make it inconclusive, whatever the rules find: they say nothing of the system then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from app.analysis.comparison import compare, cover, find_best, tell_contexts
from app.analysis.differences import adjust_holm
from app.analysis.gate_minimum import Minimum, judge_minimum
from app.analysis.gate_plan import BLENDED, Asked, plan
from app.analysis.gate_rules import Drop, Finding, join, judge_drop
from app.analysis.pairing import MeasureKey, number_clusters, tabulate
from app.domain.comparison import (
    ChosenTest,
    Comparison,
    GateReason,
    GateReport,
    GateRule,
    GateVerdict,
    Measure,
    Run,
)
from app.domain.judge_check import JudgeCheck

MIN_COVERAGE = 0.98

Share = tuple[int, int, str]
"""How many there are, of how many, of what."""


def judge_gate(
    candidate: Run,
    baseline: Run | None,
    rules: Sequence[GateRule] | None = None,
    *,
    alpha: float = 0.05,
    min_coverage: float = MIN_COVERAGE,
    test: ChosenTest = "auto",
    allow_signature_mismatch: bool = False,
    seed: int = 0,
    judge: JudgeCheck | None = None,
) -> GateReport:
    """The verdict on the candidate run. Without rules no aspect may drop against the baseline run.

    `min_coverage` is the share that must be there of each measure that a rule names, and of its pairs.
    `judge` is what a check of the judge found. Raises InvalidRequest where there is nothing to judge by, UnknownAspect
    where a rule names what the run does not have, and what `compare` raises.
    """
    asked = plan(rules, candidate, baseline)
    comparison = None
    if baseline is not None:
        comparison = compare(
            baseline,
            candidate,
            alpha=alpha,
            test=test,
            allow_signature_mismatch=allow_signature_mismatch,
            seed=seed,
        )
    coverage = cover(candidate, measures_of(asked))
    reasons = [
        *tell_judge(judge),
        judge_coverage(list_shares(asked, candidate, baseline, comparison), min_coverage, remark=remark_on(comparison)),
        *judge_rules(asked, candidate, comparison, alpha),
    ]
    return GateReport(
        verdict=conclude(reasons),
        reasons=tuple(sorted(reasons, key=rank)),
        alpha=alpha,
        min_coverage=min_coverage,
        coverage=coverage,
        rules=tuple(one.rule for one in asked),
        comparison=comparison,
        candidate=candidate.name,
        signatures=dict(candidate.signatures),
    )


def judge_again(report: GateReport, check: JudgeCheck) -> GateReport:
    """What `judge_gate` would have said of the same runs, had it known this check; the report knows of none."""
    reasons = [*tell_judge(check), *report.reasons]
    return report.model_copy(update={"verdict": conclude(reasons), "reasons": tuple(sorted(reasons, key=rank))})


def remark_on(comparison: Comparison | None) -> str:
    """What makes pairs less than they seem."""
    if comparison is None or not comparison.pairing.contexts_differ:
        return ""
    return f"; {tell_contexts(comparison.pairing)}"


def measures_of(asked: Sequence[Asked]) -> list[MeasureKey]:
    """The measures that rules name, each once."""
    return list(dict.fromkeys(one.key for one in asked))


def tell_judge(check: JudgeCheck | None) -> Iterator[GateReason]:
    """A judge that moved is no regression of the system."""
    if check is None:
        return
    if check.verdict == "moved":
        yield GateReason(
            code="judge-moved",
            aspect=None,
            verdict="inconclusive",
            detail=f"judge moved: {check.detail}",
            about="judge",
        )
    else:
        yield GateReason(code="held", aspect=None, verdict="pass", detail=check.detail, about="judge")


def list_shares(
    asked: Sequence[Asked], candidate: Run, baseline: Run | None, comparison: Comparison | None
) -> Iterator[Share]:
    """What must be covered. Where drops are judged this holds for the baseline run too: what it lacks may be just its
    worst."""
    yield from share_verdicts(candidate, measures_of(asked), "candidate")
    compared = [one for one in asked if one.rule.max_drop is not None]
    if baseline is None or comparison is None or not compared:
        return
    yield from share_verdicts(baseline, measures_of(compared), "baseline")
    if comparison.pairing.test == "paired":
        yield from share_pairs(comparison, measures_of(compared))


def share_verdicts(run: Run, measures: Sequence[MeasureKey], role: str) -> Iterator[Share]:
    """The run's verdicts over these measures, and where one has fewer than the others, those of the poorest."""
    covered = cover(run, measures)
    yield covered.rated, covered.expected, f"verdicts of the {role} run"
    alone = {key: cover(run, [key]) for key in measures}
    poorest = min(alone, key=lambda key: alone[key].rated, default=None)
    if poorest is not None and alone[poorest].rated * len(measures) < covered.rated:
        yield alone[poorest].rated, alone[poorest].expected, f"for {name_of(poorest)}, the fewest"


def share_pairs(comparison: Comparison, measures: Sequence[MeasureKey]) -> Iterator[Share]:
    """Items in pairs, of the larger run's, and where a measure lacks values in some, its pairs with both."""
    pairing = comparison.pairing
    items = pairing.pairs + max(pairing.only_baseline, pairing.only_candidate)
    yield pairing.pairs, items, "items in pairs"
    alone = {key: measure.n if (measure := find(comparison, key)) else 0 for key in measures}
    poorest = min(alone, key=lambda key: alone[key], default=None)
    if poorest is not None and alone[poorest] < pairing.pairs:
        yield alone[poorest], items, f"with both values of {name_of(poorest)}, the fewest"


def judge_coverage(shares: Iterable[Share], minimum: float, *, remark: str = "") -> GateReason:
    """Whether enough is there to speak of the whole. Where nothing is expected it is not."""
    counted = list(shares)
    enough = all(of and have / of >= minimum for have, of, _ in counted)
    told = (f"{have:,} of {of:,} {what}" + (f" ({100 * have / of:.2f} %)" if of else "") for have, of, what in counted)
    return GateReason(
        code="held" if enough else "coverage",
        aspect=None,
        verdict="pass" if enough else "inconclusive",
        detail=f"{', '.join(told)}; at least {100 * minimum:g} % of each must be there" + remark,
        about="coverage",
    )


def judge_rules(
    asked: Sequence[Asked], candidate: Run, comparison: Comparison | None, alpha: float
) -> Iterator[GateReason]:
    """One reason a rule."""
    drops = list_drops(asked, comparison, alpha)
    minima = list_minima(asked, candidate, alpha)
    for one in asked:
        findings = []
        if one.number in drops:
            findings.append(judge_drop(drops[one.number]))
        elif one.rule.max_drop is not None:
            findings.append(Finding("no-values", "inconclusive", "neither run has values"))
        if one.number in minima:
            findings.append(judge_minimum(minima[one.number]))
        found = join(findings)
        yield GateReason(
            code=found.code,
            aspect=one.rule.aspect,
            verdict=found.verdict,
            detail=found.detail,
            rule=one.number,
            detectable=drops[one.number].detectable if one.number in drops else None,
        )


def list_minima(asked: Sequence[Asked], candidate: Run, alpha: float) -> dict[int, Minimum]:
    """By number of the rule, what there is to judge its minimum by. The rules with one share alpha (Bonferroni)."""
    wanted = [one for one in asked if one.rule.min_mean is not None]
    if not wanted:
        return {}
    columns = tabulate(candidate)
    clusters = number_clusters(columns.clusters or (None,) * len(columns.keys))
    found = {}
    for one in wanted:
        values, ratings = columns.column(one.key), columns.rating_column(one.key)
        held = ~np.isnan(values)
        if one.rule.min_mean is not None and one.scale is not None and one.shortfall is not None:
            found[one.number] = Minimum(
                values=values[held],
                clusters=clusters[held],
                least=one.rule.min_mean,
                scale=one.scale,
                alpha=alpha / len(wanted),
                shortfall=one.shortfall,
                best=find_best(one.key, candidate, candidate),
                ratings=float(ratings[held].mean()) if held.any() else None,
            )
    return found


def list_drops(asked: Sequence[Asked], comparison: Comparison | None, alpha: float) -> dict[int, Drop]:
    """By number of the rule, what there is to judge its drop by.

    Holm's adjustment is over the measures of these rules alone: what no rule asks about does not make the gate blinder.
    """
    if comparison is None:
        return {}
    compared = [one for one in asked if one.rule.max_drop is not None]
    found = {key: find(comparison, key) for key in measures_of(compared)}
    adjusted = dict(zip(found, adjust_holm([one.p if one else None for one in found.values()]), strict=True))
    return {
        one.number: Drop(
            measure=measure,
            p=adjusted[one.key],
            tests=max(1, sum(p is not None for p in adjusted.values())),
            alpha=alpha,
            tolerated=one.rule.max_drop,
            must_detect=one.must_detect,
            step=one.step,
            width=None if one.scale is None or one.key[0] == "blended" else one.scale[1] - one.scale[0],
            same=comparison.baseline == comparison.candidate,
        )
        for one in compared
        if (measure := found[one.key]) and one.rule.max_drop is not None and one.must_detect is not None
    }


def find(comparison: Comparison, key: MeasureKey) -> Measure | None:
    """The measure in the comparison; None where neither run has it."""
    kind, name = key
    by_kind = {"aspect": comparison.aspects, "composite": comparison.composites, "blended": comparison.blended}
    return by_kind[kind].get(name)


def name_of(key: MeasureKey) -> str:
    """The measure as rules name it."""
    kind, name = key
    return name + BLENDED if kind == "blended" else name


def conclude(reasons: Sequence[GateReason]) -> GateVerdict:
    """What the reasons amount to: without coverage, or with another judge, the rules decide nothing."""
    verdicts = {reason.verdict for reason in reasons}
    if any(reason.about != "rule" and reason.verdict == "inconclusive" for reason in reasons):
        return "inconclusive"
    if "fail" in verdicts:
        return "fail"
    return "inconclusive" if "inconclusive" in verdicts else "pass"


def rank(reason: GateReason) -> int:
    """What decides first: what makes the rules void, what failed, what could not be told, what held."""
    if reason.about != "rule" and reason.verdict != "pass":
        return 0
    return {"fail": 1, "inconclusive": 2, "pass": 3}[reason.verdict]
