"""YAML as values of JSON, event by event: no tag makes an object, and what aliases repeat is bounded before it is used.

Scalars are read as in YAML 1.2, as promptfoo does: `yes` and dates are texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.records import NumberTooLarge, read_float, read_integer
from saiten.core.language import tell

MOST_YAML_CHARACTERS = 32 * 1024 * 1024
"""Of a YAML file."""

MOST_EXPANDED = 64 * 1024 * 1024
"""Characters and values with all that aliases repeat."""

MOST_DEPTH = 100
WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
WORDS |= {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
INTEGER = re.compile(r"[-+]?[0-9]+")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.?[0-9]*)(?:[eE][-+]?[0-9]{1,4})?")
PLAIN_TAGS = (None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map")))


@dataclass
class Node:
    """A list or an object that is being read; `key` is set between a key and its value, `size` counts all below."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    size: int = 1
    key: str | None = None


@dataclass
class DocumentReader:
    """The documents of a stream of events; `anchors` are (value, size) of a document's finished nodes."""

    name: str
    open: list[Node] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    document: Any = None

    def read(self, event: Any) -> bool:
        """Takes an event; whether it ends a document."""
        line = event.start_mark.line + 1
        if getattr(event, "tag", None) not in PLAIN_TAGS:
            raise self.refuse(line, tell("a tag such as {tag} is not read", tag=event.tag[:80]))
        if isinstance(event, yaml.DocumentStartEvent):
            self.anchors, self.document = {}, None
        elif isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0] and not self.awaits_key()
            self.add(resolve(event.value) if plain else event.value, len(event.value) + 1, event.anchor, line)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise self.refuse(line, tell("an alias names nothing that stands before it"))
            self.add(*self.anchors[event.anchor], None, line)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            if len(self.open) >= MOST_DEPTH:
                raise self.refuse(line, tell("is nested too deeply"))
            if self.awaits_key():
                raise self.refuse(line, tell("a key is a text"))
            self.open.append(Node([] if isinstance(event, yaml.SequenceStartEvent) else {}, event.anchor))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            node = self.open.pop()
            self.add(node.value, node.size, node.anchor, line)
        return isinstance(event, yaml.DocumentEndEvent)

    def awaits_key(self) -> bool:
        """Whether the next node is a key of an object."""
        return bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None

    def add(self, value: Any, size: int, anchor: str | None, line: int) -> None:
        """Puts a finished value where it belongs."""
        if anchor is not None:
            self.anchors[anchor] = value, size
        if not self.open:
            self.document = value
            return
        node = self.open[-1]
        node.size += size
        if node.size > MOST_EXPANDED:
            raise self.refuse(line, tell("its aliases repeat more than is read"))
        if isinstance(node.value, list):
            node.value.append(value)
        elif node.key is None:
            node.key = value if isinstance(value, str) else None
            if node.key is None or node.key == "<<":
                raise self.refuse(line, tell("a key is a text") if node.key is None else tell("<< is not read"))
            if node.key in node.value:
                raise self.refuse(line, tell("an object holds the same key twice"))
        else:
            node.value[node.key], node.key = value, None

    def refuse(self, line: int, why: str) -> UnreadableInput:
        """The error of a line."""
        return UnreadableInput(tell("{name}: line {line}: {why}", name=self.name, line=line, why=why))


def resolve(text: str) -> Any:
    """A plain scalar of YAML 1.2."""
    if text in WORDS:
        return WORDS[text]
    with suppress(NumberTooLarge):  # which stays a text
        if INTEGER.fullmatch(text):
            return read_integer(text)
        if len(text) < 400 and FLOAT.fullmatch(text):
            return read_float(text)
    return text


def parse_yaml(lines: Iterable[str], name: str) -> Iterator[Any]:
    """The documents of YAML; raises UnreadableInput for what cannot be read."""
    parts, size = [], 0
    for line in lines:
        size += len(line)
        if size > MOST_YAML_CHARACTERS:
            raise UnreadableInput(
                tell(
                    "{name}: YAML may have {most:,} characters; write it as NDJSON",
                    name=name,
                    most=MOST_YAML_CHARACTERS,
                )
            )
        parts.append(line)
    reader = DocumentReader(name)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for event in yaml.parse("".join(parts), Loader=loader):
            if reader.read(event) and reader.document is not None:
                yield reader.document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise reader.refuse((mark.line if mark else 0) + 1, f"{error.problem}") from None
    except yaml.YAMLError as error:
        raise UnreadableInput(tell("{name}: is not valid YAML: {error}", name=name, error=error)) from None
