"""The simulated raters are who a row says they are."""

import numpy as np
import pytest

from benchmarks.corrected_raters import Design, assign, draw_pair, list_designs, run_failures, run_means


@pytest.mark.parametrize("design", dict.fromkeys(design for design, _ in list_designs()))
def test_raters_overlap_as_much_as_the_row_says(design: Design) -> None:
    generator = np.random.default_rng(1)
    place, rater = assign(design, generator, second=True)
    assert np.mean(rater < design.raters) == pytest.approx(design.overlap, abs=0.01)
    assert np.bincount(place).tolist() == [design.each] * design.rated
    before, after = draw_pair(design, 0.5, generator)
    assert before.rated == after.rated == design.rated
    shared = np.isin(np.flatnonzero(~np.isnan(before.ratings)), np.flatnonzero(~np.isnan(after.ratings)))
    assert shared.all() != design.apart


def test_rows_say_what_is_refused_and_what_severity_does() -> None:
    apart = run_failures(Design(1, 0.0), 0.5, 20)
    assert apart.refused == 1
    assert apart.holds
    assert apart.nameless > 0.1
    assert run_failures(Design(2, 1.0), 0.5, 20).refused == 0
    means = run_means(5, 1, 0.5, 20)
    assert means.holds
    assert means.width > means.narrow
