"""Two runs side by side."""

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

from saiten.core.messages import Message
from saiten_server.comparison.differences import compare
from saiten_server.comparison.values import Comparison
from saiten_server.core.errors import SignatureMismatch
from tests.support.runs import Row, make_run, rows_of, with_rows

choose = random.Random(4)
BEFORE = [choose.randint(1, 5) for _ in range(60)]
AFTER = [max(1, rating - (choose.random() < 0.4)) for rating in BEFORE]
STEADY = [choose.randint(1, 3) for _ in range(60)]


def find_share(n: int, fewest: int) -> float:
    """The share of which n have at least so many in four of five samples."""
    return next(share / 10_000 for share in range(10_000) if stats.binom.sf(fewest - 1, n, share / 10_000) >= 0.8)


def test_pairs_are_compared_by_sign_flips_with_everything_beside_it():
    found = compare(make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": AFTER}))
    warmth = found.aspects["warmth"]
    differences = np.array(AFTER) - np.array(BEFORE)
    changed = differences[differences != 0]
    error = differences.std(ddof=1) / math.sqrt(60)
    assert (found.baseline, found.candidate, found.pairing.test) == ("old", "new", "paired")
    assert (warmth.test, warmth.n, warmth.n_baseline, warmth.n_candidate) == ("sign-flip", 60, 60, 60)
    assert warmth.difference == pytest.approx(differences.mean())
    assert warmth.clusters == 60
    assert warmth.freedom == pytest.approx(59)
    assert warmth.standard_error == pytest.approx(error)
    # All changes are drops: of 10,000 flips none is as far out.
    assert warmth.p == warmth.p_adjusted == 1 / 10_001
    assert (warmth.verdict, warmth.ranks_favour) == ("worse", "baseline")
    # No pair has risen: a drop is found where six fall, and this share makes six of 60 in four of five runs.
    assert warmth.smallest_detectable == pytest.approx(find_share(60, 6), rel=0.03)
    reference = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert warmth.interval == pytest.approx((reference.low, reference.high), abs=0.03)
    assert warmth.wins is not None
    assert (warmth.wins.a, warmth.wins.a_wins.wins, warmth.wins.b_wins.wins) == ("new", 0, changed.size)


def test_unpaired_runs_are_compared_by_permutations():
    old, new = make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": [*AFTER, None, 1]})
    found = compare(old, new, test="unpaired").aspects["warmth"]
    expected = stats.mannwhitneyu([*AFTER, 1], BEFORE)
    assert (found.test, found.n, found.n_baseline, found.n_candidate) == ("permutation", 60, 60, 61)
    welch = stats.ttest_ind([*AFTER, 1], BEFORE, equal_var=False)
    assert found.p == pytest.approx(welch.pvalue, abs=0.01)
    assert found.freedom == pytest.approx(welch.df)
    assert found.cliffs_delta == pytest.approx(2 * expected.statistic / (60 * 61) - 1)
    error = math.sqrt(np.var(BEFORE, ddof=1) / 60 + np.var([*AFTER, 1], ddof=1) / 61)
    reach = stats.t.ppf(0.975, welch.df) + stats.t.ppf(0.8, welch.df)
    assert found.smallest_detectable == pytest.approx(reach * error)
    assert (found.wins, found.undefined) == (None, {"wins": Message("not-paired")})


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
            for item in rows_of(made)
        ]
        return with_rows(made, items)

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
    # All that differ fall. At 0.05/2, for two tests, seven must, since 2/2^7 = 0.016; at 0.05 six. What was not tested
    # does not count.
    assert both.standard_error == alone.standard_error
    assert both.smallest_detectable == pytest.approx(find_share(60, 7), rel=0.03)
    assert alone.smallest_detectable == pytest.approx(find_share(60, 6), rel=0.03)


