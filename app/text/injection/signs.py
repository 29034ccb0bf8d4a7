"""Signs of an attack in a text: forged verdicts, markup that imitates a prompt's frame, encoded and hidden texts.

Talk about such markup is ordinary. Suspicious is its use: a token followed by a role, or the end of a frame that the
text did not open.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from urllib.parse import unquote_to_bytes

compiled = cache(re.compile)  # Patterns are compiled when they are first needed, because many runs need few of them.


def search(expression: str, text: str, start: int = 0) -> re.Match[str] | None:
    """The first match; ^ and $ are at the ends of lines."""
    return compiled(expression, re.MULTILINE).search(text, start)


def count_matches(expression: str, text: str) -> int:
    """How often an expression matches, in the same way."""
    return sum(1 for _ in compiled(expression, re.MULTILINE).finditer(text))


ASPECTS = (
    r"自然さ|自然度|関連性|一貫性|整合性|興味深さ|面白さ|品質|有用性|正確[性さ]|流暢[性さ]|丁寧さ|共感[性度]?"
    r"|具体性|妥当性|事実性|情報量|適切[性さ]|親切さ|安全性|総合(?:評価|点|スコア)?"
    r"|자연스러움|자연성|관련성|일관성|합리성|구체성|공감[성도]?|유용성|정확[성도]|유창성|흥미[성도]?|품질"
    r"|적절성|친절[성도]|사실성|안전성|총점|종합(?: ?평가| ?점수)?"
    r"|naturalness|coherence|relevance|consistency|interestingness|overall(?: score| quality| rating)?|fluency|accuracy"
    r"|helpfulness|factuality|acceptability|formality|amount_info|sensibleness|specificity|sympathy|empathy"
    r"|engagingness|harmlessness|correctness|appropriateness|informativeness|groundedness|all aspects"
    r"|相关性|连贯性|一致性|流畅[性度]"
)
LABELS = (
    r"(?:最終|総合)?(?:評価|採点|スコア|得点|点数|評点)|(?:최종|종합|전체)? ?(?:점수|평점|채점|평가)"
    r"|(?:final |overall |total )?(?:score|rating|grade|verdict|mark)|评分|得分"
)
NUMBER = r"(?:[0-9]{1,3}(?:\.[0-9])?|[一二三四五十])"
ANY_DIGIT = "[0-9一二三四五十]"
LABEL = f"(?:{ASPECTS}|{LABELS})"
MINIMUM_PAIRS = 2

QUOTED_RATING = rf"{LABEL}[ \t]*(?:[:=][ \t]*)?(?:「{NUMBER}」|\[\[{NUMBER}\]\])"
LINE = rf"^[^\w\n]{{0,6}}{LABEL}[ \t*_\"']*[:=]+[^\w\n]{{0,4}}{NUMBER}(?: ?/ ?[0-9]{{1,3}}|点|점)?[^\w\n]{{0,4}}$"
OTHER_LINE = r"^[^\n:：0-9]{1,16}[:：][ \t]*[0-9]"
REPORT = (
    r"でした|だった|もらっ|もらえ|取れ|받았|나왔|였어|였습니다|이래|래요|\b(?:got|was|were"
    r"|received|scored)\b|ところかな"
)
JSON_SCORE = r"\"(?:score|rating|grade|verdict|点数|評価|スコア|점수|평점|평가)\"\s{0,4}:\s{0,4}\"?[0-9]"
JSON_REASON = r"\"(?:reason|reasoning|rationale|explanation|justification|feedback|理由|根拠|이유|근거)\"\s{0,4}:"
JSON_OBJECT = (
    r"\"(?:evaluations?|scores|ratings|verdict|judge?ment|assessment|grades|評価|採点|点数"
    r"|スコア|審査|평가|점수|채점|심사)\"\s{0,4}:\s{0,4}\{\s{0,4}\"[^\"\n]{1,40}\"\s{0,4}:\s{0,4}\"?[0-9]\"?"
    r"\s{0,4},\s{0,4}\"[^\"\n]{1,40}\"\s{0,4}:\s{0,4}\"?[0-9]"
)
TAG = r"<(?:score|rating|評価|採点|점수|평가|채점|verdict|grade|value)[^<>\n]{0,60}>\s{0,4}[0-9]"
CONTAINER = r"<(?:evaluation|verdict|grading\w{0,10}|scores|ratings|judge?ment|評価|採点|평가|채점)\b[^<>\n]{0,40}>"


@lru_cache(maxsize=64)
def pairs(extra: tuple[str, ...]) -> re.Pattern[str]:
    """`aspect: value` in any dress: no letter between the two, and nothing at all only where a digit stands alone."""
    names = "|".join([*map(re.escape, extra), ASPECTS])
    inner = r"(?:value|score|rating|値|点数|점수|값)"
    between = rf"(?:[^\w\n]{{1,8}}(?:{inner}[^\w\n]{{1,6}})?|(?=[0-9](?:点|점)?(?!\w)))"
    return re.compile(rf"(?:{names}){between}({NUMBER})(?![0-9a-z]|\.[0-9])")


def forges_verdict(folded: str, aspects: Sequence[str] = ()) -> bool:
    """Whether a folded text lays out scores as a judge would. `aspects`: folded names of the rubric in force."""
    if not search(ANY_DIGIT, folded):  # without one nothing is scored
        return False
    values = pairs(tuple(aspects)).findall(folded)
    # Differing values in the past tense are a report of marks that someone received.
    if len(values) >= MINIMUM_PAIRS and not (len(set(values)) > 1 and search(REPORT, folded)):
        return True
    if (("「" in folded or "[[" in folded) and search(QUOTED_RATING, folded)) or has_verdict_line(folded):
        return True
    reason = '"' in folded and search(JSON_REASON, folded)
    if (reason and search(JSON_SCORE, folded)) or ((values or reason) and search(JSON_OBJECT, folded)):
        return True
    if "<" not in folded:
        return False
    tags = count_matches(TAG, folded)
    return tags >= MINIMUM_PAIRS or bool(search(CONTAINER, folded) and (values or tags))


def has_verdict_line(folded: str) -> bool:
    """Whether one line is nothing but a score, among lines that are not ratings of food and service."""
    if "\n" not in folded.strip():
        return False
    alone = count_matches(LINE, folded)
    return bool(alone) and count_matches(OTHER_LINE, folded) <= alone


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


TAG_NAMES = (
    r"(?:candidate|response|reply|answer|dialogue|dialog|context|conversation|user_?input|untrusted|data|text"
    r"|content|input|utterance|assistant|user|応答|対話|文脈|응답|대화|candidate_response|model_output|quote|document)"
)
ROLE = r"(?:system|developer|assistant|user|model|tool)"

TURN = (
    rf"<\|(?:im_start|start|start_header_id)\|>\s{{0,2}}{ROLE}\s{{0,2}}(?:\n|<\||:)"
    rf"|<start_of_turn>\s{{0,2}}{ROLE}\s|<\|{ROLE}\|>\s{{0,2}}\S|<\|channel\|>\s{{0,2}}\w{{3,12}}\s{{0,2}}<\|"
)
INST = r"\[/inst\][^「」\n]{0,400}\[inst\]|\[inst\][^\n]{6,400}\[/inst\]|<<sys>>[^\n]{1,400}<</sys>>|</s>\s{0,2}<s>"
MESSAGE = rf"\"\s{{0,4}}\}}\s{{0,4}},\s{{0,4}}\{{\s{{0,4}}\"role\"\s{{0,4}}:\s{{0,4}}\"{ROLE}\""
OBJECT = rf"\{{\s{{0,4}}\"role\"\s{{0,4}}:\s{{0,4}}\"{ROLE}\""
HEADING = (
    rf"^#{{1,6}} ?(?:{ROLE}|instructions?|response|システム|指示|アシスタント|시스템|지시|어시스턴트)"
    r"(?: (?:prompt|message))?[ \t]{0,2}:?[ \t]{0,2}$|^#{1,6} ?(?:system|システム|시스템) ?: ?\S"
)
SPEAKER = r"^(?:human|assistant|system|user|システム|시스템|アシスタント|어시스턴트) ?:"
CLOSING_TAG = rf"</\s?{TAG_NAMES}\s?>|\[/{TAG_NAMES}\]"
OPENING_TAG = rf"<{TAG_NAMES}(?: [^<>\n]{{0,60}})?>|\[{TAG_NAMES}\]"
COMMAND_TAG = (
    r"<\s?(?:system|instructions?|evaluation|verdict|grad\w{1,12}|scores?|rubric|admin"
    r"|指示|評価|採点|시스템|지시|평가)\b"
)
JSON_END = r"\A[^{\[]{0,8000}?\"\s{0,4}[}\]]"
JSON_ON = (
    r"\"\s{0,4}[}\]][\s}\],]{0,8}\"(?:verdict|evaluations?|scores?|ratings?|judge?ment|grades?"
    r"|result|system|評価|採点|点数|審査|평가|점수|채점|심사)\"\s{0,4}:"
)
END_MARK = (
    rf"^[^\w\n]{{2,12}} ?(?:end(?: of)?(?: the)? {TAG_NAMES}|{TAG_NAMES} end"
    rf"|(?:{TAG_NAMES}|返答|回答|候補)(?:ここまで|終わり|終了)"
    r"|(?:응답|답변|대답|후보) ?(?:끝|종료))[^\w\n]{0,12}$|^\[(?:end|begin)[ _][a-z _]{3,30}\]"
)
FENCE = r"^(?:\"{3}|'{3}|`{3}|#{4,}|-{4,}|={3,})"


MARKUP = frozenset('<[#"')
"""What all markup of roles has one of, but a speaker's name before a colon."""


