"""Dialogues of public corpora and benchmarks: OpenAssistant's trees, AI-Hub's dialogues, and samples of the
lm-evaluation-harness.

OpenAssistant: `.trees.jsonl` and `.messages.jsonl` of OASST1 and OASST2, as their dataset cards describe them. AI-Hub:
the daily dialogues by subject and by purpose (`info[].annotations.lines[]`), Korean SNS (`data[].body[]`, with a
`dialogue` below `body` where there are summaries), and the emotional dialogues (`talk.content.HS01`, `SS01`, …), as
public readers of them have it. lm-evaluation-harness: `samples_*.jsonl` of versions 0.4 (`arguments.gen_args_0.arg_0`,
before 0.4.3 lists).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from saiten.core.formats.mapping import (
    ASSISTANT,
    NO_RESPONSE,
    USER,
    Skipped,
    Spoken,
    make_item,
    read_messages,
)
from saiten.core.formats.records import Record, is_blank, list_objects, parse_cell, write_text
from saiten.core.formats.traces import ReadItems
from saiten.core.language import mark, tell

MOST_BRANCH = 1_000
"""Messages from the first to an answer."""

MOST_MESSAGES = 500_000
"""Of a file whose messages stand apart from each other."""

OF_MESSAGE = {"message_id", "parent_id", "message_tree_id", "text", "role", "rank", "lang", "replies", "deleted"}
"""The fields of a message of OpenAssistant that are read."""

AGAIN = mark("another filter of the same answer")


def is_tree(value: Mapping[str, Any]) -> bool:
    """Whether the record is a tree of OpenAssistant, or one of its messages."""
    prompt = value.get("prompt")
    whole = isinstance(prompt, dict) and "text" in prompt and "message_tree_id" in value
    return whole or {"message_id", "parent_id", "message_tree_id", "text", "role"} <= value.keys()


def join_messages(records: Iterable[Record]) -> Iterator[Record]:
    """Trees as they are; messages that stand apart as trees, by their parents."""
    held: dict[str, Record] = {}
    roots: list[Record] = []
    for record in records:
        if isinstance(record.value.get("prompt"), dict):
            yield record
            continue
        message = record.value
        if len(held) >= MOST_MESSAGES:
            yield record  # too many to be held: it gives no item, and says so
            continue
        held[write_text(message.get("message_id")) or record.where] = record
        message["replies"] = []
    for record in held.values():
        parent = held.get(write_text(record.value.get("parent_id")) or "")
        if is_blank(record.value.get("parent_id")):
            roots.append(record)
        elif parent is not None:
            parent.value["replies"].append(record.value)
    for root in roots:
        yield Record(root.where, {"message_tree_id": root.value.get("message_tree_id"), "prompt": root.value})
    reached = {id(message) for root in roots for message in walk(root.value)}
    yield from (record for record in held.values() if id(record.value) not in reached)


def walk(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The message and all below it, of which each has one parent."""
    held = [message]
    while held:
        one = held.pop()
        yield one
        held += one["replies"]


def read_tree(record: Record) -> ReadItems:
    """An item for each answer of the tree, with the messages above it as its context: branches stay apart."""
    root = record.value.get("prompt")
    if not isinstance(root, dict):
        yield Skipped(tell("its message {parent} is not in the file", parent=str(record.value.get("parent_id"))[:64]))
        return
    record.move("prompt", "context")
    record.entered.append("prompt")
    held: list[tuple[dict[str, Any], tuple[Spoken, ...]]] = [(root, ())]
    found = False
    while held:
        message, before = held.pop()
        role, text = message.get("role"), write_text(message.get("text")) or ""
        for key in (key for key, value in message.items() if key not in OF_MESSAGE and not is_blank(value)):
            record.leave(f"messages[].{key}", "")
        if not text.strip() or len(before) >= MOST_BRANCH:
            continue
        if role == ASSISTANT and before and not message.get("deleted"):
            found = True
            yield make_answer(record, message, list(before), text)
        spoken = (*before, Spoken(USER if role == "prompter" else write_text(role) or USER, text))
        replies = message.get("replies")
        held += [
            (reply, spoken)
            for reply in reversed(replies if isinstance(replies, list) else [])
            if isinstance(reply, dict)
        ]
    if not found:
        yield Skipped(tell(NO_RESPONSE))


def make_answer(record: Record, message: Mapping[str, Any], before: list[Spoken], text: str) -> dict[str, Any]:
    """The item of an answer in a tree."""
    parts = {"id": message.get("message_id"), "rank": message.get("rank"), "lang": message.get("lang")}
    one = Record(record.where, {**parts, "tree": record.value.get("message_tree_id")})
    fields = {"id": "id", "dialogue": "tree", "metadata.rank": "rank", "metadata.language": "lang"}
    return make_item(one, before, text, fields)


def is_sample(value: Mapping[str, Any]) -> bool:
    """Whether the record is a sample of the lm-evaluation-harness."""
    return {"doc_id", "doc", "arguments", "resps"} <= value.keys()


def join_filters(records: Iterable[Record]) -> Iterator[Record]:
    """The samples without those that hold an answer again, as another filter read it."""
    seen: set[tuple[str, str, str]] = set()
    for record in records:
        value = record.value
        key = tuple(write_text(value.get(name)) or "" for name in ("doc_id", "doc_hash", "prompt_hash"))
        if (key[0], key[1], key[2]) in seen and value.get("filter") is not None:
            record.value = {"filter": value["filter"]}
        seen.add((key[0], key[1], key[2]))
        yield record


