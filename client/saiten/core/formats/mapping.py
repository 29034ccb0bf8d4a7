"""Records to items: utterances, responses and the other fields, by what their headings mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saiten.core.formats.headings import (
    HEADINGS_BY_KIND,
    NUMBERED_SPEAKERS,
    Columns,
    find_columns,
    normalize,
    recognize,
)
from saiten.core.formats.records import Record, is_blank, parse_cell, write_text
from saiten.core.formats.report import Report
from saiten.core.language import mark, tell

USER, ASSISTANT = "user", "assistant"
"""The speakers of utterances whose speakers are not named."""

USERS = {"user", "human", "customer", "prompter", "u", "ユーザー", "ユーザ", "利用者", "お客様", "顧客", "質問者"}
USERS |= {"사용자", "유저", "이용자", "고객", "질문자"}
ASSISTANTS = {"assistant", "bot", "gpt", "chatgpt", "ai", "model", "chatbot", "agent", "s", "ボット", "アシスタント"}
ASSISTANTS |= {"チャットボット", "オペレーター", "챗봇", "봇", "어시스턴트", "상담원"}
INSTRUCTIONS = {"system", "developer", "instruction"}
SYSTEMS = {"system", "システム", "시스템"}
TOOLS = {"tool", "function", "ipython", "environment"}
KNOWN_ROLES = USERS | ASSISTANTS | SYSTEMS | TOOLS | INSTRUCTIONS

ROLE_KEYS = (
    *("role", "from", "speaker", "speaker_id", "author", "sender", "name", "interlocutor_id", "who"),
    *("話者", "発話者", "화자", "역할"),
)
TEXT_KEYS = (
    *("content", "value", "text", "utterance", "message", "parts", "body", "form", "utt"),
    *("発話", "発言", "발화", "내용"),
)
ANSWER_KEYS = (
    *("content", "text", "output", "response", "answer", "completion", "message", "messages", "value"),
    *("output_text", "generated_text"),
    *("parts", "result", "body", "generations", "candidates", "応答", "回答", "응답", "답변"),
)

NAMED_LINE = re.compile(r"^\s*([^\s:：][^:：\n]{0,19}?)\s*[:：](?!//)\s*(.*)$")
MOST_METADATA = 16
MOST_METADATA_CHARACTERS = 256
MOST_ID_CHARACTERS = 128
MOST_SYSTEM_CHARACTERS = 64
"""Of a system. What is longer, or a sentence, is its prompt."""

MOST_UTTERANCES = 10_000
NO_RESPONSE = mark("has no response")
NO_CONTEXT = mark("has no context")
BRANCHES = mark("another message answers the same one: branches are read behind each other, as one dialogue")
PARENTS = {"parentid", "parentmessageid", "parentmessage", "replyto", "replytoid", "inreplyto"}
"""Columns that name the message which is answered, normalized."""


class Skipped(Exception):
    """This record gives no item; the message says why, `column` is the one that is empty, where one is known, and
    `unanswered` the item but for its response, where that is all it lacks."""

    def __init__(self, why: str, column: str = "", unanswered: dict[str, Any] | None = None) -> None:
        super().__init__(why)
        self.column = column
        self.unanswered = unanswered


@dataclass(frozen=True)
class Spoken:
    """An utterance; `speaker` is None where the file does not name it. One without a text, between others, says only
    that someone had a turn."""

    speaker: str | None
    text: str


def build_item(record: Record, columns: Columns) -> dict[str, Any]:
    """The item of a record by its columns; raises Skipped."""
    context = [spoken for heading in columns.context for spoken in take_spoken(record, heading, heading_kind(heading))]
    if columns.joined and len(context) > 1:
        context = [Spoken(None, "\n\n".join(spoken.text for spoken in context))]
    response: str | list[str] | None = take_responses(record, columns.response)
    if columns.numbered:
        numbered, last = take_numbered(record, columns)
        context += numbered
        if response is None and last is not None:
            response = last
        elif last is not None:
            context.append(Spoken(None, last))
        context += [spoken for heading in columns.asked for spoken in take_spoken(record, heading, "utterance")]
    if not columns.response and response is None and not columns.numbered:
        context, response = split_response(context, sure=not record.answered)
    fields = dict(columns.fields)
    system = fields.get("metadata.system", "")
    prompts = not columns.response or is_prompt(write_text(record.get(system)) or "")
    if normalize(system) == "system" and prompts:
        record.leave(fields.pop("metadata.system"), tell("system messages"))
    try:
        return make_item(record, context, response, fields)
    except Skipped as skipped:
        empty = columns.response if response is None else columns.context
        skipped.column = empty[0] if empty else ""
        raise


def heading_kind(heading: str) -> str:
    """`utterance` for a column of one utterance, `history` for one that may hold several."""
    return (
        "utterance" if recognize(heading.rpartition(".")[2]) in (*HEADINGS_BY_KIND["utterance"], "raw") else "history"
    )


def make_item(
    record: Record, context: list[Spoken], response: str | list[str] | None, fields: Mapping[str, str]
) -> dict[str, Any]:
    """An item with the other fields of the record; raises Skipped where it has no context, or no response though it
    must."""
    missing = response is None and record.answered
    if missing and not context:
        raise Skipped(tell(NO_RESPONSE))
    if isinstance(response, str) and len(context) > 1 and context[-1].text == response and not is_users(context[-1]):
        context = context[:-1]  # logs repeat the response as the last message
    if not context:
        raise Skipped(tell(NO_CONTEXT))
    item: dict[str, Any] = {}
    take_name(record, fields, "id", item)
    item["context"] = name_speakers(context)
    if response is not None:
        item["response" if isinstance(response, str) else "responses"] = response
    take_reference(record, fields.get("reference"), item)
    take_name(record, fields, "dialogue", item)
    take_metadata(record, fields, item)
    if missing:
        raise Skipped(tell(NO_RESPONSE), unanswered=item)
    return item


def is_users(spoken: Spoken) -> bool:
    """Whether an utterance is known to be the user's, whom a response may echo."""
    return normalize(spoken.speaker or "") in USERS


