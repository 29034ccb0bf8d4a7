"""Strengths against choix, a logistic model, a log-linear model and statsmodels' ordinal logit; errors against GEE's
sandwich and the cluster bootstrap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saiten_server.stats.rank_sets import share_preferred
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs
from saiten_server.stats.strengths import Ties, estimate_strengths, find_tie_parameter
from tests.support.preferences import PreferenceWorld, draw_pairs, list_wins, make_pairs

WORLD = PreferenceWorld((-0.6, 0.0, 0.2, 0.7), position=0.3, alike=0.3)
TIED = replace(WORLD, nu=0.6)


def with_covariate(pairs: ShownPairs, seed: int = 5) -> ShownPairs:
    return replace(pairs, covariates={"politeness": np.random.default_rng(seed).normal(size=pairs.n)})


def design_of(pairs: ShownPairs) -> np.ndarray:
    """Systems but the first, and covariates."""
    rows, found = np.arange(pairs.n), np.zeros((pairs.n, len(pairs.systems)))
    found[rows, pairs.first] = 1.0
    found[rows, pairs.second] = -1.0
    design: np.ndarray = np.column_stack([found[:, 1:], *pairs.covariates.values()])
    return design


def centre(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.concatenate([[0.0], values])
    centred: np.ndarray = found - found.mean()
    return centred


def test_without_order_effect_strengths_are_those_of_choix() -> None:
    choix = pytest.importorskip("choix")
    wins = {(0, 1): 7, (1, 0): 5, (1, 2): 9, (2, 1): 4, (0, 2): 6, (2, 0): 8, (3, 0): 2, (0, 3): 5, (3, 2): 1}
    pairs = list_wins(wins, 4)
    # Each look once in either order, so that no order effect is left.
    both = replace(
        pairs,
        first=np.concatenate([pairs.first, pairs.second]),
        second=np.concatenate([pairs.second, pairs.first]),
        choice=np.concatenate([pairs.choice, 1 - pairs.choice]),
        item=np.tile(pairs.item, 2),
        cluster=np.tile(pairs.cluster, 2),
        rater=np.tile(pairs.rater, 2),
    )
    data = [pair for pair, count in wins.items() for _ in range(count)]
    found = estimate_strengths(both)
    assert found.values == pytest.approx(choix.opt_pairwise(4, data, tol=1e-12), abs=1e-6)
    assert found.position is not None
    assert found.position.value == pytest.approx(0, abs=1e-9)


def test_without_ties_it_is_a_logistic_model() -> None:
    import statsmodels.api as sm  # here: it brings pandas, which no other test needs

    pairs = with_covariate(draw_pairs(WORLD, 60, np.random.default_rng(1)))
    found = estimate_strengths(pairs)
    design = np.column_stack([design_of(pairs), np.ones(pairs.n)])
    model = sm.GLM((pairs.choice == FIRST).astype(float), design, family=sm.families.Binomial()).fit(tol=1e-14)
    assert found.values == pytest.approx(centre(model.params[:3]), abs=1e-6)
    assert found.position is not None
    assert found.tie is None
    term = found.covariates["politeness"]
    assert (term.value, found.position.value) == pytest.approx(tuple(model.params[3:]), abs=1e-6)


def test_with_ties_davidson_is_a_log_linear_model() -> None:
    import statsmodels.api as sm

    pairs = draw_pairs(TIED, 60, np.random.default_rng(2))
    found = estimate_strengths(pairs)
    # A count for each answer to each ordered pair; what an ordered pair has in all is a parameter of its own.
    rows, counts, kinds = [], [], [(i, j) for i in range(4) for j in range(4) if i != j]
    for number, (i, j) in enumerate(kinds):
        shown = (pairs.first == i) & (pairs.second == j)
        for choice, sign in ((FIRST, 0.5), (SECOND, -0.5), (TIE, 0.0)):
            theta = np.zeros(4)
            theta[i], theta[j] = sign, -sign
            own = np.eye(len(kinds))[number]
            rows.append([*theta[1:], sign, float(choice == TIE), *own])
            counts.append(np.sum(shown & (pairs.choice == choice)))
    model = sm.GLM(np.array(counts), np.array(rows), family=sm.families.Poisson()).fit(tol=1e-14)
    assert found.values == pytest.approx(centre(model.params[:3]), abs=1e-6)
    assert found.position is not None
    assert found.tie is not None
    assert (found.position.value, found.tie.value) == pytest.approx(tuple(model.params[3:5]), abs=1e-6)
    assert find_tie_parameter(found.tie, 0.05)[0] == pytest.approx(np.exp(model.params[4]), abs=1e-6)


def test_with_ties_ordinal_is_statsmodels_ordinal_logit() -> None:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    pairs = with_covariate(draw_pairs(TIED, 60, np.random.default_rng(3)))
    found = estimate_strengths(pairs, ties="ordinal")
    level = np.array([2, 0, 1])[pairs.choice]
    model = OrderedModel(level, design_of(pairs), distr="logit").fit(method="newton", disp=0, tol=1e-12)
    low, high = model.model.transform_threshold_params(model.params[-2:])[1:3]
    assert found.values == pytest.approx(centre(model.params[:3]), abs=1e-6)
    assert found.covariates["politeness"].value == pytest.approx(model.params[3], abs=1e-6)
    assert found.position is not None
    assert found.tie is not None
    assert found.position.value == pytest.approx(-(low + high) / 2, abs=1e-6)
    assert np.exp(found.tie.value) == pytest.approx((high - low) / 2, abs=1e-6)


@pytest.mark.parametrize(("ties", "world"), [("davidson", WORLD), ("davidson", TIED), ("ordinal", TIED)])
def test_errors_are_those_of_the_cluster_bootstrap(ties, world) -> None:
    rng = np.random.default_rng(4)
    pairs = draw_pairs(world, 80, rng)
    found = estimate_strengths(pairs, ties=ties)
    drawn = []
    for _ in range(400):
        times = np.bincount(rng.integers(0, 80, 80), minlength=80).astype(float)
        drawn.append(estimate_strengths(pairs, ties=ties, weights=times[pairs.cluster]).values)
    # 400 resamples leave the standard deviation uncertain by 3.5%; CR2 and the bootstrap differ by about 1 / 80.
    assert found.errors == pytest.approx(np.std(drawn, axis=0), rel=0.14)
    alone = estimate_strengths(replace(pairs, cluster=np.arange(pairs.n)), ties=ties)
    assert np.all(found.errors > 1.1 * alone.errors)  # looks at one prompt are not independent


def test_errors_of_many_clusters_are_those_of_gee() -> None:
    import statsmodels.api as sm

    pairs = draw_pairs(WORLD, 400, np.random.default_rng(6))
    design = np.column_stack([design_of(pairs), np.ones(pairs.n)])
    model = sm.GLM((pairs.choice == FIRST).astype(float), design, family=sm.families.Binomial())
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": pairs.cluster, "use_correction": False})
    found = estimate_strengths(pairs)
    assert found.position is not None
    assert found.position.error == pytest.approx(fitted.bse[3], rel=0.01)
    # 399 but for the kurtosis of what the clusters add.
    assert 350 < found.position.freedom < 400.5


def test_a_term_that_all_looks_agree_on_is_left_out_and_named() -> None:
    pairs = draw_pairs(WORLD, 20, np.random.default_rng(7))
    found = estimate_strengths(replace(pairs, choice=np.full(pairs.n, FIRST)))
    assert found.separated == ("position",)
    assert found.position is None
    assert found.values == pytest.approx(np.zeros(4), abs=1e-9)


def test_no_position_term_where_each_pair_has_one_order() -> None:
    pairs = draw_pairs(WORLD, 30, np.random.default_rng(8))
    assert estimate_strengths(pairs.within(pairs.first < pairs.second)).position is None


def test_a_covariate_that_the_systems_determine_is_left_out_and_named() -> None:
    pairs = draw_pairs(WORLD, 30, np.random.default_rng(10))
    lengths = np.array([10.0, 40.0, 25.0, 90.0])
    constant = replace(pairs, covariates={"length": lengths[pairs.first] - lengths[pairs.second]})
    found = estimate_strengths(constant)
    assert found.collinear == ("length",)
    assert found.values == pytest.approx(estimate_strengths(pairs).values, abs=1e-9)
    one_order = constant.within(pairs.first < pairs.second)
    assert estimate_strengths(one_order).collinear == ("length",)
    twice = with_covariate(pairs)
    doubled = replace(twice, covariates={**twice.covariates, "again": 2 * twice.covariates["politeness"]})
    assert estimate_strengths(doubled).collinear == ("again",)


def test_a_covariate_is_taken_where_each_pair_has_one_order() -> None:
    pairs = with_covariate(draw_pairs(WORLD, 30, np.random.default_rng(8)))
    found = estimate_strengths(pairs.within(pairs.first < pairs.second))
    assert found.collinear == ()
    assert found.covariates["politeness"].error > 0


def test_a_term_that_drives_strengths_apart_is_left_out() -> None:
    # Each verdict is for what was shown first, or for the second of two systems: with a position term both are endless.
    first, second = np.array([0, 1, 1, 2, 2, 0]), np.array([1, 0, 2, 1, 0, 2])
    choice = np.array([FIRST, FIRST, FIRST, FIRST, FIRST, SECOND])
    pairs = make_pairs(3, np.tile(first, 12), np.tile(second, 12), np.tile(choice, 12), np.arange(72) // 6)
    found = estimate_strengths(pairs)
    assert found.separated == ("position",)
    assert np.abs(found.values).max() < 2


@pytest.mark.parametrize("ties", ["davidson", "ordinal"])
def test_ties_that_are_hardly_bounded_have_no_interval(ties: Ties) -> None:
    choice = np.array([FIRST, *[TIE] * 11])
    pairs = make_pairs(2, np.arange(12) % 2, (np.arange(12) + 1) % 2, choice, np.arange(12))
    found = estimate_strengths(pairs, ties=ties, penalty=1e-9)
    assert found.tie is not None
    value, interval = find_tie_parameter(replace(found.tie, error=1e4, freedom=9.0), 0.05)
    assert np.isfinite(value)
    assert interval is None


def test_a_penalty_makes_strengths_finite() -> None:
    pairs = make_pairs(2, np.zeros(20, int), np.ones(20, int), np.full(20, FIRST), np.arange(20))
    found = estimate_strengths(pairs, penalty=1.0)
    assert 0.5 < found.values[0] < 4
    assert found.values.sum() == pytest.approx(0, abs=1e-12)


def test_a_million_looks_are_counts() -> None:
    rng = np.random.default_rng(9)
    pairs = draw_pairs(replace(TIED, strengths=(0.0, 0.5)), 500_000, rng)
    found = estimate_strengths(pairs)
    assert found.values == pytest.approx([-0.25, 0.25], abs=0.01)


def test_shares_count_a_tie_half() -> None:
    assert share_preferred((0.0, 0.0), 0.3) == pytest.approx(0.5)
    assert share_preferred((1.0, 0.0), None) == pytest.approx(1 / (1 + np.exp(-1)))
    assert share_preferred((1.0, 0.0), 0.0) == pytest.approx((np.exp(0.5) + 0.5) / (np.exp(0.5) + np.exp(-0.5) + 1))
