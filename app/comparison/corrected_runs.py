"""Two runs compared, and gated, on people's scale: `corrected` on a batch's items with the ratings of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from saiten.core.figures import find_digits, write_figure
from saiten.core.messages import Message
from saiten_server.comparison.gate_plan import PlannedRule, find_scale
from saiten_server.comparison.pairing import (
    FOLDED,
    average_items,
    fold_ratings,
    list_measures,
    match_runs,
    number_items,
)
from saiten_server.comparison.values import ComparedRun, CorrectedMeasure, GateReason
from saiten_server.core.conversation import ANY_CODE, FAULTY_TURNS, FINDING
from saiten_server.core.reports import CorrectedFigure, Interval, Looks
from saiten_server.runs.summary import MeasureKey
from saiten_server.stats.corrected import (
    NO_RATINGS,
    Corrected,
    CorrectedSample,
    CorrectionOptions,
    Differing,
    Estimate,
    Shared,
    correct,
    differ_shared,
    find_mean_interval,
    report_corrected_mean,
    share_raters,
    split_width,
    tell_reversed,
    tell_shared,
)
from saiten_server.stats.observations import Integers, Mask, weigh_inversely
from saiten_server.stats.phrases import NEITHER_HAS_VALUES, join_clauses, tell_adjusted, tell_count, tell_ends
from saiten_server.stats.resampling import find_quantile
from saiten_server.stats.severity import IndividualRatings
from saiten_server.stats.statistics import adjust_holm, reach

MARKED: MeasureKey = ("finding", FINDING + ANY_CODE)
"""Faulty turns: of findings the one that people can correct, since a mark has no code and no kind."""


@dataclass(frozen=True)
class CorrectedPair:
    """A measure of the runs; `before` and `difference` are None where there is no such run, or nothing to correct.
    `shared` is what the difference is estimated from, None where people rated one of them alone."""

    options: CorrectionOptions
    before: Corrected | None
    after: Corrected | None
    difference: Differing | None = None
    shared: Shared | None = None

    @property
    def refused(self) -> Message | None:
        """Why there is no difference, and of which run; None where there is one."""
        if self.difference is not None:
            return None
        for role, found in (("baseline", self.before), ("candidate", self.after)):
            if found is None or found.refused is not None:
                why = NO_RATINGS if found is None or found.refused is None else found.refused
                return Message(f"{role}-run-refused", why=why)
        return NO_RATINGS if self.shared is None or self.shared.refused is None else self.shared.refused

    def level(self, alpha: float) -> float:
        """The level of a test at alpha, at this look."""
        samples = [one.sample for one in (self.before, self.after) if one is not None]
        if self.shared is not None:
            samples = [self.shared.baseline, self.shared.candidate]
        return replace(self.options, alpha=alpha).settle(*samples).alpha if samples else alpha

    @property
    def notes(self) -> tuple[Message, ...]:
        """Of either run that its judge goes against people."""
        sides = (("baseline", self.before), ("candidate", self.after))
        found = ((role, tell_reversed(one.sample)) for role, one in sides if one is not None)
        return tuple(Message(f"{role}-run-refused", why=told) for role, told in found if told is not None)

    @property
    def needed(self) -> int | None:
        """How many ratings the run needs that needs most."""
        asked = [one.needed for one in (self.before, self.after, self.shared) if one and one.needed]
        return max(asked, default=None)


def correct_pairs(
    baseline: ComparedRun,
    candidate: ComparedRun,
    measures: Sequence[MeasureKey],
    *,
    alpha: float,
    paired: bool,
    looks: Looks = "once",
) -> dict[MeasureKey, CorrectedPair]:
    """Each measure of both runs: where `paired` of the items that are in both."""
    matched = match_runs(baseline, candidate, asked="auto" if paired else "unpaired")
    kept = [np.ones(len(own.row), dtype=bool) for own in matched.means]
    if paired:
        kept = [np.isin(own.row, rows) for own, rows in zip(matched.means, matched.rows, strict=True)]
    units = matched.units
    homes = [found[own.row] for found, own in zip(units, matched.means, strict=True)]
    best = {**baseline.best, **candidate.best}
    raters = number_raters(baseline, candidate)
    found = {}
    for key in measures:
        scale = find_scale(key[1], candidate) or find_scale(key[1], baseline)
        options = CorrectionOptions(alpha, "t", scale, looks, key == MARKED)
        before, after = (
            sample_run(run, key, best, homes=own, kept=chosen, raters=raters)
            for run, own, chosen in zip((baseline, candidate), homes, kept, strict=True)
        )
        sides = [None if one is None else correct(one, options) for one in (before, after)]
        difference, shared = None, None
        if before is not None and after is not None and before.rated and after.rated:
            shared = share_raters(before, after, options)
            if shared.refused is None and all(one is not None and one.corrected is not None for one in sides):
                difference = differ_shared(shared, options)
        found[key] = CorrectedPair(options, sides[0], sides[1], difference, shared)
    return found


def number_raters(*runs: ComparedRun) -> Integers:
    """The keys of all who rated any of the runs, ascending: a rater's number is the place there."""
    keys = [each.rater for run in runs for each in run.frame.said.values()]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *keys]))


