"""Which of the spans of a trace hold an answer that a user saw: one rule for every tool that writes spans.

OpenTelemetry's conventions for generative AI, OpenInference (Phoenix), Langfuse, LangSmith and MLflow write a span for
each step of a turn: the request, the chain, the model's call, a guardrail. Several of them repeat one answer. A turn
gives one item, that of its outermost span with an answer; what lies below a tool, a retriever, a guardrail or an
evaluator was never said to the user.

The kinds are those of OpenInference's `openinference.span.kind`, of `gen_ai.operation.name`, of OpenLLMetry's
`traceloop.span.kind`, of Langfuse's types of observations, of LangSmith's `run_type` and of MLflow's `SpanType`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import normalize
from saiten.core.formats.mapping import MOST_ID_CHARACTERS, USERS, Skipped
from saiten.core.formats.records import Record, write_text
from saiten.core.formats.report import Report
from saiten.core.formats.research import RatedItem, rate
from saiten.core.language import mark, tell

ReadItems = Iterator[dict[str, Any] | RatedItem | Skipped]

INTERNAL = {"tool", "retriever", "retrieval", "embedding", "embeddings", "reranker", "guardrail", "evaluator", "parser"}
INTERNAL |= {"prompt", "memory", "event", "executetool"}
"""Kinds of spans that say nothing to the user, nor does what lies below them; normalized."""

ASIDE = re.compile(r"guard|moderat|evaluat|judge|classif|rout(er|ing)|title|rewrit|condens|intent|follow.?up", re.I)
"""How steps beside the answer are named, where the tool tells no kind of them."""

VERDICT = re.compile(
    r"\W*(un)?safe\W*|\W*(ok|pass(ed)?|fail(ed)?|yes|no|true|false|allow(ed)?|block(ed)?|\d+(\.\d+)?)\W*|\{.*\}",
    re.I | re.S,
)
"""What a check answers, which is not said to the user where the same turn has another answer."""

MOST_VERDICT = 1000
"""Characters of an answer that are looked at."""

MOST_SPANS = 500_000
"""Of a file: a parent may stand anywhere in it, so that all are held."""

MOST_TURNS_COMPARED = 8
"""Turns of a trace, the latest, among which the turn of a span is looked for."""

FEWEST_QUOTED = 6
"""Characters of a text that another one holds as a quotation, not by chance."""

WITHIN = mark("within the answer of another span")
BESIDE = mark("a step that the user does not see")
REPEATED = mark("the same turn has another answer")
TWICE = mark("the span stands in the file twice")
SILENT = mark("has no answer of its own")


@dataclass(frozen=True)
class SpanPlace:
    """Where a span is: its id, its parent's (empty for none), its trace's, what kind it is of, and when it began."""

    key: str
    parent: str
    trace: str
    kind: str = ""
    name: str = ""
    start: str = ""


@dataclass(frozen=True)
class Fields:
    """Where a tool writes the place of a span: the first of the paths that holds something counts."""

    key: tuple[str, ...]
    parent: tuple[str, ...]
    trace: tuple[str, ...]
    kind: tuple[str, ...] = ()
    name: tuple[str, ...] = ("name",)
    start: tuple[str, ...] = ("start_time", "startTime")

    def find_key(self, record: Record) -> str:
        """The id of the record; empty where it has none."""
        return read_first(record, self.key)

    def find(self, record: Record) -> SpanPlace | None:
        """The place of the record; None where it names no trace, or itself in none."""
        key, trace = self.find_key(record), read_first(record, self.trace)
        if not key or not trace:
            return None
        parent, kind = read_first(record, self.parent), read_first(record, self.kind)
        return SpanPlace(key, parent, trace, kind, read_first(record, self.name), read_first(record, self.start))


OF_OPENTELEMETRY = Fields(
    key=("spanId", "span_id", "context.span_id"),
    parent=("parentSpanId", "parent_span_id", "parent_id"),
    trace=("traceId", "trace_id", "context.trace_id"),
    kind=(
        *("attributes.openinference.span.kind", "span_kind", "attributes.langfuse.observation.type"),
        *("attributes.traceloop.span.kind", "attributes.gen_ai.operation.name", "attributes.mlflow.spanType"),
    ),
    start=("startTimeUnixNano", "start_time_unix_nano", "start_time"),
)
"""Also of Phoenix, in its REST API and in its DataFrames."""

OF_LANGSMITH = Fields(("id",), ("parent_run_id",), ("trace_id",), ("run_type",))
OF_LANGFUSE = Fields(
    key=("id",),
    parent=("parentObservationId", "parent_observation_id", "traceId", "trace_id"),
    trace=("traceId", "trace_id", "id"),
    kind=("type",),
)
OF_LANGFUSE_EVENTS = Fields(
    key=("body.id",),
    parent=("body.parentObservationId", "body.traceId"),
    trace=("body.traceId", "body.id"),
    kind=("body.type",),
    name=("body.name",),
    start=("body.startTime", "timestamp"),
)


def read_first(record: Record, paths: Iterable[str]) -> str:
    """The first of the paths that holds something, as text."""
    return next((text for path in paths if (text := write_text(record.get(path)))), "")


def place_record(record: Record) -> SpanPlace | None:
    """The place of a row of MLflow that is one of several of a trace; a whole trace has none."""
    trace = read_first(record, ("trace_id", "request_id"))
    if not trace or not {"inputs", "outputs"} <= record.value.keys():
        return None
    key = read_first(record, ("span_id", "id")) or record.where
    return SpanPlace(
        key, read_first(record, ("parent_span_id", "parent_id")), trace, start=read_first(record, ("start_time",))
    )


def place_langfuse(record: Record) -> SpanPlace | None:
    """The place of a trace, which is above its observations, of one of these, or of an event that makes one; items of
    datasets have none."""
    if record.get("expectedOutput") is not None or record.get("datasetId") is not None:
        return None
    return (OF_LANGFUSE_EVENTS if isinstance(record.get("body"), dict) else OF_LANGFUSE).find(record)


@dataclass
class Step:
    """A span as one step of a turn, with what it says."""

    place: SpanPlace
    asked: str = ""
    """What its answer answers: the last of the user's utterances."""
    before: frozenset[str] = frozenset()
    """What was said before that."""
    answers: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class SpanItem(Step):
    """A span with what it gives: an item, or why it gives none, or nothing where it is no step with an answer."""

    record: Record
    found: list[dict[str, Any] | RatedItem | Skipped]

    def __post_init__(self) -> None:
        for one in self.found:
            item = one.value if isinstance(one, RatedItem) else one
            if isinstance(item, Skipped):
                continue
            context = item.get("context") or [{"text": ""}]
            users = [number for number, said in enumerate(context) if normalize(str(said.get("speaker"))) in USERS]
            last = users[-1] if users else len(context) - 1
            self.asked = context[last]["text"]
            self.before = frozenset(said["text"] for said in context[:last])
            self.answers += [item["response"]] if "response" in item else item.get("responses", [])