def take_name(record: Record, fields: Mapping[str, str], target: str, item: dict[str, Any]) -> None:
    """Sets `id` or `dialogue`, where it is one."""
    heading = fields.get(target)
    if heading is None or is_blank(value := record.get(heading)):
        return
    text = write_text(value)
    if text is None or len(text) > MOST_ID_CHARACTERS or not text.isprintable():
        record.leave(
            heading,
            tell("not a name of at most {most} characters", most=MOST_ID_CHARACTERS),
        )
        return
    item[target] = text
    record.move(heading, target)


def take_reference(record: Record, heading: str | None, item: dict[str, Any]) -> None:
    """Sets `reference`: a text, or a list of texts."""
    if heading is None or is_blank(value := record.parse(heading)):
        return
    texts = [read_answer(part, record, heading) for part in (value if isinstance(value, list) else [value])]
    found = [text for text in texts if text]
    if found:
        item["reference"] = found[0] if len(found) == 1 else found
        record.move(heading, "reference")


def take_metadata(record: Record, fields: Mapping[str, str], item: dict[str, Any]) -> None:
    """Sets `metadata`: at most 16 short texts; the rest is left out."""
    found: dict[str, str] = {}
    for target, heading in fields.items():
        if target == "metadata":
            value = record.parse(heading)
            pairs = [(f"{heading}.{key}", key, part) for key, part in value.items()] if isinstance(value, dict) else []
        elif target.startswith("metadata."):
            pairs = [(heading, target.removeprefix("metadata."), record.get(heading))]
        else:
            continue
        for path, key, value in pairs:
            text = write_text(value)
            if text == "" or record.moved.get(path, f"metadata.{key}") != f"metadata.{key}":
                continue
            if text is None or max(len(text), len(key)) > MOST_METADATA_CHARACTERS or not (key + text).isprintable():
                record.leave(
                    path,
                    tell(
                        "metadata are lines of at most {most} characters",
                        most=MOST_METADATA_CHARACTERS,
                    ),
                )
            elif len(found) == MOST_METADATA and key not in found:
                record.leave(path, tell("an item has at most {most} metadata", most=MOST_METADATA))
            else:
                found[key] = text
                record.move(path, f"metadata.{key}")
    if found:
        item["metadata"] = found


def is_prompt(text: str) -> bool:
    """Whether a text tells a system what to do, rather than being its name."""
    return (
        len(text) > MOST_SYSTEM_CHARACTERS
        or re.search(r"[。．！？!?\n]|[.] |[.]$", text) is not None
        or text.count(" ") > 3
    )