def sample_run(
    run: ComparedRun,
    key: MeasureKey,
    best: Mapping[str, float],
    *,
    homes: Integers,
    raters: Integers,
    kept: Mask | None = None,
) -> CorrectedSample | None:
    """The run's responses that have a value, of those that are `kept`, with the numbers of their dialogues; shapes
    (responses,). `raters` are the keys that number the raters. None without any."""
    frame = run.frame
    values = frame.values.get(key)
    if values is None:
        return None
    held = ~np.isnan(values) if kept is None else kept & ~np.isnan(values)
    if not held.any():
        return None
    scores, ratings = values[held], np.full(int(held.sum()), np.nan)
    if key[1] in frame.people:
        ratings = frame.people[key[1]][held]
    rated = ~np.isnan(ratings)
    weights = None
    shares = weigh_inversely(frame.probability[held])
    counted = frame.weights[held] if shares is None else frame.weights[held] * shares
    if rated.any() and (shares is not None or np.ptp(counted[rated]) > 0):
        weights = np.where(rated, counted, np.nan)
    given = frame.said.get(key[1])
    said = None
    if given is not None and key[0] != "blended":
        said = IndividualRatings(given.row, np.searchsorted(raters, given.rater), given.value).within(held)
    if key[0] in FOLDED and key[1] in best:
        scores, ratings = fold_ratings(scores, best[key[1]]), fold_ratings(ratings, best[key[1]])
        # Raters are averaged first: of one who says −1 and one who says 1 the mean is 0. No rate is below 0.
        if said is not None:
            said = replace(said, value=ratings[said.item] if key != MARKED else fold_ratings(said.value, best[key[1]]))
    return CorrectedSample(scores, ratings, homes[held], weights, said, shares)


def list_correctable(*runs: ComparedRun) -> list[MeasureKey]:
    """Aspects, composites and faulty turns: people rate no blended values, and say no codes of findings."""
    return [key for key in list_measures(*runs) if key[0] in {"aspect", "composite"} or key == MARKED]


def name_measure(key: MeasureKey) -> str:
    """What reports call the measure."""
    return FAULTY_TURNS if key == MARKED else key[1]


def tell_notes(corrected: Mapping[str, CorrectedMeasure]) -> tuple[Message, ...]:
    """The notes of all measures, each with its name."""
    return tuple(
        Message("corrected-note", measure=name, note=note) for name, one in corrected.items() for note in one.notes
    )


def compare_corrected(
    baseline: ComparedRun, candidate: ComparedRun, *, alpha: float, paired: bool, looks: Looks = "once"
) -> dict[str, CorrectedMeasure]:
    """Every aspect, composite and the faulty turns on people's scale, with p after Holm over those that have one;
    faulty turns by themselves, as findings are elsewhere."""
    measures = list_correctable(baseline, candidate)
    pairs = correct_pairs(baseline, candidate, measures, alpha=alpha, paired=paired, looks=looks)
    marked = {key: pair for key, pair in pairs.items() if key == MARKED}
    rated = {key: pair for key, pair in pairs.items() if key != MARKED}
    return {**tabulate_pairs(rated, alpha), **tabulate_pairs(marked, alpha)}


