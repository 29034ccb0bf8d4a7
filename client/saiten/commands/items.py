"""The items that a command reads: of a table, of JSON, or of another tool's log, in whatever encoding."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from shlex import quote
from typing import Any

import click

from saiten.commands.files import BATCH_OPTIONS, InvalidItems, gather_faults, name_file
from saiten.core.formats import SOURCES, FoundItem, ItemReader, UnreadableInput, parse_map, parse_where, read_items
from saiten.core.formats.tools import CONVERSATION_FIELDS, ITEM_FIELDS, OPTION_FIELDS, TURN_FIELDS, is_saiten
from saiten.core.language import tell
from saiten.core.plain_text import printable

OWN_FIELDS = {*ITEM_FIELDS, *CONVERSATION_FIELDS, *OPTION_FIELDS, *BATCH_OPTIONS}
"""What an item, or the first line of a batch's file, may hold."""

KNOWN = (".csv", ".eval", ".gz", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".xlsx", ".yaml", ".yml", ".zip")
"""How the names of files in a folder end that are read."""


@dataclass(frozen=True)
class Reading:
    """How a file of items is to be read: what is None or empty is detected."""

    source: str | None = None
    mapping: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    encoding: str | None = None
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)


where_option = click.option(
    "--where",
    "wheres",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Only the rows with this value, such as build=1a2b; may be repeated: of one column any, of several all.",
)


def reading_options(command: Callable[..., Any], more: Sequence[str] = ()) -> Callable[..., Any]:
    """The options `--from`, `--map`, `--input-encoding` and `--where`, as `source`, `maps`, `input_encoding` and
    `wheres`; `--from` takes `more` than what has items."""
    options = (
        click.option(
            "--from",
            "source",
            type=click.Choice([*SOURCES, *more]),
            help="The format of FILE; detected unless it is named.",
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
        where_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def choose_reading(
    source: str | None, maps: Sequence[str], encoding: str | None, wheres: Sequence[str] = ()
) -> Reading:
    """What these options ask for; raises InvalidItems for a mapping or a condition that is none."""
    try:
        return Reading(source, parse_map(maps), encoding, parse_where(wheres))
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
            where=reading.where,
        )
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def read_whole(
    path: str, reading: Reading | None = None, *, beside: Callable[[object], bool] = lambda _: False
) -> list[FoundItem]:
    """All items of the file, or of the files that a folder holds or a pattern such as `runs/*.jsonl` matches. Raises
    InvalidItems that names file, sheet, row and column, and what to do, and where two files have an id in common.

    Items in Saiten's own form, and what stands `beside` them, are passed on as they are, for the service to check. What
    was decided about any other file is said in one line on standard error.
    """
    own = reading or Reading()
    files = list_files(path)
    if files is None:
        return read_one(path, own, beside)
    found = [read_one(file, own, beside) for file in files]
    refuse_shared_ids(found)
    return [one for items in found for one in items]


def list_files(path: str) -> list[str] | None:
    """The files that the path stands for, in the order of their names; None where it is a single one. Raises
    InvalidItems where there are none."""
    if path == "-" or os.path.isfile(path):
        return None
    if os.path.isdir(path):
        inside = sorted(str(file) for file in Path(path).iterdir() if is_known(file))
        if not inside:
            raise InvalidItems(
                tell("{path}: the folder holds no file of {suffixes}", path=path, suffixes=", ".join(KNOWN))
            )
        return inside
    if not has_magic(path):
        return None
    matching = sorted(name for name in glob(path, recursive=True) if Path(name).is_file())
    if not matching:
        raise InvalidItems(tell("{path}: no file has such a name", path=path))
    return matching


def is_known(file: Path) -> bool:
    """Whether a folder's file is one of items by its name."""
    return file.suffix.lower() in KNOWN and not file.name.startswith((".", "~")) and file.is_file()


def refuse_shared_ids(files: Sequence[Sequence[FoundItem]]) -> None:
    """Raises InvalidItems for an id that items of several files have: by it their results could not be told apart."""
    first: dict[Any, tuple[int, str]] = {}
    faults = []
    for number, items in enumerate(files):
        for item in items:
            item_id = item.value.get("item", item.value.get("id"))  # a result's, or an item's
            if not isinstance(item_id, str | int):
                continue
            earlier, where = first.setdefault(item_id, (number, item.where))
            if earlier != number:
                faults.append((item.where, tell("the id {id} is also at {where}", id=repr(item_id), where=where)))
    if faults:
        raise InvalidItems(gather_faults(faults))


def read_one(path: str, reading: Reading, beside: Callable[[object], bool]) -> list[FoundItem]:
    """All items of one file."""
    reader = open_items(path, reading, skips=False, own=lambda value: is_own(value) or beside(value))
    try:
        found = list(reader)
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    name = name_file(path)
    if not found:
        raise InvalidItems(
            tell("{name}: holds no items; name the columns: --map response=COLUMN,context=COLUMN", name=name)
        )
    if reader.report.source != "saiten" or reader.report.encoding != "utf-8" or reader.report.unwanted:
        click.echo(f"saiten: {printable(name)}: {reader.report.decisions()}", err=True)
    warn_of_repeats(name, [one.value for one in found])
    return found


def warn_of_repeats(name: str, values: Iterable[Mapping[str, Any]]) -> list[str]:
    """Says on standard error that ids have several different responses, as in a file of two builds, and what tells them
    apart; the options that take one of them each."""
    groups: dict[object, list[Mapping[str, Any]]] = {}
    for value in values:
        is_result = "item" in value and "status" in value
        key = (value.get("item"), value.get("candidate")) if is_result else value.get("id")
        if isinstance(key, str) or (is_result and isinstance(value.get("item"), str)):
            groups.setdefault(key, []).append(value)
    repeated = [group for group in groups.values() if len({json.dumps(said(one)) for one in group}) > 1]
    if not repeated:
        return []
    first = repeated[0][0]
    told = tell(
        "{name}: different responses have the same id (such ids: {count:,}, first {id}); a run of one build has one "
        "for each.",
        name=name,
        count=len(repeated),
        id=first.get("item") or first.get("id"),
    )
    options = []
    if column := find_divider(repeated):
        options = [f"--where {quote(column)}={quote(metadata_of(one)[column])}" for one in repeated[0]]
        told += " " + tell("{column} tells them apart: {option} takes one.", column=column, option=options[0])
    click.echo(f"saiten: {printable(told)}", err=True)
    return options


def said(value: Mapping[str, Any]) -> object:
    """What a result or an item says: its response or turns, else its values."""
    parts = ("response", "responses", "turns")
    return next((value[part] for part in parts if value.get(part) is not None), value.get("aspects"))


def metadata_of(value: Mapping[str, Any]) -> dict[str, str]:
    """The entries of an item's metadata that are texts."""
    found = value.get("metadata")
    return {name: one for name, one in found.items() if isinstance(one, str)} if isinstance(found, dict) else {}


def find_divider(groups: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
    """The entry of metadata that is another one for each response of an id, of those with the fewest values; None where
    there is none."""
    known = [[metadata_of(one) for one in group] for group in groups]
    kinds: dict[str, int] = {}
    for column in dict.fromkeys(name for group in known for one in group for name in one):
        columns = [[one.get(column) for one in group] for group in known]
        if all(None not in values and len({*values}) == len(values) for values in columns):
            kinds[column] = len({value for values in columns for value in values})
    return min(kinds, key=lambda name: kinds[name], default=None)


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
