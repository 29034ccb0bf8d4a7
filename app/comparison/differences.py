"""Two runs compared on what both hold, measure by measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, isfinite
from typing import Any

import numpy as np

from saiten.core.figures import write_figure
from saiten.core.messages import Message
from saiten.core.wording import stands_still
from saiten_server.comparison.gate_plan import find_scale
from saiten_server.comparison.links.rules import LinkUse, weigh_responses, widen
from saiten_server.comparison.links.values import LinkMark
from saiten_server.comparison.pairing import FOLDED, ItemMeans, Paired, list_measures, match_runs
from saiten_server.comparison.values import (
    ChosenTest,
    ComparedRun,
    Comparison,
    ComparisonVerdict,
    Measure,
    Pairing,
    RunCoverage,
)
from saiten_server.core.conversation import ANY_CODE, FINDING, KIND
from saiten_server.core.errors import InvalidRequest, SignatureMismatch
from saiten_server.core.reports import PairedWins
from saiten_server.core.rubric import split_name
from saiten_server.core.signature import NONE, read_comparable
from saiten_server.runs.summary import Kind, MeasureKey
from saiten_server.stats import power, resampling, statistics
from saiten_server.stats.observations import Floats, Integers, Mask, count_keys, weigh_inversely
from saiten_server.stats.phrases import join_clauses, tell_count
from saiten_server.stats.severity import find_average
from saiten_server.stats.statistics import adjust_holm
from saiten_server.stats.win_rates import compare_wins


def compare(
    baseline: ComparedRun,
    candidate: ComparedRun,
    *,
    alpha: float = 0.05,
    test: ChosenTest = "auto",
    allow_signature_mismatch: bool = False,
    seed: int = 0,
    link: LinkUse | None = None,
) -> Comparison:
    """Every measure of two runs: a sign-flip test on pairs, where `unpaired` is asked for a permutation test; Holm
    within a kind.

    Compared are items, each with the mean of its responses; the units of chance are their dialogues. Raises
    SignatureMismatch where the runs were not scored alike and that is not allowed, InvalidRequest where pairs are asked
    for and there are none. `seed` (0 or more) is that of the flips, where there are too many to try all. With a `link`
    a run is on another judge's scale, and the linking error is in all figures of chance.
    """
    return compare_closely(
        baseline,
        candidate,
        alpha=alpha,
        test=test,
        allow_signature_mismatch=allow_signature_mismatch,
        seed=seed,
        link=link,
    )[0]


Chance = tuple[dict[str, Any], dict[str, Message]]
"""Figures by their names in `Measure`, and why those that are null are."""


def compare_closely(
    baseline: ComparedRun,
    candidate: ComparedRun,
    *,
    alpha: float,
    test: ChosenTest,
    allow_signature_mismatch: bool,
    seed: int,
    link: LinkUse | None,
) -> tuple[Comparison, Mapping[MeasureKey, Sides]]:
    """What `compare` says, and the values that it says it of."""
    if link is not None and any(run.frame.shares is not None for run in (baseline, candidate)):
        raise InvalidRequest(Message("link-of-uneven-sample"), pointer="/link")
    pieces = check_signatures(baseline, candidate, allow_mismatch=allow_signature_mismatch)
    matched = match_runs(baseline, candidate, asked=test)
    sides, runs = Arranged(baseline, candidate, matched), (baseline, candidate)
    tests = Counter(key[0] for key in sides if is_tested(sides[key], linked=link is not None))

    def measure(key: MeasureKey) -> Measure:
        values = sides[key]
        # Each measure has its own generator: its p does not depend on which others there are.
        generator = np.random.default_rng([seed, *"/".join(key).encode()])
        chance = test_difference(values, alpha=alpha, tests=tests[key[0]], generator=generator)
        if link is not None:
            chance = add_link(chance, key, values, link, matched=matched, runs=runs, alpha=alpha, tests=tests[key[0]])
        wins = None
        if values.paired and link is None and values.weights is None:
            counted = compare_wins(candidate.name, baseline.name, values.candidate, values.baseline)
            wins = widen_wins(counted, values)
        found = describe_measure(key[0], values, chance, wins, find_best(key, baseline, candidate))
        if values.weights is not None:
            return leave_ranks(found, UNEVEN)
        return found if link is None else leave_ranks(found, OFF_LEVELS)

    # One after the other, and no values of two at a time.
    measured = {key: measure(key) for key in sides}
    comparison = report_comparison(baseline, candidate, matched, measured, alpha=alpha, pieces=pieces, link=link)
    return with_faulty_turns(comparison), sides


def report_comparison(
    baseline: ComparedRun,
    candidate: ComparedRun,
    matched: Paired,
    measured: Mapping[MeasureKey, Measure],
    *,
    alpha: float,
    pieces: dict[str, tuple[str, str]],
    link: LinkUse | None,
) -> Comparison:
    """The comparison of what was measured, with its notes; `pieces` are those in which the signatures differ."""
    aspects = decide("aspect", measured, alpha)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        alpha=alpha,
        pairing=matched.pairing,
        aspects=aspects,
        composites=decide("composite", measured, alpha),
        blended=decide("blended", measured, alpha),
        findings={
            name.removeprefix(FINDING): unfold(measure) for name, measure in decide("finding", measured, alpha).items()
        },
        kinds={
            name.removeprefix(FINDING + KIND): unfold(measure)
            for name, measure in decide("kind", measured, alpha).items()
        },
        coverage={"baseline": cover_aspects(baseline), "candidate": cover_aspects(candidate)},
        signature_differences=pieces,
        notes=(
            *take_notes(baseline, candidate, matched, aspects),
            *(
                Message("measure-note", measure=name, note=measure.doubt)
                for (_, name), measure in measured.items()
                if measure.doubt
            ),
            *(tell_link(link.mark) if link else ()),
        ),
        link=link.mark if link else None,
    )


def is_tested(values: Sides, *, linked: bool) -> bool:
    """Whether there is a test of these values that any could have made significant."""
    return values.testable and (linked or not values.still)


def with_faulty_turns(comparison: Comparison) -> Comparison:
    """The comparison with its measure of faulty turns, which is that of findings of any code."""
    return comparison.model_copy(update={"faulty_turns": comparison.findings.get(ANY_CODE)})


def add_link(
    chance: Chance,
    key: MeasureKey,
    sides: Sides,
    link: LinkUse,
    *,
    matched: Paired,
    runs: tuple[ComparedRun, ComparedRun],
    alpha: float,
    tests: int,
) -> Chance:
    """The figures of `test_difference` with the linking error in them: the standard deviation of the difference over
    the link's resamples."""
    if not sides.n:
        return chance
    best = find_best(key, *runs)
    means: Floats | float = 0.0
    freedom = []
    for sign, run, own, values, chosen in zip(
        (-1, 1), runs, matched.means, (link.baseline, link.candidate), sides.rows, strict=True
    ):
        made_of = () if values is None else values.aspects_of(*key)
        if values is None or not made_of:
            continue
        held = (~np.isnan(run.frame.values[key])).astype(np.float64)
        weights = weigh_responses(own.row, held, chosen)
        means = means + sign * values.draw_means(*key, weights, best)
        freedom += [values.freedom[one] for one in made_of]
    if not freedom:
        return chance
    figures, undefined = chance
    moved = float(sides.candidate.mean() - sides.baseline.mean())
    error = float(np.std(means, ddof=1))
    return widen(
        figures, undefined, moved=moved, error=error, freedom=min(freedom), alpha=alpha, tests=tests, width=sides.width
    )


