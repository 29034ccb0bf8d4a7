"""The verdict of a gate on the newest build of a sequence: each rule judged by all builds since the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from app.domain.comparison import ComparedRun, GateReason, GateReport
from app.domain.errors import InvalidRequest
from app.domain.sequence import GateSequence, SequenceMark
from app.domain.summary import MeasureKey
from app.stats.gate import RuleFinding, conclude, join, judge_minimum, lack, list_minima, measures_of, name_of, rank
from app.stats.gate_plan import PlannedRule, plan
from app.stats.observations import Floats, Integers
from app.stats.pairing import find_partners, match_runs, number_units
from app.stats.resampling import FEWEST_TEST_CLUSTERS
from app.stats.sequences import Builds, Looks, describe_builds, look, measure_noise, spend
from app.stats.statistics import count

LOOKS_BACK = 31
"""Builds before the newest one that it is looked at with."""


@dataclass(frozen=True)
class Items:
    """The items that baseline and newest build share, by measure: values of shape (items, builds), the baseline's
    first, NaN where an earlier build has none. `clusters` number their dialogues, shape (items,)."""

    values: dict[MeasureKey, Floats]
    clusters: Integers


def judge_in_sequence(
    report: GateReport,
    candidate: ComparedRun,
    baseline: ComparedRun,
    earlier: Sequence[ComparedRun],
    *,
    sequence: GateSequence,
    night: int,
) -> GateReport:
    """The report of `judge_gate` on the newest build, its rules judged again by the builds of its sequence. `earlier`
    are those between the baseline and it, oldest first; `night` is its place. Raises InvalidRequest for what no
    sequence judges."""
    asked = plan(report.rules, candidate, baseline)
    compared = [one for one in asked if one.rule.most is not None]
    level = spend(sequence.alpha, night)
    items = gather(measures_of(compared), candidate, baseline, earlier)
    minima = list_minima(asked, candidate, level / 2 if compared else level)
    share = level / max(1, len(compared)) / (2 if minima else 1)
    reasons, noise = [one for one in report.reasons if one.about != "rule"], dict[str, float]()
    for one in asked:
        findings, detectable = list[RuleFinding](), None
        if one.rule.most is not None:
            builds = describe_held(items, one.key)
            found, detectable = judge_measure(builds, one, share, night)
            findings.append(found)
            if builds is not None:
                noise[name_of(one.key)] = measure_noise(builds)
        if one.number in minima:
            findings.append(judge_minimum(minima[one.number]))
        found = join(findings)
        reasons.append(
            GateReason(
                code=found.code,
                aspect=one.rule.aspect,
                finding=one.rule.finding,
                measure=one.rule.measure,
                verdict=found.verdict,
                detail=found.detail,
                rule=one.number,
                detectable=detectable,
            )
        )
    mark = SequenceMark(
        name=sequence.name, night=night, alpha=sequence.alpha, level=level, builds=len(earlier), noise=noise
    )
    changes = {"verdict": conclude(reasons), "reasons": tuple(sorted(reasons, key=rank)), "sequence": mark}
    return report.model_copy(update=changes)


def gather(
    measures: Sequence[MeasureKey], candidate: ComparedRun, baseline: ComparedRun, earlier: Sequence[ComparedRun]
) -> Items:
    """The values of the measures in all builds."""
    newest = match_runs(baseline, candidate)
    if newest.pairing.test != "paired":
        raise InvalidRequest("a sequence compares the same items night by night: ask for no unpaired test")
    rows = newest.rows[0]
    keys = newest.columns[0].keys[rows]
    values = {key: np.full((len(rows), len(earlier) + 2), np.nan) for key in measures}
    for place, run in enumerate(earlier, start=1):
        matched = match_runs(baseline, run)
        partners = find_partners(keys, matched.columns[0].keys[matched.rows[0]])
        for key in measures:
            values[key][partners[:, 0], place] = matched.columns[1].column(key)[matched.rows[1]][partners[:, 1]]
    for key in measures:
        values[key][:, 0] = newest.columns[0].column(key)[rows]
        values[key][:, -1] = newest.columns[1].column(key)[newest.rows[1]]
    units, _ = number_units(*newest.columns, np.stack(newest.rows, axis=1))
    return Items(values, units[rows])


def describe_held(items: Items, key: MeasureKey) -> Builds | None:
    """The builds by the items that baseline and newest build have values of; None without any. An earlier build without
    a value of them is left out."""
    values = items.values[key]
    held = ~np.isnan(values[:, 0]) & ~np.isnan(values[:, -1])
    if not held.any():
        return None
    values = values[held]
    return describe_builds(values[:, ~np.isnan(values).all(axis=0)], items.clusters[held])


def judge_measure(
    builds: Builds | None, asked: PlannedRule, level: float, night: int
) -> tuple[RuleFinding, float | None]:
    """Whether the measure fell since the baseline, at this level, and the smallest lasting drop that would be seen."""
    word: Literal["drop", "rise"] = "drop" if asked.rule.code is None else "rise"
    if builds is None:
        return RuleFinding("no-values", "inconclusive", "there are no values in both runs to compare"), None
    if builds.units < FEWEST_TEST_CLUSTERS:
        return lack(f"{count(builds.units, 'dialogue')} cannot show a {word}"), None
    seen = look(builds, level=level)
    detectable = find_detectable(seen, asked)
    power = f"; a lasting {word} of {detectable:.3f} would be seen with 80 % power" if detectable else ""
    if not seen.significant.any():
        figures = f"{tell_newest(builds, seen, asked)}: no lasting {word} in build {night:,} of the sequence{power}"
        return weigh_silence(seen, asked, figures, detectable), detectable
    figures, size = tell_worst(builds, seen, asked, night)
    tolerated = asked.rule.most or 0.0
    if min(size, float(seen.newest)) > tolerated:
        return RuleFinding(word, "fail", f"{figures}: beyond chance and the noise between builds{power}"), detectable
    held = f"{figures}: beyond chance, but as observed no more than the {tolerated:g} tolerated{power}"
    return RuleFinding("held", "pass", held), detectable


def find_detectable(seen: Looks, asked: PlannedRule) -> float | None:
    """The smallest lasting drop that would be seen; None where that is not known, or more than the scale allows."""
    reached = float(seen.detectable)
    width = inf if asked.scale is None else asked.scale[1] - asked.scale[0]
    return reached if 0 < reached < inf and reached <= width else None


def weigh_silence(seen: Looks, asked: PlannedRule, figures: str, detectable: float | None) -> RuleFinding:
    """No drop was found: that means something only where one that matters would have been seen."""
    aim = asked.must_detect or 0.0
    if detectable is None:
        return lack(f"{figures}; the noise between builds is not known well enough yet, more nights will tell")
    if detectable > aim:
        return lack(f"{figures}, and {aim:g} must be: more nights or items would do")
    if float(seen.newest) > aim:
        return lack(f"{figures}, though it is by more than the {aim:g} that must be seen")
    return RuleFinding("held", "pass", figures)


def tell_worst(builds: Builds, seen: Looks, asked: PlannedRule, night: int) -> tuple[str, float]:
    """The clearest drop in words, and by how much the builds of its window lie below the baseline."""
    standardised = np.where(seen.significant, seen.drops / np.maximum(seen.errors, 1e-12), -np.inf)
    place = int(np.argmax(standardised))
    window, size = int(seen.windows[place]), float(seen.below[place])
    newest = "the newest build" if window == 1 else f"the mean of the newest {window:,} builds"
    told = tell_change(asked, float(builds.means[0]), size)
    margin = seen.quantile * float(seen.errors[place])
    return f"{newest} {told}; build {night:,} of the sequence, margin {margin:.3f}", size


def tell_newest(builds: Builds, seen: Looks, asked: PlannedRule) -> str:
    """How the newest build differs from the baseline."""
    return tell_change(asked, float(builds.means[0]), float(seen.newest))


def tell_change(asked: PlannedRule, before: float, drop: float) -> str:
    """`fell by 0.300 (3.600 to 3.300)`; findings the other way round, as their rates count below zero."""
    after, words = before - drop, ("fell", "rose")
    if asked.rule.code is not None:
        before, after, words = -before, -after, ("rose", "fell")
    word = words[0] if drop > 0 else words[1] if drop < 0 else "changed"
    return f"{word} by {abs(drop):.3f} ({before:.3f} to {after:.3f})"