@pytest.mark.parametrize("test", ["auto", "unpaired"])
def test_responses_to_one_context_are_one_value(test):
    """Eight responses to each of three items, all worse: three values, and not twenty-four, say so."""
    runs = []
    for name, shift in (("old", 1), ("new", 0)):
        items = [
            Row(f"i{item}", f"c{item}", {"warmth": 1 + item + shift + number % 2})
            for item in range(3)
            for number in range(8)
        ]
        runs.append(make_run(name, {"warmth": [1]}, rows=items, expected=24))
    found = compare(*runs, test=test)
    warmth = found.aspects["warmth"]
    assert (warmth.n, warmth.difference, warmth.verdict) == (3, -1.0, "inconclusive")
    assert (found.pairing.baseline_items, found.pairing.baseline_responses, found.pairing.pairs) == (3, 24, 3)
    assert found.coverage["candidate"].expected == 24
    assert "the candidate run has 24 responses to 3 items, several to 3 of them" in str(found.notes[1])


def test_an_aspect_best_inside_its_scale_shows_its_ratings_too():
    runs = [make_run(name, {"tone": [value] * 30}, best={"tone": 0.0}) for name, value in (("old", 1), ("new", -1))]
    tone = compare(*runs).aspects["tone"]
    assert (tone.best, tone.baseline_mean, tone.candidate_mean, tone.difference) == (0.0, -1.0, -1.0, 0.0)
    assert (tone.baseline_rating_mean, tone.candidate_rating_mean) == (1.0, -1.0)
    plain = compare(make_run("old", {"warmth": BEFORE}), make_run("new", {"warmth": AFTER})).aspects["warmth"]
    assert (plain.best, plain.baseline_rating_mean) == (None, plain.baseline_mean)


def test_the_mean_decides_and_not_how_many_rose():
    # Forty answers a little better, four much worse: most are better, the mean fell by (40 · 1 − 4 · 40) / 44.
    old = make_run("old", {"warmth": [50.0] * 44})
    new = make_run("new", {"warmth": [51.0] * 40 + [10.0] * 4})
    found = compare(old, new).aspects["warmth"]
    assert found.difference == pytest.approx(-120 / 44)
    assert (found.ranks_favour, found.verdict) == ("candidate", "inconclusive")  # four items may be chance
    old = make_run("old", {"warmth": [50.0] * 440})
    new = make_run("new", {"warmth": [51.0] * 400 + [10.0] * 40})
    found = compare(old, new).aspects["warmth"]
    assert (found.ranks_favour, found.verdict) == ("candidate", "worse")


@pytest.mark.parametrize("test", ["auto", "unpaired"])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_fewer_than_six_values_are_not_tested(count, test):
    runs = make_run("old", {"warmth": BEFORE[:count]}), make_run("new", {"warmth": [5] * count})
    found = compare(*runs, test=test).aspects["warmth"]
    assert (found.p, found.p_adjusted, found.smallest_detectable, found.verdict) == (None, None, None, "inconclusive")
    assert (found.difference is None) == (count == 0)
    assert (found.interval is None) == (count < 2)
    assert_explained(compare(*runs, test=test))


@pytest.mark.parametrize("test", ["auto", "unpaired"])
def test_dialogues_are_the_units_and_both_numbers_are_told(test):
    """200 items in 20 dialogues that differ as wholes: the error is that of the dialogues' means."""
    generator = np.random.default_rng(5)
    before = np.repeat(generator.integers(2, 5, 20), 10).astype(float)
    after = before + np.repeat(generator.integers(-1, 2, 20), 10)
    runs = []
    for name, column in (("old", before), ("new", after)):
        run = make_run(name, {"warmth": column.tolist()})
        items = [dataclasses.replace(one, cluster=f"d{number // 10}") for number, one in enumerate(rows_of(run))]
        runs.append(with_rows(run, items))
    comparison = compare(*runs, test=test)
    found = comparison.aspects["warmth"]
    means = [column.reshape(20, 10).mean(axis=1) for column in (before, after)]
    spread = [(means[1] - means[0]).var(ddof=1)] if test == "auto" else [mean.var(ddof=1) for mean in means]
    assert (found.n, found.clusters, comparison.pairing.unit, comparison.pairing.clusters) == (200, 20, "dialogue", 20)
    assert found.standard_error == pytest.approx(math.sqrt(sum(spread) / 20))
    assert "20 dialogues" in str(comparison.pairing.reason)
    if found.wins is not None:  # shares of 20 dialogues: Wilson's intervals of 200 pairs are a third as wide
        low, high = found.wins.a_wins.interval or (0, 0)
        share = float(np.mean(after > before))
        assert found.wins.a_wins.share == pytest.approx(share)
        assert high - low == pytest.approx(2 * 2.093 * math.sqrt(share * (1 - share) / 19), rel=0.12)
    assert_explained(comparison)


