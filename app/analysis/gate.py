"""The gate: what a CI job should make of a run, and why.

It fails only on what is beyond chance, and passes only where a drop that matters would have been seen. Too little
coverage and a judge that moved make it inconclusive, whatever the rules find: they say nothing of the system then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from app.analysis.comparison import compare, cover
from app.analysis.differences import RESAMPLES, adjust_holm
from app.analysis.gate_plan import Asked, plan
from app.analysis.gate_rules import Drop, Finding, join, judge_drop, judge_minimum
from app.analysis.pairing import MeasureKey, tabulate
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
    resamples: int = RESAMPLES,
    judge: JudgeCheck | None = None,
) -> GateReport:
    """The verdict on the candidate run. Without rules no aspect may drop against the baseline run.

    `min_coverage` is the share that must be there of the values that the rules look at, and of the items in pairs.
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
            resamples=resamples,
        )
    coverage = cover(candidate, measures_of(asked))
    reasons = [
        *tell_judge(judge),
        judge_coverage(list_shares(asked, candidate, baseline, comparison), min_coverage),
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
) -> Iterator[tuple[int, int, str]]:
    """What must be covered: how many there are, of how many, of what.

    Where drops are judged this holds for the baseline run too: what it lacks may be just its worst.
    """
    covered = cover(candidate, measures_of(asked))
    yield covered.rated, covered.expected, "verdicts of the candidate run"
    compared = [one for one in asked if one.rule.max_drop is not None]
    if baseline is None or comparison is None or not compared:
        return
    covered = cover(baseline, measures_of(compared))
    yield covered.rated, covered.expected, "verdicts of the baseline run"
    pairing = comparison.pairing
    if pairing.test == "paired":
        yield pairing.pairs, pairing.pairs + max(pairing.only_baseline, pairing.only_candidate), "items in pairs"


def judge_coverage(shares: Iterable[tuple[int, int, str]], minimum: float) -> GateReason:
    """Whether enough is there to speak of the whole. Where nothing is expected it is not."""
    counted = list(shares)
    enough = all(of and have / of >= minimum for have, of, _ in counted)
    told = (f"{have:,} of {of:,} {what}" + (f" ({100 * have / of:.2f} %)" if of else "") for have, of, what in counted)
    return GateReason(
        code="held" if enough else "coverage",
        aspect=None,
        verdict="pass" if enough else "inconclusive",
        detail=f"{', '.join(told)}; at least {100 * minimum:g} % of each must be there",
        about="coverage",
    )


def judge_rules(
    asked: Sequence[Asked], candidate: Run, comparison: Comparison | None, alpha: float
) -> Iterator[GateReason]:
    """One reason a rule."""
    values, drops = tabulate(candidate), list_drops(asked, comparison, alpha)
    for one in asked:
        findings = []
        if one.number in drops:
            findings.append(judge_drop(drops[one.number]))
        elif one.rule.max_drop is not None:
            findings.append(Finding("no-values", "inconclusive", "neither run has values"))
        if one.rule.min_mean is not None:
            column = values.column(one.key)
            findings.append(judge_minimum(column[~np.isnan(column)], one.rule.min_mean, alpha))
        found = join(findings)
        yield GateReason(
            code=found.code, aspect=one.rule.aspect, verdict=found.verdict, detail=found.detail, rule=one.number
        )


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
            tests=len(found),
            alpha=alpha,
            tolerated=one.rule.max_drop,
            must_detect=one.must_detect,
            step=one.step,
        )
        for one in compared
        if (measure := found[one.key]) and one.rule.max_drop is not None and one.must_detect is not None
    }


def find(comparison: Comparison, key: MeasureKey) -> Measure | None:
    """The measure in the comparison; None where neither run has it."""
    kind, name = key
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


def rank(reason: GateReason) -> int:
    """What decides first: what makes the rules void, what failed, what could not be told, what held."""
    if reason.about != "rule" and reason.verdict != "pass":
        return 0
    return {"fail": 1, "inconclusive": 2, "pass": 3}[reason.verdict]
