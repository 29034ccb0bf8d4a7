"""Covers personal data in texts before they are stored: addresses, telephone and identity numbers by pattern and
checksum, names by the dictionary.

A pattern finds nearly all addresses and numbers that are written as such. What is spelled out (ゼロキュウ), or split
over turns, stays. Of names the dictionary knows a part, and of Korean ones only those with a title are seen: `name`
makes texts safer, and not anonymous.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator
from datetime import date
from functools import cache
from typing import Literal, NamedTuple

from saiten_server.text.japanese import JapaneseTagger

PersonalKind = Literal["email", "phone", "number", "name"]

COVERS: dict[PersonalKind, str] = {kind: f"[{kind}]" for kind in ("email", "phone", "number", "name")}
"""What stands in the place of each kind."""

# Full-width forms, the many dashes, dots and blanks become ASCII one for one, so that places stay.
NARROW = {0x3000: " ", 0xFE6B: "@"} | {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
SEPARATORS = (
    dict.fromkeys(map(ord, "‐‑‒–—―⁃−－ーｰ─━➖㇐一ㅡ﹘﹣"), "-")
    | dict.fromkeys(map(ord, "·・･‧∙•"), ".")
    | dict.fromkeys(map(ord, "〜∼"), "~")
    | dict.fromkeys(map(ord, "\t\xa0\xad\u2002\u2003\u2009\u200b\u200c\u200d\u202f\u2060\ufeff"), " ")
)

KANJI_DIGITS = dict(zip(map(ord, "〇零一二三四五六七八九"), "00123456789", strict=True))
KANJI_NUMBER = re.compile("(?=[〇零]*[一二三四五六七八九])[〇零一二三四五六七八九]{2,}")
"""Digits in a row, not all of them the circles that stand for a word: 〇九〇, and not 〇〇さん."""

HOST_CHARACTERS = "A-Za-z0-9ぁ-ヿ一-鿿가-힣"
HOST = rf"(?:[{HOST_CHARACTERS}](?:[{HOST_CHARACTERS}-]{{0,61}}[{HOST_CHARACTERS}])?\.){{1,8}}[A-Za-z]{{2,24}}"
AT = r"(?: ?@ ?| ?[(\[]at[)\]] ?)"
EMAIL = re.compile(
    rf"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-][A-Za-z0-9._%+'-]{{0,63}}{AT}{HOST}(?![A-Za-z0-9])", re.ASCII
)
WIDE_DOT = re.compile("(?<=[０-９Ａ-Ｚａ-ｚ])[。｡](?=[０-９Ａ-Ｚａ-ｚ])")
"""What the dot's key writes between full-width letters."""

GAP = r"[-.\ _/~()]{1,4}"
SPOKEN = r"[-.\ _/~()の、,]{1,4}"
PHONES = re.compile(
    rf"""(?<!\d) (?<!\d[-.:]) (?:(?<!\d[,/]) | (?<=[-.\ )]\d{{4}}[,/]) | (?<=\b0\d{{9}}[,/]) | (?<=\b0\d{{10}}[,/]))
      (?<![A-Za-z]/) (?<!〒) (?<!〒\ ) (?:
      \+\d{{1,3}}(?:{GAP})? \d{{1,4}} (?:(?:{GAP})?\d{{2,4}}){{2,3}}
    | (?:00[12]?|010)(?:{GAP})?8[12](?:{GAP})?(?:0{GAP})?\d{{1,3}}(?:(?:{GAP})?\d{{3,4}}){{2}}
    | 8[12]([-.\ ])\d{{1,3}}\1\d{{3,4}}\1\d{{4}}
    | 8[12]\ \d{{1,3}}-\d{{3,4}}-\d{{4}}
    | 8(?:1[789]|21)0\d{{8}}
    | \(?0\d{{1,4}}{GAP}\d{{1,4}}{GAP}\d{{3,4}}
    | 0(?:[5789]0|1[016789]){SPOKEN}\d{{3,4}}{SPOKEN}\d{{4}}
    | 0[5789]0{GAP}\d{{8}}
    | 0[5789]0\d{{4}}{GAP}\d{{4}}
    | 01[016789]{GAP}\d{{7,8}}
    | 01[016789]\d{{3,4}}{GAP}\d{{4}}
    | 0\ (?:[5789]\ 0\ \d|1\ 0\ [2-9])(?:\ \d){{7}}
    | 050\d{{9}}
    | 0\d{{9,10}}
    | 02\d{{7,8}}
    ) (?!\d) (?!-\d)""",
    re.VERBOSE,
)
INTERNATIONAL = re.compile(r"\+|00|8[12][-. ]|8(?:1[789]|21)0\d{8}|010[^\d]?8[12]\D")
BOOK = re.compile(r"IS[BS]N(?:-1[03])?[ :.]{0,3}\Z")
"""What stands before the number of a book."""

