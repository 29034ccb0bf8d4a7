"""The blend's weight: a known one comes back, folds are judged by others' choice, and ties are left alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.core.errors import UnknownAspect
from saiten_server.stats import fitting
from saiten_server.stats.fitting import WEIGHTS, best, fit_blend, nested, resampled_weights, split_folds
from tests.support.observed import observe_columns


def blended(n, seed, weight=8.0, noise=0.5):
    """Items whose ratings are c + weight · b and noise, to thirds as three raters give them."""
    generator = np.random.default_rng(seed)
    c = generator.integers(1, 4, n).astype(float)
    b = generator.normal(0.7, 0.08, n)
    y = np.round(3 * (c + weight * b + generator.normal(0, noise, n))) / 3
    return observe_columns({"relevance": y}, {"relevance": c}, b)


@pytest.mark.parametrize("statistic", ["spearman", "pearson"])
def test_a_known_weight_comes_back_within_the_interval(statistic, monkeypatch):
    monkeypatch.setattr(fitting, "BLEND_RESAMPLES", 200)
    held = 0
    for seed in range(10):
        interval = fit_blend(blended(80, seed), "relevance", seed=seed, statistic=statistic).interval
        assert interval is not None
        held += interval[0] <= 8 <= interval[1]
    assert held >= 8


def test_the_figures_are_means_over_the_folds():
    observed = blended(60, 1)
    found = fit_blend(observed, "relevance", folds=4, seed=2)
    assert observed.similarity is not None
    order = np.argsort([str(number) for number in range(60)])
    c, b, y = (
        column[order] for column in (observed.scores["relevance"], observed.similarity, observed.ratings["relevance"])
    )
    parts = split_folds(np.arange(60), 4, 2)
    curves = np.array(
        [[stats.spearmanr(c[part] + weight * b[part], y[part])[0] for weight in WEIGHTS] for part in parts]
    )
    assert found.unblended == pytest.approx(curves[:, 0].mean())
    assert found.default == pytest.approx(curves[:, WEIGHTS == 10].mean())
    means = curves.mean(axis=0)
    assert means[found.weight == WEIGHTS] == pytest.approx(means.max(), abs=1e-9)
    others = [np.delete(curves, fold, axis=0).mean(axis=0) for fold in range(4)]
    assert found.correlation == pytest.approx(
        np.mean([curves[fold, np.argmax(np.round(mean, 8))] for fold, mean in enumerate(others)])
    )
    assert (found.n, found.left_out, found.folds, found.seed, found.statistic) == (60, 0, 4, 2, "spearman")
    assert (found.undefined, found.tried) == ({}, (0.0, 50.0))


def test_similarity_that_says_nothing_gets_a_weight_near_none():
    observed = blended(400, 0, weight=0.0)
    found = fit_blend(observed, "relevance")
    assert found.weight is not None
    assert found.interval is not None
    assert found.weight <= 1
    assert found.interval[0] == 0


def test_of_weights_that_do_equally_well_the_smallest_is_chosen():
    assert best(np.array([[0.1, 0.5, 0.5 + 1e-12, 0.4]])) == 1
    # An undefined correlation counts as 0, so it beats a negative one.
    assert best(np.array([[-0.2, np.nan, -0.1]])) == 1


def test_each_fold_is_judged_with_the_weight_that_the_others_chose():
    # Fold 0 would choose 0, fold 1 would choose 1: each gets the other's choice.
    assert nested(np.array([[0.9, 0.1], [0.2, 0.8]])) == pytest.approx((0.1 + 0.2) / 2)


def test_an_interval_is_repeatable_and_larger_data_get_fewer_resamples(monkeypatch):
    found = fit_blend(blended(60, 5), "relevance", seed=1)
    assert found == fit_blend(blended(60, 5), "relevance", seed=1)
    assert found.resamples == 500
    monkeypatch.setattr(fitting, "MOST_DRAWN_VALUES", 60 * 200)
    assert fit_blend(blended(60, 5), "relevance").resamples == 200


def test_folds_are_resampled_independently():
    c, b, y = np.random.default_rng(0).normal(size=(3, 20))
    part = np.arange(20)
    one = resampled_weights(c, b, y, part, [part], resamples=20, seed=1, statistic="pearson")
    two = resampled_weights(c, b, y, part, [part, part], resamples=20, seed=1, statistic="pearson")
    # Drawn alike, two folds of the same items would choose as one.
    assert one.tolist() != two.tolist()


def test_a_fold_has_whole_contexts():
    context = np.repeat(np.arange(10), 3)
    parts = split_folds(context, 4, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(30))
    assert [len(part) for part in parts] == [9, 9, 6, 6]
    assert sum(len(set(context[part].tolist())) for part in parts) == 10


def test_the_order_of_the_lines_moves_nothing():
    observed = blended(40, 3)
    found = fit_blend(observed, "relevance", seed=2)
    order = np.random.default_rng(0).permutation(40)
    assert observed.similarity is not None
    shuffled = replace(
        observed,
        item=observed.item[order],
        ratings={"relevance": observed.ratings["relevance"][order]},
        scores={"relevance": observed.scores["relevance"][order]},
        similarity=observed.similarity[order],
    )
    assert fit_blend(shuffled, "relevance", seed=2) == found


@pytest.mark.parametrize(
    ("statistic", "weight", "noise", "told"),
    [
        ("pearson", 20, 0, None),
        ("pearson", 5, 5, Message("interval-ends-at-greatest-weight", greatest=50)),
        ("pearson", 20, 10, Message("greatest-weight", greatest=50)),
        ("spearman", 500, 0, Message("greatest-weight-does-as-well", greatest=50, weight=31.5)),
    ],
)
def test_a_weight_at_the_end_of_those_tried_is_told(statistic, weight, noise, told):
    generator = np.random.default_rng(0)
    c, b = generator.normal(size=(2, 60))
    y = c + weight * b + noise * generator.normal(size=60)
    found = fit_blend(observe_columns({"a": y}, {"a": c}, b), "a", statistic=statistic)
    assert found.notes == (() if told is None else (told,))


def test_items_with_gaps_are_left_out():
    observed = blended(50, 0)
    for column in (observed.ratings["relevance"][:5], observed.scores["relevance"][3:8]):
        column[:] = np.nan
    assert observed.similarity is not None
    observed.similarity[49] = np.nan
    found = fit_blend(observed, "relevance")
    assert (found.n, found.left_out) == (41, 9)


@pytest.mark.parametrize(
    ("n", "change", "reason"),
    [
        (0, {}, Message("no-complete-item")),
        (3, {}, Message("few-folds", least=3)),
        (30, {"y": 1}, Message("few-folds", least=3)),
        (30, {"b": 0.5}, Message("same-similarity")),
    ],
)
def test_what_cannot_be_fitted_says_why(n, change, reason):
    values = {name: np.random.default_rng(0).normal(size=n) for name in "cby"}
    values |= {name: np.full(n, float(value)) for name, value in change.items()}
    found = fit_blend(observe_columns({"a": values["y"]}, {"a": values["c"]}, values["b"]), "a")
    assert (found.weight, found.interval, found.correlation, found.resamples) == (None, None, None, 0)
    assert {found.undefined[name] for name in ("weight", "interval", "correlation")} == {reason}
    null = {name for name, value in found.model_dump().items() if value is None}
    # `ratings_used` is no figure: only ratings of a batch have it.
    assert null == {*found.undefined, "ratings_used"}


def test_a_judge_that_always_says_the_same_correlates_only_when_blended():
    generator = np.random.default_rng(0)
    b = generator.normal(size=30)
    found = fit_blend(observe_columns({"a": b}, {"a": np.ones(30)}, b), "a")
    assert (found.weight, found.interval, found.correlation, found.unblended) == (None, None, None, None)
    same = Message("same-score")
    assert found.undefined == {
        **dict.fromkeys(("weight", "interval", "correlation"), same),
        "unblended": Message("fold-equal", weight=0),
    }
    assert found.default == pytest.approx(1)


def test_without_similarity_no_item_can_be_blended():
    found = fit_blend(observe_columns({"a": np.arange(9.0)}, {"a": np.arange(9.0)}), "a")
    assert found.undefined["weight"] == Message("no-complete-item")


@pytest.mark.parametrize(("aspect", "what"), [("relevanse", "'relevanse' has no ratings; did you mean 'relevance'")])
def test_an_unknown_aspect_is_named(aspect, what):
    with pytest.raises(UnknownAspect, match=what):
        fit_blend(blended(9, 0), aspect)


def test_an_aspect_without_scores_is_named():
    with pytest.raises(UnknownAspect, match="the aspect 'a' has no scores"):
        fit_blend(observe_columns({"a": np.ones(3)}), "a")
