"""Sequences of builds: the error rate over all nights, what they find, and their figures against another computation."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

from benchmarks.sequences import Case, draw_months, judge_plain, judge_sequences
from saiten_server.stats.change_points import CAP, EXPECTED, estimate_noise
from saiten_server.stats.observations import Mask
from saiten_server.stats.sequences import describe_builds, list_contrasts, look_at_newest_build, measure_noise, spend

MONTHS = 50


def any_red(red: Mask) -> float:
    return float(red.any(axis=1).mean())


def test_what_all_nights_spend_is_alpha() -> None:
    spent = sum(spend(0.05, night) for night in range(1, 100_000))
    assert spent == pytest.approx(0.05, rel=1e-4)
    assert spent < 0.05


def test_a_month_without_a_change_is_rarely_red_and_the_plain_gate_is_red_often() -> None:
    draw = np.random.default_rng(4)
    for noise, plain in ((0.0, 0.08), (0.1, 0.6)):
        drawn = draw_months(Case("", 100, 3, noise), MONTHS, draw)
        assert any_red(judge_plain(drawn)) >= plain
        assert any_red(judge_sequences(drawn)) <= 0.05


def test_a_lasting_drop_is_found_soon_and_one_that_was_mended_is_not_red_any_more() -> None:
    draw = np.random.default_rng(5)
    drawn = draw_months(Case("", 100, 3, 0.05, drop=0.5, turn=10, mended=20), MONTHS, draw)
    red = judge_sequences(drawn)
    assert red[:, 9:19].any(axis=1).mean() >= 0.95
    assert red[:, 19:].mean() <= 0.02


def test_what_rose_and_came_back_is_no_drop_since_the_baseline() -> None:
    drawn = draw_months(Case("", 100, 3, 0.0, drop=-0.5, turn=5, mended=20), MONTHS, np.random.default_rng(6))
    assert any_red(judge_sequences(drawn)) <= 0.05


def test_the_first_night_finds_nothing_as_the_noise_is_not_known() -> None:
    values = np.random.default_rng(1).normal(3, 0.5, (40, 1)) - np.array([[0.0, 1.0]])
    seen = look_at_newest_build(describe_builds(values, np.arange(40)), level=0.05)
    assert not seen.significant.any()
    assert seen.detectable == np.inf


def test_errors_are_those_of_differences_of_each_dialogue() -> None:
    draw = np.random.default_rng(2)
    clusters = np.repeat(np.arange(30), 4)
    values = draw.normal(3, 0.4, (30, 1)).repeat(4, axis=0) + draw.normal(0, 0.5, (120, 6))
    builds = describe_builds(values, clusters)
    assert builds.means == pytest.approx(values.mean(axis=0))
    weights, windows = list_contrasts(5)
    assert list(zip(windows.tolist(), (weights > 0).sum(axis=1).tolist(), strict=True)) == [
        (1, 1),
        (1, 5),
        (2, 1),
        (2, 4),
        (4, 1),
        (4, 2),
    ]
    for row in weights:
        sums = np.array([(values[clusters == own] @ row).mean() for own in range(30)])
        assert float(row @ builds.covariance @ row) == pytest.approx(sums.var(ddof=1) / 30)
    assert builds.freedom == pytest.approx(29)


def test_items_that_a_build_lacks_and_unequal_dialogues_keep_the_means() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(3, 0.5, (50, 4))
    values[draw.random((50, 4)) < 0.2] = np.nan
    builds = describe_builds(values, np.sort(draw.integers(0, 12, 50)))
    assert builds.means == pytest.approx(np.nanmean(values, axis=0))
    assert np.linalg.eigvalsh(builds.covariance).min() > -1e-12
    assert 1 <= builds.freedom < builds.units


def test_the_noise_solves_its_equation() -> None:
    draw = np.random.default_rng(7)
    squares, known = draw.normal(0, 0.2, 20) ** 2, np.full(20, 0.01)

    def surplus(noise: float) -> float:
        return float(np.minimum(squares / (known + 2 * noise), CAP).sum() - EXPECTED * 20)

    assert float(estimate_noise(squares, known)) == pytest.approx(brentq(surplus, 0, 1), abs=1e-9)
    drawn = np.minimum(chi2.rvs(1, size=200_000, random_state=draw), CAP)
    assert pytest.approx(drawn.mean(), abs=0.01) == EXPECTED
    bounds = [float(estimate_noise(squares, known, chance=chance)) for chance in (0.4, 0.2, 0.05)]
    assert all(left < right for left, right in pairwise([float(estimate_noise(squares, known)), *bounds]))
    assert float(estimate_noise(np.full(3, np.nan), known[:3])) == 0
    assert np.isinf(estimate_noise(np.full(3, np.nan), known[:3], chance=0.1))


def test_noise_is_told_in_points() -> None:
    draw = np.random.default_rng(8)
    values = draw.normal(3, 0.5, (200, 1)) + draw.normal(0, 0.3, (200, 60)) + draw.normal(0, 0.1, (1, 60))
    assert measure_noise(describe_builds(values, np.arange(200))) == pytest.approx(0.1, abs=0.025)


def test_several_rules_share_the_chance_of_too_low_a_bound_of_the_noise() -> None:
    draw = np.random.default_rng(11)
    builds = describe_builds(draw.normal(3, 0.5, (40, 8)) + draw.normal(0, 0.1, 8), np.arange(40))
    alone, shared = look_at_newest_build(builds, level=0.01), look_at_newest_build(builds, level=0.01, rules=3)
    assert (shared.errors > alone.errors).all()


def test_no_night_has_an_infinite_quantile():
    values = np.random.default_rng(0).normal(3, 1, (40, 1)) + np.random.default_rng(1).normal(0, 0.3, (40, 12))
    found = look_at_newest_build(describe_builds(values, np.arange(40)), level=spend(1e-9, 10_000))
    assert np.isfinite(found.quantile)
    assert np.isfinite(found.detectable)
