"""Two runs compared, and gated, on people's scale: `corrected` on a batch's items with the ratings of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from app.domain.comparison import ComparedRun, CorrectedMeasure, GateReason
from app.domain.conversation import ANY_CODE, FAULTY_TURNS, FINDING
from app.domain.reports import CorrectedFigure, Interval, Looks
from app.domain.summary import MeasureKey
from app.stats.corrected import (
    NO_RATINGS,
    Corrected,
    CorrectedSample,
    CorrectionOptions,
    Differing,
    Estimate,
    Shared,
    correct,
    differ_shared,
    find_interval,
    share_raters,
    show,
    split_width,
    tell_reversed,
    tell_shared,
)
from app.stats.gate_plan import PlannedRule, find_scale
from app.stats.observations import Integers, Mask
from app.stats.pairing import FOLDED, average_items, fold, list_measures, match_runs, number_items, number_units
from app.stats.resampling import find_quantile
from app.stats.severity import Said
from app.stats.statistics import adjust_holm, count, reach
from saiten.core.figures import find_digits, write_figure
from saiten.core.wording import tell_p

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
    def refused(self) -> str | None:
        """Why there is no difference, and of which run; None where there is one."""
        if self.difference is not None:
            return None
        for role, found in (("baseline", self.before), ("candidate", self.after)):
            if found is None or found.refused is not None:
                return f"{role} run: {NO_RATINGS if found is None or found.refused is None else found.refused}"
        return NO_RATINGS if self.shared is None or self.shared.refused is None else self.shared.refused

    def level(self, alpha: float) -> float:
        """The level of a test at alpha, at this look."""
        samples = [one.sample for one in (self.before, self.after) if one is not None]
        if self.shared is not None:
            samples = [self.shared.baseline, self.shared.candidate]
        return replace(self.options, alpha=alpha).settle(*samples).alpha if samples else alpha

    @property
    def notes(self) -> tuple[str, ...]:
        """Of either run that its judge goes against people."""
        sides = (("baseline", self.before), ("candidate", self.after))
        found = ((role, tell_reversed(one.sample)) for role, one in sides if one is not None)
        return tuple(f"{role} run: {told}" for role, told in found if told is not None)

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
    units = number_units(*matched.means, np.stack(matched.rows, axis=1))
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
    if rated.any() and np.ptp(frame.weights[held][rated]) > 0:
        weights = np.where(rated, frame.weights[held], np.nan)
    given = frame.said.get(key[1])
    said = None
    if given is not None and key[0] != "blended":
        said = Said(given.row, np.searchsorted(raters, given.rater), given.value).within(held)
    if key[0] in FOLDED and key[1] in best:
        scores, ratings = fold(scores, best[key[1]]), fold(ratings, best[key[1]])
        # Raters are averaged first: of one who says −1 and one who says 1 the mean is 0. No rate is below 0.
        if said is not None:
            said = replace(said, value=ratings[said.item] if key != MARKED else fold(said.value, best[key[1]]))
    return CorrectedSample(scores, ratings, homes[held], weights, said)


def list_correctable(*runs: ComparedRun) -> list[MeasureKey]:
    """Aspects, composites and faulty turns: people rate no blended values, and say no codes of findings."""
    return [key for key in list_measures(*runs) if key[0] in {"aspect", "composite"} or key == MARKED]


def name_measure(key: MeasureKey) -> str:
    """What reports call the measure."""
    return FAULTY_TURNS if key == MARKED else key[1]


def tell_notes(corrected: Mapping[str, CorrectedMeasure]) -> tuple[str, ...]:
    """The notes of all measures, each with its name."""
    return tuple(f"{name}, {note}" for name, one in corrected.items() for note in one.notes)


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
        baseline=None if pair.before is None else show(pair.before, pair.options),
        candidate=None if pair.after is None else show(pair.after, pair.options),
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
    """The difference that is found with 80 % power."""
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


Finding = tuple[str, str, str]
"""Code, verdict and detail of a reason."""


def judge_drop(one: PlannedRule, pair: CorrectedPair, told: CorrectedMeasure, alpha: float, tests: int) -> Finding:
    """Whether the corrected mean fell, or the rate of faulty turns rose, beyond chance, and as observed by more than is
    tolerated."""
    found, tolerated = pair.difference, one.rule.most or 0.0
    if one.key[0] == "blended":
        return "not-enough-data", "inconclusive", "people rate no blended values: there is nothing to correct by"
    if found is None or pair.before is None or pair.after is None:
        return "not-enough-data", "inconclusive", f"no corrected figure: {pair.refused}"
    ratings = f"{told.rated_baseline:,} and {count(told.rated_candidate, 'rating')} by people"
    if told.shared is not None:
        shared, raters = told.shared, count(told.shared.raters, "rater")
        ratings = f"{shared.baseline:,} and {count(shared.candidate, 'rating')} by {raters} of both runs"
    p = "" if told.p_adjusted is None else f"; {tell_p(told.p_adjusted)} after Holm over {tests}"
    rises = one.key == MARKED
    alone = tell_judge_alone(pair, rises=rises)
    figures = f"{tell_fall(found, p, tolerated, rises=rises)}, corrected by {ratings} (by the judge alone {alone})"
    if told.p_adjusted is None:
        return "not-enough-data", "inconclusive", f"{figures}: no spread, so that nothing can be told"
    if told.p_adjusted >= alpha:
        return weigh_evidence(one, found, told, figures, pair.level(alpha / tests))
    if -found.difference > tolerated:
        return (
            find_word(one),
            "fail",
            f"{figures}: beyond chance, and as observed more than the {tolerated:g} tolerated",
        )
    better = "better" if found.difference > 0 else f"as observed no more than the {tolerated:g} tolerated"
    return "held", "pass", f"{figures}: {better}"


def weigh_evidence(one: PlannedRule, found: Differing, told: CorrectedMeasure, figures: str, level: float) -> Finding:
    """No significant change: that means something only where a drop that matters would have been seen."""
    detectable, wanted = find_reach(found, level), one.must_detect or one.rule.most or 0.0
    shown = f"one of {write_figure(detectable)} would have been seen with 80 % power"
    seen = f"{figures}: no significant {find_word(one)}; {shown}"
    if detectable <= wanted:
        return "held", "pass", seen
    fewest = min(told.rated_baseline, told.rated_candidate)
    if told.shared is not None:
        fewest = min(told.shared.baseline, told.shared.candidate)
    needed = f": some {ceil(fewest * (detectable / wanted) ** 2):,} ratings of each run" if wanted else ""
    return "not-enough-data", "inconclusive", f"{seen}, and {wanted:g} must be{needed}"


def find_word(one: PlannedRule) -> str:
    """What a change for the worse is."""
    return "rise" if one.key == MARKED else "drop"


def tell_fall(found: Differing, p: str, tolerated: float, *, rises: bool) -> str:
    """What the mean did, with its interval and p; `rises` of a rate, that was compared by minus itself."""
    span, interval = "no interval", turn_round(found.interval) if rises else found.interval
    if interval is not None:
        span = f"interval {' to '.join(write_figure(end, signed=True) for end in interval)}"
    size = abs(found.difference)
    amount = write_figure(size, max(find_digits(size, 0.0, 3), find_digits(size, tolerated, 3)))
    word = "changed" if not float(amount) else "fell" if (found.difference < 0) != rises else "rose"
    return f"{word} by {amount} ({span}{p})"


def tell_judge_alone(pair: CorrectedPair, *, rises: bool) -> str:
    """The difference by the judge alone."""
    if pair.before is None or pair.after is None:
        return "–"
    difference = pair.after.judge.clustered.mean - pair.before.judge.clustered.mean
    return write_figure(0.0 - difference if rises else difference, signed=True)


def judge_minimum(one: PlannedRule, pair: CorrectedPair) -> Finding:
    """Whether the corrected mean reaches the minimum: it fails, and passes, only where that is shown."""
    least, found = one.rule.min_mean or 0.0, pair.after
    if one.key[0] == "blended":
        return "not-enough-data", "inconclusive", "people rate no blended values: there is nothing to correct by"
    if found is None or found.corrected is None:
        why = NO_RATINGS if found is None or found.refused is None else found.refused
        return "not-enough-data", "inconclusive", f"no corrected figure: {why}"
    own, rated = found.corrected.clustered, found.sample.rated
    options = pair.options.settle(found.sample)
    low, high = find_interval(found.corrected, options) or (own.mean, own.mean)
    figures = (
        f"the corrected mean is {write_figure(own.mean, find_digits(own.mean, least, 3))} ({write_figure(low)} to "
        f"{write_figure(high)}; {count(rated, 'rating')} by people; by the judge alone "
        f"{write_figure(found.judge.clustered.mean)}), at least {least:g} is asked for"
    )
    if len(found.sample.raters) == 1:
        return "not-enough-data", "inconclusive", f"{figures}: {ONE_RATER}"
    if own.mean < least and high < least:
        return "below-minimum", "fail", figures
    shortfall = one.shortfall or 0.0
    margin = found.corrected.find_margin(options.alpha, normal=False)
    power = reach(options.alpha, own.freedom) - find_quantile(own.freedom, options.alpha)
    detectable = margin + power * found.corrected.error
    if own.mean >= least and (low >= least or detectable <= shortfall):
        return "held", "pass", figures
    aim = shortfall if own.mean >= least else least - own.mean
    return (
        "not-enough-data",
        "inconclusive",
        f"{figures}: {tell_needed(found.corrected, options, rated, aim / detectable)}",
    )


ONE_RATER = "one person rated, and how severe this person is cannot be told: ratings by others are needed"


def tell_needed(estimate: Estimate, options: CorrectionOptions, rated: int, share: float) -> str:
    """What would make the interval as small as this share of itself."""
    if estimate.severity is None:
        return f"some {ceil(rated / share**2) if share else 0:,} ratings would tell"
    lasting, shrinking = split_width(estimate, options.alpha, estimate.clustered.freedom, normal=False)
    left = (share * estimate.find_margin(options.alpha, normal=False)) ** 2 - lasting
    if left <= 0:
        return "more ratings by the same raters would not tell: more raters are needed"
    return f"some {ceil(rated * shrinking / left):,} ratings would tell"


def join_reasons(one: PlannedRule, found: Sequence[Finding], notes: Sequence[str] = ()) -> GateReason:
    """The findings of one rule as a reason, with what a reader should know of the figures: the worst decides."""
    order = ("fail", "inconclusive", "pass")
    ranked = sorted(found, key=lambda finding: order.index(finding[1]))
    if not ranked:
        ranked = [("no-values", "inconclusive", "neither run has values")]
    code, verdict, _ = ranked[0]
    detail = "; ".join([*(finding[2] for finding in ranked), *notes])
    return GateReason.model_validate(
        {
            "code": code,
            "aspect": one.rule.aspect,
            "finding": one.rule.finding,
            "measure": one.rule.measure,
            "verdict": verdict,
            "detail": detail,
            "rule": one.number,
        }
    )
