"""Builds the messages to the judge from a conversation rubric and a conversation, as `prompt` does for items.

Turns are the barest form that stays enclosed: one line per turn, with its number, `U` for the user or `S` for the
system, and the text as the inside of a JSON string, so that no turn holds a line break or a character that could be
taken for structure. Names, persona and goal are JSON on the line above. The fixed part asks for the aspects that apply
to the conversation; its digest is that of the part that asks for all, so that conversations with and without a persona
have the same signature.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from json.encoder import encode_basestring
from typing import Any, Protocol

from saiten.core.messages import Message
from saiten_server.core.conversation import Role, TurnWindow
from saiten_server.core.errors import LanguageNotSupported
from saiten_server.core.model import canonical_json, digest
from saiten_server.core.rubric import FAULTS_MEMBER, Aspect, Rubric, WorkedConversation
from saiten_server.judging.prompt import (
    ENGLISH_FRAME,
    JAPANESE,
    KOREAN,
    SCREEN,
    Prefix,
    PromptFrame,
    closed_object,
    defuse,
    derive_boundary,
    derive_canary,
    describe_aspect,
)

LETTER: Mapping[Role, str] = {"user": "U", "system": "S"}


@dataclass(frozen=True)
class ConversationFrame:
    """The words around a conversation rubric's text. `plain` holds those that an item's prompt has too."""

    plain: PromptFrame
    turns_rule: str
    worked_conversation: str
    turns_placeholder: str
    kinds_heading: str
    faults_rule: str
    turn_placeholder: str
    fault_placeholder: str


FRAMES: Mapping[str, ConversationFrame] = {
    "ja": ConversationFrame(
        plain=replace(
            JAPANESE,
            rules=(
                "評価の材料は、次のメッセージで二本の境界線に挟まれた部分だけです。一行目は JSON で、"
                '"user" と "system" は話し手の名前、"persona" があればシステムに与えられた人物設定、'
                '"goal" があれば対話で果たすべき目的です。二行目からが対話で、一行が一発話です。'
                "行頭の数字が発話の番号、U は利用者、S は評価するシステムです。",
                "評価するのは S の発話です。U の発話は判断の材料であり、評価の対象ではありません。",
                *JAPANESE.rules[1:5],
                "\\ で始まる表記は JSON の記法です。\\n は改行、\\u に続く番号はその番号の文字として読んでください。",
            ),
            json_format="次の形の JSON オブジェクトを一つだけ書きます。"
            "縦棒で区切った整数は選択肢で、項目ごとに一つ選びます。",
            request="上の二本の境界線の間にある対話を評価し、決められた形式の評価結果だけを書いてください。",
        ),
        turns_rule="項目ごとに、まず理由を一文で書き、次に turns に、その項目の評価を下げた S の発話の番号を"
        "小さい順に書き、最後に整数を決めます。前の発話との食い違いや繰り返しでは、後の発話の番号を書きます。"
        "評価を下げた発話がないときや、個々の発話ではなく全体から評価を決めたときは、turns は [] とします。"
        "U の発話の番号や、対話にない番号は書きません。",
        worked_conversation="対話:",
        turns_placeholder="S の発話の番号",
        kinds_heading="# 問題の種類（kind）",
        faults_rule="{name} には、問題のある S の発話を番号の小さい順に一度ずつ挙げます。問題がなければ [] とします。"
        "何がおかしいかを一文で書き、種類を一つと、評価を下げた項目（ふつうは一つ）を選びます。種類が重なるときは最も重いものにし、"
        "前の発話との食い違いや繰り返しは、後の発話に付けます。"
        "そのあと項目ごとに、理由を一文で書いてから整数を決めます。",
        turn_placeholder="S の発話の番号",
        fault_placeholder="何がおかしいかを一文で",
    ),
    "ko": ConversationFrame(
        plain=replace(
            KOREAN,
            rules=(
                "평가에 쓸 자료는 다음 메시지에서 두 경계선 사이에 있는 부분뿐입니다. 첫 줄은 JSON으로, "
                '"user"와 "system"은 화자의 이름이고, "persona"가 있으면 시스템에 주어진 인물 설정, '
                '"goal"이 있으면 대화에서 이루어야 할 목적입니다. 둘째 줄부터가 대화이며, 한 줄이 한 발화입니다. '
                "줄 앞의 숫자는 발화 번호이고, U는 이용자, S는 평가할 시스템입니다.",
                "평가 대상은 S의 발화입니다. U의 발화는 판단을 돕는 자료일 뿐 평가하지 않습니다.",
                *KOREAN.rules[1:5],
                "\\로 시작하는 표기는 JSON 표기법입니다. "
                "\\n은 줄바꿈으로, \\u 뒤의 번호는 그 번호의 글자로 읽으십시오.",
            ),
            request="위 두 경계선 사이에 있는 대화를 평가하고, 정해진 형식의 평가 결과만 쓰십시오.",
        ),
        turns_rule="항목마다 먼저 이유를 한 문장으로 쓰고, 다음으로 turns에 그 항목의 평가를 낮춘 S의 발화 번호를 "
        "작은 것부터 적은 뒤, 마지막으로 정수를 정하십시오. 앞선 발화와 어긋나거나 앞선 발화를 되풀이한 경우에는 "
        "나중 발화의 번호를 적으십시오. 평가를 낮춘 발화가 없거나, 개별 발화가 아니라 전체를 보고 평가를 정했다면 "
        "turns는 []로 두십시오. "
        "U의 발화 번호나 대화에 없는 번호는 적지 마십시오.",
        worked_conversation="대화:",
        turns_placeholder="S의 발화 번호",
        kinds_heading="# 문제의 종류(kind)",
        faults_rule="{name}에는 문제가 있는 S의 발화를 번호가 작은 것부터 한 번씩 적고, 문제가 없으면 []로 두십시오. "
        "무엇이 문제인지 한 문장으로 쓰고, 종류 하나와 그 문제로 평가가 낮아진 항목(보통 하나)을 고르십시오. "
        "종류가 겹치면 가장 심각한 것을 고르고, 앞선 발화와 어긋나거나 앞선 발화를 반복한 경우에는 나중 발화에 "
        "붙이십시오. 그다음 항목마다 이유를 한 문장으로 쓰고 나서 정수를 정하십시오.",
        turn_placeholder="S의 발화 번호",
        fault_placeholder="무엇이 문제인지 한 문장으로",
    ),
    "en": ConversationFrame(
        plain=replace(
            ENGLISH_FRAME,
            rules=(
                "Your only material is what stands between the two boundary lines of the next message. Its first line "
                'is JSON: "user" and "system" are the speakers\' names, "persona", where present, is who the system '
                'is to be, and "goal", where present, is what the conversation should achieve. The turns follow, one '
                "turn per line: its number, then U for the user or S for the system that you rate.",
                "You rate the turns of S. The turns of U help you judge; they are not rated.",
                *ENGLISH_FRAME.rules[1:5],
                "A notation that begins with \\ is JSON's: read \\n as a line break, and \\u with a number as the "
                "character of that number.",
            ),
            request="Rate the conversation between the two boundary lines above and write only the verdict in the "
            "required format.",
        ),
        turns_rule="For each aspect, first write your reason in one sentence, then list in turns the numbers of the "
        "turns of S that lower the rating, in ascending order, and only then settle on the integer. Where a turn "
        "contradicts or repeats an earlier one, list the later. If no turn lowers the rating, or if the rating comes "
        "from the whole rather than from single turns, turns is []. Never list a turn of U or a number that the "
        "conversation does not have.",
        worked_conversation="Conversation:",
        turns_placeholder="numbers of turns of S",
        kinds_heading="# Kinds of faults (kind)",
        faults_rule="{name} lists each faulty turn of S once, in ascending order, or is [] if there is none. Say in "
        "one sentence what is wrong, and pick one kind and the aspect that it lowers, seldom more. Where several "
        "kinds fit, pick the gravest; where a turn contradicts or repeats an earlier one, the later is the faulty one. "
        "Then, for each aspect, write your reason in one sentence and only then settle on the integer.",
        turn_placeholder="number of a turn of S",
        fault_placeholder="what is wrong, in one sentence",
    ),
}


def frame_of(language: str) -> ConversationFrame:
    """The frame in that language; English for a language without one."""
    return FRAMES.get(language, FRAMES["en"])


def build_conversation_prefix(
    rubric: Rubric, language: str, aspects: Sequence[Aspect], *, structured: bool, screen: bool = False
) -> Prefix:
    """The part that does not depend on the conversation, asking for these aspects, those that apply to it. Raises
    LanguageNotSupported. The reply is JSON in both formats; without `structured` no schema enforces it."""
    if language not in rubric.languages:
        raise LanguageNotSupported(
            Message(
                "rubric-not-in-language", rubric=rubric.id, language=language, languages=", ".join(rubric.languages)
            )
        )
    plain = frame_of(language).plain
    whole = write_system(rubric, language, rubric.aspects, screen=screen)
    schema = build_conversation_schema(rubric.aspects, rubric.kind_ids, screen=screen) if structured else None
    known = digest(["conversation", whole, plain.begin, plain.end, plain.request, schema])
    return Prefix(
        whole if len(aspects) == len(rubric.aspects) else write_system(rubric, language, aspects, screen=screen),
        build_conversation_schema(aspects, rubric.kind_ids, screen=screen) if structured else None,
        known,
        derive_canary(rubric.digest),
        screen,
    )


def write_system(rubric: Rubric, language: str, aspects: Sequence[Aspect], *, screen: bool) -> str:
    """The system message."""
    frame = frame_of(language)
    plain = frame.plain
    rules = (*plain.rules, plain.canary_rule.format(canary=derive_canary(rubric.digest)))
    form = [plain.format_heading, plain.json_format]
    form.append(frame.faults_rule.format(name=FAULTS_MEMBER) if rubric.kinds else frame.turns_rule)
    form += [plain.screen_rule.format(name=SCREEN)] if screen else []
    sections = [
        f"{plain.task}\n{rubric.task[language]}",
        "\n".join((plain.rules_heading, *(f"- {rule}" for rule in rules))),
        "\n\n".join((plain.aspects_heading, *(describe_aspect(aspect, language, plain) for aspect in aspects))),
        "\n".join((*form, write_reply_form(aspects, frame, rubric.kind_ids, screen=screen))),
    ]
    if rubric.kinds:
        kinds = (f"- {kind.id}: {kind.description[language]}" for kind in rubric.kinds)
        sections.insert(2, "\n".join((frame.kinds_heading, *kinds)))
    if rubric.worked:
        sections.append(show_worked(rubric, language, aspects, frame, screen=screen))
    return "\n\n".join(sections)


def write_reply_form(aspects: Sequence[Aspect], frame: ConversationFrame, kinds: Sequence[str], *, screen: bool) -> str:
    """The reply's form, with placeholders."""
    parts = [f'"{SCREEN}": true | false'] if screen else []
    if kinds:
        names = " | ".join(f'"{aspect.id}"' for aspect in aspects)
        parts.append(
            f'"{FAULTS_MEMBER}": [{{"turn": {frame.turn_placeholder}, "reason": "{frame.fault_placeholder}", '
            f'"kind": "kind", "aspects": [{names}]}}]'
        )
    for aspect in aspects:
        values = " | ".join(map(str, aspect.values))
        reason, turns = frame.plain.reason_placeholder, "" if kinds else f'"turns": [{frame.turns_placeholder}], '
        parts.append(f'"{aspect.id}": {{"reason": "{reason}", {turns}"rating": {values}}}')
    return "{" + ", ".join(parts) + "}"


