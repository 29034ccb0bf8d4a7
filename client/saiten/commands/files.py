"""Files that commands read: their bytes, their form, and their JSON values with the place of each."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from os.path import commonprefix
from pathlib import Path
from typing import IO, Any

import click

from saiten.commands import exits
from saiten.core.language import say, tell
from saiten.core.plain_text import printable
from saiten.core.strict_json import StrictJSONError, parse_strict_json

MOST_SHOWN = 5
UNFIT = 422
"""The status of an answer to values that do not fit."""

Placed = tuple[str, Any]
"""The place of a value (`base.ndjson:3`), and the value."""


class InvalidItems(click.ClickException):
    """Input that cannot be used; the message names its place."""

    exit_code = exits.UNUSABLE

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"saiten: {self.message}", file=file, err=file is None)


def read_bytes(path: str) -> bytes:
    """The bytes of the file, or of standard input; raises InvalidItems where they cannot be read."""
    if path == "-" and sys.stdin is None:
        raise InvalidItems(tell("standard input is closed; name a file, or give the items with `<`"))
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InvalidItems(f"{name_file(path)}: {tell(error.strerror or '')}") from None


def require_place(path: str) -> None:
    """Raises InvalidItems where a file cannot be written: there is no folder for it, it is one, or it cannot have that
    name."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InvalidItems(tell("{path}: there is no such folder", path=path))
    try:
        is_folder = stat.S_ISDIR(os.stat(path or ".").st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidItems(f"{path}: {tell(error.strerror or '')}") from None
    if is_folder:
        raise InvalidItems(tell("{path}: Is a directory", path=path or "."))


def name_file(path: str) -> str:
    """What messages call the file."""
    return tell("standard input") if path == "-" else path


def split(path: str, body: bytes) -> list[Placed]:
    """(where, value) of each item: of a JSON array, or of NDJSON, distinguished by the first character."""
    if body.lstrip()[:1] == b"[":
        items = parse(path, body)
        return [(f"{path}: item {position}", item) for position, item in enumerate(items, start=1)]
    lines = enumerate(body.splitlines(), start=1)
    return [(f"{path}:{number}", parse(f"{path}:{number}", line)) for number, line in lines if line.strip()]


def parse(where: str, document: bytes) -> Any:
    """One JSON document; raises InvalidItems."""
    try:
        return parse_strict_json(document)
    except StrictJSONError as error:
        raise InvalidItems(f"{where}: {say(error.message)}") from None


def guess(path: str, first: bytes) -> str:
    """The form of a file: by its name, else by its first line that is not blank."""
    if path.lower().endswith(".csv"):
        return "csv"
    start = first.lstrip()[:1]
    return "json" if start == b"[" else "ndjson" if start in {b"{", b""} else "csv"


def gather_faults(faults: Sequence[tuple[str, str]], total: int | None = None) -> str:
    """The first few faults as (place, what), of `total` in all: what several places have in common is told once."""
    places: dict[str, list[str]] = {}
    for place, what in faults[:MOST_SHOWN]:
        places.setdefault(what, []).append(place)
    told = [f"{found[0]}: {what}{tell_others(found)}" for what, found in places.items()]
    rest = (len(faults) if total is None else total) - len(faults[:MOST_SHOWN])
    return "\n".join(map(printable, [*told, *([tell_rest(rest)] if rest > 0 else [])]))


def tell_others(places: Sequence[str]) -> str:
    """` (the same at 3, 4)`: what tells the other places from the first; empty where there is none."""
    if len(places) < 2:
        return ""
    # Places are compared by characters: they are no paths.
    start = len(commonprefix(places).rstrip("0123456789"))  # noqa: RUF071
    end = len(commonprefix([place[::-1] for place in places]).rstrip("0123456789"))  # noqa: RUF071
    return tell(" (the same at {places})", places=", ".join(place[start : len(place) - end] for place in places[1:]))


def tell_rest(count: int) -> str:
    """How many more there are."""
    return tell("… and {more} more", more=count)


def shorten_faults(faults: Sequence[str], total: int | None = None, *, given_up: bool = False) -> str:
    """The first few faults, one per line, and how many more there are.

    `total` counts faults that are not passed too; where reading was `given_up`, there are at least that many.
    """
    more = (len(faults) if total is None else total) - MOST_SHOWN
    rest = tell("… and at least {more:,} more: the rest was not read", more=more)
    if not given_up:
        rest = tell_rest(more)
    shown = [*faults[:MOST_SHOWN], *([rest] if more > 0 else [])]
    return "\n".join(map(printable, shown))


BATCH_OPTIONS = frozenset(
    {
        "name",
        "rubric",
        "path",
        "relevance",
        "judge",
        "budget_usd",
        "mode",
        "provider_batch",
        "integrity",
        "deadline_hours",
        "metadata",
    }
)
"""What the first line of a batch's file may hold."""
