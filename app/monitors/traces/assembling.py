"""Spans to a conversation: each turn once, in the order of time, whatever spans repeat it. Pure.

Within a trace `saiten.core.formats.traces` tells which steps hold what the user saw, as for files. From trace to trace
a call repeats the history that it continues: only what stands behind the last answer that is known is new.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from saiten.core.formats.spans import MOST_MESSAGES
from saiten.core.formats.traces import SpanPlace, Step, choose_steps
from saiten_server.core.conversation import Role
from saiten_server.monitors.traces.reading import digest_text
from saiten_server.monitors.traces.values import LiveTurn, StoredSpan

USER, ASSISTANT = "user", "assistant"

AHEAD_NANOSECONDS = 3_600 * 10**9
"""A clock that is further ahead is not believed: what it timed counts as said when it arrived."""

LONGEST_ANSWER = 86_400.0
"""Seconds; a span that says it took longer was timed by a clock that was set meanwhile."""

MOST_TURNS, MOST_CHARACTERS = 10_000, 16 * 1024 * 1024
"""Of a conversation, after which no further span is taken: spans refer to texts, and may tell far more than they
hold."""

ROLE_LETTERS: Mapping[str, Role] = {"u": "user", "s": "system"}

TRACE_KEY, SPAN_KEY = 32, 48
"""Characters of a trace's and a span's id; a log record's key is longer."""


class TracedText(NamedTuple):
    """One message of a call."""

    role: Role
    text: str


@dataclass
class Told(Step):
    """A span with all that its rows say. Times are in nanoseconds."""

    said: list[TracedText] = field(default_factory=list)
    trace: str = ""
    start: int = 0
    end: int = 0
    system: str | None = None
    build: str | None = None
    response: str | None = None
    failed: bool = False
    tool_calls: int = 0


@dataclass
class Assembled:
    """The turns, and what was left out of them."""

    turns: list[LiveTurn] = field(default_factory=list)
    repeats: int = 0
    errors: int = 0
    tool_calls: int = 0
    refused: int = 0


def assemble(rows: Sequence[StoredSpan]) -> Assembled:
    """The conversation of these rows."""
    found = TracedTalk()
    traces: dict[str, dict[str, Told]] = defaultdict(dict)
    for one in tell_spans(rows):
        traces[one.trace][one.place.key] = one
        found.tool_calls += one.tool_calls
    kept: list[Told] = []
    for steps in traces.values():
        choice = choose_steps(steps)
        mine = [steps[key] for key in steps if key in choice.kept]
        borrow_said(mine, steps)
        kept += mine
        found.repeats += sum(bool(one.answers) for key, one in steps.items() if key not in choice.kept | choice.hidden)
        found.errors += count_failed(steps)
    for one in sorted(kept, key=lambda step: step.start):
        if len(found.turns) >= MOST_TURNS or found.characters >= MOST_CHARACTERS:
            found.refused += 1
        else:
            found.add(one)
    return found


def borrow_said(kept: Iterable[Told], steps: Mapping[str, Told]) -> None:
    """A step that does not tell what it was asked, such as a function that was given several texts, has that of a call
    with the same answer."""
    asked = {answer: one.said for one in steps.values() if one.said for answer in one.answers}
    for one in kept:
        if not one.said:
            one.said = next((asked[answer] for answer in one.answers if answer in asked), [])


def count_failed(steps: Mapping[str, Told]) -> int:
    """How many spans failed by themselves, and not because one within them did."""
    blamed = {one.place.parent for one in steps.values() if one.failed}
    return sum(one.failed and key not in blamed for key, one in steps.items())


def tell_spans(rows: Sequence[StoredSpan]) -> list[Told]:
    """The spans, each of all its rows: its own, and those of log records on it."""
    read = [(row, json.loads(row.said)) for row in rows]
    texts: dict[str, str] = {}
    for _, said in read:
        for written in (*said.get("q", ()), *said.get("a", ())):
            if written[1] == ":":
                texts.setdefault(digest_text(written[2:]), written[2:])
    told: dict[str, Told] = {}
    # A span's own row first: it knows its times and its parent.
    for row, said in sorted(read, key=lambda each: (len(each[0].key) > SPAN_KEY, read_start(each[1], each[0]))):
        key = row.key[:SPAN_KEY]
        if key not in told:
            told[key] = make_span(row, said)
        add_said(told[key], said, texts)
    for one in told.values():
        settle_told(one)
    return list(told.values())


def read_start(said: Mapping[str, Any], row: StoredSpan) -> int:
    """When a span began, in nanoseconds; when it arrived, where its clock tells none or is ahead."""
    received = int(row.received_at.timestamp() * 1e9)
    start = int(said.get("s", 0))
    return start if 0 < start <= received + AHEAD_NANOSECONDS else received


def make_span(row: StoredSpan, said: Mapping[str, Any]) -> Told:
    """A span as its first row tells it."""
    start = read_start(said, row)
    length = max(0, int(said.get("e", 0)) - int(said.get("s", 0))) if said.get("s") else 0
    trace = row.key[:TRACE_KEY]
    place = SpanPlace(
        row.key[TRACE_KEY:SPAN_KEY], said.get("p", ""), trace, said.get("k", ""), said.get("n", ""), f"{start:020}"
    )
    return Told(
        place,
        trace=trace,
        start=start,
        end=start + length,
        system=said.get("y"),
        build=said.get("b"),
        response=said.get("r"),
        failed=bool(said.get("f")),
    )


