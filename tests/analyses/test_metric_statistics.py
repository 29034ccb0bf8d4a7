"""Random other questions, perplexities, means and correlations, with their degenerate cases."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from saiten.core.messages import Message
from saiten_server.analyses.reference_metrics import (
    Figure,
    ItemFigures,
    MetricItem,
    compute_perplexity,
    correlate_figures,
    draw_other_questions,
    summarise,
)
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.stats.statistics import FEWEST_CORRELATED

TOOLS = {"len": "whitespace"}


def item(**fields: object) -> MetricItem:
    return validate(MetricItem, {"response": "a b", **fields}, DEFAULT_LIMITS)


@given(st.lists(st.text(max_size=3)), st.integers(0, 2**40))
def test_no_question_keeps_its_own_and_each_is_given_once(questions: list[str], seed: int) -> None:
    others = draw_other_questions(questions, seed)
    if len(set(questions)) < 2:
        assert others == {}
        return
    assert set(others) == set(others.values()) == set(questions)
    assert all(own != other for own, other in others.items())


def test_order_and_repetition_of_the_items_change_nothing() -> None:
    assert draw_other_questions("abcdeabc", 7) == draw_other_questions("edcba", 7)
    assert draw_other_questions("abcde", 7) != draw_other_questions("abcde", 8)


def test_the_draw_is_the_same_on_every_machine() -> None:
    # random.Random(0).random() is 0.844, 0.758, 0.421: Sattolo swaps 3 with int(0.844 · 3) = 2, 2 with int(0.758 · 2)
    # = 1, and 1 with int(0.421 · 1) = 0: abcd → abdc → adbc → dabc.
    assert draw_other_questions("abcd", 0) == dict(zip("abcd", "dabc", strict=True))


def test_every_other_question_is_as_likely() -> None:
    # Four questions: each of the three others for a third of 3,000 seeds; five standard deviations are 129.
    counts = Counter(draw_other_questions("abcd", seed)["a"] for seed in range(3000))
    assert set(counts) == {"b", "c", "d"}
    assert all(abs(count - 1000) < 129 for count in counts.values())


@pytest.mark.parametrize(
    ("nats", "perplexity"),
    [
        (0.0, 1.0),
        (math.log(4), 4.0),
        # (ln 2 + ln 8) / 2 = ln √16
        ((math.log(2) + math.log(8)) / 2, 4.0),
        (230.0, math.exp(230)),
        (230.1, None),
        (math.inf, None),
        (math.nan, None),
    ],
)
def test_perplexity_is_the_exponential_or_none(nats: float, perplexity: float | None) -> None:
    found = compute_perplexity(nats)
    assert found is None if perplexity is None else found == pytest.approx(perplexity)


def test_coefficients_by_hand() -> None:
    # Deviations (-1, 0, 1) and (-1, 1, 0): 1 / √(2 · 2) = 0.5; the values are their own ranks.
    found = correlate_figures([(1, 1), (2, 3), (3, 2)])
    assert [found.n, found.pearson, found.spearman] == pytest.approx([3, 0.5, 0.5])
    assert found.undefined == {}


@given(
    st.lists(
        st.tuples(st.integers(-4, 4), st.floats(-1e6, 1e6, width=32)), min_size=FEWEST_CORRELATED, max_size=40
    ).filter(lambda pairs: len({x for x, _ in pairs}) > 1 and np.ptp([y for _, y in pairs]) > 1e-3)
)
def test_coefficients_equal_scipy(pairs: list[tuple[float, float]]) -> None:
    xs, ys = zip(*pairs, strict=True)
    found = correlate_figures(pairs)
    assert found.pearson == pytest.approx(stats.pearsonr(xs, ys)[0], abs=1e-12)
    assert found.spearman == pytest.approx(stats.spearmanr(xs, ys)[0], abs=1e-12)


DEGENERATE = {
    "nothing": ([], Message("few-items-have-both", least=3)),
    "two points": ([(1, 2), (2, 3)], Message("few-items-have-both", least=3)),
    "one figure": ([(1, 2), (1, 3), (1, 4)], Message("figures-equal")),
    "one rating": ([(1, 2), (2, 2), (3, 2)], Message("human-values-equal")),
    "zeros": ([(0, 1), (0, 2), (0, 3)], Message("figures-equal")),
    "rounding": ([(1, 2), (1 + 1e-15, 3), (1 - 1e-15, 4)], Message("figures-equal")),
}


@pytest.mark.parametrize(("pairs", "reason"), DEGENERATE.values(), ids=DEGENERATE.keys())
def test_what_has_no_correlation_says_why(pairs: list[tuple[float, float]], reason: Message) -> None:
    found = correlate_figures(pairs)
    assert (found.pearson, found.spearman) == (None, None)
    assert found.undefined == {"pearson": reason, "spearman": reason}


@pytest.mark.parametrize(
    ("low", "middle", "high"),
    [(1e308, 1.35e308, 1.7e308), (1e-307, 2e-307, 3e-307), (5e-324, 1e-323, 1.5e-323)],
)
def test_the_unit_does_not_count(low: float, middle: float, high: float) -> None:
    # Deviations (-1, 0, 1) and (-1, 1, 0) again; the first three's sum is no float.
    found = correlate_figures([(1, low), (2, high), (3, middle)])
    assert [found.pearson, found.spearman] == pytest.approx([0.5, 0.5])


def test_a_small_spread_about_a_large_mean_is_not_lost() -> None:
    # Deviations (-1, 0, 1) and (-1, 1, 0) once more, in units of 2^-20 about 1,000,000.5: every value is exact.
    found = correlate_figures([(1, 1_000_000.5 - 2**-20), (2, 1_000_000.5 + 2**-20), (3, 1_000_000.5)])
    assert [found.pearson, found.spearman] == pytest.approx([0.5, 0.5], abs=1e-12)


def test_report_by_hand() -> None:
    items = [
        item(system="a", ratings={"acceptability": 1, "formality": 0}),
        item(ratings={"acceptability": 2}),
        item(system="a", ratings={"acceptability": 3, "formality": 1}),
        item(system="b"),
    ]
    none: dict[Figure, str] = {"rouge1": "no reference"}
    figures = [
        ItemFigures(
            position=1, system="a", item=None, len=2, rouge1=0.5, perplexity_a=8.0, truncated=("perplexity_a",)
        ),
        ItemFigures(position=2, system=None, item=None, len=4, unavailable=none),
        ItemFigures(position=3, system="a", item=None, len=6, rouge1=0.25, perplexity_a=2.0),
        ItemFigures(position=4, system="b", item=None, len=0, unavailable=none),
    ]
    report = summarise(items, figures, language="en", seed=3, tools=TOOLS)
    assert (report.items, report.seed, report.tools) == (4, 3, TOOLS)
    assert [(one.system, one.items) for one in report.systems] == [("a", 2), (None, 1), ("b", 1)]
    a, nameless, b = (one.figures for one in report.systems)
    assert (a["len"].mean, a["rouge1"].mean, a["perplexity_a"].mean) == (4.0, 0.375, 5.0)
    assert (a["perplexity_a"].n, a["perplexity_a"].truncated) == (2, 1)
    assert (nameless["rouge1"].n, nameless["rouge1"].mean) == (0, None)
    assert b["len"].mean == 0.0
    # Every item counts once: (2 + 4 + 6 + 0) / 4, not the mean of the systems' 4, 4 and 0.
    assert (report.overall["len"].n, report.overall["len"].mean) == (4, 3.0)
    assert report.unavailable == {"rouge1": {"no reference": 2}}
    # Lengths 2, 4, 6 with acceptability 1, 2, 3; the item without ratings does not count.
    acceptability = report.correlations["acceptability"]
    assert [acceptability["len"].n, acceptability["len"].pearson] == pytest.approx([3, 1.0])
    assert (acceptability["rouge1"].n, acceptability["rouge1"].pearson) == (2, None)
    assert report.correlations["formality"]["len"].n == 2
    assert "NaN" not in report.model_dump_json()


def test_no_items_with_ratings_no_correlations() -> None:
    figures = [ItemFigures(position=1, system=None, item=None, len=1)]
    assert summarise([item()], figures, language="ja", seed=0, tools=TOOLS).correlations == {}


def test_the_question_is_given_or_is_the_context() -> None:
    context = [{"speaker": "A", "text": "好き？"}, {"speaker": "B", "text": "うん"}]
    assert item(context=context).asked == "好き？\nうん"
    assert item(question="何？").asked == "何？"
    assert item().asked is None
    assert item(reference="one").references == ("one",)
    assert item().references == ()


REFUSED = {
    "both": ({"context": [{"speaker": "A", "text": "a"}], "question": "b"}, "/question"),
    "text for a number": ({"ratings": {"factuality": "3"}}, "/ratings/factuality"),
    "truth for a number": ({"ratings": {"factuality": True}}, "/ratings/factuality"),
    "no reference": ({"reference": []}, "/reference"),
    "blank reference": ({"reference": ["a", " "]}, "/reference/1"),
    "blank response": ({"response": " "}, "/response"),
    "unknown field": ({"refrence": "a"}, "/refrence"),
}


@pytest.mark.parametrize(("fields", "pointer"), REFUSED.values(), ids=REFUSED.keys())
def test_a_faulty_item_is_refused_at_its_field(fields: dict[str, object], pointer: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        item(**fields)
    assert [where for where, _ in caught.value.faults] == [pointer]
