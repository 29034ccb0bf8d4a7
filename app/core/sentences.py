"""Sentences in values: messages that become text in the caller's language where a value is written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    WithJsonSchema,
    computed_field,
    model_validator,
)

from saiten.core.messages import DEFAULT_LANGUAGE, Message, rebuild, value_as_json
from saiten_server.core.model import Value

MESSAGES = "by field, the `code` and the `values` of the sentences in it; those of a list in its order"
LANGUAGE = "language"
"""The key of the language in the context of a value that is written as JSON; without one it is English."""


def check_sentence(value: Any) -> Message | str:
    """A message, or a text as older versions stored it."""
    if not isinstance(value, Message | str):
        raise ValueError("must be a text")  # noqa: TRY004 - pydantic reports no TypeError
    return value


def tell_sentence(sentence: Message | str, language: str = DEFAULT_LANGUAGE) -> str:
    """The sentence in a language. A text stays as it is."""
    return sentence.say(language) if isinstance(sentence, Message) else sentence


def write_sentence(value: Message | str, info: SerializationInfo) -> str:
    """The sentence in the language of the context."""
    return tell_sentence(value, (info.context or {}).get(LANGUAGE, DEFAULT_LANGUAGE))


Sentence: TypeAlias = Annotated[
    Message | str,
    PlainValidator(check_sentence, json_schema_input_type=str),
    PlainSerializer(write_sentence, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A field's message: in JSON a text, whose code and values stand in `messages` beside it."""


MessageId: TypeAlias = Annotated[
    str | None,
    Field(
        exclude_if=lambda message: message is None,
        description="the id of what `detail` says; results of older versions have none",
    ),
]
MessageValues: TypeAlias = Annotated[
    dict[str, Any] | None,
    Field(exclude_if=lambda values: values is None, description="what stands in `detail`, by name"),
]


def in_english(message: Message) -> dict[str, Any]:
    """The fields of a `Detailed` value that say this."""
    return {"detail": str(message), "message": message.id, "values": message.as_json()}


def pass_on(one: HasDetail) -> dict[str, Any]:
    """The fields of a `Detailed` value that say what another says."""
    return {"detail": one.detail, "message": one.message, "values": one.values}


def instead(text: str) -> dict[str, Any]:
    """The fields of a `Detailed` value whose sentence gives way to a text: its values may quote a dialogue."""
    return {"detail": text, "message": None, "values": None}


class HasDetail(Protocol):
    """What `Detailed` needs."""

    @property
    def detail(self) -> str: ...
    @property
    def message(self) -> str | None: ...
    @property
    def values(self) -> dict[str, Any] | None: ...


class Detailed:
    """A value that is stored with a sentence: `detail` is English, and `message` and `values` tell it in any language.
    Unlike `Telling` it costs nothing to read where the sentence is not asked for."""

    @property
    def sentence(self: HasDetail) -> Message:
        """The message; `detail` as it is where there is none, or none that this version has."""
        found = read_told(self.detail, {"code": self.message, "values": self.values or {}})
        return found if isinstance(found, Message) else Message("verbatim", text=self.detail)

    def __hash__(self: HasDetail) -> int:
        return hash((type(self), self.detail))


def translate(document: Any, language: str) -> Any:
    """A JSON document of `Detailed` and `Telling` values, however deep, with their sentences in the language."""
    if isinstance(document, list):
        return [translate(each, language) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: translate(each, language) for name, each in document.items()}
    messages = document.get("messages")
    said = dict(messages) if isinstance(messages, dict) else {}
    if isinstance(document.get("message"), str) and isinstance(document.get("values"), dict):
        message = {"code": document["message"], "values": document["values"]}
        # `unavailable` is what a similarity calls its `detail`.
        said |= {"detail": message, "unavailable": message}
    for name in said.keys() & document.keys():
        found[name] = tell_each(read_told(document[name], said[name]), language)
    return found


def tell_each(value: Any, language: str) -> Any:
    """The sentences in a value, a list or by name, in the language."""
    if isinstance(value, Mapping):
        return {name: tell_each(each, language) for name, each in value.items()}
    if isinstance(value, list):
        return [tell_each(each, language) for each in value]
    return tell_sentence(value, language)


def describe_messages(schema: dict[str, Any]) -> None:
    """Adds `messages` to the schema of a value that a request may hold as an earlier answer had it."""
    told = {"type": "object", "description": MESSAGES, "additionalProperties": True}
    schema["properties"].setdefault("messages", told)


class Telling(Value):
    """A value with sentences. In JSON `messages` says them again, and a value that is read from JSON has them from
    there, so that what is stored can be told in any language. A message that no catalogue has stays the text."""

    model_config = ConfigDict(json_schema_extra=describe_messages)

    @model_validator(mode="before")
    @classmethod
    def _read_messages(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "messages" not in data:
            return data
        fields = {name: value for name, value in data.items() if name not in cls.model_computed_fields}
        messages = data["messages"]
        if isinstance(messages, dict):
            fields |= {name: read_told(fields[name], messages[name]) for name in messages.keys() & fields.keys()}
        return fields

    @computed_field(  # type: ignore[prop-decorator]
        description=MESSAGES,
        exclude_if=lambda messages: not messages,
    )
    @property
    def messages(self) -> dict[str, Any]:
        """By field the messages as JSON."""
        found = ((name, as_messages(getattr(self, name))) for name in type(self).model_fields)
        return {name: messages for name, messages in found if messages}


def as_messages(value: Any) -> Any:
    """The code and values of a message, of each in a list or by name; None where there is no message."""
    if isinstance(value, Message):
        return value_as_json(value)
    if isinstance(value, Mapping):
        found = {name: shown for name, each in value.items() if (shown := as_messages(each))}
        return found or None
    if isinstance(value, tuple) and any(isinstance(each, Message) for each in value):
        return [as_messages(each) for each in value]
    return None


def read_told(text: Any, message: Any) -> Any:
    """The message of a text, or of texts, that stand in JSON; the text where the message cannot be said."""
    if isinstance(text, dict) and isinstance(message, dict):
        return {name: read_told(each, message[name]) if name in message else each for name, each in text.items()}
    if isinstance(text, Sequence) and not isinstance(text, str):
        known = isinstance(message, Sequence) and len(message) == len(text)
        return [read_told(one, each) for one, each in zip(text, message, strict=True)] if known else text
    if not isinstance(text, str) or not isinstance(message, dict):
        return text
    try:
        found = rebuild(message["code"], message["values"])
        found.say()
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RecursionError):
        return text
    return found
