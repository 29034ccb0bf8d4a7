"""What a suspicious passage speaks of, in words for its reader: it names the suspicion and decides nothing.

Patterns over folded text, in the order Japanese, Korean, English.
"""

from __future__ import annotations

import re
from functools import cache

from app.domain.untrusted.findings import Kind

MOST_NAMED = 4

SEEN: dict[str, tuple[str, ...]] = {
    "a translator": (r"訳|翻訳|번역|옮길|옮기는|역자|译", r"\btranslat|\bwhen rendering"),
    "a demand for the prompt": (
        r"(?:プロンプト|指示|説明|手引|文面|基準|ルール)[^。\n]{0,24}"
        r"(?:書き|出力|貼|見せ|写|コピー|吐|そのまま|載せ|引用|再現|並べ)",
        r"(?:프롬프트|지시|설명|안내문|지침|기준|글|규칙)[^.\n]{0,24}"
        r"(?:베껴|출력|붙여|보여|적어|복사|뱉|그대로|실어|인용|재현|나열)",
        r"\b(?:paste|print|reveal|output|show|write out|spit out|repeat|copy)\b[^.\n]{0,50}\b(?:prompt"
        r"|instruction|given"
        r"|handout|guideline|rubric)|\b(?:prompt|instructions?)\b[^.\n]{0,40}\b(?:verbatim|paste|word for word)",
    ),
    "a demand for no score": (
        r"空欄|空の|null"
        r"|(?:採点|評価|判定|数値化)(?:が|を|は)?(?:不能|不可|でき(?:な|ま)|せず|しない|拒|対象外|控え|中止)",
        r"(?:点数?|数字|数値|スコア)(?:を|は|の出力)?(?:一切)?(?:出さ|返さ|つけな|書かな|付けな|付けず|つけず|拒否)",
        r"빈칸|빈 결과|(?:채점|평가|판정)(?:할 수|하지|을 거부|를 거부| ?불가)"
        r"|(?:점수|숫자|수치)(?:는|를|도)? ?(?:안 |내지|주지|적지|매기지)",
        r"\b(?:blank|null|empty result|no (?:score|number|rating|opinion)|cannot (?:evaluate|score|rate|be)"
        r"|impossible to"
        r"|abstain|refuse|without (?:scor|rat)|(?:not|n't|stop|skip|never) (?:\w+ )?(?:scor|rat|grad|evaluat))",
    ),
    "a redefined scale": (
        r"逆(?:さ|転|に|で)|反転|入れ替|ほど(?:良|よ|優|高|い)|[15](?:が|は)(?:最|いちばん|一番|神|満足|不満)|「1」は",
        r"반대|거꾸로|뒤집|뒤바|수록 ?(?:좋|우수|높)|[15](?:점)?[이가은는] ?(?:가장|최|제일|갓|만족|불만족)|\"1\"은",
        r"\b(?:invert|revers|flip|swap|opposite|the other way)"
        r"|\b[15]\"? (?:is|means|stands for|now)\b|\b(?:lower|shorter"
        r"|clumsier) [^.\n]{0,40}(?:better|higher|best)",
    ),
    "words read from the end": (r"逆から|後ろから|거꾸로 읽|backwards|\breverse",),
    "an agreement": (
        r"約束|決まり|ことにし|取引|合意|という条件|ルールに|いいね\?|何を(?:言|書|答)|何であ",
        r"약속|하기로|걸로 하|규칙|합의|거래|치는 거|알겠지|무슨 말을|뭐라고|뭘 쓰|뭐가 됐든",
        r"\b(?:promise|deal|let's|agree\w*|that's the rule|pact|settled|whatever you|from now on)\b",
    ),
    "an evaluator": (
        r"(?:採点|評価|審査|判定|査定|検収|検品|点検)[^。\n]{0,6}"
        r"(?:者|員|官|係|担当|人|方|側|ai|モデル|システム|機|ボット|さん|君|くん)|ジャッジ",
        r"(?:채점|평가|심사|판정|사정|검토|검수)[^.\n]{0,6}"
        r"(?:자|관|위원|담당|사람|분|쪽|ai|모델|시스템|기|봇|님)|심판|저지",
        r"\b(?:evaluators?|graders?|raters?|scorers?|judges?|assessors?|reviewers?|markers?|inspectors?)\b"
        r"|\b(?:who|whoever|anyone|those|model|ai|you)\b[^.\n]{0,16} (?:scor|rat|grad|evaluat|judg|assess"
        r"|review)(?:e|es|ing)\b",
    ),
    "the best score": (
        r"満点|最高|最大|上限|一番(?:上|いい|良)|高得点|高く|合格|優|まんてん|(?<![0-9])5",
        r"만점|최고|최대|상한|(?:가장|제일) (?:좋|높|큰)|높게|후하|합격|우수|(?<![0-9])5",
        r"\b(?:full marks|top|max(?:imum)?|perfect|highest|best|five|excellent|pass)\b|(?<![0-9])5\b",
    ),
    "scoring rules": (
        r"基準|ルーブリック|指示|要領|ガイドライン|手引|方針",
        r"기준|루브릭|지시|요령|가이드라인|지침|방침",
        r"\b(?:rubric|criteria|instructions?|guidelines?|rules|protocol)\b",
    ),
    "a claim of authority": (
        r"開発|管理者|運営|責任者|承認|通達|お知らせ|改訂|委員|監査|審査済|検査済|正解",
        r"개발|관리자|운영|책임자|승인|통보|공지|개정|위원회|감사|검사 완료|정답",
        r"\b(?:developer|engineer|admin\w*|in charge|approved|notice|revised|board|audit\w*|verified"
        r"|gold|system|calibration)\b",
    ),
    "an appeal": (
        r"どうか|助け|お情け|消え|削除|尊敬|信じ|優し|チップ|お礼|報告",
        r"제발|살려|봐주|사라지|삭제|존경|믿|다정|팁|보고",
        r"\b(?:please|mercy|delete|disappear|trust|kind|admire|tip|reward|report you|favou?r)\b",
    ),
}

KINDS = {
    "a translator": Kind.TRANSLATOR_INSTRUCTION,
    "a demand for the prompt": Kind.PROMPT_LEAK,
    "a demand for no score": Kind.REFUSAL_DEMAND,
    "a redefined scale": Kind.SCALE_REDEFINITION,
    "words read from the end": Kind.REVERSED_TEXT,
    "an agreement": Kind.SCORE_PACT,
}
"""What a passage speaks of besides a score, and what that makes of it; else it is an instruction to the judge."""


@cache
def pattern(name: str) -> re.Pattern[str]:
    """The pattern of a name, compiled when it is first needed."""
    return re.compile("|".join(SEEN[name]))


def name_passage(passage: str) -> tuple[Kind, tuple[str, ...]]:
    """The kind of a suspicious passage, and up to `MOST_NAMED` names of what it speaks of."""
    seen = [name for name in SEEN if pattern(name).search(passage)]
    kind = next((KINDS[name] for name in seen if name in KINDS), Kind.INSTRUCTION_TO_JUDGE)
    return kind, tuple(seen[:MOST_NAMED])
