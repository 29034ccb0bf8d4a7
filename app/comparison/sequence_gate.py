"""The verdict of a gate on the newest build of a sequence: each rule judged by all builds since the baseline.

Whether a drop that was found is mended: the null is turned round: nothing changed since the drop was found. The newest
1, 2, 4, … builds are compared with those that it was found in, and with all from these on. The j-th build since may
spend what night j may of alpha, so a bot that is as bad as it was is taken for mended in at most alpha of all
sequences. Then little may be left of the drop: of the window and of the newest build alone at most half, and of the
window no more than chance explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from saiten.core.messages import Message, Value
from saiten_server.comparison.differences import TOO_SKEWED, TOO_WIDE
from saiten_server.comparison.gate import (
    LEAST_SIZE,
    RuleFinding,
    conclude,
    judge_minimum,
    lack,
    list_minima,
    measures_of,
    order_of,
    tell_rule,
)
from saiten_server.comparison.gate_plan import PlannedRule, plan_rules
from saiten_server.comparison.pairing import find_partners, match_runs
from saiten_server.comparison.values import ComparedRun, GateReport, GateSequence, SequenceDrop, SequenceMark
from saiten_server.core.errors import InvalidRequest
from saiten_server.runs.summary import MeasureKey, flat_name
from saiten_server.stats.observations import Floats, Integers, Mask
from saiten_server.stats.phrases import NO_COMMON_VALUES, join_clauses, tell_count, tell_why
from saiten_server.stats.resampling import (
    FEWEST_TEST_CLUSTERS,
    bound_share,
    count_to_bound,
    find_beyond,
    find_skewed_p,
    find_unseen_p,
)
from saiten_server.stats.sequences import (
    Builds,
    Looks,
    describe_builds,
    find_errors,
    list_contrasts,
    look_at_newest_build,
    measure_noise,
    spend,
)
from saiten_server.stats.statistics import level

LEFT_CHANCE = 0.05
"""How often what is left of a mended drop is taken for more than chance."""


def is_mended(
    builds: Builds, nights: Integers, drop: SequenceDrop, *, tolerated: float, alpha: float, night: int
) -> bool:
    """Whether the newest builds show that the drop is mended. `nights` are the builds' places, 0 for the baseline;
    `night` is that of the newest one, and `alpha` the error rate for all builds since the drop was found."""
    means, last = builds.means, len(nights) - 1
    start = int(np.searchsorted(nights, drop.first))
    end = max(start + 1, int(np.searchsorted(nights, drop.night, side="right")))
    later = last + 1 - end
    if later < 1:
        return False
    # One row for the builds that the drop was found in, and one for each later build.
    rows = np.zeros((later + 1, last + 1))
    rows[0, start:end] = 1 / (end - start)
    rows[1:, end:] = np.eye(later)
    weights, windows = list_contrasts(later)
    rises = -weights @ rows
    remains = np.stack([np.arange(last + 1) == 0] * len(windows)).astype(np.float64)
    for row, window in zip(remains, windows, strict=True):
        row[last + 1 - window :] = -1 / window
    skipped = [(start - 1, last - int(window)) for window in windows]
    level = spend(alpha, night - drop.night) / len(windows)
    left = remains @ means
    risen = rises @ means > -float(stdtrit(builds.freedom, level)) * find_errors(builds, rises, skipped)
    margin = float(stdtrit(builds.freedom, 1 - LEFT_CHANCE)) * find_errors(builds, remains, skipped)
    little = np.maximum(left, means[0] - means[-1]) <= max(tolerated, drop.size / 2)
    return bool((risen & little & (left - tolerated <= margin)).any())


def find_sound(builds: Builds, looks: Looks, room: float, *, level: float) -> Mask:
    """Which significant looks at one sequence hold though the data are skewed, shape (looks,). `room` is by how much a
    dialogue could have risen above its level in the baseline, by the scale."""
    found = looks.significant.copy()
    parts = builds.parts
    if parts is None:
        return found
    allowed = level / len(looks.windows)
    beyond = find_beyond(2 * allowed) if allowed > 0 else inf
    for place in np.flatnonzero(found):
        contrast, drop = parts @ looks.weights[place], float(looks.drops[place])
        explained = float(contrast @ contrast)
        noise = max(0.0, float(looks.errors[place]) ** 2 - explained)
        skewed = find_skewed_p(drop, contrast, builds.freedom, noise=noise, beyond=beyond) / 2
        unseen = find_unseen_p(drop, explained**0.5, max(0.0, room), builds.units)
        found[place] = max(skewed, unseen) <= allowed
    return found


LOOKS_BACK = 31
"""Builds before the newest one that it is looked at with."""


@dataclass(frozen=True)
class SharedItems:
    """The items that baseline and newest build share, by measure: values of shape (items, builds), the baseline's
    first, NaN where an earlier build has none. `clusters` number their dialogues, shape (items,), and `nights` are the
    builds' places, shape (builds,), 0 for the baseline."""

    values: dict[MeasureKey, Floats]
    clusters: Integers
    nights: Integers


