"""Rubrics from YAML files, with every fault at its line and field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml.composer import Composer
from yaml.resolver import BaseResolver

from saiten_server.core.errors import RubricInvalid, SettingsInvalid, UnknownRubric
from saiten_server.core.model import Location, pointer
from saiten_server.core.rubric import Rubric

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.faults import describe_fault, suggest_name
from saiten.core.messages import DEFAULT_LANGUAGE, Message, Misfit

RUBRIC_SUFFIX = ".yaml"
MAX_BYTES = 1024 * 1024


class RubricSource:
    """Rubrics by id and version. `get` and `nearest` raise UnknownRubric."""

    def __init__(self, rubrics: Iterable[Rubric], texts: Mapping[str, str] | None = None) -> None:
        self._texts = texts or {}
        self._named = {rubric.name: rubric for rubric in sorted(rubrics, key=lambda rubric: rubric.version)}
        self._newest = {rubric.id: rubric for rubric in self._named.values()}

    def get(self, name: str) -> Rubric:
        """The newest version of the rubric `id`, or the version in `id@version`."""
        found = self._newest.get(name) or self._named.get(name)
        if found is None:
            rubric_id = name.partition("@")[0]
            known = ", ".join(sorted(self._newest)) or "none"
            if rubric_id in self._newest:
                known = ", ".join(f"{rubric_id}@{version}" for version in self.versions(rubric_id))
            near = suggest_name(name, self._named if "@" in name else self._newest)
            raise UnknownRubric(
                Message("rubric-unknown", name=repr(name[:80]), known=known, near=near), pointer="/rubric"
            )
        return found

    def nearest(self, name: str) -> Rubric:
        """Like `get`, but the newest version if that version is gone: for results that exist already."""
        return self._named.get(name) or self.get(name.partition("@")[0])

    def text(self, name: str) -> str | None:
        """The file of the rubric `id@version` as it stood when the rubrics were read; None for one without a file."""
        return self._texts.get(name)

    def versions(self, rubric_id: str) -> Sequence[int]:
        """The versions of a rubric, oldest first."""
        return [rubric.version for rubric in self._named.values() if rubric.id == rubric_id]

    def list(self) -> list[Rubric]:
        """The newest version of each rubric, by id."""
        return [self._newest[rubric_id] for rubric_id in sorted(self._newest)]


class RubricFiles(RubricSource):
    """All rubrics of some folders, read when it is created: `<id>.yaml` for each id, and `<id>.v<version>.yaml` for
    each older version. Raises RubricInvalid if a file is invalid or an id is in two folders, SettingsInvalid if a
    folder is missing."""

    def __init__(self, folders: Sequence[Path]) -> None:
        found: list[Rubric] = []
        homes: dict[str, Path] = {}
        texts: dict[str, str] = {}
        for path in (path for folder in folders for path in rubric_paths(folder)):
            rubric = read_rubric_file(path)
            home = homes.setdefault(rubric.id, path)
            if home.parent != path.parent:
                detail = Message("rubric-id-taken", id=rubric.id, home=str(home))
                raise RubricInvalid(RubricFault(None, "/id", detail).locate(path), path=str(path), field="/id")
            found.append(rubric)
            texts[rubric.name] = read_rubric_text(path)
        super().__init__(found, texts)


def default_folder(package: Path | None = None) -> Path:
    """The folder of the shipped rubrics: inside the package if it was installed, beside it in a checkout. `package` is
    the package's folder, by default that of `app`."""
    package = (package or Path(str(resources.files("saiten_server")))).resolve()  # a checkout has a link to `app/`
    packaged = package / "rubrics"
    return packaged if packaged.is_dir() else package.parent / "rubrics"


def open_rubrics(own: str | None) -> RubricFiles:
    """The shipped rubrics, and those in the operator's `own` folder."""
    return RubricFiles([default_folder(), *([Path(own)] if own else [])])


def rubric_paths(folder: Path) -> Sequence[Path]:
    """The rubric files of a folder by name; hidden files, subfolders and other suffixes are left out."""
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise SettingsInvalid(Message("rubric-folder-unreadable", file=str(folder), problem=error.strerror)) from error
    return [
        path for path in found if path.suffix == RUBRIC_SUFFIX and not path.name.startswith(".") and not path.is_dir()
    ]


