"""What a span of OpenTelemetry says, by any of the conventions for generative AI: one reader for files and for what
arrives at a service.

Spans of one bot may mix conventions, so each is looked at by itself. Messages come as JSON in a string, as structured
values, or as attributes with numbers in their names. Names are those of OpenTelemetry's semantic conventions for
generative AI (1.28 to 1.40), of OpenInference, OpenLLMetry, Langfuse and MLflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from saiten.core.formats.headings import Columns, normalize
from saiten.core.formats.mapping import ASSISTANTS, INSTRUCTIONS, USERS, Skipped, build_item
from saiten.core.formats.records import Record, list_objects, parse_cell, parse_text
from saiten.core.formats.traces import OF_OPENTELEMETRY

Role = Literal["user", "system"]
"""`system` is what a model said: the system under evaluation."""

CONVERSATION_ATTRIBUTES = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "mlflow.trace.session",
    "traceloop.association.properties.session_id",
)
"""Attributes that name a conversation, the first that holds something counts."""

DETAILS = "gen_ai.client.inference.operation.details"
"""The event that holds a call's messages as its attributes."""


class Convention(NamedTuple):
    """The attributes that hold what was asked and answered. A `general` one is also that of steps around a call, whose
    messages other attributes of the same span tell better."""

    name: str
    asked: str
    answered: str
    is_general: bool = False


WHOLE = (
    Convention("gen_ai", "gen_ai.input.messages", "gen_ai.output.messages"),
    Convention("gen_ai-prompt", "gen_ai.prompt", "gen_ai.completion"),
    Convention("openinference", "llm.input_messages", "llm.output_messages"),
    Convention("openinference-value", "input.value", "output.value", is_general=True),
    Convention("langfuse", "langfuse.observation.input", "langfuse.observation.output", is_general=True),
    Convention("langfuse-trace", "langfuse.trace.input", "langfuse.trace.output", is_general=True),
    Convention("mlflow", "mlflow.spanInputs", "mlflow.spanOutputs", is_general=True),
    Convention("traceloop", "traceloop.entity.input", "traceloop.entity.output", is_general=True),
)
"""In the order in which they are tried, for each side by itself."""

INDEXED = re.compile(
    r"(?:gen_ai\.(?P<old>prompt|completion)|llm\.(?P<side>input|output)_messages)\.(?P<index>\d{1,5})\.(?P<key>.+)"
)
"""One part of a message in the older conventions: of OpenLLMetry, and of OpenInference."""

SPOKEN = re.compile(r"gen_ai\.(?:(?P<role>user|assistant|system|tool)\.message|choice|content\.(?:prompt|completion))")
"""Events that hold a message each."""

OF_CALLS = re.compile(r"(gen_ai|llm|openinference|langfuse|mlflow|traceloop|ai|input|output)\.")
"""How the attributes begin of spans that stem from a call of a model, or from what is around it."""

SAYING = re.compile(
    r".*[._](prompts?|completions?|messages?|inputs?|outputs?|question|answer|response|text|content)", re.I
)
"""Names of attributes that may hold what was said."""

KIND_ATTRIBUTES = tuple(
    path.removeprefix("attributes.") for path in OF_OPENTELEMETRY.kind if path.startswith("attributes.")
)

OF_MLFLOW = ("mlflow.traceRequestId", "mlflow.spanType")
OF_ENTITIES = ("traceloop.entity.input", "traceloop.entity.output")
OF_FUNCTIONS = ("traceloop.entity.input", "langfuse.observation.input")

ASKING = {"user", "human"}
ANSWERING = {"assistant", "ai", "model", "bot"}
TEXT_KINDS = {"text", "input_text", "output_text"}
TOOL_KINDS = {"tool_call", "tool_use", "function_call"}

MOST_MESSAGES = 400
"""Messages of a call that are read, the latest."""

MOST_PARTS = 1_000
"""Parts of a message that are looked at."""

MOST_ATTRIBUTE_NAME = 200
"""Characters of an attribute's name that are looked at."""

JSON_STARTS = ("{", "[")


class Said(NamedTuple):
    """One message: whose, and its text."""

    role: Role
    text: str