def read_sample(record: Record) -> ReadItems:
    """A sample: its prompt, or the messages of it, and what the model wrote. Of choices only likelihoods are known."""
    if "resps" not in record.value:
        record.leave("filter", tell(AGAIN))
        return
    arguments = record.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else arguments
    first = first.get("arg_0") if isinstance(first, dict) else first
    while isinstance(first, list) and first and not isinstance(first[0], dict):
        first = first[0]
    prompt = parse_cell(first)
    answers = record.get("resps")
    while isinstance(answers, list) and answers and isinstance(answers[0], list):
        answers = answers[0]
    texts = [text for text in answers if isinstance(text, str)] if isinstance(answers, list) else []
    if not texts or is_likelihood(answers):
        yield Skipped(tell("has likelihoods of choices, and no response"))
        return
    record.move("arguments", "context")
    record.move("resps", "response" if len(texts) == 1 else "responses")
    spoken = [Spoken(USER, prompt)] if isinstance(prompt, str) else []
    if isinstance(prompt, list) and all(isinstance(part, dict) for part in prompt):
        spoken = read_messages(prompt, Record(record.where, {"arguments": prompt}), "arguments")
    fields = {"id": "doc_id", "reference": "target"}
    try:
        yield make_item(record, spoken, texts[0] if len(texts) == 1 else texts, fields)
    except Skipped as skipped:
        yield skipped


def is_likelihood(answers: Any) -> bool:
    """Whether what the model gave are a likelihood and whether it is the greatest."""
    return isinstance(answers, list) and len(answers) == 2 and str(answers[1]) in ("True", "False")


def is_aihub(value: Mapping[str, Any]) -> bool:
    """Whether the record is a document of AI-Hub's dialogues, or one dialogue of them."""
    return any(test(value) for test in (holds_lines, holds_body, holds_feelings)) or any(
        isinstance(parts := value.get(name), list)
        and bool(parts)
        and isinstance(parts[0], dict)
        and (holds_lines(parts[0]) or holds_body(parts[0]))
        for name in ("info", "data")
    )


def holds_lines(value: Mapping[str, Any]) -> bool:
    """Whether a record is a daily dialogue."""
    inner = value.get("annotations")
    return isinstance(inner, dict) and isinstance(inner.get("lines"), list)


def holds_body(value: Mapping[str, Any]) -> bool:
    """Whether a record is a dialogue of SNS."""
    body = value.get("body")
    return "header" in value and (isinstance(body, list) or (isinstance(body, dict) and "dialogue" in body))


def holds_feelings(value: Mapping[str, Any]) -> bool:
    """Whether a record is an emotional dialogue."""
    content = Record("", dict(value)).get("talk.content")
    return isinstance(content, dict) and "HS01" in content


def open_aihub(record: Record) -> Iterator[Record]:
    """The dialogues of a document."""
    name = next((name for name in ("info", "data") if isinstance(record.get(name), list)), "")
    if not name:
        yield record
        return
    for number, part in enumerate(record.enter(name)):
        if isinstance(part, dict):
            yield Record(f"{record.where}: {name}[{number}]", part, prefix=f"{name}[].")


def read_aihub(record: Record) -> ReadItems:
    """A dialogue of two people, whose last utterance is the response; or of one and a system, with an item for each
    answer."""
    if holds_feelings(record.value):
        yield from read_feelings(record)
        return
    text: tuple[str, ...] = ("norm_text", "text")
    path, speaker, name = "annotations.lines", "speaker.id", "id"
    if holds_body(record.value):
        path = "body.dialogue" if isinstance(record.get("body"), dict) else "body"
        text = ("utterance",)
        speaker, name = "participantID", "header.dialogueInfo.dialogueID"
    lines = [Record("", line) for line in list_objects(record.get(path))]
    said = [(write_text(line.get(speaker)) or "", find_line_text(line, text)) for line in lines]
    runs = [(who, [what for _, what in group if what]) for who, group in groupby(said, key=lambda one: one[0])]
    spoken = [Spoken(who or None, "\n".join(texts)) for who, texts in runs if texts]
    for key in (*text, speaker):
        record.move(f"{path}[].{key}", "context")
    if len(spoken) < 2:
        yield Skipped(tell("has a single utterance"))
        return
    try:
        yield make_item(record, spoken[:-1], spoken[-1].text, {"id": name, "dialogue": name})
    except Skipped as skipped:
        yield skipped


def find_line_text(line: Record, paths: Iterable[str]) -> str:
    """The text of a line, without the speaker's number before it."""
    text = next((text for path in paths if (text := write_text(line.get(path)))), "")
    return re.sub(r"^\s*\d+\s*[:.]\s+", "", text.replace("\xa0", " ")).strip()


def read_feelings(record: Record) -> ReadItems:
    """An item for each answer of the system."""
    content = record.get("talk.content")
    spoken: list[Spoken] = []
    record.move("talk.content", "context")
    name = "talk.id.talk-id"
    identity = {"profile": write_text(record.get("talk.id.profile-id")), "talk": write_text(record.get(name))}
    dialogue = "-".join(part for part in identity.values() if part)
    record.move("talk.id", "id")
    for number in range(1, 100):
        asked, answered = (write_text(content.get(f"{side}S{number:02}")) or "" for side in "HS")
        if not asked.strip() or not answered.strip():
            break
        spoken.append(Spoken(USER, asked.strip()))
        one = Record(record.where, {"id": f"{dialogue}-{number}" if dialogue else "", "dialogue": dialogue})
        yield make_item(one, spoken, answered.strip(), {"id": "id", "dialogue": "dialogue"})
        spoken = [*spoken, Spoken(ASSISTANT, answered.strip())]
    if not spoken:
        yield Skipped(tell(NO_RESPONSE))
