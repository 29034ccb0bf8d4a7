"""Tables on standard output as text, CSV or LaTeX: those of the papers, and those of reports."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import click
from rich.text import Text

from saiten.commands.output import TerminalTable, console, print_sheet
from saiten.core.figures import DASH, round_figure
from saiten.core.plain_text import printable
from saiten.core.spreadsheet import defuse
from saiten_server.stats.paper_tables import PaperColumn, PaperTable

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
    """The table for the package booktabs; the highest figures are bold where the table has them so."""
    rows = [
        [
            escape_latex(row.name),
            *(
                join_parts([mark_best(table, number, column, part, text) for part, text in enumerate(texts)])
                for column, texts in enumerate(write_cells(table, number))
            ),
        ]
        for number, row in enumerate(table.rows)
    ]
    heads = [table.head, *(one.name for one in table.columns)]
    return frame_latex(" · ".join((table.title, *table.notes)), heads, rows, table.footer)


def frame_latex(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], footer: int = 0) -> str:
    """A table for the package booktabs, of cells that are LaTeX; a rule stands above the last `footer` rows. Japanese
    and Korean names need an engine that has their fonts, such as LuaLaTeX."""
    lines = [f"    {' & '.join(row)} \\\\" for row in rows]
    if footer:
        lines.insert(len(lines) - footer, r"    \midrule")
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"  \centering",
            *([rf"  \caption{{{escape_latex(caption)}}}"] if caption else []),
            rf"  \begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(map(escape_latex, heads))} \\\\",
            r"    \midrule",
            *lines,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def write_sheet_csv(sheet: TerminalTable) -> str:
    """A report's table, with nothing where there is no figure."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in (sheet.heads, *sheet.rows):
        writer.writerow(["" if cell == DASH else defuse(str(cell).removeprefix("+")) for cell in row])
    return written.getvalue()


def write_sheet_latex(sheet: TerminalTable) -> str:
    """A report's table, its figures as the terminal has them."""
    return frame_latex(sheet.title, sheet.heads, [[escape_latex(str(cell)) for cell in row] for row in sheet.rows])


def comment_latex(text: str) -> str:
    """The text as comments of LaTeX."""
    return "\n".join(f"% {line}" for line in printable(text).splitlines())


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
