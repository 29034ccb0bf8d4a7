"""Links between judges (Kolen and Brennan, Test Equating, Scaling, and Linking, 2014, chapters 2 and 7).

Both judges rated the same responses (a single-group design). On five levels or more the link is equipercentile, with
percentile ranks at the middle of each level, which is K and B's continuization of discrete scores; it is not smoothed,
since five to ten levels leave nothing to smooth. On coarser scales it is linear, with a slope no steeper than what
keeps every level on the scale. Between levels, values are interpolated. A value that is the mean of several samples
counts for the levels around it, in proportion.

Chance is that of dialogues: they are drawn with replacement, and each draw gives a table. The linking error of a run's
mean is the standard deviation of its means under these tables, so that it holds whatever levels the run has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, hypot, isnan, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr

from saiten.core.figures import write_figure
from saiten.core.messages import Message
from saiten_server.comparison.links.values import (
    AspectLink,
    JudgeRepeats,
    LinkedLevel,
    LinkMark,
    LinkMethod,
    StoredLink,
)
from saiten_server.comparison.pairing import find_partners, number_keys
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.rubric import MeanComposite, Rubric, compose
from saiten_server.runs.frame import RunFrame, key_all
from saiten_server.runs.summary import MeasureKey
from saiten_server.stats.correlation_intervals import estimate_coefficient
from saiten_server.stats.observations import Floats, Integers, join_shared, number_first
from saiten_server.stats.phrases import tell_count
from saiten_server.stats.resampling import find_quantile
from saiten_server.stats.statistics import reach

DRAWS = 200
CELLS = 2_000_000
"""Resamples by dialogues that are in memory at once."""

FEWEST_PAIRS = 100
LEAST_CORRELATION = 0.7
LEAST_CORRECTED = 0.8
FINE_LEVELS = 5
"""Levels from which a scale is linked by percentiles."""

MARGIN = 0.05
ALPHA = 0.05
KEPT_DECIMALS = 5


@dataclass(frozen=True)
class JudgePairs:
    """One aspect of the responses that both judges rated: means of samples, shape (n,).

    `clusters` numbers their dialogues from 0 without gaps. `noise` holds the variance of each response's mean over
    samples, by judge, shape (n,); None unless both judges gave several samples. `levels` are those of both scales.
    """

    old: Floats
    new: Floats
    clusters: Integers
    levels: tuple[int, ...]
    noise: tuple[Floats, Floats] | None = None

    @property
    def units(self) -> int:
        return int(self.clusters.max()) + 1 if len(self.clusters) else 0


def link_judges(pairs: JudgePairs, *, method: LinkMethod | None = None) -> tuple[AspectLink, Floats | None]:
    """The link of an aspect, and the tables of the resamples, shape (draws, levels); None where it is refused."""
    chosen: LinkMethod = method or ("equipercentile" if len(pairs.levels) >= FINE_LEVELS else "linear")
    told = AspectLink(
        state="refused", reason=None, method=chosen, n=len(pairs.old), clusters=pairs.units, correlation=None
    )
    obstacle = find_obstacle(pairs)
    if obstacle is not None:
        return told.model_copy(update={"reason": obstacle}), None
    moments, shares = describe_clusters(pairs)
    whole = moments.sum(axis=0, keepdims=True)
    drawn_moments, drawn_shares = resample(moments, shares)
    plain, corrected, repeats = correlate_judges(whole)
    told = told.model_copy(update={"correlation": round(float(plain[0]), 6)})
    several = pairs.noise is not None
    if several:
        told = told.model_copy(
            update={
                "corrected_correlation": None if isnan(corrected[0]) else round(float(corrected[0]), 6),
                "repeatability": JudgeRepeats(old=round(float(repeats[0, 0]), 6), new=round(float(repeats[0, 1]), 6)),
            }
        )
    interval = find_correlation_interval(
        pairs, float(plain[0]), float(corrected[0]), correlate_judges(drawn_moments)[1]
    )
    if isinstance(interval, Message):
        return told.model_copy(update={"reason": Message("no-interval-of-judges", why=interval)}), None
    low, high = interval
    least, name = (
        (LEAST_CORRECTED, "little-corrected-agreement") if several else (LEAST_CORRELATION, "little-agreement")
    )
    told = told.model_copy(update={"correlation_interval": (round(low, 6), round(high, 6))})
    if low < least:
        return told.model_copy(update={"reason": Message(name, bound=write_figure(low, 2), least=least)}), None
    table, tables = (
        tabulate_levels(shares.sum(axis=0)[None], pairs.levels, chosen)[0],
        tabulate_levels(drawn_shares, pairs.levels, chosen),
    )
    beyond = float(ndtr(-find_reach(pairs.units)))
    ends = np.quantile(tables, [beyond, 1 - beyond], axis=0)
    margin = find_margin(shares, tables, pairs.levels)
    levels = {
        str(level): LinkedLevel(value=round(float(table[at]), KEPT_DECIMALS), interval=spread(ends[:, at]))
        for at, level in enumerate(pairs.levels)
    }
    needed = max(FEWEST_PAIRS, ceil(len(pairs.old) * (margin / MARGIN) ** 2))
    update = {"state": "linked", "table": levels, "margin": round(margin, 6), "pairs_needed": needed}
    return told.model_copy(update=update), np.round(tables, KEPT_DECIMALS)


def find_correlation_interval(
    pairs: JudgePairs, plain: float, corrected: float, again: Floats
) -> tuple[float, float] | Message:
    """The 95% interval of the correlation, or why there is none. With several samples it is that of the corrected one:
    the plain one's, corrected as the figure is, made as wide as the resamples of the corrected one, shape (draws,),
    which know how uncertain the repeatability is."""
    found = estimate_coefficient("pearson", pairs.old, pairs.new, pairs.clusters, plain).interval()
    if isinstance(found, Message) or pairs.noise is None:
        return found
    low, high = np.percentile(np.nan_to_num(again, nan=0.0), [2.5, 97.5])
    scale = corrected / plain if plain and not isnan(corrected) else 1.0
    return max(-1.0, min(float(low), scale * found[0])), min(1.0, max(float(high), scale * found[1]))


def spread(ends: Floats) -> tuple[float, float]:
    """The two ends as an interval."""
    return round(float(ends[0]), KEPT_DECIMALS), round(float(ends[1]), KEPT_DECIMALS)


def find_obstacle(pairs: JudgePairs) -> Message | None:
    """Why there is no link, whatever the correlation; None where nothing stands against it."""
    n, levels = len(pairs.old), np.array(pairs.levels, dtype=np.float64)
    if n < FEWEST_PAIRS:
        return Message("few-responses", rated=tell_count(n, "response"), needed=FEWEST_PAIRS)
    if pairs.units < FEWEST_UNITS:
        return Message("few-dialogues", dialogues=tell_count(pairs.units, "dialogue"), needed=FEWEST_UNITS)
    for whose, values in (("old", pairs.old), ("new", pairs.new)):
        if values.min() < levels[0] or values.max() > levels[-1]:
            return Message(f"{whose}-beyond-scale")
        if np.ptp(values) == 0:
            return Message(f"{whose}-constant")
    seen = np.abs(pairs.old[:, None] - levels).min(axis=0) < NEAR_LEVEL
    if not seen.all():
        absent = ", ".join(f"{level:g}" for level in levels[~seen])
        return Message("levels-never-given", levels=absent)
    return None


FEWEST_UNITS = 10
NEAR_LEVEL = 0.5
"""A level is seen where a mean of samples is nearer to it than this."""


def describe_clusters(pairs: JudgePairs) -> tuple[Floats, Floats]:
    """Sums by dialogue: of 1, x, y, x², y², xy and both noises, shape (units, 8); and of both judges' shares of levels,
    shape (units, 2 · levels)."""
    noise = pairs.noise or (np.zeros_like(pairs.old), np.zeros_like(pairs.new))
    x, y = pairs.old - pairs.levels[0], pairs.new - pairs.levels[0]
    columns = [np.ones_like(x), x, y, x * x, y * y, x * y, *noise]
    shares = np.hstack([share_levels(x, len(pairs.levels)), share_levels(y, len(pairs.levels))])
    units, codes = pairs.units, pairs.clusters

    def add_up(values: Sequence[Floats] | Floats) -> Floats:
        return np.stack([np.bincount(codes, weights=one, minlength=units) for one in values], axis=1)

    return add_up(columns), add_up(shares.T)


def share_levels(places: Floats, levels: int) -> Floats:
    """How far each place, counted from the lowest level, belongs to each level: shape (n, levels), rows sum to 1."""
    below = np.clip(np.floor(places), 0, levels - 2).astype(np.int64)
    above = places - below
    shares = np.zeros((len(places), levels))
    rows = np.arange(len(places))
    shares[rows, below] = 1 - above
    shares[rows, below + 1] = above
    return shares


def resample(moments: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The sums of each resample of dialogues, shapes (draws, 8) and (draws, 2 · levels)."""
    generator = np.random.default_rng(0)
    units, found = len(moments), []
    at_once = max(1, CELLS // units)
    for start in range(0, DRAWS, at_once):
        rows = min(at_once, DRAWS - start)
        drawn = generator.integers(0, units, size=(rows, units)) + np.arange(rows)[:, None] * units
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units).astype(np.float64)
        found.append((counts @ moments, counts @ shares))
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


