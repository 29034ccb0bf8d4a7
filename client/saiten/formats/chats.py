"""Logs of messengers, an utterance a row or line: KakaoTalk, LINE, Slack. Every response of one speaker is an item."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from saiten.formats.errors import UnreadableInput
from saiten.formats.headings import normalize
from saiten.formats.mapping import ASSISTANT, ASSISTANTS, USER, Skipped, Spoken, make_item
from saiten.formats.records import Record, write_text
from saiten.formats.report import Report
from saiten.language import tell

MOST_CONTEXT = 20
"""Utterances before a response that are its context."""

MOST_SPEAKERS = 20
"""Speakers that a message lists."""

MOST_COUNTED = 1000
MOST_DIALOGUE = 10_000
"""Utterances of a day, or of a thread, that are read as one dialogue."""

BOT = re.compile(r"bot|ボット|봇|\bai\b|アシスタント|도우미|상담원|サポート|account", re.IGNORECASE)
"""What the names of systems hold."""

SPOKEN_SUBTYPES = {None, "bot_message", "thread_broadcast", "me_message", "file_share"}
"""Of Slack's messages those that someone wrote; others tell who joined."""


@dataclass(frozen=True)
class Chat:
    """Which field is who speaks, what, and when; `thread` parts dialogues within a day."""

    speaker: str
    text: str
    time: str
    thread: str = ""


def find_chat(value: dict[str, Any]) -> Chat | None:
    """The fields of a messenger's log; None for any other record."""
    names = {normalize(name): name for name in value}
    if names.keys() == {"date", "user", "message"}:  # of KakaoTalk
        return Chat(names["user"], names["message"], names["date"])
    if {"送信者タイプ", "送信日", "内容"} <= names.keys():  # of LINE's official accounts
        return Chat(names["送信者タイプ"], names["内容"], names["送信日"])
    if value.get("type") == "message" and {"ts", "text"} <= names.keys() and "threadts" not in names:  # of Slack
        return Chat("user", "text", "ts", "thread_ts")
    return None


@dataclass(frozen=True)
class Message:
    """One row: whose, what, and of which dialogue."""

    record: Record
    speaker: str
    text: str
    dialogue: str


def read_messages(records: Iterable[Record], chat: Chat, report: Report) -> Iterator[Message]:
    """The messages; what is none is reported as skipped."""
    for record in records:
        report.rows += 1
        who = record.get(chat.speaker) or record.get("username") or record.get("bot_id")
        speaker, text = write_text(who), write_text(record.get(chat.text))
        if not speaker or not text or not text.strip() or record.get("subtype") not in SPOKEN_SUBTYPES:
            report.skip(record.where, tell("is no message"))
            continue
        for path, target in ((chat.speaker, "speaker"), (chat.text, "context"), (chat.time, "dialogue")):
            record.move(path, target)
        thread = write_text(record.get(chat.thread)) if chat.thread else None
        record.close(report)
        yield Message(record, speaker, text.strip(), thread or name_day(write_text(record.get(chat.time)) or ""))


def name_day(time: str) -> str:
    """The day of a time as the log writes it, which may be a number of seconds."""
    if re.fullmatch(r"\d{9,11}(\.\d+)?", time):
        return f"{datetime.fromtimestamp(float(time), UTC):%Y-%m-%d}"
    return re.split(r"[ T](?=\d{1,2}:)", time, maxsplit=1)[0][:64]


def read_chat(
    records: Iterable[Record], chat: Chat, report: Report, system: str | None
) -> Iterator[tuple[Record, list[dict[str, Any] | Skipped]]]:
    """The items of each dialogue, one for each response of the `system`. Without it, or where it does not speak, raises
    UnreadableInput that lists the speakers; a name that only a system has is taken."""
    counts: Counter[str] = Counter()
    found = False
    for name, group in groupby(read_messages(records, chat, report), key=lambda message: message.dialogue):
        dialogue: list[Message] = []
        for message in group:
            if message.speaker in counts or len(counts) < MOST_COUNTED:
                counts[message.speaker] += 1
            if len(dialogue) < MOST_DIALOGUE:
                dialogue.append(message)
            else:
                report.skip(message.record.where, tell("more than {most:,} turns", most=MOST_DIALOGUE))
        mine = system or next((one for one in counts if normalize(one) in ASSISTANTS | {"account"}), None)
        if mine is not None and any(message.speaker == mine for message in dialogue):
            found = True
            yield dialogue[0].record, list(list_items(dialogue, mine, name))
    if not found and counts:
        raise UnreadableInput(f"{report.name}: {tell_speakers(counts, report.name, system)}")