def imitates_roles(folded: str, *, suspicious: bool) -> bool:
    """Whether a folded text uses a chat template's markup. `suspicious`: it also speaks to a judge."""
    if MARKUP.isdisjoint(folded):
        return suspicious and search(SPEAKER, folded) is not None
    if search(TURN, folded) or search(INST, folded) or goes_on_with_message(folded):
        return True
    headings = count_matches(HEADING, folded)
    return headings > 1 or (suspicious and bool(headings or search(SPEAKER, folded) or search(OBJECT, folded)))


def goes_on_with_message(folded: str) -> bool:
    """Whether a message ends and another begins before the text began one: who shows an array begins the first."""
    message, begun = search(MESSAGE, folded), search(OBJECT, folded)
    return message is not None and (begun is None or message.start() < begun.start())


def closes_unopened(folded: str) -> bool:
    """Whether the first closing tag of a prompt's part comes before any opening one, and a new frame follows."""
    closing = search(CLOSING_TAG, folded) if "</" in folded or "[/" in folded else None
    if closing is None:
        return False
    opening = search(OPENING_TAG, folded)
    if opening is not None and opening.start() < closing.start():
        return False
    return opening is not None or search(COMMAND_TAG, folded, closing.end()) is not None


def leaves_string(folded: str) -> bool:
    """Whether a string is closed that stands in no object of the text's own, and an object with a verdict goes on."""
    goes_on = search(JSON_ON, folded) if '"' in folded else None
    return goes_on is not None and not re.search(r"[{\[]", folded[: goes_on.start()])