@dataclass(frozen=True)
class SpanEvent:
    """An event of a span, in the order in which the span holds them."""

    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """What a span says: the messages that were sent, as far as they are utterances, and the answers that came.
    `tool_calls` counts calls of tools that the model asked for in place of an answer, or with it: they are no turns."""

    convention: str
    asked: tuple[Said, ...] = ()
    answers: tuple[str, ...] = ()
    tool_calls: int = 0


@dataclass
class Gathered:
    """The raw values of a convention, and the names of the attributes that hold them; `parts` are those of attributes
    that hold a part of a message each, or none, where events do."""

    convention: str
    asked: Any
    answered: Any
    names: tuple[str, str] = ("gen_ai.prompt", "gen_ai.completion")
    parts: tuple[str, ...] | None = None


@dataclass
class MessageCounts:
    """What is counted while messages are read."""

    tool_calls: int = 0


def read_attributes(attributes: Any) -> dict[str, Any]:
    """Attributes by name: OTLP writes a list of keys and typed values, the SDK an object."""
    given = parse_cell(attributes)
    if isinstance(given, dict):
        return dict(given)
    return {str(part["key"]): read_any(part.get("value")) for part in list_objects(given) if "key" in part}


def read_any(value: Any) -> Any:
    """A typed value of OTLP."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    values = inner.get("values") if isinstance(inner, dict) else None
    if kind == "arrayValue":
        return [read_any(part) for part in values] if isinstance(values, list) else []
    return read_attributes(values) if kind == "kvlistValue" else inner


def read_plainly(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes with their texts as they were said. MLflow writes every value as JSON, and OpenLLMetry what goes
    into a step and comes out of it, so that a text stands in quotation marks; Langfuse and OpenLLMetry write all that a
    function was given. Other tools' attributes stay as they are."""
    if any(name in attributes for name in OF_MLFLOW):
        return {name: parse_text(value) for name, value in attributes.items()}
    plain = {name: parse_text(attributes[name]) for name in OF_ENTITIES if name in attributes}
    plain |= {name: read_arguments(plain.get(name, attributes[name])) for name in OF_FUNCTIONS if name in attributes}
    return {**attributes, **plain} if plain else attributes


def read_arguments(value: Any) -> Any:
    """What a function was given: the only text, or else what has a name. Any other value unchanged."""
    given = parse_value(value)
    if not isinstance(given, dict) or given.keys() != {"args", "kwargs"}:
        return value
    unnamed = given["args"] if isinstance(given["args"], list) else []
    named = given["kwargs"] if isinstance(given["kwargs"], dict) else {}
    texts = [one for one in (*unnamed, *named.values()) if isinstance(one, str)]
    return texts[0] if len(texts) == 1 else named


def find_conversation(attributes: Mapping[str, Any]) -> str:
    """The id of the conversation that a span names; empty where it names none."""
    for name in CONVERSATION_ATTRIBUTES:
        value = attributes.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""


def find_kind(attributes: Mapping[str, Any]) -> str:
    """What kind of step a span is, as `saiten.core.formats.traces` knows them."""
    return next((str(attributes[name]) for name in KIND_ATTRIBUTES if attributes.get(name)), "")


def is_of_a_call(attributes: Mapping[str, Any]) -> bool:
    """Whether a span may belong to a model's call: others, such as those of HTTP or of a database, say nothing."""
    return any(OF_CALLS.match(name) for name in attributes)


def name_saying(attributes: Mapping[str, Any]) -> list[str]:
    """The names of attributes that look as if they held what was said, for a span that no convention reads."""
    return sorted(
        name
        for name, value in attributes.items()
        if SAYING.fullmatch(name[:MOST_ATTRIBUTE_NAME]) and isinstance(value, str | list)
    )


def gather_messages(attributes: Mapping[str, Any], events: Sequence[SpanEvent] = ()) -> Gathered | None:
    """The raw values of what was asked and answered, of the first convention that the span follows; None where it
    follows none."""
    for event in events:
        if event.name == DETAILS:
            attributes = {**attributes, **event.attributes}
    asked = next((one for one in WHOLE if is_there(attributes.get(one.asked))), None)
    answered = next((one for one in WHOLE if is_there(attributes.get(one.answered))), None)
    first = min((one for one in (asked, answered) if one), key=WHOLE.index, default=None)
    if first is None or first.is_general:
        numbered = gather_indexed(attributes) or gather_events(events)
        if numbered is not None or first is None:
            return numbered
    names = ((asked or first).asked, (answered or first).answered)
    return Gathered(first.name, attributes.get(names[0]), attributes.get(names[1]), names)


