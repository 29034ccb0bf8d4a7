"""Tables that fit the terminal. What is too wide goes on below; nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.output import LEFT
from app.domain.plain_text import printable

WORDY = frozenset({"", "higher", "system"})
"""Heads of columns that hold text wherever they stand; all others but the first hold figures."""

EDGE = 1
GAP = 3
"""What `tabulate` leaves before the first column, and after each."""


@dataclass(frozen=True)
class Sheet:
    """A table before it is known how wide it may be. `narrow` takes its place where it does not fit.

    The first column says what a row is: it stands again before every part of a table that is too wide.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    narrow: Sheet | None = None


def print_sheet(sheet: Sheet, on: Console) -> None:
    """The title, and the table in as many parts as the console's width asks for."""
    on.print(Text(printable(sheet.title), style="bold"))
    for part in lay_out(sheet, on):
        on.print(part)


def lay_out(sheet: Sheet, on: Console) -> Iterator[Table]:
    """The table in parts, each of as many columns as fit beside each other."""
    widths = widths_of(sheet)
    if sheet.narrow is not None and EDGE + sum(widths) > on.width:
        sheet = sheet.narrow
        widths = widths_of(sheet)
    rest = list(range(1, len(sheet.heads)))
    while rest:
        taken, width = 1, EDGE + widths[0] + widths[rest[0]]
        while taken < len(rest) and (width := width + widths[rest[taken]]) <= on.width:
            taken += 1
        yield pick(sheet, rest[:taken])
        rest = rest[taken:]


def widths_of(sheet: Sheet) -> list[int]:
    """How wide each column is on one line, with the room to the next."""
    columns = zip(sheet.heads, *sheet.rows, strict=True)
    return [GAP + max(cell_len(printable(str(cell))) for cell in column) for column in columns]


def pick(sheet: Sheet, columns: Sequence[int]) -> Table:
    """The first column and those."""
    chosen = [0, *columns]
    rows = [[row[column] for column in chosen] for row in sheet.rows]
    return tabulate("", [sheet.heads[column] for column in chosen], rows)


def drop_noughts(sheet: Sheet, head: str) -> Sheet:
    """The sheet without the column of that head where it says 0 in every row."""
    place = sheet.heads.index(head)
    if any(row[place] not in {"0", ""} for row in sheet.rows):
        return sheet
    rows = [(*row[:place], *row[place + 1 :]) for row in sheet.rows]
    return Sheet(sheet.title, (*sheet.heads[:place], *sheet.heads[place + 1 :]), rows)


def tabulate(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table whose first column is text and whose others are figures, but for the heads that are WORDY."""
    table = Table(title=title or None, box=SIMPLE_HEAD, padding=(0, 2, 0, 0), **LEFT)
    for position, head in enumerate(heads):
        wordy = position == 0 or head in WORDY
        table.add_column(Text(printable(head)), justify="left" if wordy else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    return table
