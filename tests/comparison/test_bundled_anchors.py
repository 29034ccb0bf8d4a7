"""All anchor sets that ship: legal, complete, and nobody else's dialogues."""

import json
from collections import Counter
from pathlib import Path

import pytest

from saiten_server.comparison.judge_checks.service import load_anchors
from saiten_server.core.dialogue import Utterance
from saiten_server.platform.bundled import bundled_folder
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder, read_rubric_file

APP = Path(__file__).parents[2] / "app"
RUBRICS = sorted(file.stem for file in (APP / "comparison" / "judge_checks" / "anchors").glob("*.jsonl"))


def texts_of(utterances: tuple[Utterance, ...], response: str) -> tuple[str, ...]:
    return (*(said.text for said in utterances), response)


def all_strings(folder: str) -> set[str]:
    """Every text in the JSON Lines of a folder of data."""
    found: set[str] = set()

    def collect(value: object) -> None:
        if isinstance(value, str):
            found.add(value.strip())
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            collect(part)

    for file in bundled_folder(folder).iterdir():
        if file.name.endswith(".jsonl"):
            for line in file.read_text(encoding="utf-8").splitlines():
                collect(json.loads(line))
    return found


def test_there_is_a_set_for_each_rubric_that_ships() -> None:
    shipped = RubricFiles([default_folder()]).list()
    assert [rubric.id for rubric in shipped if rubric.unit == "item"] == RUBRICS


@pytest.mark.parametrize("rubric_id", RUBRICS)
def test_at_least_30_with_ids_and_texts_of_their_own(rubric_id: str) -> None:
    anchors = load_anchors(rubric_id)
    assert len(anchors) >= 30
    assert len({anchor.id for anchor in anchors}) == len(anchors)
    assert len({texts_of(anchor.context, anchor.response) for anchor in anchors}) == len(anchors)
    assert len({anchor.response for anchor in anchors}) == len(anchors)


@pytest.mark.parametrize("rubric_id", RUBRICS)
def test_every_aspect_is_rated_and_every_level_occurs(rubric_id: str) -> None:
    rubric = read_rubric_file(default_folder() / f"{rubric_id}.yaml")
    anchors = load_anchors(rubric_id)
    for anchor in anchors:
        assert list(anchor.ratings) == [aspect.id for aspect in rubric.aspects], anchor.id
    for aspect in rubric.aspects:
        counts = Counter(anchor.ratings[aspect.id] for anchor in anchors)
        assert set(counts) == set(aspect.values), aspect.id


@pytest.mark.parametrize("rubric_id", RUBRICS)
@pytest.mark.parametrize("folder", ["scoring/calibration", "cli/demo_data"])
def test_none_is_in_other_data_that_ships(rubric_id: str, folder: str) -> None:
    others = all_strings(folder)
    assert others
    for anchor in load_anchors(rubric_id):
        assert anchor.response.strip() not in others, anchor.id
        assert anchor.context[-1].text.strip() not in others, anchor.id


def test_no_two_sets_share_a_text() -> None:
    responses = [anchor.response for rubric_id in RUBRICS for anchor in load_anchors(rubric_id)]
    assert len(set(responses)) == len(responses)


@pytest.mark.parametrize("rubric_id", RUBRICS)
def test_none_is_an_example_that_the_judge_is_shown(rubric_id: str) -> None:
    shown = {
        example.response
        for aspect in read_rubric_file(default_folder() / f"{rubric_id}.yaml").aspects
        for localized in (*(level.example for level in aspect.levels), aspect.one_shot)
        for example in (localized or {}).values()
    }
    assert shown
    assert not shown & {anchor.response for anchor in load_anchors(rubric_id)}
