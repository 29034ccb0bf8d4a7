"""A table of the papers as a drawing, in its layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from saiten.core.figures import DASH
from saiten_server.platform.charts.canvas import (
    INK,
    ChartLabels,
    ChartRow,
    Margins,
    Spec,
    fit_text,
    frame,
    layer,
    letters,
    measure_width,
    pixels,
    write_number,
)
from saiten_server.platform.charts.sheet import ChartSection, ChartSheet, label_names, require_drawing, write_sheet
from saiten_server.stats.paper_tables import PaperTable

LINE_HEIGHT, COLUMN_GAP = 24, 22
WIDEST_NAME = 190


def draw_table(table: PaperTable, path: Path | str) -> list[str]:
    """Draws the table into a PNG, SVG or PDF file and returns notes for the reader. Raises InvalidRequest as
    `saiten_server.analyses.charts.reports.plot`."""
    require_drawing(path)
    names = [table.head, *(one.name for one in table.columns), *(row.name for row in table.rows)]
    labels, lost = label_names(names, path)
    write_sheet(ChartSheet(table.title, [ChartSection("", [build_table(table, labels)], table.notes)]), path)
    return lost


def build_table(table: PaperTable, labels: Mapping[str, str]) -> Spec:
    """Names on the left, figures aligned to the right, and rules as booktabs has them. `labels` are those of all
    names."""
    heads = [fit_text(labels[name], WIDEST_NAME) for name in (table.head, *(one.name for one in table.columns))]
    lines = [
        [
            fit_text(labels[row.name], WIDEST_NAME),
            *(
                "/".join(DASH if value is None else write_number(value, digits=column.digits) for value in cell)
                if any(value is not None for value in cell)
                else DASH
                for column, cell in zip(table.columns, row.cells, strict=True)
            ),
        ]
        for row in table.rows
    ]
    ends: list[float] = []
    for column in zip(heads, *lines, strict=True):
        ends.append((ends[-1] + COLUMN_GAP if ends else 0) + max(map(measure_width, column)) + 2)
    width, height = ends[-1], LINE_HEIGHT * (len(lines) + 1)
    texts: list[ChartRow] = [
        {"text": text, "x": 0 if place == 0 else ends[place], "y": LINE_HEIGHT * (number + 0.5), "first": place == 0}
        for number, line in enumerate([heads, *lines])
        for place, text in enumerate(line)
    ]
    rules = [0, LINE_HEIGHT, height, *([height - LINE_HEIGHT * table.footer] if table.footer else [])]
    x, y = pixels(0, width), pixels(height, 0)
    look = {"type": "rule", "color": INK, "strokeWidth": 1}
    drawn = [
        layer(
            "rules",
            look,
            [{"left": 0, "right": width, "y": at} for at in rules],
            x=x.at("left"),
            x2={"field": "right"},
            y=y.at("y"),
        ),
        letters("names", [one for one in texts if one["first"]], x.at("x"), y.at("y")),
        letters("figures", [one for one in texts if not one["first"]], x.at("x"), y.at("y"), align="right"),
    ]
    labelled = ChartLabels("", "", "there is nothing to tabulate")
    return frame(drawn, labelled, width=width, height=height, margins=Margins(left=2, right=2, top=2, bottom=2))
