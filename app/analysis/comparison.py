"""Two runs side by side: per measure whether the difference is real, how large it is, and what would have been seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from app.analysis.comparability import check_signatures
from app.analysis.differences import adjust_holm
from app.analysis.gate_plan import find_scale
from app.analysis.measure import Sides, align, describe, drop_missing, weigh
from app.analysis.observations import Integers
from app.analysis.pairing import (
    Columns,
    MeasureKey,
    are_comparable,
    find_shared_ids,
    list_measures,
    number_pairs,
    number_runs,
    pair_up,
    tabulate,
)
from app.analysis.statistics import count
from app.analysis.win_rates import compare_wins
from app.domain.comparison import ChosenTest, Comparison, Kind, Measure, Pairing, Run, RunCoverage, Verdict


def compare(
    baseline: Run,
    candidate: Run,
    *,
    alpha: float = 0.05,
    test: ChosenTest = "auto",
    allow_signature_mismatch: bool = False,
    seed: int = 0,
) -> Comparison:
    """Every measure of two runs: a sign-flip test on pairs, where `unpaired` is asked for a permutation test; Holm
    within a kind.

    Compared are items, each with the mean of its responses; the units of chance are their dialogues. Raises
    SignatureMismatch where the runs were not scored alike and that is not allowed, InvalidRequest where pairs are asked
    for and there are none. `seed` (0 or more) is that of the flips, where there are too many to try all.
    """
    pieces = check_signatures(baseline, candidate, allow_mismatch=allow_signature_mismatch)
    shared_ids = find_shared_ids(baseline, candidate)
    best = {**baseline.best, **candidate.best}
    left, right = tabulate(baseline, shared_ids, best), tabulate(candidate, shared_ids, best)
    numbered, comparable = baseline.numbered or candidate.numbered, are_comparable(baseline, candidate)
    pairing, *rows = pair_up(left, right, asked=test, numbered=numbered, comparable=comparable)
    paired = pairing.test == "paired"
    sides = arrange(baseline, candidate, (left, right), (rows[0], rows[1]), paired=paired)
    tests = Counter(kind for (kind, _), values in sides.items() if values.testable)
    measured: dict[MeasureKey, Measure] = {}
    for key, values in sides.items():
        # Each measure has its own generator: its p does not depend on which others there are.
        generator = np.random.default_rng([seed, *"/".join(key).encode()])
        chance = weigh(values, alpha=alpha, tests=tests[key[0]], generator=generator)
        wins = compare_wins(candidate.name, baseline.name, values.candidate, values.baseline) if paired else None
        measured[key] = describe(key[0], values, chance, wins, find_best(key, baseline, candidate))
    aspects = decide("aspect", measured, alpha)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        alpha=alpha,
        pairing=pairing,
        aspects=aspects,
        composites=decide("composite", measured, alpha),
        blended=decide("blended", measured, alpha),
        coverage={"baseline": cover_aspects(baseline), "candidate": cover_aspects(candidate)},
        signature_differences=pieces,
        notes=tuple(take_notes(baseline, candidate, (left, right), pairing, aspects)),
    )


def arrange(
    baseline: Run,
    candidate: Run,
    columns: tuple[Columns, Columns],
    rows: tuple[Integers, Integers],
    *,
    paired: bool,
) -> dict[MeasureKey, Sides]:
    """Each measure's values in both runs with their dialogues and scale; `rows` are the pairs' in either run."""
    left, right = columns
    found: dict[MeasureKey, Sides] = {}
    pairs = number_pairs(left, right, np.stack(rows, axis=1))
    ours, theirs = number_runs(left, right)
    for key in list_measures(baseline, candidate):
        scale = find_bounds(key, candidate) or find_bounds(key, baseline)
        if paired:
            found[key] = align(left, right, key, rows, clusters=pairs, scale=scale)
        else:
            found[key] = drop_missing(left, right, key, clusters=(ours, theirs), scale=scale)
    return found


def find_bounds(key: MeasureKey, run: Run) -> tuple[float, float] | None:
    """The ends of what a measure's values can be; a blended one knows none."""
    kind, name = key
    return None if kind == "blended" else find_scale(name, run)


