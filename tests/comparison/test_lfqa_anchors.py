"""The frozen anchors of `lfqa`: a judge is held against them, so what they cover is part of what they are."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from saiten_server.core.rubric import Example
from saiten_server.scoring.rubrics.files import default_folder, read_rubric_file

RUBRIC = read_rubric_file(default_folder() / "lfqa.yaml")
FILE = Path(__file__).parents[2] / "app" / "comparison" / "judge_checks" / "anchors" / "lfqa.jsonl"
ANCHORS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def question(anchor: dict[str, Any]) -> str:
    [said] = anchor["context"]
    assert said["speaker"] == "質問"
    return str(said["text"])


def test_there_are_32_with_ids_in_order_and_questions_of_their_own():
    assert [anchor["id"] for anchor in ANCHORS] == [f"lfqa-{number:02}" for number in range(1, 33)]
    assert len({question(anchor) for anchor in ANCHORS}) == 32


def test_each_rates_every_aspect_on_its_scale():
    for anchor in ANCHORS:
        assert list(anchor) == ["id", "context", "response", "ratings"]
        assert list(anchor["ratings"]) == [aspect.id for aspect in RUBRIC.aspects]
        assert all(anchor["ratings"][aspect.id] in aspect.values for aspect in RUBRIC.aspects), anchor["id"]


def test_every_level_of_every_aspect_occurs_at_least_three_times():
    for aspect in RUBRIC.aspects:
        counts = Counter(anchor["ratings"][aspect.id] for anchor in ANCHORS)
        assert min(counts[value] for value in aspect.values) >= 3, aspect.id


def test_no_two_aspects_always_move_together():
    """A judge that lets one aspect decide another cannot be right on all anchors."""
    for aspect in RUBRIC.aspects:
        for other in RUBRIC.aspects:
            pairs = {(anchor["ratings"][aspect.id], anchor["ratings"][other.id]) for anchor in ANCHORS}
            assert aspect is other or len(pairs) > len(aspect.values), (aspect.id, other.id)


def test_ratings_agree_with_what_acceptability_says_of_the_others():
    """The levels say so: nearly all wrong is 0, wrong at heart at most 1, any lesser flaw at most 2."""
    for anchor in ANCHORS:
        ratings = anchor["ratings"]
        flawless = (ratings["formality"], ratings["amount_info"], ratings["factuality"]) == (0, 0, 3)
        assert ratings["acceptability"] <= ratings["factuality"], anchor["id"]
        assert (ratings["acceptability"] == 3) is flawless, anchor["id"]
        assert ratings["amount_info"] != -1 or ratings["acceptability"] <= 1, anchor["id"]


def test_answers_are_japanese_of_one_to_six_sentences():
    for anchor in ANCHORS:
        text = re.sub("「[^」]*」", "", anchor["response"])
        assert 1 <= len(re.findall("[。？！]+|笑$", text)) <= 6, anchor["id"]
        for shown in (question(anchor), anchor["response"]):
            assert not re.search(r"[A-Za-z\s]", shown)
            assert re.search("[ぁ-ん]", shown)


def test_none_is_an_example_of_the_rubric():
    """The judge is shown those with their ratings."""
    shown: list[Example] = [
        localized["ja"]
        for aspect in RUBRIC.aspects
        for localized in (*(level.example for level in aspect.levels), aspect.one_shot)
        if localized
    ]
    assert len(shown) == sum(len(aspect.levels) + 1 for aspect in RUBRIC.aspects)
    questions = {utterance.text for example in shown for utterance in example.context}
    assert not questions & {question(anchor) for anchor in ANCHORS}
    assert not {example.response for example in shown} & {anchor["response"] for anchor in ANCHORS}