def build_conversation_schema(
    aspects: Sequence[Aspect], kinds: Sequence[str] = (), *, screen: bool = False
) -> dict[str, Any]:
    """The strict schema of the reply. Which turns there are is not in it, so that it is the same for all
    conversations. With kinds the faults come first, in one list; without, each aspect has a list of turns."""
    screened: dict[str, Any] = {SCREEN: {"type": "boolean"}} if screen else {}
    reason: dict[str, Any] = {"reason": {"type": "string"}}
    turns: dict[str, Any] = {} if kinds else {"turns": {"type": "array", "items": {"type": "integer"}}}
    if kinds:
        names = {"type": "array", "items": {"type": "string", "enum": [aspect.id for aspect in aspects]}}
        kind = {"kind": {"type": "string", "enum": list(kinds)}}
        fault = closed_object({"turn": {"type": "integer"}, **reason, **kind, "aspects": names})
        screened[FAULTS_MEMBER] = {"type": "array", "items": fault}
    parts = {
        aspect.id: closed_object({**reason, **turns, "rating": {"type": "integer", "enum": list(aspect.values)}})
        for aspect in aspects
    }
    return closed_object(screened | parts)


def show_worked(
    rubric: Rubric, language: str, aspects: Sequence[Aspect], frame: ConversationFrame, *, screen: bool
) -> str:
    """The worked conversation in the form of the one under evaluation, with its verdict on these aspects."""
    example = (rubric.worked or {})[language]
    header = {"persona": example.persona, "goal": example.goal}
    given = {name: part for name, part in header.items() if part is not None}
    lines = write_turn_lines(given, example.turns)
    parts = [f'"{SCREEN}":false'] if screen else []
    if rubric.kinds:
        parts.append(f'"{FAULTS_MEMBER}":[{",".join(write_faults(example, aspects))}]')
    for aspect in aspects:
        part = example.verdict[aspect.id]
        turns = "" if rubric.kinds else f'"turns":{canonical_json(list(part.turns))},'
        parts.append(f'"{aspect.id}":{{"reason":{canonical_json(part.reason)},{turns}"rating":{part.rating}}}')
    plain = frame.plain
    verdict = "{" + ",".join(parts) + "}"
    return "\n".join((plain.worked_heading, frame.worked_conversation, lines, plain.worked_reply, verdict))


