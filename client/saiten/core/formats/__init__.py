"""Reads what teams have (tables, JSON, the logs of other tools) as items, and writes items for other tools.

items = read_items("annotations.xlsx")
for item in items:
    print(item.where, item.value)
print(*items.report.lines(), sep="\n")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, Any, Literal

from saiten.core.formats.chat_exports import is_discord, open_discord
from saiten.core.formats.chats import find_chat, read_chat
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import Columns, find_columns, is_target, lacks_dialogues, parse_map, tell_targets
from saiten.core.formats.mapping import Skipped, build_dialogue, build_item, group_utterances
from saiten.core.formats.reading import open_input, read_records
from saiten.core.formats.records import Record, refuse_infinite, write_text
from saiten.core.formats.report import Report
from saiten.core.formats.research import RATINGS, RatedItem
from saiten.core.formats.selection import parse_where, select
from saiten.core.formats.tools import TOOLS, detect, is_saiten, open_table
from saiten.core.formats.traces import ReadItems, choose_answers
from saiten.core.formats.turns import EveryTurn
from saiten.core.language import tell

__all__ = ["SOURCES", "FoundItem", "ItemReader", "Report", "UnreadableInput", "parse_map", "parse_where", "read_items"]

SOURCES = (*TOOLS, "huggingface", "table")
"""What `source` may name. `huggingface` and `table` are read by the names of their columns."""

EACH_TURN = {"chat", "chatgpt", "dbdc3"}
"""Sources that always give an item for each turn, with a part of the dialogue as its context."""

MOST_PEEKED = 200
"""Rows that tell whether a number is a dialogue's: it stands in all rows of one, as in JPersonaChat."""
OWN_FIELDS = {"context", "turns", "response", "responses", "item", "status"}
"""What an item or a result in Saiten's own form has some of."""

MOST_SHAPES = 1000
"""Different sets of keys whose meaning is kept."""


@dataclass(frozen=True)
class FoundItem:
    """An item as the service takes it, and the place in the file that it comes from.

    `columns` are (field of the item, its column), where the file names fields otherwise than the item does. `ratings`
    are what people said of its response, where the file holds that.
    """

    where: str
    value: dict[str, Any]
    columns: tuple[tuple[str, str], ...] = ()
    ratings: Sequence[dict[str, Any]] = ()

    def place(self, pointer: str) -> str:
        """Where what a JSON pointer into the item names stands in the file."""
        field = pointer.removeprefix("/").partition("/")[0]
        column = dict(self.columns).get(field)
        if column is not None:
            return tell("{where}, column {column}", where=self.where, column=column)
        return f"{self.where}: {pointer or tell('the item')}"


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
    own: Callable[[dict[str, Any]], bool] = is_saiten,
    rated: bool = False,
    system: str | None = None,
    every_turn: bool = False,
    where: Mapping[str, Sequence[str]] | None = None,
) -> ItemReader:
    """The items of a file, of a stream of bytes, or of standard input for `-`.

    `mapping` is target → column, or columns, beside those that are known by name; `source` is one of `SOURCES`,
    detected where it is None. A row without a response or a context is skipped and named in the report; with
    `on_missing="refuse"` it raises. Where the first record is `own`, all are then passed on as they are, for the
    service to check. With `on_missing="keep"` fields are read by their names, and a row without a response gives an
    item without one: a context to be answered. `rated`: the caller takes ratings too; without it they are told as left
    out. `every_turn`: each turn of the assistant in a dialogue gives an item. `where` has the wanted values by column;
    rows with others are left out. Raises UnreadableInput, while iterating, for what cannot be read.
    """
    if source is not None and source not in SOURCES:
        raise UnreadableInput(
            tell("{source!r} is not a format; there are {names}", source=source, names=", ".join(SOURCES))
        )
    for target in mapping or {}:
        if not is_target(target):
            raise UnreadableInput(
                tell("{target!r} is no field of an item; {targets}", target=target, targets=tell_targets())
            )
    columns = {target: [names] if isinstance(names, str) else list(names) for target, names in (mapping or {}).items()}
    report = Report()
    keeps = on_missing == "keep"
    reader = FileReader(
        report,
        columns,
        "table" if keeps else source,
        own if on_missing == "refuse" else None,
        keeps=keeps,
        rated=rated,
        system=system,
        turns=EveryTurn(report) if every_turn else None,
        where=where or {},
    )
    return ItemReader(reader.run(source_file, input_encoding), report)