def name_speakers(context: list[Spoken]) -> list[dict[str, str]]:
    """Utterances with their speakers. Those without a name alternate; the last of all is the one who is answered."""
    names = [spoken.speaker for spoken in context]
    named = [name for name in names if name]
    user = next((name for name in named if normalize(name) in USERS), None)
    if user is None and names[-1] is None and len(set(named)) > 1 and names[-2]:
        user = next(name for name in reversed(named) if name != names[-2])
    user = user or USER
    other = next((name for name in named if name != user), ASSISTANT)
    following = names[-1] or user
    found = []
    for place in range(len(context) - 1, -1, -1):
        speaker = names[place]
        if speaker is None:
            speaker = user if place == len(context) - 1 or following != user else other
        following = speaker
        if context[place].text:
            found.append({"speaker": speaker, "text": context[place].text})
    return found[::-1]


def take_spoken(record: Record, heading: str, kind: str = "history") -> list[Spoken]:
    """The utterances of a field, in any of the shapes that teams write them."""
    value = record.parse(heading)
    if is_blank(value):
        return []
    if kind == "history" and str(value).strip().isdecimal() and normalize(heading) in HEADINGS_BY_KIND["history"]:
        record.leave(heading, tell("a number"))
        return []
    record.move(heading, "context")
    return read_spoken(value, record, heading, kind)


def read_spoken(value: Any, record: Record, path: str, kind: str = "history") -> list[Spoken]:
    """Utterances of a text, a list of texts, messages or pairs, or an object that holds one of these."""
    if isinstance(value, dict):
        return read_spoken_object(value, record, path, kind)
    if isinstance(value, list):
        return read_spoken_list(value, record, path)
    text = write_text(value)
    return leave_instructions(read_spoken_lines(text, kind), record, path) if text and text.strip() else []


def leave_instructions(spoken: list[Spoken], record: Record, path: str) -> list[Spoken]:
    """The utterances without a system's instruction before them, as LangChain writes it above a human's."""
    names = [normalize(one.speaker or "") for one in spoken]
    if len(names) < 2 or names[0] not in INSTRUCTIONS or not {"human", *ASSISTANTS} & set(names):
        return spoken
    record.leave(path, tell("system messages"))
    return spoken[1:]


def read_spoken_object(value: dict[str, Any], record: Record, path: str, kind: str) -> list[Spoken]:
    """The utterances of a single message, or of an object with known keys."""
    role, text = find_key(value, ROLE_KEYS), find_key(value, TEXT_KEYS)
    if role and text and (parted := part_columns(value, role, text)):
        record.entered += [f"{path}.{role}", f"{path}.{text}"]
        return read_messages(parted, record, path)
    if role and text:
        return read_messages([value], record, path)
    record.moved.pop(path, None)
    columns = find_columns(list(value), {}, record.where)
    headings = columns.context or [key for key in TEXT_KEYS if key in value][:1]
    spoken = []
    for key in headings:
        record.move(f"{path}.{key}", "context")
        spoken += read_spoken(parse_cell(value[key]), record, f"{path}.{key}", heading_kind(key) if kind else kind)
    if not spoken:
        record.leave(path, tell("no utterance was found in it"))
    return spoken


def part_columns(value: dict[str, Any], role: str, text: str) -> list[dict[str, Any]]:
    """The messages of an object that holds their roles and texts in two lists, as Hugging Face's sequences do."""
    roles, texts = value[role], value[text]
    if not isinstance(roles, list) or not isinstance(texts, list) or len(roles) != len(texts):
        return []
    return [{role: one, text: said} for one, said in zip(roles, texts, strict=True)]


def read_spoken_list(value: list[Any], record: Record, path: str) -> list[Spoken]:
    """The utterances of a list of texts, of messages, or of pairs."""
    value = value[:MOST_UTTERANCES]
    parts = [part for part in value if not is_blank(part)]
    if all(isinstance(part, dict) for part in parts):
        return read_exchanges(parts, record, path) or read_messages(parts, record, path)
    if len(parts) == 1 and isinstance(parts[0], list) and all(isinstance(part, dict) for part in parts[0]):
        return read_messages(parts[0], record, path)  # LangChain writes a list of calls, of which there is one
    if all(isinstance(part, list) and len(part) == 2 for part in parts):
        return leave_instructions(read_turn_pairs(parts), record, f"{path}[]")
    if any(write_text(part) is None for part in parts):
        record.leave(f"{path}[]", tell("neither texts nor messages"))
    texts = [write_text(part) or "" for part in value]
    said = [text for text in texts if text]
    lines = [NAMED_LINE.match(text) for text in said]
    if lines and all(lines) and len({line[1] for line in lines if line}) <= len(lines) // 2 + 1:
        return [Spoken(line[1].strip(), text[line.start(2) :]) for line, text in zip(lines, said, strict=True) if line]
    return trim_silent([Spoken(None, text) for text in texts])


