"""Tables: where their headings are, and their rows as records. CSV and TSV are read line by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from saiten.core.formats.encodings import MOST_LINE
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import count_known, is_known, normalize, recognize
from saiten.core.formats.records import Record, is_blank, write_text
from saiten.core.formats.report import Report
from saiten.core.language import mark, tell
from saiten.core.spreadsheet import is_own_table, restore

MOST_COLUMNS = 1000
HEADING_ROWS = 5
"""Rows among which the headings are looked for, blank ones not counted."""

SAMPLE_LINES = 40
DELIMITERS = {",": mark("commas"), "\t": mark("tabs"), ";": mark("semicolons"), "|": mark("bars")}
EXCEL_ERRORS = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!"})

RULE = re.compile(r":?-+:?|")
"""A cell of the line below the headings in Markdown."""

PlacedRow = tuple[str, list[Any]]
"""Where it is, and its cells."""

GivenMapping = Mapping[str, Sequence[str]]
"""The targets and columns of a mapping."""


def read_delimited(lines: Iterator[str], name: str, mapping: GivenMapping, report: Report) -> Iterator[Record]:
    """The records of CSV, TSV or text separated by semicolons, by whichever suits the first lines."""
    sample = list(islice(lines, SAMPLE_LINES))
    delimiter, quoted = sniff(sample, mapping)
    report.reads += tell(", separated by {delimiter}", delimiter=tell(DELIMITERS[delimiter]))
    rows = split_rows(chain(sample, lines), name, delimiter, quoted=quoted)
    return read_table(rows, name, mapping, report, divided=True)


def sniff(sample: list[str], mapping: GivenMapping) -> tuple[str, bool]:
    """The delimiter under which the most headings are known, then the most rows have the same number of cells; and
    whether quotation marks quote. Tables with tabs may hold them as they were typed.
    """

    def suits(delimiter: str) -> tuple[int, int, int]:
        rows = [row for row in csv.reader(sample, delimiter=delimiter) if any(row)]
        widths = [len(row) for row in rows]
        usual = max(set(widths), key=widths.count, default=1)
        known = max((count_known(row[:MOST_COLUMNS], mapping) for row in rows[:HEADING_ROWS]), default=0)
        return known, widths.count(usual) if usual > 1 else 0, usual

    csv.field_size_limit(MOST_LINE)
    delimiter = max(DELIMITERS, key=suits)
    if delimiter != "\t":
        return delimiter, True
    try:
        list(csv.reader(sample[:-1] if len(sample) == SAMPLE_LINES else sample, delimiter="\t", strict=True))
    except csv.Error as error:
        return delimiter, len(sample) == SAMPLE_LINES and "unexpected end" in str(error)
    return delimiter, True


def split_rows(lines: Iterable[str], name: str, delimiter: str, *, quoted: bool) -> Iterator[PlacedRow]:
    """The rows of the text with their first lines; raises UnreadableInput for one that cannot be split."""
    if quoted:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UnreadableInput(
                tell(
                    "{name}: line {line}: {error}; a quotation mark in a quoted cell is written twice, and "
                    "every cell that begins with one ends with one",
                    name=name,
                    line=line,
                    error=error,
                )
            ) from None
        if delimiter == "|":  # as in a table of Markdown
            cells = [cell.strip() for cell in cells]
            if all(RULE.fullmatch(cell) for cell in cells):
                continue
        yield tell("{name}: line {line}", name=name, line=line), cells


def read_table(
    rows: Iterator[PlacedRow], name: str, mapping: GivenMapping, report: Report, *, divided: bool = False
) -> Iterator[Record]:
    """Records by headings, which stand in one of the first rows, or in two. `divided`: the rows are of a text, whose
    cells a separator divides. Raises UnreadableInput, then also for a row with more cells than there are headings."""
    first = list(islice((row for row in rows if not is_empty(row)), HEADING_ROWS + 1))
    if not first:
        raise UnreadableInput(tell("{name}: is empty; the first row should name the columns", name=name))
    place = find_headings([cells for _, cells in first], mapping)
    where, cells = first[place]
    for above, _ in first[:place]:
        report.leave(above.removeprefix(f"{name}: "), tell("above the headings"))
    names = ["" if is_blank(cell) else " ".join(str(write_text(cell)).split()).strip("\ufeff") for cell in cells]
    if len(names) > MOST_COLUMNS:
        raise UnreadableInput(
            tell(
                "{where}: has {count:,} columns; at most {most:,} are read",
                where=where,
                count=len(names),
                most=MOST_COLUMNS,
            )
        )
    begin = place + 1
    if begin < len(first) and is_second(names, first[begin][1]):
        names = join_headings(names, first[begin][1])
        begin += 1
        report.reads += tell(", headings in two rows")
    names = part_outputs(names)
    refuse_twins(names, where)
    own = is_own_table(names)
    for where, cells in chain(first[begin:], (row for row in rows if not is_empty(row))):
        if divided and any(not is_blank(cell) for cell in cells[len(names) :]):
            # A separator within a text would move everything behind it to another column.
            raise UnreadableInput(
                tell(
                    "{where}: has {count:,} cells below {most:,} headings; a text that holds the separator stands in "
                    "quotation marks",
                    where=where,
                    count=len(cells),
                    most=len(names),
                )
            )
        yield make_record(
            where, names, [restore(cell) if isinstance(cell, str) else cell for cell in cells] if own else cells
        )


def make_record(where: str, names: Sequence[str], cells: Sequence[Any]) -> Record:
    """The record of a row."""
    value: dict[str, Any] = {}
    errors, nameless = [], []
    for place, cell in enumerate(cells[:MOST_COLUMNS]):
        heading = names[place] if place < len(names) else ""
        if not heading:
            if not is_blank(cell):
                nameless.append(place)
        elif isinstance(cell, str) and cell in EXCEL_ERRORS:
            errors.append(heading)
        else:
            value[heading] = cell
    value |= dict.fromkeys(filter(None, names[len(cells) :]))  # a row ends with its last filled cell
    record = Record(where, value)
    for heading in errors:
        record.leave(heading, tell("an error of Excel"))
    for place in nameless:
        record.leave(f"column {name_column(place)}", tell("without a heading"))
    if any(not is_blank(cell) for cell in cells[MOST_COLUMNS:]):
        record.leave(f"columns after {name_column(MOST_COLUMNS - 1)}", tell("without a heading"))
    return record


def is_empty(row: PlacedRow) -> bool:
    """Whether no cell of the row holds anything."""
    return all(is_blank(cell) for cell in row[1])


def find_headings(rows: list[list[Any]], mapping: GivenMapping) -> int:
    """Which of the first rows are the headings: the one with the most known names, else the first."""
    known = [count_known([cell for cell in cells[:MOST_COLUMNS] if isinstance(cell, str)], mapping) for cells in rows]
    best = known.index(max(known[:HEADING_ROWS]))
    # A single word such as `user` may stand in any row; titles above headings fill fewer cells.
    filled = [sum(not is_blank(cell) for cell in cells) for cells in rows]
    return best if known[best] > 1 or all(filled[best] > above for above in filled[:best]) else 0


NUMBER_OR_DATE = re.compile(r"\s*[+-]?\d[\d.,:/TZ +-]*")
"""A number, a date or a time is data too."""

CELL_LABEL = re.compile(r"\s*[A-Za-z]\d*\s*")
"""A letter and a number in a cell are data, not a heading again."""


def is_second(names: Sequence[str], cells: Sequence[Any]) -> bool:
    """Whether the row below headings continues them: it holds nothing, or a heading again, where they are known."""
    known = [place for place, name in enumerate(names) if name and is_known(recognize(name))]
    below = [cells[place] if place < len(cells) else None for place in known]
    again = [isinstance(cell, str) and not CELL_LABEL.fullmatch(cell) and is_known(recognize(cell)) for cell in below]
    blank = all(is_blank(cell) for cell in below) and not any(
        isinstance(c, str) and NUMBER_OR_DATE.fullmatch(c) for c in cells
    )
    return bool(known) and (all(again) or blank)


def join_headings(names: Sequence[str], cells: Sequence[Any]) -> list[str]:
    """The names of two rows of headings: the second's below the first's, which may span several columns."""
    joined, spanning = [], ""
    for place in range(max(len(names), len(cells))):
        upper = names[place] if place < len(names) else ""
        lower = (write_text(cells[place]) or "").strip() if place < len(cells) else ""
        spanning = upper or spanning
        known = is_known(recognize(upper))
        joined.append(upper if known or not lower else f"{spanning} {lower}".strip())
    return joined


OUTPUT = re.compile(r"\[[^\[\]]+\] .+", re.DOTALL)
BESIDE_OUTPUT = re.compile(r"Status|Score|Named Scores|Grader Reason|Comment|Metric: .+")
"""The columns that promptfoo (0.121) writes behind each output, whose heading is `[provider] prompt`."""


def part_outputs(names: Sequence[str]) -> list[str]:
    """The headings with those that promptfoo repeats for each output named after it."""
    parted, output = [], ""
    for name in names:
        output = name if OUTPUT.fullmatch(name) else output
        parted.append(f"{output} {name}" if output and BESIDE_OUTPUT.fullmatch(name) else name)
    return parted if f"{output} Status" in parted else list(names)


def refuse_twins(names: Sequence[str], where: str) -> None:
    """Raises UnreadableInput where two columns have one name."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name and (other := places.setdefault(normalize(name), place)) != place:
            raise UnreadableInput(
                tell(
                    "{where}: two columns are named {name!r} ({other} and {place}); rename one",
                    where=where,
                    name=name,
                    other=name_column(other),
                    place=name_column(place),
                )
            )


def name_column(place: int) -> str:
    """A column's letters, as spreadsheets name it: 0 is A."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def place_of(reference: str) -> tuple[int, int]:
    """Row and column, from 0, of a cell such as `B3`."""
    match = re.fullmatch(r"([A-Z]{1,3})(\d{1,7})", reference)
    if match is None:
        return 0, 0
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return int(match[2]) - 1, column - 1