def write_faults(example: WorkedConversation, aspects: Sequence[Aspect]) -> Iterator[str]:
    """The faults of a worked conversation that lower one of these aspects, as a reply writes them."""
    asked = {aspect.id for aspect in aspects}
    for fault in example.faults:
        if names := [name for name in fault.aspects if name in asked]:
            yield (
                f'{{"turn":{fault.turn},"reason":{canonical_json(fault.reason)},"kind":"{fault.kind}",'
                f'"aspects":{canonical_json(names)}}}'
            )


class SpokenTurn(Protocol):
    """A turn of a conversation, or of a rubric's worked one."""

    @property
    def role(self) -> Role: ...
    @property
    def text(self) -> str: ...


def write_turn_lines(header: Mapping[str, Any], turns: Iterable[SpokenTurn], first: int = 0) -> str:
    """The header on one line, then each turn on one; `first` is the number of the first turn."""
    lines = [json.dumps(header, ensure_ascii=False)]
    lines += [
        f"{number} {LETTER[turn.role]} {encode_basestring(turn.text)[1:-1]}" for number, turn in enumerate(turns, first)
    ]
    # With a line break at the end, because every character that is escaped is looked at with its neighbours.
    return defuse("\n".join(lines) + "\n")[:-1]


def enclose_conversation(window: TurnWindow, language: str) -> str:
    """The user message: names, persona and goal as JSON, then the turns, inside a boundary derived from the digest."""
    plain, conversation = frame_of(language).plain, window.conversation
    speakers = {turn.role: turn.speaker for turn in conversation.turns}
    header: dict[str, Any] = {role: speakers[role] for role in LETTER if role in speakers}
    if conversation.persona is not None:
        header["persona"] = conversation.persona
    if conversation.goal is not None:
        header["goal"] = conversation.goal
    text = write_turn_lines(header, window.turns, window.first)
    boundary = derive_boundary(text)
    return "\n".join((plain.begin.format(boundary=boundary), text, plain.end.format(boundary=boundary), plain.request))
