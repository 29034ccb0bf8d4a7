"""How much personal data is covered of what is planted, and how much else is.

    python -m benchmarks.personal

Plants 2,000 addresses and numbers in turns of chat, in the ways in which people write them, and counts those of which
anything is left. Then covers 2,000 turns with numbers that are no personal data. Prints the table of docs/monitors.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from saiten_server.text.personal import PersonalKind, cover_personal

COUNT = 2000
KINDS: tuple[PersonalKind, ...] = ("email", "phone", "number")
FRAMES = (
    "連絡先は{}です。よろしくお願いします。",
    "{}までご連絡ください",
    "えっと、{} なんですけど、登録できますか？",
    "（{}）に変更したいです",
    "제 연락처는 {}입니다.",
    "{}로 연락 주세요",
    "번호: {}, 확인 부탁드려요!",
    "{}",
)
BENIGN = (
    "2026年{month}月{day}日の{hour}時{minute}分に予約しました",
    "{year}-{month:02}-{day:02} {hour:02}:{minute:02}에 시작해요",
    "料金は{price:,}円、税込で{more:,}円です",
    "가격은 {price:,}원이고 배송비는 3,000원이에요",
    "バージョン{month}.{day}.{minute}を入れました。IPは192.168.{month}.{day}です",
    "注文番号はA{price}-{more}です",
    "상품 코드는 KR{price}X{more}입니다",
    "郵便番号は{a:03}-{b:04}、{month}丁目{day}-{minute}です",
    "円周率は3.14159265358979、だいたい{month}.{more}です",
    "第{month}話から第{day}話まで、{minute}分ずつ見た",
    "ISBN 978-4-{a:03}-{b:04}0-{month}はありますか",
    "気温は{day}度、湿度は{minute}%、気圧は10{day:02}hPaです",
    "{year}/{month}/{day}〜{year}/{month}/{minute}の{price}件",
    "口座に{price}000円、{more}ポイントがあります",
    "@taro_{a} さんの投稿、いいね{price}件",
    "점수는 {a}-{day}, {b}-{minute}로 이겼어요",
)


def luhn(digits: str) -> str:
    """The digits with their check digit."""
    total = sum(
        (2 * int(one) // 10 + 2 * int(one) % 10) if place % 2 == 0 else int(one)
        for place, one in enumerate(digits[::-1])
    )
    return digits + str(-total % 10)


def digits_of(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def make_email(random: Random) -> str:
    user = random.choice(["taro.tanaka", "minsu_kim", "h-sato+shop", f"user{random.randrange(9999)}", "a.b.c"])
    host = random.choice(
        ["example.com", "mail.example.co.jp", "example.co.kr", "docomo.example.ne.jp", "x-y.example.org"]
    )
    address = f"{user}@{host}"
    return (
        address.translate({code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)})
        if random.random() < 0.1
        else address
    )


def make_phone(random: Random) -> str:
    mark = random.choice(["-", "-", "", " ", ".", "－", "ー", "‐"])
    four, last = digits_of(random, 4), digits_of(random, 4)
    parts = random.choice(
        [
            [random.choice(["090", "080", "070", "050"]), four, last],
            ["03", four, last],
            [random.choice(["045", "052", "011"]), digits_of(random, 3), last],
            ["0466", digits_of(random, 2), last],
            ["010", four, last],
            ["02", digits_of(random, 3), last],
            ["031", digits_of(random, 3), last],
            ["011", digits_of(random, 3), last],
            [random.choice(["+81 90", "+82 10", "+81-3"]), four, last],
        ]
    )
    written = mark.join(parts)
    if parts[0].startswith("03") and len(parts[0]) == 2 and random.random() < 0.3:
        written = f"({parts[0]}){parts[1]}-{parts[2]}"
    return written.translate({48 + one: 0xFF10 + one for one in range(10)}) if random.random() < 0.15 else written


def make_card(random: Random) -> str:
    issuer, size = random.choice(
        [("4", 16), ("51", 16), ("55", 16), ("2221", 16), ("3528", 16), ("37", 15), ("36", 14), ("6011", 16)]
    )
    number = luhn(issuer + digits_of(random, size - 1 - len(issuer)))
    mark = random.choice(["", " ", "-"])
    return mark.join([number[:4], number[4:8], number[8:12], number[12:]]) if size == 16 else number


def make_my_number(random: Random) -> str:
    number = digits_of(random, 11)
    rest = sum(int(one) * weight for one, weight in zip(number, [6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2], strict=True)) % 11
    number += str(0 if rest <= 1 else 11 - rest)
    return random.choice(["", "-", " "]).join([number[:4], number[4:8], number[8:]])


def make_resident(random: Random) -> str:
    number = (
        f"{random.randrange(50, 100):02}{random.randrange(1, 13):02}{random.randrange(1, 29):02}{random.choice('1256')}"
    )
    number += digits_of(random, 5)
    total = sum(int(one) * weight for one, weight in zip(number, [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5], strict=True))
    number += str((11 - total % 11) % 10)
    return number[:6] + random.choice(["-", "-", ""]) + number[6:]


MAKERS: dict[str, Callable[[Random], str]] = {
    "e-mail": make_email,
    "telephone": make_phone,
    "card": make_card,
    "My Number": make_my_number,
    "주민등록번호": make_resident,
}


def plant(random: Random) -> Iterator[tuple[str, str, str]]:
    """What is planted, its kind, and the turn around it."""
    for number in range(COUNT):
        kind = [*MAKERS][number % len(MAKERS)]
        planted = MAKERS[kind](random)
        yield planted, kind, random.choice(FRAMES).format(planted)


def is_covered(planted: str, text: str) -> bool:
    """Whether no more than three characters in a row are left of it."""
    text = re.sub(r"\[(email|phone|number)\]", "", text)
    return not any(planted[start : start + 4] in text for start in range(len(planted) - 3))


def write_benign(random: Random) -> str:
    return random.choice(BENIGN).format(
        year=random.randrange(1990, 2027),
        month=random.randrange(1, 13),
        day=random.randrange(1, 29),
        hour=random.randrange(24),
        minute=random.randrange(60),
        price=random.randrange(100, 999_999),
        more=random.randrange(100, 999_999),
        a=random.randrange(1000),
        b=random.randrange(10_000),
    )


def measure(seed: int) -> tuple[Counter[str], Counter[str], int]:
    """By kind what was planted and what of it was covered, and how many of the other turns were changed."""
    random, planted, covered = Random(seed), Counter[str](), Counter[str]()
    for what, kind, text in plant(random):
        planted[kind] += 1
        covered[kind] += is_covered(what, cover_personal(text, KINDS).text)
    return planted, covered, sum(cover_personal(write_benign(random), KINDS).places > 0 for _ in range(COUNT))


def main() -> None:
    """Prints the table."""
    planted, covered, false = measure(1)
    print("| kind | planted | covered | recall |\n|---|---|---|---|")
    for kind, count in planted.items():
        print(f"| {kind} | {count} | {covered[kind]} | {covered[kind] / count:.3f} |")
    print(f"| all | {planted.total()} | {covered.total()} | {covered.total() / planted.total():.3f} |")
    print(f"\nOf {COUNT} turns with other numbers {false} were changed ({100 * false / COUNT:.2f}%).")


if __name__ == "__main__":
    main()
