"""c + w(b − b̄), with the arithmetic shown."""

import pytest

from saiten_server.core.rubric import blend


@pytest.mark.parametrize(
    ("rating", "similarity", "baseline", "weight", "blended"),
    [
        # The paper's w = 10: 3 + 10 · (0.74 − 0.70) = 3 + 0.4
        (3, 0.74, 0.70, 10, 3.4),
        # 1 + 10 · (0.62 − 0.70) = 1 − 0.8: below the scale, as it should be
        (1, 0.62, 0.70, 10, 0.2),
        # 3 + 10 · (1 − 0.70) = 3 + 3: above the scale, and not clamped
        (3, 1.0, 0.70, 10, 6.0),
        # an average similarity adds nothing
        (2, 0.70, 0.70, 10, 2.0),
        # w = 0 leaves the rating: 2 + 0 · 0.29
        (2, 0.99, 0.70, 0, 2.0),
        # a mean of samples may be blended: 2.5 + 2 · (−0.1 − 0.1) = 2.5 − 0.4
        (2.5, -0.1, 0.1, 2, 2.1),
    ],
)
def test_adds_the_weighted_distance_from_the_baseline(rating, similarity, baseline, weight, blended):
    assert blend(rating, similarity, baseline, weight) == pytest.approx(blended, abs=1e-12)


def test_tells_apart_two_responses_that_the_judge_rates_alike():
    # difference = 10 · (0.75 − 0.71) = 0.4, whatever the baseline
    for baseline in (0.0, 0.7, -1.0):
        assert blend(2, 0.75, baseline, 10) - blend(2, 0.71, baseline, 10) == pytest.approx(0.4)
