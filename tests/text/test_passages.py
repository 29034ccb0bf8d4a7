"""Whose speech is read: quotations, asides and addresses fall away, and long texts are read only at their beginning."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.text.korean import FIRST, LAST, spell
from saiten_server.text.passages import (
    MOST_PASSAGE_CHARACTERS,
    MOST_SENTENCES,
    drop_quotations,
    open_passage,
    split_sentences,
)
from saiten_server.text.scripts import read_scripts


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("彼は「行く。」と言った", "彼は物と言った"),
        ("「a『b』c」です", "物です"),
        ('그는 "가요"라고', "그는 物라고"),
        ("그는 '가요'라고", "그는 物라고"),
        ("「閉じない", "「閉じない"),
        ("閉じ」だけ", "閉じ」だけ"),
        ("I don't think it's", "I don't think it's"),
        ("「a“b」c", "物c"),
    ],
)
def test_a_quotation_becomes_a_noun(text: str, own: str) -> None:
    assert drop_quotations(text, "物") == own


@given(st.text(alphabet="「」『』“”\"'a。", max_size=60))
def test_dropping_quotations_never_fails_nor_lengthens(text: str) -> None:
    assert len(drop_quotations(text, "x")) <= len(text)


def test_a_text_that_is_one_quotation_is_read() -> None:
    assert [found.text for found in split_sentences("「そうですね」", "物")] == ["そうですね"]


def test_list_items_are_read_only_where_nothing_else_is() -> None:
    assert [found.text for found in split_sentences("どうぞ:\n- 見る\n2. 開く\n# 終わる", "物")] == ["どうぞ:"]
    assert "見る" in [found.text.strip("- ") for found in split_sentences("- 見る\n- 開く", "物")]


def test_sentences_end_at_marks_symbols_and_lines_but_not_within_numbers() -> None:
    found = list(split_sentences("3.5です😊いいね…10~12時？\nはい", "物"))
    assert [one.text for one in found] == ["3.5です", "いいね", "10~12時", "はい"]
    assert [one.trails_off for one in found] == [False, True, False, False]
    assert [one.asks for one in found] == [False, False, True, False]


def test_no_more_than_so_many_sentences_are_read() -> None:
    assert len(list(split_sentences("あ。" * 1000, "物"))) == MOST_SENTENCES


def test_a_sentence_that_the_limit_cuts_is_left_out() -> None:
    assert open_passage("はい。" + "あ" * MOST_PASSAGE_CHARACTERS) == "はい。"
    assert open_passage("あ" * 3 * MOST_PASSAGE_CHARACTERS) == "あ" * MOST_PASSAGE_CHARACTERS


def test_addresses_and_code_are_no_words() -> None:
    assert open_passage("見て https://example.com/a?b=1 と a@example.com と `rm -r`").split() == ["見て", "と", "と"]


@given(st.integers(FIRST, LAST))
def test_a_spelled_syllable_is_its_canonical_decomposition(code: int) -> None:
    conjoining = unicodedata.normalize("NFD", chr(code))
    names = [unicodedata.name(letter).rsplit(" ", 1)[1] for letter in conjoining]
    spelled = [unicodedata.name(letter).rsplit(" ", 1)[1] for letter in spell(chr(code))]
    silent = [name or "IEUNG" for name in names]  # an initial ㅇ has no sound of its own
    assert spelled == silent


LANGUAGES = [
    ("了解", "ja"),
    ("電車遅延中", "ja"),
    ("目的地到着", "ja"),
    ("森鷗外", "ja"),
    ("憂鬱", "ja"),
    ("申請中", "ja"),
    ("都会生活", "ja"),
    ("不要品回収", "ja"),
    ("ＡＫＢ４８が好き", "ja"),
    ("ＡＫＢ４８", "none"),
    ("(´・ω・`)", "none"),
    ("¯\\_(ツ)_/¯", "none"),
    ("你好", "zh"),
    ("好的", "zh"),
    ("我也是", "zh"),
    ("今天天气很好", "zh"),
    ("一切都會好起來的", "zh"),
    ("我很喜欢のび太", "zh"),
    ("Adobe Photoshop Lightroom Classic CCを使う", "ja"),
    ("「Thank you for your help」と言われました", "ja"),
    ("I love ラーメン so much", "en"),
    ("네, iPhone 15 Pro Max로 샀어요", "ko"),
    ("ㅋㅋㅋ", "ko"),
    ("父母님께 孝道하는 것", "ko"),
    ("Bonjour, comment ça va ?", "en"),
    ("Arigatou gozaimasu!", "en"),
    ("Привет, как дела?", "other"),
    ("OK!", "none"),
    ("iPhone 15 Pro", "none"),
    ("12:30 😀 https://example.com/the/a/of", "none"),
]


@pytest.mark.parametrize(("text", "language"), LANGUAGES)
def test_a_language_is_read_by_its_scripts(text: str, language: str) -> None:
    assert read_scripts(text).language == language


@given(st.text(max_size=80))
def test_a_share_is_a_share(text: str) -> None:
    reading = read_scripts(text)
    assert 0 <= reading.share <= 1
    assert (reading.share == 0) == (reading.language == "none")
