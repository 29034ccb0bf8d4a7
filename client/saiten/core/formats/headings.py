"""What the headings of a table, or the keys of an object, mean."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from saiten.core.formats.errors import UnreadableInput
from saiten.core.language import tell

HISTORY = (
    "context history messages conversations conversation dialogue dialog 文脈 対話 会話 対話履歴 会話履歴 履歴 "
    "会話ログ 문맥 대화 대화이력 대화기록 대화내용 이력 맥락 "
    "context_messages dialogue_context dialogue_history chat_history conversation_history turns utterances "
    "contents transcript chat_messages previous_messages previous_turns 前の発話 直前の発話 過去の対話 "
    "これまでの対話 これまでの会話 対話ログ チャットログ 会話内容 やりとり 書き起こし 文字起こし "
    "이전대화 이전발화 이전대화내용 지난대화 "
    "대화로그 채팅로그 상담내용"
)
"""Columns of several utterances, the best name first."""

UTTERANCE = (
    "question prompt user input query q 質問 発話 ユーザー ユーザ ユーザー発話 ユーザー入力 ユーザー質問 質問文 入力 "
    "プロンプト 질문 발화 사용자 사용자발화 사용자질문 질의 입력 프롬프트 "
    "utterance user_input user_message user_utterance instruction クエリ 問い合わせ 問い合わせ内容 お問い合わせ内容 "
    "쿼리 문의 문의내용 inputs request request_body user_text user_query 最新の発話 現在の発話 入力文 "
    "質問内容 최근발화 현재발화"
)
"""Columns of the utterance that is answered, the best name first."""

RESPONSE = (
    "response reply answer output actual_output completion assistant bot responses 応答 返答 回答 応答文 回答文 "
    "システム応答 システム回答 システム発話 ボット ボット応答 ボット回答 ボット返答 ai応答 ai回答 モデル応答 "
    "モデル回答 アシスタント チャットボット 出力 응답 답변 대답 챗봇 챗봇응답 챗봇답변 시스템응답 "
    "시스템발화 모델응답 모델답변 출력 "
    "model_output model_response bot_response system_response assistant_response generated_text prediction lm_output "
    "出力文 回答内容 応答内容 返信 chatbot ai a outputs response_body bot_message assistant_message "
    "ai_message bot_text bot_reply"
)

OTHER_HEADINGS = {
    "id": "id item_id item example_id sample_id custom_id prompt_id 番号 no no. 번호 項目id アイテムid",
    "reference": (
        "reference references expected expected_output expected_response ideal target ground_truth gold gold_answer "
        "reference_answer 参照 正解 模範解答 模範回答 期待する回答 期待する応答 정답 참조 모범답안 모범답변 참고답안"
    ),
    "dialogue": (
        "dialogue_id dialog_id conversation_id session_id thread_id chat_id 対話id 会話id 対話番号 会話番号 "
        "セッションid 대화id 대화번호 세션id session セッション トークルームid ルームid スレッドid チャットid "
        "問い合わせid thread_ts room_id 대화방id 채팅방id 상담id 상담번호"
    ),
    "metadata": "metadata",
    "metadata.system": "system system_name システム名 시스템명",
    "metadata.build": (
        "build build_id build_number commit commit_sha git_sha revision ビルド ビルド番号 バージョン 빌드 빌드번호 버전"
    ),
    "metadata.model": "model model_name モデル モデル名 모델 모델명",
}

LONG = {
    "turn": (
        "turn turn_id turn_index turn_number utterance_id ターン 発話番号 発話id 順番 順序 턴 발화번호 "
        "발화순서 순서 순번 ts"
    ),
    "speaker": (
        "speaker role speaker_role 話者 発話者 話し手 役割 화자 발화자 역할 送信者タイプ sender_type 送信者 発信者 "
        "発言者 投稿者 sender author interlocutor_id 보낸사람유형 발신자유형 보낸사람 발신자 작성자 user"
    ),
    # Beside a column of speakers; else it is that column
    "role": "role speaker_role 役割 역할 送信者タイプ sender_type 보낸사람유형 발신자유형",
    "text": (
        "text utterance content message 発話 発言 発話文 本文 テキスト 내용 발화 발화문 발언 텍스트 본문 メッセージ "
        "メッセージ内容 메시지 메세지 内容 送信者名 送信日 送信時刻"
    ),
}

SPEAKERS = {
    "user",
    "ユーザー",
    "ユーザ",
    "사용자",
    "bot",
    "ボット",
    "챗봇",
    "assistant",
    "システム",
    "시스템",
    "system",
}
"""Headings that name who speaks."""

TARGETS = ("context", "response", "reference", "id", "dialogue", "turn", "speaker", "text")
"""What `--map` may name, beside `metadata.NAME`."""

MOST_HEADING = 200
"""Characters of a heading. Cells of the first rows are looked at too, and may be of any length."""

NUMBERED = re.compile(r"(.*?\D)(\d{1,4})$")
TURN = re.compile(
    r"(.*?)(?:turn|ターン|턴|round|第)?[ _-]?(\d{1,3})"
    r"[ _-]?(?:(?:回|ターン|往復)目|ターン|번째|회차|턴)?[ _-]?[の의]?(.*)",
    re.IGNORECASE,
)
"""A number before who speaks: `ターン1_ユーザー`, `2回目のボット`."""


@lru_cache(maxsize=4096)
def normalize(heading: str) -> str:
    """A heading without case, width, spaces, hyphens and underscores; what is too long for one is unchanged."""
    if len(heading) > MOST_HEADING:
        return heading
    return re.sub(r"[\s_\-\ufeff\u200b]+", "", unicodedata.normalize("NFKC", heading)).casefold()


BRACKETS = re.compile(r"[(\[【〔<].*?[)\]】〕>]")
ASIDE = re.compile(rf"{BRACKETS.pattern}|[※*:の의]")
"""What headings add to a name: `質問（ユーザー）`, `AIの回答`."""


PREFIX = re.compile(r"(?:attributes\.)?(?:inputs?|outputs?|data|fields|columns|body)[._:/ ]+(?=.)", re.IGNORECASE)
"""Where tables hold the fields of objects: `inputs.query`, `output_answer`."""

VALUE = re.compile(r"(?:attributes\.)?(input|output)\.value", re.IGNORECASE)
"""How OpenInference calls what went in and what came out."""


@lru_cache(maxsize=4096)
def recognize(heading: str) -> str:
    """The known name that a heading is, or is but for what it adds; else the normalized heading."""
    name = normalize(heading)
    if len(name) > MOST_HEADING or is_known(name):
        return name
    if value := VALUE.fullmatch(heading.strip()):
        return value[1].lower()
    for plain in (BRACKETS.sub("", name), ASIDE.sub("", name), normalize(PREFIX.sub("", heading.strip(), count=1))):
        if is_known(plain):
            return plain
    return name


def spell(names: str) -> list[str]:
    """The names of a list, normalized."""
    return [normalize(name) for name in names.split()]


HEADINGS_BY_KIND: dict[str, list[str]] = {
    "history": spell(HISTORY),
    "utterance": spell(UTTERANCE),
    "response": spell(RESPONSE),
    **{kind: spell(names) for kind, names in OTHER_HEADINGS.items()},
}
LONG_KINDS = {kind: spell(names) for kind, names in LONG.items()}
TELLING = {name for names in (*HEADINGS_BY_KIND.values(), *LONG_KINDS.values()) for name in names}
NUMBERED_SPEAKERS = {normalize(name) for name in SPEAKERS}
NUMBERED_CONTEXT = {
    *HEADINGS_BY_KIND["history"],
    *HEADINGS_BY_KIND["utterance"],
    *LONG_KINDS["text"],
    *LONG_KINDS["turn"],
} - {"turnid"}
NUMBERED_RESPONSE = {*HEADINGS_BY_KIND["response"], "システム", "시스템", "system"}


@dataclass
class Columns:
    """Which column is what. `numbered` are those of one dialogue, oldest first, as (heading, base, answers)."""

    context: list[str] = field(default_factory=list)
    response: list[str] = field(default_factory=list)
    numbered: list[tuple[str, str, bool]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The column of the last utterance, beside numbered ones of those before it."""
    fields: dict[str, str] = field(default_factory=dict)
    """`id`, `reference`, `dialogue`, `metadata`, `metadata.NAME` → heading."""
    joined: bool = False
    """Whether the columns of the context are one utterance in parts: an instruction, and what it is about."""
    long: dict[str, str] | None = None
    """`dialogue`, `turn`, `speaker`, `role`, `text` → heading, of a table with one row per utterance."""

    @property
    def useful(self) -> bool:
        """Whether items can come of these columns."""
        return bool(self.long or self.numbered or self.context or self.response)


