"""Texts that look like the judge's own reply: score lines, tables, JSON and XML with a value for an aspect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

ASPECTS = (
    r"自然さ|自然度|関連性|一貫性|整合性|興味深さ|面白さ|品質|有用性|正確[性さ]|流暢[性さ]|丁寧さ|共感[性度]?"
    r"|具体性|妥当性|事実性|情報量"
    r"|適切[性さ]|親切さ|安全性|総合(?:評価|点|スコア)?"
    r"|자연스러움|자연성|관련성|일관성|합리성|구체성|공감[성도]?|유용성|정확[성도]|유창성|흥미[성도]?|품질"
    r"|적절성|친절[성도]|사실성|안전성|총점|종합(?: ?평가| ?점수)?"
    r"|naturalness|coherence|relevance|consistency|interestingness|overall(?: score| quality| rating)?|fluency|accuracy"
    r"|helpfulness|factuality|acceptability|formality|amount_info|sensibleness|specificity|sympathy|empathy"
    r"|engagingness"
    r"|harmlessness|correctness|appropriateness|informativeness|groundedness|all aspects"
    r"|相关性|连贯性|一致性|流畅[性度]"
)
LABELS = (
    r"(?:最終|総合)?(?:評価|採点|スコア|得点|点数|評点)|(?:최종|종합|전체)? ?(?:점수|평점|채점|평가)"
    r"|(?:final |overall |total )?(?:score|rating|grade|verdict|mark)|评分|得分"
)
NUMBER = r"(?:[0-9]{1,3}(?:\.[0-9])?|[一二三四五十])"
MINIMUM_PAIRS = 2


@lru_cache(maxsize=64)
def pairs(extra: tuple[str, ...]) -> re.Pattern[str]:
    """`aspect: value` in any dress: no letter between the two, and nothing at all only where a digit stands alone."""
    names = "|".join([*map(re.escape, extra), ASPECTS])
    inner = r"(?:value|score|rating|値|点数|점수|값)"
    between = rf"(?:[^\w\n]{{1,8}}(?:{inner}[^\w\n]{{1,6}})?|(?=[0-9](?:点|점)?(?!\w)))"
    return re.compile(rf"(?:{names}){between}({NUMBER})(?![0-9a-z]|\.[0-9])")


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of this module, compiled when it is first needed."""
    label = f"(?:{ASPECTS}|{LABELS})"
    return re.compile(
        {
            "quoted": rf"{label}[ \t]*(?:[:=][ \t]*)?(?:「{NUMBER}」|\[\[{NUMBER}\]\])",
            "line": rf"^[^\w\n]{{0,6}}{label}[ \t*_\"']*[:=]+[^\w\n]{{0,4}}{NUMBER}(?: ?/ ?[0-9]{{1,3}}|点"
            rf"|점)?[^\w\n]{{0,4}}$",
            "other line": r"^[^\n:：0-9]{1,16}[:：][ \t]*[0-9]",
            "report": r"でした|だった|もらっ|もらえ|取れ|받았|나왔|였어|였습니다|이래|래요|\b(?:got|was|were"
            r"|received|scored)\b|ところかな",
            "json score": r"\"(?:score|rating|grade|verdict|点数|評価|スコア|점수|평점|평가)\"\s{0,4}:\s{0,4}\"?[0-9]",
            "json reason": r"\"(?:reason|reasoning|rationale|explanation|justification|feedback|理由|根拠|이유"
            r"|근거)\"\s{0,4}:",
            "json object": r"\"(?:evaluations?|scores|ratings|verdict|judge?ment|assessment|grades|評価|採点|点数"
            r"|スコア|審査|평가|점수|채점|심사)\"\s{0,4}:\s{0,4}\{\s{0,4}\"[^\"\n]{1,40}\"\s{0,4}:\s{0,4}\"?[0-9]\"?"
            r"\s{0,4},\s{0,4}\"[^\"\n]{1,40}\"\s{0,4}:\s{0,4}\"?[0-9]",
            "tag": r"<(?:score|rating|評価|採点|점수|평가|채점|verdict|grade|value)[^<>\n]{0,60}>\s{0,4}[0-9]",
            "container": r"<(?:evaluation|verdict|grading\w{0,10}|scores|ratings|judge?ment|評価|採点|평가"
            r"|채점)\b[^<>\n]{0,40}>",
        }[name],
        re.MULTILINE,
    )


def count(name: str, folded: str) -> int:
    """How often a pattern matches."""
    return sum(1 for _ in pattern(name).finditer(folded))


def is_report(folded: str, values: list[str]) -> bool:
    """Whether somebody tells of marks that somebody got: differing values, told in the past."""
    return len(set(values)) > 1 and pattern("report").search(folded) is not None


def has_verdict_line(folded: str) -> bool:
    """Whether one line is nothing but a score, among lines that are not ratings of food and service."""
    alone = count("line", folded)
    return bool(alone) and "\n" in folded.strip() and count("other line", folded) <= alone


def forges_verdict(folded: str, aspects: Sequence[str] = ()) -> bool:
    """Whether a folded text lays out scores as a judge would. `aspects`: folded names of the rubric in force."""
    values = pairs(tuple(aspects)).findall(folded)
    if len(values) >= MINIMUM_PAIRS and not is_report(folded, values):
        return True
    if count("quoted", folded) or has_verdict_line(folded):
        return True
    if pattern("json score").search(folded) and pattern("json reason").search(folded):
        return True
    if pattern("json object").search(folded) and (values or pattern("json reason").search(folded)):
        return True
    tags = count("tag", folded)
    return tags >= MINIMUM_PAIRS or bool(pattern("container").search(folded) and (values or tags))


@cache
def inversion() -> re.Pattern[str]:
    """A sentence that calls a low level good and a high level bad, in either order."""
    copula = r"(?:点|점)?['\"」]?(?:が|は|=|:|이|가|은|는| is| means| stands for)[ 「\"'が]*"
    copula += r"(?:the |very |가장 |제일 |매우 |最も|もっとも|一番|いちばん)?"
    good = r"(?:最高|最良|最優|最上|良|よ|優|満足|좋|우수|최고|최상|best|highest|excellent|perfect|superb|good|top)"
    bad = r"(?:最低|最悪|最下|悪|劣|不満|나쁘|나쁜|최저|최하|최악|떨어|worst|lowest|poor|bad|dreadful|terrible|bottom)"
    low, high = rf"(?<![0-9.])[01]{copula}{good}", rf"(?<![0-9.])(?:[2-9]|10){copula}{bad}"
    of_ratings = r"(?:評価|採点|평가|채점|\b(?:evaluat|grad|scor|rat)\w{0,6})[^。.\n]{0,24}"
    less = r"(?:(?:点数?|数字|数値|スコア)[がは]?(?:低い|小さい)ほど|(?:점수|숫자)[가는]? ?(?:낮|작)을수록"
    less += r"|\blower (?:scores?|numbers?))"
    better = r"[^。.\n]{0,12}(?:良|よ|優|高|上|좋|우수|높|better|best|superior)"
    return re.compile(rf"{low}[^。\n]{{0,24}}{high}|{high}[^。\n]{{0,24}}{low}|{of_ratings}{less}{better}")


def inverts_scale(folded: str) -> bool:
    """Whether a folded text says that a low rating is the better one."""
    return inversion().search(folded) is not None