@pytest.mark.parametrize("test", ["auto", "unpaired"])
def test_no_interval_leaves_what_the_scale_allows(test):
    # Eight of ten fall from 1 to 0 on a scale of 0–1: the plain t interval of the difference ends at −1.10.
    scales = {"warmth": (0.0, 1.0)}
    old = make_run("old", {"warmth": [1.0] * 10}, scales=scales)
    new = make_run("new", {"warmth": [0.0] * 8 + [1.0] * 2}, scales=scales)
    interval = compare(old, new, test=test).aspects["warmth"].interval
    assert interval is not None
    assert -1 <= interval[0] < -0.8 < interval[1] < 0


def test_runs_without_common_items_are_not_compared_unless_asked_for():
    old = make_run("old", {"warmth": BEFORE})
    new = make_run("new", {"warmth": [1] * 60})
    new = with_rows(new, [dataclasses.replace(one, item=f"n{one.item}") for one in rows_of(new)])
    found = compare(old, new)
    assert (found.pairing.pairs, found.aspects["warmth"].n, found.aspects["warmth"].verdict) == (0, 0, "inconclusive")
    shared = Message("are-in-both", pairs=0, items=Message("items", n=60))
    clauses = [Message("not-compared", found=shared), Message("unpaired-compares-all")]
    assert found.pairing.reason == Message("clauses", clauses=clauses)
    assert compare(old, new, test="unpaired").aspects["warmth"].verdict == "worse"
    assert_explained(found)


def test_runs_that_do_not_differ_are_said_to():
    same = {"warmth": [1, 2, 3, 4, 5, 4]}
    found = compare(make_run("old", same), make_run("new", same)).aspects["warmth"]
    assert (found.p, found.interval, found.difference, found.cliffs_delta) == (1.0, None, 0.0, 0.0)
    why = Message("same-values")
    assert found.undefined == {"interval": why, "smallest_detectable": why}
    unpaired = compare(make_run("old", {"warmth": [2] * 6}), make_run("new", {"warmth": [2] * 7}), test="unpaired")
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
    items = rows_of(make_run("old", {"warmth": [1, 2, 3]})) * 2
    old = make_run("old", {"warmth": [1]}, expected=6, rows=items, best={"warmth": 2.0})
    new = make_run("new", {"warmth": [1, 2, 3]})
    new = with_rows(new, [dataclasses.replace(item, context="x") for item in rows_of(new)])
    assert compare(old, new).notes == (
        Message("baseline-averaged", responses=6, items=Message("items", n=3), averaged=3),
        Message("contexts-differ", differing=3, pairs=3),
        Message(
            "clauses",
            clauses=[
                Message("best-at", aspect="warmth", best=2),
                Message("mean-ratings-now", before="2.000", after="2.000"),
            ],
        ),
    )


def test_the_seed_alone_decides_what_is_drawn():
    runs = make_run("old", {"warmth": BEFORE, "clarity": STEADY}), make_run("new", {"warmth": AFTER, "clarity": BEFORE})
    assert compare(*runs, seed=3) == compare(*runs, seed=3)
    alone = make_run("old", {"clarity": STEADY}), make_run("new", {"clarity": BEFORE})
    assert compare(*runs).aspects["clarity"].p == compare(*alone).aspects["clarity"].p


COLUMN = st.lists(st.none() | st.integers(1, 5) | st.floats(1, 5, allow_nan=False), max_size=9)


@settings(deadline=None, max_examples=60)
@given(COLUMN, COLUMN, st.sampled_from(["auto", "unpaired"]))
def test_whatever_the_ratings_no_figure_is_missing_without_a_word(before, after, test):
    found = compare(make_run("old", {"warmth": before}), make_run("new", {"warmth": after}), test=test)
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
