"""The call cache's key: whatever may change the reply is in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.adapters.openai.parameters import Question
from app.domain.evaluation import JudgeOptions
from app.domain.prompt import Prompt

QUESTION = Question(
    model="m",
    aspects=(),
    language="ja",
    options=JudgeOptions(),
    structured=Prompt(system="s", user="u", schema={"type": "object"}, prefix_digest="p"),
    text=Prompt(system="t", user="u", schema=None, prefix_digest="q"),
    max_output_tokens=100,
)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"options": JudgeOptions(expected=True)},
        {"structured": replace(QUESTION.structured, user="v")},
        {"structured": replace(QUESTION.structured, schema={"type": "array"})},
        {"text": replace(QUESTION.text, system="another text format")},
        {"max_output_tokens": 101},
        {"sample": 1},
        {"attempt": 1},
    ],
)
def test_another_question_has_another_key(change: dict[str, Any]) -> None:
    assert replace(QUESTION, **change).key("http://e") != QUESTION.key("http://e")


def test_another_endpoint_has_another_key_and_the_same_question_the_same() -> None:
    assert QUESTION.key("http://e") != QUESTION.key("http://f")
    assert replace(QUESTION).key("http://e") == QUESTION.key("http://e")