def tabulate_pairs(pairs: Mapping[MeasureKey, CorrectedPair], alpha: float) -> dict[str, CorrectedMeasure]:
    """The pairs as reports have them."""
    adjusted = adjust_holm([pair.difference.p if pair.difference else None for pair in pairs.values()])
    tests = max(1, sum(p is not None for p in adjusted))
    told = {key: describe_pair(pair, p, alpha, tests) for (key, pair), p in zip(pairs.items(), adjusted, strict=True)}
    return {name_measure(key): unfold(one) if key == MARKED else one for key, one in told.items()}


def unfold(measure: CorrectedMeasure) -> CorrectedMeasure:
    """A rate of faulty turns as it is, which was compared by minus itself."""
    return measure.model_copy(
        update={
            "baseline": unfold_figure(measure.baseline),
            "candidate": unfold_figure(measure.candidate),
            "difference": None if measure.difference is None else 0.0 - measure.difference,
            "interval": turn_round(measure.interval),
        }
    )


def unfold_figure(figure: CorrectedFigure | None) -> CorrectedFigure | None:
    """Likewise one run's."""
    if figure is None:
        return None
    by_these = turn_round(figure.interval_by_these_raters)
    turned = {"mean": 0.0 - figure.mean, "interval": turn_round(figure.interval), "interval_by_these_raters": by_these}
    return figure.model_copy(update=turned)


def turn_round(interval: Interval) -> Interval:
    """The interval of minus the value."""
    return None if interval is None else (0.0 - interval[1], 0.0 - interval[0])


def describe_pair(pair: CorrectedPair, p: float | None, alpha: float, tests: int) -> CorrectedMeasure:
    """One measure."""
    found = pair.difference
    significant = p is not None and p < alpha and found is not None
    return CorrectedMeasure(
        rated_baseline=0 if pair.before is None else pair.before.sample.rated,
        rated_candidate=0 if pair.after is None else pair.after.sample.rated,
        baseline=None if pair.before is None else report_corrected_mean(pair.before, pair.options),
        candidate=None if pair.after is None else report_corrected_mean(pair.after, pair.options),
        difference=None if found is None else found.difference,
        interval=None if found is None else found.interval,
        standard_error=None if found is None else found.error or None,
        p=None if found is None else found.p,
        p_adjusted=p,
        smallest_detectable=None if found is None or not found.error else find_reach(found, pair.level(alpha / tests)),
        verdict="inconclusive" if not significant or found is None else "better" if found.difference > 0 else "worse",
        refused=pair.refused,
        ratings_needed=pair.needed,
        shared=None if pair.shared is None else tell_shared(pair.shared),
        notes=pair.notes,
    )


def find_reach(found: Differing, level: float) -> float:
    """The difference that is found with 80% power."""
    return reach(level, found.freedom) * found.error


def judge_corrected(
    asked: Sequence[PlannedRule],
    baseline: ComparedRun | None,
    candidate: ComparedRun,
    *,
    alpha: float,
    paired: bool,
    looks: Looks = "once",
) -> tuple[list[GateReason], dict[str, CorrectedMeasure]]:
    """One reason a rule, decided by corrected figures, and those figures: of all that rules name."""
    drops = [one for one in asked if one.rule.most is not None]
    minima = [one for one in asked if one.rule.min_mean is not None]
    pairs: dict[MeasureKey, CorrectedPair] = {}
    if baseline is not None:
        keys = [one.key for one in drops]
        pairs = correct_pairs(baseline, candidate, keys, alpha=alpha, paired=paired, looks=looks)
    means = {one.key: correct_alone(candidate, one.key, alpha / len(minima), looks) for one in minima}
    told = {**tabulate_pairs({key: pair for key, pair in means.items() if key not in pairs}, alpha)}
    told |= tabulate_pairs(pairs, alpha)
    tests = max(1, sum(pair.difference is not None for pair in pairs.values()))
    reasons = []
    for one in asked:
        found = []
        if one.rule.most is not None and one.key in pairs:
            found.append(judge_drop(one, pairs[one.key], told[name_measure(one.key)], alpha, tests))
        if one.rule.min_mean is not None:
            found.append(judge_minimum(one, means[one.key]))
        name = name_measure(one.key)
        reasons.append(join_reasons(one, found, told[name].notes if name in told else ()))
    return reasons, told


