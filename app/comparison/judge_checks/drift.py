"""Tests whether a judge still rates the anchors as before.

Two questions per aspect, and for all aspects together: are its ratings higher or lower than the stored ones, and do
more of them differ than its own noise explains? Both use one exchange test: if the judge has not moved, the current and
the stored runs of an anchor are exchangeable. All aspects of an anchor are exchanged together, since one reply may hold
them all. The p-values are adjusted by the smallest p of each exchange (Westfall and Young 1993, min-p), so that a judge
that has not moved is found to have moved in at most `alpha` of all checks.

For a judge that repeats itself exactly, a single changed rating would be significant. A finding therefore also needs
more changes than one in fifty (`LEAST_NOISE`) explains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist, median_low

import numpy as np

from saiten.core.messages import Message
from saiten_server.comparison.judge_checks.values import AspectDrift, PooledDrift
from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.statistics import DECIMALS, POWER

LEAST_NOISE = 0.02
"""Even a judge that repeated itself on every anchor changes one rating in fifty now and then."""

WORTH = 0.05
"""Changes count if `LEAST_NOISE` explains so many with less than this probability."""

DRAWS = 10_000
MOST_SPLITS = 500
"""Ways to divide an anchor's runs into stored ones and those of now up to which all are drawn from."""

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

Runs = Mapping[str, Sequence[int | None]]
"""Ratings of one aspect by anchor, one per run; None where the judge gave none."""


def compare_anchors(
    then: Mapping[str, Runs],
    now: Mapping[str, Runs],
    intended: Mapping[str, Mapping[str, int]],
    *,
    alpha: float,
    seed: int = 0,
) -> tuple[dict[str, AspectDrift], PooledDrift]:
    """Every aspect's drift, and that of all together. The first three arguments are by aspect, then by anchor. A judge
    that did not move is found to have moved in at most `alpha` of all checks. `seed` is that of the exchanges."""
    aspects, pairs = list(then), pair_all(then, now)
    if not pairs:
        return {name: blank(Message("no-shared-anchor")) for name in aspects}, PooledDrift()
    exchange = exchange_runs(pairs, np.random.default_rng(seed), alpha)
    count = len(aspects)
    shift_p, change_p = exchange.raw[:count], exchange.adjusted[count + 1 : -1]
    worth = [is_worth(one, len(pairs)) for one in exchange.changes]
    sees = find_least_p(pairs) < alpha
    found = {}
    for place, name in enumerate(aspects):
        drift = describe_aspect([(before[place], after[place]) for before, after in pairs], exchange.level)
        asked = [anchor for anchor in then[name] if now.get(name, {}).get(anchor) and anchor in intended.get(name, {})]
        right = sum(usual(now[name][anchor]) == intended[name][anchor] for anchor in asked)
        undefined = dict(drift.undefined)
        if not asked:
            undefined["intended"] = Message("anchors-without-ratings")
        rated = drift.shift is not None
        p_adjusted = exchange.adjusted[place] if rated else None
        smallest = min(p for p in (p_adjusted, change_p[place]) if p is not None)
        found[name] = drift.model_copy(
            update={
                "p": shift_p[place] if rated else None,
                "p_adjusted": p_adjusted,
                "p_changed": change_p[place],
                "intended": right / len(asked) if asked else None,
                "detectable": drift.detectable if sees else None,
                "moved": worth[place] and smallest < alpha,
                "undefined": undefined,
            }
        )
    p_shift, p_changed = exchange.adjusted[count], exchange.adjusted[-1]
    enough = is_worth(sum(exchange.changes), len(pairs) * count)
    return found, PooledDrift(p_shift=p_shift, p_changed=p_changed, moved=enough and min(p_shift, p_changed) < alpha)


def could_find(then: Mapping[str, Runs], now: Mapping[str, Runs], alpha: float) -> bool:
    """Whether any ratings of now could be found to have moved: of few runs of few anchors there are few ways to
    exchange them, and no p is smaller than that of one draw."""
    return find_least_p(pair_all(then, now)) < alpha


AnchorRuns = tuple[list[tuple[int | None, ...]], list[tuple[int | None, ...]]]
"""One anchor: the stored runs by aspect, and those of now."""


