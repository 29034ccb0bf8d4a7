"""What a text of a rubric may be."""

import pytest

from saiten_server.core.rubric import check_phrase, check_prose


@pytest.mark.parametrize("text", ["自然さ", "합리성", "Two words", "a: 「b」", "👍"])
def test_visible_text_is_taken_as_it_is(text: str):
    assert check_prose(text) == check_phrase(text) == text


@pytest.mark.parametrize("text", ["", " ", "\u3000", "\u200b\u2060", "\u3164", "a\x00", "a\x1b[31m", "\udc80"])
def test_what_cannot_be_seen_or_steers_a_terminal_is_refused(text: str):
    with pytest.raises(ValueError, match=r"blank|control|surrogate"):
        check_prose(text)
    with pytest.raises(ValueError, match=r"blank|control|surrogate"):
        check_phrase(text)


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\tb", "a\u2028b"])
def test_only_prose_may_run_over_lines(text: str):
    assert check_prose(text) == text
    with pytest.raises(ValueError, match="control"):
        check_phrase(text)


@pytest.mark.parametrize("text", [" a", "a ", "\u3000a"])
def test_a_phrase_has_no_white_space_around_it(text: str):
    with pytest.raises(ValueError, match="white space"):
        check_phrase(text)
