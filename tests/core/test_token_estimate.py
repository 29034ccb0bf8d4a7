"""Token estimates against counts of o200k_base, which were taken once and are written down here."""

import sys

import pytest

from saiten_server.core.token_estimate import WEIGHTS, CharacterWeights, bound_tokens, estimate_tokens

COUNTED = [
    (
        52,
        "おはようございます。昨日はよく眠れましたか？駅前に新しい喫茶店ができたので、週末に一緒に行きませんか。コーヒーがとてもおいしいそうです。",
    ),
    (
        46,
        "東京都の人口は増加を続けているが、高齢化と住宅価格の高騰が課題である。専門家は、政策の見直しが必要だと指摘している。",
    ),
    (31, "テレビでサッカーのワールドカップを見ながら、ポテトチップスとアイスクリームを食べました。"),
    (34, "안녕하세요, 오늘 날씨가 참 좋네요. 점심에는 친구와 함께 회사 근처 식당에서 김치찌개를 먹을 생각이에요."),
    (32, "요즘 일이 너무 많아서 잠을 제대로 못 잤어요. 그래도 주말에는 가족들과 바다를 보러 가기로 했답니다."),
    (
        29,
        "Good morning! Did you sleep well? A new café has opened in front of the station, so shall we go there together at the weekend?",
    ),
    (
        23,
        "The model answers in one short sentence and keeps to the point, which most readers of a technical forum would expect.",
    ),
    (
        78,
        '{\n "context": [\n  {\n   "speaker": "A",\n   "text": "雨がやみましたね。"\n  },\n  {\n   "speaker": "B",\n   "text": "では、駅まで歩きましょうか。"\n  }\n ],\n "response": "いいですね。駅前の店に寄ってもいいですか。"\n}',
    ),
    (28, "===== 評価データここから 9f86d081884c7d659a2feaa0c55ad015 ====="),
    (18, "やったー！！！😀😀 めっちゃ嬉しい〜🎉 ありがとう💕"),
    (29, "2026年11月21日（土）の14:30に、電話番号03-1234-5678までご連絡ください。"),
]


@pytest.mark.parametrize(("tokens", "text"), COUNTED)
def test_an_estimate_leans_up_but_not_far(tokens, text):
    assert tokens <= estimate_tokens(text) <= 1.6 * tokens


def test_all_of_it_together_is_a_fifth_above_the_count():
    counted = sum(tokens for tokens, _ in COUNTED)
    assert 1.05 * counted < estimate_tokens("".join(text for _, text in COUNTED)) < 1.25 * counted


def test_nothing_has_no_tokens_and_anything_has_at_least_one():
    assert estimate_tokens("") == 0
    assert all(estimate_tokens(chr(code)) >= 1 for code in range(0, sys.maxunicode, 97))


@pytest.mark.parametrize(
    ("dearer", "cheaper"),
    [
        ("漢", "か"),
        ("カ", "か"),
        ("한", "h"),
        ("7", "h"),
        ("𠮷", "漢"),
        ("\u200b", "\u3000"),
        ("<", "("),
        ("ｶ", "カ"),
        ("é", "e"),
    ],
)
def test_kinds_of_characters_differ(dearer, cheaper):
    assert estimate_tokens(dearer * 100) > estimate_tokens(cheaper * 100)


def test_the_order_of_the_characters_does_not_matter():
    text = "".join(text for _, text in COUNTED)
    assert estimate_tokens(text[::-1]) == estimate_tokens(text)


def test_what_is_kept_is_bounded_whatever_comes():
    weights = CharacterWeights()
    total = sum(weights[chr(code)] for code in (*range(0x2F00, 0x3100), *range(0x1F000, 0x20000)))
    assert total > 0
    assert len(weights) == 0x200
    assert WEIGHTS["漢"] == weights["漢"]


def test_no_text_has_more_tokens_than_the_bound_of_its_length():
    some = [*map(chr, range(0x500)), *map(chr, range(0x500, sys.maxunicode, 1999))]
    assert max(estimate_tokens(character * 100) for character in some) == bound_tokens("<" * 100)
