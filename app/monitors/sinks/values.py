"""What is sent, the same for every sink, and where to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.core.model import Value, digest
from saiten_server.monitors.values import Alarm, Monitor, MonitorOptions, Sink

BACKLOG = 10_000
"""What may wait for one sink; beyond that the oldest is given up, and counted."""


class Score(Value):
    """One figure of a conversation."""

    id: str
    name: str
    value: float
    label: str | None = None
    explanation: str | None = None


class SentScores(Value):
    """The result of one conversation. `session` is null where its name is that of a trace; `response` is the id that
    the bot's model gave its last answer, null where its span tells none."""

    evaluation: str
    monitor: str
    session: str | None
    trace_id: str | None
    span_id: str | None
    response: str | None = None
    scored_at: datetime
    scores: tuple[Score, ...] = Field(strict=False)


class SentAlarm(Value):
    """An alarm that was raised, or resolved. `aspect` is what the rubric calls the measure, by language; empty where it
    is no aspect."""

    event: Literal["raised", "resolved"]
    monitor: str
    name: str
    alarm: Alarm
    aspect: dict[str, str] = Field(default_factory=dict)


Sent = SentScores | SentAlarm


@dataclass(frozen=True)
class Outgoing:
    """What waits for a sink. `id` is the same whenever the same is sent there, so that it waits, and is kept, once."""

    id: str
    sink: str
    body: Sent


def key_of_sink(sink: Sink) -> str:
    """What a sink is known by."""
    return digest([sink.kind, sink.url])


def address_scores(monitor: Monitor, scores: SentScores) -> list[Outgoing]:
    """The result for each sink that takes some."""
    return [
        Outgoing(digest([key, scores.evaluation]), key, scores)
        for sink in monitor.options.send_to
        if sink.kind != "webhook" and (key := key_of_sink(sink))
    ]


def address_alarm(monitor: Monitor, alarm: Alarm, aspect: Mapping[str, str]) -> list[Outgoing]:
    """The alarm for each webhook, with the name of the aspect that it is about."""
    event: Literal["raised", "resolved"] = "raised" if alarm.resolved_at is None else "resolved"
    sent = SentAlarm(event=event, monitor=monitor.id, name=monitor.options.name, alarm=alarm, aspect=dict(aspect))
    return [
        Outgoing(digest([key, alarm.id, event]), key, sent)
        for sink in monitor.options.send_to
        if sink.kind == "webhook" and (key := key_of_sink(sink))
    ]


@dataclass(frozen=True)
class SinkKeys:
    """The services that the operator lets results be sent to, by scheme and host, each with its key."""

    keys: Mapping[str, str | None] = field(default_factory=dict)

    def require(self, options: MonitorOptions) -> None:
        """Raises InvalidRequest for an address that the operator has not listed: a monitor's author must not have the
        service call what it alone can reach."""
        for number, sink in enumerate(options.send_to):
            if not self.lists(sink.url):
                raise InvalidRequest(Message("sink-not-listed"), pointer=f"/send_to/{number}/url")

    def lists(self, url: str) -> bool:
        """Whether the operator lists the service of the address."""
        return url.isprintable() and " " not in url and origin_of(url) in self.keys

    def find(self, url: str) -> str | None:
        """The key of the service; None where it needs none."""
        return self.keys.get(origin_of(url) or "")


def origin_of(url: str) -> str | None:
    """Scheme, host and port of an address, in lower case; None where it is none, or holds a name or a fragment."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    named = parts.username is not None or parts.password is not None or parts.fragment
    if parts.scheme not in {"http", "https"} or not parts.hostname or named or not url.isascii():
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + ("" if port in {None, usual} else f":{port}")


def read_sinks(written: str | None) -> SinkKeys:
    """What SAITEN_SINKS says: a JSON object of addresses, each with a key or null. Raises SettingsInvalid."""
    if written is None:
        return SinkKeys()
    try:
        given = json.loads(written)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(key, str | None) for key in given.values()):
        raise SettingsInvalid(Message("sinks-form"))
    keys = {origin_of(url): key for url, key in given.items()}
    if None in keys:
        raise SettingsInvalid(Message("sinks-form"))
    return SinkKeys({url: key for url, key in keys.items() if url is not None})