def correct_alone(run: ComparedRun, key: MeasureKey, alpha: float, looks: Looks) -> CorrectedPair:
    """A measure of one run."""
    options = CorrectionOptions(alpha, "t", find_scale(key[1], run), looks, key == MARKED)
    means = average_items(run)
    homes = number_items(means)[means.row]
    sample = sample_run(run, key, run.best, homes=homes, raters=number_raters(run))
    return CorrectedPair(options, None, None if sample is None else correct(sample, options))


@dataclass(frozen=True)
class RuleCheck:
    """What one check of a rule found."""

    code: str
    verdict: str
    told: Sequence[Message]


def lack(*told: Message) -> RuleCheck:
    """The finding that the data are not sufficient."""
    return RuleCheck("not-enough-data", "inconclusive", told)


NO_BLENDED = Message("no-blended-ratings")


def judge_drop(one: PlannedRule, pair: CorrectedPair, told: CorrectedMeasure, alpha: float, tests: int) -> RuleCheck:
    """Whether the corrected mean fell, or the rate of faulty turns rose, beyond chance, and as observed by more than is
    tolerated."""
    found, tolerated = pair.difference, one.rule.most or 0.0
    if one.key[0] == "blended":
        return lack(NO_BLENDED)
    if found is None or pair.before is None or pair.after is None:
        return lack(Message("no-corrected-figure", why=pair.refused))
    change = tell_fall(found, told, pair, tests, tolerated, rises=one.key == MARKED)
    if told.p_adjusted is None:
        return lack(Message("nothing-told-without-spread", change=change))
    if told.p_adjusted >= alpha:
        return weigh_evidence(one, found, told, change, pair.level(alpha / tests))
    if -found.difference > tolerated:
        return RuleCheck(find_word(one), "fail", [Message("beyond-tolerated", change=change, tolerated=tolerated)])
    better = Message("better", change=change)
    within = Message("no-more-than-tolerated", change=change, tolerated=tolerated)
    return hold(one, found, [better if found.difference > 0 else within])


def hold(one: PlannedRule, found: Differing, told: Sequence[Message]) -> RuleCheck:
    """The rule holds, unless the interval reaches a drop beyond the tolerated one by more than must be detected."""
    tolerated = one.rule.most or 0.0
    least = one.must_detect or tolerated
    if found.interval is not None and -found.interval[0] > tolerated + least:
        return lack(*told, Message("interval-goes-beyond", tolerated=tolerated, least=least))
    return RuleCheck("held", "pass", told)


def weigh_evidence(
    one: PlannedRule, found: Differing, told: CorrectedMeasure, change: Message, level: float
) -> RuleCheck:
    """No significant change: that means something only where a drop that matters would have been seen."""
    detectable, wanted = find_reach(found, level), one.must_detect or one.rule.most or 0.0
    none = Message(f"no-significant-{find_word(one)}", change=change)
    seen = Message("seen", size=write_figure(detectable))
    if detectable <= wanted:
        return hold(one, found, [none, seen])
    fewest = min(told.rated_baseline, told.rated_candidate)
    if told.shared is not None:
        fewest = min(told.shared.baseline, told.shared.candidate)
    if not wanted:
        return lack(none, Message("must-be-seen-at-all", seen=seen, least=wanted))
    needed = ceil(fewest * (detectable / wanted) ** 2)
    return lack(none, Message("must-be-seen-by-ratings", seen=seen, least=wanted, ratings=needed))


def find_word(one: PlannedRule) -> str:
    """What a change for the worse is."""
    return "rise" if one.key == MARKED else "drop"


def tell_fall(
    found: Differing, told: CorrectedMeasure, pair: CorrectedPair, tests: int, tolerated: float, *, rises: bool
) -> Message:
    """What the mean did, with its interval, p and by how many ratings; `rises` of a rate, that was compared by minus
    itself."""
    interval = turn_round(found.interval) if rises else found.interval
    span = Message("no-interval") if interval is None else Message("interval", **tell_ends(interval))
    size = abs(found.difference)
    amount = write_figure(size, max(find_digits(size, 0.0, 3), find_digits(size, tolerated, 3)))
    word = "changed" if not float(amount) else "fell" if (found.difference < 0) != rises else "rose"
    change = Message(word, amount=amount, figures=[span, *tell_adjusted(told.p_adjusted, tests)])
    alone = tell_judge_alone(pair, rises=rises)
    if told.shared is None:
        candidate = tell_count(told.rated_candidate, "rating")
        return Message("corrected-by", change=change, baseline=told.rated_baseline, candidate=candidate, alone=alone)
    return Message(
        "corrected-by-shared",
        change=change,
        baseline=told.shared.baseline,
        candidate=tell_count(told.shared.candidate, "rating"),
        raters=tell_count(told.shared.raters, "rater"),
        alone=alone,
    )