OFF_LEVELS = Message("off-levels")


UNEVEN = Message("uneven-sample")


def leave_ranks(measure: Measure, why: Message) -> Measure:
    """The measure without what compares single values: a level and a linked one are hardly ever equal, and
    conversations sampled with different probabilities do not count the same."""
    undefined = {**measure.undefined, "cliffs_delta": why, "wins": why}
    return measure.model_copy(
        update={"wins": None, "cliffs_delta": None, "ranks_favour": "neither", "undefined": undefined}
    )


def tell_link(mark: LinkMark) -> Iterator[Message]:
    """That runs are linked, and what could not be."""
    which = "both-runs" if len(mark.runs) > 1 else f"{mark.runs[0]}-run"
    yield join_clauses([Message(f"linked-{which}", link=mark.id), Message("link-error-included")])
    for aspect, reason in mark.refused.items():
        yield Message("not-linked", aspect=aspect, reason=reason)


KEPT_VALUES = 4_000_000
"""Of all measures of two runs: of more than that, each measure is read again whenever it is looked at."""


class Arranged(Mapping[MeasureKey, "Sides"]):
    """Each measure's values in both runs with their dialogues and scale: one measure's at a time in memory where they
    are many."""

    def __init__(self, baseline: ComparedRun, candidate: ComparedRun, matched: Paired) -> None:
        self._runs, self._means = (baseline, candidate), matched.means
        self._paired = matched.pairing.test == "paired"
        self._rows: list[Integers | slice] = [slice(None), slice(None)]
        self._places = matched.rows if self._paired else tuple(np.arange(len(own)) for own in matched.means)
        if self._paired:
            # Pairs are in the baseline's order: where all its items have a partner, they are its items.
            whole = len(matched.rows[0]) == len(matched.means[0])
            self._rows = [slice(None) if whole else matched.rows[0], matched.rows[1]]
        # The two items of a pair are of one unit.
        self._clusters = [matched.units[0][self._rows[0]]] * 2 if self._paired else [*matched.units]
        self._weights = weigh_sides(matched.means, self._rows, paired=self._paired)
        self._measures = dict.fromkeys(list_measures(baseline, candidate))
        self._keeps = len(self._measures) * sum(map(len, self._clusters)) <= KEPT_VALUES
        self._kept: dict[MeasureKey, Sides] = {}

    def __getitem__(self, key: MeasureKey) -> Sides:
        if key not in self._measures:
            raise KeyError(key)
        found = self._kept.get(key) or self._arrange(key)
        if self._keeps:
            self._kept[key] = found
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._measures

    def __iter__(self) -> Iterator[MeasureKey]:
        return iter(self._measures)

    def __len__(self) -> int:
        return len(self._measures)

    def _arrange(self, key: MeasureKey) -> Sides:
        kind, name = key
        baseline, candidate = self._runs
        values = [own.column(key)[taken] for own, taken in zip(self._means, self._rows, strict=True)]
        ratings = [
            own.rating_column(key)[taken] if key in own.unfolded else folded
            for own, taken, folded in zip(self._means, self._rows, values, strict=True)
        ]
        held = [~np.isnan(side) for side in values]
        if self._paired:
            held = [held[0] & held[1]] * 2
        left, right = map(choose_values, values, held)
        # What a blended measure's values can be is not known.
        scale = None if kind == "blended" else find_scale(name, candidate) or find_scale(name, baseline)
        weights = None if self._weights is None else tuple(map(choose_values, self._weights, held))
        clusters, chosen, rows = (
            tuple(map(choose_values, each, held)) for each in (self._clusters, ratings, self._places)
        )
        return Sides(
            left,
            right,
            self._paired,
            clusters=(clusters[0], clusters[1]),
            ratings=(chosen[0], chosen[1]),
            bounds=keep_scale(scale, left, right),
            rows=(rows[0], rows[1]),
            weights=None if weights is None else (weights[0], weights[1]),
        )


