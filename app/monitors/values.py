"""Monitors: what they sample of a project's live conversations, and what they find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from saiten.core.messages import Message
from saiten_server.core.conversation import MOST_TURNS, RULE_CODES
from saiten_server.core.dialogue import check_line, requested_from
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.model import Finite, Location, RubricName, Value, listed, refuse
from saiten_server.core.reports import LEAST_ALPHA, Interval

MonitorId = Annotated[str, Field(min_length=1, max_length=64)]
MonitorName = Annotated[
    str, AfterValidator(partial(check_line, limit="name_characters", what=Message("monitor-name"), blank=False))
]
AttributeName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
AttributeValue = Annotated[
    str, AfterValidator(partial(check_line, limit="metadata_characters", what=Message("attribute-value"), blank=False))
]
Attributes = Annotated[dict[AttributeName, AttributeValue], Field(max_length=8)]
Rate = Annotated[Finite, Field(ge=0, le=1)]
AspectName = Annotated[str, Field(min_length=1, max_length=64)]
Span = Literal["hour", "day"]
AlarmState = Literal["ok", "alarm", "not-enough"]

SYSTEM_ATTRIBUTE, BUILD_ATTRIBUTE = "service.name", "service.version"
FINDING_MEASURES = tuple(f"finding:{code}" for code in RULE_CODES)
"""The measures of system turns with a finding of a rule, which looks at every conversation."""


class Stratum(Value):
    """Conversations that are sampled at a rate of their own."""

    filter: Attributes = Field(min_length=1, description="attributes that a conversation of the stratum has")
    rate: Rate = Field(description="the probability with which it is sampled, from 0 to 1")


class AlarmOptions(Value):
    """What raises an alarm, and how often one may be false."""

    aspects: Annotated[tuple[AspectName, ...], listed(maximum=32)] | None = Field(
        default=None, description="aspects of the rubric that are watched; null: all"
    )
    reference_days: Annotated[int, Field(ge=7, le=90)] = Field(
        default=14, description="days from the first conversation on that later ones are compared with"
    )
    alpha: Annotated[Finite, Field(gt=0, le=0.5), requested_from(LEAST_ALPHA)] = Field(
        default=0.05, description="the most probable number of false alarms over the monitor's whole life"
    )


class Sink(Value):
    """Where results are sent. The key comes from the operator's settings."""

    kind: Literal["otlp", "langfuse", "phoenix", "mlflow", "webhook"] = Field(description="how they are written")
    url: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        description="of one of the services that SAITEN_SINKS lists"
    )


class MonitorOptions(Value):
    """What a monitor samples, by what it scores it, and what it does with the results."""

    name: MonitorName = Field(description="the name of its runs")
    rubric: RubricName = Field(description="a rubric of conversations, `id` or `id@version`")
    filter: Attributes = Field(
        default_factory=dict, description="attributes that a conversation has to have; `service.name` is the system"
    )
    rate: Rate = Field(default=0.05, description="the probability with which a conversation is sampled, from 0 to 1")
    strata: Annotated[tuple[Stratum, ...], listed(maximum=16)] = Field(
        default=(), description="conversations with other rates; the first stratum that a conversation is of counts"
    )
    idle_seconds: Annotated[Finite, Field(ge=5, le=86_400)] = Field(
        default=300, description="a conversation has ended after so long without a turn"
    )
    max_turns: Annotated[int, Field(ge=2, le=MOST_TURNS)] = Field(
        default=MOST_TURNS, description="or with so many turns"
    )
    window: Span = Field(default="day", description="conversations of one hour or day (UTC) are a run")
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    budget_usd_per_day: Annotated[Finite, Field(gt=0)] | None = Field(
        default=None, description="what the judge may cost a day (UTC); the sample is thinned before that is passed"
    )
    alarm: AlarmOptions | None = Field(default=None, description="null: no alarms")
    redact: Annotated[tuple[Literal["email", "phone", "number", "name"], ...], listed(maximum=4)] = Field(
        default=("email", "phone", "number"), description="what is covered before a text is stored"
    )
    send_to: Annotated[tuple[Sink, ...], listed(maximum=8)] = Field(default=(), description="where results are sent")

    @model_validator(mode="after")
    def _check(self) -> MonitorOptions:
        refuse("MonitorOptions", self._faults())
        return self

    def _faults(self) -> Iterator[tuple[Location, Message]]:
        seen: set[Sink] = set()
        for number, sink in enumerate(self.send_to):
            if sink in seen:
                yield ("send_to", number), Message("sink-twice")
            seen.add(sink)

    @property
    def attributes(self) -> set[str]:
        """The attributes of spans that it looks at."""
        named = {*self.filter, *(name for stratum in self.strata for name in stratum.filter)}
        return named - {SYSTEM_ATTRIBUTE, BUILD_ATTRIBUTE}


class MonitorChange(MonitorOptions):
    """The fields that change; the others stay."""

    name: MonitorName | None = None  # type: ignore[assignment]
    rubric: RubricName | None = None  # type: ignore[assignment]


RESTARTING = ("rubric", "filter", "judge", "window", "alarm")
"""Options whose change makes the results before it no reference for those after it."""


class SinkState(Value):
    """What became of what a sink was to get."""

    kind: str
    url: str = Field(description="as it was given")
    waiting: int = Field(description="what is to be sent")
    sent: int = Field(description="what the service took")
    dropped: int = Field(description="given up because the backlog was full, or refused by the sink for good")
    last_error: str | None = Field(
        description="a code: `status-…`, `timeout`, `unreachable`, `not-listed`, `backlog-full`"
    )