def trim_silent(spoken: list[Spoken]) -> list[Spoken]:
    """The utterances without those before the first and after the last text. Between others a turn without a text
    counts, or those before it would be taken for another speaker's."""
    places = [place for place, one in enumerate(spoken) if one.text]
    return spoken[places[0] : places[-1] + 1] if places else []


def read_exchanges(parts: list[dict[str, Any]], record: Record, path: str) -> list[Spoken]:
    """The utterances of objects that each hold what the user said and what was answered; none where they do not."""
    if not parts or (find_key(parts[0], ROLE_KEYS) and find_key(parts[0], TEXT_KEYS)):
        return []
    columns = find_columns(list(parts[0]), {}, record.where)
    if len(columns.context) != 1 or len(columns.response) != 1:
        return []
    record.moved.pop(path, None)
    spoken = []
    for key in (columns.context[0], columns.response[0]):
        record.move(f"{path}[].{key}", "context")
    for part in parts:
        for speaker, key in ((USER, columns.context[0]), (ASSISTANT, columns.response[0])):
            if (text := read_content(part.get(key), record, f"{path}[].{key}")).strip():
                spoken.append(Spoken(speaker, text))
    note_rest(parts, record, f"{path}[]")
    return spoken


def read_turn_pairs(pairs: list[list[Any]]) -> list[Spoken]:
    """Pairs of (speaker, text), or of (what the user said, what was answered)."""
    speakers = [write_text(first) or "" for first, _ in pairs]
    if (len(pairs) > 1 and len(set(speakers)) < len(pairs)) or all(normalize(name) in KNOWN_ROLES for name in speakers):
        spoken = [(name, write_text(text)) for name, (_, text) in zip(speakers, pairs, strict=True)]
    else:
        spoken = [
            (name, write_text(text)) for pair in pairs for name, text in zip((USER, ASSISTANT), pair, strict=True)
        ]
    return [Spoken(name, text) for name, text in spoken if text]


def read_messages(messages: list[dict[str, Any]], record: Record, path: str) -> list[Spoken]:
    """The utterances of messages with a role and a content, or the like, without instructions and tool calls."""
    messages = [unwrap(message) for message in messages]
    role_key = next((key for key in ROLE_KEYS if any(key in message for message in messages)), None)
    if role_key is None and all(normalize(str(message.get("type", ""))) in KNOWN_ROLES for message in messages):
        role_key = "type"  # as LangChain and Ragas write them
    roles = [normalize(write_text(message.get(role_key)) or "") if role_key else "" for message in messages]
    answered = bool(ASSISTANTS & set(roles))
    element = path if messages and record.get(path) is messages[0] else f"{path}[]"
    record.moved.pop(path, None)
    spoken: list[Spoken] = []
    for message, role in zip(messages, roles, strict=True):
        text_key = find_key(message, TEXT_KEYS)
        if role in TOOLS or (
            role in INSTRUCTIONS and (answered or not spoken) and role_key in ("role", "from", "type")
        ):
            record.leave(
                f"{element}.{text_key}", tell("messages of tools") if role in TOOLS else tell("system messages")
            )
            record.move(f"{element}.{role_key}", "context")
            continue
        text = read_content(message.get(text_key), record, f"{element}.{text_key}") if text_key else ""
        if not text:
            continue
        if role_key:
            record.move(f"{element}.{role_key}", "context")
        record.move(f"{element}.{text_key}", "context")
        spoken.append(Spoken((write_text(message.get(role_key)) or None) if role_key else None, text))
    note_rest(messages, record, element)
    return spoken


def unwrap(message: dict[str, Any]) -> dict[str, Any]:
    """The message itself: LangChain writes it as the arguments of its class, or below `data` beside its type."""
    inner, name, data = message.get("kwargs"), message.get("id"), message.get("data")
    if isinstance(inner, dict) and "content" in inner:
        kind = str(name[-1]) if isinstance(name, list) and name else ""
        kind = re.sub("Message(Chunk)?$", "", kind).lower()
        return inner if "type" in inner or not kind else {**inner, "type": kind}
    if isinstance(data, dict) and "content" in data and message.get("type"):
        return {"type": message["type"], **data}
    return message