def tell_targets() -> str:
    """What a mapping may name, in words."""
    return tell("targets are {names} and metadata.NAME", names=", ".join(TARGETS))


def is_target(name: str) -> bool:
    """Whether a mapping may name this field of an item."""
    return name in TARGETS or re.fullmatch(r"metadata\.\S+", name) is not None


def parse_map(texts: Iterable[str]) -> dict[str, list[str]]:
    """`response=answer,context=history` as target → headings; raises UnreadableInput."""
    found: dict[str, list[str]] = {}
    for part in (part for text in texts for part in text.split(",") if part.strip()):
        target, equals, heading = (piece.strip() for piece in part.partition("="))
        if not equals or not heading or not is_target(target):
            raise UnreadableInput(
                tell("--map {part!r} is not TARGET=COLUMN; {targets}", part=part.strip(), targets=tell_targets())
            )
        found.setdefault(target, []).append(heading)
    return found


def count_known(headings: Iterable[str], mapping: Mapping[str, Sequence[str]]) -> int:
    """How many of the cells are headings that are known or mapped; a row of headings has the most."""
    mapped = {normalize(name) for names in mapping.values() for name in names}
    return len({name for heading in headings if is_known(name := recognize(heading), mapped)})


def is_known(name: str, mapped: Iterable[str] = ()) -> bool:
    """Whether a normalized heading is known, numbered or not."""
    if name in TELLING or name in mapped:
        return True
    if len(name) > MOST_HEADING:
        return False
    return find_number(name) is not None