def is_there(value: Any) -> bool:
    """Whether a value holds something."""
    return value is not None and value not in ("", [], {}, "[]", "null")


def gather_indexed(attributes: Mapping[str, Any]) -> Gathered | None:
    """Messages of attributes such as `gen_ai.prompt.0.content` and `llm.input_messages.0.message.content`."""
    sides: dict[str, dict[int, dict[str, Any]]] = {"asked": {}, "answered": {}}
    names, old = [], False
    for name, value in attributes.items():
        if not name.startswith(("gen_ai.", "llm.")) or not (found := INDEXED.fullmatch(name)):
            continue
        names.append(name)
        old = old or found["old"] is not None
        side = "asked" if (found["old"] or found["side"]) in ("prompt", "input") else "answered"
        add_part(sides[side].setdefault(int(found["index"]), {}), found["key"].removeprefix("message."), value)
    if not names:
        return None
    asked, answered = ([messages[index] for index in sorted(messages)] for messages in sides.values())
    return Gathered("gen_ai-indexed" if old else "openinference", asked, answered, parts=tuple(names))


def add_part(message: dict[str, Any], key: str, value: Any) -> None:
    """A part of a message under its key; `contents.0.message_content.text` and `tool_calls.0.…` in lists."""
    if key.startswith("contents.") and key.endswith(".message_content.text"):
        if not isinstance(message.get("content"), list):
            message["content"] = []
        message["content"].append({"type": "text", "text": value})
    elif key.startswith("tool_calls."):
        if not isinstance(message.get("tool_calls"), dict):
            message["tool_calls"] = {}
        message["tool_calls"][key.split(".")[1]] = value
    elif not key.startswith("contents."):
        message[key] = value


def gather_events(events: Sequence[SpanEvent]) -> Gathered | None:
    """Messages of the events `gen_ai.user.message`, `gen_ai.choice` and the like."""
    asked: list[dict[str, Any]] = []
    answered: list[dict[str, Any]] = []
    for event in events:
        found = SPOKEN.fullmatch(event.name)
        if found is None:
            continue
        is_answer = event.name in ("gen_ai.choice", "gen_ai.content.completion")
        names = ("content", "message", "gen_ai.completion" if is_answer else "gen_ai.prompt", "body")
        value = next((event.attributes[name] for name in names if is_there(event.attributes.get(name))), None)
        message = parse_value(value)
        if isinstance(message, dict) and isinstance(message.get("message"), dict):
            message = message["message"]
        if isinstance(message, list):  # the whole prompt
            (answered if is_answer else asked).extend(one for one in message if isinstance(one, dict))
            continue
        whole = message if isinstance(message, dict) else {"content": message}
        role = "assistant" if is_answer else found["role"] or "user"
        (answered if is_answer else asked).append({"role": role, **whole})
    return Gathered("gen_ai-events", asked, answered, parts=()) if asked or answered else None


def read_call(attributes: Mapping[str, Any], events: Sequence[SpanEvent] = ()) -> Call | None:
    """What the span says; None where no convention reads it."""
    found = gather_messages(attributes, events)
    if found is None:
        return None
    reading = MessageCounts()
    asked, answered = parse_value(found.asked), parse_value(found.answered)
    messages, answers = list_messages(asked), list_messages(answered)
    if messages is None and answers is None:
        return read_generally(found, asked, answered)
    # A history repeats the calls of tools that were counted when they were made.
    said = tuple(read_messages(messages, MessageCounts())) if messages is not None else read_question(asked)
    if answers is not None:
        texts = [one.text for one in read_messages(answers, reading, "system")]
    else:
        texts = read_answers(answered)
    call = Call(found.convention, said, tuple(texts), reading.tool_calls)
    return call if said or texts or reading.tool_calls else None