def note_rest(messages: list[dict[str, Any]], record: Record, element: str) -> None:
    """Reports the keys of messages that are neither role nor text."""
    for message in messages:
        for key, value in message.items():
            path = f"{element}.{key}"
            below = (path, f"{path}[].")
            if (
                not is_blank(value)
                and path not in record.moved
                and not any(p.startswith(below) for p, _ in record.left)
            ):
                record.leave(path, "")


def read_content(value: Any, record: Record, path: str) -> str:
    """The text of a message: a text, or parts of which those that are text count."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return write_text(value) or ""
    texts = []
    for part in value:
        text = part if isinstance(part, str) else None
        if isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
            text = next((part[key] for key in ("text", "content") if isinstance(part.get(key), str)), None)
        if text is None:
            record.leave(f"{path}[]", tell("parts that are not text"))
        else:
            texts.append(text)
    return "".join(texts)


def read_spoken_lines(text: str, kind: str) -> list[Spoken]:
    """The utterances of a text whose lines name their speakers, `A: …`; else the text as one utterance.

    In a column of one utterance only letters and known roles name a speaker: there "材料: 卵" is what was said.
    """
    matches = [NAMED_LINE.match(line) for line in text.splitlines() if line.strip()]
    names = [match[1].strip() for match in matches if match]
    if not matches or matches[0] is None or not all(is_speaker(name, kind, len(names)) for name in set(names)):
        return [Spoken(None, text)]
    if not any(is_role(name) for name in names) and (len(names) < 2 or len(set(names)) > max(2, len(names) // 2)):
        return [Spoken(None, text)]
    spoken: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = NAMED_LINE.match(line)
        if match:
            spoken.append((match[1].strip(), [match[2]]))
        elif line.strip() or spoken[-1][1]:
            spoken[-1][1].append(line)
    joined = [(speaker, "\n".join(lines).strip()) for speaker, lines in spoken]
    return [Spoken(speaker, words) for speaker, words in joined if words]


def is_role(name: str) -> bool:
    """Whether a name is one letter, or a role as chat systems call them."""
    return re.fullmatch(r"[A-Za-zＡ-Ｚ]\d?", name) is not None or normalize(name) in KNOWN_ROLES


def is_speaker(name: str, kind: str, lines: int) -> bool:
    """Whether what stands before a colon may name a speaker."""
    return is_role(name) or (kind == "history" and lines > 1 and not re.search(r"[\d。、.!?！？「」]", name))


def take_responses(record: Record, headings: Sequence[str]) -> str | list[str] | None:
    """The response, or several candidates; None where there is none."""
    texts: list[str] = []
    for heading in headings:
        value = record.parse(heading)
        several = isinstance(value, list) and all(isinstance(part, str) for part in value)
        found = [text for part in (value if several else [value]) if (text := read_answer(part, record, heading))]
        if found:
            record.move(heading, "response")
        texts += found
    if not texts:
        return None
    if len(texts) == 1:
        return texts[0]
    for heading in headings:
        if record.moved.get(heading) == "response":
            record.move(heading, "responses")
    return texts


def read_answer(value: Any, record: Record, path: str) -> str | None:
    """The text of a response: a text, a message, a completion with choices, or messages of which the last counts."""
    value = parse_cell(value)
    if isinstance(value, str) or not isinstance(value, list | dict):
        text = write_text(value)
        return text if text and text.strip() else None
    if isinstance(value, list):
        wanted = 0 if path.endswith((".choices", ".candidates")) else -1
        if len(value) > 1:
            record.leave(f"{path}[]", tell("all but one of several"))
        return read_answer(value[wanted], record, f"{path}[]") if value else None
    key = "choices" if value.get("choices") else find_key(value, ANSWER_KEYS)
    for other, part in value.items():
        if other not in (key, *ROLE_KEYS) and not is_blank(part):
            record.leave(f"{path}.{other}", "")
    if key in ("content", "parts") and not (isinstance(value[key], dict) and find_key(value[key], ("parts",))):
        text = read_content(value[key], record, f"{path}.{key}")
        return text if text.strip() else None
    return read_answer(value[key], record, f"{path}.{key}") if key else None


def take_numbered(record: Record, columns: Columns) -> tuple[list[Spoken], str | None]:
    """The utterances of numbered columns, and the last of them where it is an answer and nothing follows it."""
    found: list[tuple[Spoken, bool]] = []
    silent = 0
    for heading, base, answers in columns.numbered:
        text = write_text(record.get(heading))
        if not text or not text.strip():
            silent += 1
            continue
        named = normalize(base) in NUMBERED_SPEAKERS
        mixed = any(other[2] for other in columns.numbered)
        speaker = base if named else (ASSISTANT if answers else USER) if mixed else None
        if found and speaker is None:
            found += [(Spoken(None, ""), False)] * silent
        silent = 0
        found.append((Spoken(speaker, text), answers))
        record.move(heading, "context")
    if not columns.response and found and found[-1][1]:
        last = [heading for heading, *_ in columns.numbered if heading in record.moved][-1]
        record.move(last, "response")
        return [spoken for spoken, _ in found[:-1]], found[-1][0].text
    return [spoken for spoken, _ in found], None


def split_response(spoken: list[Spoken], *, sure: bool = False) -> tuple[list[Spoken], str | None]:
    """A dialogue without a response of its own: its last utterance is the response, unless the user's. `sure`: only
    where it is known to be the assistant's."""
    last = normalize(spoken[-1].speaker or "") if spoken else ""
    if len(spoken) < 2 or not last or last in USERS or (sure and last not in ASSISTANTS):
        return spoken, None
    return spoken[:-1], spoken[-1].text


