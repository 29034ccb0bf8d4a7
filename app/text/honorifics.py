"""Clear misuses of honorific and humble verbs: subject and verb in one clause, with nothing between that takes another
subject. Precision comes first: what these patterns do not see is stated in docs/registers.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.domain.speech import Misuse
from app.text.japanese_endings import InflectedWord
from app.text.korean_endings import ADVERBS
from app.text.passages import words_of

# Korean: words are those between spaces.

KO_SELF = words_of("저는 제가 저도 저희가 저희는 저희도 나는 내가 나도")
KO_SELF_NOMINATIVE = words_of("제가 저희가 내가")
KO_TO_SELF = words_of("저한테 저에게 제게 저희한테 저희에게 저를 저희를")
KO_HONORIFIC = re.compile(
    r"(?:계[시세셨십실]|주무[시세셨십실]|드[시세셨십실]|잡수[시세셨십]|말씀하[시세셨십실]|편찮으[시세셨십])[가-힣]{0,6}$"
)
KO_HONORIFIC_ACTION = re.compile(r"(?:가|오|하|전화하)(?:십니다|시겠습니다|셨[가-힣]{1,3})$")
KO_HONORIFIC_NOUN = re.compile(r"[가-힣]{1,6}(?:자|원|사|생|님|장|인)이(?:십니다|세요)$")
KO_HUMBLE = re.compile(
    r"(?:여쭤|여쭈|여쭙|(?:말씀|알려|보내|전해)?드[리려렸립린])[가-힣]{0,6}$|(?:뵈|뵙|뵐|모시|모셔|모십)[가-힣]{0,4}$"
)
KO_BETWEEN = re.compile(r"[가-힣]{1,8}(?:을|를|에|에서|에게|으로|로|까지|부터)$")
KO_ADVERBS = ADVERBS | words_of(
    "먼저 직접 다시 어제 내일 잘 안 못 자주 항상 보통 일찍 이미 아까 방금 여기 거기 저기 매일 많이 조금 그렇게 이렇게 "
    "맛있게 혼자 같이 함께 늘 가끔 아침 점심 저녁 어젯밤 지난주 꼭 바로 언제든지 언제든 편하게"
)
KO_AUXILIARY = re.compile(r"(?:보|봐|봤|주|줘|줬|되|돼|됩|가|갔|오|와|왔)[가-힣]{0,5}$")
ADNOMINAL = "는던린릴뵌뵐신실"  # Last syllables before a noun that is described: 저에게 드린 보상
KO_NOT_EATING = words_of("마음에 맘에 눈에 손에")  # Before 드시다 they make another verb, 들다: 마음에 드세요?


def find_korean_misuse(words: Sequence[str]) -> Misuse | None:
    """The first misuse in the words of a clause, which are few (`split_words`)."""
    for place, word in enumerate(words):
        rest = words[place + 1 :]
        if word in KO_SELF and is_own_honorific(word, rest):
            return Misuse.OWN
        if word in KO_TO_SELF and is_humble_to_self(rest):
            return Misuse.OTHER
    return None


def is_own_honorific(subject: str, rest: Sequence[str]) -> bool:
    """Whether the clause ends on an honorific verb, and only objects, places and adverbs stand before it."""
    if not rest:
        return False
    *between, verb = rest
    if not between and KO_HONORIFIC_NOUN.match(verb):
        return subject in {"저는", "제가"}
    if between and between[-1].endswith("고") and verb.startswith("계"):
        between = between[:-1]
    if not all(map(is_between, between)) or (verb.startswith("드") and not KO_NOT_EATING.isdisjoint(between)):
        return False
    return bool(KO_HONORIFIC.match(verb) or (subject in KO_SELF_NOMINATIVE and KO_HONORIFIC_ACTION.match(verb)))


def is_humble_to_self(rest: Sequence[str]) -> bool:
    """Whether what is done to the speaker is a humble verb, with auxiliaries after it: 저한테 여쭤봐 주세요."""
    for place, word in enumerate(rest):
        if KO_HUMBLE.match(word):
            following = rest[place + 1 :]
            return not following or (word[-1] not in ADNOMINAL and all(map(KO_AUXILIARY.match, following)))
        if not is_between(word) and not (
            place + 1 < len(rest) and rest[place + 1].startswith("드") and word[-1] in "려내해써져"
        ):
            return False
    return False


def is_between(word: str) -> bool:
    """Whether the word is an object, a place or an adverb: no other subject or verb."""
    return word in KO_ADVERBS or KO_BETWEEN.match(word) is not None


# Japanese: words are tokens.

JA_SUSPICIOUS = re.compile(
    r"(?:[私僕俺]|わたし|わたくし|ぼく|弊社|当社|小社)(?:たち|達|ども|共)?[はがも].{0,60}(?:いらっしゃ|おっしゃ|仰|召し上が|めしあが|なさ|にな)"
    r"|(?:あなた|貴方|お客様|お客さま|皆様|皆さま)[はがも].{0,60}(?:拝[見読聴]|参|まい|申|おり|おる|伺|うかが|いただ|頂|差し上げ|存じ)"
)
"""Clauses without it are not tagged."""

JA_SELF = words_of("私 僕 俺 弊社 当社 小社 わたし わたくし ぼく")
JA_OTHER = words_of("あなた 様 さま 貴方")
JA_PLURAL = words_of("たち 達 ども 共")
JA_HONORIFIC = words_of("いらっしゃる 仰る 召し上がる 為さる")
JA_HUMBLE = words_of("参る 申す")
JA_HUMBLE_IN_QUESTIONS = words_of("伺う 差し上げる 存ずる 存じる")
"""Elsewhere the addressee may be the topic of what the speaker does: お客様は午後に伺います."""

JA_HUMBLE_NOUNS = words_of("拝見 拝読 拝聴")
JA_STEM = re.compile("(?<![笑終舞])(?<=[一-鿿])[いきぎしじちにびみりえけげせてねべめれ]$")
"""A verb's stem in お作りになる: お世話になる and お医者になる have none."""