def weigh_sides(means: Sequence[ItemMeans], rows: Sequence[Integers | slice], *, paired: bool) -> list[Floats] | None:
    """What the items count for, by the inverse of the probabilities with which they were sampled: None where all of a
    run count the same. The two items of a pair count for the same, by the smaller probability."""
    found = [own.frame.probability[taken] for own, taken in zip(means, rows, strict=True)]
    if paired:
        found = [np.minimum(*found)] * 2
    weights = [weigh_inversely(each) for each in found]
    if all(each is None for each in weights):
        return None
    return [np.ones(len(each)) if own is None else own for own, each in zip(weights, found, strict=True)]


def choose_values(values: Any, held: Mask) -> Any:
    """Those of the values that are held: themselves, where all are."""
    return values if held.all() else values[held]


def decide(kind: Kind, measured: Mapping[MeasureKey, Measure], alpha: float) -> dict[str, Measure]:
    """The measures of one kind by name, adjusted by Holm among themselves, with their verdicts."""
    family = {name: measure for (own, name), measure in measured.items() if own == kind}
    return {
        name: measure.model_copy(update={"p_adjusted": p, "verdict": judge_measure(measure, p, alpha)})
        for (name, measure), p in zip(family.items(), adjust_measures(family.values()), strict=True)
    }


def adjust_measures(family: Iterable[Measure | None]) -> list[float | None]:
    """p by Holm over the measures of which a value differs. Of one without, no test could be significant, whatever is
    true, so that it takes nothing from the others (Tarone 1990), and its own p, 1, stays."""
    own = [(None if one is None else one.p, one is not None and stands_still(one)) for one in family]
    adjusted = adjust_holm([None if still else p for p, still in own])
    return [p if still else found for (p, still), found in zip(own, adjusted, strict=True)]


def judge_measure(measure: Measure, p_adjusted: float | None, alpha: float) -> ComparisonVerdict:
    """Better or worse where the test is significant. It is of the difference of the means: its sign says which."""
    if p_adjusted is None or p_adjusted >= alpha or not measure.difference:
        return "inconclusive"
    return "better" if measure.difference > 0 else "worse"


def cover_aspects(run: ComparedRun) -> RunCoverage:
    """How many of the run's verdicts there are, over all its aspects."""
    return cover(run, [("aspect", aspect) for aspect in run.aspects])


