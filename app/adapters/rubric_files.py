"""Rubrics from YAML files, with every fault at its line and field."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.adapters.rubrics.fault import Fault, describe, printable
from app.adapters.rubrics.plain_yaml import Document, Unreadable
from app.domain.errors import RubricInvalid, SettingsInvalid, UnknownRubric
from app.domain.model import pointer
from app.domain.rubric import Rubric

SUFFIX = ".yaml"
MAX_BYTES = 1024 * 1024


class RubricFiles:
    """All rubrics of some folders, read once, when it is made.

    Raises RubricInvalid where a file is broken or two files have one id, SettingsInvalid where a folder is missing.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._rubrics: dict[str, Rubric] = {}
        paths: dict[str, Path] = {}
        for path in (path for folder in folders for path in rubric_paths(folder)):
            rubric = read_rubric(path)
            if rubric.id in paths:
                detail = f"the id {rubric.id} is taken by {paths[rubric.id]}; rename one of the two, file and id"
                raise RubricInvalid(Fault(None, "/id", detail).report(path), path=str(path), field="/id")
            paths[rubric.id] = path
            self._rubrics[rubric.id] = rubric

    def get(self, rubric_id: str) -> Rubric:
        try:
            return self._rubrics[rubric_id]
        except KeyError:
            known = ", ".join(sorted(self._rubrics)) or "none"
            raise UnknownRubric(f"there is no rubric {rubric_id[:64]!r}; known: {known}", pointer="/rubric") from None

    def list(self) -> list[Rubric]:
        """Every rubric, by id."""
        return [self._rubrics[rubric_id] for rubric_id in sorted(self._rubrics)]


def default_folder() -> Path:
    """Where the shipped rubrics lie."""
    return shipped_folder(Path(str(resources.files("app"))))


def shipped_folder(package: Path) -> Path:
    """The rubrics of the package in that folder: inside it where it was installed, beside it in a checkout."""
    packaged = package / "data" / "rubrics"
    return packaged if packaged.is_dir() else package.parent / "rubrics"


def rubric_paths(folder: Path) -> Sequence[Path]:
    """The rubric files of a folder by name; hidden files, subfolders and other suffixes are left out."""
    try:
        found = sorted(folder.iterdir())
    except OSError as error:
        raise SettingsInvalid(f"the rubric folder {folder} cannot be read: {error.strerror}") from error
    return [path for path in found if path.suffix == SUFFIX and not path.name.startswith(".") and not path.is_dir()]


def read_rubric(path: Path) -> Rubric:
    """The rubric in a file; raises RubricInvalid for its first fault. `check_rubric` gives them all."""
    rubric, faults = examine(path)
    if rubric is None or faults:
        first = faults[0]
        more = f" (and {len(faults) - 1} more: see saiten rubric check {path})" if len(faults) > 1 else ""
        raise RubricInvalid(first.report(path) + printable(more), path=str(path), line=first.line, field=first.field)
    return rubric


def check_rubric(path: Path) -> list[Fault]:
    """Everything that is wrong in a rubric file, in the order of its lines; empty where nothing is.

    What several fields break together (a composite of an unknown aspect, a missing language) shows only once every
    field is right by itself.
    """
    return examine(path)[1]


def examine(path: Path) -> tuple[Rubric | None, list[Fault]]:
    """The rubric with its faults; where there is no rubric there is at least one fault."""
    try:
        document = read_document(read_text(path))
    except Unreadable as refused:
        return None, [refused.fault]
    try:
        rubric = Rubric.model_validate(document.data)
    except ValidationError as error:
        errors = [details for details in error.errors(include_url=False) if not is_echo(details)]
        return None, in_order(document.faults + [place(document, details) for details in errors])
    return rubric, in_order(document.faults + name_faults(document, rubric, path))


@lru_cache(maxsize=16)
def read_document(text: str) -> Document:
    """The YAML document, which is not to be changed; raises Unreadable.

    The last ones are kept: a service reads its rubrics when it checks what it was given, and again when it starts.
    """
    return Document(text)


def place(document: Document, error: ErrorDetails) -> Fault:
    """A validation error at its line and field."""
    union = error["type"].startswith("union_tag")  # found at the composite, though its kind is what is wrong
    path = (*error["loc"], "kind") if union else error["loc"]
    location = document.locate(path, missing=union or error["type"] == "missing")
    return Fault(document.line(location), pointer(location), describe(error, location))


def is_echo(error: ErrorDetails) -> bool:
    """Whether a list is called too short only because pydantic counts its items without the faulty ones."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def name_faults(document: Document, rubric: Rubric, path: Path) -> list[Fault]:
    """One fault where the file is not called as its rubric: the loader would pass it by, or a reader look elsewhere."""
    if path.name == rubric.id + SUFFIX:
        return []
    detail = f"is {rubric.id}, so the file must be called {rubric.id}{SUFFIX}, not {path.name}"
    return [Fault(document.line(("id",)), "/id", detail)]


def in_order(faults: list[Fault]) -> list[Fault]:
    """The faults by line, from the top."""
    return sorted(faults, key=lambda fault: fault.line or 0)


def read_text(path: Path) -> str:
    """The file's text; raises Unreadable. Never reads more than the limit, nor anything but a regular file."""
    try:
        if path.exists() and not path.is_file():
            raise Unreadable("is not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise Unreadable(f"is larger than {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"is not UTF-8: byte 0x{raw[error.start]:02X}", line) from error