BEFORE, AFTER = r"(?<!\d)(?<!\d[-.])", r"(?!\d)(?!-\d)"
PART = r"[-. ]{1,3}"
CARD = re.compile(
    rf"{BEFORE}(?:\d{{14,19}}|\d{{4}}(?:{PART}\d{{4}}){{3}}|\d{{4}}{PART}\d{{6}}{PART}\d{{4,5}}|\d(?: \d){{13,18}})"
    rf"{AFTER}"
)
PARCEL = re.compile(
    r"(?:伝票|追跡|合わ?せ|注文|送り状|予約|荷物|송장|주문|예약|접수) ?(?:番号|번호|no\.?)\D{0,6}\Z", re.IGNORECASE
)
"""What stands before a number of 12 digits that is no person's, though a check digit fits."""

MY_NUMBER = re.compile(rf"{BEFORE}(\d{{4}})[-. ]{{0,3}}(\d{{4}})[-. ]{{0,3}}(\d{{4}})(?![-. ]{{0,3}}\d)")
RESIDENT = re.compile(rf"{BEFORE}(\d{{6}})([-. ]{{1,3}})?(\d{{7}}){AFTER}")
ISSUERS = re.compile(
    r"3(?:0[0-5]|[689])\d*|3[47]\d{13}|(?:4|5[1-5]|2[2-7]|35|9[45])(?:\d{14}|\d{15})(?:\d{3})?|6(?:011|4[4-9]|5|2|0)\d*"
)
"""How the numbers begin that card networks issue, with their lengths; 94 and 95 are Korea's own."""

KOREAN_NAME = re.compile(
    r"(?<![가-힣])(?:남궁|황보|제갈|선우|[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구나민진지엄채원천방공현함변염여추도소석선설마길연위표명기반왕금옥육인맹제모탁국어은편용])"
    r"[가-힣]{2}(?= ?(?:씨|님|군|양)(?![가-힣]{2}))"
)
NOT_NAMES = frozenset(  # which begin like a surname
    [
        "이용자",
        "신청자",
        "구매자",
        "이용객",
        "주문자",
        "방문자",
        "임직원",
        "담당자",
        "안내원",
        "기사님",
        "여러분",
        "주인공",
        "이사장",
        "지점장",
        "소비자",
        "선생님",
        "기술자",
        "전문가",
        "주치의",
        "조교수",
        "부원장",
        "원장님",
        "한의사",
        "변호사",
        "성직자",
        "신부님",
        "연구원",
        "유권자",
        "도우미",
        "장애인",
        "구독자",
        "고객분",
    ]
)


class Covered(NamedTuple):
    """A text without personal data, and how many places were covered."""

    text: str
    places: int


def cover_personal(text: str, kinds: Collection[str]) -> Covered:
    """The text with what the kinds name covered by `[email]`, `[phone]`, `[number]` and `[name]`. Thread-safe. Takes
    some microseconds a character with `name`, and a tenth of one without."""
    count = 0
    for kind, find in FINDERS.items():
        if kind not in kinds:
            continue
        pieces, end = [], 0
        for start, stop in find(text):
            if start < end:
                continue
            pieces += [text[end:start], COVERS[kind]]
            end, count = stop, count + 1
        text = "".join([*pieces, text[end:]])
    return Covered(text, count)


def hide_personal(text: str, kinds: Collection[str]) -> str:
    """The same text alone."""
    return cover_personal(text, kinds).text if kinds else text


def narrow_forms(text: str) -> str:
    """The text with ASCII in place of full-width forms, kanji digits, dashes, dots and blanks, of the same length."""
    return KANJI_NUMBER.sub(lambda found: found[0].translate(KANJI_DIGITS), text).translate(NARROW | SEPARATORS)


def find_emails(text: str) -> Iterator[tuple[int, int]]:
    """The places of e-mail addresses."""
    plain = WIDE_DOT.sub(".", text).translate(NARROW)
    if "@" in plain or "at" in plain:
        for found in EMAIL.finditer(plain):
            yield found.span()