def cover(run: ComparedRun, measures: Sequence[MeasureKey]) -> RunCoverage:
    """How many of the run's values of these measures there are. A composite is there where all its aspects are."""
    frame = run.frame
    candidates = max(run.expected, len(frame))
    columns = (frame.values[measure] for measure in measures if measure in frame.values)
    rated = sum(int(np.count_nonzero(~np.isnan(values))) for values in columns)
    expected = candidates * len(measures) - sum(frame.inapplicable.get(name, 0) for _, name in measures)
    share = rated / expected if expected else None
    return RunCoverage(candidates=candidates, rated=rated, expected=expected, share=share)


def find_best(key: MeasureKey, baseline: ComparedRun, candidate: ComparedRun) -> float | None:
    """The best value of a measure on which it is not the highest."""
    kind, name = key
    return candidate.best.get(name, baseline.best.get(name)) if kind in FOLDED else None


def unfold(measure: Measure) -> Measure:
    """A rate of findings as it is, of which less is better, where it was compared by minus its distance from 0."""
    interval = measure.interval
    return measure.model_copy(
        update={
            "baseline_mean": measure.baseline_rating_mean,
            "candidate_mean": measure.candidate_rating_mean,
            "difference": None if measure.difference is None else 0.0 - measure.difference,
            "interval": None if interval is None else (0.0 - interval[1], 0.0 - interval[0]),
            "cliffs_delta": None if measure.cliffs_delta is None else 0.0 - measure.cliffs_delta,
            "best": None,
        }
    )


def take_notes(
    baseline: ComparedRun, candidate: ComparedRun, matched: Paired, aspects: Mapping[str, Measure]
) -> Iterator[Message]:
    """What a reader of the figures should know, a sentence each."""
    if baseline.name == candidate.name:
        yield Message("same-run")
    for role, run, own in (("baseline", baseline, matched.means[0]), ("candidate", candidate, matched.means[1])):
        if averaged := int(np.count_nonzero(np.bincount(own.row) > 1)):
            items = tell_count(len(own), "item")
            yield Message(f"{role}-averaged", responses=len(own.row), items=items, averaged=averaged)
        if len(run.frame) and not run.signatures:
            yield Message(f"{role}-unsigned")
    if matched.pairing.contexts_differ:
        yield tell_contexts(matched.pairing)
    for aspect, measure in aspects.items():
        if measure.best is not None:
            note = [Message("best-at", aspect=aspect, best=measure.best)]
            before, after = measure.baseline_rating_mean, measure.candidate_rating_mean
            if before is not None and after is not None:
                figures = {"before": write_figure(before), "after": write_figure(after)}
                note.append(Message("mean-ratings-now", **figures))
            yield join_clauses(note)


def tell_contexts(pairing: Pairing) -> Message:
    """That pairs need not answer the same."""
    name = "one-context-differs" if pairing.contexts_differ == 1 else "contexts-differ"
    return Message(name, differing=pairing.contexts_differ, pairs=pairing.pairs)


OF_TEST = ("p", "p_adjusted", "smallest_detectable")
OF_CHANCE = (*OF_TEST, "interval", "standard_error", "freedom")
SAME = Message("same-values")
TOO_WIDE = Message("too-wide")


TOO_SKEWED = Message("too-skewed")

NO_ROWS: Integers = np.empty(0, dtype=np.int64)
NO_VALUES: Floats = np.empty(0)