def pair_all(then: Mapping[str, Runs], now: Mapping[str, Runs]) -> list[AnchorRuns]:
    """The anchors that have runs of both, in the order of their names."""
    anchors = sorted({anchor for runs in then.values() for anchor in runs})
    return [pair for anchor in anchors if (pair := pair_runs(then, now, list(then), anchor)) is not None]


def find_least_p(pairs: Sequence[AnchorRuns]) -> float:
    """The smallest p that there can be, whatever the ratings are."""
    least = 1.0
    for before, after in pairs:
        least /= min(MOST_SPLITS, comb(len(before[0]) + len(after[0]), len(after[0])))
    return max(least, 1 / DRAWS)


def pair_runs(
    then: Mapping[str, Runs], now: Mapping[str, Runs], aspects: Sequence[str], anchor: str
) -> AnchorRuns | None:
    """The anchor's runs, as many for each aspect; None where it was not asked for both times."""
    before = [then[name].get(anchor, ()) for name in aspects]
    after = [now.get(name, {}).get(anchor, ()) for name in aspects]
    stored, asked = max(map(len, before)), max(map(len, after))
    if not stored or not asked:
        return None
    return [fill(runs, stored) for runs in before], [fill(runs, asked) for runs in after]


def fill(runs: Sequence[int | None], count: int) -> tuple[int | None, ...]:
    """The runs, those that are not there being without a rating."""
    return (*runs, *[None] * (count - len(runs)))


class ExchangeTest:
    """What the exchange test found of k aspects. `raw` and `adjusted` hold 2k + 2 p-values: of each aspect's shift and
    of all shifts together, then of each aspect's changes and of all changes. `changes` are worth so many anchors, by
    aspect. `level` is the p at which a single question is significant at `alpha`."""

    def __init__(self, sums: Floats, changes: Floats, alpha: float) -> None:
        # The first row is what was observed. p-values by rank within the column, of values at least as large.
        ordered = np.sort(sums, axis=0)
        draws = len(sums)
        p = np.stack(
            [1 - np.searchsorted(ordered[:, column], sums[:, column]) / draws for column in range(sums.shape[1])],
            axis=1,
        )
        least = np.sort(p.min(axis=1))
        self.raw = [float(one) for one in p[0]]
        self.adjusted = [float(np.searchsorted(least, one + 1e-12) / draws) for one in p[0]]
        self.level = max(1 / draws, float(np.quantile(least, alpha)))
        self.changes = [float(one) for one in changes]


def exchange_runs(pairs: Sequence[AnchorRuns], generator: np.random.Generator, alpha: float) -> ExchangeTest:
    """Lets the runs of now and the stored ones of every anchor change places, `DRAWS` times."""
    tables = [tabulate_splits(before, after, generator) for before, after in pairs]
    # An aspect's shift counts in units of its own spread under exchange, so that a wavering aspect does not outweigh.
    spread = np.sqrt(sum(shift.var(axis=0) for shift, _ in tables))
    unit = np.where(spread > 0, spread, 1.0)
    sums: Floats = np.zeros((DRAWS, 2 * len(unit) + 2))
    for shift, change in tables:
        scaled = shift / unit
        parts = np.concatenate(
            [scaled, scaled.sum(axis=1, keepdims=True), change, change.sum(axis=1, keepdims=True)], axis=1
        )
        chosen = generator.integers(0, len(parts), DRAWS)
        chosen[0] = 0
        sums += parts[chosen]
    columns = np.round(sums, DECIMALS)
    shifts = tables[0][0].shape[1] + 1
    columns[:, :shifts] = np.abs(columns[:, :shifts])
    return ExchangeTest(columns, sum(change[0] for _, change in tables), alpha)