def read_rubric_file(path: Path) -> Rubric:
    """The rubric in a file; raises RubricInvalid for its first fault. `check_rubric` gives them all."""
    rubric, faults = examine_file(path)
    if rubric is None or faults:
        first = faults[0]
        message = first.locate(path)
        if len(faults) > 1:
            more, file = len(faults) - 1, printable(str(path))
            message = Message("rubric-faults-more", fault=message, more=more, file=file)
        raise RubricInvalid(message, path=str(path), line=first.line, field=first.field)
    return rubric


def check_rubric(path: Path) -> list[RubricFault]:
    """Everything that is wrong in a rubric file, in the order of its lines. What several fields break together (a
    composite of an unknown aspect, a missing language) is found only once each field is valid by itself."""
    return examine_file(path)[1]


def examine_file(path: Path) -> tuple[Rubric | None, list[RubricFault]]:
    """The rubric with its faults by line; without a rubric there is at least one fault."""
    try:
        document = read_yaml_file(path)
    except Unreadable as refused:
        return None, [refused.fault]
    try:
        rubric = validate_rubric(document)
    except ValidationError as error:
        return None, list_faults(document, error)
    return rubric, sort_faults([*document.faults, *name_faults(document, rubric, path)])


def examine_draft(text: str) -> tuple[Rubric | None, list[RubricFault]]:
    """The rubric in a text that is no file, with its faults by line; without a rubric there is at least one. Nothing of
    it is cached. A text of `MAX_BYTES` takes seconds: not for an event loop."""
    try:
        document = YAMLDocument(text)
    except Unreadable as refused:
        return None, [refused.fault]
    try:
        return Rubric.model_validate(document.data), sort_faults(document.faults)
    except ValidationError as error:
        return None, list_faults(document, error)


def list_faults(document: YAMLDocument, error: ValidationError) -> list[RubricFault]:
    """The document's own faults, and those of its validation."""
    faults = [*document.faults]
    for details in error.errors(include_url=False):
        # A list is called too short only because pydantic counts its items without the faulty ones.
        if not (details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]):
            faults.append(place(document, details))
    return sort_faults(faults)


def sort_faults(faults: Iterable[RubricFault]) -> list[RubricFault]:
    """In the order of their lines."""
    return sorted(faults, key=lambda fault: fault.line or 0)


def read_yaml_file(path: Path) -> YAMLDocument:
    """The file's document, which is not to be changed; raises Unreadable."""
    return read_yaml(read_rubric_text(path), shipped=path.parent == default_folder())


@lru_cache(maxsize=16)
def read_yaml(text: str, *, shipped: bool = False) -> YAMLDocument:
    """The document of a text; cached because a service reads its rubrics when it checks its settings, and again when it
    starts. `shipped` ones need not be explained, and are read with libyaml."""
    return YAMLDocument(text, compose_shipped if shipped else compose_nodes)


@lru_cache(maxsize=16)
def validate_rubric(document: YAMLDocument) -> Rubric:
    """The rubric that a YAML document holds; cached for the same reason. Raises ValidationError."""
    return Rubric.model_validate(document.data)


def place(document: YAMLDocument, error: ErrorDetails) -> RubricFault:
    """A validation error at its line and field."""
    union = error["type"].startswith("union_tag")  # found at the composite, though its kind is what is wrong
    path = (*error["loc"], "kind") if union else error["loc"]
    location = document.locate(path, missing=union or error["type"] == "missing")
    return RubricFault(document.line(location), pointer(location), explain_yaml_error(error, location))


def name_faults(document: YAMLDocument, rubric: Rubric, path: Path) -> list[RubricFault]:
    """One fault where the file is not called as its rubric, or is an older version without a newer one beside it."""
    newest, older = rubric.id + RUBRIC_SUFFIX, f"{rubric.id}.v{rubric.version}{RUBRIC_SUFFIX}"
    if path.name == newest:
        return []
    if path.name != older:
        what = Message("rubric-file-name", id=rubric.id, name=newest, file=path.name, older=older)
        return [RubricFault(document.line(("id",)), "/id", what)]
    beside = path.with_name(newest)
    try:
        data = read_yaml_file(beside).data
    except Unreadable:
        data = None
    version = data.get("version") if isinstance(data, dict) else None
    latest = version if isinstance(version, int) else None
    if latest is not None and latest > rubric.version:
        return []
    if latest is None:
        what = Message("rubric-version-alone", version=rubric.version, name=newest)
    else:
        what = Message("rubric-version-not-older", version=rubric.version, name=newest, latest=latest)
    return [RubricFault(document.line(("version",)), "/version", what)]