def find_phones(text: str) -> Iterator[tuple[int, int]]:
    """The places of telephone numbers of Japan and Korea, and of others with a country code."""
    plain = narrow_forms(text)
    for found in PHONES.finditer(plain):
        digits = re.sub(r"\D", "", found[0])
        before = plain[max(0, found.start() - 16) : found.start()]
        is_other = BOOK.search(before) or (len(digits) == 12 == len(found[0]) and PARCEL.search(before))
        if not is_other and is_phone(digits, international=INTERNATIONAL.match(found[0]) is not None):
            yield found.span()


def is_phone(digits: str, *, international: bool) -> bool:
    """Whether so many digits make a telephone number: 9 only in Seoul, 12 only with 050x, 10 and 11 else."""
    if international:
        return 9 <= len(digits.lstrip("0")) <= 15
    return len(digits) in {10, 11} or (len(digits), digits[:2]) == (9, "02") or (len(digits), digits[:3]) == (12, "050")


def find_numbers(text: str) -> Iterator[tuple[int, int]]:
    """The places of cards, My Numbers and 주민등록번호, in order."""
    plain = narrow_forms(text)
    found = [one.span() for one in RESIDENT.finditer(plain) if is_resident(one[1] + one[3], written=bool(one[2]))]
    found += [one.span() for one in CARD.finditer(plain) if is_card(re.sub(r"\D", "", one[0]))]
    found += [
        one.span()
        for one in MY_NUMBER.finditer(plain)
        if is_my_number("".join(one.groups())) and not PARCEL.search(plain[max(0, one.start() - 16) : one.start()])
    ]
    yield from sorted(found, key=lambda span: (span[0], -span[1]))


def is_card(digits: str) -> bool:
    """Whether a card network issues such numbers, and the check digit fits (Luhn, ISO/IEC 7812)."""
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return ISSUERS.fullmatch(digits) is not None and sum(one - 9 * (one > 9) for one in doubled) % 10 == 0


def is_my_number(digits: str) -> bool:
    """Whether the check digit of a My Number fits (総務省令第85号, 2014)."""
    weights = [6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]
    rest = sum(int(digit) * weight for digit, weight in zip(digits[:11], weights, strict=True)) % 11
    return int(digits[11]) == (0 if rest <= 1 else 11 - rest)


def is_resident(digits: str, *, written: bool) -> bool:
    """Whether it is a 주민등록번호: a date of birth and a digit for century and sex. Since October 2020 they have no
    check digit, so that one `written` in two parts needs none. Undivided, a bar code of Japan or Korea is none."""
    if not written and digits.startswith(("45", "49", "880")) and is_bar_code(digits):
        return False
    centuries = {"9": 18, "0": 18, "1": 19, "2": 19, "5": 19, "6": 19, "3": 20, "4": 20, "7": 20, "8": 20}
    try:
        date(centuries[digits[6]] * 100 + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))
    except ValueError:
        return False
    weights = [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]
    total = sum(int(digit) * weight for digit, weight in zip(digits[:12], weights, strict=True))
    return written or int(digits[12]) == (11 - total % 11) % 10


def is_bar_code(digits: str) -> bool:
    """Whether the check digit of 13 is that of an article (GTIN-13)."""
    return sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10 == 0


TAGGING = threading.Lock()


@cache
def name_tagger() -> JapaneseTagger:
    """The tagger that all texts share; to be used under `TAGGING`."""
    return JapaneseTagger()


def find_names(text: str) -> Iterator[tuple[int, int]]:
    """The places of names of persons: those that the dictionary has for Japanese, and Korean ones before a title."""
    for found in KOREAN_NAME.finditer(text):
        if found[0] not in NOT_NAMES:
            yield found.span()
    if not re.search(r"[぀-ヿ一-鿿]", text):
        return
    with TAGGING:
        tokens = name_tagger().split(text)
    end, start = 0, -1
    for token in tokens:
        place = text.find(token.surface, end)
        if place < 0:
            continue
        is_name = (token.pos1, token.pos2, token.pos3) == ("名詞", "固有名詞", "人名")
        if start >= 0 and not (is_name and place == end):
            yield start, end
            start = -1
        if is_name and start < 0:
            start = place
        end = place + len(token.surface)
    if start >= 0:
        yield start, end


FINDERS: dict[PersonalKind, Callable[[str], Iterator[tuple[int, int]]]] = {
    "email": find_emails,
    "number": find_numbers,
    "phone": find_phones,
    "name": lambda text: iter(sorted(find_names(text))),
}
"""How each kind is found, in this order: an identity number is not to be taken for one of a telephone."""
