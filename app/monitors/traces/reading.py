"""Spans to the rows that are stored of them: what was said, and what puts it in its place. Pure.

A history that is sent again with every call is not stored again: a message whose text a row of the conversation holds
already is a reference by its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from saiten.core.formats.headings import normalize
from saiten.core.formats.spans import (
    DETAILS,
    SPOKEN,
    Call,
    Said,
    SpanEvent,
    find_conversation,
    find_kind,
    is_of_a_call,
    name_saying,
    read_call,
    read_plainly,
)
from saiten.core.formats.traces import INTERNAL
from saiten_server.core.model import COMPACT
from saiten_server.monitors.traces.values import Read, Redact, SpanRow, TraceRules
from saiten_server.monitors.traces.wire import WireSpan

MOST_TEXT = 32_000
"""Characters of a message that are kept."""

LONGEST_PERSONAL = 200
"""Characters beyond those that are kept, among which an address may end that begins within them."""

MOST_CONVERSATION = 256
"""Characters of the id of a conversation; a longer one is replaced by its digest."""

MOST_ATTRIBUTE = 256
"""Characters of a value of an attribute that a monitor names, and of the names of systems and builds."""

MOST_ATTRIBUTE_NAMES = 24
"""Attributes of an unknown convention that are shown."""

RESPONSE_ID = "gen_ai.response.id"

MODEL_KINDS = {"chat", "generate_content", "text_completion", "llm", "generation", "chat_model"}
"""Kinds of spans that should hold what was said, in lower case."""

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""What PostgreSQL refuses, or no encoding has."""

TEXT_DIGEST_BYTES = 8


@dataclass(frozen=True)
class SpanReader:
    """Reads the spans of a body of one project."""

    project: str
    rules: TraceRules
    known: Container[int]
    redact: Redact

    def read(self, spans: Sequence[WireSpan]) -> Read:
        """The rows of these spans."""
        found = Read()
        for sent in spans:
            span = replace(sent, attributes=read_plainly(sent.attributes))
            conversation = cut_name(find_conversation(span.attributes))
            speaks = is_of_a_call(span.attributes) or any(is_speaking(event) for event in span.events)
            # What tools, retrievers and guardrails are given and return is never said to the user.
            inside = normalize(find_kind(span.attributes)) in INTERNAL
            call = read_call(span.attributes, span.events) if speaks and not inside else None
            if call is None and speaks:
                count_unread(span, found)
            if call is None and (span.part or not speaks):
                found.counts["other"] += not speaks
                if conversation:
                    found.named[span.trace] = conversation
                continue
            found.counts["spans"] += 1
            found.counts["tool-calls"] += call.tool_calls if call else 0
            found.rows.append(self._make_row(span, call or Call(""), conversation))
        return found

    def _make_row(self, span: WireSpan, call: Call, conversation: str) -> SpanRow:
        """The row of a span, which may say nothing itself and yet tell what lies within what."""
        place = conversation or span.trace
        fresh: list[int] = []
        # What follows the last answer is new, if anything is: it is stored whole, also where the same was said before.
        history = max((number for number, one in enumerate(call.asked) if one.role == "system"), default=-1) + 1
        said = {
            "p": span.parent,
            "k": clean(find_kind(span.attributes))[:64],
            "n": clean(span.name),
            "s": span.start,
            "e": span.end,
            "y": name_of(span.resource, "service.name"),
            "b": name_of(span.resource, "service.version"),
            "r": clean(str(span.attributes.get(RESPONSE_ID) or ""))[:MOST_ATTRIBUTE],
            "f": 1 if span.failed else 0,
            "t": call.tool_calls,
            "q": [self._write(one, place, fresh, may_refer=number < history) for number, one in enumerate(call.asked)],
            "a": [self._write(Said("system", text), place, fresh) for text in call.answers],
        }
        return SpanRow(
            span.trace,
            f"{span.trace}{span.span}{span.part}",
            conversation,
            COMPACT.encode({key: part for key, part in said.items() if part}),
            1 if call.answers else 0,
            {name: text for name in self.rules.attributes if (text := find_attribute(span, name))},
            tuple(fresh),
        )

    def _write(self, said: Said, place: str, fresh: list[int], *, may_refer: bool = False) -> str:
        """A message: `u` or `s`, and its text, or its digest where a row of the conversation holds the text."""
        text, letter = clean(said.text[: MOST_TEXT + LONGEST_PERSONAL]), said.role[0]
        if self.rules.redact:
            text = self.redact(text, self.rules.redact)
        text = text[:MOST_TEXT]
        digest = digest_text(text)
        mark = hash((self.project, place, digest))
        if may_refer and mark in self.known:
            return f"{letter}#{digest}"
        fresh.append(mark)
        return f"{letter}:{text}"


def is_speaking(event: SpanEvent) -> bool:
    """Whether an event holds what was said."""
    return event.name == DETAILS or SPOKEN.fullmatch(event.name) is not None


def count_unread(span: WireSpan, found: Read) -> None:
    """Counts a span around a call, one whose content was not sent, or one of a convention that is not known."""
    kind = find_kind(span.attributes).lower()
    names = name_saying(span.attributes)
    if kind in MODEL_KINDS and not names:
        found.counts["without-content"] += 1
    elif names and not (kind and kind not in MODEL_KINDS):
        found.unread[span.scope or "-", " ".join(clean(name)[:80] for name in names[:MOST_ATTRIBUTE_NAMES])] += 1
    else:
        found.counts["around"] += 1


def find_attribute(span: WireSpan, name: str) -> str:
    """The value of an attribute that a monitor names; empty where there is none."""
    value = span.attributes.get(name, span.resource.get(name))
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    return "" if value is None or isinstance(value, list | dict) else clean(str(value)[:MOST_ATTRIBUTE])


def name_of(resource: Mapping[str, Any], name: str) -> str | None:
    """A resource's attribute as a name; None where it has none."""
    value = resource.get(name)
    return clean(str(value)[:MOST_ATTRIBUTE]) if value not in (None, "") else None


def clean(text: str) -> str:
    """The text with what no database can store replaced."""
    return UNSTORABLE.sub("\ufffd", text)


def cut_name(name: str) -> str:
    """The name of a conversation, or its digest where it is too long."""
    name = clean(name)
    return name if len(name) <= MOST_CONVERSATION else f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def digest_text(text: str) -> str:
    """What stands for a text among those of a conversation."""
    return hashlib.blake2b(text.encode(), digest_size=TEXT_DIGEST_BYTES).hexdigest()