@dataclass(frozen=True)
class Held:
    """The builds that have values of a measure, and their places; `room` is by how much a dialogue could have risen
    above the baseline's mean, and `differing` the dialogues in which the newest build differs from the baseline."""

    builds: Builds
    nights: Integers
    room: float
    differing: int


@dataclass(frozen=True)
class SequenceFinding:
    """What is found of a rule: the smallest lasting drop that would be seen, and the drop that is not mended."""

    finding: RuleFinding
    detectable: float | None = None
    drop: SequenceDrop | None = None


@dataclass(frozen=True)
class Share:
    """What a rule may spend of the error rates: `level` on this night, `alpha` on all nights since a drop was found."""

    level: float
    alpha: float
    night: int
    rules: int = 1


def judge_in_sequence(
    report: GateReport,
    candidate: ComparedRun,
    baseline: ComparedRun,
    earlier: Mapping[int, ComparedRun],
    *,
    sequence: GateSequence,
    night: int,
) -> GateReport:
    """The report of `judge_gate` on the newest build, its rules judged again by the builds of its sequence. `earlier`
    are those between the baseline and it by their places, oldest first; `night` is its place. Raises
    InvalidRequest for what no sequence judges."""
    asked = plan_rules(report.rules, candidate, baseline)
    compared = [one for one in asked if one.rule.most is not None]
    level = spend(sequence.alpha, night)
    items = gather_builds(measures_of(compared), candidate, baseline, earlier, night)
    minima = list_minima(asked, candidate, level / 2 if compared else level)
    rules = max(1, len(compared)) * (2 if minima else 1)
    share = Share(level / rules, sequence.alpha / rules, night, rules)
    reasons, noise = [one for one in report.reasons if one.about != "rule"], dict[str, float]()
    drops = list_open(sequence, night)
    for one in asked:
        findings, detectable = list[RuleFinding](), None
        if one.rule.most is not None:
            name, held = flat_name(one.key), describe_held(items, one)
            judged = judge_measure(held, one, share, drops.pop(name, None))
            findings.append(judged.finding)
            detectable = judged.detectable
            if judged.drop is not None:
                drops[name] = judged.drop
            if held is not None:
                noise[name] = measure_noise(held.builds)
        if one.number in minima:
            findings.append(judge_minimum(minima[one.number]))
        reasons.append(tell_rule(one, findings, detectable))
    mark = SequenceMark(
        name=sequence.name,
        night=night,
        alpha=sequence.alpha,
        level=level,
        builds=len(earlier),
        noise=noise,
        drops=drops,
    )
    changes = {"verdict": conclude(reasons), "reasons": tuple(sorted(reasons, key=order_of)), "sequence": mark}
    return report.model_copy(update=changes)


def list_open(sequence: GateSequence, night: int) -> dict[str, SequenceDrop]:
    """What was not mended before this night, by what rules name. A rule that is not asked for leaves it as it is."""
    told = [one.drops for one in sequence.builds if one.night < night and one.drops is not None]
    return dict(told[-1]) if told else {}


def gather_builds(
    measures: Sequence[MeasureKey],
    candidate: ComparedRun,
    baseline: ComparedRun,
    earlier: Mapping[int, ComparedRun],
    night: int,
) -> SharedItems:
    """The values of the measures in all builds."""
    if any(run.frame.shares is not None for run in (baseline, candidate, *earlier.values())):
        raise InvalidRequest(Message("sequence-of-uneven-sample"), pointer="/sequence")
    newest = match_runs(baseline, candidate)
    if newest.pairing.test != "paired":
        raise InvalidRequest(Message("sequence-unpaired-test"))
    rows = newest.rows[0]
    keys = newest.means[0].keys[rows]
    values = {key: np.full((len(rows), len(earlier) + 2), np.nan) for key in measures}
    for place, run in enumerate(earlier.values(), start=1):
        matched = match_runs(baseline, run)
        partners = find_partners(keys, matched.means[0].keys[matched.rows[0]])
        for key in measures:
            values[key][partners[:, 0], place] = matched.means[1].column(key)[matched.rows[1]][partners[:, 1]]
    for key in measures:
        values[key][:, 0] = newest.means[0].column(key)[rows]
        values[key][:, -1] = newest.means[1].column(key)[newest.rows[1]]
    units = newest.units[0]
    return SharedItems(values, units[rows], np.array([0, *earlier, night]))


