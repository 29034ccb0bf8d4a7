"""Rubrics from YAML files, with every fault at its line and field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.domain.errors import RubricInvalid, SettingsInvalid, UnknownRubric
from app.domain.model import pointer
from app.domain.rubric import Rubric
from app.storage.rubric_yaml import RubricFault, Unreadable, YAMLDocument, describe, printable

SUFFIX = ".yaml"
MAX_BYTES = 1024 * 1024


class RubricSource:
    """Rubrics by id and version. `get` and `nearest` raise UnknownRubric."""

    def __init__(self, rubrics: Iterable[Rubric]) -> None:
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
            raise UnknownRubric(f"there is no rubric {name[:80]!r}; known: {known}", pointer="/rubric")
        return found

    def nearest(self, name: str) -> Rubric:
        """Like `get`, but the newest version if that version is gone: for results that exist already."""
        return self._named.get(name) or self.get(name.partition("@")[0])

    def versions(self, rubric_id: str) -> Sequence[int]:
        """The versions of a rubric, oldest first."""
        return [rubric.version for rubric in self._named.values() if rubric.id == rubric_id]

    def list(self) -> list[Rubric]:
        """The newest version of each rubric, by id."""
        return [self._newest[rubric_id] for rubric_id in sorted(self._newest)]


class RubricFiles(RubricSource):
    """All rubrics of some folders, read once, when it is made: of each id `<id>.yaml`, and `<id>.v<version>.yaml` for
    every older version.

    Raises RubricInvalid where a file is broken or an id stands in two folders, SettingsInvalid where a folder is
    missing.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        found: list[Rubric] = []
        homes: dict[str, Path] = {}
        for path in (path for folder in folders for path in rubric_paths(folder)):
            rubric = read_rubric(path)
            home = homes.setdefault(rubric.id, path)
            if home.parent != path.parent:
                detail = f"the id {rubric.id} is taken by {home}; rename one of the two, file and id"
                raise RubricInvalid(RubricFault(None, "/id", detail).report(path), path=str(path), field="/id")
            found.append(rubric)
        super().__init__(found)


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


def check_rubric(path: Path) -> list[RubricFault]:
    """Everything that is wrong in a rubric file, in the order of its lines; empty where nothing is.

    What several fields break together (a composite of an unknown aspect, a missing language) shows only once every
    field is right by itself.
    """
    return examine(path)[1]


def examine(path: Path) -> tuple[Rubric | None, list[RubricFault]]:
    """The rubric with its faults; without a rubric there is at least one fault."""
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
def read_document(text: str) -> YAMLDocument:
    """The YAML document, which is not to be changed; raises Unreadable.

    The last ones are kept: a service reads its rubrics when it checks what it was given, and again when it starts.
    """
    return YAMLDocument(text)


def place(document: YAMLDocument, error: ErrorDetails) -> RubricFault:
    """A validation error at its line and field."""
    union = error["type"].startswith("union_tag")  # found at the composite, though its kind is what is wrong
    path = (*error["loc"], "kind") if union else error["loc"]
    location = document.locate(path, missing=union or error["type"] == "missing")
    return RubricFault(document.line(location), pointer(location), describe(error, location))


def is_echo(error: ErrorDetails) -> bool:
    """Whether a list is called too short only because pydantic counts its items without the faulty ones."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def name_faults(document: YAMLDocument, rubric: Rubric, path: Path) -> list[RubricFault]:
    """One fault where the file is not called as its rubric, or is an older version without a newer one beside it."""
    newest, older = rubric.id + SUFFIX, f"{rubric.id}.v{rubric.version}{SUFFIX}"
    if path.name == newest:
        return []
    if path.name != older:
        detail = f"is {rubric.id}, so the file must be called {newest}, not {path.name}"
        return [RubricFault(document.line(("id",)), "/id", f"{detail} (or {older}, beside a newer version)")]
    beside = path.with_name(newest)
    latest = read_version(beside)
    if latest is not None and latest > rubric.version:
        return []
    detail = f"is {rubric.version}, and {newest} beside it must hold a newer version"
    detail += " (there is none)" if latest is None else f", not {latest}"
    return [RubricFault(document.line(("version",)), "/version", detail)]


def read_version(path: Path) -> int | None:
    """The version that a rubric file states; None where there is no file or it states none."""
    try:
        data = read_document(read_text(path)).data
    except Unreadable:
        return None
    version = data.get("version") if isinstance(data, dict) else None
    return version if isinstance(version, int) else None


def in_order(faults: list[RubricFault]) -> list[RubricFault]:
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