def read_rubric_text(path: Path) -> str:
    """The file's text; raises Unreadable. Never reads more than the limit, nor anything but a regular file."""
    try:
        if path.exists() and not path.is_file():
            raise Unreadable(Message("not-a-file"))
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(Message("file-unreadable", problem=error.strerror)) from error
    if len(raw) > MAX_BYTES:
        raise Unreadable(Message("file-bytes-most", bytes=MAX_BYTES))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(Message("yaml-not-utf-8", byte=raw[error.start]), line) from error


YAML_FAULTS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "missing": lambda _: Message("is-missing"),
    "tuple_type": lambda _: Message("must-be-list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), lambda _: Message("must-be-mapping")),
    "union_tag_not_found": lambda _: Message("composite-kind-missing"),
    "union_tag_invalid": lambda context: Message("composite-kind-wrong", value=f"{context['tag']!r:.60}"),
    "too_short": lambda context: Message(
        "must-hold-at-least-but", least=context["min_length"], count=context["actual_length"]
    ),
}
"""Pydantic's error types in terms of YAML: the message, given the error's context."""

SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class RubricFault:
    """One thing that is wrong in a rubric file. `line` is 1-based, or None where the file could not be read; `field` is
    a JSON pointer, empty for the whole file."""

    line: int | None
    field: str
    message: Message

    def report(self, path: Path | str, language: str = DEFAULT_LANGUAGE) -> str:
        """`FILE:LINE: FIELD: message` on one line in the language, safe to print whatever the file holds."""
        return printable(self.locate(path).say(language))

    def locate(self, path: Path | str) -> Message:
        """What is wrong, with file, line and field."""
        place = str(path) if self.line is None else f"{path}:{self.line}"
        where = printable(f"{place}: {self.field}" if self.field else place)
        return Message("fault-at", where=where, fault=self.message)

    @property
    def detail(self) -> str:
        return str(self.message)


def explain_yaml_error(error: ErrorDetails, location: Location) -> Message:
    """What is wrong, in a few words that follow the field's name. `location` is the error's place in the file."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in YAML_FAULTS:
        return YAML_FAULTS[kind](context)
    if isinstance(fault := context.get("error"), Misfit):
        return fault.message
    if kind == "extra_forbidden":
        near = get_close_matches(str(location[-1]), known_fields(), n=1)
        return Message("not-a-field-near", near=near[0]) if near else Message("not-a-field")
    found = error["input"]
    if isinstance(found, str | int | float | None):
        return Message("fault-found", fault=describe_fault(error), value=quoted(found))
    return describe_fault(error)


@cache
def known_fields() -> tuple[str, ...]:
    """Every field name of the rubric format."""
    schema = Rubric.model_json_schema()
    return tuple(sorted({name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", ())}))


def quoted(value: Any) -> str:
    """A value for a message, cut where it is long."""
    shown = repr(value)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 3] + "..."


def printable(text: str) -> str:
    """The text with controls and lone surrogates escaped, so that a file's texts cannot control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


MAX_DEPTH = 32
TOO_DEEP = Message("yaml-too-deep", depth=MAX_DEPTH)
MAX_PARTS = 20_000
"""Keys, values, lists and mappings of a file. The largest rubric of ours has a tenth of that; to say what is wrong with
each part of a file of nothing but small ones took half a minute and half a gigabyte."""


class Unreadable(Exception):
    """A file that holds no document to validate."""

    def __init__(self, message: Message, line: int | None = None) -> None:
        super().__init__(message)
        self.fault = RubricFault(line, "", message)


