"""The rows of a file that are wanted, by what a column says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import OTHER_HEADINGS, normalize
from saiten.core.formats.records import Record
from saiten.core.formats.report import Report
from saiten.core.language import tell

METADATA = "metadata"
MOST_VALUES_NAMED = 20
"""Columns or values that a message names."""


def parse_where(pairs: Sequence[str]) -> dict[str, list[str]]:
    """`COLUMN=VALUE` options: the values that are wanted of each column. Raises UnreadableInput."""
    wanted: dict[str, list[str]] = {}
    for pair in pairs:
        column, equals, value = pair.partition("=")
        if not equals or not column.strip():
            raise UnreadableInput(tell("--where: write it like build=1a2b, not {text!r}", text=pair[:40]))
        wanted.setdefault(column.strip(), []).append(value.strip())
    return wanted


def select(records: Iterator[Record], where: Mapping[str, Sequence[str]], report: Report) -> Iterator[Record]:
    """The records that have one of the wanted values in each of these columns. Raises UnreadableInput, at the end,
    where no record has such a column, or none is wanted."""
    names: dict[str, None] = {}
    values: dict[str, dict[str, None]] = {column: {} for column in where}
    kept = 0
    for record in records:
        found = {column: cell_of(record.value, column) for column in where}
        for column, value in found.items():
            if value is not None and len(values[column]) < MOST_VALUES_NAMED:
                values[column][value] = None
        if len(names) < MOST_VALUES_NAMED:
            names |= dict.fromkeys(record.value)
        if all(found[column] in wanted for column, wanted in where.items()):
            kept += 1
            yield record
        else:
            report.unwanted += 1
    if kept:
        return
    for column, told in values.items():
        if not told:
            known = ", ".join(names)
            raise UnreadableInput(
                tell(
                    "{name}: no row has a column {column}; there are {names}",
                    name=report.name,
                    column=column,
                    names=known,
                )
            )
    column, told = next(iter(values.items()))
    raise UnreadableInput(
        tell("{name}: no row is wanted; {column} has {values}", name=report.name, column=column, values=", ".join(told))
    )


def cell_of(row: Mapping[str, Any], column: str) -> str | None:
    """What the column says as a text: of the row itself, else of its metadata. None where it says nothing."""
    own = row.get(METADATA)
    for fields in (row, own if isinstance(own, Mapping) else {}):
        alike = {normalize(column), *map(normalize, OTHER_HEADINGS.get(f"{METADATA}.{column}", "").split())}
        for name in (column, *(key for key in fields if normalize(key) in alike)):
            value = fields.get(name)
            if value is not None and not isinstance(value, dict | list):
                whole = isinstance(value, float) and value.is_integer()
                return str(int(value) if whole else value).strip()
    return None
