"""존댓말 or 반말, and misused honorifics: Korean by the spelling of its words and endings, without a dictionary.

`spell` decomposes syllables into letters by arithmetic (Unicode 15.0, section 3.12), and endings are matched on them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest

from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.speech import Misuse, PolitenessLevel, Register, Sign, combine_signs
from saiten_server.text.passages import open_passage, split_sentences, words_of

FIRST, LAST = 0xAC00, 0xD7A3
INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS: tuple[str, ...] = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")


def spell(text: str) -> str:
    """`text` with each syllable as its two or three letters: 했어 is ㅎㅐㅆㅇㅓ. Other characters stay. No letter is
    lost or joined, because a syllable without an initial sound spells ㅇ: an ending can be matched whatever stem it has
    melted into."""
    return "".join(map(letters_of, text))


@lru_cache(maxsize=4096)
def letters_of(character: str) -> str:
    """The letters of a composed syllable; any other character itself."""
    if not FIRST <= ord(character) <= LAST:
        return character
    initial, rest = divmod(ord(character) - FIRST, len(VOWELS) * len(FINALS))
    vowel, final = divmod(rest, len(FINALS))
    return INITIALS[initial] + VOWELS[vowel] + FINALS[final]


LONGEST_WORD = 10  # Syllables of a word that are looked at: the ending is at its end
REMEMBERED_WORDS = 4096  # Of each question about them. Few make up most of any text


def ends(*patterns: str) -> re.Pattern[str]:
    """A pattern for what a spelled word may end with."""
    return re.compile(rf"(?:{'|'.join(patterns)})$")


YES = re.compile(r"[네넵넹넴넨녜옙예넙엡]+")
# Interjections that one says only to a familiar person
OWN_WORDS = re.compile(r"(?:응|웅|엉|어|안녕|미안|아니|굿밤|하이|땡큐|야|얘|잘자|뭐|왜)+")
HUMBLE_WORDS = re.compile(r"(?:저는|저도|저만|저랑|저한테|제가|저희|저희도|저희는)$")
# Words for oneself and the other: they tell where no predicate does (나도!, 저는 짜장면!)
FAMILIAR_WORDS = re.compile(r"(?:나는|난|나도|나만|나랑|나한테|내가|너는|넌|너도|네가|니가|너만|너랑|우린)$")
# What may follow a predicate: 웃기네 진짜
ADVERBS = words_of("진짜 정말 너무 완전 아주 오늘 지금 제발 빨리 얼른 그냥 일단 다들 벌써 이제 좀 진심 레알")
POLITE = ends(
    "ㅂㄴㅣㄷㅏ[ㅇㅁ]?",  # 습니다
    "ㅂㄴㅣㄲ[ㅏㅓ]|ㅂㅅㅓㅇㅖ",  # 습니까
    "ㅅㅡㅂ?(?:ㄴ|ㅁ)ㄷㅏㅇ?",  # 슴다
    "(?:ㅎㅏ|ㅇㅣ|ㄷㅚ)ㅁㄷㅏㅇ?",  # 함다, 임다
    "ㅅㅡㅁ(?:ㅣㄷㅏ|ㄷㅘ)",  # 스미다
    "ㅅㅣ(?:ㅂㅅㅣ)?ㅇㅗ",  # 하십시오, 하시오
    "ㅅㅣㅂㅅㅛ",  # 하십쇼
    "ㅅㅗㅅㅓ",  # 하소서
    "ㅇㅛㅇ?|ㅇㅏㄴㅛ",  # 해요, 아뇨
    "ㅇㅛㅁ",  # 해욤
    "[ㅈㅊ]ㅛㅇ?",  # 죠, 그쵸
    "ㅈㅣㅇㅠ|ㅈㅠ",  # 그쥬
    "ㅇㅔㅇㅕㅇ?|ㅇㅖㅇㅕㅇ?",  # 이에여
)
POLITE_SPELLINGS = re.compile(
    r"(?:[어아해세셔네예돼봐줘워와져려겨켜데께까나죠죵지]용|[어아해세셔네예돼봐줘워와져려까나데께거구군]여[엉]?"
    r"|[어아해세셔네예돼봐줘워와져려까나데]염|[해어아래겨셔네먼게지봐줘]유|[네어아데]예|[주하가보오시]이소)$"
)
# Nouns that end as polite speech does
POLITE_LOOKALIKES = re.compile(r"(?:필|중|주|수|소|개|동|강|민|담|^)요$|아니오$")
FORMAL = ends("ㅂㄴㅣㄷㅏ[ㅇㅁ]?", "ㅂㄴㅣㄲㅏ", "ㅂㅅㅣㅇㅗ", "ㅂㅅㅛ")
INFORMAL = ends(
    "(?<!ㄴㄱ)[ㅏㅐㅓㅕㅘㅙㅝ]ㅇㅛㅇ?",  # 가요, 해요, 먹어요, 마셔요, 봐요, 돼요, 줘요
    "ㅇ[ㅔㅖ]ㅇㅛ",  # 거예요, 이에요
    "ㄹㄱㅔㅇㅛ",  # 할게요
    "ㄷㅡㄴㅇㅛ",  # 거든요
)
# Said in either level: formulas, the intention -겠습니다, -나요 and -ㄴ가요, in which formal speakers ask as well, and
# fragments with 요. Forms for which 합쇼체 has no ending of its own (-네요, -군요, -죠), and -세요, match neither.
EITHER_LEVEL = re.compile(
    r"겠습니[다까당]|(?:감사|고마|고맙|죄송|미안|송구|반가|반갑|안녕|실례|수고|고생|축하|환영|부탁|뵙|뵈|뵐|봬|오랜만|천만)[가-힣]*$"
    r"|(?:^|[^끝만떠화혼빛어])나요$|까요$|(?:답|(?<!바)랍)니다$|[에해아어려와져]서요$|(?:진짜|셔|뭐)요$"
    r"|(?:제|내|뭐|누|우리|저희|어디|언제|여기|거기)가요$|^(?:[오가계되]|보내)십시오$"
)
# Formulas of two words, said in either level
GREETINGS = re.compile(
    r"(?:(?:보내|되|있으)시(?:기를?|길)|감사|부탁|축하|환영) (?:바랍|드립|합)니다|(?:고생|수고) 많으[가-힣]{1,5}"
)
# Said in either level where they are a clause of their own
ANSWERS = words_of(
    "맞습니다 맞아요 아닙니다 아니에요 아니예요 그렇습니다 그래요 물론입니다 좋습니다 좋아요 괜찮습니다 괜찮아요"
)
# Final consonants of stems. ㅇ ends no stem and ㄴ few, which keeps 영어, 언어 and 단어 out.
CONSONANT_STEMS = "ㄱㄲㄷㄹㄺㄻㄼㄾㅀㅁㅂㅄㅅㅆㅈㅊㅌㅍㅎㄵㄶ"
PLAIN_ENDINGS = ends(
    f"[{CONSONANT_STEMS}]ㅇ[ㅓㅏ]ㅇ?",  # 했어, 먹어, 좋아, 했엉
    "[ㅈㅅ]ㅣㄴㅇㅓ|ㅇㅏㄴㅇㅏ",  # 신어, 안아
    f"[{CONSONANT_STEMS}]ㅇ[ㅓㅏ](?:ㄱㅏ|ㅇㅘ)",  # 찾아가, 걸어와
    "[ㅟㅚ]ㅇㅓ",  # 쉬어, 되어
    "ㅇㅑㅇ?",  # 이야, 거야
    "ㅎㅐ|ㄷㅙ|ㅈㅝㅇ?|ㅇㅝㅇ?|ㅂㅘㅇ?|ㄴㅘ|ㄲㅝ|ㅊㅝ",  # 해, 돼, 줘, 추워, 봐
    "[ㅈㅊㅋㄹㄱㅅㄷㅂㄲㅍㅌ]ㅕ|ㅇㅕ",  # 가져, 마셔, 보여
    "ㅆㅓ|ㅋㅓ|ㅍㅓ|ㅃㅓ|ㅆㅏ",  # 써, 커, 슬퍼, 예뻐, 비싸
    "ㄷㅏ|[ㄴㄹㅆㅎㅌㅄㄶ]ㄷㅏㅇ",  # 한다, 했당
    "ㅈㅣㅇ?",  # 그렇지
    "ㄴㅔㅇ?",  # 좋네
    "ㄱㅓㄷㅡㄴ",
    "ㄹ(?:ㄱ|ㄲ)ㅔㅇ?",  # 할게
    "ㄹㄲㅏㅇ?",  # 할까
    "ㄹㄹㅐㅇ?",  # 할래
    "[ㄴㅆㅄㅎㅌㅍㄶ]ㄷㅐ",  # 한대
    "[ㄹㄴ]ㄱㅓㄹ",  # 할걸
    "ㄴㅑㅇ?",  # 하냐
    "[ㅆㅄㅎㄶㅌㄱㅅㅂ]ㄴ[ㅣㅏ]|ㄹㅕㄴㅏ",  # 했니, 있나, 하려나
    "ㄴㄱㅏ",  # 그런가
    "ㄴㄷㅔㅇ?",  # 좋은데
    "[ㄷㄱㅇㅎ](?:ㅓ|ㅏ|ㅐ)ㄹㅏ|ㅈㅝㄹㅏ|ㅂㅘㄹㅏ|ㅇㅘㄹㅏ|ㅁㅏㄹㅏ",  # 하더라, 먹어라
    "ㄹㅕㅁ|[ㄷㄹ]ㅏㅇㄲㅔ",  # 하렴
    "ㄷㅏㄱㅜ|ㄹㅏㄱㅜ|ㄷㅓㄹㅏㄱㅗ|ㄷㅏㄴㅣㄲㅏ",  # 한다구, 하더라고
)
PLAIN_SPELLINGS = re.compile(
    r"(?:(?:불|눌|둘|찔|흘|들|질|굴|이르|푸르)러|(?:몰|달|빨|올|골|잘|발|갈|말)라|(?:바|나|가)빠|(?:아|고)파|어때|[그이저뭐왜]래"
    r"|[하카있없갔했라좋]노|온나|[하오가보주시](?:삼|셈)|(?:일어나|만나|떠나|기다리|마시|쉬|오|쓰)라"
    r"|그[치췌]|글치|맞[제쟈]|자나"
    r"|(?:하|가|먹|놀|말|쉬|지내|만나|기다리|마시|읽|앉|걷|잊|찾|만들|내|버리|떠나|보|주|오|살|찍|듣|믿|걸|씻|자|되|키우|두)자"
    r"|(?:뭐|하|가|오|되|이|그러|어떠|떠|려|보|자|쁘|프|구)니|(?:만|신|어|끝|화|증|각|떠|열|티|혼|큰일|샘|타)나"
    r"|(?:어디|나|들어|올라|내려|돌아|지나|다녀|따라|뛰어|걸어|놀러|하러|잘|빨리)가"
    r"|(?:나|들어|돌아|다녀|가져|올라|내려|데려|따라|빨리|이리)와|(?:힘|보|지|끝|화|해|꺼|혼|이겨|잘라)내|지마)$"
)
PLAIN_WORDS = words_of("봐 써 꺼 커 해 줘 마 켜 펴 져 돼 놔 깨 싸 짜")
# Short verbs; the latter are something else when alone: 잘 자, 빨리 와, 만든 거지
PLAIN_AFTER_OTHERS = words_of("가 자 사 타 와 차 내 거지")
# Nouns, particles and adverbs that end as plain speech does
PLAIN_LOOKALIKES = re.compile(
    r"(?:(?:국|악|색|랍|등|불)어[가와]?|육아[가와]?|(?:분|시|평|광|심)야|^(?:올|새|지난|동|서|남|피|손|오|이|방|공|양|침|화|자)해"
    r"|(?:배|고|염|격|우|장|독|권|심)려|(?:참|기|부|수|대|급|관)여|벌써|로써|(?:바|소|수|나|마|판|부|보|^)다|까지"
    r"|(?:바|돼|아|버|편|휴|먼|미|페이|[메소]시|렌|반|잡|단|거|처|의|유|폐|금|정|방|복|토|꽁|번|중|여|럿|키|사|착|적|패|공|가|메|연|산|긍|인|감|^)지"
    r"|(?:동|그|^네*)네|(?:친구|언니|오빠|누나|이모|고모|머니|엄마|아빠|삼촌|걔|우리)네|빨래|(?:군|반|현|연|만|환|전|간|잔|근|순)대"
    r"|(?:뭔|누군|언젠|어딘|왠|연|단|원|전문|인)가|(?:가운|그런|근|어떤)데|(?:부|하나|사|오늘|각|혼|환|감|공)자|(?:어머|할머|주머|언)니"
    r"|(?:참|평|작|국|증|허|휴)가자|(?:하|누|^)나|[타파샤]워|코리아|아시아|시아|리아|디어|니어|수렴|어차피|최저)$"
)
WEAKLY_PLAIN = ends(
    "ㄱㅜㄴㅏㅇ?|ㄱㅜㅁ[ㅏㅓ]ㄴ|[ㄴㅎㅆㅄㄶㅌㅡ]ㄱㅜㄴ|ㅇㅣㄱㅜㄴ",  # 그렇구나, 그렇군: said to oneself
    "ㄱㅔㅆㄷㅏㅇ?",  # 좋겠다
    "ㅁㅝ(?:ㅇㅕㅆ)?ㄷㅓㄹㅏ|(?:ㄱㅜ|ㄷㅣ)(?:ㅇㅕㅆ)?ㄷㅓㄹㅏ",  # 뭐더라, 누구였더라
    "ㄴㅣㄲㅏ|ㄹㅏㅅㅓ|[ㅓㅏㅐㅝㅕㅘㅙ]ㅅㅓ",  # 하니까, 해서: left open
    "(?:ㄷㅏ|ㄹㅏ|ㄴㅑ|ㅈㅏ|ㅎㅏ|ㅆ|ㅄ|ㅎ|ㅍ)ㄱ[ㅗㅜ]",  # 하고, 한다고
    "(?:ㄷㅏ|ㄹㅏ)(?:ㄴㅣ|ㅁㅕ|ㅁㅕㄴㅅㅓ)|ㄱㅣㄹㄹㅐ|ㄷㅓㄴㄱㅏ|ㄹㄱㅓ",
)
WEAK_LOOKALIKES = re.compile(r"(?:에서|면서|[^어아해여워와돼라]서|누구나|그래서|그러니까|그리고|따라서)$")

# Endings that nothing of the same sentence can follow: 좋았어 next to another word ends a sentence without a mark
MIDWAY_PLAIN = ends("ㅆㅇㅓㅇ?", "ㄱㅓㅇㅑ", "ㅈㅏㄶㅇㅏ", "ㄹㄱㅔㅇ?")
MIDWAY_LOOKALIKES = re.compile(r"(?:길|멀|달|글|늘|들|널)게$")  # Adverbs: 길게 쓰지 말고


@lru_cache(maxsize=REMEMBERED_WORDS)
def read_word(word: str, *, alone: bool) -> Sign | None:
    """The sign of a clause's last word (`end_of`); None for nouns and open ends. `alone` if it is the clause's only
    word."""
    if alone and YES.fullmatch(word):
        return Sign.WEAKLY_POLITE
    if alone and OWN_WORDS.fullmatch(word):
        return Sign.WEAKLY_PLAIN
    if is_polite_word(word):
        return Sign.POLITE
    if word in PLAIN_WORDS or (word in PLAIN_AFTER_OTHERS and not alone):
        return Sign.PLAIN
    spelled = spell(word)
    if WEAKLY_PLAIN.search(spelled):
        return None if WEAK_LOOKALIKES.search(word) else Sign.WEAKLY_PLAIN
    plain = PLAIN_ENDINGS.search(spelled) or PLAIN_SPELLINGS.search(word)
    return Sign.PLAIN if plain and not PLAIN_LOOKALIKES.search(word) else None


def end_of(word: str) -> str:
    """What is looked at."""
    return word[-LONGEST_WORD:]


@lru_cache(maxsize=REMEMBERED_WORDS)
def is_polite_word(word: str) -> bool:
    """Whether the word (`end_of`) ends politely."""
    if POLITE_LOOKALIKES.search(word):
        return False
    return bool(POLITE_SPELLINGS.search(word) or POLITE.search(spell(word)))


@lru_cache(maxsize=REMEMBERED_WORDS)
def read_level(word: str, *, alone: bool) -> PolitenessLevel:
    """The level of a word (`end_of`) that ends politely; `alone` where it is the only one of its clause."""
    if EITHER_LEVEL.search(word) or (alone and word in ANSWERS):
        return PolitenessLevel.NONE
    spelled = spell(word)
    if FORMAL.search(spelled):
        return PolitenessLevel.FORMAL
    informal = INFORMAL.search(spelled) and not POLITE_LOOKALIKES.search(word)
    return PolitenessLevel.INFORMAL if informal else PolitenessLevel.NONE


@lru_cache(maxsize=REMEMBERED_WORDS)
def is_midway_plain(word: str) -> bool:
    """Whether the word (`end_of`) ends a plain sentence wherever it stands."""
    return bool(MIDWAY_PLAIN.search(spell(word))) and not MIDWAY_LOOKALIKES.search(word)


# Clear misuses of honorific and humble verbs: subject and verb in one clause, with nothing between that takes another
# subject. Precision comes first: what these patterns do not see is stated in docs/registers.md.

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


STAND_IN = "것"  # Takes a quotation's place: a noun, as a quotation is
MOST_WORDS = 24  # Words of a sentence that are looked at, from its end
COMMA = re.compile(r"[,，、;]+")
# Begins a word after reported speech that no marks enclose: 가요 라고 했어
REPORTING = re.compile(r"(?:이?라고|하고|이?라는|이?라며|이?라면서|하며|이?래)")
JAMO = re.compile("[\u1100-\u11ff\u3131-\u318e]+")
WHOLE_WORD = re.compile("[\uac00-\ud7a3]+")
NOT_A_SYLLABLE = re.compile("[^\uac00-\ud7a3]+$")


def read_korean(text: str) -> Register:
    """The register of the beginning of a text (`open_passage`)."""
    return combine_signs(read_korean_signs(text))


def read_korean_signs(text: str) -> Iterator[Sign]:
    """The signs of the sentences at a text's beginning (`open_passage`)."""
    return (sign for sentence in sentences_of(text) for sign in read_sentence(sentence))