def add_said(one: Told, said: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    """Adds what a row says, unless the span says it already, or as much as a call may hold: spans and log records may
    hold the same."""
    if max(len(one.said), len(one.answers)) > MOST_MESSAGES:
        return
    asked = [
        TracedText(ROLE_LETTERS[each[0]], text) for each in said.get("q", ()) if (text := resolve_text(each, texts))
    ]
    answers = [text for each in said.get("a", ()) if (text := resolve_text(each, texts))]
    one.said += asked if not one.said or not set(asked) <= set(one.said) else []
    one.answers += [text for text in answers if text not in one.answers]
    one.response = one.response or said.get("r")
    one.tool_calls = max(one.tool_calls, said.get("t", 0))


def resolve_text(written: str, texts: Mapping[str, str]) -> str:
    """The text of a message; empty for one whose text was erased."""
    return written[2:] if written[1] == ":" else texts.get(written[2:], "")


def settle_told(one: Told) -> None:
    """Tells what the span's answer answers, by its messages."""
    users = [number for number, said in enumerate(one.said) if said.role == "user"]
    last = users[-1] if users else len(one.said) - 1
    one.asked = one.said[last].text if one.said else ""
    one.before = frozenset(said.text for said in one.said[: max(0, last)])


@dataclass
class TracedTalk(Assembled):
    """A conversation as it grows, call by call."""

    known: Counter[tuple[Role, str]] = field(default_factory=Counter)
    told: dict[str, list[int]] = field(default_factory=dict)
    """By text the places of answers that only the history of a call has told so far."""

    characters: int = 0

    def add(self, step: Told) -> None:
        """Adds what a call tells that is not known. Several answers are alternatives: the first counts."""
        self.repeats += len(step.answers) - 1
        answer = step.answers[0]
        last = max((number for number, said in enumerate(step.said) if said.role == "system"), default=-1)
        history, asked = step.said[: last + 1], step.said[last + 1 :]
        if not self.turns:
            self._say([*history, *asked], step)
            self._answer(answer, step)
            return
        if (place := self._find_told(step.said, answer)) is not None:
            self.told[answer].remove(place)
            self.turns[place] = make_answer(answer, step)
            return
        if asked and self._is_again(history, asked, step):
            self._answer_again(answer, step)
            return
        self._say([*self._find_missed(history), *asked], step)
        latest = self.turns[-1]
        if not asked and latest.role == "system" and (latest.text, latest.trace_id) == (answer, step.trace):
            self.repeats += 1
            return
        self._answer(answer, step)

    def _find_told(self, said: Sequence[TracedText], answer: str) -> int | None:
        """The place of the answer where the history of another call told it after all that this call sent: the call
        is an earlier one, by a clock that is ahead of the other's."""
        sent = [one.text for one in said]
        for place in self.told.get(answer, ()):
            if place >= len(sent) and [turn.text for turn in self.turns[place - len(sent) : place]] == sent:
                return place
        return None

    def _find_missed(self, history: Sequence[TracedText]) -> Sequence[TracedText]:
        """What the history holds behind the last message that is known, where a user speaks in it: those calls did not
        arrive. A lone answer is a known one that the bot has changed."""
        known = max((number for number, said in enumerate(history) if said in self.known), default=len(history))
        missed = history[known + 1 :]
        return missed if any(said.role == "user" for said in missed) else ()

    def _is_again(self, history: Sequence[TracedText], asked: Sequence[TracedText], step: Told) -> bool:
        """Whether the call asks what the last one asked: a retry, an answer that was made again, or another system's. A
        user may also say the same twice: then the history goes on from the last answer, or there is none."""
        end = len(self.turns)
        while end and self.turns[end - 1].role == "system":
            end -= 1
        begin = end
        while begin and self.turns[begin - 1].role == "user":
            begin -= 1
        run = [turn.text for turn in self.turns[begin:end]]
        if [said.text for said in asked] != run or end == len(self.turns):
            return False
        latest = self.turns[-1]
        if latest.trace_id == step.trace or step.system not in {turn.system for turn in self.turns[end:]}:
            return True
        if not history:
            return latest.text == step.answers[0] and latest.at >= to_time(step.start)
        return bool(begin) and history[-1].text == self.turns[begin - 1].text and history[-1].text != latest.text

    def _say(self, said: Iterable[TracedText], step: Told) -> None:
        for one in said:
            speaker = USER if one.role == "user" else ASSISTANT
            if one.role == "system":
                self.told.setdefault(one.text, []).append(len(self.turns))
            self._append(LiveTurn(speaker, one.role, one.text, to_time(step.start), step.trace, step.place.key))

    def _answer(self, text: str, step: Told) -> None:
        self._append(make_answer(text, step))

    def _answer_again(self, text: str, step: Told) -> None:
        """Replaces the answer of the same system, or adds that of another one."""
        made = make_answer(text, step)
        for place in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[place]
            if turn.role == "user":
                break
            if turn.system == step.system:
                self.repeats += 1
                self.turns[place] = made
                self.known[made.role, made.text] += 1
                return
        self._append(made)

    def _append(self, turn: LiveTurn) -> None:
        self.turns.append(turn)
        self.characters += len(turn.text)
        self.known[turn.role, turn.text] += 1


def make_answer(text: str, step: Told) -> LiveTurn:
    """The system's turn."""
    latency = (step.end - step.start) / 1e9
    turn = LiveTurn(ASSISTANT, "system", text, to_time(step.end), step.trace, step.place.key)
    timed = latency if 0 < latency <= LONGEST_ANSWER else None
    return replace(turn, system=step.system, build=step.build, response_id=step.response, latency_seconds=timed)


def to_time(nanoseconds: int) -> datetime:
    """A time in UTC."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
