"""The register of a Japanese clause by its end: です, ます and ください are polite, other predicates plain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.speech import Sign
from app.text.passages import words_of

PUNCTUATION = frozenset({"補助記号", "記号", "空白"})
COMMAS = frozenset("、,")
POLITE_LEMMAS = frozenset({"です", "ます"})
CASUAL = frozenset({"でしょ", "っしょ"})  # Forms of です that are clipped among friends
PREDICATES = frozenset({"動詞", "形容詞", "助動詞"})
FINITE = ("終止形", "命令形", "意志推量形", "連体形", "語幹", "未然形", "連用形-促音便", "連用形-撥音便")
"""Forms that end a sentence, with those that the dictionary gives to dialect (ええやん) and clipped ends (やらな)."""

LINKS = frozenset(
    {"けど", "けれど", "けれども", "けども", "が", "から", "ので", "のに", "し", "んで", "もん", "もの", "って"}
)
"""What may trail after a finite predicate: the predicate before it tells."""

SAID_TO_ONESELF = frozenset({"な", "なあ", "なぁ", "なー", "なぁー"})
STANDS_ALONE = words_of("凄い 嬉しい 楽しい 良い 旨い やばい 可愛い 悲しい 寂しい 辛い 面白い 素敵 最高")
"""Adjectives that make an exclamation on their own."""

ECHO = re.compile(
    r"(?:あ|ああ|へえ|え)?(?:そう(?:な(?:ん|の))?(?:だ|か)?|そっか?|なるほどね?|本当だ?|ほんとだ?|やった)[かな]{0,2}"
)
"""Shows that one listens: そうなんだ within polite speech is no shift."""

DIALECT = re.compile(
    r"(?:[なや]ん|やで|やねん?|やろ|やんか|やんけ|(?<![いの])へん|ひん|(?<![んちに])ねん|だべ|べさ|やけん|[るうくすたいだん]けん"
    r"|けえ|ばい|と[るっ]?と|(?<![めむ])っちゃ|(?<!い)やな|やわ|やけど|しょや|ずら|[るうくすつむぶぐ]さー?)[よねなでわ]?$"
)
"""Ends that the dictionary takes for something else."""

FORMULA = re.compile(
    r"(?:(?:ごめん|御免|おやすみ|お休み|おかえり|お帰り)なさい[ねま]?|(?:どす|[して]おす)[えねなかあ]*)$"
)
"""Polite although the dictionary does not say so: formulas with なさい (a plain order elsewhere), and Kyoto's どす."""


@dataclass(frozen=True, slots=True)
class InflectedWord:
    """A token with the UniDic fields that are used."""

    surface: str
    pos1: str
    pos2: str
    form: str
    lemma: str

    @property
    def is_ending_particle(self) -> bool:
        return self.pos1 == "助詞" and self.pos2 == "終助詞"


def split_clauses(words: Sequence[InflectedWord]) -> list[list[InflectedWord]]:
    """The words between commas, without other marks; at least one clause, which may be empty."""
    clauses: list[list[InflectedWord]] = [[]]
    for word in words:
        if word.surface in COMMAS:
            clauses.append([])
        elif word.pos1 not in PUNCTUATION:
            clauses[-1].append(word)
    return clauses


def read_closed(words: Sequence[InflectedWord], *, instead: bool) -> Sign | None:
    """What a clause before a comma tells on its own: polite wherever it is so by choice (行きますけど、), plain only
    where a particle finishes it (すごいね、それ), because a plain clause goes before a polite end as well.
    `instead` of a last clause that tells nothing, any predicate does."""
    sign = read_end(words, trails_off=True, asks=False)
    if instead or sign is None or sign is Sign.POLITE:
        return sign
    last = words[-1]
    finished = last.is_ending_particle and last.surface[0] in "ねよわぞぜ"
    return sign if sign is Sign.PLAIN and finished else None


def read_end(words: Sequence[InflectedWord], *, trails_off: bool, asks: bool) -> Sign | None:
    """The sign of a clause's last predicate; None for a noun, an interjection or an unfinished clause."""
    if not words:
        return None
    text = "".join(word.surface for word in words)
    if FORMULA.search(text):
        return Sign.POLITE
    place = step_over_particles(words)
    tail = [word.surface for word in words[place + 1 :]]
    sign = read_core(words, place, tail, trails_off=trails_off, asks=asks)
    if sign is None:
        return Sign.PLAIN if len(text) > 2 and DIALECT.search(text) else None
    if sign is Sign.PLAIN and (is_exclamation(words, text) or tail[-2:] == ["の", "で"] or tail[-1:] == ["ので"]):
        return Sign.WEAKLY_PLAIN
    return sign