def read_korean_level(text: str) -> PolitenessLevel:
    """The level of a polite text's beginning: of the words that end a clause, or a sentence within it without a mark,
    except in reported speech."""
    sentences = (GREETINGS.sub("", sentence) for sentence in sentences_of(text))
    found = {
        read_level(end_of(word), alone=len(words) == 1)
        for words in split_clauses(sentences)
        for word, following in zip_longest(words, words[1:], fillvalue="")
        if not REPORTING.match(following)
    } - {PolitenessLevel.NONE}
    return PolitenessLevel.MIXED if len(found) > 1 else next(iter(found), PolitenessLevel.NONE)


def read_korean_misuse(text: str) -> Misuse | None:
    """The first clear misuse of an honorific or humble verb at the beginning of a text."""
    return next(filter(None, map(find_korean_misuse, split_clauses(sentences_of(text)))), None)


def split_clauses(sentences: Iterable[str]) -> Iterator[list[str]]:
    """The words of each clause between commas."""
    return (split_words(part) for sentence in sentences for part in COMMA.split(sentence))


def sentences_of(text: str) -> Iterator[str]:
    """The speaker's own sentences at the beginning of a text (`open_passage`)."""
    # NFC, because NFKC turns ㅋㅋ and ㅠㅠ into conjoining letters.
    normal = unicodedata.normalize("NFC", cut_mark_runs(open_passage(text)))
    return (found.text for found in split_sentences(normal, STAND_IN))


