"""Which texts count as Korean."""

import unicodedata

import pytest

from saiten.core.plain_text import is_korean


@pytest.mark.parametrize(
    ("texts", "korean"),
    [
        (["오늘 날씨가 좋네요.", "네, 정말 좋아요!"], True),
        (["오늘 AI 회의", "네"], True),
        ([unicodedata.normalize("NFD", "오늘 날씨가 좋네요.")], True),
        (["ㅋㅋㅋㅋ ㅎㅎ"], True),
        (["韓国語で「안녕」は「こんにちは」です。"], False),
        (["123 !?", ""], False),
        ([], False),
        (["가a"], False),
        (["가" * 500_000], True),
        (["a" * 200_000, "가" * 300_000], False),
    ],
)
def test_hangul_must_make_up_most_letters(texts: list[str], korean: bool) -> None:
    assert is_korean(texts) is korean
