"""The papers' tables: their layout, and each figure equal to scipy's."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from saiten_server.core.errors import InvalidRequest
from saiten_server.stats.observations import Observations
from saiten_server.stats.paper_tables import PaperTable, make_table
from saiten_server.stats.reading import ObservationReader

SYSTEMS = ("MF", "MC", "HT")
ASPECTS = ("自然さ", "acceptability")
ITEMS = 25


def records() -> list[dict[str, Any]]:
    """Two raters of three systems; a judge, its composite under another name, and a metric that HT, being the
    reference, has no value of."""
    generator = np.random.default_rng(3)
    found = []
    for system in SYSTEMS:
        for item in range(ITEMS):
            judge = {aspect: int(generator.integers(1, 4)) for aspect in ASPECTS}
            scores = {"GPT-4": {**judge, "mate": float(generator.normal())}}
            if system != "HT":
                scores["ROUGE-1"] = {"acceptability": float(generator.uniform(10, 30))}
            found += [
                {
                    "system": system, "item": f"q{item}", "rater": rater, "scores": scores,
                    "ratings": {aspect: int(np.clip(judge[aspect] + generator.integers(-1, 2), 1, 3)) for aspect in ASPECTS},
                }
                for rater in ("R1", "R2")
            ]  # fmt: skip
    return found


def observe(given: list[dict[str, Any]]) -> Observations:
    reader = ObservationReader(by_scorer=True)
    for number, record in enumerate(given, start=1):
        reader.add(record, number)
    return reader.finish()


def means(given: list[dict[str, Any]], aspect: str) -> list[float]:
    """People's mean of each response, in the order of the records."""
    ratings = [record["ratings"][aspect] for record in given]
    return [(one + other) / 2 for one, other in zip(ratings[::2], ratings[1::2], strict=True)]


def cells(table: PaperTable) -> dict[str, dict[str, tuple[float | None, ...]]]:
    return {
        row.name: {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}
        for row in table.rows
    }


def test_systems_stand_beside_scorers_with_the_correlation_below():
    given = records()
    table = make_table("systems", observe(given), aspect="acceptability", match={"mate": "acceptability"})
    found = cells(table)
    assert [*found] == [*SYSTEMS, "Corr."]
    assert [*found["MF"]] == ["human acceptability", "GPT-4", "GPT-4 (mate)", "ROUGE-1"]
    assert [column.digits for column in table.columns] == [2, 2, 2, 1]
    people, own = means(given, "acceptability"), [record["scores"] for record in given[::2]]
    assert found["MF"]["human acceptability"][0] == pytest.approx(np.mean(people[:ITEMS]))
    assert found["HT"]["ROUGE-1"] == (None,)
    mate = stats.pearsonr([one["GPT-4"]["mate"] for one in own], people).statistic
    assert found["Corr."]["GPT-4 (mate)"][0] == pytest.approx(mate, abs=1e-9)
    rouge = [one["ROUGE-1"]["acceptability"] for one in own[: 2 * ITEMS]]
    assert found["Corr."]["ROUGE-1"][0] == pytest.approx(stats.pearsonr(rouge, people[: 2 * ITEMS]).statistic, abs=1e-9)
    assert (table.footer, table.notes) == (1, ("50 to 75 items a figure",))


def test_aspects_raters_and_scorers_are_those_of_the_dialogue_paper():
    given = records()
    observations = observe(given)
    people = {aspect: means(given, aspect) for aspect in ASPECTS}
    both = stats.spearmanr(people[ASPECTS[0]], people[ASPECTS[1]]).statistic
    aspects = cells(make_table("aspects", observations))
    assert aspects[ASPECTS[0]][ASPECTS[0]] == (None,)
    assert aspects[ASPECTS[0]][ASPECTS[1]][0] == aspects[ASPECTS[1]][ASPECTS[0]][0] == pytest.approx(both, abs=1e-9)
    raters = cells(make_table("raters", observations))
    own = [record["ratings"][ASPECTS[0]] for record in given]
    mean, sd, spearman, pearson = (cell[0] for cell in raters["自然さ(1,2,3)"].values())
    assert mean == pytest.approx(np.mean(people[ASPECTS[0]]))
    assert sd == pytest.approx(np.std(people[ASPECTS[0]], ddof=1))
    assert spearman == pytest.approx(stats.spearmanr(own[::2], own[1::2]).statistic, abs=1e-9)
    assert pearson == pytest.approx(stats.pearsonr(own[::2], own[1::2]).statistic, abs=1e-9)
    table = make_table("scorers", observations)
    scorers = cells(table)
    assert [*scorers] == ["GPT-4", "ROUGE-1", "people"]
    judge = [record["scores"]["GPT-4"][ASPECTS[0]] for record in given[::2]]
    expected = (
        stats.spearmanr(judge, people[ASPECTS[0]]).statistic,
        stats.pearsonr(judge, people[ASPECTS[0]]).statistic,
    )
    assert scorers["GPT-4"][ASPECTS[0]] == pytest.approx(expected, abs=1e-9)
    assert scorers["ROUGE-1"][ASPECTS[0]] == (None, None)
    assert scorers["people"][ASPECTS[0]] == pytest.approx((spearman, pearson))
    assert table.best(0, 0) == round(expected[0], 2)


def test_what_a_table_cannot_be_made_of_is_refused():
    observations = observe(records())
    with pytest.raises(InvalidRequest, match="name one of these aspects: 自然さ, acceptability"):
        make_table("systems", observations)
    with pytest.raises(InvalidRequest, match="name one of these aspects"):
        make_table("systems", observations, aspect="mate")
    bare = observe([{"item": "a", "ratings": {"x": 1}}])
    with pytest.raises(InvalidRequest, match="both ratings and scores"):
        make_table("scorers", bare)