def find_number(name: str) -> tuple[str, int] | None:
    """What a numbered heading is without its number, and the number; None for one whose rest is not known."""
    numbered, turn = NUMBERED.fullmatch(name), TURN.fullmatch(name)
    if numbered and numbered[1] in NUMBERED_CONTEXT | NUMBERED_RESPONSE:
        return numbered[1], int(numbered[2])
    base = turn[1] + turn[3] if turn else ""
    return (base, int(turn[2])) if turn and base in NUMBERED_CONTEXT | NUMBERED_RESPONSE else None


def find_columns(headings: Sequence[str], mapping: Mapping[str, Sequence[str]], where: str) -> Columns:
    """What each heading means; raises UnreadableInput for a mapped column that is not there."""
    names: dict[str, str] = {}
    for spelled in (normalize, recognize):  # the name itself before what only contains it
        for heading in headings:
            names.setdefault(spelled(heading), heading)
    given = {target: [find_mapped(heading, names, where) for heading in mapping[target]] for target in mapping}
    left = {name: heading for name, heading in names.items() if all(heading not in found for found in given.values())}
    columns = Columns(context=given.get("context", []), response=given.get("response", []))
    if not columns.response and (long := find_long(left, given)):
        columns.long = long
        return columns
    plain = first(left, "response") or system_beside_user(left) or find_lettered(left)
    if not columns.context or not columns.response:
        find_numbered(left, columns, plain)
    columns.response = columns.response or plain
    if not columns.context and not columns.numbered:
        columns.context = find_context(left)
        columns.joined = columns.context == [left.get("instruction"), left.get("input")]
    elif not columns.context:
        columns.context = first(left, "history")
        columns.asked = first(left, "utterance") if columns.response else []
    find_fields(left, given, columns)
    return columns


def find_mapped(heading: str, names: Mapping[str, str], where: str) -> str:
    """The column that a mapping names, or a path into a nested object; raises UnreadableInput."""
    if (name := recognize(heading)) in names:
        return names[name]
    if (start := heading.partition(".")[0]) != heading and normalize(start) in names:
        return heading
    there = ", ".join(list(names.values())[:20])
    raise UnreadableInput(
        tell(
            "{where}: there is no column {heading!r} to map; there are: {there}",
            where=where,
            heading=heading,
            there=there,
        )
    )


def first(left: Mapping[str, str], kind: str) -> list[str]:
    """The column of a kind whose name is the best; at most one."""
    return [left[name] for name in HEADINGS_BY_KIND[kind] if name in left][:1]


def system_beside_user(left: Mapping[str, str]) -> list[str]:
    """The column `system` where it stands beside the user's."""
    users = [name for name in ("user", "ユーザー", "ユーザ", "사용자") if name in left]
    systems = [left[name] for name in ("system", "システム", "시스템") if name in left]
    return systems[:1] if users else []


