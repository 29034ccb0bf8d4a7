"""The first version of every rubric that has a second goes on being asked byte for byte as it was."""

import hashlib
from itertools import product

import pytest

from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.judging.conversation_prompt import build_conversation_prefix
from saiten_server.judging.prompt import build_prefix
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder

SOURCE = RubricFiles([default_folder()])


def digest_prefixes(rubric: Rubric) -> str:
    """A digest of all fixed parts: every language, format and, for items, with and without reasons."""
    found = hashlib.sha256()
    for language, structured, explain in product(rubric.languages, (True, False), (False, True)):
        if rubric.unit == "item":
            prefix = build_prefix(rubric, language, rubric.aspects, explain=explain, structured=structured)
        else:
            prefix = build_conversation_prefix(rubric, language, rubric.aspects, structured=structured)
        # As it is sent: the schema's order is part of what the judge reads.
        found.update(repr([prefix.system, prefix.schema, prefix.digest, prefix.canary]).encode())
    return found.hexdigest()


@pytest.mark.parametrize(
    ("name", "digest", "asked"),
    [
        (
            "ko-comment@1",
            "5371297de1d51a7fe09e535496eb67c7316363d78e3be6bd1cd50d2ad53b5042",
            "a869f0661953f8c8687267baf2cdb68cbef049b104e819122b107e593735d3ba",
        ),
        (
            "ja-conversation@1",
            "04466205b868deef33f9b5f626cdbf74ecd8666c70e01bb864cdc87cda062997",
            "1e5c98158abcddbd56fca112d07743dcc195092ba7660457f76b7cb7fe3b65e8",
        ),
        (
            "ko-conversation@1",
            "a0b1d67d71c5ae57ad3df2f3198f568eae2e351ae16bf7cb7accdf1aaa3c1fa4",
            "f58acb5265ee38bbe2d29335076a5825b63264c19daa8529ebc624fcf106914e",
        ),
    ],
)
def test_version_1_is_asked_byte_for_byte_as_it_was(name: str, digest: str, asked: str) -> None:
    """Both digests were taken of the release that had no second version."""
    rubric = SOURCE.get(name)
    assert rubric.digest == digest
    assert digest_prefixes(rubric) == asked


@pytest.mark.parametrize("rubric_id", ["ja-conversation", "ja-dialogue", "ko-comment", "ko-conversation"])
def test_without_a_version_the_second_is_asked_and_screens(rubric_id: str) -> None:
    newest = SOURCE.get(rubric_id)
    assert (newest.version, SOURCE.versions(rubric_id)) == (2, [1, 2])
    assert JudgeOptions().screens(newest.version)
    assert newest.digest != SOURCE.get(f"{rubric_id}@1").digest


def test_both_versions_of_ko_comment_ask_for_the_same_aspects_on_the_same_scales() -> None:
    first, second = SOURCE.get("ko-comment@1"), SOURCE.get("ko-comment")
    for one, other in zip(first.aspects, second.aspects, strict=True):
        assert (one.id, one.name, one.scale, one.blended) == (other.id, other.name, other.scale, other.blended)
        assert [level.label for level in one.levels] == [level.label for level in other.levels]
        assert [level.example for level in one.levels] == [level.example for level in other.levels]
    assert first.composites == second.composites