def parse_value(value: Any) -> Any:
    """The value of JSON in a string; any other as it is."""
    if not isinstance(value, str) or not value.lstrip()[:1].startswith(JSON_STARTS):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def list_messages(value: Any) -> list[dict[str, Any]] | None:
    """Messages with roles, the latest, where the value is a list of them, one, a request or an answer that holds them;
    else None."""
    if isinstance(value, dict):
        inner = value.get("messages", value.get("choices"))
        if isinstance(inner, list):
            return list_messages([one.get("message", one) if isinstance(one, dict) else one for one in inner])
        return [value] if "role" in value and ("content" in value or "parts" in value) else None
    if not isinstance(value, list) or not value:
        return None
    latest = [unwrap(one) for one in value[-MOST_MESSAGES:]]
    return latest if all(isinstance(one, dict) and "role" in one for one in latest) else None


def unwrap(message: Any) -> Any:
    """A message as Phoenix's tables write it, below `message` or with `message.role` as a key, without that."""
    if not isinstance(message, dict) or "role" in message:
        return message
    inner = message["message"] if isinstance(message.get("message"), dict) else message
    return {key.removeprefix("message."): part for key, part in inner.items()}


def read_messages(messages: Sequence[dict[str, Any]], reading: MessageCounts, default: Role = "user") -> Iterator[Said]:
    """The utterances of messages; instructions and what tools say are none. `default` is the role of those whose role
    is not known."""
    for message in messages:
        name = str(message.get("role")).lower()
        if message.get("tool_calls"):
            reading.tool_calls += len(message["tool_calls"]) if isinstance(message["tool_calls"], list | dict) else 1
        role: Role | None = "user" if name in ASKING else "system" if name in ANSWERING else find_role(name, default)
        if role is None:
            continue
        text = read_content(message.get("parts", message.get("content")), reading)
        if text.strip():
            yield Said(role, text)


def find_role(name: str, default: Role) -> Role | None:
    """The role of a name that is none of the usual ones; None for instructions and tools."""
    known = normalize(name)
    if known in INSTRUCTIONS or known in ("tool", "function", "developer"):
        return None
    return "user" if known in USERS else "system" if known in ASSISTANTS else default


def read_content(content: Any, reading: MessageCounts) -> str:
    """The text of a message: a string, or the parts of which those that are text count."""
    content = parse_value(content) if isinstance(content, str) and content[:2] in ("[{", '{"') else content
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = []
    for part in parts[:MOST_PARTS]:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, dict):
            continue
        kind = str(part.get("type", "text"))
        text = part.get("content", part.get("text"))
        if kind in TEXT_KINDS and isinstance(text, str):
            texts.append(text)
        else:
            reading.tool_calls += kind in TOOL_KINDS
    return "\n".join(texts) if texts else content if isinstance(content, str) else ""


def read_question(value: Any) -> tuple[Said, ...]:
    """What was asked, where only the answer is a message."""
    item = build_from_values(value, "-")
    return tuple(Said(to_role(one["speaker"]), one["text"]) for one in item.get("context", ()))


def read_answers(value: Any) -> list[str]:
    """What was answered, where only the question is a message."""
    item = build_from_values("-", value)
    return [item["response"]] if "response" in item else list(item.get("responses", ()))


def read_generally(found: Gathered, asked: Any, answered: Any) -> Call | None:
    """What the values say as any tool may write them: a text, a request, an object with a question."""
    item = build_from_values(asked, answered)
    said = tuple(Said(to_role(one["speaker"]), one["text"]) for one in item.get("context", ()))
    texts = [item["response"]] if "response" in item else list(item.get("responses", ()))
    if not item:
        said = read_question(asked) if is_there(asked) else ()
        texts = read_answers(answered) if is_there(answered) else []
    return Call(found.convention, said, tuple(texts)) if said or texts else None


def build_from_values(asked: Any, answered: Any) -> dict[str, Any]:
    """An item of these values as `saiten convert` makes it of any record; empty where they are none."""
    if not is_there(asked) or not is_there(answered):
        return {}
    record = Record("", {"input": asked, "output": answered})
    try:
        return build_item(record, Columns(context=["input"], response=["output"]))
    except Skipped:
        return {}


def to_role(speaker: str) -> Role:
    """The role of a speaker of an item's context."""
    return "system" if normalize(speaker) in ASSISTANTS else "user"
