"""What is sent is the question's body, however it is put together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.core.evaluation import JudgeOptions
from saiten_server.judging.prompt import Prompt
from saiten_server.providers.openai.endpoint import KEPT_WAYS, PROMPT_PLACEHOLDER, RequestBodies
from saiten_server.providers.openai.parameters import Question


def make_question(user: str = "対話", *, model: str = "m", sample: int = 0, expected: bool = False) -> Question:
    structured = Prompt(system="採点してください。", user=user, schema={"type": "object"}, prefix_digest="s" * 64)
    text = Prompt(system="採点", user=user, schema=None, prefix_digest="t" * 64)
    return Question(model, (), "ja", JudgeOptions(expected=expected), structured, text, 2048, sample=sample)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_every_dialogue_is_sent_as_its_own(users: list[str]) -> None:
    bodies = RequestBodies()
    for user in [*users, PROMPT_PLACEHOLDER, '"', "\\u0000", "\ue000\ue000"]:
        sendable = user.encode("utf-8", "ignore").decode()
        question = make_question(sendable)
        assert json.loads(bodies.write(question, ())) == question.body()


@pytest.mark.parametrize("conceded", [(), ("response_format",), ("seed", "temperature"), ("logprobs",)])
def test_every_way_of_asking_has_its_own_parameters(conceded: tuple[str, ...]) -> None:
    bodies = RequestBodies()
    for question in (
        make_question(),
        make_question(sample=1),
        make_question(model="gpt-6-luna"),
        make_question(expected=True),
    ):
        for _ in range(2):
            assert json.loads(bodies.write(question, conceded)) == question.body(conceded)


def test_no_more_is_kept_than_allowed() -> None:
    bodies = RequestBodies()
    for sample in range(2 * KEPT_WAYS):
        question = make_question(sample=sample)
        assert json.loads(bodies.write(question, ()))["seed"] == question.body()["seed"]
    assert len(bodies._kept) == KEPT_WAYS