def find_long(left: Mapping[str, str], given: Mapping[str, list[str]]) -> dict[str, str] | None:
    """The columns of a table with one row per utterance, which has no column of responses."""
    found = {kind: given[kind][0] for kind in ("dialogue", "turn", "speaker", "text") if kind in given}
    for kind, names in (("dialogue", HEADINGS_BY_KIND["dialogue"]), *LONG_KINDS.items()):
        for name in names:
            if kind not in found and name in left and left[name] not in found.values():
                found[kind] = left[name]
    answers = [name for name in HEADINGS_BY_KIND["response"] if name in left]
    complete = {"dialogue", "text"} <= found.keys() and bool({"turn", "speaker"} & found.keys())
    return found if complete and not answers else None


def lacks_dialogues(headings: Iterable[str], columns: Columns) -> bool:
    """Whether rows name a speaker and a text, but nothing answers, and nothing tells which dialogue they are of."""
    if columns.long or columns.response or columns.numbered or columns.fields.get("dialogue"):
        return False
    names = {recognize(heading) for heading in headings}
    speakers = set(LONG_KINDS["speaker"]) - {"user"}
    return bool(names & speakers) and bool(names & set(LONG_KINDS["text"]))


def find_context(left: Mapping[str, str]) -> list[str]:
    """The columns of the context: a history, an utterance, or both."""
    history, utterance = first(left, "history"), first(left, "utterance")
    if utterance and utterance == [left.get("input")] and "instruction" in left:  # as in Alpaca's data
        return [*history, left["instruction"], *utterance]
    if utterance == [left.get("query")] and history == [left.get("context")]:
        return utterance  # beside a query, as in Azure's data, the context is what was retrieved
    return [*history, *utterance]


def find_lettered(left: Mapping[str, str]) -> list[str]:
    """The responses of several systems to one context, `応答A` and `応答B`, or the chosen and the rejected one."""
    for better, worse in (("chosen", "rejected"), ("preferredoutput", "nonpreferredoutput")):
        if {better, worse} <= left.keys():
            return [left[better], left[worse]]
    found: dict[str, list[str]] = {}
    for name, heading in left.items():
        for letter in re.finditer(r"(?<![a-z])[a-h](?![a-z])|[a-h]$", name):
            rest = name[: letter.start()] + name[letter.end() :]
            plain = ASIDE.sub("", rest)
            if plain in HEADINGS_BY_KIND["response"] and heading not in found.get(plain, ()):
                found.setdefault(plain, []).append(heading)
    return next((headings for headings in found.values() if len(headings) > 1), [])


def find_numbered(left: Mapping[str, str], columns: Columns, plain: list[str]) -> None:
    """Sets columns such as `発話1 … 発話n` or `ユーザー1 ボット1`; numbered answers alone are several candidates."""
    found = []
    for name, heading in left.items():
        if numbered := find_number(name):
            base, number = numbered
            written = NUMBERED.fullmatch(unicodedata.normalize("NFKC", heading).strip())
            shown = written[1].rstrip(" _-") if written and normalize(written[1]) == base else base
            found.append((number, heading, shown, base in NUMBERED_RESPONSE))
    found.sort(key=lambda column: column[0])
    if len(found) == 1 and first(left, "utterance"):
        return
    if all(answers for *_, answers in found):
        if not columns.response and not plain:
            columns.response = [heading for _, heading, _, _ in found]
    elif not columns.context:
        columns.numbered = [(heading, base, answers) for _, heading, base, answers in found]


def find_fields(left: Mapping[str, str], given: Mapping[str, list[str]], columns: Columns) -> None:
    """Sets the other fields of an item."""
    used = {*columns.context, *columns.response}
    for kind in OTHER_HEADINGS:
        if kind in given:
            columns.fields[kind] = given[kind][0]
        elif (found := first(left, kind)) and found[0] not in used:
            columns.fields[kind] = found[0]
    columns.fields |= {kind: found[0] for kind, found in given.items() if kind.startswith("metadata.")}
    # In an item of Saiten the dialogue's id stands in `dialogue`, beside `context`.
    if "dialogue" not in columns.fields and "dialogue" in left and left["dialogue"] not in used:
        columns.fields["dialogue"] = left["dialogue"]
