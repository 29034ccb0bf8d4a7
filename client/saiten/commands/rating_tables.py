"""Tables of ratings that are no CSV in UTF-8: workbooks, Parquet, other encodings and separators, compressed files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any

import click

from saiten.core.formats.encodings import find_encoding
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.parquet import ARROW, ARROW_STREAM, PARQUET
from saiten.core.formats.reading import read_records
from saiten.core.formats.records import Record, write_text
from saiten.core.formats.report import Report
from saiten.core.plain_text import printable

NO_TEXT = (b"PK\x03\x04", b"\x1f\x8b", b"\xd0\xcf\x11\xe0", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"%PDF")
"""The first bytes of files that are no text, or none that can be read as it is."""

SEPARATORS = "\t;|"
TARGETS = {"item", "evaluation", "winner"}


class RatingTable:
    """The records of a file, as lines of CSV, or of NDJSON where they hold objects; raises UnreadableInput. How the
    file was read is said on standard error."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        report = Report(name)
        records = read_records(file, name, input_encoding=None, mapping={}, report=report)
        first = next(records, None)
        nested = first is not None and any(isinstance(value, dict | list) for value in first.value.values())
        self.form = "ndjson" if nested else "csv"
        self._places = [] if nested else [name]
        self._records = chain([first] if first else [], records)
        self._headings = list(first.value) if first else []
        click.echo(f"saiten: {printable(name)}: {report.reads}", err=True)

    def lines(self) -> Iterator[bytes]:
        """A line for each record, once; of CSV after one with the headings."""
        if self.form == "csv":
            yield write_cells(self._headings)
        for record in self._records:
            self._places.append(record.where)
            yield self._write(record)

    def place(self, number: int) -> str:
        """Where what one of the lines holds stands in the file; lines are counted from 1."""
        return self._places[number - 1]

    def _write(self, record: Record) -> bytes:
        if self.form == "csv":
            return write_cells([self._write_cell(record.value.get(name)) for name in self._headings])
        return json.dumps(record.value, ensure_ascii=False, default=write_text).encode() + b"\n"

    def _write_cell(self, value: Any) -> str:
        text = write_text(value)
        return str(value) if text is None else text


def write_cells(cells: list[str]) -> bytes:
    """A line of CSV."""
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()


def open_rating_table(file: IO[bytes], name: str) -> RatingTable | None:
    """The table in a file that can be rewound; None for NDJSON, JSON and CSV in UTF-8, which need no other reading, and
    for what is of no known encoding. Raises UnreadableInput."""
    file.seek(0)
    start = file.read(1 << 16)
    if start.startswith((*NO_TEXT, PARQUET, ARROW, ARROW_STREAM)):
        return RatingTable(file, name)
    try:
        encoding = find_encoding(file, name, None)
    except UnreadableInput:
        return None  # the reader of ratings names the line
    if not encoding.codec.startswith("utf-8") or has_other_separator(start.decode(encoding.codec, "replace")):
        return RatingTable(file, name)
    return None


def has_other_separator(text: str) -> bool:
    """Whether something else than commas divides the first line, which names what was rated; or whether a line before
    it, as Excel knows it, says what does."""
    first = text.partition("\n")[0].strip("\ufeff\r")
    by_commas, *others = ({cell.strip().strip('"') for cell in first.split(mark)} for mark in f",{SEPARATORS}")
    return first.startswith("sep=") or (not by_commas & TARGETS and any(cells & TARGETS for cells in others))
