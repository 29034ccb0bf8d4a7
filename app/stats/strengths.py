"""Strengths of systems from preferences: Bradley–Terry with ties, a position term and covariates.

Of one look let d = θ(first) − θ(second) + γ + β · x, in natural-log odds, where γ is what being shown first adds and x
are differences of covariates. Without ties the first is preferred with probability 1 / (1 + exp(−d)). With ties:

- `davidson` (Davidson 1970; with an order effect Davidson & Beaver 1977): first, second and tie are as exp(d / 2) to
  exp(−d / 2) to ν. This is a logit of adjacent categories, and equals a log-linear model of the counts.
- `ordinal` (Rao & Kupper 1967): the first is preferred with probability 1 / (1 + exp(δ − d)), the second with
  1 / (1 + exp(δ + d)). This is the cumulative ("ordinal") logit with symmetric thresholds.

Both likelihoods are concave, and Newton's method works on counts of equal looks, however many looks there are.
Strengths have mean 0. They are finite where the graph of who beat or tied with whom is strongly connected (Ford 1957)
and ties are bounded: callers split it first (`rank_sets`). A term that all looks agree on, such as a judge that always
takes the first, has no finite estimate either: it is left out, and named in `Strengths.separated`.

Errors are by sandwich over clusters (Liang & Zeger 1986): the unit is the prompt or the dialogue, never the single
look. Scores of few clusters have the CR2 correction (Bell & McCaffrey 2002, in the form of Kauermann & Carroll 2001),
and t has the degrees of freedom of as many equal clusters as those that carry the estimate count as, or fewer where few
of them make all of the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, sqrt
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from saiten_server.core.giving_up import checkpoint
from saiten_server.stats.observations import Floats, Integers
from saiten_server.stats.resampling import find_quantile
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs, number_clusters

Ties = Literal["davidson", "ordinal"]

MOST_STEPS = 100
MOST_HALVES = 40
CONVERGED = 1e-11
"""Of the largest step in log odds."""

LARGEST_TERM = 15.0
"""Log odds beyond which a position term or a covariate, at its standard deviation, is taken for infinite: such a one
would need millions of looks to be told from one that all looks agree on."""

LARGEST_GAP = 20.0
"""Log odds between two systems that were compared, beyond which no look tells more."""

MOST_CORRECTED = 4_000_000
"""Clusters by squared parameters up to which scores are corrected for few clusters."""

NEARLY_ALL = 0.995
"""Of an estimate, what one cluster may carry in its correction: a cluster that carries all of it has no error."""

SMALLEST_ROOT = 1e-9
"""Of the largest, for a direction in which anything can be estimated."""

ROUNDING = 1e-9
MOST_ODDS = 700.0
"""Beyond which exp overflows."""

POSITION = "position"

LEAST_OWN = 1e-6
"""Of a covariate's squares, what systems and other terms must leave unexplained."""


@dataclass(frozen=True)
class ModelTerm:
    """A position term, a covariate's effect or a tie parameter, with its standard error and t's degrees of freedom."""

    value: float
    error: float
    freedom: float

    def interval(self, alpha: float) -> tuple[float, float] | None:
        """The interval at 1 − alpha; None where too few clusters carry the estimate."""
        if not self.freedom >= 1:
            return None
        margin = find_quantile(self.freedom, alpha) * self.error
        return self.value - margin, self.value + margin


@dataclass(frozen=True)
class Strengths:
    """Strengths with mean 0, shape (systems,), their covariance over clusters, and t's degrees of freedom of each.

    `information` is the inverse of the model's own covariance, in which looks are independent: what another look would
    add to it. `position` is log odds for what is shown first, None where no pair was shown in both orders. `covariates`
    are log odds by unit. `tie` is log ν, or log δ; None where there is no tie. `separated` are terms without a finite
    estimate, `collinear` covariates that the systems determine. `scores` times `inverse` is what each cluster, numbered
    without gaps in the order of the looks' numbers, adds to the error of each strength; of shapes (clusters,
    parameters), sparse where there are many, and (parameters, systems).
    """

    values: Floats
    covariance: Floats
    freedom: Floats
    information: Floats
    position: ModelTerm | None
    covariates: dict[str, ModelTerm]
    tie: ModelTerm | None
    separated: tuple[str, ...]
    collinear: tuple[str, ...]
    clusters: int
    scores: Any
    inverse: Floats

    @property
    def errors(self) -> Floats:
        """Standard errors, shape (systems,)."""
        found: Floats = np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))
        return found