def tell_judge_alone(pair: CorrectedPair, *, rises: bool) -> str:
    """The difference by the judge alone."""
    if pair.before is None or pair.after is None:
        return "–"
    difference = pair.after.judge.clustered.mean - pair.before.judge.clustered.mean
    return write_figure(0.0 - difference if rises else difference, signed=True)


def judge_minimum(one: PlannedRule, pair: CorrectedPair) -> RuleCheck:
    """Whether the corrected mean reaches the minimum: it fails, and passes, only where that is shown."""
    least, found = one.rule.min_mean or 0.0, pair.after
    if one.key[0] == "blended":
        return lack(NO_BLENDED)
    if found is None or found.corrected is None:
        why = NO_RATINGS if found is None or found.refused is None else found.refused
        return lack(Message("no-corrected-figure", why=why))
    own, rated = found.corrected.clustered, found.sample.rated
    options = pair.options.settle(found.sample)
    low, high = find_mean_interval(found.corrected, options) or (own.mean, own.mean)
    mean = tell_corrected_mean(found, own.mean, low, high, least)
    if len(found.sample.raters) == 1:
        return lack(Message("one-rater-is-not-enough", mean=mean))
    if own.mean < least and high < least:
        return RuleCheck("below-minimum", "fail", [mean])
    shortfall = one.shortfall or 0.0
    margin = found.corrected.find_margin(options.alpha, normal=False)
    power = reach(options.alpha, own.freedom) - find_quantile(own.freedom, options.alpha)
    detectable = margin + power * found.corrected.error
    if own.mean >= least and (low >= least or detectable <= shortfall):
        return RuleCheck("held", "pass", [mean])
    aim = shortfall if own.mean >= least else least - own.mean
    return lack(tell_needed(mean, found.corrected, options, rated, aim / detectable))


def tell_corrected_mean(found: Corrected, mean: float, low: float, high: float, least: float) -> Message:
    """The corrected mean with its interval, and what it should be."""
    figures = [
        Message("span", low=write_figure(low), high=write_figure(high)),
        Message("by-people", ratings=tell_count(found.sample.rated, "rating")),
        Message("by-judge-alone", mean=write_figure(found.judge.clustered.mean)),
    ]
    return Message(
        "corrected-mean-is", mean=write_figure(mean, find_digits(mean, least, 3)), figures=figures, least=least
    )


def tell_needed(mean: Message, estimate: Estimate, options: CorrectionOptions, rated: int, share: float) -> Message:
    """What would make the interval as small as this share of itself."""
    if estimate.severity is None:
        return Message("ratings-would-tell", mean=mean, ratings=ceil(rated / share**2) if share else 0)
    lasting, shrinking = split_width(estimate, options.alpha, estimate.clustered.freedom, normal=False)
    left = (share * estimate.find_margin(options.alpha, normal=False)) ** 2 - lasting
    if left <= 0:
        return Message("more-raters-needed", mean=mean)
    return Message("ratings-would-tell", mean=mean, ratings=ceil(rated * shrinking / left))


def join_reasons(one: PlannedRule, found: Sequence[RuleCheck], notes: Sequence[Message | str] = ()) -> GateReason:
    """The findings of one rule as a reason, with what a reader should know of the figures: the worst decides."""
    order = ("fail", "inconclusive", "pass")
    ranked = sorted(found, key=lambda finding: order.index(finding.verdict))
    if not ranked:
        ranked = [RuleCheck("no-values", "inconclusive", [NEITHER_HAS_VALUES])]
    return GateReason.model_validate(
        {
            "code": ranked[0].code,
            "aspect": one.rule.aspect,
            "finding": one.rule.finding,
            "measure": one.rule.measure,
            "verdict": ranked[0].verdict,
            "detail": join_clauses([*(told for finding in ranked for told in finding.told), *notes]),
            "rule": one.number,
        }
    )
