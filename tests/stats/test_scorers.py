"""Scorers side by side: each equal to scipy's figure, and pairs told apart only where the data tell them apart."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.core.reports import JudgesReport
from saiten_server.stats.reading import ObservationReader, read_csv
from saiten_server.stats.scorers import MOST_SCORERS, compare_scorers


def observe(records: list[dict[str, Any]]) -> Any:
    reader = ObservationReader(by_scorer=True)
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    return reader.finish()


def make(n: int = 60, seed: int = 1, **noise: float) -> list[dict[str, Any]]:
    """Ratings 1 to 5, and scorers that follow them with so much noise."""
    generator = np.random.default_rng(seed)
    true = generator.integers(1, 6, n)
    values = {scorer: true + spread * generator.standard_normal(n) for scorer, spread in noise.items()}
    return [
        {
            "item": f"i{number}",
            "ratings": {"overall": float(true[number])},
            "scores": {scorer: {"overall": float(column[number])} for scorer, column in values.items()},
        }
        for number in range(n)
    ]


def report_of(records: list[dict[str, Any]], **options: Any) -> JudgesReport:
    return compare_scorers(observe(records), resamples=options.pop("resamples", 400), **options)


def test_a_scorer_that_goes_with_nothing_stands_above_one_that_goes_against() -> None:
    columns = {"against": [4, 3, 2, 1], "none": [2, 4, 1, 3], "constant": [1, 1, 1, 1]}
    found = report_of(
        [
            {
                "item": str(row),
                "ratings": {"a": row},
                "scores": {name: {"a": own[row]} for name, own in columns.items()},
            }
            for row in range(4)
        ]
    ).aspects["a"]
    assert found.scorers["none"].spearman == 0
    assert list(found.scorers) == ["none", "against", "constant"]
    assert [(one.better, one.worse, one.difference) for one in found.differences] == [("none", "against", 1.0)]


def test_each_figure_is_scipys_and_the_best_comes_first():
    records = make(far=3.0, near=0.5)
    found = report_of(records).aspects["overall"]
    assert list(found.scorers) == ["near", "far"]
    human = [record["ratings"]["overall"] for record in records]
    for scorer, figures in found.scorers.items():
        scores = [record["scores"][scorer]["overall"] for record in records]
        assert figures.spearman == pytest.approx(stats.spearmanr(scores, human).statistic, abs=1e-9)
        assert figures.pearson == pytest.approx(stats.pearsonr(scores, human).statistic, abs=1e-9)
        assert figures.kendall == pytest.approx(stats.kendalltau(scores, human).statistic, abs=1e-9)
    (difference,) = found.differences
    assert (difference.better, difference.worse) == ("near", "far")
    one, other = (found.scorers[scorer].spearman for scorer in ("near", "far"))
    assert one is not None
    assert other is not None
    assert difference.difference == pytest.approx(one - other)
    assert difference.interval is not None
    assert difference.interval[0] > 0
    assert difference.p is not None
    assert difference.p < 0.05


def test_a_scorer_does_not_differ_from_its_copy():
    records = make(judge=1.0)
    for record in records:
        record["scores"]["copy"] = record["scores"]["judge"]
    (difference,) = report_of(records).aspects["overall"].differences
    assert (difference.difference, difference.interval, difference.p) == (0.0, (0.0, 0.0), 1.0)


def test_equal_scorers_are_told_apart_in_one_of_twenty_at_most():
    told = 0
    for seed in range(120):
        (difference,) = report_of(make(40, seed, a=1.2, b=1.2), resamples=200).aspects["overall"].differences
        told += (difference.p or 0.0) < 0.05
    assert told <= 13  # 6 are expected; more than 13 come by chance once in 300


def test_pairs_are_corrected_together():
    alone = report_of(make(a=0.8, b=1.6)).aspects["overall"].differences[0].p
    records = make(a=0.8, b=1.6)
    for record in records:
        record["scores"] |= {f"copy{number}": record["scores"]["b"] for number in range(3)}
    among = {(one.better, one.worse): one.p for one in report_of(records).aspects["overall"].differences}
    assert among["a", "b"] is not None
    assert alone is not None
    assert among["a", "b"] > alone


def test_a_composite_is_held_against_a_rating_of_another_name():
    records = make(judge=0.5)
    for record in records:
        record["ratings"] = {"acceptability": record["ratings"]["overall"]}
        record["scores"] = {"gpt": {"mate": record["scores"]["judge"]["overall"], "acceptability": 3.0}}
    report = report_of(records, match={"mate": "acceptability"})
    found = report.aspects["acceptability"]
    assert list(found.scorers) == ["gpt (mate)", "gpt"]
    assert found.scorers["gpt"].undefined["spearman"]
    assert found.differences == ()
    assert report.unmatched == {}


def test_scorers_are_compared_on_the_items_that_all_of_them_have():
    records = make(a=0.5, b=0.5)
    for record in records[:10]:
        del record["scores"]["b"]
    found = report_of(records).aspects["overall"]
    assert (found.n, found.left_out, found.missing) == (50, 10, {"b": 10})


def test_turns_of_one_dialogue_are_drawn_together():
    records = make(60, a=0.5, b=0.5)
    for number, record in enumerate(records):
        record["dialogue"] = f"d{number // 30}"
    found = report_of(records).aspects["overall"]
    assert found.clusters == 2
    assert all(one.spearman_interval is None for one in found.scorers.values())
    assert found.differences[0].interval is None
    assert found.differences[0].p is None


def test_the_ceiling_is_what_raters_reach():
    records = [{**record, "rater": rater} for record in make(a=0.5) for rater in ("r1", "r2")]
    ceiling = report_of(records).aspects["overall"].ceiling
    assert ceiling is not None
    assert ceiling.raters == 2
    assert ceiling.spearman == pytest.approx(1.0)


def test_a_table_names_scorers_in_its_header():
    lines = [b"item,overall,score:gpt:overall,score:rouge-l:overall\n"]
    lines += [f"i{n},{n % 5},{n % 5},{n % 3}\n".encode() for n in range(30)]
    report = compare_scorers(read_csv(lines, ObservationReader(by_scorer=True)), resamples=200)
    assert list(report.aspects["overall"].scorers) == ["gpt", "rouge-l"]


def test_what_cannot_be_compared_is_said():
    records = make(a=0.5)
    for record in records:
        record["ratings"]["unscored"] = 1
        record["scores"]["a"]["unrated"] = 2
    report = report_of(records)
    assert report.unmatched == {"unscored": Message("only-ratings"), "unrated": Message("only-scores")}
    with pytest.raises(InvalidRequest, match="no scorer has the score 'x'"):
        report_of(records, match={"x": "overall"})
    with pytest.raises(InvalidRequest, match="no record has the rating 'x'"):
        report_of(records, match={"unrated": "x"})
    with pytest.raises(InvalidLines, match="not an object of values by aspect"):
        observe([{"item": "i", "ratings": {"overall": 1}, "scores": {"overall": 2}}])
    with pytest.raises(InvalidRequest, match="no record has scores by a scorer"):
        compare_scorers(observe([{"item": "i", "ratings": {"overall": 1}}]))
    noise: dict[str, Any] = {f"s{number}": 1.0 for number in range(MOST_SCORERS + 1)}
    many = make(8, **noise)
    with pytest.raises(InvalidRequest, match=f"{MOST_SCORERS + 1} scorers"):
        report_of(many)