def correlate_judges(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Pearson's correlation of each row of sums, the same corrected for attenuation, and both judges' repeatability,
    shapes (rows,), (rows,) and (rows, 2); the corrected one is NaN where a judge repeats nothing of its ratings."""
    n = sums[:, :1]
    means = sums / n
    variances = np.maximum(means[:, 3:5] - means[:, 1:3] ** 2, 0.0)
    covariance = means[:, 5] - means[:, 1] * means[:, 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        plain = covariance / np.sqrt(variances.prod(axis=1))
        repeats = np.clip(1 - means[:, 6:8] / variances, 0.0, 1.0)
        repeated = repeats.prod(axis=1)
        corrected = np.where(repeated > 0, np.clip(plain / np.sqrt(repeated), -1.0, 1.0), np.nan)
    return np.clip(plain, -1.0, 1.0), corrected, repeats


def tabulate_levels(shares: Floats, levels: Sequence[int], method: LinkMethod) -> Floats:
    """The old judge's levels on the new judge's scale, shape (rows, levels); `shares` has shape (rows, 2 · levels)."""
    many = len(levels)
    old, new = shares[:, :many], shares[:, many:]
    old, new = old / old.sum(axis=1, keepdims=True), new / new.sum(axis=1, keepdims=True)
    places = link_percentiles(old, new) if method == "equipercentile" else link_linearly(old, new)
    return levels[0] + places


def link_percentiles(old: Floats, new: Floats) -> Floats:
    """Where the new judge's scale has the percentile rank that the middle of each level of the old judge's has, shape
    (rows, levels), from 0 and never beyond the scale. Of a range of places with one rank, as beyond a level that was
    never given, it is the middle (K and B, section 2.5)."""
    many = old.shape[1]
    ranks = np.cumsum(old, axis=1) - old / 2
    knots = np.hstack([np.zeros((len(new), 1)), np.cumsum(new, axis=1)])
    ends = np.arange(many + 1) - 0.5
    found = np.empty_like(old)
    for row, (rank, knot) in enumerate(zip(ranks, knots, strict=True)):
        low = np.interp(rank, knot + np.arange(many + 1) * TINY, ends)
        high = np.interp(rank, knot - np.arange(many + 1)[::-1] * TINY, ends)
        found[row] = (low + high) / 2
    return np.clip(found, 0, many - 1)


TINY = 1e-12


def link_linearly(old: Floats, new: Floats) -> Floats:
    """μ(y) + slope · (x − μ(x)), with σ(y) / σ(x) as the slope, or the steepest that keeps all levels on the scale;
    shape (rows, levels), from 0."""
    places = np.arange(old.shape[1], dtype=np.float64)
    means = [(one @ places)[:, None] for one in (old, new)]
    deviations = [
        np.sqrt((one * (places - mean) ** 2).sum(axis=1))[:, None] for one, mean in zip((old, new), means, strict=True)
    ]
    top = places[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.stack([deviations[1] / deviations[0], (top - means[1]) / (top - means[0]), means[1] / means[0]])
    slope = np.where(np.isfinite(slopes), slopes, np.inf).min(axis=0)
    return np.clip(means[1] + np.where(np.isfinite(slope), slope, 0.0) * (places - means[0]), 0.0, top)


def find_margin(shares: Floats, tables: Floats, levels: Sequence[int]) -> float:
    """Half the 95% interval of the linked mean of a run with the old judge's levels as here, as a share of the
    scale."""
    old = shares[:, : len(levels)].sum(axis=0)
    means = tables @ (old / old.sum())
    return find_reach(len(shares)) * float(means.std(ddof=1)) / (levels[-1] - levels[0])


def find_reach(units: int) -> float:
    """How many standard deviations of the resamples an end of a 95% interval lies away: resamples of few dialogues vary
    too little, and their error is not known for certain (the expanded interval of Hesterberg 2015, The American
    Statistician 69)."""
    return sqrt(units / (units - 1)) * find_quantile(units - 1, ALPHA)


@dataclass(frozen=True)
class LinkedValues:
    """What a linked run's error is computed from: by aspect the old judge's ratings of its responses, shape
    (responses,), NaN where there is none, counted from the scale's lowest level, and the tables of the resamples, shape
    (draws, levels). `freedom` is that of the link by aspect: its dialogues less one."""

    places: Mapping[str, Floats]
    tables: Mapping[str, Floats]
    freedom: Mapping[str, int]
    rubric: Rubric

    def aspects_of(self, kind: str, name: str) -> tuple[str, ...]:
        """The aspects that a measure is made of; empty where it is none of a linked run's."""
        if kind != "composite":
            return (name,) if name in self.tables else ()
        found = {one.id: tuple(one.aspects) for one in self.rubric.composites}.get(name, ())
        return found if all(one in self.tables for one in found) else ()

    def draw_means(self, kind: str, name: str, weights: Floats, best: float | None) -> Floats:
        """The measure's mean under the table of each resample, shape (draws,), but for what is the same under all.
        `weights` are those of the responses, shape (responses,); with a `best` value the mean is of minus the distance
        from it."""
        if kind != "composite":
            return self._average(
                name, weights, (lambda values: values) if best is None else lambda v: -np.abs(v - best)
            )
        composite = next(one for one in self.rubric.composites if one.id == name)
        if isinstance(composite, MeanComposite):
            parts = [self._average(one, weights, lambda values: values) for one in composite.of]
            mean: Floats = np.mean(parts, axis=0)
            return mean
        total: Floats = np.zeros(len(next(iter(self.tables.values()))))
        for term in composite.terms:
            step = term.transform

            def change(values: Floats, step: Any = step) -> Floats:
                moved = (values - step.subtract) / step.divide
                found: Floats = np.abs(moved) if step.absolute else moved
                return found

            total = total + term.weight * self._average(term.aspect, weights, change)
        return total

    def _average(self, aspect: str, weights: Floats, change: Callable[[Floats], Floats]) -> Floats:
        tables, places = self.tables[aspect], self.places[aspect]
        held = ~np.isnan(places) & (weights > 0)
        values, codes = np.unique(places[held], return_inverse=True)
        if not len(values):
            return np.zeros(len(tables))
        shown = change(share_levels(values, tables.shape[1]) @ tables.T)
        means: Floats = np.bincount(codes, weights=weights[held], minlength=len(values)) @ shown
        return means


@dataclass(frozen=True)
class LinkUse:
    """A link in a comparison: what the report says of it, and the values of the runs that are linked."""

    mark: LinkMark
    baseline: LinkedValues | None = None
    candidate: LinkedValues | None = None


def link_run(
    run: ComparedRun, stored: StoredLink, rubric: Rubric, signatures: Mapping[str, int]
) -> tuple[ComparedRun, LinkedValues]:
    """The run of the old judge on the new judge's scale. Aspects without a link lose their values, and composites are
    those of the linked ratings. A blended value moves as its rating does. `signatures` are those that it then has."""
    links = {name: one for name, one in stored.link.aspects.items() if one.state == "linked" and name in run.aspects}
    tables = {name: read_table(one) for name, one in links.items()}
    ratings = {name: run.frame.values["aspect", name] for name in links}
    moved = {name: np.interp(ratings[name], *tables[name]) for name in links}
    values = LinkedValues(
        {name: np.clip(ratings[name], *tables[name][0][[0, -1]]) - tables[name][0][0] for name in links},
        {name: np.array(stored.draws[name], dtype=np.float64) for name in links},
        {name: max(1, one.clusters - 1) for name, one in links.items()},
        rubric,
    )
    return replace(run, frame=move_values(run.frame, moved, rubric), signatures=signatures), values


@dataclass(frozen=True)
class LinkedMean:
    """A run's mean on the new judge's scale. `stretch` is how many times as wide its ratings are spread there, and
    `error` the standard error of the link."""

    mean: float
    stretch: float
    error: float


def link_counts(counts: Mapping[str, int | float], stored: StoredLink, aspect: str) -> LinkedMean | None:
    """The mean of ratings of which so many are on each level, linked; None without a link of the aspect or a rating.
    It is that of `link_run` where each rating is of one sample."""
    link, draws = stored.link.aspects.get(aspect), stored.draws.get(aspect)
    total = sum(counts.values())
    if link is None or link.state != "linked" or draws is None or not total:
        return None
    levels, values = read_table(link)
    shares = np.array([counts.get(f"{level:g}", 0) / total for level in levels])
    if not np.isclose(shares.sum(), 1.0):
        return None
    mean, before = float(shares @ values), float(shares @ levels)
    spread, linked = ((shares @ (one - middle) ** 2) ** 0.5 for one, middle in ((levels, before), (values, mean)))
    error = float((np.array(draws, dtype=np.float64) @ shares).std(ddof=1))
    return LinkedMean(mean, float(linked / spread) if spread else 1.0, error)


def weigh_responses(row: Integers, held: Floats, chosen: Integers) -> Floats:
    """What each response of a run counts for in the mean over the chosen items, shape (responses,): an item counts
    once, with the mean of its responses that are `held`. `row` is each response's item; `chosen` are rows of items."""
    size = np.bincount(row, weights=held)
    weights = np.zeros(len(size))
    weights[chosen] = 1 / max(1, len(chosen))
    found: Floats = np.divide(weights[row], size[row], out=np.zeros(len(row)), where=size[row] > 0) * held
    return found


def widen(
    figures: Mapping[str, Any],
    undefined: Mapping[str, Message],
    *,
    moved: float,
    error: float,
    freedom: int,
    alpha: float,
    tests: int,
    width: float | None,
) -> tuple[dict[str, Any], dict[str, Message]]:
    """A measure's figures with the linking error in them, by the names of `Measure`, and why others are null. `moved`
    is the difference of the means, `error` the link's standard error of it, `freedom` the link's degrees.

    The variances are added, with Welch's degrees of freedom. p is the larger of that of the test, which knows nothing
    of the link, and that of t with the whole error. The interval's two margins grow likewise. What the values alone
    do not tell, as where none of them varies, the link does not tell either.
    """
    own, degrees = figures["standard_error"], figures["freedom"]
    if own is None or degrees is None or not error:
        return {**figures, "link_error": error}, dict(undefined)
    whole = hypot(own, error)
    joined = whole**4 / (own**4 / degrees + error**4 / freedom)
    left = dict(undefined)
    reached: float | None = figures["smallest_detectable"]
    if reached is not None:
        reached = max(reached, reach(alpha / max(1, tests), joined) * whole)
        if width is not None and reached > width:
            reached, left["smallest_detectable"] = None, Message("link-too-wide")
    interval: tuple[float, float] | None = figures["interval"]
    if interval is not None:
        extra = find_quantile(freedom, alpha) * error
        low, high = (hypot(moved - end, extra) for end in interval)
        interval = moved - low, moved + high
        if width is not None:
            interval = max(interval[0], -width), min(interval[1], width)
    p = None if figures["p"] is None else max(figures["p"], 2 * float(stdtr(joined, -abs(moved) / whole)))
    changed = {
        "p": p,
        "interval": interval,
        "standard_error": whole,
        "freedom": joined,
        "smallest_detectable": reached,
        "link_error": error,
    }
    return {**figures, **changed}, left


def read_table(link: AspectLink) -> tuple[Floats, Floats]:
    """Levels and values, both of shape (levels,)."""
    pairs = sorted((float(level), one.value) for level, one in link.table.items())
    return np.array([level for level, _ in pairs]), np.array([value for _, value in pairs])


def move_values(frame: RunFrame, moved: Mapping[str, Floats], rubric: Rubric) -> RunFrame:
    """The run with linked values."""
    nothing = np.full(len(frame), np.nan)
    values: dict[MeasureKey, Floats] = {}
    for kind, name in frame.values:
        if kind == "aspect":
            values[kind, name] = moved.get(name, nothing)
    ratings = {name: [None if isnan(one) else one for one in column.tolist()] for name, column in moved.items()}
    composed = [compose(rubric, dict(zip(ratings, row, strict=True))) for row in zip(*ratings.values(), strict=True)]
    for one in rubric.composites if len(frame) else ():
        found = [row[one.id] for row in composed] if ratings else [None] * len(frame)
        values["composite", one.id] = np.array(found, dtype=np.float64)
    for (kind, name), column in frame.values.items():
        if kind == "blended" and name in moved:
            values[kind, name] = column + moved[name] - frame.values["aspect", name]
        elif kind in {"finding", "kind"}:
            values[kind, name] = column
    shown = {key: column for key, column in values.items() if key[0] != "blended" or not np.isnan(column).all()}
    return replace(frame, values=shown)


def pair_responses(old: RunFrame, new: RunFrame) -> tuple[Integers, int]:
    """The rows of the responses that both judges rated, the old judge's first, shape (pairs, 2), and how many responses
    have no partner. Responses are paired by item and text, where a batch has no texts any more by item, candidate and
    system: then those of different contexts are no pair."""
    by_text = all(bool(own.texts.all()) for own in (old, new))
    keys = []
    for own in (old, new):
        systems = key_all([label.system for label in own.labels])[own.label]
        placed = (own.items, own.candidates.astype(np.int64), systems)
        keys.append(np.stack((own.items, own.texts) if by_text else placed, axis=1))
    numbers = number_keys(np.concatenate(keys))
    groups = np.split(numbers, [len(old)])
    rows = find_partners(*(np.stack([group, number_repeats(group)], axis=1) for group in groups))
    before, after = old.contexts[rows[:, 0]], new.contexts[rows[:, 1]]
    # Digests of hashed texts cannot be compared.
    hashed = (old.texts[rows[:, 0]] == 0) != (new.texts[rows[:, 1]] == 0)
    same = hashed | (before == 0) | (after == 0) | (before == after) | by_text
    return rows[same], len(old) + len(new) - len(rows) - int(np.count_nonzero(same))


def number_repeats(groups: Integers) -> Integers:
    """How many before each one are of its group, shape (n,)."""
    order = np.argsort(groups, kind="stable")
    starts = np.ones(len(groups), dtype=bool)
    starts[1:] = np.diff(groups[order]) != 0
    places = np.arange(len(groups))
    found = np.empty(len(groups), dtype=np.int64)
    found[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
    return found


def pair_judges(aspect: str, old: RunFrame, new: RunFrame, rows: Integers, levels: tuple[int, ...]) -> JudgePairs:
    """The pairs of one aspect among paired rows, of shape (pairs, 2). Responses that share a dialogue in either batch
    belong together; one without any stands alone."""
    runs = (old, new)
    means = [own.read(("aspect", aspect)) for own in runs]
    rows = rows[~np.isnan(means[0][rows[:, 0]]) & ~np.isnan(means[1][rows[:, 1]])]
    named = np.stack([own.clusters[taken] for own, taken in zip(runs, rows.T, strict=True)], axis=1)
    members = np.nonzero(named)[0]
    clusters = number_first(join_shared(members, number_first(named[named != 0]), len(rows)))
    noise = [own.noise.get(aspect, np.full(len(own), np.nan))[taken] for own, taken in zip(runs, rows.T, strict=True)]
    known = len(rows) > 0 and not any(np.isnan(each).all() for each in noise)
    return JudgePairs(
        means[0][rows[:, 0]],
        means[1][rows[:, 1]],
        clusters,
        levels,
        # A response with one valid sample says nothing of the noise: it counts with that of the others.
        (fill_mean(noise[0]), fill_mean(noise[1])) if known else None,
    )


def fill_mean(values: Floats) -> Floats:
    """The values, the mean where there is none."""
    return np.nan_to_num(values, nan=float(np.nanmean(values)))
