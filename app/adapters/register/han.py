"""Chinese or Japanese, where a text is written in Han characters alone or nearly so."""

from __future__ import annotations

import re
from functools import lru_cache

VARIANTS = frozenset("俠剝叱嚙噓塡姸屛幷彔拋揷搔摑攪潑瀆焰瘦簞繡繫萊蔣蟬蠟軀醬醱鏽顚頰驒鷗鹼麪麴")
"""Characters in Japanese use that Shift_JIS never had."""

CHINESE_WORDS = re.compile(
    r"我(?![慢々流儀先孫田武欲利執])(?<![自無没忘彼]我)|[好是真我妳他她有]的|是(?![非正認枝清々])(?<![国如彼]是)"
    r"|了(?![解承見])(?<![終完修満未魅投校読議]了)|[很這們沒麼它怎妳]|吃(?![音驚逆])|什(?!器)|也(?=[是很不想要會有])"
    r"|不(?=[是會想])|都(?=[會是很不])|謝謝|再見|請問|喜歡|可以|因為|今天|明天|昨天|[一-鿿]，"
)
"""Words and function characters of Chinese that Shift_JIS can write, outside the Japanese compounds that hold them, and
the comma ，, for which Japanese without kana has no use."""

RARE_FROM = 0x989F
"""First code of the second level of JIS X 0208: characters that Japanese writes seldom. Traditional Chinese forms that
Japan has simplified (會, 來) are there."""

LONGEST_WITHOUT_KANA = 16
"""Han characters in a row that a Japanese sentence has at most; names of institutions pass it, sentences do not."""


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
