"""Whether a judge rates the anchors as it did.

Two questions an aspect: do its ratings lie higher or lower than then (Wilcoxon's signed-rank test, paired by anchor),
and do more of them differ than its own noise explains (binomial test against the share of ratings that changed between
the stored runs)? Wilcoxon takes differences for symmetric and the binomial test the noise for known; of a judge that
wavers neither is true. So each p is at least that of the same question by exchange: had the judge not moved, the run
of now could as well have been any of the stored ones, anchor by anchor. Holm's correction is over all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low

import numpy as np

from app.analysis.differences import adjust_holm, test_paired
from app.analysis.observations import Floats
from app.domain.judge_check import AspectDrift

LEAST_NOISE = 0.02
"""Even a judge that repeated itself on every anchor changes one rating in fifty now and then."""

ROUNDING = 1e-9

Runs = Mapping[str, Sequence[int | None]]
"""Ratings of one aspect by anchor, one a run; None where the judge gave none."""


def measure_drift(then: Runs, now: Runs, intended: Mapping[str, int]) -> AspectDrift:
    """One aspect's drift, its p-values not yet adjusted. Of `now` the first run counts."""
    both = [anchor for anchor in then if then[anchor] and now.get(anchor)]
    if not both:
        why = "no anchor was asked for both then and now"
        return blank(dict.fromkeys(("shift", "p", "p_changed", "intended"), why))
    before, after = [then[anchor] for anchor in both], [now[anchor][0] for anchor in both]
    noise = max(LEAST_NOISE, share_changed(before))
    changed = sum(new != usual(old) for new, old in zip(after, before, strict=True))
    shift, p = measure_shift(before, after)
    asked = [anchor for anchor in both if anchor in intended]
    undefined = {} if asked else {"intended": "the anchors carry no ratings of this aspect"}
    if shift is None:
        undefined |= dict.fromkeys(("shift", "p"), "no anchor was rated both then and now")
    return AspectDrift(
        n=len(both),
        lost=sum(new is None and usual(old) is not None for new, old in zip(after, before, strict=True)),
        shift=shift,
        p=p,
        p_adjusted=None,
        changed=changed,
        noise=noise,
        p_changed=max(exceed(changed, len(both), noise), exchange_changes(before, after)),
        intended=sum(now[anchor][0] == intended[anchor] for anchor in asked) / len(asked) if asked else None,
        moved=False,
        undefined=undefined,
    )


def compare_anchors(
    then: Mapping[str, Runs], now: Mapping[str, Runs], intended: Mapping[str, Mapping[str, int]], *, alpha: float
) -> dict[str, AspectDrift]:
    """Every aspect's drift; all three arguments by aspect, then by anchor. A judge that did not move is found to have
    moved in at most `alpha` of all checks."""
    found = {name: measure_drift(runs, now.get(name, {}), intended.get(name, {})) for name, runs in then.items()}
    drifts = list(found.values())
    adjusted = adjust_holm([drift.p for drift in drifts] + [drift.p_changed for drift in drifts])
    return {
        name: drift.model_copy(
            update={
                "p_adjusted": shift,
                "p_changed": change,
                "moved": any(p is not None and p < alpha for p in (shift, change)),
            }
        )
        for (name, drift), shift, change in zip(
            found.items(), adjusted[: len(drifts)], adjusted[len(drifts) :], strict=True
        )
    }


def rated(runs: Sequence[int | None]) -> list[int]:
    """The runs that gave a rating."""
    return [rating for rating in runs if rating is not None]


def usual(runs: Sequence[int | None]) -> int | None:
    """What the runs mostly gave: their median, or None where most gave no rating."""
    ratings = rated(runs)
    return median_low(ratings) if 2 * len(ratings) > len(runs) else None


def share_changed(runs: Sequence[Sequence[int | None]]) -> float:
    """The share of runs that differ from what is usual on their anchor, over all anchors with several runs."""
    several = [ratings for ratings in runs if len(ratings) > 1]
    total = sum(len(ratings) for ratings in several)
    other = sum(rating != usual(ratings) for ratings in several for rating in ratings)
    return other / total if total else 0.0


def measure_shift(
    before: Sequence[Sequence[int | None]], after: Sequence[int | None]
) -> tuple[float | None, float | None]:
    """Mean now minus mean then with its p, over the anchors rated both times; None where there are none."""
    pairs = [(rated(old), new) for old, new in zip(before, after, strict=True) if rated(old) and new is not None]
    if not pairs:
        return None, None
    differences = np.array([new - np.mean(old) for old, new in pairs])
    p = max(test_paired(differences), exchange_shift(pairs))
    return float(differences.mean()), p


def exchange_shift(pairs: Sequence[tuple[Sequence[int], int]]) -> float:
    """The two-sided probability of a sum of ratings as far from what is expected, were `now` any of an anchor's runs.

    `pairs` are (ratings then, rating now). Anchors with a single stored rating say nothing here: it and that of now
    change places without a trace. 0 where all are such.
    """
    pooled = [[new, *old] for old, new in pairs if len(old) > 1]
    if not pooled:
        return 0.0
    chances, least = add_up(pooled)
    expected = sum(float(np.mean(ratings)) for ratings in pooled)
    away = np.abs(np.arange(least, least + len(chances)) - expected)
    return bound(chances[away >= abs(sum(ratings[0] for ratings in pooled) - expected) - ROUNDING])


def exchange_changes(before: Sequence[Sequence[int | None]], after: Sequence[int | None]) -> float:
    """The probability of as many changed anchors, were `now` any of an anchor's runs; 0 without several stored runs."""
    pooled = [[new, *old] for old, new in zip(before, after, strict=True) if len(old) > 1]
    if not pooled:
        return 0.0
    odd = [[int(run != usual([*runs[:at], *runs[at + 1 :]])) for at, run in enumerate(runs)] for runs in pooled]
    chances, least = add_up(odd)
    return bound(chances[sum(flags[0] for flags in odd) - least :])


def add_up(choices: Sequence[Sequence[int]]) -> tuple[Floats, int]:
    """The distribution of the sum of one value drawn from each of `choices`: probabilities of consecutive integers, and
    the first of these."""
    chances, least = np.ones(1), 0
    for values in choices:
        low = min(values)
        chances = np.convolve(chances, np.bincount(np.array(values) - low) / len(values))
        least += low
    return chances, least


def bound(chances: Floats) -> float:
    """Their sum, which rounding may take a little above 1."""
    return min(1.0, float(chances.sum()))


def exceed(changed: int, n: int, noise: float) -> float:
    """The probability of `changed` or more changes among `n`, each by `noise`."""
    from scipy.stats import binomtest

    return float(binomtest(changed, n, noise, alternative="greater").pvalue)


def blank(undefined: dict[str, str]) -> AspectDrift:
    """An aspect of which nothing can be said."""
    return AspectDrift(
        n=0,
        shift=None,
        p=None,
        p_adjusted=None,
        changed=0,
        noise=LEAST_NOISE,
        p_changed=None,
        intended=None,
        moved=False,
        undefined=undefined,
    )
