"""Two runs side by side: per measure whether the difference is real, how large it is, and what would have been seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from app.analysis.comparability import check_signatures
from app.analysis.differences import RESAMPLES, adjust_holm
from app.analysis.measure import align, describe, drop_missing, weigh
from app.analysis.pairing import Columns, MeasureKey, list_measures, pair_up, tabulate, values_of
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
    resamples: int = RESAMPLES,
) -> Comparison:
    """Every measure of two runs: Wilcoxon's signed-rank test on pairs, else Mann and Whitney's; Holm within a kind.

    Raises SignatureMismatch where the runs were not scored alike and that is not allowed, InvalidRequest where pairs
    are asked for and there are none. `seed` (0 or more) and `resamples` are the bootstrap's: only intervals depend on
    them.
    """
    pieces = check_signatures(baseline, candidate, allow_mismatch=allow_signature_mismatch)
    left, right = tabulate(baseline), tabulate(candidate)
    numbered = baseline.numbered or candidate.numbered
    pairing, left_rows, right_rows = pair_up(left, right, asked=test, numbered=numbered)
    measured: dict[MeasureKey, Measure] = {}
    for key in list_measures(baseline, candidate):
        ours, theirs = left.column(key), right.column(key)
        paired = pairing.test == "paired"
        sides = align(ours[left_rows], theirs[right_rows]) if paired else drop_missing(ours, theirs)
        # Each measure has its own generator: its interval does not depend on which others there are.
        generator = np.random.default_rng([seed, *"/".join(key).encode()])
        chance = weigh(sides, alpha=alpha, generator=generator, resamples=resamples)
        wins = compare_wins(candidate.name, baseline.name, sides.candidate, sides.baseline) if paired else None
        measured[key] = describe(key[0], sides, chance, wins)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        alpha=alpha,
        pairing=pairing,
        aspects=decide("aspect", measured, alpha),
        composites=decide("composite", measured, alpha),
        blended=decide("blended", measured, alpha),
        coverage={"baseline": cover_aspects(baseline), "candidate": cover_aspects(candidate)},
        signature_differences=pieces,
        notes=tuple(take_notes(baseline, candidate, left, right, pairing)),
    )


def decide(kind: Kind, measured: Mapping[MeasureKey, Measure], alpha: float) -> dict[str, Measure]:
    """The measures of one kind by name, adjusted by Holm among themselves, with their verdicts."""
    family = {name: measure for (own, name), measure in measured.items() if own == kind}
    adjusted = adjust_holm([measure.p for measure in family.values()])
    return {
        name: measure.model_copy(update={"p_adjusted": p, "verdict": judge(measure, p, alpha)})
        for (name, measure), p in zip(family.items(), adjusted, strict=True)
    }


def judge(measure: Measure, p_adjusted: float | None, alpha: float) -> Verdict:
    """Better or worse where the test is significant, and mean and ranks point the same way."""
    if p_adjusted is None or p_adjusted >= alpha or measure.difference is None:
        return "inconclusive"
    if measure.difference > 0 and measure.ranks_favour == "candidate":
        return "better"
    return "worse" if measure.difference < 0 and measure.ranks_favour == "baseline" else "inconclusive"


def cover_aspects(run: Run) -> RunCoverage:
    """How many of the run's verdicts there are, over all its aspects."""
    return cover(run, [("aspect", aspect) for aspect in run.aspects])


def cover(run: Run, measures: Sequence[MeasureKey]) -> RunCoverage:
    """How many of the run's values of these measures there are. A composite is there where all its aspects are."""
    candidates = max(run.expected, len(run.items))
    rated = sum(values_of(item, kind).get(name) is not None for item in run.items for kind, name in measures)
    expected = candidates * len(measures)
    share = rated / expected if expected else None
    return RunCoverage(candidates=candidates, rated=rated, expected=expected, share=share)


def take_notes(baseline: Run, candidate: Run, left: Columns, right: Columns, pairing: Pairing) -> Iterator[str]:
    """What a reader of the figures should know, a sentence each."""
    for role, run, columns in (("baseline", baseline, left), ("candidate", candidate, right)):
        if columns.repeated:
            yield f"{columns.repeated} items occur several times in the {role} run: each counts with its values' mean"
        if len({item for item, _ in columns.keys}) < len(columns.keys):
            yield f"items of the {role} run have several candidates: these are taken as independent"
        if run.items and not run.signatures:
            yield f"the {role} run carries no signature: nothing shows how it was scored"
    if pairing.contexts_differ:
        yield f"{pairing.contexts_differ} pairs have different dialogue contexts: they answer different things"
    for aspect, best in {**baseline.best, **candidate.best}.items():
        yield f"{aspect} is best at {best:g}: it is compared by minus its distance from that"
