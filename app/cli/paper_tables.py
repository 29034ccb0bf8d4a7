"""Tables of the papers on standard output: as text, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import click
from rich.text import Text

from app.domain.plain_text import printable, round_figure
from app.stats.paper_tables import PaperColumn, PaperTable
from saiten.commands.output import DASH, TerminalTable, console, print_sheet
from saiten.spreadsheet import defuse

FORMS = ("text", "csv", "latex")

ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
"""Characters that LaTeX would take for its own."""


def print_table(table: PaperTable, form: str) -> None:
    """The table in one of the FORMS."""
    match form:
        case "csv":
            click.echo(write_csv(table), nl=False)
        case "latex":
            click.echo(write_latex(table))
        case _:
            target = console()
            rows = [(row.name, *map(join_parts, write_cells(table, number))) for number, row in enumerate(table.rows)]
            print_sheet(TerminalTable(table.title, (table.head, *(one.name for one in table.columns)), rows), target)
            for note in table.notes:
                target.print(Text(printable(note)))


def write_figure(value: float | None, column: PaperColumn) -> str:
    """The figure with the column's digits."""
    return DASH if value is None else f"{value:.{column.digits}f}"


def write_cells(table: PaperTable, row: int) -> list[list[str]]:
    """The figures of a row's cells as texts."""
    cells = zip(table.columns, table.rows[row].cells, strict=True)
    return [[write_figure(value, column) for value in cell] for column, cell in cells]


def join_parts(texts: Sequence[str]) -> str:
    """`0.34/0.35`; one dash where there is no figure at all."""
    return "/".join(texts) if any(text != DASH for text in texts) else DASH


def write_csv(table: PaperTable) -> str:
    """The table with a column for each part, and nothing where there is no figure."""
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    heads = [f"{one.name} {part}".strip() for one in table.columns for part in one.parts]
    writer.writerow([table.head, *map(defuse, heads)])
    for row in table.rows:
        cells = zip(table.columns, row.cells, strict=True)
        figures = ["" if value is None else write_figure(value, column) for column, cell in cells for value in cell]
        writer.writerow([defuse(row.name), *figures])
    return sheet.getvalue()


def write_latex(table: PaperTable) -> str:
    """The table for the package booktabs; the highest figures are bold where the table has them so. Japanese and Korean
    names need an engine that has their fonts, such as LuaLaTeX."""
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \caption{{{escape_latex(' · '.join((table.title, *table.notes)))}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"    \toprule",
        f"    {' & '.join(map(escape_latex, (table.head, *(one.name for one in table.columns))))} \\\\",
        r"    \midrule",
    ]
    for number, row in enumerate(table.rows):
        if table.footer and number == len(table.rows) - table.footer:
            lines.append(r"    \midrule")
        cells = [
            join_parts([mark_best(table, number, column, part, text) for part, text in enumerate(texts)])
            for column, texts in enumerate(write_cells(table, number))
        ]
        lines.append(f"    {' & '.join((escape_latex(row.name), *cells))} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"])


def mark_best(table: PaperTable, row: int, column: int, part: int, text: str) -> str:
    """The figure, bold where it is the highest of its column."""
    value = table.rows[row].cells[column][part]
    if value is None:
        return DASH
    shown = float(round_figure(value, table.columns[column].digits))
    is_best = row < len(table.rows) - table.footer and shown == table.best(column, part)
    figure = f"${text}$" if value < 0 else text
    return rf"\textbf{{{figure}}}" if is_best else figure


def escape_latex(text: str) -> str:
    """The text as LaTeX prints it: no character of a name is a command."""
    return "".join(ESCAPED.get(character, character) for character in printable(text))
