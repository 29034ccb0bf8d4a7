"""What the gate is asked: rules with the measures that they name, checked against the runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from saiten.core.messages import Message
from saiten.core.wording import find_near
from saiten_server.comparison.pairing import list_measures
from saiten_server.comparison.values import ComparedRun, GateRule
from saiten_server.core.conversation import FINDING
from saiten_server.core.errors import InvalidRequest, UnknownAspect
from saiten_server.runs.frame import kind_of
from saiten_server.runs.summary import BLENDED, MeasureKey

SCALE_SHARE = 0.25
"""The drop that data must be able to show, as a share of the scale, where the rule does not say."""

FINDINGS_THAT_MATTER = 5.0
"""The same for findings, per 100 system turns."""

FINDING_STEP = 10.0
"""What one more faulty turn adds to the rate of a conversation with ten turns of the system."""

MOST_NAMES = 20


@dataclass(frozen=True)
class PlannedRule:
    """A rule, its number from 0, and the measure that it names.

    `must_detect` is the drop that must be seen, None where no drop is judged; `shortfall` is that below a minimum.
    `step` is what one value drops by where it drops: a point, or the scale where that is narrower. `scale` is the
    lowest and highest value of what is compared, None where the run does not say.
    """

    number: int
    rule: GateRule
    key: MeasureKey
    must_detect: float | None
    step: float = 1.0
    shortfall: float | None = None
    scale: tuple[float, float] | None = None


def plan_rules(
    rules: Sequence[GateRule] | None, candidate: ComparedRun, baseline: ComparedRun | None
) -> list[PlannedRule]:
    """The rules given, else that no aspect drops. Raises InvalidRequest where a rule needs a baseline run that there is
    not, or a scale that is not known, names what another rule names, or asks for what its scale does not have, and
    UnknownAspect."""
    if not rules and baseline is None:
        raise InvalidRequest(Message("gate-without-rules"), pointer="/rules")
    # An aspect that applies to no conversation cannot drop.
    runs = [run for run in (candidate, baseline) if run is not None]
    applying = [name for name in candidate.aspects if not all(applies_nowhere(name, run) for run in runs)]
    given = rules or [GateRule(aspect=aspect, max_drop=0.0) for aspect in applying]
    named: set[str] = set()
    for number, rule in enumerate(given):
        if rule.named in named:
            raise InvalidRequest(Message("rule-twice", aspect=rule.named), pointer=point_name(number, rule))
        named.add(rule.named)
    return [plan_rule(number, rule, candidate, baseline) for number, rule in enumerate(given)]


def plan_rule(number: int, rule: GateRule, candidate: ComparedRun, baseline: ComparedRun | None) -> PlannedRule:
    """One rule, checked."""
    key = find_measure(rule, list_measures(candidate), (candidate,), point_name(number, rule))
    if rule.max_drop is not None and baseline is None:
        raise InvalidRequest(Message("max-drop-without-baseline"), pointer=point(number, "max_drop"))
    if rule.max_rise is not None and baseline is None:
        raise InvalidRequest(Message("max-rise-without-baseline"), pointer=point(number, "max_rise"))
    runs = (candidate,) if baseline is None else (candidate, baseline)
    scale = next((found for run in runs if (found := find_scale(rule.named, run)) is not None), None)
    for name, fault in find_rule_faults(rule, key, scale):
        raise InvalidRequest(fault, pointer=point(number, name))
    if scale is None:
        return PlannedRule(number, rule, key, rule.must_detect)
    width = scale[1] - scale[0]
    matters = width * SCALE_SHARE if rule.code is None else FINDINGS_THAT_MATTER
    return PlannedRule(
        number,
        rule,
        key,
        must_detect=None if rule.most is None else rule.must_detect or max(rule.most, matters),
        step=min(1.0, width) if rule.code is None else FINDING_STEP,
        shortfall=rule.must_detect or matters,
        scale=scale,
    )


def find_rule_faults(
    rule: GateRule, key: MeasureKey, scale: tuple[float, float] | None
) -> Iterator[tuple[str, Message]]:
    """The fields of the rule that need a scale where there is none, or that no run could meet, and why."""
    if scale is None:
        if rule.min_mean is not None:
            yield "min_mean", Message("scale-unknown-of-minimum", aspect=rule.named)
        if rule.must_detect is None:
            yield "must_detect", Message("scale-unknown-of-drop", aspect=rule.named)
    elif key[0] != "blended":  # a blend adds what it likes to its aspect's scale
        low, high = scale
        if rule.min_mean is not None and not low <= rule.min_mean <= high:
            yield "min_mean", Message("mean-off-scale", aspect=rule.named, low=low, high=high)
        for name, value in (("max_drop", rule.max_drop), ("must_detect", rule.must_detect)):
            if value is not None and value > high - low:
                yield name, Message("drop-off-scale", aspect=rule.named, width=high - low)


def point(number: int, name: str) -> str:
    """Where in the request this field of the rule stands."""
    return f"/rules/{number}/{name}"


def point_name(number: int, rule: GateRule) -> str:
    """Where it names its measure."""
    return point(number, next(name for name in ("finding", "measure", "aspect") if getattr(rule, name) is not None))


def applies_nowhere(aspect: str, run: ComparedRun) -> bool:
    """Whether the aspect applies to none of the run's items."""
    return 0 < len(run.frame) == run.frame.inapplicable.get(aspect, 0)


def find_measure(
    rule: GateRule, known: Collection[MeasureKey], runs: Sequence[ComparedRun], pointer: str
) -> MeasureKey:
    """The measure that the rule names among those known: an aspect comes before a composite, and that before a blended
    aspect. Raises UnknownAspect with the pointer."""
    name = rule.named
    keys: list[MeasureKey] = [("aspect", name), ("composite", name)]
    if name.endswith(BLENDED):
        keys.append(("blended", name.removesuffix(BLENDED)))
    if name.startswith(FINDING):
        keys = [(kind_of(name), name)]
    for key in keys:
        if key in known:
            return key
    if any(name in run.scales for run in runs):  # declared, though no item has a value
        return keys[-1]
    raise UnknownAspect(explain_unknown(rule, runs[-1], known), pointer=pointer)


def explain_unknown(rule: GateRule, run: ComparedRun, found: Collection[MeasureKey]) -> Message:
    """What the run has instead, of blended aspects only those that have a value."""
    name = rule.measure or rule.named
    known = [
        each
        for each in run.scales or run.aspects
        if not each.endswith(BLENDED) or ("blended", each.removesuffix(BLENDED)) in found
    ]
    near, has = find_near(name, known), ", ".join(known[:MOST_NAMES]) or "nothing"
    if near:
        return Message("run-has-no-near", name=name, near=near, names=has)
    return Message("run-has-no", name=name, names=has)


def find_scale(name: str, run: ComparedRun) -> tuple[float, float] | None:
    """Lowest and highest value of what is compared, where the run says: with the best inside, of minus the distance."""
    scale = run.scales.get(name) or run.scales.get(name.removesuffix(BLENDED))
    best = run.best.get(name)
    if scale is None or best is None:
        return scale
    return -max(scale[1] - best, best - scale[0]), 0.0