@dataclass(frozen=True)
class Sides:
    """One measure's values in both runs, without those missing; row by row each other's where `paired`.

    `clusters` numbers the dialogue of each value, of both runs alike where `paired`. `ratings` are the values before
    they were turned into distances from the best one. Of both the baseline's come first. `bounds` are the ends of the
    scale, None where it is not known or values lie beyond it. `weights` are what values count for, on average about 1,
    None where all of a run count the same.
    """

    baseline: Floats
    candidate: Floats
    paired: bool
    clusters: tuple[Integers, Integers]
    ratings: tuple[Floats, Floats]
    bounds: tuple[float, float] | None = None
    rows: tuple[Integers, Integers] = (NO_ROWS, NO_ROWS)
    weights: tuple[Floats, Floats] | None = None

    @property
    def n(self) -> int:
        return min(len(self.baseline), len(self.candidate))

    @cached_property
    def differences(self) -> Floats:
        """Candidate minus baseline by pair, shape (n,)."""
        return statistics.level(self.candidate - self.baseline)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many clusters there are of the baseline's values, and of the candidate's."""
        ours, theirs = map(count_keys, self.clusters)
        return ours, theirs

    @property
    def units(self) -> int:
        """How many clusters there are: of the pairs, or of the run that has fewer."""
        return min(self.sizes)

    @property
    def still(self) -> bool:
        """Whether no value differs: in no pair, or, unpaired, between all values of both runs."""
        if self.paired:
            return not np.any(self.differences)
        both = statistics.level(np.concatenate([self.baseline, self.candidate]))
        return not len(both) or bool(np.ptp(both) == 0)

    @property
    def testable(self) -> bool:
        return self.units >= resampling.FEWEST_TEST_CLUSTERS

    @property
    def width(self) -> float | None:
        """How much a value can change by."""
        return None if self.bounds is None else self.bounds[1] - self.bounds[0]

    @cached_property
    def weighed(self) -> Weighed:
        """What the clusters say; there are values."""
        return weigh_pairs(self) if self.paired else weigh_runs(self)

    def find_rooms(self, *, falls: bool) -> list[tuple[float, int]]:
        """By how much clusters that are not in the sample may have changed against a mean that falls, or rises, and of
        how many clusters that are there: of the pairs, or of each run. Where the scale is not known, by the values that
        are there."""
        low, high = self.bounds or (
            min(float(self.baseline.min()), float(self.candidate.min())),
            max(float(self.baseline.max()), float(self.candidate.max())),
        )
        before, after = self.means
        if self.paired:
            units = min(self.seen)
            return [(max(0.0, high - before if falls else before - low), units)]
        rooms = (before - low, high - after) if falls else (high - before, after - low)
        return [(max(0.0, room), units) for room, units in zip(rooms, self.seen, strict=True)]

    @property
    def means(self) -> tuple[float, float]:
        """The mean of each run; there are values."""
        weights = (None, None) if self.weights is None else self.weights
        return find_average(self.baseline, weights[0]), find_average(self.candidate, weights[1])

    @property
    def seen(self) -> tuple[int, int]:
        """How many clusters there are; with weights how many of one size they are worth, since what is not in the
        sample need not be of those that count little."""
        if self.weights is None:
            return self.sizes
        worth = (
            resampling.find_effective(resampling.add_up(own, codes)[0])
            for own, codes in zip(self.weights, self.clusters, strict=True)
        )
        before, after = (max(1, floor(each)) for each in worth)
        return before, after


def keep_scale(scale: tuple[float, float] | None, *values: Floats) -> tuple[float, float] | None:
    """The scale where all values are on it."""
    if scale is None or not scale[0] < scale[1]:
        return None
    reached = [side for side in values if len(side)]
    on_it = all(
        side.min() >= scale[0] - resampling.MEAN_ROUNDING and side.max() <= scale[1] + resampling.MEAN_ROUNDING
        for side in map(statistics.level, reached)
    )
    return scale if on_it else None


def test_difference(sides: Sides, *, alpha: float, tests: int, generator: np.random.Generator) -> Chance:
    """The test, the interval at 1 − alpha, and the difference that is detectable at alpha / tests, by the names of
    `Measure`; and why figures are null."""
    if not sides.n:
        why = Message("no-complete-pairs" if sides.paired else "run-without-values")
        return dict.fromkeys(OF_CHANCE), dict.fromkeys(OF_CHANCE, why)
    level = alpha / max(1, tests)
    flips = resampling.count_flips(level)
    weighed = sides.weighed
    estimate = estimate_difference(sides, alpha)
    undefined: dict[str, Message] = {}
    if estimate.interval is None:
        undefined = dict.fromkeys(("interval", "smallest_detectable"), explain_no_spread(sides, estimate.reason))
    if sides.units == 1:
        undefined |= dict.fromkeys(("standard_error", "freedom"), resampling.ONE_CLUSTER)
    if not sides.testable:
        undefined |= dict.fromkeys(OF_TEST, explain_few(sides))
    elif "smallest_detectable" not in undefined:
        undefined |= explain_unseen(sides, level, flips)
    reached = None if "smallest_detectable" in undefined else find_reached(sides, level)
    if reached is not None and (not isfinite(reached) or (sides.width is not None and reached > sides.width)):
        reached, undefined["smallest_detectable"] = None, TOO_WIDE
    figures = {
        "p": None,
        "p_adjusted": None,
        "smallest_detectable": reached,
        "interval": estimate.interval,
        "standard_error": weighed.error if sides.units > 1 else None,
        "freedom": weighed.freedom if sides.units > 1 else None,
        "differing": weighed.differing,
    }
    return {**figures, **(find_p(sides, alpha, generator, level) if sides.testable else {})}, undefined


def explain_unseen(sides: Sides, level: float, flips: int) -> dict[str, Message]:
    """Why it cannot be told what difference would be seen, if so."""
    differing = sides.weighed.differing
    unreachable = resampling.explain_unreachable(level)
    if unreachable is not None:
        return {"smallest_detectable": unreachable}
    units = tell_count(sides.units, "dialogue" if sides.units < sides.n else "item")
    if resampling.find_least_p(flips, *sides.sizes[sides.paired :]) >= level:
        return {"smallest_detectable": Message("too-few-units", units=units, level=level)}
    if differing < resampling.FEWEST_TEST_CLUSTERS:
        return {"smallest_detectable": Message("too-few-differ-to-tell", differing=differing, units=units)}
    return {}


def estimate_difference(sides: Sides, alpha: float) -> resampling.IntervalEstimate:
    """The difference of the means with its interval at 1 − alpha, which reaches as far as clusters that may be missing
    would move the mean."""
    weighed, weighted = sides.weighed, sides.weights is not None
    if sides.paired:
        rises, falls, counts = weighed.sums
        found = resampling.estimate_paired(rises, falls, counts, width=sides.width, alpha=alpha, weighted=weighted)
    else:
        before, after = weighed.runs
        found = resampling.estimate_unpaired(before, after, bounds=sides.bounds, alpha=alpha, weighted=weighted)
    if found.interval is None or sides.width is None:
        return found
    down, up = (
        max(
            resampling.find_unseen_shift(weighed.mean, weighed.error, room, units, alpha)
            for room, units in sides.find_rooms(falls=falls)
        )
        for falls in (False, True)
    )
    low, high = min(found.interval[0], weighed.mean - down), max(found.interval[1], weighed.mean + up)
    return replace(found, interval=resampling.clip_interval(low, high, (-sides.width, sides.width)))


def find_p(sides: Sides, alpha: float, generator: np.random.Generator, level: float) -> dict[str, Any]:
    """p by the flips or permutations, or by what they do not see where that makes it larger; and whether it is why the
    difference is not shown at this alpha. `level` is the least that p is compared with, alpha shared by all tests."""
    weighed, flips = sides.weighed, resampling.count_flips(level)
    if sides.paired:
        rises, falls, counts = weighed.sums
        signs = resampling.flip_signs(rises - falls, counts, generator, flips=flips)
    else:
        ours, theirs = weighed.cluster_sums
        signs = resampling.permute_runs(ours, theirs, generator, flips=flips)
    if not weighed.mean:
        return {"p": signs}
    beyond = resampling.find_beyond(level)
    skewed = resampling.find_skewed_p(weighed.mean, weighed.parts, weighed.freedom, beyond=beyond)
    unseen = max(
        resampling.find_unseen_p(weighed.mean, weighed.error, room, units)
        for room, units in sides.find_rooms(falls=weighed.mean < 0)
    )
    p = max(signs, skewed, unseen)
    return {"p": p, "doubt": TOO_SKEWED if signs < alpha <= p else ""}


def find_reached(sides: Sides, level: float) -> float:
    """The smallest drop of the mean that such values show with 80% power at this two-sided level; infinite where they
    show none."""
    weighed = sides.weighed
    least = max(
        resampling.find_least_mean(level, weighed.error, room, units) for room, units in sides.find_rooms(falls=True)
    )
    margin = least + statistics.find_power_quantile(weighed.freedom) * weighed.error if least else 0.0
    if not sides.paired:
        return max(margin, statistics.reach(level, weighed.freedom) * weighed.error)
    rises, falls, counts = weighed.sums
    found = power.find_detectable(rises - falls, counts, level=level, freedom=weighed.freedom, error=weighed.error)
    return max(margin, found)


@dataclass(frozen=True)
class Weighed:
    """What the clusters of two runs say of the difference of the means, candidate minus baseline.

    `parts`, shape (clusters,), are what the clusters contribute to its standard error `error`, of which `freedom` has
    the degrees. `differing` are the clusters that differ between the runs; unpaired, those whose mean is not the most
    frequent one. Paired, `sums` are rises, falls and numbers of pairs by cluster; unpaired, `cluster_sums` are sums and
    numbers of values by cluster of either run, and `runs` their means. `effective` is how many clusters of one size
    these are worth, of the run with fewer.
    """

    mean: float
    error: float
    freedom: float
    parts: Floats
    differing: int
    effective: float
    sums: tuple[Floats, Floats, Floats] = (NO_VALUES, NO_VALUES, NO_VALUES)
    cluster_sums: tuple[tuple[Floats, Floats], ...] = ()
    runs: tuple[resampling.Clustered, ...] = ()


def weigh_pairs(sides: Sides) -> Weighed:
    """Pairs by cluster."""
    moved = sides.differences
    own = None if sides.weights is None else sides.weights[0]
    rises, falls, counts = resampling.add_up_moves(moved, sides.clusters[0], own)
    found = resampling.describe_clusters(rises - falls, counts)
    differing = int(np.count_nonzero(statistics.level(rises - falls)))
    # Clusters that all change alike have no spread, but a mean.
    return Weighed(
        found.mean,
        found.error,
        found.freedom,
        found.parts,
        differing,
        resampling.find_effective(counts),
        (rises, falls, counts),
    )


def weigh_runs(sides: Sides) -> Weighed:
    """Two runs whose items are not paired, by cluster."""
    values = statistics.level(sides.baseline), statistics.level(sides.candidate)
    weights = sides.weights or (None, None)
    ours, theirs = (resampling.add_up(*each) for each in zip(values, sides.clusters, weights, strict=True))
    before, after = resampling.describe_clusters(*ours), resampling.describe_clusters(*theirs)
    error = resampling.join_errors(before, after)
    freedom = resampling.join_freedom(before, after) if error else float(max(1, sides.units - 1))
    means = statistics.level(np.concatenate([sums / counts for sums, counts in (ours, theirs)]))
    differing = len(means) - int(np.unique(means, return_counts=True)[1].max())
    parts = np.concatenate([-before.parts, after.parts])
    mean = after.mean - before.mean
    effective = min(resampling.find_effective(counts) for _, counts in (ours, theirs))
    return Weighed(mean, error, freedom, parts, differing, effective, cluster_sums=(ours, theirs), runs=(before, after))


def explain_few(sides: Sides) -> Message:
    """Why there is no test."""
    needed = Message("test-needs" if sides.paired else "test-needs-of-each-run", units=resampling.FEWEST_TEST_CLUSTERS)
    return join_clauses([needed, Message("there-is-one" if sides.units == 1 else "there-are", units=sides.units)])


def explain_no_spread(sides: Sides, reason: Message | None) -> Message:
    """Why values without any spread have no interval. There is a p all the same: a test needs none."""
    if sides.baseline[0] == sides.candidate[0] and not (
        np.any(sides.differences) if sides.paired else np.ptp(sides.baseline) or np.ptp(sides.candidate)
    ):
        return SAME
    if reason is not None and (sides.units == 1 or sides.units < sides.n):
        return reason
    return Message("equal-differences" if sides.paired else "equal-values-of-a-side")


def describe_measure(
    kind: Kind,
    sides: Sides,
    chance: Chance,
    wins: PairedWins | None,
    best: float | None,
) -> Measure:
    """The measure, not yet adjusted and without a verdict."""
    figures, undefined = chance
    weights = sides.weights or (None, None)
    before, after = find_mean(sides.baseline, weights[0]), find_mean(sides.candidate, weights[1])
    effect = tidy(statistics.find_cliffs_delta(sides.baseline, sides.candidate)) if sides.n else None
    return Measure(
        kind=kind,
        test="sign-flip" if sides.paired else "permutation",
        n=sides.n,
        n_baseline=len(sides.baseline),
        n_candidate=len(sides.candidate),
        clusters=sides.units,
        clusters_baseline=sides.sizes[0],
        clusters_candidate=sides.sizes[1],
        baseline_mean=before,
        candidate_mean=after,
        difference=None if before is None or after is None else tidy(after - before),
        **figures,
        cliffs_delta=effect,
        verdict="inconclusive",
        wins=wins,
        best=best,
        baseline_rating_mean=find_mean(sides.ratings[0], weights[0]),
        candidate_rating_mean=find_mean(sides.ratings[1], weights[1]),
        ranks_favour="neither" if not effect else "candidate" if effect > 0 else "baseline",
        undefined={**undefined, **explain_undefined(sides, wins)},
    )


def widen_wins(wins: PairedWins, sides: Sides) -> PairedWins:
    """The same wins with intervals over dialogues, where several pairs share one."""
    if not wins.contexts or sides.units == sides.n:
        return wins
    signs, clusters = np.sign(sides.differences), sides.clusters[0]
    decided = signs != 0
    preference = estimate_share((signs > 0)[decided], clusters[decided]) if decided.any() else None
    shares = {"a_wins": signs > 0, "b_wins": signs < 0, "ties": ~decided}
    found = {
        name: getattr(wins, name).model_copy(update={"interval": estimate_share(chosen, clusters)})
        for name, chosen in shares.items()
    }
    return wins.model_copy(update={**found, "preference_interval": preference})


def estimate_share(chosen: Mask, clusters: Integers) -> tuple[float, float]:
    """The 95% interval of the share of pairs that are chosen, of which `clusters` number the dialogues."""
    sums, counts = resampling.add_up(chosen.astype(np.float64), clusters)
    interval = resampling.estimate_mean(sums, counts, bounds=(0.0, 1.0)).interval
    # Where dialogues do not differ in it, each tells as much as one pair.
    return interval or resampling.find_wilson(
        float(chosen.mean()), len(sums), resampling.find_quantile(max(1, len(sums) - 1), 0.05)
    )


def explain_undefined(sides: Sides, wins: PairedWins | None) -> dict[str, Message]:
    """Why figures that need no test are null."""
    why = Message("no-complete-pairs" if sides.paired else "the-run-has-no-values")
    undefined: dict[str, Message] = {}
    for side, values in (("baseline", sides.baseline), ("candidate", sides.candidate)):
        if not len(values):
            undefined |= dict.fromkeys((f"{side}_mean", f"{side}_rating_mean"), why)
    if not sides.n:
        undefined |= dict.fromkeys(
            ("difference", "cliffs_delta"), why if sides.paired else Message("run-without-values")
        )
    if wins is None:
        undefined["wins"] = Message("not-paired")
    return undefined


def find_mean(values: Floats, weights: Floats | None = None) -> float | None:
    """The mean, by weights if any; None of nothing."""
    return tidy(find_average(values, weights)) if len(values) else None


def tidy(figure: float) -> float:
    """The figure without the noise of adding: 0.30000000000000004 is 0.3, and −0 is 0."""
    return round(figure, 12) + 0.0


RUBRIC = "rubric"
"""The piece that is the rubric's name; where no result carries a signature it is compared all the same."""