@dataclass(frozen=True)
class PairCounts:
    """Equal looks counted together; all of shape (cells,), `terms` of shape (cells, terms). `ties` is None where there
    is no tie. Parameters are the strengths, the terms, and the tie parameter where there is one."""

    systems: int
    first: Integers
    second: Integers
    choice: Integers
    terms: Floats
    counts: Floats
    ties: Ties | None

    @property
    def own(self) -> slice:
        """The places of the terms among the parameters."""
        return slice(self.systems, self.systems + self.terms.shape[1])

    @property
    def size(self) -> int:
        """How many parameters there are."""
        return self.systems + int(self.terms.shape[1]) + (self.ties is not None)

    def odds(self, parameters: Floats) -> Floats:
        """d of each cell, of parameters of shape (parameters, …)."""
        found: Floats = parameters[self.first] - parameters[self.second] + self.terms @ parameters[self.own]
        return found

    def difference(self, values: Floats) -> Floats:
        """The sum of the cells' values where a system is first, less that where it is second; shape (systems,)."""
        found = np.bincount(self.first, weights=values, minlength=self.systems).astype(np.float64)
        found -= np.bincount(self.second, weights=values, minlength=self.systems)
        return found


@dataclass(frozen=True)
class ClusterPairs:
    """The looks by cell and cluster, with how often each counts; shapes (n,)."""

    cell: Integers
    cluster: Integers
    weight: Floats
    count: int


@dataclass(frozen=True)
class Derivatives:
    """Of the log likelihood of each cell, by d and by the tie parameter, shape (cells,): the slopes, and minus the
    second derivatives."""

    likelihood: float
    by_odds: Floats
    by_tie: Floats
    odds_odds: Floats
    odds_tie: Floats
    tie_tie: Floats


def estimate_strengths(
    pairs: ShownPairs, *, ties: Ties = "davidson", penalty: float = 0.0, weights: Floats | None = None
) -> Strengths:
    """The strengths of systems that are strongly connected by wins and ties, unless a `penalty` is given: the precision
    of a normal prior around 0 that strengths then have. `weights`, shape (n,), count looks more than once. There is at
    least one look that is no tie, and at least two clusters."""
    weight = np.ones(pairs.n) if weights is None else weights
    collinear = find_collinear(pairs)
    names = [name for name in list_terms(pairs) if name not in collinear]
    separated: list[str] = []
    while True:
        kept = [name for name in names if name not in separated]
        scales = np.array([1.0 if name == POSITION else root_mean_square(pairs.covariates[name]) for name in kept])
        cells, of_look = count_cells(pairs, kept, scales, weight, ties)
        found = maximise(cells, penalty)
        # Terms are in units of their standard deviations.
        wrong = [name for name, value in zip(kept, found[cells.own], strict=True) if not abs(value) < LARGEST_TERM]
        if not wrong and kept and not penalty and is_endless(cells, found):
            wrong = [kept[int(np.argmax(np.abs(found[cells.own])))]]
        if not wrong:
            cluster, count = number_clusters(pairs)
            looks = ClusterPairs(of_look, cluster, weight, count)
            described = report_strengths(cells, looks, found, dict(zip(kept, scales, strict=True)), penalty=penalty)
            return replace(described, separated=tuple(separated), collinear=collinear)
        separated += wrong


def is_endless(cells: PairCounts, parameters: Floats) -> bool:
    """Whether systems that were compared, or the ties, are so far apart that the likelihood has no maximum. Strengths
    alone have one where systems are strongly connected; together with a term they may not."""
    apart = float(np.abs(parameters[cells.first] - parameters[cells.second]).max(initial=0.0))
    return apart > LARGEST_GAP or (cells.ties is not None and abs(float(parameters[-1])) > LARGEST_GAP)


def list_terms(pairs: ShownPairs) -> list[str]:
    """The terms beside the strengths: the position where it can be told from the systems, and the covariates."""
    return [*([POSITION] if pairs.is_shown_both_ways() else []), *pairs.covariates]


