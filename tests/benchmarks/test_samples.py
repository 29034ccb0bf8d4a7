"""What the simulation of samples says where arithmetic says it too, and that the page has its tables."""

from pathlib import Path

import pytest

from benchmarks.samples import FALSE, HIT, NOISES, SAMPLES, SHARES, STABLE, find_faults, find_gain

COUNT = 20_000
PAGES = [Path(__file__).parents[2] / "docs" / f"validity{suffix}.md" for suffix in ("", ".ja", ".ko")]


def test_more_samples_repeat_themselves_better_and_expectations_as_far_as_reasons_leave_doubt() -> None:
    gains = [find_gain(1.0, 0.5, samples, expected=False, count=COUNT, seed=1) for samples in SAMPLES]
    assert gains == sorted(gains)
    (all_of_it, half, little) = (find_gain(1.0, share, 1, expected=True, count=COUNT, seed=1) for share in SHARES)
    assert all_of_it[0] == pytest.approx(1.0)
    assert all_of_it > half > little > gains[0]
    # Nothing but the judge's own opinion is left, which follows people's by .8 (Spearman of two normal values: .786).
    assert all_of_it[1] == pytest.approx(0.786, abs=0.02)


def test_a_majority_of_three_names_what_the_binomial_distribution_says() -> None:
    for rate, found in zip((HIT, FALSE), find_faults(3, count=COUNT, seed=1), strict=True):
        majority = 3 * rate**2 * (1 - rate) + rate**3
        assert found == pytest.approx(STABLE * rate + (1 - STABLE) * majority, abs=0.01)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_shows_what_the_simulation_finds(page: Path) -> None:
    rows = [line.strip("| ").split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if "|" in line]
    shown = {row[0]: row[1:] for row in rows if row[0] in map(str, NOISES)}
    assert len(shown) == len(NOISES)
    for noise in NOISES:
        found = [find_gain(noise, 0.5, samples, expected=False, count=COUNT, seed=1) for samples in SAMPLES]
        found += [find_gain(noise, share, 1, expected=True, count=COUNT, seed=1) for share in SHARES]
        for cell, pair in zip(shown[str(noise)], found, strict=True):
            assert [float(value) for value in cell.split(", ")] == pytest.approx(pair, abs=0.02)