def tell_speakers(counts: Counter[str], name: str, system: str | None) -> str:
    """Who speaks, and what to do."""
    names = ", ".join(f"{one} ({count})" for one, count in counts.most_common(MOST_SPEAKERS))
    likely = next((one for one in counts if BOT.search(one)), "NAME")
    command = f"saiten convert {shlex.quote(name)} --system {shlex.quote(likely)} --output items.ndjson"
    if system is None:
        return tell("is a chat of {names}; say who the system is: {command}", names=names, command=command)
    return tell(
        "no one is called {system} here; there are {names}: {command}", system=system, names=names, command=command
    )


def list_items(dialogue: list[Message], system: str, name: str) -> Iterator[dict[str, Any] | Skipped]:
    """An item for each response of the system: what follows each other by the same speaker is one utterance."""
    runs = [(speaker, list(group)) for speaker, group in groupby(dialogue, key=lambda message: message.speaker)]
    others = {speaker for speaker, _ in runs} - {system}
    roles = {system: ASSISTANT} | (dict.fromkeys(others, USER) if len(others) == 1 else {})
    spoken: list[Spoken] = []
    for speaker, group in runs:
        text = "\n".join(message.text for message in group)
        if speaker == system and spoken:
            record = Record(group[0].record.where, {"dialogue": name})
            yield make_item(record, spoken[-MOST_CONTEXT:], text, {"dialogue": "dialogue"})
        spoken.append(Spoken(roles.get(speaker, speaker), text))


OPENINGS = re.compile(r"\ufeff?(\[LINE\]|.{0,200}(카카오톡 대화|KakaoTalk Chats))")
"""How texts begin that LINE and KakaoTalk export."""

DAY = re.compile(r"-{5,} (?P<kakao>.+?) -{5,}|(?P<line>\d{4}[./]\d{1,2}[./]\d{1,2})\s*[(（].{1,5}[)）]")
SAID = re.compile(
    r"\[(?P<user>[^\]]{1,80})\] \[[^\]]{3,20}\] (?P<text>.*)"
    r"|(?P<day>\d{4}(?:년 |\. )\d{1,2}(?:월 |\. )\d{1,2}[일.]) (?:오전|오후) \d{1,2}:\d\d, "
    r"(?P<user2>[^:]{1,80}?) : (?P<text2>.*)"
    r"|(?:오전|오후|午前|午後)?\s?\d{1,2}:\d\d\t(?P<user3>[^\t]{1,80})\t(?P<text3>.*)",
    re.DOTALL,
)
EVENT = re.compile(r"(?:오전|오후|午前|午後)?\s?\d{1,2}:\d\d\t[^\t]*")
"""What LINE says itself: that a message was taken back."""


def is_chat_text(line: str) -> bool:
    """Whether a text that begins with this line is one of LINE or KakaoTalk."""
    return OPENINGS.match(line[:300]) is not None


def read_chat_text(lines: Iterable[str], name: str) -> Iterator[Record]:
    """A record for each message, as KakaoTalk's CSV has them; a message may span several lines."""
    day, held = "", None
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        said, dated = SAID.fullmatch(text), DAY.fullmatch(text.strip())
        if said or dated or EVENT.fullmatch(text):
            if held is not None:
                yield close_message(held)
            held = None
        if dated:
            day = dated["kakao"] or dated["line"]
        elif said:
            day = said["day"] or day
            value = {"Date": day, "User": said["user"] or said["user2"] or said["user3"]}
            value["Message"] = said["text"] or said["text2"] or said["text3"] or ""
            held = Record(f"{name}:{number}", value)
        elif held is not None:
            held.value["Message"] += f"\n{text}"
    if held is not None:
        yield close_message(held)


def close_message(record: Record) -> Record:
    """The record without the quotation marks that LINE puts around several lines."""
    text = record.value["Message"].strip()
    record.value["Message"] = text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text
    return record
