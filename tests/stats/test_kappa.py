"""Agreement in pairs: equal to scikit-learn, statsmodels and the analysis of variance, and a reason where it is none."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.stats.agreement import (
    MOST_CONFUSED_LEVELS,
    MOST_PAIRED_RATERS,
    intraclass_correlation,
    measure_agreement,
)
from saiten_server.stats.reading import ObservationReader


def agreement_of(table: Any) -> Any:
    """The figures of a table of items by raters, NaN for no rating."""
    reader = ObservationReader()
    number = 0
    for item, row in enumerate(table):
        for rater, value in enumerate(row):
            if not np.isnan(value):
                number += 1
                record = {"item": f"i{item}", "rater": f"r{rater:03}", "ratings": {"overall": float(value)}}
                reader.add(record, number)
    return measure_agreement(reader.finish()).aspects["overall"]


@pytest.fixture(scope="module")
def table() -> Any:
    generator = np.random.default_rng(4)
    true = generator.integers(1, 5, (40, 1))
    return np.clip(true + generator.integers(-1, 2, (40, 4)), 1, 5).astype(float)


def test_they_are_those_of_other_packages(table: Any) -> None:
    from sklearn.metrics import cohen_kappa_score
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    found = agreement_of(table)
    pairs = [(table[:, a], table[:, b]) for a, b in combinations(range(4), 2)]
    assert found.cohen_kappa == pytest.approx(np.mean([cohen_kappa_score(a, b) for a, b in pairs]), abs=1e-9)
    assert found.fleiss_kappa == pytest.approx(fleiss_kappa(aggregate_raters(table.astype(int))[0]), abs=1e-9)
    assert found.pairwise_spearman == pytest.approx(np.mean([stats.spearmanr(a, b)[0] for a, b in pairs]), abs=1e-9)
    assert found.pairwise_pearson == pytest.approx(np.mean([stats.pearsonr(a, b)[0] for a, b in pairs]), abs=1e-9)


def test_the_icc_is_that_of_shrout_and_fleiss() -> None:
    # Their table 2: six targets, four judges; ICC(2,1) is .29.
    published = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    assert agreement_of(published).icc == pytest.approx(0.28976, abs=1e-5)


def test_gaps_leave_each_pair_what_both_rated(table: Any) -> None:
    holed = table.copy()
    holed[:20, 3] = np.nan
    found = agreement_of(holed)
    pairs = [(holed[:, a], holed[:, b]) for a, b in combinations(range(4), 2)]
    common = [(a[~np.isnan(a + b)], b[~np.isnan(a + b)]) for a, b in pairs]
    assert found.pairwise_pearson == pytest.approx(np.mean([stats.pearsonr(a, b)[0] for a, b in common]), abs=1e-9)
    assert found.icc == pytest.approx(agreement_of(table[20:]).icc, abs=1e-9)


def test_a_reason_stands_where_there_is_no_figure(table: Any) -> None:
    names = {"pairwise_spearman", "pairwise_pearson", "cohen_kappa", "fleiss_kappa", "icc"}
    alone = agreement_of(table[:, :1])
    assert names <= alone.undefined.keys()
    assert all(getattr(alone, name) is None for name in names)
    equal = agreement_of(np.full((5, 2), 3.0))
    assert names <= equal.undefined.keys()
    many = agreement_of(np.tile(table[:4], (1, MOST_PAIRED_RATERS)))
    assert "too many" in str(many.undefined["icc"])
    assert many.fleiss_kappa is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pandas, for what pingouin calls
def test_the_icc_is_pingouins(table: Any) -> None:
    pingouin = pytest.importorskip("pingouin")
    pandas = pytest.importorskip("pandas")
    rows = [(item, rater, value) for item, row in enumerate(table) for rater, value in enumerate(row)]
    frame = pandas.DataFrame(rows, columns=["item", "rater", "value"])
    found = pingouin.intraclass_corr(frame, "item", "rater", "value").set_index("Type")
    single = "ICC(A,1)" if "ICC(A,1)" in found.index else "ICC2"
    assert agreement_of(table).icc == pytest.approx(found.loc[single, "ICC"], abs=1e-9)


def test_the_confusion_of_judge_and_median_is_that_of_scikit_learn(table: Any) -> None:
    from sklearn.metrics import confusion_matrix

    judge = np.random.default_rng(5).integers(1, 4, len(table)).astype(float)
    medians = np.median(table, axis=1)  # of four raters, so halves too
    reader = ObservationReader()
    for number, (row, score) in enumerate(zip(table, judge, strict=True)):
        for rater, value in enumerate(row):
            record = {"item": f"i{number}", "rater": f"r{rater}", "ratings": {"overall": float(value)}}
            reader.add({**record, "scores": {"overall": float(score)}}, number + 1)
    found = measure_agreement(reader.finish()).aspects["overall"].confusion
    assert found is not None
    levels = sorted({*medians, *judge})
    places = [levels.index(value) for value in found.people], [levels.index(value) for value in found.judge]
    whole = confusion_matrix([levels.index(m) for m in medians], [levels.index(j) for j in judge])
    assert (np.array(found.counts) == whole[np.ix_(*places)]).all()
    assert np.sum(found.counts) == whole.sum() == len(table)


def test_values_without_levels_have_no_confusion() -> None:
    reader = ObservationReader()
    for number in range(MOST_CONFUSED_LEVELS + 1):
        reader.add({"item": f"i{number}", "ratings": {"overall": 1}, "scores": {"overall": number}}, number + 1)
    assert measure_agreement(reader.finish()).aspects["overall"].confusion is None


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 4 / 3])
@pytest.mark.parametrize("shape", [(3, 2), (5, 3), (10, 7)])
def test_ratings_that_are_all_equal_have_no_icc_but_for_rounding(value, shape):
    assert intraclass_correlation(np.full(shape, value)) == Message("ratings-of-items-equal")