def describe_held(items: SharedItems, asked: PlannedRule) -> Held | None:
    """The builds by the items that baseline and newest build have values of; None without any. An earlier build without
    a value of them is left out."""
    values = items.values[asked.key]
    held = ~np.isnan(values[:, 0]) & ~np.isnan(values[:, -1])
    if not held.any():
        return None
    values = values[held]
    there = ~np.isnan(values).all(axis=0)
    builds = describe_builds(values[:, there], items.clusters[held])
    highest = float(np.nanmax(values)) if asked.scale is None else asked.scale[1]
    _, places = np.unique(items.clusters[held], return_inverse=True)
    changes = level(np.bincount(places, weights=level(values[:, -1] - values[:, 0])).astype(np.float64))
    return Held(builds, items.nights[there], highest - float(builds.means[0]), int(np.count_nonzero(changes)))


def judge_measure(held: Held | None, asked: PlannedRule, share: Share, drop: SequenceDrop | None) -> SequenceFinding:
    """Whether the measure fell since the baseline. `drop` is one that was found on an earlier night and not mended."""
    word = word_of(asked)
    if held is None or held.builds.units < FEWEST_TEST_CLUSTERS:
        return SequenceFinding(tell_lacking(held, word), drop=drop)
    builds, night = held.builds, share.night
    seen = look_at_newest_build(builds, level=share.level, rules=share.rules)
    hidden = find_hidden(held, asked, share.alpha)
    detectable = find_lasting_drop(seen, asked, hidden)
    tolerated = asked.rule.most or 0.0
    if drop is not None and not is_mended(
        builds, held.nights, drop, tolerated=tolerated, alpha=share.alpha, night=night
    ):
        return SequenceFinding(tell_open(builds, seen, asked, drop), detectable, drop)
    told_power = Message(f"unseen-{word}" if detectable == hidden else f"lasting-{word}-seen", size=detectable or 0.0)
    power = [told_power] if detectable else []
    sound = find_sound(builds, seen, held.room, level=share.level)
    if not sound.any():
        told = [Message(f"no-lasting-{word}", change=tell_newest(builds, seen, asked), build=night)]
        told += [] if drop is None else [Message(f"{word}-mended", build=drop.night)]
        if seen.significant.any():
            return SequenceFinding(lack([tell_why(join_clauses(told), TOO_SKEWED)]), detectable)
        needs = None if hidden is None or detectable != hidden else tell_hidden(held, asked, share.alpha, hidden)
        return SequenceFinding(weigh_silence(seen, asked, [*told, *power], detectable, needs), detectable)
    worst, size, window, margin = tell_worst(builds, seen, asked, sound)
    place = {"build": night, "margin": margin}
    if min(size, float(seen.newest)) > tolerated:
        told = [worst, Message("beyond-noise", **place), *power]
        first = int(held.nights[len(held.nights) - window])
        drop = SequenceDrop(night=night, first=first, size=size)
        return SequenceFinding(RuleFinding(word, "fail", join_clauses(told)), detectable, drop)
    told = [worst, Message("tolerated-in-sequence", **place, tolerated=tolerated), *power]
    return SequenceFinding(RuleFinding("held", "pass", join_clauses(told)), detectable)


def tell_lacking(held: Held | None, word: str) -> RuleFinding:
    """That there are no values, or too few dialogues."""
    if held is None:
        return RuleFinding("no-values", "inconclusive", NO_COMMON_VALUES)
    return lack([Message(f"cannot-show-{word}", dialogues=tell_count(held.builds.units, "dialogue"))])


def word_of(asked: PlannedRule) -> Literal["drop", "rise"]:
    """What the rule is against."""
    return "drop" if asked.rule.code is None else "rise"