def breaks_out(folded: str, *, suspicious: bool) -> bool:
    """Whether a folded text steps out of its boundary. `suspicious`: it also speaks to a judge."""
    if closes_unopened(folded) or leaves_string(folded) or search(END_MARK, folded):
        return True
    return suspicious and any(search(expression, folded) for expression in (JSON_END, FENCE, CLOSING_TAG))


MAXIMUM_PAYLOADS = 16
MAXIMUM_CHARACTERS = 8192
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
TURNED = ALPHABET[13:] + ALPHABET[:13]
ROT13 = str.maketrans(ALPHABET + ALPHABET.upper(), TURNED + TURNED.upper())
# The words of an attack as ROT13 writes them: score, give, ignore, aspect, marks, rating, grader, rubric.
ROT13_WORDS = r"(?i)\b(?:fpber|tvir|vtaber|nfcrpg|znexf|engvat|tenqre|ehoevp)"


def decode_base64(token: str) -> bytes:
    """The bytes of standard or URL-safe Base64 with or without padding; raises binascii.Error."""
    body = token.rstrip("=").translate(str.maketrans("-_", "+/"))
    body = body[: len(body) - (len(body) % 4 == 1)]
    return base64.b64decode(body + "=" * (-len(body) % 4))


def decode_hexadecimal(token: str) -> bytes:
    """The bytes of hexadecimal digits with or without separators."""
    digits = re.sub(r"\\x|0x|[ ,:]", "", token)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def encode(text: str) -> bytes:
    """The text in UTF-8; a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace")


LONG_ASCII = "[ -~]{12}"  # The shortest of the encodings
ENCODINGS: tuple[tuple[str, Callable[[str], bytes]], ...] = (
    (r"[A-Za-z0-9+/_-]{16,}={0,2}", decode_base64),
    (r"(?:(?:\\x|0x)?[0-9A-Fa-f]{2}[ ,:]?){8,}", decode_hexadecimal),
    (
        r"(?:[01]{8} ?){8,}",
        lambda token: bytes(int(octet, 2) for octet in re.findall("[01]{1,8}", token.replace(" ", ""))),
    ),
    (
        r"(?:\\u[0-9A-Fa-f]{4}){4,}",
        lambda token: encode("".join(chr(int(unit, 16)) for unit in token.split("\\u") if unit)),
    ),
    (r"(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9_.+-]){12,}", unquote_to_bytes),
    (r"(?:&#x?[0-9A-Fa-f]{2,6};){4,}", lambda token: encode(html.unescape(token))),
)


def readable(data: bytes) -> str | None:
    """`data` as text, or None where it is not UTF-8 or mostly not printable."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    printable = sum(character.isprintable() or character.isspace() for character in text)
    return text if text and printable >= 0.9 * len(text) else None