@dataclass(frozen=True)
class Choice:
    """Which steps of a trace hold answers that the user saw, by their keys: the last of each turn is `kept`. Those
    `hidden` say nothing to the user; those `within` lie below an answer."""

    kept: frozenset[str]
    hidden: frozenset[str]
    within: frozenset[str]


def choose_answers(
    read: Iterable[tuple[Record, ReadItems]], find_place: Callable[[Record], SpanPlace | None], report: Report
) -> Iterator[tuple[Record, ReadItems]]:
    """The records that count with their items, in the file's order; what is left out is named in the report. Records
    that are no spans are passed on. Raises UnreadableInput for more spans than are held."""
    traces: dict[str, list[SpanItem]] = {}
    number = 0
    for record, items in read:
        place = find_place(record)
        if place is None:
            yield record, items
            continue
        number += 1
        if number > MOST_SPANS:
            raise UnreadableInput(
                tell("{where}: more than {most:,} spans; give them in parts", where=record.where, most=MOST_SPANS)
            )
        traces.setdefault(place.trace, []).append(SpanItem(place=place, record=record, found=list(items)))
    for spans in traces.values():
        chosen = choose_spans(spans, report)
        name_apart([span for span in chosen if span.answers])
        for span in chosen:
            yield span.record, iter(span.found)


def name_apart(spans: Sequence[SpanItem]) -> None:
    """Numbers the items of a trace that all have its name, as where a tool gives its spans no ids."""
    named = [item for span in spans for item in span.found if isinstance(item, dict) and "id" in item]
    if len(named) > 1 and len({item["id"] for item in named}) == 1:
        for number, item in enumerate(named, start=1):
            suffix = f"-{number}"
            item["id"] = f"{item['id'][: MOST_ID_CHARACTERS - len(suffix)]}{suffix}"


def choose_spans(spans: Sequence[SpanItem], report: Report) -> list[SpanItem]:
    """The spans of a trace that give its items, in the file's order; the others are told to the report."""
    known: dict[str, SpanItem] = {}
    for span in spans:
        if known.setdefault(span.place.key, span) is not span:
            leave_span(span, TWICE, report)
    choice = choose_steps(known)
    if not choice.kept:
        return tell_unanswered(known, choice.hidden, report)
    lift_ratings(known, choice.kept)
    for key, span in known.items():
        if key in choice.kept or not span.found:
            continue
        seen = WITHIN if key in choice.within else REPEATED
        leave_span(span, BESIDE if key in choice.hidden else seen if span.answers else SILENT, report)
    return [span for key, span in known.items() if key in choice.kept or not span.found]


