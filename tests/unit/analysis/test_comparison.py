"""Two runs side by side."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from app.analysis.comparison import compare
from app.domain.comparison import Comparison, RunItem
from app.domain.errors import SignatureMismatch
from tests.support.runs import make_run

choose = random.Random(4)
BEFORE = [choose.randint(1, 5) for _ in range(60)]
AFTER = [max(1, rating - (choose.random() < 0.4)) for rating in BEFORE]
STEADY = [choose.randint(1, 3) for _ in range(60)]


def test_pairs_are_compared_by_wilcoxon_with_everything_beside_it():
    found = compare(make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": AFTER}))
    warmth = found.aspects["warmth"]
    differences = np.array(AFTER) - np.array(BEFORE)
    changed = differences[differences != 0]
    assert (found.baseline, found.candidate, found.pairing.test) == ("old", "new", "paired")
    assert (warmth.test, warmth.n, warmth.n_baseline, warmth.n_candidate) == ("wilcoxon", 60, 60, 60)
    assert warmth.difference == pytest.approx(differences.mean())
    assert warmth.p == pytest.approx(stats.wilcoxon(changed).pvalue)
    assert warmth.p_adjusted == warmth.p
    assert (warmth.verdict, warmth.ranks_favour) == ("worse", "baseline")
    # (1.959964 + 0.841621) · s / √60
    assert warmth.smallest_detectable == pytest.approx(2.801585 * differences.std(ddof=1) / math.sqrt(60), rel=1e-6)
    assert warmth.interval is not None
    reference = stats.bootstrap((differences,), np.mean, method="percentile", n_resamples=5000, rng=1)
    # Expanded for 60 values, from 2.5 % to 2.2 % on either side.
    assert warmth.interval == pytest.approx(tuple(reference.confidence_interval), abs=0.03)
    assert warmth.wins is not None
    assert (warmth.wins.a, warmth.wins.a_wins.wins, warmth.wins.b_wins.wins) == ("new", 0, changed.size)


def test_without_pairs_mann_and_whitney_compare():
    old, new = make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": [*AFTER, None, 1]})
    found = compare(old, new, test="unpaired").aspects["warmth"]
    expected = stats.mannwhitneyu([*AFTER, 1], BEFORE)
    assert (found.test, found.n, found.n_baseline, found.n_candidate) == ("mann-whitney", 60, 60, 61)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.cliffs_delta == pytest.approx(2 * expected.statistic / (60 * 61) - 1)
    error = math.sqrt(np.var(BEFORE, ddof=1) / 60 + np.var([*AFTER, 1], ddof=1) / 61)
    assert found.smallest_detectable == pytest.approx(2.801585 * error, rel=1e-6)
    assert (found.wins, found.undefined) == (None, {"wins": "the items are not paired"})


def test_only_pairs_with_both_values_count():
    old = make_run("old", {"warmth": [1, 2, 3, None, 5]})
    new = make_run("new", {"warmth": [2, None, 4, 4, 5]})
    found = compare(old, new).aspects["warmth"]
    # pairs 1→2, 3→4, 5→5: means 3 and 11/3
    assert (found.n, found.baseline_mean) == (3, 3.0)
    assert found.candidate_mean == pytest.approx(11 / 3)
    assert compare(old, new).coverage["candidate"].model_dump() == {
        "candidates": 5,
        "rated": 4,
        "expected": 5,
        "share": 0.8,
    }


def test_holm_is_within_aspects_composites_and_blended_apart():
    def run(name, columns):
        made = make_run(name, columns)
        items = [
            dataclasses.replace(
                item, composites={"sum": item.ratings["warmth"]}, blended={"warmth": item.ratings["warmth"]}
            )
            for item in made.items
        ]
        return dataclasses.replace(made, items=items)

    old = run("old", {"warmth": BEFORE, "clarity": STEADY})
    found = compare(old, run("new", {"warmth": AFTER, "clarity": STEADY[::-1]}))
    assert found.aspects["warmth"].p_adjusted == pytest.approx(2 * (found.aspects["warmth"].p or 0))
    assert found.composites["sum"].p_adjusted == found.composites["sum"].p == found.aspects["warmth"].p
    assert (found.blended["warmth"].kind, found.blended["warmth"].verdict) == ("blended", "worse")


def test_what_is_detectable_is_so_after_holm():
    old, new = (
        make_run("old", {"warmth": BEFORE, "clarity": STEADY}),
        make_run("new", {"warmth": AFTER, "clarity": AFTER}),
    )
    both, alone = (
        compare(old, new).aspects["warmth"],
        compare(old, make_run("new", {"warmth": AFTER})).aspects["warmth"],
    )
    # Φ⁻¹(1 − 0.05/4) + 0.841621 = 3.083024 for two tests, 2.801585 for one; what was not tested does not count.
    assert both.standard_error == alone.standard_error
    assert both.smallest_detectable == pytest.approx(3.083024 * (both.standard_error or 0), rel=1e-6)
    assert alone.smallest_detectable == pytest.approx(2.801585 * (alone.standard_error or 0), rel=1e-6)


@pytest.mark.parametrize("test", ["auto", "unpaired"])
def test_responses_to_one_context_are_one_value(test):
    """Eight responses to each of three items, all worse: three values, and not twenty-four, say so."""
    runs = []
    for name, shift in (("old", 1), ("new", 0)):
        items = [
            RunItem(f"i{item}", number, name, f"c{item}", {"warmth": 1 + item + shift + number % 2})
            for item in range(3)
            for number in range(8)
        ]
        runs.append(make_run(name, {"warmth": [1]}, items=items, expected=24))
    found = compare(*runs, test=test)
    warmth = found.aspects["warmth"]
    assert (warmth.n, warmth.difference, warmth.verdict) == (3, -1.0, "inconclusive")
    assert (found.pairing.baseline_items, found.pairing.baseline_responses, found.pairing.pairs) == (3, 24, 3)
    assert found.coverage["candidate"].expected == 24
    assert "the candidate run has 24 responses to 3 items, several to 3 of them" in found.notes[1]


def test_an_aspect_best_inside_its_scale_shows_its_ratings_too():
    runs = [make_run(name, {"tone": [value] * 30}, best={"tone": 0.0}) for name, value in (("old", 1), ("new", -1))]
    tone = compare(*runs).aspects["tone"]
    assert (tone.best, tone.baseline_mean, tone.candidate_mean, tone.difference) == (0.0, -1.0, -1.0, 0.0)
    assert (tone.baseline_rating_mean, tone.candidate_rating_mean) == (1.0, -1.0)
    plain = compare(make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": AFTER})).aspects["warmth"]
    assert (plain.best, plain.baseline_rating_mean) == (None, plain.baseline_mean)


def test_a_mean_and_ranks_at_odds_give_no_verdict():
    # Forty answers a little better, four much worse: ranks say better, the mean fell by (40 · 1 − 4 · 40) / 44.
    old = make_run("old", {"warmth": [50.0] * 44})
    new = make_run("new", {"warmth": [51.0] * 40 + [10.0] * 4})
    found = compare(old, new).aspects["warmth"]
    assert found.p_adjusted is not None
    assert found.p_adjusted < 0.05
    assert found.difference == pytest.approx(-120 / 44)
    assert (found.ranks_favour, found.verdict) == ("candidate", "inconclusive")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_values_say_nothing_of_chance(count):
    runs = make_run("old", {"warmth": BEFORE[:count]}), make_run("new", {"warmth": [5] * count})
    found = compare(*runs).aspects["warmth"]
    assert (found.p, found.p_adjusted, found.interval, found.verdict) == (None, None, None, "inconclusive")
    assert (found.difference is None) == (count == 0)
    assert_explained(compare(*runs))


def test_runs_that_do_not_differ_are_said_to():
    same = {"warmth": [1, 2, 3, 4]}
    found = compare(make_run("old", same), make_run("new", same)).aspects["warmth"]
    assert (found.p, found.interval, found.difference, found.cliffs_delta) == (1.0, None, 0.0, 0.0)
    why = "no value differs, so there is no interval and no detectable difference"
    assert found.undefined == {"interval": why, "smallest_detectable": why}
    unpaired = compare(make_run("old", {"warmth": [2] * 3}), make_run("new", {"warmth": [2] * 4}), test="unpaired")
    assert (unpaired.aspects["warmth"].p, unpaired.aspects["warmth"].smallest_detectable) == (1.0, None)


def test_an_aspect_that_one_run_lacks_is_not_compared():
    old = make_run("old", {"warmth": [1, 2, 3]})
    new = make_run("new", {"warmth": [1, 2, 3], "clarity": [1, 2, 3]})
    assert compare(old, new).aspects["clarity"].n == 0
    assert_explained(compare(old, new))
    assert_explained(compare(old, new, test="unpaired"))


def test_differing_signatures_are_refused_or_shown():
    old, new = make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": AFTER}, signatures={"model:two": 60})
    with pytest.raises(SignatureMismatch):
        compare(old, new)
    assert "model" in compare(old, new, allow_signature_mismatch=True).signature_differences


def test_notes_say_what_a_reader_should_know():
    items = [*make_run("old", {"warmth": [1, 2, 3]}).items] * 2
    old = make_run("old", {"warmth": [1]}, expected=6, items=items, best={"warmth": 2.0})
    new = make_run("new", {"warmth": [1, 2, 3]})
    new = dataclasses.replace(new, items=[dataclasses.replace(item, context="x") for item in new.items])
    assert compare(old, new).notes == (
        "the baseline run has 6 responses to 3 items, several to 3 of them: each item counts once, with its responses' "
        "mean",
        "3 pairs of 3 have different dialogue contexts and so answer different things",
        "warmth is best at 2: it is compared by minus its distance from that; the mean rating is 2.000 before and 2.000 "
        "now",
    )


def test_the_seed_alone_decides_the_interval():
    runs = make_run("old", {"warmth": BEFORE, "clarity": STEADY}), make_run("new", {"warmth": AFTER, "clarity": BEFORE})
    assert compare(*runs, seed=3) == compare(*runs, seed=3)
    alone = make_run("old", {"clarity": STEADY}), make_run("new", {"clarity": BEFORE})
    assert compare(*runs).aspects["clarity"].interval == compare(*alone).aspects["clarity"].interval


COLUMN = st.lists(st.none() | st.integers(1, 5) | st.floats(1, 5, allow_nan=False), max_size=9)


@settings(deadline=None, max_examples=60)
@given(COLUMN, COLUMN, st.sampled_from(["auto", "unpaired"]))
def test_whatever_the_ratings_no_figure_is_missing_without_a_word(before, after, test):
    found = compare(make_run("old", {"warmth": before}), make_run("new", {"warmth": after}), test=test, resamples=50)
    assert_explained(found)


def assert_explained(found: Comparison) -> None:
    """Every null of a measure has its reason, and nothing is NaN."""
    for measure in [*found.aspects.values(), *found.composites.values(), *found.blended.values()]:
        figures = measure.model_dump()
        assert {name for name, value in figures.items() if value is None} - {"best"} == set(measure.undefined)
        assert all(math.isfinite(figure) for figure in numbers(figures))


def numbers(value: Any) -> Iterator[float]:
    """Every number in a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value
