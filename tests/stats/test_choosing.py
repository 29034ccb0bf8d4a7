"""Which items people should rate: stated probabilities are those of the draw, and weights undo them."""

import numpy as np
import pytest

from saiten_server.stats.choosing import (
    LEAST_FLOOR,
    MOST_COST,
    cap,
    combine_spreads,
    draw_items,
    find_probabilities,
    stratify,
    weigh_items,
)
from saiten_server.stats.corrected import CorrectedSample, estimate_corrected

ITEMS, RUNS = 40, 5_000


def simulate(probabilities, clusters) -> np.ndarray:
    """How often each item is drawn; every draw has the same size, and no item twice."""
    generator, size = np.random.default_rng(1), round(probabilities.sum())
    counts = np.zeros(len(probabilities))
    for _ in range(RUNS):
        drawn = draw_items(probabilities, clusters, generator)
        assert len(drawn) == len(set(drawn.tolist())) == size
        counts[drawn] += 1
    return counts / RUNS


@pytest.mark.parametrize("dialogues", [ITEMS, 8])
def test_items_are_drawn_as_often_as_stated(dialogues: int) -> None:
    residuals = np.random.default_rng(2).lognormal(0, 1, ITEMS)
    residuals[0] = 40.0
    probabilities = find_probabilities(residuals, 12)
    assert (probabilities[0], probabilities.sum()) == (1.0, pytest.approx(12))
    clusters = np.arange(ITEMS) % dialogues
    error = np.sqrt(probabilities * (1 - probabilities) / RUNS)
    assert np.all(np.abs(simulate(probabilities, clusters) - probabilities) <= 4.5 * error + 1e-12)


def test_a_dialogue_gives_no_more_than_its_share() -> None:
    clusters = np.repeat(np.arange(10), 4)
    for seed in range(200):
        drawn = draw_items(np.full(40, 0.25), clusters, np.random.default_rng(seed))
        assert np.bincount(clusters[drawn], minlength=10).tolist() == [1] * 10


def test_the_floor_bounds_what_a_useless_signal_costs() -> None:
    mild = 1 + 0.2 * np.random.default_rng(3).standard_normal(1000)
    found = find_probabilities(mild, 100)
    assert found == pytest.approx(100 * (LEAST_FLOOR + (1 - LEAST_FLOOR) * mild / mild.mean()) / 1000)
    rare = np.where(np.arange(1000) < 50, 1.0, 0.0)
    found = find_probabilities(rare, 100)
    assert found.sum() == pytest.approx(100)
    # The error of a mean whose residuals do not go with the probabilities, relative to that of a uniform draw.
    assert np.mean(100 / 1000 / found) == pytest.approx(MOST_COST, rel=1e-6)
    assert found[0] / found[-1] > 3


def test_all_are_drawn_where_no_fewer_are_asked_for() -> None:
    assert cap(np.arange(1.0, 6.0), 5).tolist() == cap(np.arange(1.0, 6.0), 9).tolist() == [1.0] * 5
    assert sorted(draw_items(np.ones(5), np.arange(5), np.random.default_rng(1)).tolist()) == [0, 1, 2, 3, 4]


def test_signals_add_up_and_a_missing_one_counts_as_the_average() -> None:
    nothing = np.full((3, 2), np.nan)
    samples = np.array([[0.3, 0.4], [0.0, 0.0], [np.nan, np.nan]])
    paths = np.array([[0.4, 0.0], [0.0, 0.0], [0.0, 0.3]])
    alike = np.full((3, 2), 0.2)
    found, used = combine_spreads({"samples": samples, "paths": paths, "expected": nothing, "judges": alike})
    assert used == ("samples", "paths")
    variances = [(0.25 + 0.16) / 2, 0.0, (0.045 + 0.08 + 0.09) / 2]
    assert found is not None
    assert found**2 == pytest.approx(variances)
    assert combine_spreads({"samples": nothing, "judges": alike}) == (None, ())


def test_rare_levels_get_more_than_their_share_and_each_gets_one() -> None:
    strata = np.repeat([0, 1, 2], [900, 100, 1])
    probabilities = stratify(strata, 41)
    assert [round(probabilities[strata == one].sum()) for one in range(3)] == [30, 10, 1]
    assert stratify(strata, 2) == pytest.approx(np.full(1001, 2 / 1001))
    assert stratify(strata, 5000).tolist() == [1.0] * 1001


def test_weights_undo_the_choice_as_an_independent_calculation_has_it() -> None:
    """Hájek's estimator by hand, of the mean of people's ratings and of its difference to the judge's."""
    generator = np.random.default_rng(4)
    scores, spread = generator.normal(3, 1, 400), generator.uniform(0.1, 1, 400)
    people = scores - 0.4 + spread * generator.standard_normal(400)
    probabilities = find_probabilities(spread, 80)
    drawn = draw_items(probabilities, np.arange(400), generator)
    rated = np.full(400, np.nan)
    rated[drawn] = people[drawn]
    weights = weigh_items(probabilities[drawn], np.zeros(80, dtype=np.int64), drawn, 400)
    sample = CorrectedSample(scores, rated, np.arange(400), weights)
    inverse = 1 / probabilities[drawn]
    for weight in (0.0, 0.7):
        hajek = sum(inverse * (people[drawn] - weight * scores[drawn])) / sum(inverse) + weight * scores.mean()
        assert estimate_corrected(sample, weight=weight).clustered.mean == pytest.approx(hajek, rel=1e-12)


def test_rounds_are_estimates_by_themselves_and_an_item_of_both_counts_in_both() -> None:
    # Round 0 drew items 0, 1, 2; round 1, which drew all alike, items 2 and 3.
    found = weigh_items(np.array([0.5, 0.25, 0.25, 0.1, 0.1]), np.array([0, 0, 0, 7, 7]), np.array([0, 1, 2, 2, 3]), 5)
    assert found == pytest.approx([3 * 0.2, 3 * 0.4, 3 * 0.4 + 1, 1, 0])
