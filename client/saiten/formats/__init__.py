"""Reads what teams have (tables, JSON, the logs of other tools) as items, and writes items for other tools.

items = read_items("annotations.xlsx")
for item in items:
    print(item.where, item.value)
print(*items.report.lines(), sep="\n")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

from saiten.formats.errors import UnreadableInput
from saiten.formats.headings import Columns, find_columns, parse_map
from saiten.formats.mapping import Skipped, build_dialogue, build_item, group_utterances
from saiten.formats.reading import open_input, read_records
from saiten.formats.records import Record, refuse_infinite
from saiten.formats.report import Report
from saiten.formats.tools import TOOLS, Items, detect, open_table

__all__ = ["SOURCES", "FoundItem", "ItemReader", "Report", "UnreadableInput", "parse_map", "read_items"]

SOURCES = (*TOOLS, "huggingface", "table")
"""What `source` may name. `huggingface` and `table` are read by the names of their columns."""

MOST_SHAPES = 1000
"""Different sets of keys whose meaning is kept."""


@dataclass(frozen=True)
class FoundItem:
    """An item as the service takes it, and the place in the file that it comes from."""

    where: str
    value: dict[str, Any]


class ItemReader:
    """Iterates over the items of a file, once; `report` is complete when the iteration is."""

    def __init__(self, items: Iterator[FoundItem], report: Report) -> None:
        self.report = report
        self._items = items

    def __iter__(self) -> Iterator[FoundItem]:
        return self._items


def read_items(
    source_file: str | Path | IO[bytes],
    *,
    input_encoding: str | None = None,
    mapping: Mapping[str, str | Sequence[str]] | None = None,
    source: str | None = None,
    on_missing: Literal["skip", "refuse", "keep"] = "skip",
) -> ItemReader:
    """The items of a file, of a stream of bytes, or of standard input for `-`.

    `mapping` is target → column, or columns, beside those that are known by name; `source` is one of `SOURCES`,
    detected where it is None. A row without a response or a context is skipped and named in the report; with
    `on_missing="refuse"` it raises. Items in Saiten's own form are then passed on as they are, for the service to
    check. With `on_missing="keep"` fields are read by their names, and a row without a response gives an item without
    one: a context to be answered. Raises UnreadableInput, while iterating, for what cannot be read.
    """
    if source is not None and source not in SOURCES:
        raise UnreadableInput(f"{source!r} is not a format; there are {', '.join(SOURCES)}")
    columns = {target: [names] if isinstance(names, str) else list(names) for target, names in (mapping or {}).items()}
    report = Report()
    keeps = on_missing == "keep"
    reader = Reading(report, columns, "table" if keeps else source, refuses=on_missing == "refuse", keeps=keeps)
    return ItemReader(reader.run(source_file, input_encoding), report)


@dataclass
class Reading:
    """One file being read."""

    report: Report
    mapping: Mapping[str, Sequence[str]]
    source: str | None
    refuses: bool
    keeps: bool = False

    def run(self, source_file: str | Path | IO[bytes], input_encoding: str | None) -> Iterator[FoundItem]:
        """The items of the file."""
        with open_input(source_file) as (file, name):
            self.report.name = name
            records = read_records(file, name, input_encoding=input_encoding, mapping=self.mapping, report=self.report)
            first = next(records, None)
            if first is None:
                raise UnreadableInput(f"{name}: has no rows")
            yield from self.read(chain([first], records), first, name)

    def read(self, records: Iterator[Record], first: Record, name: str) -> Iterator[FoundItem]:
        """The items of the records; a document that no tool knows is opened as a table, whose rows may be a tool's."""
        source = self.source or ("table" if self.mapping else detect(first.value))
        if source in TOOLS and TOOLS[source].matches(first.value):
            parts = self.open(records, TOOLS[source].parts)
        else:
            parts = self.open_single(records)
            first_part = next(parts, None)
            if first_part is None:
                raise UnreadableInput(f"{name}: holds no rows")
            first, parts = first_part, chain([first_part], parts)
            source = source if self.source or self.mapping else detect(first.value)
        self.report.source = source
        yield from self.read_tool(parts, source) if source in TOOLS else self.read_rows(parts, first, name)

    def read_rows(self, parts: Iterator[Record], first: Record, name: str) -> Iterator[FoundItem]:
        """The items of rows, by the names of their columns."""
        columns = find_columns(list(first.value), self.mapping, name)
        if not columns.useful:
            raise UnreadableInput(f"{name}: {tell_unknown(first)}")
        if columns.long:
            for dialogue in group_utterances(parts, columns.long, self.report):
                dialogue.answered = not self.keeps
                yield from self.take(dialogue, items_of(dialogue), closes=False)
            return
        known = {tuple(first.value): columns}
        for part in parts:
            part.answered = not self.keeps
            keys = tuple(part.value)
            found = known.get(keys) or find_columns(keys, keep_there(self.mapping, keys), part.where)
            if len(known) < MOST_SHAPES:
                known[keys] = found
            yield from self.take(part, build(part, found))

    def read_tool(self, parts: Iterator[Record], source: str) -> Iterator[FoundItem]:
        """The items of the records of a tool."""
        for part in parts:
            if self.refuses and source == "saiten":
                refuse_infinite(part)
                self.report.rows += 1
                self.report.items += 1
                yield FoundItem(part.where, part.value)
            else:
                yield from self.take(part, TOOLS[source].items(part))

    def open_single(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records, or the rows of the only one, which may be a document that holds a table."""
        start = list(islice(records, 2))
        return self.open(iter(start), open_table) if len(start) == 1 else chain(start, records)

    def open(self, records: Iterator[Record], parts: Callable[[Record], Iterator[Record]]) -> Iterator[Record]:
        """The parts of each record; what a document holds beside them is reported."""
        for record in records:
            whole = False
            for part in parts(record):
                whole = whole or part is record
                yield part
            if not whole:
                record.close(self.report)

    def take(self, record: Record, items: Items, *, closes: bool = True) -> Iterator[FoundItem]:
        """The items of a record, which is closed; raises UnreadableInput for a skipped one where that is refused."""
        found, skips = 0, 0
        for item in items:
            if isinstance(item, Skipped):
                if self.refuses:
                    raise UnreadableInput(f"{record.where}: {item}; add it, or let saiten convert leave the row out")
                self.report.skip(record.where, str(item))
                skips += 1
                continue
            found += 1
            self.report.items += 1
            yield FoundItem(record.where, item)
        if closes:
            self.report.rows += found > 0 or skips > 0
        if closes and (found or not skips):
            record.close(self.report)


def build(record: Record, columns: Columns) -> Items:
    """The item of a row."""
    try:
        yield build_item(record, columns)
    except Skipped as skipped:
        yield skipped


def items_of(dialogue: Record) -> Items:
    """The item of a dialogue of a long table."""
    try:
        yield build_dialogue(dialogue)
    except Skipped as skipped:
        yield skipped


def keep_there(mapping: Mapping[str, Sequence[str]], keys: Iterable[str]) -> dict[str, list[str]]:
    """The mapping without columns that this record does not have."""
    there = set(keys)
    return {
        target: kept for target, names in mapping.items() if (kept := [n for n in names if n.split(".")[0] in there])
    }


def tell_unknown(record: Record) -> str:
    """What to do about columns of which none is known."""
    names = ", ".join(list(record.value)[:20])
    return f"no column is known as context or response ({names}); name them: --map response=COLUMN,context=COLUMN"