def decide(kind: Kind, measured: Mapping[MeasureKey, Measure], alpha: float) -> dict[str, Measure]:
    """The measures of one kind by name, adjusted by Holm among themselves, with their verdicts."""
    family = {name: measure for (own, name), measure in measured.items() if own == kind}
    adjusted = adjust_holm([measure.p for measure in family.values()])
    return {
        name: measure.model_copy(update={"p_adjusted": p, "verdict": judge(measure, p, alpha)})
        for (name, measure), p in zip(family.items(), adjusted, strict=True)
    }


def judge(measure: Measure, p_adjusted: float | None, alpha: float) -> Verdict:
    """Better or worse where the test is significant. It is of the difference of the means: its sign says which."""
    if p_adjusted is None or p_adjusted >= alpha or not measure.difference:
        return "inconclusive"
    return "better" if measure.difference > 0 else "worse"


def cover_aspects(run: Run) -> RunCoverage:
    """How many of the run's verdicts there are, over all its aspects."""
    return cover(run, [("aspect", aspect) for aspect in run.aspects])


def cover(run: Run, measures: Sequence[MeasureKey]) -> RunCoverage:
    """How many of the run's values of these measures there are. A composite is there where all its aspects are."""
    candidates = max(run.expected, len(run.items))
    rated = sum(count_values(run, measure) for measure in measures)
    expected = candidates * len(measures)
    share = rated / expected if expected else None
    return RunCoverage(candidates=candidates, rated=rated, expected=expected, share=share)


def count_values(run: Run, measure: MeasureKey) -> int:
    """How many responses have a value of the measure."""
    values = run.columns.get(measure, ())
    return len(values) - values.count(None)


def find_best(key: MeasureKey, baseline: Run, candidate: Run) -> float | None:
    """The best value of an aspect on which it is not the highest."""
    kind, name = key
    return candidate.best.get(name, baseline.best.get(name)) if kind == "aspect" else None


def are_one(baseline: Run, candidate: Run) -> bool:
    """Whether a run is compared with itself: names are those of batches and files."""
    return baseline.name == candidate.name


def take_notes(
    baseline: Run,
    candidate: Run,
    columns: tuple[Columns, Columns],
    pairing: Pairing,
    aspects: Mapping[str, Measure],
) -> Iterator[str]:
    """What a reader of the figures should know, a sentence each."""
    if are_one(baseline, candidate):
        yield "baseline and candidate are the same run: this shows nothing of a change"
    for role, run, own in (("baseline", baseline, columns[0]), ("candidate", candidate, columns[1])):
        if own.averaged:
            yield (
                f"the {role} run has {count(own.responses, 'response')} to {count(len(own.keys), 'item')}, several to "
                f"{own.averaged:,} of them: each item counts once, with its responses' mean"
            )
        if run.items and not run.signatures:
            yield f"the {role} run carries no signature: nothing shows how it was scored"
    if pairing.contexts_differ:
        yield tell_contexts(pairing)
    for aspect, measure in aspects.items():
        if measure.best is not None:
            told = f"{aspect} is best at {measure.best:g}: it is compared by minus its distance from that"
            before, after = measure.baseline_rating_mean, measure.candidate_rating_mean
            known = before is not None and after is not None
            yield f"{told}; the mean rating is {before:.3f} before and {after:.3f} now" if known else told


def tell_contexts(pairing: Pairing) -> str:
    """That pairs need not answer the same."""
    pairs = count(pairing.contexts_differ, "pair")
    one = pairing.contexts_differ == 1
    told = "has different dialogue contexts and so answers" if one else "have different dialogue contexts and so answer"
    return f"{pairs} of {pairing.pairs:,} {told} different things"
