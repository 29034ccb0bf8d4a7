"""Pairs of utterances that are as long, and as unlike in length, as those of dialogues are."""

from __future__ import annotations

import random
from collections.abc import Callable

Pair = tuple[str, str]

OPENINGS = ["そうですか、", "ええ、", "なるほど。", "うーん、", "いいですね！", ""]
MIDDLES = [
    "昨日の夕方から雨が続いていて",
    "駅前にできた店のカレーが思ったより辛くて",
    "弟が犬を飼いたいと言いだして",
    "来週の旅行の準備がまだ何もできていなくて",
    "このごろ朝早く目が覚めるので",
]
THINGS = [
    "猫", "弟の手紙", "朝ごはん", "雨の日", "図書館", "新しい靴", "夏祭り", "焼き魚", "隣の犬", "古い写真", "山登り",
    "庭の花", "終電", "眼鏡", "日曜の市場", "海辺の町", "紅茶", "祖母の話", "自転車", "月",
]  # fmt: skip
ANSWERS = [
    "が好きです。",
    "のことですか？",
    "を忘れていました。",
    "は久しぶりですね。",
    "ならあります。",
    "も気になります。",
]
ENDINGS = [
    "困っています。",
    "少し迷っているんです。",
    "楽しみにしています。",
    "どう思いますか？",
    "散歩に行ってきました。",
]
CHARACTERS = sorted(set("".join([*OPENINGS, *MIDDLES, *THINGS, *ANSWERS, *ENDINGS])))

VOCABULARY = """
I you we they he she it my your our the a this that some no not so and but because when if then with without
for from about after before again always never maybe really quite am is are was were have had do did will
would can could should think know want need like love hate see hear feel go come take bring make find lose buy
sell read write cook eat drink sleep walk run swim drive wait stay leave call ask tell talk listen remember
forget try help morning evening night week month year weekend summer winter weather rain snow wind train
station bus car bike road house kitchen garden window door table chair book letter photo film song game team
school teacher student friend brother sister mother father grandmother neighbour dog cat bird fish soup bread
rice coffee tea dinner breakfast market shop doctor hospital holiday ticket museum library beach mountain
river city village office meeting project good bad new old young small large cold warm happy sad tired hungry
busy late early quiet loud funny strange easy difficult cheap expensive beautiful wonderful terrible
interesting unfortunately yesterday tomorrow somewhere everything nothing together probably Christopher
Katherine Marrakesh Reykjavik Wolfgang zucchini saxophone
"""
MARKS = [".", ".", ".", "?", "!", ", I suppose.", ", isn't it?", "..."]


def write_japanese(choose: random.Random) -> str:
    """Two thirds short answers, the rest one to six clauses: 5 to about 150 characters, as in talk."""
    if choose.random() < 2 / 3:
        return choose.choice(OPENINGS) + choose.choice(THINGS) + choose.choice(ANSWERS)
    clauses = (choose.choice(MIDDLES) for _ in range(choose.randint(1, 6)))
    return choose.choice(OPENINGS) + "、".join(clauses) + "、" + choose.choice(ENDINGS)


def write_english(choose: random.Random) -> str:
    """Two thirds of one to ten words, the rest of eight to sixty, in sentences."""
    count = choose.randint(1, 10) if choose.random() < 2 / 3 else choose.randint(8, 60)
    words = choose.choices(VOCABULARY.split(), k=count)
    for end in range(min(8, count) - 1, count, 9):
        words[end] += choose.choice(MARKS)
    return " ".join(words)


WRITERS: dict[str, Callable[[random.Random], str]] = {"ja": write_japanese, "en": write_english}


def write_pairs(language: str, count: int, *, candidates: int = 1, seed: int = 0) -> list[Pair]:
    """`count` pairs, a context with so many `candidates` in a row."""
    choose, write = random.Random(seed), WRITERS[language]
    pairs: list[Pair] = []
    while len(pairs) < count:
        context = write(choose)
        pairs += [(context, write(choose)) for _ in range(candidates)]
    return pairs[:count]
