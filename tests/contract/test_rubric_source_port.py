"""What every RubricSource promises, over the fake and the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.adapters.rubric_files import RubricFiles
from app.domain.errors import UnknownRubric
from app.ports import RubricSource
from tests.support.fake_rubrics import FakeRubrics, rubric_data, small_rubric

Make = Callable[..., RubricSource]


@pytest.fixture(params=["fake", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Builds a source that holds small rubrics of the given ids."""

    def build(*ids: str) -> RubricSource:
        if request.param == "fake":
            return FakeRubrics(small_rubric(rubric_id) for rubric_id in ids)
        for rubric_id in ids:
            (tmp_path / f"{rubric_id}.yaml").write_text(json.dumps(rubric_data(rubric_id)), encoding="utf-8")
        return RubricFiles([tmp_path])

    return build


def test_gets_a_rubric_by_its_id(make: Make):
    assert make("one", "two").get("two") == small_rubric("two")


def test_lists_all_rubrics_by_id(make: Make):
    source = make("two", "one", "three")
    assert [rubric.id for rubric in source.list()] == ["one", "three", "two"]


def test_an_unknown_id_names_those_that_are_known(make: Make):
    with pytest.raises(UnknownRubric) as caught:
        make("one", "two").get("three")
    assert "one, two" in caught.value.detail


@pytest.mark.parametrize("rubric_id", ["", "../one", "one.yaml", "./one", "ONE", "one\x00", "x" * 10_000])
def test_an_id_is_never_a_path(make: Make, rubric_id: str):
    with pytest.raises(UnknownRubric) as caught:
        make("one").get(rubric_id)
    assert "\x00" not in caught.value.detail


def test_a_source_may_be_empty(make: Make):
    source = make()
    assert source.list() == []
    with pytest.raises(UnknownRubric):
        source.get("one")


def test_what_the_caller_does_to_the_list_stays_with_the_caller(make: Make):
    source = make("one")
    source.list().clear()
    assert [rubric.id for rubric in source.list()] == ["one"]
