"""Messages as values: an id and what stands in it, which become a sentence where they are read.

A catalogue `messages.toml` stands beside the code that speaks, and has a table for each id with the sentence in every
language:

    [too-many-items]
    en = "a batch may have at most {most:,} items, and this has {given:,}"
    ja = "バッチの項目は最大 {most:,} 件です（今回は {given:,} 件）"
    ko = "배치의 항목은 최대 {most:,}개입니다(이번에는 {given:,}개)"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

LANGUAGES = ("en", "ja", "ko")
DEFAULT_LANGUAGE = "en"
CATALOGUE = "messages.toml"

packages = ["saiten"]
"""Whose folders hold catalogues; the server adds itself."""

Value: TypeAlias = "str | int | float | Message | Sequence[Message] | None"


class Message:
    """A sentence: the `id` of its template, and the values that the template names. A value may be a message itself, or
    several, which `join_messages` puts in a row. It is equal to another of the same id and values; `str` of it is
    English."""

    __slots__ = ("_said", "id", "values")

    def __init__(self, id: str, /, **values: Value) -> None:  # noqa: A002 - the name that it has everywhere
        self.id = id
        # A number of numpy is kept as Python's, or JSON could not hold it.
        self.values: Mapping[str, Value] = {name: unbox(value) for name, value in values.items()}
        self._said: dict[str, str] = {}

    def say(self, language: str = DEFAULT_LANGUAGE) -> str:
        """The sentence in a language of `LANGUAGES`; raises KeyError for an id that no catalogue has."""
        said = self._said.get(language)
        if said is None:  # a badge is said with each of a hundred thousand results
            told = {name: say_value(value, language) for name, value in self.values.items()}
            said = self._said[language] = find_template(self.id, language).format_map(told)
        return said

    def as_json(self) -> dict[str, Any]:
        """The values as JSON: a message among them as its own `code` and `values`."""
        return {name: value_as_json(value) for name, value in self.values.items()}

    def __str__(self) -> str:
        return self.say()

    def __repr__(self) -> str:
        return f"Message({self.id!r}, {self.values!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.id, self.values) == (other.id, other.values)

    def __hash__(self) -> int:
        return hash((self.id, repr(self.values)))

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (self.id, dict(self.values))


class Misfit(ValueError):
    """A value that does not fit, and a message that says why."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


def rebuild(name: str, values: Mapping[str, Any]) -> Message:
    """A message of these parts: as it is unpickled, and as it is read again from JSON."""
    return Message(name, **{key: read_value(value) for key, value in values.items()})


def unbox(value: Any) -> Any:
    """Python's number for one of numpy's; any other value as it is."""
    return value.item() if hasattr(value, "item") else value


def say_value(value: Value, language: str) -> Any:
    """A value as the template formats it."""
    if isinstance(value, Message):
        return value.say(language)
    if value is None or isinstance(value, str | int | float):
        return value
    return join_messages([one.say(language) for one in value], language)


def join_messages(said: Sequence[str], language: str) -> str:
    """Several in a row. Semicolons part them in English. Japanese and Korean have none: a full stop ends what is a
    whole sentence, and a comma what is not."""
    if language not in SENTENCE_ENDS:
        return "; ".join(said)
    ends, opening, stop, comma = SENTENCE_ENDS[language]
    parts = [part + (stop if is_sentence(part, ends, opening) else comma) for part in said[:-1]]
    return "".join([*parts, *said[-1:]])


SENTENCE_ENDS = {
    "ja": (("す", "せん", "した", "さい"), "（", "。", "、"),
    "ko": (("다", "요", "오"), "(", ". ", ", "),
}
"""By language how sentences end, what opens a parenthesis, and what parts sentences and other parts."""


def is_sentence(part: str, ends: tuple[str, ...], opening: str) -> bool:
    """Whether it ends as sentences do, before what stands in parentheses at its end."""
    return (part.rpartition(opening)[0] if part.endswith((")", "）")) else part).endswith(ends)


def value_as_json(value: Value) -> Any:
    """A value as `Message.as_json` shows it."""
    if isinstance(value, Message):
        return {"code": value.id, "values": value.as_json()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [value_as_json(one) for one in value]


def read_value(value: Any) -> Any:
    """The value that `value_as_json` wrote; what is none of its kinds stays as it is."""
    if isinstance(value, dict) and value.keys() == {"code", "values"}:
        return rebuild(value["code"], value["values"])
    return [read_value(one) for one in value] if isinstance(value, list) else value


def find_template(name: str, language: str) -> str:
    """The template of an id in a language; raises KeyError for an unknown id."""
    return read_catalogues()[name][language]


@cache
def read_catalogues() -> Mapping[str, Mapping[str, str]]:
    """Every id with its templates by language; an id that two catalogues have raises ValueError."""
    found: dict[str, Mapping[str, str]] = {}
    for package in packages:
        for file in find_catalogues(files(package)):
            own = tomllib.loads(file.read_text("utf-8"))
            if twice := found.keys() & own.keys():
                raise ValueError(f"two catalogues have the message {min(twice)}")
            found.update(own)
    return found


def find_catalogues(folder: Traversable) -> list[Traversable]:
    """The catalogues in a package's folder and those below, in the order of their names."""
    found = []
    for part in sorted(folder.iterdir(), key=lambda part: part.name):
        if part.is_dir() and not part.name.startswith((".", "__")):
            found += find_catalogues(part)
        elif part.name.endswith(CATALOGUE):
            found.append(part)
    return found
