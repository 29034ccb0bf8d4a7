"""The simulation of corrected figures of windows, small."""

from __future__ import annotations

from benchmarks.corrected_windows import DESIGNS, run_design, tabulate


def test_weights_take_away_what_strata_would_do_to_the_figure() -> None:
    strata = next(one for one in DESIGNS if one.rates == (0.05, 1.0) and one.rated == 60)
    found = run_design(strata, 40)
    assert found.coverage >= 0.85
    assert abs(found.bias) < 0.2
    assert found.bias_unweighted < -0.9
    assert len([*tabulate([found])]) == 3


def test_clusters_and_levels_are_in_the_interval() -> None:
    found = run_design(DESIGNS[-1], 40)
    assert found.coverage >= 0.85
    assert abs(found.bias) < 0.2
