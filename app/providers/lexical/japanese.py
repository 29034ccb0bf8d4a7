"""Reads Japanese: words, parts of speech and conjugation from fugashi with unidic-lite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise

from saiten_server.providers.lexical.features import Profile, kinds_in, letters_of, make_profile, normalise
from saiten_server.text.japanese import PUNCTUATION, JapaneseTagger, JapaneseToken
from saiten_server.text.passages import words_of

CONTENT = frozenset({"名詞", "動詞", "形容詞", "形状詞", "副詞"})
PREDICATES = frozenset({"動詞", "形容詞", "形状詞"})
POLITE = frozenset({"です", "ます", "御座る"})
DEPENDENT = frozenset({"数詞", "非自立可能", "助動詞語幹"})
# Lemmas (UniDic) that say nothing of the topic
EMPTY_WORDS = words_of(
    "為る 居る 有る 成る 無い 良い 言う 思う 遣る 因る 御座る 下さる 貰う 呉れる 有り難う そう 然う 事 物 所 "
    "方 時 様 訳 為 筈 こと もの とき よう そう どう 何 何方 何処 何時 何故 誰 如何 とても 又 もう まだ 一寸 "
    "さん 君 氏 中 今"
)
QUESTION_WORDS = {
    "何処": "place", "何時": "time", "誰": "person", "何故": "reason", "幾つ": "number", "幾ら": "number",
    "何": "thing", "どんな": "thing", "何方": "choice", "何れ": "choice", "どう": "manner", "如何": "manner",
}  # fmt: skip
PLACE_WORDS = words_of("家 店 駅 国 町 街 市 県 海 山 公園 学校 会社 近く 所 外国 海外 実家")
TIME_WORDS = words_of(
    "今 今日 明日 昨日 今朝 今夜 朝 昼 夜 夕方 春 夏 秋 冬 毎日 先週 来週 今週 去年 来年 週末 休日 前 後 昔"
)
PERSON_WORDS = words_of("さん 人 私 僕 俺 友達 友人 家族 母 父 先生 彼 彼女 皆")
REASON_WORDS = frozenset({"から", "ので", "ため", "為", "故"})
QUESTION_ENDINGS = ("か", "かな", "かね", "かしら", "っけ", "の?", "でしょうか")

AFFIRMING = re.compile(r"(はい|うん|ええ|いいえ|いえ|いや|ううん|そうです|もちろん|勿論)")
GREETING = re.compile(
    r"(おはよう|こんにち[はわ]|こんばん[はわ]|おやすみ|はじめまして|よろしく|お疲れ|またね|さようなら)"
)
# え, い and ー can belong to a word or trail it. Each goes to one of the two, or the ways to share out n of them, and
# with them the time to find that none matches, would double with every other one.
GENERIC = re.compile(
    r"((そう|なるほど|本当|ほんとう?|すご[いー]++|(それは)?([いよ]い|良い|楽しい|面白い|おもしろい)|はい|うん|わあ?|ありがとう"
    r"|^ええ|(ええ|へえ)(?=なん|です|だ|ございます|よ|か)|へ|(わか|分か)りました)"
    r"(なん)?(です|だ|ございます)?(よ|か)?[ねえぇーな]*)+"
)
FEELINGS = {
    "sad": re.compile(
        r"(悲し|辛[いくか]|つら[いくか]|寂し|さみし|疲れ|心配|不安|怖|苦し|落ち込|残念|ショック|大変|泣|痛|困)"
    ),
    "glad": re.compile(
        r"(嬉し|うれし|楽し|たのし|幸せ|最高|面白|よかった|良かった|合格|おめでと|わくわく|大好き|ありがと)"
    ),
}
CONSOLING = re.compile(r"(頑張って|がんばって|元気出して|大丈夫だよ|大丈夫です|きっと.{0,6}(なる|なります))")
ITSELF = re.compile(r"(この|本|私の)(回答|返答|応答|返事|文章)は")
NATIVE = re.compile(r"[\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")


class JapaneseReader:
    """Builds the tagger on the first text (some 10 ms); one thread at a time may read."""

    @cached_property
    def dictionary(self) -> str:
        return f"unidic-lite {version('unidic-lite')}, fugashi {version('fugashi')}"

    def __init__(self) -> None:
        self._tagger = JapaneseTagger()

    def read(self, text: str) -> Profile:
        normal = normalise(text)
        return profile_of(normal, self._tagger.split(normal))


def profile_of(text: str, tokens: Sequence[JapaneseToken]) -> Profile:
    """The profile of a normalised text with its tokens."""
    words = [token for token in tokens if token.pos1 not in PUNCTUATION]
    content = [
        word for word in words if word.pos1 in CONTENT and word.pos2 not in DEPENDENT and word.lemma not in EMPTY_WORDS
    ]
    letters = letters_of(text)
    # A question mark anywhere, or a last word that asks.
    asks = "?" in text or "".join(word.surface for word in words[-2:]).endswith(QUESTION_ENDINGS)
    return make_profile(
        letters,
        NATIVE,
        tokens=len(words),
        content=tuple(word.lemma for word in content),
        names=frozenset(word.lemma for word in words if word.pos2 == "固有名詞"),
        predicates=frozenset(word.lemma for word in content if word.pos1 in PREDICATES),
        asks=asks,
        wanted=frozenset(QUESTION_WORDS[w.lemma] for w in words if w.lemma in QUESTION_WORDS) if asks else frozenset(),
        offered=offered_kinds(words, content, asks=asks),
        affirms=bool(AFFIRMING.match(letters)),
        negated=any(word.lemma in {"無い", "ない", "ず", "ぬ"} for word in words),
        polite=is_polite(words),
        greets=bool(GREETING.search(text)),
        generic=bool(GENERIC.fullmatch(letters)),
        agrees=bool(words) and words[-1].surface in {"ね", "ねえ", "よね", "なあ"} and not asks,
        broken=is_broken(words),
        oddities=sum(is_odd(left, right) for left, right in pairwise(tokens)),
        unknown_share=sum(word.unknown for word in words) / max(1, len(words)),
        feelings=kinds_in(text, FEELINGS),
        consoles=bool(CONSOLING.search(text)),
        describes_itself=bool(ITSELF.search(text)),
    )


def offered_kinds(words: Sequence[JapaneseToken], content: Sequence[JapaneseToken], *, asks: bool) -> frozenset[str]:
    """The kinds of question that these words could answer; a question offers none."""
    if asks:
        return frozenset()
    lemmas = {word.lemma for word in words}
    number = any(word.pos2 == "数詞" for word in words)
    found = {
        "place": bool(lemmas & PLACE_WORDS) or any(word.pos3 == "地名" for word in words),
        "time": number or bool(lemmas & TIME_WORDS),
        "person": bool(lemmas & PERSON_WORDS) or any(word.pos3 == "人名" for word in words),
        "number": number,
        "reason": any(word.surface in REASON_WORDS for word in words),
        # A short statement answers "what" or "how"; a long one may be about anything.
        "thing": len(words) <= 6 and any(word.pos1 == "名詞" for word in content),
        "manner": len(words) <= 8 and any(word.pos1 in PREDICATES for word in content),
    }
    return frozenset(kind for kind, offers in found.items() if offers)


def is_polite(words: Sequence[JapaneseToken]) -> bool | None:
    """Whether the text holds です, ます or ください; None for a fragment, which has no register."""
    if any(word.lemma in POLITE or word.surface == "ください" for word in words):
        return True
    closed = any(word.pos1 in {"動詞", "形容詞", "助動詞"} or word.pos2 == "終助詞" for word in words)
    return False if closed else None


def is_broken(words: Sequence[JapaneseToken]) -> bool:
    """Ends on a case or topic particle, or on a form that must go on. て, けど, から and が end casual speech well."""
    if not words:
        return False
    last = words[-1]
    if last.pos1 == "助詞":
        return last.surface == "を" or (last.pos2 == "格助詞" and last.surface not in {"って", "と"})
    return len(words) > 1 and last.pos1 in {"動詞", "助動詞"} and last.form.startswith(("未然形", "仮定形"))


def is_odd(left: JapaneseToken, right: JapaneseToken) -> bool:
    """Whether Japanese does not put the two side by side: か before は, two case particles, a word said twice."""
    if left.surface == right.surface and len(left.surface) > 1 and left.pos1 in CONTENT:
        return True
    if left.pos1 != "助詞" or right.pos1 != "助詞":
        return left.lemma in {"です", "ます"} and right.surface in {"を", "は"}
    if left.surface in {"ね", "よ"} or (left.surface == "か" and right.surface == "は"):
        return right.pos2 in {"係助詞", "格助詞"} and right.surface not in {"って", "と"}
    return left.surface in {"を", "が"} and right.surface in {"を", "が", "は", "に"}