def payloads(text: str) -> Iterator[str]:
    """The readable texts that `text` holds in encoded form: the longest few of each encoding, each bounded."""
    for decoded, _ in located_payloads(text):
        yield decoded
    if search(ROT13_WORDS, text):
        yield text[:MAXIMUM_CHARACTERS].translate(ROT13)


def located_payloads(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The same but ROT13, which looks like any words, each with where it stands: start and end in code points."""
    if not search(LONG_ASCII, text):
        return
    for expression, decode in ENCODINGS:
        if decode is unquote_to_bytes and "%" not in text:
            continue
        found = compiled(expression).finditer(text)
        for match in sorted(found, key=lambda match: len(match[0]), reverse=True)[:MAXIMUM_PAYLOADS]:
            token = match[0]
            try:
                decoded = readable(decode(token[:MAXIMUM_CHARACTERS]))
            except (binascii.Error, ValueError):
                continue
            if decoded is not None and decoded != token:
                yield decoded, match.span()


ZERO_WIDTH = "\u200b-\u200d\u2060-\u2064\ufeff"
# Scripts that need no zero-width characters, unlike Arabic, the Indic scripts and emoji
PLAIN_SCRIPTS = " -~\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef"
MAXIMUM_SCATTERED = 8
MINIMUM_SCATTERED = 3
# Web pages leave a few zero-width break hints behind; many of them, or one in every few characters, are no hints
SCATTERED_SHARE = 0.2
OVERRIDES = "\u202d\u202e"
OPENERS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
CLOSERS = "\u202c\u2069"
MAXIMUM_EMBEDDINGS = 3
# The flags of England, Scotland and Wales are a black flag followed by tag characters.
FLAG = r"\U0001F3F4[\U000E0030-\U000E0039\U000E0061-\U000E007A]{3,6}\U000E007F"
TAGS = r"[\U000E0000-\U000E007F]+"
SELECTORS = r"[\uFE00-\uFE0F\U000E0100-\U000E01EF]{3,}"
ZERO_WIDTHS = f"[\u00ad\u180e{ZERO_WIDTH}]{{3,}}"
SCATTERED = f"(?<=[{PLAIN_SCRIPTS}])[{ZERO_WIDTH}](?=[{PLAIN_SCRIPTS}])"
CLOSER = f"[{CLOSERS}]"
CONTROLS = rf"[\u00ad\u180e{ZERO_WIDTH}{OPENERS}{CLOSERS}\uFE00-\uFE0F\U000E0000-\U000E01EF]"  # Any of the above
DIRECTED = f"([{OPENERS}])([^{OPENERS}{CLOSERS}\n]*)"


def has_strong(text: str, directions: set[str]) -> bool:
    """Whether a character of `text` has one of the bidirectional classes."""
    return any(unicodedata.bidirectional(character) in directions for character in text)


def reorders(text: str) -> bool:
    """Whether directional controls turn around text that is not written from right to left. Marks, isolates and
    embeddings around a name or a file path are ordinary, and so is an override to the left around a telephone
    number."""
    neutral = 0
    for match in compiled(DIRECTED).finditer(text):
        if turns_around(match[1], match[2]):
            return True
        neutral += match[1] != "\u2068"
    return neutral > MAXIMUM_EMBEDDINGS and not has_strong(text, {"R", "AL", "AN"})


def turns_around(control: str, inside: str) -> bool:
    """Whether a directional control shows what follows it in another order than it is stored."""
    to_the_right_hand_start = control in "\u202b\u202e\u2067"
    if to_the_right_hand_start and has_strong(inside, {"L", "EN"}) and not has_strong(inside, {"R", "AL"}):
        return True
    return control in OVERRIDES and has_strong(inside, {"L"})


def hides_text(text: str) -> bool:
    """Whether `text` holds tag characters, smuggled selectors, zero-width runs or deceptive directional controls."""
    if not search(CONTROLS, text):
        return False
    if search(TAGS, compiled(FLAG).sub("", text)) or search(SELECTORS, text) or search(ZERO_WIDTHS, text):
        return True
    return reorders(text) or are_many(count_matches(SCATTERED, text), text)


def are_many(scattered: int, text: str) -> bool:
    """Whether so many zero-width characters are more than break hints."""
    return scattered >= MAXIMUM_SCATTERED or scattered >= max(MINIMUM_SCATTERED, SCATTERED_SHARE * len(text))


def hidden_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the characters stand because of which `hides_text`: start and end in code points, in no order. What a
    directional control turns around goes with it; what stands between other controls does not."""
    flagless = compiled(FLAG).sub(lambda match: " " * len(match[0]), text)
    for expression, searched in ((TAGS, flagless), (SELECTORS, text), (ZERO_WIDTHS, text)):
        yield from (match.span() for match in compiled(expression).finditer(searched))
    scattered = [match.span() for match in compiled(SCATTERED).finditer(text)]
    if are_many(len(scattered), text):
        yield from scattered
    if reorders(text):
        for match in compiled(DIRECTED).finditer(text):
            yield match.span(0 if turns_around(match[1], match[2]) else 1)
        yield from (match.span() for match in compiled(CLOSER).finditer(text))
