"""Strict reading of the JSON Lines that ship with the package; errors name the line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.validation import InvalidDocument, Model, validate


def bundled_folder(name: str) -> Traversable:
    """The data at `name` under `app/`, a folder or a file, whether the package is installed, zipped, or neither."""
    return files("saiten_server").joinpath(name)


@cache
def find_folders(name: str) -> list[Path]:
    """The folders of that name in the package, of every capability: those of pages' templates, of translations."""
    return sorted(path for path in Path(str(files("saiten_server"))).rglob(name) if path.is_dir())


def broken_line(file: Traversable, line: int, reason: str) -> ValueError:
    """The error of one broken line; `line` is 1-based."""
    return ValueError(f"{file.name}, line {line}: {reason}")


def read_objects(file: Traversable) -> list[dict[str, Any]]:
    """One JSON object per line, so object i is on line i + 1. Raises ValueError with file and line for anything else,
    including an empty line and invalid UTF-8."""
    # Split at newlines only: str.splitlines would also split at U+2028, which JSON allows inside a string.
    lines = file.read_bytes().removesuffix(b"\n").split(b"\n")
    return [_read_object(file, number, line) for number, line in enumerate(lines, start=1)]


def validate_objects(file: Traversable, objects: Sequence[dict[str, Any]], model: type[Model]) -> list[Model]:
    """The objects of `read_objects(file)` as values of `model`. Raises ValueError with file, line and field."""
    found: list[Model] = []
    for number, value in enumerate(objects, start=1):
        try:
            found.append(validate(model, value, DEFAULT_LIMITS))
        except InvalidDocument as error:
            raise broken_line(file, number, error.detail) from error
    return found


def _read_object(file: Traversable, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = parse_strict_json(line)
    except StrictJSONError as error:
        raise broken_line(file, number, str(error)) from error
    if not isinstance(value, dict):
        raise broken_line(file, number, f"an object is needed, not {type(value).__name__}")
    return value