def choose_steps(known: Mapping[str, Step]) -> Choice:
    """Which steps of a trace, given by their keys, hold the answers of its turns."""
    internal = {key for key, step in known.items() if normalize(step.place.kind) in INTERNAL}
    aside = internal | {key for key, step in known.items() if step.place.parent in known and is_aside(step)}
    hidden = aside | find_below(known, aside)
    answers = {key for key, step in known.items() if step.answers}
    if not answers - hidden:
        hidden = internal | find_below(known, internal)
    seen = {key for key in answers if key not in hidden}
    within = find_below(known, seen)
    outer = [known[key] for key in known if key in seen and key not in within]
    outer = outer or [known[key] for key in known if key in seen][:1]  # parents in a circle
    kept = frozenset(turn[-1].place.key for turn in part_turns(outer))
    return Choice(kept, frozenset(hidden), frozenset(within))


def lift_ratings(known: Mapping[str, SpanItem], kept: Collection[str]) -> None:
    """Gives the ratings of spans that are left out to the span that holds the same answer, of each rater once."""
    for key, span in known.items():
        rated = [one for one in span.found if isinstance(one, RatedItem)] if key not in kept else []
        same = next((known[one] for one in kept if known[one].answers == span.answers), None) if rated else None
        if same is None or len(same.found) != 1:
            continue
        held = same.found[0]
        item, ratings = (held.value, held.ratings) if isinstance(held, RatedItem) else (held, ())
        raters = {rating.get("rater") for rating in ratings}
        more = [rating for one in rated for rating in one.ratings if rating.get("rater") not in raters]
        if isinstance(item, dict) and "id" in item:
            same.found = [rate(item, [*ratings, *more])]


def is_aside(step: Step) -> bool:
    """Whether the name of a span tells of a step beside the answer."""
    return ASIDE.search(step.place.name[:200]) is not None


def tell_unanswered(known: Mapping[str, SpanItem], hidden: Collection[str], report: Report) -> list[SpanItem]:
    """The spans of a trace without an answer: the first that should have one is skipped, and says why."""
    missing = [span for key, span in known.items() if span.found and not span.answers and key not in hidden]
    for span in known.values():
        if span.found and span not in missing[:1]:
            leave_span(span, SILENT if span in missing else BESIDE, report)
    return [*missing[:1], *(span for span in known.values() if not span.found)]


def leave_span(span: SpanItem, why: str, report: Report) -> None:
    """Names a span that gives no item."""
    report.rows += 1
    report.leave(tell("span {name}", name=span.place.name or span.place.kind or span.place.key), tell(why))


def find_below(spans: Mapping[str, Step], tops: Collection[str]) -> set[str]:
    """The spans below one of these, at any depth. Each is looked at once, and a circle of parents ends."""
    below: dict[str, bool] = {}
    for key in spans:
        path, at = [], key
        while at in spans and at not in below:
            below[at] = False
            path.append(at)
            at = spans[at].place.parent
        for one in reversed(path):
            parent = spans[one].place.parent
            below[one] = parent != one and (parent in tops or below.get(parent, False))
    return {key for key, is_below in below.items() if is_below}


def part_turns(steps: Iterable[Step]) -> list[list[Step]]:
    """The steps by the turn that they are of, in the order of time; the last of a turn is its answer."""
    turns: list[list[Step]] = []
    for span in sorted(steps, key=lambda one: one.place.start):
        near = (turn for turn in reversed(turns[-MOST_TURNS_COMPARED:]) if is_same(turn[-1], span))
        turn = next(near, None)
        if turn is None:
            turns.append([span])
        elif all(VERDICT.fullmatch(answer.strip()[:MOST_VERDICT]) for answer in span.answers):
            turn.insert(0, span)
        else:
            turn.append(span)
    return turns


def is_same(earlier: Step, later: Step) -> bool:
    """Whether two spans, of which none lies within the other, are steps of one turn: the later one is asked the same
    or about it, and does not go on from what was answered."""
    if any(answer in later.before for answer in earlier.answers):
        return False
    if quotes(later.asked, earlier.asked) or quotes(earlier.asked, later.asked):
        return True
    return any(quotes(later.asked, answer) for answer in earlier.answers)


def quotes(text: str, quoted: str) -> bool:
    """Whether a text is another one, or holds it."""
    return text == quoted or (len(quoted) >= FEWEST_QUOTED and quoted in text)
