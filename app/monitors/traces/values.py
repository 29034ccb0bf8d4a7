"""Conversations put together from spans, and the rules by which a project's are closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from saiten_server.core.conversation import MOST_TURNS, Role

State = Literal["open", "closed", "done"]
"""A conversation that is going on; one that has ended and waits for its monitors; one that they are done with."""

Redact = Callable[[str, Collection[str]], str]
"""A text without what these kinds of redaction hide (`email`, `phone`, `number`, `name`)."""

IDLE_SECONDS = 300.0
GRACE_SECONDS = 3_600.0


@dataclass(frozen=True)
class TraceRules:
    """How a project's conversations are read and closed. `attributes` are the names of span and resource attributes
    that its monitors filter by: all others are dropped. `redact` names what is hidden before a text is stored.
    Conversations that close are handed over from `watched_since` on; none where it is None."""

    idle_seconds: float = IDLE_SECONDS
    max_turns: int = MOST_TURNS
    grace_seconds: float = GRACE_SECONDS
    attributes: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()
    watched_since: datetime | None = None


@dataclass(frozen=True)
class LiveTurn:
    """One turn, verbatim. `at` is when it was said by the clock of the system. Of the system's turns: which `system`
    and `build` spoke, on which span, the id that its model gave the answer, and how long that took."""

    speaker: str
    role: Role
    text: str
    at: datetime
    trace_id: str
    span_id: str
    system: str | None = None
    build: str | None = None
    latency_seconds: float | None = None
    response_id: str | None = None


@dataclass(frozen=True)
class LiveConversation:
    """A conversation as its spans tell it so far, each turn once, in the order of time.

    `id` is Saiten's, `name` the caller's (else the trace's id). `system` and `build` are those of most of the system's
    turns, the last of several. `attributes` are those that the project's rules name. `version` increases whenever the
    conversation changes. `first_at` and `last_at` are when its first and last span arrived, `closed_at` when it ended.

    `answers` counts the system's turns, `errors` its failed calls, `tool_calls` what was left out of the turns,
    `repeats` answers that another span repeats or replaces, `late_spans` those that arrived after it was done or after
    its time of grace, which are kept and not part of `turns`, `refused_spans` those beyond what it may hold.
    """

    id: str
    project: str
    name: str
    state: State
    version: int
    turns: tuple[LiveTurn, ...]
    first_at: datetime
    last_at: datetime
    closed_at: datetime | None = None
    system: str | None = None
    build: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    errors: int = 0
    tool_calls: int = 0
    repeats: int = 0
    late_spans: int = 0
    refused_spans: int = 0

    @property
    def answers(self) -> int:
        """How many turns the system has."""
        return sum(turn.role == "system" for turn in self.turns)

    @property
    def latencies(self) -> tuple[float, ...]:
        """How long the system's answers took, in seconds, where their spans tell."""
        return tuple(turn.latency_seconds for turn in self.turns if turn.latency_seconds is not None)


@dataclass(frozen=True)
class ConversationClaim:
    """A closed conversation that one worker has until `lease_until`. If spans arrive meanwhile it is reopened, and
    `finish` says that the work was in vain."""

    conversation: LiveConversation
    owner: str
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class SpanRow:
    """What is stored of a span or log record. `conversation` is the id that it names, empty for none. `said` is JSON,
    see `SpanReader`; `fresh` are the digests of the texts that it holds, by which later rows may refer to them."""

    trace: str
    key: str
    conversation: str
    said: str
    answers: int
    attributes: Mapping[str, str]
    fresh: tuple[int, ...]


@dataclass
class Read:
    """The rows of a body, and what was left out: `counts` by what it was, `unread` the spans of conventions that are
    not known, by library and names of attributes. `named` are traces with the conversation that a span of them names
    which is itself left out."""

    rows: list[SpanRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: dict[str, str] = field(default_factory=dict)


class StoredSpan(NamedTuple):
    """A row: its key, its JSON (see `saiten_server.monitors.traces.reading`), and when it arrived."""

    key: str
    said: str
    received_at: datetime