def tell_open(builds: Builds, seen: Looks, asked: PlannedRule, drop: SequenceDrop) -> RuleFinding:
    """A drop that is not mended fails the newest build too, unless this is as good as the rule asks for."""
    word = word_of(asked)
    figures: dict[str, Value] = {"change": tell_newest(builds, seen, asked), "build": drop.night, "size": drop.size}
    if float(seen.newest) > (asked.rule.most or 0.0):
        return RuleFinding(word, "fail", Message(f"{word}-not-mended", **figures))
    return lack([Message(f"{word}-not-shown-to-be-mended", **figures)])


def find_hidden(held: Held, asked: PlannedRule, alpha: float) -> float | None:
    """The largest drop that may not have shown where so few dialogues differ that their spread tells nothing of others,
    each by the whole scale; None where enough differ, or the scale is not known."""
    if asked.scale is None or held.differing >= FEWEST_TEST_CLUSTERS:
        return None
    return (asked.scale[1] - asked.scale[0]) * bound_share(held.differing, held.builds.units, alpha)


def tell_hidden(held: Held, asked: PlannedRule, alpha: float, hidden: float) -> Message:
    """That too large a drop may not have shown, and of how many dialogues it would have."""
    aim = max(asked.must_detect or 0.0, LEAST_SIZE)
    width = aim if asked.scale is None else asked.scale[1] - asked.scale[0]
    needs = tell_count(ceil(count_to_bound(aim / width, held.differing, alpha) - 1e-6), "dialogue")
    return Message(f"unseen-{word_of(asked)}-needs", size=hidden, allowed=aim, needed=needs)


def find_lasting_drop(seen: Looks, asked: PlannedRule, hidden: float | None) -> float | None:
    """The smallest lasting drop that would be seen, and no less than what may be `hidden`; None where that is not
    known, or more than the scale allows."""
    reached = max(float(seen.detectable), hidden or 0.0)
    width = inf if asked.scale is None else asked.scale[1] - asked.scale[0]
    return reached if 0 < reached < inf and reached <= width else None


def weigh_silence(
    seen: Looks, asked: PlannedRule, told: Sequence[Message], detectable: float | None, needs: Message | None = None
) -> RuleFinding:
    """No drop was found: that means something only where one that matters would have been seen. The last of what is
    `told` is what would be; `needs` says what it takes where too few dialogues differ."""
    aim = asked.must_detect or 0.0
    if detectable is None:
        reached = float(seen.detectable)
        why = TOO_WIDE if 0 < reached < inf else Message("equal-differences" if not reached else "noise-not-known")
        return lack([*told, why])
    if detectable > aim:
        return lack([*told[:-1], needs or Message("more-nights", seen=told[-1], least=aim)])
    if float(seen.newest) > aim:
        return lack([*told, Message("newest-is-worse", least=aim)])
    return RuleFinding("held", "pass", join_clauses(told))


def tell_worst(builds: Builds, seen: Looks, asked: PlannedRule, sound: Mask) -> tuple[Message, float, int, float]:
    """The clearest sound drop in words, by how much the builds of its window lie below the baseline, how many builds
    these are, and the margin of their mean."""
    standardised = np.where(sound, seen.drops / np.maximum(seen.errors, 1e-12), -np.inf)
    place = int(np.argmax(standardised))
    window, size = int(seen.windows[place]), float(seen.below[place])
    change = tell_change(asked, float(builds.means[0]), size)
    told = (
        Message("newest-build", change=change)
        if window == 1
        else Message("newest-builds", builds=window, change=change)
    )
    return told, size, window, seen.quantile * float(seen.errors[place])


def tell_newest(builds: Builds, seen: Looks, asked: PlannedRule) -> Message:
    """How the newest build differs from the baseline."""
    return tell_change(asked, float(builds.means[0]), float(seen.newest))


def tell_change(asked: PlannedRule, before: float, drop: float) -> Message:
    """`fell by 0.300 (3.600 to 3.300)`; findings the other way round, as their rates count below zero."""
    after, words = before - drop, ("fell", "rose")
    if asked.rule.code is not None:
        before, after, words = -before, -after, ("rose", "fell")
    word = words[0] if drop > 0 else words[1] if drop < 0 else "changed"
    figures = Message("before-after", before=f"{before:.3f}", after=f"{after:.3f}")
    return Message(word, amount=f"{abs(drop):.3f}", figures=[figures])