def step_over_particles(words: Sequence[InflectedWord]) -> int:
    """The place of the last word that is neither an ending particle nor a link after a predicate; -1 if none is."""
    place = len(words) - 1
    while place >= 0 and is_passed_over(words, place):
        place -= 1
    return place


def is_passed_over(words: Sequence[InflectedWord], place: int) -> bool:
    """Whether the word only follows what tells: ね, の, けど, and ので and のに, which the tagger takes apart."""
    word = words[place]
    if word.is_ending_particle or word.pos2 == "準体助詞":
        return True
    if place == 0:
        return False
    if word.surface in {"で", "に"} and words[place - 1].pos2 == "準体助詞":
        return True
    return word.surface in LINKS and word.pos2 != "格助詞"


def read_core(
    words: Sequence[InflectedWord], place: int, tail: Sequence[str], *, trails_off: bool, asks: bool
) -> Sign | None:
    """The sign of the word at `place` with the particles `tail` after it."""
    if place < 0:
        return Sign.WEAKLY_PLAIN if set(tail) & {"よ", "ね", "よね"} else None
    core = words[place]
    if core.surface in {"て", "で", "ば"} and core.pos2 == "接続助詞":
        return read_linked(words, place, tail, trails_off=trails_off, asks=asks)
    if core.surface == "に" and place and words[place - 1].lemma == "様":
        return Sign.POLITE if is_polite(words, place - 2) else None  # 治りますように
    if is_polite(words, place):
        return Sign.WEAKLY_POLITE if core.form.startswith(("仮定形", "連用形")) else Sign.POLITE
    if core.pos1 in PREDICATES or core.pos2 == "形容詞的":
        return read_plain(words, place, tail, asks=asks)
    return None if trails_off and list(tail) == ["か"] else read_noun(words, place, tail, asks=asks)


def is_polite(words: Sequence[InflectedWord], place: int) -> bool:
    """Whether the auxiliaries that end at `place` hold です or ます, or the word is ください."""
    if place < 0:
        return False
    core = words[place]
    if core.lemma == "下さる" and core.form.startswith("命令形"):
        return True
    if core.surface in CASUAL:
        return False
    while place >= 0 and words[place].pos1 == "助動詞":
        if words[place].lemma in POLITE_LEMMAS:
            return True
        place -= 1
    return False


def read_linked(
    words: Sequence[InflectedWord], place: int, tail: Sequence[str], *, trails_off: bool, asks: bool
) -> Sign | None:
    """A clause that ends on て or ば: a casual request or proposal, or one that is left open and tells little."""
    if is_polite(words, place - 1):
        return Sign.WEAKLY_POLITE
    if tail and tail[-1][0] in "ねよさ":
        return Sign.PLAIN
    if words[place].surface == "ば":
        return Sign.WEAKLY_PLAIN
    return None if trails_off or asks else Sign.WEAKLY_PLAIN


def read_plain(words: Sequence[InflectedWord], place: int, tail: Sequence[str], *, asks: bool) -> Sign | None:
    """A predicate without politeness: plain where it is finite or a particle follows."""
    core = words[place]
    if core.surface in CASUAL:
        return Sign.WEAKLY_PLAIN
    if core.surface == "な" and not tail and place and words[place - 1].pos1 == "形状詞":
        return None  # あの有名な… goes on to a noun
    if core.form.startswith(FINITE) or tail:
        return Sign.PLAIN
    if core.form.startswith("仮定形"):
        return Sign.PLAIN if asks or core.surface.endswith("ゃ") else Sign.WEAKLY_PLAIN
    return None


def read_noun(words: Sequence[InflectedWord], place: int, tail: Sequence[str], *, asks: bool) -> Sign | None:
    """Anything but a predicate: plain with an ending particle (雨か, 秘密よ), with かも, or where it conjectures."""
    core = words[place]
    if core.pos2 == "助動詞語幹" or (core.surface == "ちょうだい" and place):
        return Sign.PLAIN
    if core.surface == "も" and place and words[place - 1].surface == "か":
        return Sign.PLAIN
    if set(tail) - {"の", "ん", "って", "が", "から", "し", "で", "に"}:
        return Sign.PLAIN if core.pos1 != "助詞" else Sign.WEAKLY_PLAIN
    return Sign.WEAKLY_PLAIN if asks and core.pos1 == "形状詞" else None


def is_exclamation(words: Sequence[InflectedWord], text: str) -> bool:
    """Whether a plain clause is said to oneself: すごい, よかった, いいなあ, そうなんだ."""
    if ECHO.fullmatch(text) or text.endswith(("かな", "かなあ", "かなぁ", "かしら", "っけ")):
        return True
    inflected = words[:-1] if words[-1].surface in SAID_TO_ONESELF else words
    return len(inflected) <= 2 and words[0].lemma in STANDS_ALONE and not inflected[-1].is_ending_particle
