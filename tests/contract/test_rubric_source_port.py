"""What every RubricSource promises, over the fake and the files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from saiten_server.core.errors import UnknownRubric
from saiten_server.scoring.rubrics.files import RubricFiles, RubricSource
from tests.support.fake_rubrics import FakeRubrics, rubric_data, small_rubric

Make = Callable[..., RubricSource]


@pytest.fixture(params=["fake", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Builds a source that holds small rubrics of the given ids."""

    def build(*ids: str, versions: int = 1) -> RubricSource:
        made = [(rubric_id, version) for version in range(1, versions + 1) for rubric_id in ids]
        if request.param == "fake":
            return FakeRubrics(small_rubric(rubric_id, version=version) for rubric_id, version in reversed(made))
        for rubric_id, version in made:
            name = f"{rubric_id}.yaml" if version == versions else f"{rubric_id}.v{version}.yaml"
            (tmp_path / name).write_text(json.dumps(rubric_data(rubric_id, version=version)), encoding="utf-8")
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


def test_a_rubric_is_its_newest_version_unless_one_is_named(make: Make):
    source = make("one", "two", versions=3)
    assert source.get("one").version == 3
    assert [source.get(f"one@{version}").version for version in source.versions("one")] == [1, 2, 3]
    assert [(rubric.id, rubric.version) for rubric in source.list()] == [("one", 3), ("two", 3)]
    assert source.versions("three") == []


@pytest.mark.parametrize("name", ["one@4", "one@0", "one@", "one@x", "one@01", "@1", "one@1@1", "four@1"])
def test_a_version_that_is_not_there_names_those_that_are(make: Make, name: str):
    with pytest.raises(UnknownRubric) as caught:
        make("one", versions=2).get(name)
    assert ("one@1, one@2" if name.startswith("one@") else "known: one") in caught.value.detail


def test_what_was_scored_by_a_version_that_is_gone_is_read_by_the_newest(make: Make):
    source = make("one", versions=2)
    assert [source.nearest(name).version for name in ("one@1", "one@7", "one")] == [1, 2, 2]
    with pytest.raises(UnknownRubric):
        source.nearest("two@1")
