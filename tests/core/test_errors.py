"""Errors carry what others said in a form that every store can keep."""

from saiten_server.core.errors import JudgeRefusedRequest
from tests.support.faults import words


def test_the_words_of_others_are_cleaned_of_what_no_store_can_hold() -> None:
    # As where a gateway cuts an echoed text in the middle of an emoji.
    error = JudgeRefusedRequest(words("the judge refused it"), said="cannot process こ\ud83d\x00")
    assert error.detail == str(error) == "the judge refused it: cannot process こ\ufffd\ufffd"
    assert error.loggable == "the judge refused it"