def find_collinear(pairs: ShownPairs) -> tuple[str, ...]:
    """The covariates that systems, position and earlier covariates determine, such as lengths that are always the same:
    their effects cannot be told from the strengths."""
    size, found = len(pairs.systems), list[str]()
    columns = [np.ones(pairs.n)] if pairs.is_shown_both_ways() else []
    ends = np.bincount(pairs.first * size + pairs.second, minlength=size**2).reshape(size, size)
    ends = ends + ends.T
    laplacian = np.diag(ends.sum(axis=1)) - ends

    def contrast(values: Floats) -> Floats:
        summed = np.bincount(pairs.first, weights=values, minlength=size).astype(np.float64)
        summed -= np.bincount(pairs.second, weights=values, minlength=size)
        return summed

    for name, values in pairs.covariates.items():
        rows = np.array([contrast(one) for one in columns]).reshape(-1, size)
        crossed = np.array([[one @ other for other in columns] for one in columns]).reshape(len(columns), len(columns))
        gram = np.block([[laplacian.astype(np.float64), rows.T], [rows, crossed]])
        own = np.concatenate([contrast(values), [one @ values for one in columns]])
        total = float(values @ values)
        if total - float(own @ np.linalg.pinv(gram, hermitian=True) @ own) < LEAST_OWN * total:
            found.append(name)
        else:
            columns.append(values)
    return tuple(found)


