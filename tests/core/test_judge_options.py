"""What may be asked of the judge beside the rubric: bounded, and unseen where it is not asked."""

from typing import Any

import pytest

from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.validation import InvalidDocument, validate


def read(value: Any) -> JudgeOptions:
    return validate(JudgeOptions, value, DEFAULT_LIMITS)


def test_options_that_nobody_sets_are_not_written() -> None:
    assert JudgeOptions().model_dump() == {"model": None, "samples": 1, "expected": False, "explain": False}
    assert read({"temperature": 0, "max_tokens": None, "extra": {}}) == JudgeOptions()


def test_options_that_are_set_come_back_as_they_were() -> None:
    given = {"temperature": 0.7, "max_tokens": 4096, "extra": {"chat_template_kwargs": {"enable_thinking": False}}}
    written = read(given).model_dump()
    assert {name: written[name] for name in given} == given
    assert read(written) == read(given)
    assert hash(read(written)) == hash(read(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"temperature": -0.1}, "/temperature"),
        ({"temperature": 2.1}, "/temperature"),
        ({"temperature": "0"}, "/temperature"),
        ({"temperature": True}, "/temperature"),
        ({"max_tokens": 0}, "/max_tokens"),
        ({"max_tokens": 65_537}, "/max_tokens"),
        ({"max_tokens": 1.5}, "/max_tokens"),
        ({"extra": []}, "/extra"),
        ({"extra": {"": 1}}, "/extra"),
        ({"extra": {"a b": 1}}, "/extra"),
        ({"extra": {f"n{number}": 1 for number in range(17)}}, "at most 16 members"),
        ({"extra": {"a": "x" * 4_000}}, "at most 4000 characters"),
        ({"extra": {"a": [[]] * 2_000}}, "at most 4000 characters"),
        ({"extra": {"a": [[]] * 100_000}}, "at most 10,000 values"),
        ({"model": "a\nb"}, "/model"),
        ({"model": "-rf"}, "/model"),
        ({"model": "x" * 256}, "/model"),
    ],
)
def test_others_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read(given)
    assert words in caught.value.detail