@dataclass
class FileReader:
    """One file being read."""

    report: Report
    mapping: Mapping[str, Sequence[str]]
    source: str | None
    own: Callable[[dict[str, Any]], bool] | None
    """What is passed on as it is; None where rows without a response are skipped."""
    keeps: bool = False
    """Whether rows without a response give items without one."""
    rated: bool = False
    """Whether ratings by people are taken."""
    system: str | None = None
    """Who answers, in the log of a messenger."""
    turns: EveryTurn | None = None
    """Makes the items of earlier turns, where these are asked for."""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The wanted values by column; empty where all rows are."""
    shapes: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The columns of items, kept once for all items that have the same."""

    def run(self, source_file: str | Path | IO[bytes], input_encoding: str | None) -> Iterator[FoundItem]:
        """The items of the file."""
        with open_input(source_file) as (file, name):
            self.report.name = name
            records = read_records(file, name, input_encoding=input_encoding, mapping=self.mapping, report=self.report)
            first = next(records, None)
            if first is None:
                raise UnreadableInput(
                    tell("{name}: has no rows below its headings, or is neither a table nor JSON", name=name)
                )
            yield from self.read(chain([first], records), first, name)

    def read(self, records: Iterator[Record], first: Record, name: str) -> Iterator[FoundItem]:
        """The items of the records; a document that no tool knows is opened as a table, whose rows may be a tool's."""
        own = self.own is not None and self.source in (None, "saiten") and not self.mapping and self.own(first.value)
        if own and self.turns is None:
            self.report.source = "saiten"
            yield from self.pass_on(records)
            return
        if is_discord(first.value):
            records = open_discord(records)
            if (start := next(records, None)) is None:
                raise UnreadableInput(tell("{name}: holds no rows", name=name))
            first, records = start, chain([start], records)
        if self.source is None and not self.mapping and (chat := find_chat(first.value)):
            self.report.source = "chat"
            for record, items in read_chat(records, chat, self.report, self.system):
                yield from self.take(record, iter(items), closes=False)
            return
        source = self.source or ("table" if self.mapping else detect(first.value))
        if source in TOOLS and TOOLS[source].matches(first.value):
            parts = self.open(records, TOOLS[source].parts)
        else:
            parts = self.open_single(records)
            first_part = next(parts, None)
            if first_part is None:
                raise UnreadableInput(tell("{name}: holds no rows", name=name))
            first, parts = first_part, chain([first_part], parts)
            source = source if self.source or self.mapping else detect(first.value)
        self.report.source = source
        yield from self.read_tool(parts, source) if source in TOOLS else self.read_rows(parts, first, name)

    def read_rows(self, parts: Iterator[Record], first: Record, name: str) -> Iterator[FoundItem]:
        """The items of rows, by the names of their columns."""
        columns = find_columns(list(first.value), self.mapping, name)
        if not columns.useful and (inner := find_inner(first)):
            parts = (lift(part, inner) for part in chain([first], islice(parts, 1, None)))
            first = next(parts)
            parts = chain([first], parts)
            columns = find_columns(list(first.value), self.mapping, name)
        if lacks_dialogues(first.value, columns):
            start = list(islice(parts, MOST_PEEKED))
            parts = chain(start, parts)
            if numbers := find_numbers(start):
                columns = find_columns(list(first.value), {**self.mapping, "dialogue": [numbers]}, name)
        if lacks_dialogues(first.value, columns):
            raise UnreadableInput(
                tell(
                    "{name}: has an utterance a row, but no column tells dialogues apart; add one called dialogue_id",
                    name=name,
                )
            )
        if not columns.useful:
            raise UnreadableInput(f"{name}: {tell_unknown(first)}")
        parts = self.pick(parts)
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
            yield from self.take(part, build_row_item(part, found))

    def read_tool(self, parts: Iterator[Record], source: str) -> Iterator[FoundItem]:
        """The items of the records of a tool."""
        tool = TOOLS[source]
        read = ((part, tool.items(part)) for part in tool.join(self.pick(parts)))
        for part, items in choose_answers(read, tool.place, self.report) if tool.place else read:
            yield from self.take(part, items)

    def pick(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records that are wanted."""
        return select(records, self.where, self.report) if self.where else records

    def pass_on(self, records: Iterator[Record]) -> Iterator[FoundItem]:
        """The records as they are; raises UnreadableInput for what JSON has not."""
        first = next(records)
        # The options of a batch, on a first line, are no row.
        opening = [first] if self.where and not first.value.keys() & OWN_FIELDS else []
        for record in chain(opening, self.pick(records if opening else chain([first], records))):
            refuse_infinite(record)
            self.report.rows += 1
            self.report.items += 1
            yield FoundItem(record.where, record.value)

    def open_single(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records, or the rows of the only one, which may be a document that holds a table."""
        start = list(islice(records, 2))
        if self.mapping and start and any(start[0].get(name) for names in self.mapping.values() for name in names):
            return chain(start, records)
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

    def take(self, record: Record, items: ReadItems, *, closes: bool = True) -> Iterator[FoundItem]:
        """The items of a record, which is closed; raises UnreadableInput for a skipped one where that is refused."""
        found, skips = 0, 0
        for item in items:
            given = list(self.expand(item, record.where))
            if isinstance(item, Skipped) and not given:
                self.skip(record, item)
                skips += 1
                continue
            found += 1
            columns = tuple((target, heading) for heading, target in record.moved.items() if heading != target)
            shared = self.shapes.get(columns, columns)
            if len(self.shapes) < MOST_SHAPES:
                self.shapes[shared] = shared
            for value, ratings in given:
                self.report.items += 1
                self.report.ratings += len(ratings)
                yield FoundItem(record.where, value, shared, ratings)
        if closes:
            self.report.rows += found > 0 or skips > 0
        if closes and (found or not skips):
            if not self.rated:
                leave_ratings(record)
            record.close(self.report)

    def expand(
        self, item: dict[str, Any] | RatedItem | Skipped, where: str
    ) -> Iterator[tuple[dict[str, Any], Sequence[dict[str, Any]]]]:
        """The item with its ratings, after those of earlier turns where these are asked for; of a dialogue that no
        response ends only these."""
        value = item.value if isinstance(item, RatedItem) else item.unanswered if isinstance(item, Skipped) else item
        ratings = item.ratings if isinstance(item, RatedItem) and self.rated else ()
        if self.turns is None or self.report.source in EACH_TURN:
            if value is not None and not isinstance(item, Skipped):
                yield value, ratings
        elif value is not None:
            for one in self.turns.expand(value, where):
                yield one, ratings if one["context"] == value.get("context") else ()

    def skip(self, record: Record, skipped: Skipped) -> None:
        """Names a record that gives no item; raises UnreadableInput where that is refused."""
        if self.own is None:
            self.report.skip(record.where, str(skipped))
            return
        place = record.where
        if skipped.column:
            place = tell("{where}, column {column}", where=record.where, column=skipped.column)
        raise UnreadableInput(
            tell("{place}: {item}; add it, or leave such rows out with `saiten convert`", place=place, item=skipped)
        )


def leave_ratings(record: Record) -> None:
    """Tells what people said as left out."""
    for path in [path for path, target in record.moved.items() if target.startswith(RATINGS)]:
        del record.moved[path]
        record.leave(path, tell("ratings: `saiten convert --ratings FILE` writes them"))


def find_numbers(rows: Sequence[Record]) -> str | None:
    """The column of numbers of which each stands in several rows behind each other; None where there is none."""
    for name in find_columns(list(rows[0].value), {}, "").fields.values() if rows else ():
        runs = [value for value, _ in groupby(write_text(row.get(name)) for row in rows)]
        if len(runs) == len(set(runs)) and 2 * len(runs) <= len(rows):
            return name
    return None


def find_inner(record: Record) -> str | None:
    """The field whose object holds what is known, as `data` of Label Studio; None where there is no one such field."""
    inner = [
        key
        for key, value in record.value.items()
        if isinstance(value, dict) and (found := find_columns(list(value), {}, "")).useful and found.context
    ]
    return inner[0] if len(inner) == 1 else None


def lift(record: Record, name: str) -> Record:
    """The record with the fields of that object beside its own, under their paths."""
    inner = record.value.get(name)
    if not isinstance(inner, dict):
        return record
    rest = {key: value for key, value in record.value.items() if key != name}
    return Record(record.where, {**rest, **{f"{name}.{key}": value for key, value in inner.items()}}, record.prefix)


def build_row_item(record: Record, columns: Columns) -> ReadItems:
    """The item of a row."""
    try:
        yield build_item(record, columns)
    except Skipped as skipped:
        yield skipped


def items_of(dialogue: Record) -> ReadItems:
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
    return tell(
        "no column is known as context or response ({names}); name them: --map response=COLUMN,context=COLUMN",
        names=names,
    )
