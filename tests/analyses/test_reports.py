"""From a request to its analysis: which values, which way round, and what a drawing is made of."""

from typing import Any

import numpy as np
import pytest

from saiten_server.analyses.reports import analyse, compute, orient, prepare_observations
from saiten_server.analyses.requests import REQUESTS, AnalysisRequest
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.validation import validate
from saiten_server.stats.observations import Observations
from tests.support.fake_rubrics import FakeRubrics, aspect_data, small_rubric
from tests.support.observed import observe

RUBRICS = FakeRubrics(
    [small_rubric("manners", aspects=[aspect_data("formality", (-1, 0, 1), best=0), aspect_data("warmth")])]
)


def ask(name: str, **options: Any) -> AnalysisRequest:
    return validate(REQUESTS[name], options, DEFAULT_LIMITS)


def rate(formality: dict[str, tuple[int, ...]], items: int = 20) -> Observations:
    """Each system's items, all rated alike: one value a rater."""
    return observe(
        {
            "system": system,
            "item": item,
            "rater": str(rater),
            "ratings": {"formality": value, "warmth": 1},
            "scores": {"formality": -1 if system == "split" else 1, "warmth": 0},
        }
        for system, values in formality.items()
        for item in range(items)
        for rater, value in enumerate(values)
    )


def test_raters_are_averaged_before_values_are_folded() -> None:
    # The raters of "split" say −1 and 1: their mean is 0, the best level, better than 1.
    report: Any = analyse(ask("hierarchy", rubric="manners"), rate({"split": (-1, 1), "stiff": (1, 1)}), RUBRICS)
    (pair,) = report.aspects["formality"].significant
    assert (pair.better, pair.worse, report.best) == ("split", "stiff", {"formality": 0})
    wins: Any = analyse(ask("win-rates", rubric="manners"), rate({"split": (-1, 1), "stiff": (1, 1)}), RUBRICS)
    assert {name: share.wins for name, share in wins.aspects["formality"].systems.items()} == {"split": 20, "stiff": 0}
    assert wins.best == {"formality": 0}


def test_without_a_rubric_more_is_better_and_nothing_is_folded() -> None:
    observed = rate({"split": (-1, 1), "stiff": (1, 1)})
    report: Any = analyse(ask("hierarchy"), observed, RUBRICS)
    (pair,) = report.aspects["formality"].significant
    assert (pair.better, report.best) == ("stiff", {})
    assert prepare_observations(ask("hierarchy"), observed, RUBRICS) is observed
    assert prepare_observations(ask("agreement", rubric="manners"), observed, RUBRICS) is observed


def test_folding_leaves_one_row_for_each_systems_item() -> None:
    observed = rate({"split": (-1, 1), "stiff": (1, 1), "loose": (-1, 0)}, items=2)
    folded = orient(observed, {"formality": 0.0, "unknown": 1.0})
    assert (folded.n, folded.units, folded.raters, folded.systems) == (6, 6, (), observed.systems)
    by_system = dict(zip(folded.system.tolist(), folded.ratings["formality"].tolist(), strict=True))
    assert [by_system[system] for system in range(3)] == [0, -1, -0.5]
    assert folded.ratings["warmth"].tolist() == [1] * 6
    assert folded.scores["formality"].tolist() == [-1] * 6
    assert folded.folded == {"formality": 0}


def test_what_is_folded_is_not_folded_again_and_what_is_not_there_not_at_all() -> None:
    observed = rate({"split": (-1, 1)}, items=2)
    folded = orient(observed, {"formality": 0.0})
    assert orient(folded, {"formality": 0.0}) is folded
    assert orient(observed, {"unknown": 0.0}) is observed


def test_means_that_are_equal_but_for_rounding_tie_after_folding() -> None:
    records = [
        {"system": "a", "item": 1, "rater": str(rater), "ratings": {"x": value}}
        for rater, value in enumerate((0.1, 0.2, -0.3))
    ]
    folded = orient(observe([*records, {"system": "b", "item": 1, "ratings": {"x": 0}}]), {"x": 0.0})
    assert np.mean([0.1, 0.2, -0.3]) != 0
    assert folded.ratings["x"].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["hierarchy", "win-rates"])
def test_the_prepared_observations_are_those_that_the_report_is_of(name: str) -> None:
    observed = rate({"split": (-1, 1), "stiff": (1, 1)})
    request = ask(name, values="scores")
    prepared = prepare_observations(request, observed, RUBRICS)
    assert prepared.ratings == observed.scores
    assert compute(request, prepared, RUBRICS) == analyse(request, observed, RUBRICS)
    with pytest.raises(InvalidRequest, match="no record has scores"):
        prepare_observations(request, observe([{"item": 1, "ratings": {"x": 1}}]), RUBRICS)