def count_cells(
    pairs: ShownPairs, names: Sequence[str], scales: Floats, weight: Floats, ties: Ties
) -> tuple[PairCounts, Integers]:
    """The looks as counts of equal ones, with these terms in units of their scales, and the cell of each look. Looks
    with covariates are not counted together."""
    size = len(pairs.systems)
    said = ties if np.any(pairs.choice == TIE) else None
    if any(name != POSITION for name in names):
        columns = [np.ones(pairs.n) if name == POSITION else pairs.covariates[name] for name in names]
        terms = np.column_stack(columns) / scales
        return PairCounts(size, pairs.first, pairs.second, pairs.choice, terms, weight, said), np.arange(pairs.n)
    key = (pairs.first * size + pairs.second) * 3 + pairs.choice
    held = np.bincount(key, minlength=3 * size * size) > 0
    counts = np.bincount(key, weights=weight, minlength=len(held))[held].astype(np.float64)
    own = np.flatnonzero(held)
    terms = np.ones((len(own), len(names)))
    cells = PairCounts(size, own // 3 // size, own // 3 % size, own % 3, terms, counts, said)
    return cells, (np.cumsum(held) - 1)[key]


def root_mean_square(values: Floats) -> float:
    """The root of the mean square, 1 where all are 0."""
    return sqrt(float(values @ values) / max(1, len(values))) or 1.0


def maximise(cells: PairCounts, penalty: float) -> Floats:
    """The parameters at the maximum of the likelihood, or those of a term beyond LARGEST_TERM."""
    parameters = np.zeros(cells.size)
    if cells.ties == "ordinal":
        parameters[-1] = 0.5
    now = differentiate(cells, parameters)
    for _ in range(MOST_STEPS):
        checkpoint()
        slope, curvature = collect(cells, now)
        slope[: cells.systems] -= penalty * parameters[: cells.systems]
        step = np.linalg.lstsq(anchor(cells, curvature, penalty), slope, rcond=1e-14)[0]
        goal = now.likelihood - penalise(cells, parameters, penalty)
        for _ in range(MOST_HALVES):
            moved = parameters + step
            if cells.ties != "ordinal" or moved[-1] > 0:
                now = differentiate(cells, moved)
                if now.likelihood - penalise(cells, moved, penalty) >= goal - ROUNDING * abs(goal):
                    break
            step = step / 2
        parameters = parameters + step
        parameters[: cells.systems] -= parameters[: cells.systems].mean()
        beyond = np.abs(parameters[cells.own]).max(initial=0.0) > 2 * LARGEST_TERM
        if beyond or np.abs(step).max() < CONVERGED:
            break
    return parameters


def penalise(cells: PairCounts, parameters: Floats, penalty: float) -> float:
    """What the prior takes from the likelihood."""
    strengths = parameters[: cells.systems]
    return penalty / 2 * float(strengths @ strengths)


def differentiate(cells: PairCounts, parameters: Floats) -> Derivatives:
    """The log likelihood and its derivatives at these parameters."""
    odds = cells.odds(parameters)
    if cells.ties == "davidson":
        return differentiate_davidson(cells, odds, float(parameters[-1]))
    if cells.ties == "ordinal":
        return differentiate_ordinal(cells, odds, float(parameters[-1]))
    chance = 1 / (1 + np.exp(-np.clip(odds, -MOST_ODDS, MOST_ODDS)))
    won, nothing = cells.choice == FIRST, np.zeros(len(odds))
    return Derivatives(
        likelihood=-float(cells.counts @ np.logaddexp(0.0, np.where(won, -odds, odds))),
        by_odds=won - chance,
        by_tie=nothing,
        odds_odds=chance * (1 - chance),
        odds_tie=nothing,
        tie_tie=nothing,
    )


def differentiate_davidson(cells: PairCounts, odds: Floats, tie: float) -> Derivatives:
    """Of first, second and tie as exp(d / 2), exp(−d / 2) and exp(tie)."""
    total = np.logaddexp(np.logaddexp(odds / 2, -odds / 2), tie)
    first, second, even = np.exp(odds / 2 - total), np.exp(-odds / 2 - total), np.exp(tie - total)
    said = np.choose(cells.choice, [odds / 2, -odds / 2, np.full(len(odds), tie)])
    lead = first - second
    return Derivatives(
        likelihood=float(cells.counts @ (said - total)),
        by_odds=np.choose(cells.choice, [0.5, -0.5, 0.0]) - lead / 2,
        by_tie=(cells.choice == TIE) - even,
        odds_odds=(first + second - lead**2) / 4,
        odds_tie=-lead * even / 2,
        tie_tie=even * (1 - even),
    )


def differentiate_ordinal(cells: PairCounts, odds: Floats, threshold: float) -> Derivatives:
    """Of first and second with probabilities 1 / (1 + exp(δ ∓ d)), δ > 0; a tie's is the product of the others'
    complements by 1 − exp(−2 δ)."""
    first = 1 / (1 + np.exp(np.clip(threshold - odds, -MOST_ODDS, MOST_ODDS)))
    second = 1 / (1 + np.exp(np.clip(threshold + odds, -MOST_ODDS, MOST_ODDS)))
    is_first, is_second, is_tie = (cells.choice == choice for choice in (FIRST, SECOND, TIE))
    gap = np.expm1(2 * threshold)
    with np.errstate(divide="ignore"):  # of looks that end otherwise, and of steps that are too long
        said = np.where(
            is_tie,
            np.log1p(-first) + np.log1p(-second) + np.log1p(-np.exp(-2 * threshold)),
            np.log(np.where(is_first, first, second)),
        )
    spread_first = np.where(is_second, 0.0, first * (1 - first))
    spread_second = np.where(is_first, 0.0, second * (1 - second))
    return Derivatives(
        likelihood=float(cells.counts @ said),
        by_odds=np.select([is_first, is_second], [1 - first, second - 1], second - first),
        by_tie=np.select([is_first, is_second], [first - 1, second - 1], first + second + 2 / gap),
        odds_odds=spread_first + spread_second,
        odds_tie=spread_second - spread_first,
        tie_tie=spread_first + spread_second + np.where(is_tie, 4 * (gap + 1) / gap**2, 0.0),
    )


def collect(cells: PairCounts, found: Derivatives) -> tuple[Floats, Floats]:
    """The slope of the likelihood by all parameters, and minus its second derivatives."""
    slope, curvature = np.zeros(cells.size), np.zeros((cells.size, cells.size))
    by_odds, weight = cells.counts * found.by_odds, cells.counts * found.odds_odds
    systems, own = slice(cells.systems), cells.own
    slope[systems], slope[own] = cells.difference(by_odds), cells.terms.T @ by_odds
    key = cells.first * cells.systems + cells.second
    between = np.bincount(key, weights=weight, minlength=cells.systems**2).reshape(cells.systems, cells.systems)
    between = between + between.T
    curvature[systems, systems] = np.diag(between.sum(axis=1)) - between
    weighted = weight[:, None] * cells.terms
    for number, column in enumerate(weighted.T, start=cells.systems):
        curvature[systems, number] = curvature[number, systems] = cells.difference(column)
    curvature[own, own] = cells.terms.T @ weighted
    if cells.ties is not None:
        crossed = cells.counts * found.odds_tie
        slope[-1], curvature[-1, -1] = cells.counts @ found.by_tie, cells.counts @ found.tie_tie
        curvature[systems, -1] = curvature[-1, systems] = cells.difference(crossed)
        curvature[own, -1] = curvature[-1, own] = cells.terms.T @ crossed
    return slope, curvature


def anchor(cells: PairCounts, curvature: Floats, penalty: float) -> Floats:
    """The curvature with what fixes the mean of the strengths, and the penalty."""
    found = curvature.copy()
    found[: cells.systems, : cells.systems] += 1.0
    found[np.arange(cells.systems), np.arange(cells.systems)] += penalty
    return found


def report_strengths(
    cells: PairCounts,
    looks: ClusterPairs,
    parameters: Floats,
    scales: Mapping[str, float],
    *,
    penalty: float,
) -> Strengths:
    """The estimates with their errors over clusters; `scales` are the terms' by name."""
    found = differentiate(cells, parameters)
    curvature = collect(cells, found)[1]
    inverse = np.linalg.pinv(anchor(cells, curvature, penalty), hermitian=True).astype(np.float64)
    if not penalty:
        inverse[: cells.systems, : cells.systems] -= 1 / cells.systems**2  # of `anchor`: it moves no difference
    scores = score_clusters(cells, found, looks)
    freedom = count_freedom(cells, found, looks, inverse)
    if looks.count * cells.size**2 <= MOST_CORRECTED:
        scores = correct_scores(cells, found, looks, inverse, scores)
    else:
        scores = scores * sqrt(looks.count / (looks.count - 1))
    freedom = np.minimum(freedom, bound_freedom(scores, inverse))
    covariance = inverse @ to_dense(scores.T @ scores) @ inverse
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    terms = {
        name: ModelTerm(float(parameters[at] / scale), float(errors[at] / scale), float(freedom[at]))
        for at, (name, scale) in enumerate(scales.items(), start=cells.systems)
    }
    tie = ModelTerm(float(parameters[-1]), float(errors[-1]), float(freedom[-1]))
    if cells.ties == "ordinal":
        tie = ModelTerm(float(np.log(tie.value)), tie.error / tie.value, tie.freedom)
    return Strengths(
        values=parameters[: cells.systems],
        covariance=covariance[: cells.systems, : cells.systems],
        freedom=freedom[: cells.systems],
        information=curvature[: cells.systems, : cells.systems],
        position=terms.pop(POSITION, None),
        covariates=terms,
        tie=None if cells.ties is None else tie,
        separated=(),
        collinear=(),
        clusters=looks.count,
        scores=scores,
        inverse=inverse[:, : cells.systems],
    )


def find_tie_parameter(tie: ModelTerm, alpha: float) -> tuple[float, tuple[float, float] | None]:
    """ν or δ, with its interval; None where it has no end."""
    interval = tie.interval(alpha)
    if interval is None or interval[1] > MOST_ODDS:
        return exp(tie.value), None
    return exp(tie.value), (exp(interval[0]), exp(interval[1]))


def score_clusters(cells: PairCounts, found: Derivatives, looks: ClusterPairs) -> csr_array:
    """The clusters' slopes of the likelihood, sparse, shape (clusters, parameters)."""
    cell = looks.cell
    by_odds = looks.weight * found.by_odds[cell]
    parts = [(cells.first[cell], by_odds), (cells.second[cell], -by_odds)]
    for number, term in enumerate(cells.terms.T, start=cells.systems):
        parts.append((np.full(len(cell), number), by_odds * term[cell]))
    if cells.ties is not None:
        parts.append((np.full(len(cell), cells.size - 1), looks.weight * found.by_tie[cell]))
    places = np.tile(looks.cluster, len(parts)), np.concatenate([column for column, _ in parts])
    values = np.concatenate([part for _, part in parts])
    return coo_array((values, places), shape=(looks.count, cells.size)).tocsr()


def count_freedom(cells: PairCounts, found: Derivatives, looks: ClusterPairs, inverse: Floats) -> Floats:
    """t's degrees of freedom of each parameter: as many as equal clusters that carry as much of the model's own
    variance count as, less one; shape (parameters,)."""
    freedom = np.zeros(cells.size)
    for number, column in enumerate(inverse.T):
        checkpoint()
        odds = cells.odds(column)
        load = found.odds_odds * odds**2
        if cells.ties is not None:
            load = load + 2 * found.odds_tie * odds * column[-1] + found.tie_tie * column[-1] ** 2
        carried = np.bincount(looks.cluster, weights=looks.weight * load[looks.cell], minlength=looks.count)
        squares = float(carried @ carried)
        freedom[number] = float(carried.sum()) ** 2 / squares - 1 if squares else 0.0
    return freedom


def bound_freedom(scores: csr_array | Floats, inverse: Floats) -> Floats:
    """The most degrees of freedom that t can have of each parameter, shape (parameters,): where few clusters make all
    of its error, because most tie or agree on the order alone, the error is as uncertain as these are few. A sum of n
    squares of this kurtosis varies as χ² of 2 n / (kurtosis − 1) degrees does (Satterthwaite 1946)."""
    found = np.full(len(inverse), np.inf)
    for number, column in enumerate(inverse.T):
        checkpoint()
        squares = np.asarray(scores @ column) ** 2
        total, clusters = float(squares.sum()), len(squares)
        excess = clusters * float(squares @ squares) / total**2 - 1 if total else 0.0
        if excess > 0:
            found[number] = 2 * clusters / excess
    return found


def to_dense(matrix: Any) -> Floats:
    """The matrix, sparse or not, as an array."""
    found: Floats = matrix.toarray() if issparse(matrix) else matrix
    return found


def correct_scores(
    cells: PairCounts, found: Derivatives, looks: ClusterPairs, inverse: Floats, scores: csr_array
) -> Floats:
    """The clusters' slopes with the CR2 correction: (I − H)^(−1/2) of each, where H is what the cluster carries of all
    information; shape (clusters, parameters)."""
    values, vectors = np.linalg.eigh(inverse)
    roots = np.sqrt(np.clip(values, 0.0, None))
    half = vectors * roots  # half @ half.T is the inverse
    carried = carry(cells, found, looks, half)
    parts, bases = np.linalg.eigh(carried)
    scale = 1 / np.sqrt(1 - np.clip(parts, 0.0, NEARLY_ALL))
    # In the coordinates of `half`: turned into each cluster's own axes, stretched, and turned back.
    turned = np.einsum("cp,cpq->cq", scores @ half, bases) * scale
    back = np.einsum("cq,cpq->cp", turned, bases)
    with np.errstate(divide="ignore"):
        undo = np.where(roots > roots.max() * SMALLEST_ROOT, 1 / roots, 0.0)
    corrected: Floats = back @ (vectors * undo).T
    return corrected


def carry(cells: PairCounts, found: Derivatives, looks: ClusterPairs, half: Floats) -> Floats:
    """What each cluster carries of all information, in the coordinates of `half`, shape (clusters, parameters,
    parameters)."""
    design, last = cells.odds(half), half[-1]
    size = int(design.shape[1])

    def weigh(values: Floats) -> csr_array:
        places = looks.cluster, looks.cell
        return coo_array((looks.weight * values[looks.cell], places), shape=(looks.count, len(design))).tocsr()

    own = weigh(found.odds_odds)
    if len(design) * size**2 <= MOST_CORRECTED:
        squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        carried: Floats = (own @ squares).reshape(looks.count, size, size)
    else:
        carried = np.zeros((looks.count, size, size))
        for number, (start, end) in enumerate(pairwise(own.indptr.tolist())):
            checkpoint()
            odds = design[own.indices[start:end]]
            carried[number] = odds.T @ (own.data[start:end, None] * odds)
    if cells.ties is not None:
        crossed = (weigh(found.odds_tie) @ design)[:, :, None] * last
        even = np.bincount(looks.cluster, weights=looks.weight * found.tie_tie[looks.cell], minlength=looks.count)
        carried += crossed + crossed.transpose(0, 2, 1) + even[:, None, None] * np.outer(last, last)
    return carried
