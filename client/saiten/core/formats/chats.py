"""Logs of messengers, an utterance a row or line: KakaoTalk, LINE, Slack, Discord. Every response of one speaker is an
item, with what was said before it on the same day, or in the same thread. Stickers and photos are no utterances.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from saiten.core.formats.chat_texts import is_noted
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import normalize
from saiten.core.formats.mapping import ASSISTANT, ASSISTANTS, USER, Skipped, Spoken, make_item
from saiten.core.formats.records import Record, is_blank, write_text
from saiten.core.formats.report import Report
from saiten.core.language import mark, tell

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


SPOKEN_TYPES = {None, "message", "Default", "Reply", "ChatInputCommand", "ContextMenuCommand"}
"""Of Discord's messages those that someone wrote; Slack's are called so."""

NO_TEXT = mark("is a sticker, a photo or the like")
UNSEEN = mark("answers a sticker, a photo or the like")


@dataclass(frozen=True)
class Chat:
    """Which field is who speaks, what, and when; `thread` parts dialogues within a day, and `files` hold what is no
    text. `notes`: whether stickers and photos stand as words in the place of a text."""

    speaker: str
    text: str
    time: str
    thread: str = ""
    files: tuple[str, ...] = ()
    notes: bool = False


def find_chat(value: dict[str, Any]) -> Chat | None:
    """The fields of a messenger's log; None for any other record."""
    names = {normalize(name): name for name in value}
    if {"timestamp", "content", "author", "isPinned"} <= value.keys():  # of Discord
        nick = Record("", value).get("author.nickname")
        files = ("attachments", "stickers", "embeds")
        return Chat("author.nickname" if nick else "author.name", "content", "timestamp", files=files)
    if value.get("type") == "message" and {"ts", "text"} <= names.keys() and "threadts" not in names:  # of Slack
        return Chat("user", "text", "ts", "dialogue" if "dialogue" in value else "thread_ts", files=("files",))
    return find_table(names)


def find_table(names: Mapping[str, str]) -> Chat | None:
    """The columns of a messenger's table, by their normalized names."""
    if names.keys() == {"date", "user", "message"}:  # of KakaoTalk
        return Chat(names["user"], names["message"], names["date"], notes=True)
    if {"送信者タイプ", "送信日", "内容"} <= names.keys():  # of LINE's official accounts
        return Chat(names["送信者タイプ"], names["内容"], names["送信日"], notes=True)
    if {"authorid", "author", "date", "content", "attachments"} <= names.keys():  # of DiscordChatExporter
        return Chat(names["author"], names["content"], names["date"], files=(names["attachments"],))
    return None


@dataclass(frozen=True)
class ChatMessage:
    """One row: whose, what, and of which dialogue; without a text where it is a sticker or a photo."""

    record: Record
    speaker: str
    text: str
    dialogue: str


def read_chat_messages(
    records: Iterable[Record], chat: Chat, report: Report, system: str | None = None
) -> Iterator[ChatMessage]:
    """The messages; what is none, or no text, is reported as skipped."""
    for record in records:
        report.rows += 1
        who = record.get(chat.speaker) or record.get("username") or record.get("bot_id")
        speaker, text = write_text(who), (write_text(record.get(chat.text)) or "").strip()
        speaker, text = part_name(speaker or "", text, system)
        bare = not text and any(not is_blank(record.get(name)) for name in chat.files)
        subtype, kind = (write_text(record.get(name)) or None for name in ("subtype", "type"))
        spoken = subtype in SPOKEN_SUBTYPES and kind in SPOKEN_TYPES
        if not speaker or not spoken or not (text or bare):
            report.skip(record.where, tell("is no message"))
            continue
        for path, target in ((chat.speaker, "speaker"), (chat.text, "context"), (chat.time, "dialogue")):
            record.move(path, target)
        if chat.thread:
            record.move(chat.thread, "dialogue")
        thread = write_text(record.get(chat.thread)) if chat.thread else None
        day = name_day(write_text(record.get(chat.time)) or "")
        record.close(report)
        if bare or (chat.notes and is_noted(text)):
            report.skip(record.where, tell(NO_TEXT))
            text = ""
        yield ChatMessage(record, speaker, text, thread or day)


def part_name(speaker: str, text: str, system: str | None) -> tuple[str, str]:
    """Who speaks and what, where the system's name holds spaces, at the first of which LINE's lines were parted."""
    line = f"{speaker} {text}"
    if system and " " in system and speaker != system and line.startswith(f"{system} "):
        return system, line.removeprefix(f"{system} ").strip()
    return speaker, text


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
    for name, group in group_messages(read_chat_messages(records, chat, report, system), chat):
        dialogue: list[ChatMessage] = []
        for message in group:
            if message.text and (message.speaker in counts or len(counts) < MOST_COUNTED):
                counts[message.speaker] += 1
            if len(dialogue) < MOST_DIALOGUE:
                dialogue.append(message)
            else:
                report.skip(message.record.where, tell("more than {most:,} turns", most=MOST_DIALOGUE))
        mine = system or next((one for one in counts if normalize(one) in ASSISTANTS | {"account"}), None)
        if mine is not None and any(message.speaker == mine for message in dialogue):
            found = True
            yield dialogue[0].record, list(list_items(dialogue, mine, name, report))
    if not found and counts:
        raise UnreadableInput(f"{report.name}: {tell_speakers(counts, report.name, system)}")


def group_messages(messages: Iterator[ChatMessage], chat: Chat) -> Iterator[tuple[str, Iterable[ChatMessage]]]:
    """The messages of each dialogue. Days follow each other; threads run beside each other, and are held."""
    if not chat.thread:
        yield from groupby(messages, key=lambda message: message.dialogue)
        return
    dialogues: dict[str, list[ChatMessage]] = {}
    for message in messages:
        dialogues.setdefault(message.dialogue, []).append(message)
    yield from dialogues.items()


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


def list_items(
    dialogue: list[ChatMessage], system: str, name: str, report: Report
) -> Iterator[dict[str, Any] | Skipped]:
    """An item for each response of the system: what follows each other by the same speaker is one utterance. A response
    to what is no text is skipped, and stays in the context of what follows."""
    parts = [message for message in dialogue if message.text or message.speaker != system]
    runs = [(key, list(group)) for key, group in groupby(parts, key=lambda one: (one.speaker, bool(one.text)))]
    others = {speaker for (speaker, _), _ in runs} - {system}
    roles = {system: ASSISTANT} | (dict.fromkeys(others, USER) if len(others) == 1 else {})
    spoken: list[Spoken] = []
    heard = True
    for (speaker, said), group in runs:
        if not said:
            heard = heard and bool(spoken) and spoken[-1].speaker != roles.get(system)
            continue
        text = "\n".join(message.text for message in group)
        if speaker != system:
            heard = True
        elif not heard:
            report.skip(group[0].record.where, tell(UNSEEN))
        elif spoken:
            record = Record(group[0].record.where, {"dialogue": name})
            yield make_item(record, spoken[-MOST_CONTEXT:], text, {"dialogue": "dialogue"})
        spoken.append(Spoken(roles.get(speaker, speaker), text))