UNSIGNED = "signature"
"""The piece that differs where one run's results carry a signature and the other's do not."""


def find_differences(baseline: ComparedRun, candidate: ComparedRun) -> dict[str, tuple[str, str]]:
    """The pieces in which the runs differ, or in which one run differs from itself: both runs' values, by piece.
    Several values within a run are joined by a comma. A run without any value differs from nothing: if everything
    failed, coverage is what is missing."""
    ours, theirs = gather_pieces(baseline.signatures), gather_pieces(candidate.signatures)
    valued = baseline.frame.valued and candidate.frame.valued
    if valued and bool(ours) != bool(theirs):
        return {UNSIGNED: (format_values(baseline.signatures), format_values(candidate.signatures))}
    if valued and not ours and baseline.rubric != candidate.rubric:
        return {RUBRIC: (baseline.rubric or NONE, candidate.rubric or NONE)}
    alone = not (valued and ours and theirs)
    found: dict[str, tuple[str, str]] = {}
    for key in dict.fromkeys([*ours, *theirs]):
        left, right = ours.get(key, {NONE: None}), theirs.get(key, {NONE: None})
        mixed = len(left) > 1 or len(right) > 1
        if mixed or (not alone and list(left) != list(right)):
            found[key] = (format_values(left), format_values(right))
    return found


