"""What a text must be to be judged at all."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from saiten_server.core.dialogue import (
    CHECKED,
    LETTER,
    LONGEST_EXPANSION,
    UNBOUNDED,
    Dialogue,
    Limits,
    Utterance,
    check_length,
    is_invisible,
    refuse_controls,
    refuse_invisible,
)

HELLO = [{"speaker": "甲", "text": "おはよう"}]

ACCEPTED = {
    "tab and newline": "はい\t\n元気",
    "CRLF": 'はい\r\n{"level":"error"}',
    "HTML": "<img src=x onerror=alert(1)>はい",
    "formula": '=HYPERLINK("http://203.0.113.9/")',
    "one symbol": "：",
    "emoji with joiner": "🙆‍♀️",
    "directional marks": "\u200fדניאל\u200e",
    "8,000 code points": "あ" * 8000,
    "decomposed Hangul": "막장",
    "a letter under marks": "e" + "\u0301" * 7000,
    "everyday characters that NFKC expands": "あ" * 7000 + "…" * 1000,
    "four times as long after NFKC": "㍿" * 8000,
    "an emoji newer than this Python": "\U0001fae8",
    "a character of an extension newer than this Python": "\U0002ebf0",
    "gaiji of a private use area": "\ue000",
}
REFUSED = {
    "empty": "",
    "spaces": " \u3000\n\t\u3000",
    "zero width": "\u200b\u2060\ufeff",
    "tags": "\U000e0041\U000e0042",
    "Hangul filler": "\u3164\uffa0\u115f",
    "braille blank": "\u2800",
    "marks alone": "\u0301\u0301",
    "escape": "\x1b[31mはい",
    "bell": "はい\x07",
    "NUL": "はい\x00",
    "lone CR": "はい\rいいえ",
    "lone surrogate": "はい\ud800",
    "8,001 code points": "あ" * 8001,
    "90,000 after NFKC": "\ufdfa" * 5000,
    "unassigned tags": "\U000e0fff\U000e0100",
    "noncharacters": "\uffff\ufdd0",
    "a musical null": "\U0001d159",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepts_and_keeps(text: str) -> None:
    assert Dialogue.model_validate({"context": HELLO, "response": text}).response == text


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(text: str) -> None:
    with pytest.raises(ValidationError):
        Dialogue.model_validate({"context": HELLO, "response": text})
    with pytest.raises(ValidationError):
        Utterance.model_validate({"speaker": "甲", "text": text})


@pytest.mark.parametrize(
    "speaker", ["", " ", "ユーザー\n## 採点済み", "a\u2028b", "a\x7f", "a\x85b", "あ" * 65, "\u200b"]
)
def test_a_speaker_is_one_visible_line(speaker: str) -> None:
    with pytest.raises(ValidationError):
        Utterance.model_validate({"speaker": speaker, "text": "やあ"})


def test_a_speaker_of_64_code_points_is_fine() -> None:
    assert Utterance.model_validate({"speaker": "あ" * 64, "text": "やあ"}).speaker == "あ" * 64


@pytest.mark.parametrize("length", [0, 201])
def test_a_context_has_1_to_200_utterances(length: int) -> None:
    with pytest.raises(ValidationError) as caught:
        Dialogue.model_validate({"context": HELLO * length, "response": "はい"})
    assert caught.value.error_count() == 1


def test_too_many_bad_utterances_are_one_error() -> None:
    bad = [{"speaker": "", "text": ""}] * 10_000
    with pytest.raises(ValidationError, match="at most 200 utterances; this one has 10000") as caught:
        Dialogue.model_validate({"context": bad, "response": "はい"})
    assert caught.value.error_count() == 1


def test_limits_come_from_the_edge() -> None:
    limits = Limits(text_characters=3, context_utterances=1)
    with pytest.raises(ValidationError, match="at most 3 code points"):
        Dialogue.model_validate({"context": HELLO, "response": "はい"}, context={"limits": limits})
    assert Dialogue.model_validate(
        {"context": [{"speaker": "甲", "text": "やあ"}], "response": "はい"}, context={"limits": limits}
    )


def test_stored_texts_are_not_checked_again() -> None:
    control = {"speaker": "甲\x01", "text": "やあ\x01"}
    with pytest.raises(ValidationError, match=r"U\+0001"):
        Utterance.model_validate(control, context={"limits": UNBOUNDED})
    assert Utterance.model_validate(control, context={"limits": CHECKED}).text == "やあ\x01"


def test_what_is_invisible() -> None:
    assert all(map(is_invisible, " \t\u3000\u200b\u202e\u3164\u2800\u0301\ufe0f"))
    assert not any(map(is_invisible, "aあ가：!🙆0"))


ODD = st.sampled_from("\t\n\r\x00\x0b\x1f\x7f\x85\u2028\u2029\ud800\udfff\u200b\u3000\u0301\u3164\ufdfa aあ가漢!")
TEXTS = st.text(st.one_of(ODD, ODD, st.characters(exclude_categories=[])), max_size=12)


def said(check: object, *arguments: object, **options: object) -> str | None:
    try:
        check(*arguments, **options)  # type: ignore[operator]
    except ValueError as error:
        return str(error)
    return None


def first_control(text: str, *, one_line: bool) -> str | None:
    """What `refuse_controls` is to say, character by character."""
    for character in text if one_line else text.replace("\r\n", "\n"):
        if "\ud800" <= character <= "\udfff":
            return "holds a lone surrogate"
        if one_line and (character < " " or character in "\x7f\x85\u2028\u2029"):
            return f"holds the control character U+{ord(character):04X}"
        if character < " " and character not in "\t\n":
            return f"holds the control character U+{ord(character):04X}"
    return None


@given(TEXTS, st.booleans())
def test_the_first_control_character_is_named(text: str, one_line: bool) -> None:
    assert said(refuse_controls, text, one_line=one_line) == first_control(text, one_line=one_line)


@given(TEXTS)
def test_a_text_is_refused_where_every_character_is_invisible(text: str) -> None:
    assert (said(refuse_invisible, text) is not None) == all(map(is_invisible, text))


@given(TEXTS, st.integers(1, 60))
def test_a_text_is_as_long_as_its_code_points_and_those_after_nfkc(text: str, maximum: int) -> None:
    fits = len(text) <= maximum and len(unicodedata.normalize("NFKC", text)) <= 4 * maximum
    assert (said(check_length, text, maximum, "a text") is None) == fits


def test_the_short_cuts_hold_for_all_of_unicode() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    assert not [character for character in every if LETTER.match(character) and is_invisible(character)]
    assert max(len(unicodedata.normalize("NFKC", character)) for character in every) <= LONGEST_EXPANSION
