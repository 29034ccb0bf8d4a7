"""Scores against humans: the published figures of UniEval, scipy, and data that give no figure."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.stats.correlation import bias_interval, correlate_scores
from saiten_server.stats.observations import NO_RATER, Observations
from saiten_server.stats.reading import ObservationReader, read_ndjson
from tests.support.observed import observe, observe_columns

UNIEVAL = {
    "natural": (0.444, 0.514),
    "maintains_context": (0.595, 0.613),
    "engaging": (0.557, 0.605),
    "uses_knowledge": (0.536, 0.575),
    "overall": (0.633, 0.663),
}
COLUMNS = st.integers(0, 15).flatmap(
    lambda n: arrays(np.float64, (2, n), elements=st.sampled_from([1, 2, 2.5, 7, math.nan]))
)


def observe_shared(scores, ratings):
    """Tables of contexts by systems, NaN where a system has no score."""
    scores = np.array(scores, float)
    item, system = np.nonzero(~np.isnan(scores))
    return Observations(
        systems=tuple(map(str, range(scores.shape[1]))),
        items=tuple(map(str, range(len(scores)))),
        raters=(),
        system=system,
        item=item,
        rater=np.full(len(item), NO_RATER),
        ratings={"a": np.array(ratings, float)[item, system]},
        scores={"a": scores[item, system]},
    )


def correlated(scores, ratings, systems=None, **settings):
    observed = observe_columns({"a": np.array(ratings, float)}, {"a": np.array(scores, float)}, systems=systems)
    return correlate_scores(observed, **{"resamples": 200, **settings}).aspects["a"]


def test_unieval_correlates_as_published(shared):
    with (shared / "data" / "topical_chat_usr.jsonl").open("rb") as file:
        report = correlate_scores(read_ndjson(file, ObservationReader(scores_field="unieval")), resamples=200)
    found = {aspect: (report.aspects[aspect].pearson, report.aspects[aspect].spearman) for aspect in UNIEVAL}
    for aspect, figures in UNIEVAL.items():
        assert found[aspect] == pytest.approx(figures, abs=0.0005)
    overall = report.aspects["overall"]
    assert (report.systems, report.items, overall.n, overall.left_out) == (6, 360, 360, 0)
    assert overall.spearman_interval is not None
    assert overall.spearman_interval[0] < 0.663 < overall.spearman_interval[1]
    assert overall.ceiling is None
    assert overall.undefined == {"ceiling": Message("few-raters")}


@settings(max_examples=50, deadline=None)
@given(COLUMNS)
def test_figures_are_scipys_and_none_is_null_without_a_word(columns):
    found = correlated(*columns, resamples=20)
    x, y = columns[:, ~np.isnan(columns).any(axis=0)]
    assert (found.n, found.left_out) == (len(x), columns.shape[1] - len(x))
    if len(x) >= 3 and np.ptp(x) and np.ptp(y):
        assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
        assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
        assert found.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)
    else:
        assert found.spearman is found.pearson is found.kendall is None
    if len(x):
        assert found.bias == pytest.approx(x.mean() - y.mean(), abs=1e-12)
    null = {name for name, value in found.model_dump().items() if value is None}
    assert null == set(found.undefined)


@pytest.mark.parametrize(("statistic", "index"), [("spearman", 0), ("pearson", 1), ("kendall", 2)])
def test_intervals_are_near_scipys_bootstrap(statistic, index):
    generator = np.random.default_rng(3)
    x = generator.normal(size=120)
    y = np.round(x + generator.normal(size=120))
    function = (stats.spearmanr, stats.pearsonr, stats.kendalltau)[index]
    expected = stats.bootstrap(
        (x, y), lambda a, b: function(a, b).statistic, paired=True, vectorized=False, n_resamples=1000,
        method="percentile", random_state=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    found = getattr(correlated(x, y, resamples=2000), f"{statistic}_interval")
    assert found == pytest.approx((expected.low, expected.high), abs=0.03)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = {"spearman": 0, "pearson": 0, "kendall": 0, "bias": 0}
    truth = {"pearson": 0.6, "spearman": 6 / math.pi * math.asin(0.3), "kendall": 2 / math.pi * math.asin(0.6)}
    for seed in range(100):
        x, noise = np.random.default_rng(seed).normal(size=(2, 80))
        found = correlated(x + 0.25, 0.6 * x + 0.8 * noise, resamples=300, seed=seed)
        for name, value in {**truth, "bias": 0.25}.items():
            low, high = getattr(found, f"{name}_interval")
            held[name] += low <= value <= high
    assert min(held.values()) >= 88


def answer(contexts, systems, seed, *, drop=0.0):
    """Scores and ratings that correlate by 0.6, within a context as between contexts; without bias."""
    generator = np.random.default_rng(seed)
    mixed = np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T
    shared = generator.normal(size=(contexts, 1, 2)) @ mixed * math.sqrt(0.6)
    own = generator.normal(size=(contexts, systems, 2)) @ mixed * math.sqrt(0.4)
    scores, ratings = np.moveaxis(shared + own, 2, 0)
    scores[generator.random(scores.shape) < drop] = np.nan
    return observe_shared(scores, ratings)


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_intervals_hold_the_truth_where_systems_share_contexts(drop):
    truth = {"pearson": 0.6, "spearman": 6 / math.pi * math.asin(0.3), "kendall": 2 / math.pi * math.asin(0.6)}
    held = dict.fromkeys([*truth, "bias"], 0)
    for seed in range(60):
        found = correlate_scores(answer(60, 6, seed, drop=drop), resamples=200, seed=seed).aspects["a"]
        for name, value in {**truth, "bias": 0.0}.items():
            low, high = getattr(found, f"{name}_interval")
            held[name] += low <= value <= high
    assert min(held.values()) >= 0.9 * 60


@pytest.mark.parametrize("n", [3, 8])
def test_the_interval_of_a_bias_holds_the_truth_of_few_items_too(n):
    held = 0
    for seed in range(200):
        low, high = correlated(np.random.default_rng(seed).normal(size=n), np.zeros(n), resamples=0).bias_interval
        held += low <= 0 <= high
    assert held >= 0.92 * 200


def test_the_order_of_the_lines_moves_no_interval():
    records = [
        {"system": f"s{system}", "item": f"i{item}", "rater": rater, "ratings": {"a": (item * 7 + system * rater) % 5},
         "scores": {"a": (item * 3 + system) % 4}}
        for item in range(12) for system in range(3) for rater in (1, 2, 3)
    ]  # fmt: skip
    found = correlate_scores(observe(records), resamples=50, seed=3).aspects["a"]
    for seed in range(3):
        shuffled = [records[place] for place in np.random.default_rng(seed).permutation(len(records))]
        again = correlate_scores(observe(shuffled), resamples=50, seed=3).aspects["a"]
        intervals = [f"{name}_interval" for name in ("spearman", "pearson", "kendall")]
        assert [getattr(again, name) for name in intervals] == [getattr(found, name) for name in intervals]
        assert again.bias_interval == found.bias_interval


@pytest.mark.parametrize(
    ("scores", "ratings", "told"),
    [
        ([0.1, 0.5, 0.9], [1, 2, 3], True),  # nothing in common
        ([0, 0.5, 1], [0, 1, 3], True),  # a third
        ([2, 3, 3], [1, 2, 3], False),  # half of it
        ([1, 4, 5], [1, 2, 5], False),
        ([2, 2, 2], [1, 2, 3], False),  # that it never varies is told anyway
        ([4, 4, 4], [1, 2, 3], True),
        ([9, 9], [1, 2], False),  # too few to tell
    ],
)
def test_a_bias_between_two_scales_is_told(scores, ratings, told):
    notes = correlated(scores, ratings).notes
    assert bool(notes) == told
    if told:
        assert str(notes[0]).startswith(
            f"scores run from {min(scores):g} to {max(scores):g} and ratings from 1 to 3: "
        ) or (
            str(notes[0]).startswith(
                "scores run from 0 to 1 and ratings from 0 to 3: the bias means something only where"
            )
        )


def test_aspects_do_not_move_each_other_and_no_seed_moves_an_interval():
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    both = correlate_scores(observe_columns({"b": y, "a": x}, {"b": x, "a": y}), resamples=100, seed=4)
    alone = correlated(y, x, resamples=200, seed=5)
    assert both.aspects["a"].model_copy(update={"within_systems": None}) == alone.model_copy(
        update={"within_systems": None}
    )


def test_a_bias_has_an_interval_unless_it_is_the_same_everywhere():
    found = correlated([2, 3, 4], [1, 2, 3])
    assert (found.bias, found.bias_interval) == (1.0, None)
    assert found.undefined["bias_interval"] == Message("all-differences-equal")
    moved = correlated([2, 3, 5], [1, 2, 3]).bias_interval
    # Differences 1, 1, 2: at least 4/3 − t(2) · s / √3, s² = 1/3, and no more than the range of 4.
    assert moved is not None
    assert moved[0] == pytest.approx(4 / 3 - 4.302653 / 3)
    assert 4 / 3 + 1 < moved[1] <= 4


def test_differences_of_one_context_come_together():
    """Turned about 0, so that as many rise as fall: contexts with the sums −2 (−1, −1), 0 (0), 2 (1, 1)."""
    observed = observe_shared([[1, 1], [2, np.nan], [3, 3]], np.full((3, 2), 2.0))
    found = correlate_scores(observed, resamples=10).aspects["a"]
    assert (found.n, found.contexts, found.bias) == (5, 3, 0.0)
    assert found.bias_interval is not None
    low, high = found.bias_interval
    assert low == pytest.approx(-high)
    # Of five independent differences it would be ±1.24: √(4 / 4 / 5) · t(4).
    assert high > 1.5


@pytest.mark.parametrize(("n", "share", "turns"), [(70, 0.05, 1), (200, 0.03, 1), (100, 0.1, 5)])
def test_the_interval_of_a_bias_holds_it_where_few_differ_and_all_to_one_side(n, share, turns):
    """The t interval held it in .84, .89 and .91."""
    draw, held, given = np.random.default_rng(5), 0, 0
    cluster = np.repeat(np.arange(n // turns), turns)
    for _ in range(400):
        if turns == 1:
            lower = draw.random(n) < share
        else:
            lower = (draw.random(n // turns) < 2 * share)[cluster] & (draw.random(n) < 0.5)
        if not lower.any():
            continue
        found = bias_interval(-lower.astype(np.float64), cluster, 2.0)
        assert not isinstance(found, Message)
        given += 1
        held += found[0] <= -share <= found[1]
    assert held >= 0.95 * given


def test_a_bias_whose_contexts_all_add_up_to_the_same_has_no_interval():
    found = correlate_scores(observe_shared([[1, 3], [3, 1], [2, 2]], np.zeros((3, 2))), resamples=10).aspects["a"]
    assert (found.bias, found.bias_interval) == (2.0, None)
    assert found.undefined["bias_interval"] == Message("same-sums")


def test_one_context_has_no_interval_however_many_systems_answered_it():
    found = correlate_scores(observe_shared([[1, 2, 3, 5]], [[1, 3, 2, 4]]), resamples=50).aspects["a"]
    assert (found.n, found.contexts) == (4, 1)
    assert found.spearman == pytest.approx(0.8)
    assert found.undefined["bias_interval"] == Message("few-have-both")
    assert found.undefined["pearson_interval"] == Message("few-clusters", least=8)


def test_raters_are_averaged_and_give_the_ceiling_on_the_same_items():
    records = []
    for item, (score, first, second) in enumerate([(1, 1, 2), (2, 2, 2), (3, 3, 4), (None, 9, 0)]):
        for rater, rating in (("r1", first), ("r2", second)):
            scores = {"a": score, "c": 1}
            records.append({"item": item, "rater": rater, "ratings": {"a": rating, "b": 1}, "scores": scores})
    report = correlate_scores(observe(records), resamples=10)
    found = report.aspects["a"]
    # Rater means 1.5, 2, 3.5 against 1, 2, 3; the fourth item has no score.
    assert (found.n, found.left_out) == (3, 1)
    assert found.spearman == pytest.approx(1.0)
    assert found.pearson == pytest.approx(stats.pearsonr([1, 2, 3], [1.5, 2, 3.5])[0])
    assert found.ceiling is not None
    assert found.ceiling.raters == 2
    assert found.ceiling.spearman == pytest.approx(stats.spearmanr([1, 2, 3], [2, 2, 4])[0])
    assert report.unmatched == {"b": Message("only-ratings"), "c": Message("only-scores")}


def test_a_ceiling_that_cannot_be_had_says_why():
    records = [
        {"item": item, "rater": rater, "ratings": {"a": item}, "scores": {"a": item}}
        for item, rater in [(1, "r1"), (2, "r2"), (3, "r1")]
    ]
    ceiling = correlate_scores(observe(records), resamples=10).aspects["a"].ceiling
    assert ceiling is not None
    assert (ceiling.raters, ceiling.spearman) == (2, None)
    assert ceiling.undefined == dict.fromkeys(("spearman", "pearson"), Message("no-shared-item"))


def test_systems_are_compared_by_their_means():
    # Means of scores 2, 3, 10 and of ratings 1, 3, 2: ranks 1 2 3 and 1 3 2.
    found = correlated([1, 3, 3, 10, 10], [1, 1, 3, 2, 2], systems=[0, 0, 1, 2, 2]).system_level
    assert found is not None
    assert (found.n, found.spearman, found.kendall) == (3, pytest.approx(0.5), pytest.approx(1 / 3))
    assert found.pearson == pytest.approx(stats.pearsonr([2, 3, 10], [1, 3, 2])[0])


def test_two_systems_are_too_few_and_equal_means_have_no_correlation():
    assert correlated([1, 2, 3], [1, 2, 4], systems=[0, 1, 1]).undefined["system_level"]
    level = correlated([0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.2], [1, 2, 3, 1, 2, 3, 9], systems=[0, 0, 0, 1, 1, 1, 2])
    assert level.system_level is not None
    assert level.system_level.undefined["spearman"] == Message("scores-equal")


def test_three_items_have_figures_but_no_interval():
    found = correlated([1, 2, 3], [1, 3, 2])
    assert found.spearman == pytest.approx(0.5)
    assert found.spearman_interval is None
    assert found.undefined["spearman_interval"] == Message("few-clusters", least=8)


def test_nothing_to_correlate_is_an_empty_report():
    report = correlate_scores(observe([{"item": "1", "ratings": {"a": 1}}]))
    assert (report.aspects, report.unmatched) == ({}, {"a": Message("only-ratings")})


def test_a_score_can_be_held_against_a_rating_of_another_name():
    """The figures are those of the same values under one name."""
    values = [(number % 4, (number * 3) % 5 / 2) for number in range(30)]

    def name(score: str) -> list[dict[str, object]]:
        return [
            {"item": str(number), "ratings": {"whole": rating}, "scores": {score: value}}
            for number, (rating, value) in enumerate(values)
        ]

    records, renamed = name("mate"), name("whole")
    found = correlate_scores(observe(records), match={"mate": "whole"}, resamples=200)
    alone = correlate_scores(observe(renamed), resamples=200)
    assert found.aspects == {"mate": alone.aspects["whole"]}
    assert found.unmatched == {}
    assert correlate_scores(observe(records), resamples=200).unmatched == {
        "whole": Message("only-ratings"),
        "mate": Message("only-scores"),
    }


@pytest.mark.parametrize("match", [{"other": "whole"}, {"mate": "other"}])
def test_a_match_of_what_is_not_there_is_refused(match):
    records = [{"item": "1", "ratings": {"whole": 1}, "scores": {"mate": 1}}]
    with pytest.raises(InvalidRequest, match="no record has the"):
        correlate_scores(observe(records), match=match)