def check_signatures(
    baseline: ComparedRun, candidate: ComparedRun, *, allow_mismatch: bool
) -> dict[str, tuple[str, str]]:
    """The differing pieces; raises SignatureMismatch where there are any and that was not allowed. Where the rubric's
    version is among them it says how to score by the baseline's."""
    pieces = find_differences(baseline, candidate)
    if pieces and not allow_mismatch:
        advice = advise(pieces)
        if len(pieces) == 1:
            raise SignatureMismatch(
                Message("runs-not-alike-in-one", name=", ".join(pieces), advice=advice), pieces=pieces
            )
        raise SignatureMismatch(Message("runs-not-alike", names=", ".join(pieces), advice=advice), pieces=pieces)
    return pieces


def refuse_mixed(candidate: ComparedRun) -> None:
    """Raises SignatureMismatch where the results of one run were not all made in the same way."""
    mixed = {
        key: (NONE, format_values(values))
        for key, values in gather_pieces(candidate.signatures).items()
        if len(values) > 1
    }
    if mixed:
        raise SignatureMismatch(
            Message("candidate-not-alike", names=", ".join(mixed)),
            pieces=mixed,
        )


def advise(pieces: Mapping[str, tuple[str, str]]) -> Message | str:
    """Further advice if the runs were scored by different versions of one rubric, else empty."""
    before, after = pieces.get(RUBRIC, (NONE, NONE))
    (known, old), (other, new) = split_name(before), split_name(after)
    if known != other or old is None or new is None:
        return ""
    return Message("score-as-baseline", rubric=before)


def gather_pieces(signatures: Iterable[str]) -> dict[str, dict[str, None]]:
    """By piece the values that occur, each once, sorted; a signature that lacks a piece counts with `-`."""
    read = [read_comparable(signature) for signature in signatures]
    keys = dict.fromkeys(key for pieces in read for key in pieces)
    return {key: dict.fromkeys(sorted({pieces.get(key, NONE) for pieces in read})) for key in keys}


def format_values(values: Mapping[str, object]) -> str:
    """Values in one text."""
    return ", ".join(values) or NONE
