"""Detects the language of a text by its scripts, and tells Chinese from Japanese written mostly in Han characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from saiten.core.messages import Message
from saiten_server.text.passages import ASIDES, FEW_TURNS, drop_quotations, open_passage, words_of

# Characters in Japanese use that Shift_JIS never had
VARIANTS = frozenset("俠剝叱嚙噓塡姸屛幷彔拋揷搔摑攪潑瀆焰瘦簞繡繫萊蔣蟬蠟軀醬醱鏽顚頰驒鷗鹼麪麴")
# Words and function characters of Chinese that Shift_JIS can write, outside the Japanese compounds that hold them, and
# the comma ，, for which Japanese without kana has no use
CHINESE_WORDS = re.compile(
    r"我(?![慢々流儀先孫田武欲利執])(?<![自無没忘彼]我)|[好是真我妳他她有]的|是(?![非正認枝清々])(?<![国如彼]是)"
    r"|了(?![解承見])(?<![終完修満未魅投校読議]了)|[很這們沒麼它怎妳]|吃(?![音驚逆])|什(?!器)|也(?=[是很不想要會有])"
    r"|不(?=[是會想])|都(?=[會是很不])|謝謝|再見|請問|喜歡|可以|因為|今天|明天|昨天|[一-鿿]，"
)
# First code of the second level of JIS X 0208: characters that Japanese writes seldom. Traditional Chinese forms that
# Japan has simplified (會, 來) are there.
RARE_FROM = 0x989F
# Han characters in a row that a Japanese sentence has at most; names of institutions pass it, sentences do not
LONGEST_WITHOUT_KANA = 16


LANGUAGE_NAMES = {
    "ja": Message("language-japanese"),
    "ko": Message("language-korean"),
    "zh": Message("language-chinese"),
    "en": Message("script-latin"),
}


def name_language(language: str) -> Message:
    """What a text in the language is called; its script is all that tells English."""
    return LANGUAGE_NAMES.get(language, Message("script-other"))


def can_write(encoding: str, character: str) -> bool:
    """Whether a national character set has the character."""
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=4096)
def leaning(character: str) -> int:
    """1 for a character that Chinese writes and Japanese does not (simplified 说, 你), -1 for the reverse (気, 働), 0
    for a common one. The national character sets say so: no table of ours could be as complete."""
    chinese = can_write("gb2312", character) or can_write("big5", character)
    japanese = can_write("cp932", character) or character in VARIANTS
    return int(chinese) - int(japanese) if chinese != japanese else 0


@lru_cache(maxsize=4096)
def is_old_form(character: str) -> bool:
    """Whether Japanese rarely writes the character and simplified Chinese never."""
    if not can_write("cp932", character) or can_write("gb2312", character) or not can_write("big5", character):
        return False
    return int.from_bytes(character.encode("cp932"), "big") >= RARE_FROM


def is_chinese(text: str, han: str, kana: int) -> bool:
    """Whether the Han characters `han` of `text`, beside `kana` kana, are Chinese: 了解 and 電車遅延中 are not."""
    if kana * 2 >= len(han):
        return False
    signs = sum(map(leaning, han)) + sum(1 for _ in CHINESE_WORDS.finditer(text))
    old_forms = len({character for character in han if is_old_form(character)})
    signs += old_forms if old_forms > 1 else 0  # one may be in a name (慶應) or a rare word (憂鬱)
    if kana:
        return signs >= 2
    return signs > 0 or (signs == 0 and len(han) > LONGEST_WITHOUT_KANA)


KANA = re.compile("[\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fd-\u30ff\u31f0-\u31ff\uff66-\uff9d]+")
HAN = re.compile("[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb]+")
LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
LATIN_WORD = re.compile(f"[{LATIN}]+(?:['’-][{LATIN}]+)*")
# Two letters or more of another script: a lone one is part of a face, (´・ω・`)
OTHER_WORD = re.compile(
    r"[^\W\d_\x00-\u024f\u1e00-\u1eff\u3005\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    r"\U00020000-\U0003ffff\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]{2,}"
)
FULL_WIDTH = {code: code - 0xFEE0 for code in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}

# Words that make Latin letters a sentence; without them they are likely names
COMMON_WORDS = words_of(
    "a about after all also am an and any are as at be because been but by can can't cannot come could day did do does "
    "don't doesn't even for from get glad go going good great happy have hello help here hey hi how i i'd i'll i'm "
    "i've if in is it it's just know later let let's like look lot love make me more much my never new nice no not "
    "nothing now of on one or our out please really right see she should so some sorry sure take than thank thanks "
    "that that's the their them then there these they thing think this time to today tomorrow too try up us very want "
    "was we welcome well were what what's when where which who why will with would yeah yes yesterday you you'd "
    "you're your"
)
# Ends of Japanese and Korean words in Latin letters
ROMANISED = re.compile(r"(?:masu|desu|mashita|masen|hamnida|imnida|haseyo|[ae]yo|gatou?)$")


@dataclass(frozen=True, slots=True)
class LanguageReading:
    """`language` is ja, ko, zh, en (text in Latin script), other, or none (nothing tells); `share` is the part of what
    was read that is in its script, in [0, 1]: a kana, Han character or syllable counts 1, a Latin word 2."""

    language: str
    share: float


def weigh_latin(text: str, *, alone: bool) -> int:
    """The weight of Latin words as prose: 0 for names (iPhone 15 Pro), interjections (OK) and initials."""
    words = LATIN_WORD.findall(text)
    common = sum(word.lower().replace("’", "'") in COMMON_WORDS for word in words)
    if alone:
        small = sum(word.islower() and len(word) > 1 for word in words)
        foreign = sum(not word.isascii() for word in words)
        romanised = any(ROMANISED.search(word.lower()) for word in words)
        tells = common >= 1 or small >= 3 or foreign >= 2 or len(words) >= 6 or romanised
    else:
        tells = common >= 2
    return 2 * len(words) if tells else 0  # a word says about as much as two kana or syllables


# Most texts are in one script, with marks that neither quote, enclose nor address anything: for them, nothing has to be
# taken out.
WHOLLY_KOREAN = re.compile("[\uac00-\ud7a3 0-9.,!?…]{1,2000}")
WHOLLY_JAPANESE = re.compile("[\u3041-\u3096\u30a1-\u30fc\u4e00-\u9fff々、。！？…0-9]{1,2000}")


@lru_cache(maxsize=FEW_TURNS)
def read_scripts(text: str) -> LanguageReading:
    """The language of the beginning of a text (`open_passage`), without asides, addresses, code and,
    where anything else is there, quotations. Linear."""
    if WHOLLY_KOREAN.fullmatch(text) and HANGUL.search(text):
        return LanguageReading("ko", 1.0)
    if WHOLLY_JAPANESE.fullmatch(text):
        kana = sum(map(len, KANA.findall(text)))
        if kana and kana * 2 >= len("".join(HAN.findall(text))):
            return LanguageReading("ja", 1.0)
    own = ASIDES.sub(" ", open_passage(text.translate(FULL_WIDTH)))
    outside = drop_quotations(own, " ")
    own = outside if any(map(str.isalpha, outside)) else own
    if own.isascii():
        latin = weigh_latin(own, alone=True)
        return LanguageReading("en", 1.0) if latin else LanguageReading("none", 0.0)
    kana, hangul = (sum(map(len, script.findall(own))) for script in (KANA, HANGUL))
    han = "".join(HAN.findall(own))
    other = sum(map(len, OTHER_WORD.findall(own)))
    sino_korean = len(han) if not kana and hangul >= len(han) else 0
    weights = {
        "ja": kana + len(han) - sino_korean,
        "ko": hangul + sino_korean,
        "en": weigh_latin(own, alone=not (kana or hangul or han or other)),
        "other": other,
    }
    language = max(weights, key=lambda key: weights[key])
    share = weights[language] / max(1, sum(weights.values()))
    if not weights[language]:
        return LanguageReading("none", 0.0)
    if language == "ja" and han and is_chinese(own, han, kana):
        language = "zh"
    return LanguageReading(language, share)