def read_sentence(text: str) -> Iterator[Sign]:
    """Signs of a sentence: from its last clause or, if that has none, from the one before a comma, and from any word
    that ends a sentence within a clause."""
    decided = False
    for clause in reversed([words for words in split_clauses([text]) if words]):
        sign = read_clause(clause)
        if sign is not None and (not decided or sign is Sign.POLITE):
            yield sign
            decided = decided or sign in {Sign.POLITE, Sign.PLAIN}
        yield from read_midway(clause)


def read_clause(clause: Sequence[str]) -> Sign | None:
    """The sign of a clause by its last word, ignoring adverbs after it; otherwise by its words for you and me."""
    words = list(clause)
    while len(words) > 1 and words[-1] in ADVERBS:
        words.pop()
    sign = read_word(end_of(words[-1]), alone=len(words) == 1)
    if sign is not None:
        return sign
    if any(map(HUMBLE_WORDS.match, words)):
        return Sign.WEAKLY_POLITE
    return Sign.WEAKLY_PLAIN if any(map(FAMILIAR_WORDS.match, words)) else None


def split_words(clause: str) -> list[str]:
    """The latest words of a clause, each up to its last syllable; words without one, such as ㅋㅋ, are left out."""
    parts = clause.split()[-MOST_WORDS:]
    return [word for part in parts if (word := part if WHOLE_WORD.fullmatch(part) else strip_word(part))]


def strip_word(part: str) -> str:
    """The letters of a word up to its last syllable."""
    return NOT_A_SYLLABLE.sub("", JAMO.sub("", "".join(filter(str.isalnum, part))))


def read_midway(clause: Sequence[str]) -> Iterator[Sign]:
    """The signs of sentences that end within a clause without a mark, except in reported speech."""
    for word, following in pairwise(clause):
        if REPORTING.match(following):
            continue
        if is_polite_word(end_of(word)):
            yield Sign.POLITE
        elif is_midway_plain(end_of(word)):
            yield Sign.PLAIN
