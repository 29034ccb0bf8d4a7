"""Personal data are covered, and other numbers are not."""

import pytest

from benchmarks.personal import COUNT, measure
from saiten_server.text.personal import cover_personal

ALL = ("email", "phone", "number", "name")


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("電話は０９０－１２３４－５６７８です", "電話は[phone]です"),
        ("(03)1234-5678か0312345678", "[phone]か[phone]"),
        ("010-1234-5678, 02-123-4567", "[phone], [phone]"),
        ("+82 10-1234-5678", "[phone]"),
        ("ｔａｒｏ＠ｅｘａｍｐｌｅ．ｃｏｍへ", "[email]へ"),
        ("カードは4111 1111 1111 1111です", "カードは[number]です"),
        ("マイナンバーは1234-5678-9018", "マイナンバーは[number]"),
        ("주민번호 900101-1234567", "주민번호 [number]"),
        ("TEL:045-944-8340 / Tel.03（6786）8433", "TEL:[phone] / Tel.[phone]"),
        ("010) 2445-7658, 0507-3319-8001", "[phone], [phone]"),
        ("070 - 9186 - 8206と090・6749・3509", "[phone]と[phone]"),
        ("090の5266の9463か0 9 0 1 2 3 4 5 6 7 8です", "[phone]か[phone]です"),
        ("0081-80-9960-3082, 82-10-3478-2711", "[phone], [phone]"),
        ("カードは5532 - 6865 - 6355 - 1508、期限は12/27", "カードは[number]、期限は12/27"),
        ("4111 1111 1111 1111 12/27", "[number] 12/27"),
        ("번호는 9410.8879.4898.5739예요", "번호는 [number]예요"),
        ("マイナンバーは3285  3505  5241", "マイナンバーは[number]"),
        ("taro (at) example.com と o'brien@example.com", "[email] と [email]"),
        ("info@日本語.jp, kim @ naver.com", "[email], [email]"),
        ("090-1234-5678,080-1234-5678/03-1234-5678、0312345678", "[phone],[phone]/[phone]、[phone]"),
        ("01012345678/01087654321", "[phone]/[phone]"),
        ("090ｰ1234ｰ5678か090⁃1234⁃5678か090一1234一5678", "[phone]か[phone]か[phone]"),
        ("メールは...taro@example.com", "メールは[email]"),
        ("ｔａｒｏ＠ｅｘａｍｐｌｅ。ｃｏｍ、hana﹫example.com。OK", "[email]、[email]。OK"),
        ("〒150-0002 03-1234-5678", "〒150-0002 [phone]"),
        ("〇九〇-一二三四-五六七八、〇三（一二三四）五六七八", "[phone]、[phone]"),
        ("81 90 1234 5678, 82.10.3478.2711, 821034782711", "[phone], [phone], [phone]"),
        ("81 90-1234-5678, 82 10-3478-2711、81 3-1234-5678", "[phone], [phone]、[phone]"),
        ("김민수 씨, 안녕하세요", "[name] 씨, 안녕하세요"),
        ("東京の佐藤花子さんです", "東京の[name]さんです"),
    ],
)
def test_personal_data_are_covered(text, covered):
    assert cover_personal(text, ALL).text == covered


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02 12:30に1,234円",
        "カード番号は4111 1111 1111 1112ではない",  # its check digit does not fit
        "1234-5678-9012",
        "991301-1234567",  # no such month
        "お問い合わせ番号は 2269-1398-0717 です",  # its last digit would fit
        "JAN 4936585240329",  # 13 digits that pass Luhn's check
        "https://example.com/0312345678",
        "ISBN 978-4-10-101001-4",
        "ISBN-10: 0306406152、ISBN：0306406152",
        "巨人 0 0 1 0 0 0 2 0 0 3、阪神 0 1 0 0 0 0 2 0 0 0 3",
        "〒060-0001 123号室",
        "4901234567894",  # a bar code that would be of 1949
        "이용자님, 고객님",
        "〇〇〇〇〇〇〇〇〇〇さん、二〇二六年一一月二九日一〇時",
        "送り状番号 819012345678",
        "0.1234567890",
        "",
    ],
)
def test_other_numbers_stay(text):
    assert cover_personal(text, ALL) == (text, 0)


def test_only_the_kinds_that_are_asked_for():
    assert cover_personal("a@example.com 090-1234-5678", ["phone"]).text == "a@example.com [phone]"


def test_nearly_all_that_is_planted_is_covered_and_little_else():
    planted, covered, false = measure(7)
    assert covered.total() >= 0.99 * planted.total()
    assert false <= 0.005 * COUNT


def test_hostile_texts_take_no_time_that_grows_with_their_square():
    # Each would take minutes where a pattern looked again from every place to the end.
    for text in (
        "0-" * 100_000,
        "1" * 200_000,
        "a." * 100_000 + "@",
        "a@" + "b." * 100_000,
        "1 " * 100_000,
        "a at " * 50_000,
        "0 " * 100_000,
    ):
        assert len(cover_personal(text, ["email", "phone", "number"]).text) <= len(text)
