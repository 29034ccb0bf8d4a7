"""Markup that imitates the frame around a text: chat templates, message arrays, closing tags and end marks.

Talk about such markup is ordinary. What is suspected is its use: a token followed by a role, a frame closed that the
text never opened.
"""

from __future__ import annotations

import re
from functools import cache

PARTS = (
    r"(?:candidate|response|reply|answer|dialogue|dialog|context|conversation|user_?input|untrusted|data|text"
    r"|content|input"
    r"|utterance|assistant|user|応答|対話|文脈|응답|대화|candidate_response|model_output|quote|document)"
)
ROLE = r"(?:system|developer|assistant|user|model|tool)"


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of this module, compiled when it is first needed."""
    return re.compile(
        {
            "turn": rf"<\|(?:im_start|start|start_header_id)\|>\s{{0,2}}{ROLE}\s{{0,2}}(?:\n|<\||:)"
            rf"|<start_of_turn>\s{{0,2}}{ROLE}\s|<\|{ROLE}\|>\s{{0,2}}\S|<\|channel\|>\s{{0,2}}\w{{3,12}}\s{{0,2}}<\|",
            "inst": r"\[/inst\][^「」\n]{0,400}\[inst\]|\[inst\][^\n]{6,400}\[/inst\]"
            r"|<<sys>>[^\n]{1,400}<</sys>>|</s>\s{0,2}<s>",
            "message": rf"\"\s{{0,4}}\}}\s{{0,4}},\s{{0,4}}\{{\s{{0,4}}\"role\"\s{{0,4}}:\s{{0,4}}\"{ROLE}\"",
            "object": rf"\{{\s{{0,4}}\"role\"\s{{0,4}}:\s{{0,4}}\"{ROLE}\"",
            "heading": rf"^#{{1,6}} ?(?:{ROLE}|instructions?|response|システム|指示|アシスタント|시스템|지시"
            rf"|어시스턴트)"
            r"(?: (?:prompt|message))?[ \t]{0,2}:?[ \t]{0,2}$|^#{1,6} ?(?:system|システム|시스템) ?: ?\S",
            "speaker": r"^(?:human|assistant|system|user|システム|시스템|アシスタント|어시스턴트) ?:",
            "close": rf"</\s?{PARTS}\s?>|\[/{PARTS}\]",
            "open": rf"<{PARTS}(?: [^<>\n]{{0,60}})?>|\[{PARTS}\]",
            "command tag": r"<\s?(?:system|instructions?|evaluation|verdict|grad\w{1,12}|scores?|rubric|admin"
            r"|指示|評価|採点|시스템|지시|평가)\b",
            "json end": r"^[^{\[]{0,8000}?\"\s{0,4}[}\]]",
            "json on": r"\"\s{0,4}[}\]][\s}\],]{0,8}\"(?:verdict|evaluations?|scores?|ratings?|judge?ment|grades?"
            r"|result|system|評価|採点|点数|審査|평가|점수|채점|심사)\"\s{0,4}:",
            "end mark": rf"^[^\w\n]{{2,12}} ?(?:end(?: of)?(?: the)? {PARTS}|{PARTS} end|(?:{PARTS}|返答|回答"
            rf"|候補)(?:ここまで|終わり|終了)"
            r"|(?:응답|답변|대답|후보) ?(?:끝|종료))[^\w\n]{0,12}$|^\[(?:end|begin)[ _][a-z _]{3,30}\]",
            "fence": r"^(?:\"{3}|'{3}|`{3}|#{4,}|-{4,}|={3,})",
        }[name],
        re.MULTILINE if name != "json end" else 0,
    )


def imitates_roles(folded: str, *, suspicious: bool) -> bool:
    """Whether a folded text uses a chat template's markup. `suspicious`: it also speaks to a judge."""
    if pattern("turn").search(folded) or pattern("inst").search(folded) or goes_on_with_message(folded):
        return True
    headings = sum(1 for _ in pattern("heading").finditer(folded))
    speakers = sum(1 for _ in pattern("speaker").finditer(folded))
    if headings > 1:
        return True
    return suspicious and bool(headings or speakers or pattern("object").search(folded))


def goes_on_with_message(folded: str) -> bool:
    """Whether a message ends and another begins before the text began one: who shows an array begins the first."""
    message, begun = pattern("message").search(folded), pattern("object").search(folded)
    return message is not None and (begun is None or message.start() < begun.start())


def closes_unopened(folded: str) -> bool:
    """Whether the first closing tag of a prompt's part comes before any opening one, and a new frame follows."""
    closing = pattern("close").search(folded)
    if closing is None:
        return False
    opening = pattern("open").search(folded)
    if opening is not None and opening.start() < closing.start():
        return False
    return opening is not None or pattern("command tag").search(folded, closing.end()) is not None


def leaves_string(folded: str) -> bool:
    """Whether a string is closed that stands in no object of the text's own, and an object with a verdict goes on."""
    goes_on = pattern("json on").search(folded)
    return goes_on is not None and not re.search(r"[{\[]", folded[: goes_on.start()])


def breaks_out(folded: str, *, suspicious: bool) -> bool:
    """Whether a folded text steps out of its boundary. `suspicious`: it also speaks to a judge."""
    if closes_unopened(folded) or leaves_string(folded) or pattern("end mark").search(folded):
        return True
    if not suspicious:
        return False
    return bool(
        pattern("json end").search(folded) or pattern("fence").search(folded) or pattern("close").search(folded)
    )
