"""The items that a command reads: of a table, of JSON, or of another tool's log, in whatever encoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from saiten.commands.files import BATCH_OPTIONS, InvalidItems, name_file
from saiten.formats import SOURCES, FoundItem, ItemReader, UnreadableInput, parse_map, read_items
from saiten.formats.tools import CONVERSATION_FIELDS, ITEM_FIELDS, OPTION_FIELDS, TURN_FIELDS, is_saiten
from saiten.language import tell
from saiten.plain_text import printable

OWN_FIELDS = {*ITEM_FIELDS, *CONVERSATION_FIELDS, *OPTION_FIELDS, *BATCH_OPTIONS}
"""What an item, or the first line of a batch's file, may hold."""


@dataclass(frozen=True)
class Reading:
    """How a file of items is to be read: what is None or empty is detected."""

    source: str | None = None
    mapping: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    encoding: str | None = None


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--from`, `--map` and `--input-encoding`, as `source`, `maps` and `input_encoding`."""
    options = (
        click.option(
            "--from", "source", type=click.Choice(SOURCES), help="The format of FILE; detected unless it is named."
        ),
        click.option(
            "--map",
            "maps",
            multiple=True,
            metavar="TARGET=COLUMN,…",
            help="Columns whose names are not known, such as response=answer,context=history; may be repeated.",
        ),
        click.option(
            "--input-encoding", metavar="NAME", help="Such as cp932, euc-jp or cp949; detected unless it is named."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def choose_reading(source: str | None, maps: Sequence[str], encoding: str | None) -> Reading:
    """What these options ask for; raises InvalidItems for a mapping that is none."""
    try:
        return Reading(source, parse_map(maps), encoding)
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def open_items(
    path: str,
    reading: Reading,
    *,
    skips: bool,
    own: Callable[[dict[str, Any]], bool] = is_saiten,
    rated: bool = False,
    system: str | None = None,
    every_turn: bool = False,
) -> ItemReader:
    """The items of a file, or of standard input for `-`, still to be read; raises InvalidItems."""
    try:
        return read_items(
            path,
            source=reading.source,
            mapping=reading.mapping,
            input_encoding=reading.encoding,
            on_missing="skip" if skips else "refuse",
            own=own,
            rated=rated,
            system=system,
            every_turn=every_turn,
        )
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def read_whole(
    path: str, reading: Reading | None = None, *, beside: Callable[[object], bool] = lambda _: False
) -> list[FoundItem]:
    """All items of the file. Raises InvalidItems that names file, sheet, row and column, and what to do.

    Items in Saiten's own form, and what stands `beside` them, are passed on as they are, for the service to check. What
    was decided about any other file is said in one line on standard error.
    """
    reader = open_items(path, reading or Reading(), skips=False, own=lambda value: is_own(value) or beside(value))
    try:
        found = list(reader)
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    name = name_file(path)
    if not found:
        raise InvalidItems(
            tell("{name}: holds no items; name the columns: --map response=COLUMN,context=COLUMN", name=name)
        )
    if reader.report.source != "saiten" or reader.report.encoding != "utf-8":
        click.echo(f"saiten: {printable(name)}: {reader.report.decisions()}", err=True)
    return found


def is_own(value: Mapping[str, Any]) -> bool:
    """Whether a file that begins with this record is in Saiten's own form, even where the record is faulty."""
    if is_saiten(dict(value)):
        return True
    context, turns = value.get("context", []), value.get("turns", [])
    if isinstance(context, str) or not value.keys() <= OWN_FIELDS:
        return False
    parts = [*(context if isinstance(context, list) else []), *(turns if isinstance(turns, list) else [])]
    return all(isinstance(part, dict) and part.keys() <= TURN_FIELDS for part in parts)


def holds_options(items: Sequence[FoundItem]) -> bool:
    """Whether the first holds the options of a batch, as in the body of POST /v1/batches."""
    first = items[0].value if len(items) > 1 else {}
    return bool(first) and first.keys() <= BATCH_OPTIONS