JA_BETWEEN = frozenset({"名詞", "代名詞", "副詞", "接頭辞", "接尾辞", "連体詞"})
JA_PARTICLES = words_of("を に へ で と から まで の")


def find_japanese_misuse(words: Sequence[InflectedWord]) -> Misuse | None:
    """The first misuse among the tokens of a clause."""
    for place, word in enumerate(words):
        if word.pos1 not in {"動詞", "名詞"} or word.form.startswith("命令形") or not is_final(words, place):
            continue
        if is_honorific(words, place) and has_subject(words, place, JA_SELF):
            return Misuse.OWN
        if is_humble(words, place) and has_subject(words, place, JA_OTHER):
            return Misuse.OTHER
    return None


def is_final(words: Sequence[InflectedWord], place: int) -> bool:
    """Whether only auxiliaries and ending particles follow: no noun that is described, no clause that goes on."""
    follow = words[place + 1 :]
    if follow and follow[-1].surface in {"て", "で"}:
        return False
    return all(
        word.pos1 == "助動詞" or word.pos2 in {"非自立可能", "終助詞", "準体助詞"} or word.surface in {"て", "で"}
        for word in follow
    )


def is_honorific(words: Sequence[InflectedWord], place: int) -> bool:
    """Whether the word honours its subject. In a question, a condition or a request the speaker may be another part of
    the clause than its subject, and nothing is said."""
    if words[-1].surface == "か" or any(after.form.startswith(("仮定形", "命令形")) for after in words[place:]):
        return False
    if words[place].lemma in JA_HONORIFIC:
        return True
    if words[place].lemma != "成る" or place < 2 or words[place - 1].surface != "に":
        return False
    noun = words[place - 2]
    return noun.lemma == "御覧" or (place > 2 and words[place - 3].lemma == "御" and bool(JA_STEM.search(noun.surface)))


def is_humble(words: Sequence[InflectedWord], place: int) -> bool:
    """Whether the word lowers its subject, in a sense that no receiver or giver beside it can change."""
    word, after = words[place], words[place + 1 :]
    asks = words[-1].surface == "か"
    if word.pos1 == "名詞":
        return word.lemma in JA_HUMBLE_NOUNS and bool(after) and after[0].pos1 == "動詞"
    if word.lemma == "居る":  # others than the addressee may be meant: 他のお客様がおります
        return word.surface.startswith("お") and (asks or words[-1].surface == "たら")
    if word.lemma in JA_HUMBLE_IN_QUESTIONS:
        return asks
    if word.lemma != "頂く":
        return word.lemma in JA_HUMBLE
    given = any(said.surface in {"に", "から"} for said in words[:place]) or words[place - 1].pos1 != "助詞"
    return not given and (asks or any(said.surface.startswith(("ください", "下さい")) for said in after))


def has_subject(words: Sequence[InflectedWord], place: int, subjects: frozenset[str]) -> bool:
    """Whether only objects and adverbs are between the word at `place` and は, が or も after one of `subjects`."""
    at = step_over_link(words, place) - 1
    while at > 0:
        word = words[at]
        if word.surface in {"は", "が", "も"}:
            at -= 2 if words[at - 1].surface in JA_PLURAL else 1
            if words[at].surface in {"様", "さま"} and words[at - 1].surface not in {"客", "皆"}:
                return False
            return words[at].surface in subjects
        if word.pos1 not in JA_BETWEEN and (word.pos1 != "助詞" or word.surface not in JA_PARTICLES):
            return False
        at -= 1
    return False


def step_over_link(words: Sequence[InflectedWord], place: int) -> int:
    """The place of 待っ in 待っていらっしゃる and of で after a noun in 田中でいらっしゃる; else `place`."""
    if words[place].lemma != "いらっしゃる" or place < 2:
        return place
    link, before = words[place - 1], words[place - 2]
    if link.surface in {"て", "で"} and link.pos1 == "助詞" and before.pos1 == "動詞":
        return place - 2
    return place - 1 if link.surface == "で" and link.pos1 == "助動詞" and before.pos1 == "名詞" else place