class Monitor(Value):
    """A monitor as it is now."""

    id: MonitorId = Field(description="mo_…")
    version: int = Field(description="counts its changes, from 1")
    created_at: datetime
    updated_at: datetime = Field(description="when it was last changed")
    options: MonitorOptions = Field(
        description="what it samples and does, as it was given; the rubric with its version"
    )
    waiting: int = Field(default=0, description="sampled conversations without a result")
    thinning: int = Field(
        default=0, description="how often the rates are halved today, so that the budget lasts; 0: not thinned"
    )
    spent_usd_today: float | None = Field(default=0.0, description="null where the price of a result is not known")
    sinks: Annotated[tuple[SinkState, ...], listed()] = Field(
        default=(), description="what became of what was sent; empty in a list of monitors"
    )


class MeasureValue(Value):
    """A mean over a window's conversations, each weighted by the inverse of the probability with which it was
    sampled."""

    value: float | None = Field(description="the weighted mean; null without a conversation")
    interval: Interval = Field(
        default=None, description="at 95%; null for fewer than six conversations, and of ratings that are all alike"
    )
    n: int = Field(description="conversations")


class Window(Value):
    """The conversations of one hour or day, system and build."""

    starts_at: datetime = Field(description="the first moment of the hour or day, in UTC")
    ends_at: datetime = Field(description="the moment after it")
    system: str | None
    build: str | None = Field(description="of the system")
    run: str | None = Field(description="the batch of those that were sampled; null where none was")
    open: bool = Field(description="whether more may join")
    conversations: int = Field(description="that ended in it")
    sampled: int = Field(description="of these")
    thinned: int = Field(description="not sampled because of the budget alone")
    answers: int = Field(description="turns of the system")
    turns_mean: float | None = Field(description="turns of a conversation")
    errors: int = Field(description="failed calls of the system")
    latency_seconds_mean: float | None = Field(description="of the system's answers")
    findings: dict[str, float] = Field(description="system turns with a finding, per 100, by the rule's code")
    aspects: dict[str, MeasureValue] = Field(description="mean ratings of those sampled")
    faulty_turns: MeasureValue = Field(description="system turns with any finding, per 100, of those sampled")


class LiveResult(Value):
    """One conversation as the monitor saw it."""

    conversation: str = Field(description="the caller's name of the conversation")
    closed_at: datetime = Field(description="when it ended")
    system: str | None
    build: str | None = Field(description="of most of the system's turns")
    outcome: Literal["sampled", "skipped", "thinned", "unreadable"] = Field(
        description="whether it is in the sample, and why not: not drawn, left out for the budget, or nothing to judge"
    )
    probability: float = Field(description="with which it was sampled")
    run: str | None = Field(description="the batch that it is in")
    position: int | None = Field(description="its place there")
    status: str | None = Field(description="of the result; null while it waits")
    turns: int = Field(description="of both speakers")
    answers: int = Field(description="turns of the system")
    errors: int
    latency_seconds: float | None = Field(description="mean of the system's answers")
    findings: dict[str, int] = Field(description="system turns by the code of a rule")
    aspects: dict[str, float] = Field(description="ratings by the judge")
    faulty_turns: int | None = Field(description="system turns with a finding; null where that is not known")


class WorseConversation(Value):
    """A conversation that speaks for an alarm."""

    conversation: str = Field(description="the caller's name of it")
    run: str | None = Field(description="the batch that it is in; null where it was not sampled")
    position: int | None
    value: float = Field(description="its rating, or its system turns with a finding per 100")


class RisenKind(Value):
    """A kind of fault that is more frequent than in the reference."""

    kind: str
    before: float = Field(description="system turns per 100")
    after: float = Field(description="system turns per 100")


class Alarm(Value):
    """A measure that became worse than in the reference, until it was resolved."""

    id: str = Field(description="al_…")
    measure: str = Field(description="an aspect, `faulty_turns` or `finding:CODE`")
    raised_at: datetime = Field(description="when it was raised")
    resolved_at: datetime | None = Field(default=None, description="when it was over; null while it is on")
    since: datetime = Field(description="the beginning of the day from which on the difference is taken")
    difference: float = Field(description="of the mean rating, or of system turns per 100")
    interval: Interval
    conversations_compared: int = Field(description="since then")
    conversations: Annotated[tuple[WorseConversation, ...], listed()] = Field(description="the worst new ones")
    kinds: Annotated[tuple[RisenKind, ...], listed()] = Field(description="kinds of faults that rose most")


class MeasureState(Value):
    """How a measure stands against the reference."""

    measure: str = Field(description="an aspect, `faulty_turns` or `finding:CODE`")
    state: AlarmState = Field(description="`not-enough` data, `ok`, or `alarm`: worse")
    difference: float | None = Field(
        default=None, description="from the reference: of the mean rating, or of system turns per 100"
    )
    interval: Interval = None
    since: datetime | None = Field(
        default=None, description="the beginning of the day from which on the difference is taken"
    )
    n: int = Field(default=0, description="conversations since then")
    looked_at: datetime | None = Field(default=None, description="when it was last looked at")


@dataclass(frozen=True)
class StoredMonitor:
    """A monitor with what callers do not see."""

    monitor: Monitor
    project: str
    salt: str
    epoch: int
    api_key: str | None = None
    reference_from: int | None = None
    """The first day of the reference, as an ordinal; None before the first conversation."""

    @property
    def options(self) -> MonitorOptions:
        return self.monitor.options
