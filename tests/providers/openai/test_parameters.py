"""The call cache's key: whatever may change the reply is in it."""

from dataclasses import replace
from typing import Any

import pytest

from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.model import digest
from saiten_server.judging.prompt import Prompt
from saiten_server.providers.openai.parameters import CACHE_FORMAT, FIRST_SEED, Question, bound_reply

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
        {"structured": replace(QUESTION.structured, prefix_digest="another")},
        {"text": replace(QUESTION.text, prefix_digest="another")},
        {"structured": QUESTION.text, "text": QUESTION.structured},
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


def test_the_key_is_of_what_is_sent_to_the_letter() -> None:
    sent = {"temperature": 0, "seed": FIRST_SEED, "max_tokens": 100, "model": "m"}
    expected = digest(["judge", CACHE_FORMAT, "http://e", sent, ["p", "q"], "u", 0, 0])
    assert QUESTION.key("http://e") == expected


@pytest.mark.parametrize("user", ['{"a": "\\n"}', "<\n文" * 100_000, "「文」\n\u2028\x7f", "]", ""])
def test_the_key_of_any_dialogue_is_that_of_its_canonical_json(user: str) -> None:
    asked = replace(QUESTION, model="gpt-6-luna", structured=replace(QUESTION.structured, user=user), sample=1)
    sent = {**asked.body(), "model": "gpt-6-luna"}
    sent.pop("messages")
    sent.pop("response_format")
    expected = digest(["judge", CACHE_FORMAT, "http://e", sent, ["p", "q"], user, 1, 0])
    assert asked.key("http://e") == expected == asked.key("http://e")


def test_the_body_is_the_parameters_with_the_prompt() -> None:
    body = replace(QUESTION, options=JudgeOptions(expected=True), sample=2, attempt=1).body()
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "temperature": 0,
        "seed": FIRST_SEED + 2 + 1_000_000,
        "max_tokens": 100,
        "logprobs": True,
        "top_logprobs": 20,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": {"type": "object"}},
        },
    }


def test_a_reply_may_be_as_large_as_its_token_probabilities() -> None:
    # 1 MiB, and for each of 2,048 tokens itself and 20 alternatives of 256 bytes.
    assert bound_reply(2048) == 1_048_576 + 2048 * 21 * 256 == 12_058_624