def find_key(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """The first of the keys that the object has."""
    return next((key for key in keys if key in value and not is_blank(value[key])), None)


def group_utterances(records: Iterable[Record], long: Mapping[str, str], report: Report) -> Iterator[Record]:
    """The dialogues of a table with one row per utterance: records of `id`, `dialogue` and `messages`, in the order of
    their first rows. All rows are held in memory, since the rows of a dialogue may lie anywhere.
    """
    dialogues: dict[str, list[tuple[float, int, dict[str, Any]]]] = {}
    places: dict[str, str] = {}
    answered: set[tuple[str, str]] = set()
    name = ""
    for number, record in enumerate(records):
        report.rows += 1
        name = write_text(record.get(long["dialogue"])) or name  # merged cells: the name stands in the first row only
        text = write_text(record.get(long["text"]))
        if not name or not text or not text.strip():
            report.skip(record.where, tell("has no dialogue or no text"))
            continue
        places.setdefault(name, record.where)
        speaker = write_text(record.get(long["speaker"])) if "speaker" in long else None
        role = write_text(record.get(long["role"])) if "role" in long else None
        try:
            turn = float(write_text(record.get(long["turn"])) or number) if "turn" in long else number
        except ValueError:
            turn = number
        for heading in (heading for heading in record.value if normalize(heading) in PARENTS):
            if (parent := write_text(record.get(heading))) and (name, parent) in answered:
                record.leave(heading, tell(BRANCHES))
            answered.add((name, parent or record.where))
        for target, heading in long.items():
            record.move(heading, "order of the context" if target == "turn" else target.replace("text", "context"))
        record.close(report)
        message = {"speaker": speaker or None, "role": role or speaker, "text": text}
        dialogues.setdefault(name, []).append((turn, number, message))
    for name, rows in dialogues.items():
        messages = [message for *_, message in sorted(rows, key=lambda row: row[:2])]
        yield Record(f"{places[name]}: dialogue {name}", {"id": name, "dialogue": name, "messages": messages})


def build_dialogue(record: Record) -> dict[str, Any]:
    """The item of a dialogue of `group_utterances`: its last utterance is the response; raises Skipped."""
    messages = record.value["messages"]
    roles = [normalize(message["speaker"] or "") for message in messages]
    start = 1 if len(messages) > 2 and roles[0] in INSTRUCTIONS and set(roles) & ASSISTANTS else 0
    if start:
        record.leave("messages[].text", tell("system messages"))
    spoken = [Spoken(message["speaker"], message["text"]) for message in messages[start:]]
    if spoken[-1].speaker is None and record.answered:
        spoken = [*spoken[:-1], Spoken(ASSISTANT, spoken[-1].text)]
    context, response = split_response(spoken, sure=not record.answered)
    if normalize(messages[-1]["role"] or "") in USERS:
        context, response = spoken, None
    if response is None and record.answered:
        why = (
            tell("ends with the user's utterance: there is no response")
            if len(spoken) > 1
            else tell("has a single utterance")
        )
        record.answered = False
        raise Skipped(why, unanswered=make_item(record, spoken, None, {"id": "id", "dialogue": "dialogue"}))
    return make_item(record, context, response, {"id": "id", "dialogue": "dialogue"})
