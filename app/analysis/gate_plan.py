"""What the gate is asked: rules with the measures that they name, checked against the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.analysis.pairing import MeasureKey, list_measures
from app.domain.comparison import GateRule, Run
from app.domain.errors import InvalidRequest, UnknownAspect

SCALE_SHARE = 0.25
"""The drop that data must be able to show, as a share of the scale, where the rule does not say."""

BLENDED = ".blended"
"""What follows an aspect's name where its blended value is meant, in rules and in a run's scales."""

MOST_NAMES = 20


@dataclass(frozen=True)
class Asked:
    """A rule, its number from 0, and the measure that it names. `must_detect` is None where no drop is judged.

    `step` is what one value drops by where it drops: a point, or the scale where that is narrower.
    """

    number: int
    rule: GateRule
    key: MeasureKey
    must_detect: float | None
    step: float = 1.0


def plan(rules: Sequence[GateRule] | None, candidate: Run, baseline: Run | None) -> list[Asked]:
    """The rules given, else that no aspect drops.

    Raises InvalidRequest where a rule needs a baseline run that there is not, or a scale that is not known, and
    UnknownAspect.
    """
    if not rules and baseline is None:
        raise InvalidRequest("the gate needs rules or a baseline run to judge by", pointer="/rules")
    given = rules or [GateRule(aspect=aspect, max_drop=0.0) for aspect in candidate.aspects]
    return [ask(number, rule, candidate, baseline) for number, rule in enumerate(given)]


def ask(number: int, rule: GateRule, candidate: Run, baseline: Run | None) -> Asked:
    """One rule, checked."""
    key = locate(rule.aspect, number, candidate)
    if rule.max_drop is None:
        return Asked(number, rule, key, None)
    if baseline is None:
        raise InvalidRequest("max_drop needs a baseline run to drop from", pointer=f"/rules/{number}/max_drop")
    width = find_width(rule.aspect, candidate) or find_width(rule.aspect, baseline)
    if rule.must_detect is not None:
        return Asked(number, rule, key, rule.must_detect, min(1.0, width or 1.0))
    if width is None:
        raise InvalidRequest(
            f"the scale of {rule.aspect} is not known: say what drop must be detected",
            pointer=f"/rules/{number}/must_detect",
        )
    return Asked(number, rule, key, max(rule.max_drop, width * SCALE_SHARE), min(1.0, width))


def locate(name: str, number: int, run: Run) -> MeasureKey:
    """The measure of this name; an aspect comes before a composite, and that before a blended aspect."""
    found = set(list_measures(run))
    keys: list[MeasureKey] = [("aspect", name), ("composite", name)]
    if name.endswith(BLENDED):
        keys.append(("blended", name.removesuffix(BLENDED)))
    for key in keys:
        if key in found:
            return key
    if name in run.scales:  # declared, though no item has a value
        return keys[-1]
    known = ", ".join(list(run.scales or run.aspects)[:MOST_NAMES])
    raise UnknownAspect(f"the run has no {name}; it has {known or 'nothing'}", pointer=f"/rules/{number}/aspect")


def find_width(name: str, run: Run) -> float | None:
    """From the worst value to the best, in scale points; None where the run does not say."""
    scale = run.scales.get(name) or run.scales.get(name.removesuffix(BLENDED))
    if scale is None:
        return None
    low, high = scale
    best = run.best.get(name)
    return high - low if best is None else max(high - best, best - low)
