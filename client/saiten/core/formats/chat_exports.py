"""The exports of Slack and Discord as they are downloaded: an archive of days, and a document of messages.

Slack: `users.json`, `channels.json` and the like, and a folder for each conversation with a file a day, as its help
describes them ("How to read Slack data exports"); replies name the message that began their thread in `thread_ts`.
Discord: the JSON of DiscordChatExporter 2.46.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.mapping import MOST_ID_CHARACTERS
from saiten.core.formats.records import Record, parse_json, write_text
from saiten.core.language import tell

USERS = "users.json"
DAY = re.compile(r"(?:[^/]+/)?[^/]+/(?:\d{4}-\d\d-\d\d)\.json")
MOST_EXPORT_FILES = 100_000
"""Files of an export."""

LINK = re.compile(r"<(?P<kind>[@#!]?)(?P<target>[^<>|]{1,2000})(?:\|(?P<label>[^<>]{0,2000}))?>")


def is_slack(names: Collection[str]) -> bool:
    """Whether an archive of these files is an export of Slack."""
    return any(name.rpartition("/")[2] == USERS for name in names) and any(DAY.fullmatch(name) for name in names)


def read_slack(names: Collection[str], name: str, load: Callable[[str], bytes]) -> Iterator[Record]:
    """The messages of an export, by conversation and time, with the names of their users; `load` unpacks a file. Raises
    UnreadableInput for what is no list of messages."""
    users = read_users(next(entry for entry in names if entry.rpartition("/")[2] == USERS), name, load)
    days = sorted(entry for entry in names if DAY.fullmatch(entry))
    if len(days) > MOST_EXPORT_FILES:
        raise UnreadableInput(tell("{name}: holds more than {most:,} files", name=name, most=MOST_EXPORT_FILES))
    for entry in days:
        channel, day = entry.removesuffix(".json").split("/")[-2:]
        for number, message in enumerate(read_export(entry, name, load), start=1):
            where = tell("{name}: item {number}", name=f"{name}: {entry}", number=number)
            yield Record(where, name_users(message, users, channel, day))


def read_export(entry: str, name: str, load: Callable[[str], bytes]) -> list[dict[str, Any]]:
    """The objects of a file of the archive; raises UnreadableInput where it is no list of objects."""
    where = f"{name}: {entry}"
    try:
        found = parse_json(load(entry).decode(), where)
    except UnicodeError as error:
        raise UnreadableInput(tell("{where}: is damaged ({error})", where=where, error=type(error).__name__)) from None
    if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
        raise UnreadableInput(tell("{where}: is no list of objects", where=where))
    return found


def read_users(entry: str, name: str, load: Callable[[str], bytes]) -> dict[str, str]:
    """The names of users by their ids."""
    names: dict[str, str] = {}
    for user in read_export(entry, name, load):
        record = Record("", user)
        known = ("profile.display_name", "real_name", "profile.real_name", "name")
        shown = next((text for path in known if (text := write_text(record.get(path)))), "")
        if (key := write_text(user.get("id"))) and shown.strip():
            names[key] = " ".join(shown.split())
    return names


def name_users(message: Mapping[str, Any], users: Mapping[str, str], channel: str, day: str) -> dict[str, Any]:
    """A message with names in place of ids, and with the thread or the day of its channel as `dialogue`."""
    user = write_text(message.get("user")) or ""
    profile = Record("", {"of": message.get("user_profile"), "bot": message.get("bot_profile")})
    shown = (users.get(user), profile.get("of.display_name"), profile.get("of.real_name"), message.get("username"))
    named = next((text for one in (*shown, profile.get("bot.name")) if (text := write_text(one))), user)
    thread = write_text(message.get("thread_ts"))
    value = {key: part for key, part in message.items() if key != "thread_ts"}
    text = write_text(message.get("text")) or ""
    dialogue = f"{channel} {thread or day}"[:MOST_ID_CHARACTERS]
    read = {"type": "message", "user": named, "text": show_text(text, users), "dialogue": dialogue}
    return {"ts": "", **value, **read}


def show_text(text: str, users: Mapping[str, str]) -> str:
    """A text of Slack as it is shown: names in place of ids, links without their marks."""

    def show(link: re.Match[str]) -> str:
        target, label = link["target"], link["label"]
        if link["kind"] == "@":
            return f"@{label or users.get(target, target)}"
        if link["kind"] == "#":
            return f"#{label or target}"
        return f"@{label or target}" if link["kind"] == "!" else label or target

    return html.unescape(LINK.sub(show, text))


def is_discord(value: Mapping[str, Any]) -> bool:
    """Whether a document is one of DiscordChatExporter."""
    return {"guild", "channel", "messages"} <= value.keys() and isinstance(value["messages"], list)


def open_discord(records: Iterator[Record]) -> Iterator[Record]:
    """The messages of each document."""
    for record in records:
        for number, message in enumerate(record.enter("messages")):
            if isinstance(message, dict):
                where = f"{record.where}: messages[{number}]"
                yield Record(where, message, prefix="messages[].")
