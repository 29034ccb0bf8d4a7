"""Change points: against an independent implementation, and what they say of a series with known changes."""

from typing import Any

import numpy as np
import pytest
import ruptures

from saiten_server.stats.change_points import MOST_SERIES_RUNS, find_change_points, find_levels, find_penalty


class KnownErrors(ruptures.base.BaseCost):  # type: ignore[misc]
    """The weighted sum of squares around the weighted mean, of a signal whose second column holds the weights."""

    model, min_size = "known-errors", 2

    def fit(self, signal: Any) -> "KnownErrors":
        self.signal = signal
        return self

    def error(self, start: int, end: int) -> float:
        values, weights = self.signal[start:end].T
        return float((weights * (values - np.average(values, weights=weights)) ** 2).sum())


def test_places_are_those_of_ruptures() -> None:
    generator = np.random.default_rng(5)
    found_any = 0
    for _ in range(12):
        n = int(generator.integers(4, 90))
        levels = np.repeat(generator.normal(3, 0.2, n // 15 + 1), 15)[:n]
        errors = generator.uniform(0.05, 0.15, n)
        values = levels + errors * generator.standard_normal(n)
        noise = find_levels(list(values), list(errors)).noise
        assert noise is not None
        search = ruptures.Pelt(custom_cost=KnownErrors(), jump=1)
        wanted = search.fit_predict(
            np.stack([values, 1 / (np.maximum(errors, np.median(errors)) ** 2 + noise**2)], axis=1),
            pen=find_penalty(n),
        )
        found = find_change_points(list(values), list(errors))
        assert [one.at for one in found] == wanted[:-1]
        found_any += len(found)
    assert found_any > 10


def test_a_drop_has_its_place_its_size_and_intervals() -> None:
    generator = np.random.default_rng(1)
    values = np.where(np.arange(200) < 120, 3.8, 3.5) + generator.normal(0, 0.1, 200)
    (found,) = find_change_points(list(values), [0.1] * 200)
    assert found.earliest <= 120 <= found.latest
    assert abs(found.at - 120) <= 2
    assert found.interval[0] <= -0.3 <= found.interval[1]
    noise = find_levels(list(values), [0.1] * 200).noise
    assert noise is not None
    error = ((0.1**2 + noise**2) * (1 / 120 + 1 / 80)) ** 0.5
    assert found.interval[1] - found.interval[0] == pytest.approx(2 * 1.96 * error, rel=0.02)
    (turned,) = find_change_points(list(-values[::-1]), [0.1] * 200)
    assert 200 - turned.at == found.at
    assert turned.difference == pytest.approx(found.difference)


def test_what_is_no_change_and_what_cannot_be_told() -> None:
    assert find_change_points([], []) == find_change_points([3.0] * 3, [0.1] * 3) == []
    assert find_change_points([3.0] * 100, [0.1] * 100) == []
    # A single run that is off has no level; of runs without any error nothing is known.
    assert find_change_points([3.0] * 50 + [2.5] + [3.0] * 50, [0.1] * 101) == []
    assert find_change_points([5.0] * 10 + [4.0] * 10, [0.0] * 20) == []
    # A run whose ratings were all the same does not outweigh all others.
    assert find_change_points([4.9] * 10 + [5.0, 5.0] + [4.9] * 10, [0.1] * 10 + [0.0, 0.0] + [0.1] * 10) == []
    for means, errors in (([1.0], [0.1, 0.1]), ([float("nan")] * 5, [0.1] * 5), ([1.0] * (MOST_SERIES_RUNS + 1),) * 2):
        with pytest.raises(ValueError, match="finite means"):
            find_change_points(means, errors)


def draw_builds(
    generator: np.random.Generator, n: int, *, error: float, noise: float, drop: float = 0.0
) -> tuple[list[float], list[float]]:
    """Means of builds with this noise between them, the second half lower, and their errors, which differ."""
    errors = error * generator.uniform(0.7, 1.4, n)
    means = 3.6 - drop * (np.arange(n) >= n // 2) + errors * generator.standard_normal(n)
    return list(means + noise * generator.standard_normal(n)), list(errors)


@pytest.mark.parametrize(("error", "noise"), [(0.06, 0.05), (0.06, 0.1), (0.03, 0.05), (0.03, 0.1), (0.06, 0.0)])
def test_noise_between_builds_is_no_change(error: float, noise: float) -> None:
    generator, lanes = np.random.default_rng(7), 60
    still = [find_levels(*draw_builds(generator, 60, error=error, noise=noise)) for _ in range(lanes)]
    assert sum(bool(one.changes) for one in still) / lanes <= 0.06
    known = [one.noise for one in still if one.noise is not None]
    assert len(known) == lanes
    assert float(np.median(known)) == pytest.approx(noise, abs=0.025)
    fallen = [find_change_points(*draw_builds(generator, 60, error=error, noise=noise, drop=0.3)) for _ in range(lanes)]
    assert sum(any(abs(one.at - 30) <= 5 for one in found) for found in fallen) / lanes >= 0.95


@pytest.mark.parametrize("builds", [6, 10, 15])
def test_few_builds_do_not_tell_the_noise_well(builds: int) -> None:
    generator, lanes = np.random.default_rng(8), 100
    found = [find_change_points(*draw_builds(generator, builds, error=0.01, noise=0.1)) for _ in range(lanes)]
    assert sum(map(bool, found)) / lanes <= 0.06


def test_an_odd_build_is_no_change_of_the_level_and_moves_no_noise() -> None:
    means, errors = draw_builds(np.random.default_rng(9), 60, error=0.06, noise=0.05)
    odd = [mean + 0.6 * (place == 30) for place, mean in enumerate(means)]
    assert find_levels(odd, errors).changes == []
    before, after = (find_levels(each, errors).noise for each in (means, odd))
    assert before == pytest.approx(after, abs=0.02)