class PlainLoader(yaml.SafeLoader):
    """YAML 1.2's core types without anchors, aliases and tags: `no` and `2024-01-01` are texts, and no file grows."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (the stubs declare an instance variable)
        None: [
            ("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z")),
            ("tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
            # 18 digits at most: longer ones are no scale, and Python refuses to read very long ones at all.
            ("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]{1,18}\Z")),
            ("tag:yaml.org,2002:float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.?[0-9]*)(?:[eE][-+]?[0-9]+)?\Z")),
        ]
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0
        self.parts = 0

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        """Opens a `[` or `{`; raises Unreadable if too many are open, because the scanner goes over all of them at
        every character."""
        if self.flow_level >= MAX_DEPTH:
            raise Unreadable(TOO_DEEP, self.get_mark().line + 1)
        super().fetch_flow_collection_start(token)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; raises Unreadable before anything that could grow is composed."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise Unreadable(Message("yaml-anchors"), line)
        if event.tag is not None:
            raise Unreadable(Message("yaml-tags", tag=event.tag), line)
        if self.depth >= MAX_DEPTH:
            raise Unreadable(TOO_DEEP, line)
        if self.parts >= MAX_PARTS:
            raise Unreadable(Message("yaml-parts-most", count=MAX_PARTS), line)
        self.parts += 1
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def compose_nodes(text: str) -> yaml.Node:
    """The one document of a YAML text, as nodes that know their lines; raises Unreadable."""
    loader: PlainLoader | None = None
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(Message("yaml-character", code=ord(text[error.position])), line) from error
    except yaml.MarkedYAMLError as error:
        problem = " ".join(str(part) for part in (error.problem, error.context) if part)
        # The most frequent mistake: a `?` or `,` in a bare text of a flow mapping.
        in_flow = "while parsing a flow" in problem
        what = Message("yaml-invalid-in-flow", problem=problem) if in_flow else Message("yaml-invalid", problem=problem)
        mark = error.problem_mark or error.context_mark
        raise Unreadable(what, mark.line + 1 if mark else None) from error
    except (ValueError, OverflowError) as error:  # PyYAML turns \U escapes into characters without a check
        raise Unreadable(Message("yaml-invalid", problem=str(error)), loader.line + 1 if loader else None) from error
    if node is None:
        raise Unreadable(Message("file-empty"), 1)
    return node


def compose_shipped(text: str) -> yaml.Node:
    """What `compose_nodes` gives for a rubric of ours, in a fifth of the time: by libyaml, which reads some faulty
    texts otherwise than PyYAML's own parser, and explains none. Without libyaml it is `compose_nodes`."""
    try:
        from yaml._yaml import CParser
    except ImportError:
        return compose_nodes(text)

    class ShippedLoader(Composer, CParser, BaseResolver):
        yaml_implicit_resolvers = PlainLoader.yaml_implicit_resolvers

        def __init__(self) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            BaseResolver.__init__(self)

    try:
        return ShippedLoader().get_single_node() or compose_nodes(text)
    except yaml.YAMLError:  # somebody is editing it
        return compose_nodes(text)


class YAMLDocument:
    """A YAML document as plain `data`, with its lines and the `faults` that plain data no longer show."""

    def __init__(self, text: str, read: Callable[[str], yaml.Node] = compose_nodes) -> None:
        root = read(text)
        self.faults: list[RubricFault] = []
        self._lines: dict[Location, int] = {(): root.start_mark.line + 1}
        self.data = self._plain(root, ())

    def line(self, location: Location) -> int:
        """The 1-based line of that part, or of the nearest part that encloses it."""
        while location not in self._lines:
            location = location[:-1]
        return self._lines[location]

    def locate(self, path: Location, *, missing: bool) -> Location:
        """A validator's path as a place in the document: without what stands in no file, such as a union's tag. With
        `missing`, the last part names a field that is not there, and stays."""
        found: list[str | int] = []
        current = self.data
        for number, part in enumerate(path, start=1):
            if isinstance(current, dict) and part in current:
                current = current[str(part)]
            elif isinstance(current, list) and isinstance(part, int) and part < len(current):
                current = current[part]
            elif not (missing and number == len(path)):
                continue
            found.append(part)
        return tuple(found)

    def _plain(self, node: yaml.Node, here: Location) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self._child(item, (*here, index), item) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return {key: self._child(value, (*here, key), key_node) for key, key_node, value in self._pairs(node, here)}
        return scalar(node)

    def _child(self, node: yaml.Node, here: Location, marked: yaml.Node) -> Any:
        self._lines[here] = marked.start_mark.line + 1
        return self._plain(node, here)

    def _pairs(self, node: yaml.MappingNode, here: Location) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Keys with their nodes and values; keys that are no text or come again become faults and are left out."""
        seen: set[str] = set()
        for key_node, value in node.value:
            key = scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                if isinstance(key_node, yaml.ScalarNode):
                    what = Message("yaml-key-not-text-but", key=quoted(key_node.value))
                else:
                    what = Message("yaml-key-not-text")
                self.faults.append(RubricFault(line, pointer(here), what))
            elif key in seen:
                self.faults.append(RubricFault(line, pointer((*here, key)), Message("yaml-key-twice")))
            else:
                seen.add(key)
                yield key, key_node, value


def scalar(node: yaml.Node) -> Any:
    """A scalar node's value by YAML 1.2's core schema."""
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() == "true"
    return {"int": int, "float": float}.get(kind, str)(node.value)


def find_rubric(container: Container, name: str) -> Rubric | None:
    """The rubric in that version, else its newest version; None if it is no longer installed."""
    try:
        return container.scoring.context.rubrics.nearest(name)
    except UnknownRubric:
        return None
