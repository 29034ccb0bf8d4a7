"""What a text must be to be judged at all."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.domain.dialogue import Dialogue, Limits, Utterance, is_invisible

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


def test_what_is_invisible() -> None:
    assert all(map(is_invisible, " \t\u3000\u200b\u202e\u3164\u2800\u0301\ufe0f"))
    assert not any(map(is_invisible, "aあ가：!🙆0"))