def tabulate_splits(
    before: Sequence[tuple[int | None, ...]], after: Sequence[tuple[int | None, ...]], generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Of one anchor, for each way to divide its runs, the observed one first, over all pairs of a run of now and one of
    then: the share in which now is higher minus that in which it is lower, and the share that differ. Both are of shape
    (ways, aspects).

    Directions are counted rather than levels, so that one reply far off does not hide a shift of many by one level. No
    rating is a value of its own for the second, and says nothing for the first.
    """
    pooled = np.array([[*new, *old] for old, new in zip(before, after, strict=True)], dtype=np.float64)
    asked = len(after[0])
    now = list_splits(pooled.shape[1], asked, generator)
    across = (now[:, :, None] & ~now[:, None, :]).astype(np.float64) / (asked * (pooled.shape[1] - asked))
    higher = np.nan_to_num(np.sign(pooled[:, :, None] - pooled[:, None, :]))
    values = np.where(np.isnan(pooled), np.inf, pooled)
    differ = (values[:, :, None] != values[:, None, :]).astype(np.float64)
    return np.einsum("aqr,sqr->sa", higher, across), np.einsum("aqr,sqr->sa", differ, across)


def list_splits(runs: int, asked: int, generator: np.random.Generator) -> Flags:
    """Which runs count as those of now, shape (ways, runs): the first `asked`, then all other ways, or many."""
    if comb(runs, asked) <= MOST_SPLITS:
        chosen: Integers = np.array(list(combinations(range(runs), asked)), dtype=np.int64)
    else:
        chosen = np.argsort(generator.random((MOST_SPLITS, runs)), axis=1)[:, :asked]
        chosen[0] = np.arange(asked)
    found = np.zeros((len(chosen), runs), dtype=np.bool_)
    np.put_along_axis(found, chosen, values=True, axis=1)
    return found


def describe_aspect(pairs: Sequence[tuple[Sequence[int | None], Sequence[int | None]]], level: float) -> AspectDrift:
    """One aspect in figures; its p-values are still to come. `pairs` hold the runs of then and of now per anchor."""
    both = [(rated(before), rated(after)) for before, after in pairs]
    differences = [np.mean(after) - np.mean(before) for before, after in both if before and after]
    undefined: dict[str, Message] = {}
    if not differences:
        undefined = dict.fromkeys(("shift", "p"), Message("no-anchor-rated-twice"))
    return AspectDrift(
        n=len(pairs),
        lost=sum(usual(after) is None and usual(before) is not None for before, after in pairs),
        shift=float(np.mean(differences)) if differences else None,
        p=None,
        p_adjusted=None,
        changed=sum(usual(after) != usual(before) for before, after in pairs),
        noise=max(LEAST_NOISE, share_changed([before for before, _ in pairs])),
        p_changed=None,
        detectable=find_detectable(both, level) if differences else None,
        intended=None,
        moved=False,
        undefined=undefined,
    )


def find_detectable(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], level: float) -> float | None:
    """The smallest mean shift that is found with 80% power: by the noise of the stored runs, for a question that is
    significant at `level`, and no less than the changes that are worth telling. None of a single stored run."""
    several = [(before, after) for before, after in pairs if len(before) > 1 and after]
    if not several:
        return None
    variance = sum(float(np.var(before, ddof=1)) * (1 / len(before) + 1 / len(after)) for before, after in several)
    normal = NormalDist()
    reach = (normal.inv_cdf(1 - level / 2) + normal.inv_cdf(POWER)) * sqrt(variance)
    return max(reach, float(count_worth(len(pairs)))) / len(several)


def is_worth(changes: float, ratings: int) -> bool:
    """Whether changes worth so many of the ratings are more than `LEAST_NOISE` explains."""
    return changes >= count_worth(ratings) - 10.0**-DECIMALS


def count_worth(ratings: int) -> int:
    """The smallest number of changes that `LEAST_NOISE` explains with a probability below `WORTH`."""
    from scipy.stats import binom

    return int(binom.isf(WORTH, ratings, LEAST_NOISE)) + 1


def rated(runs: Sequence[int | None]) -> list[int]:
    """The runs that gave a rating."""
    return [rating for rating in runs if rating is not None]


def usual(runs: Sequence[int | None]) -> int | None:
    """What most runs gave: their median, or None where at least half of them gave no rating."""
    ratings = rated(runs)
    return median_low(ratings) if 2 * len(ratings) > len(runs) else None


def share_changed(runs: Sequence[Sequence[int | None]]) -> float:
    """The share of runs that differ from what is usual on their anchor, over all anchors with several runs."""
    several = [ratings for ratings in runs if len(ratings) > 1]
    total = sum(len(ratings) for ratings in several)
    other = sum(rating != usual(ratings) for ratings in several for rating in ratings)
    return other / total if total else 0.0


def blank(why: Message) -> AspectDrift:
    """An aspect without any figure."""
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
        undefined=dict.fromkeys(("shift", "p", "p_changed", "intended"), why),
    )
