"""Writes the tables of docs/performance.md, between their two marks, from the figures of `python -m benchmarks --json`.

python -m benchmarks.performance_table build/bench.json

Of several files, made on one machine, the first tells of the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.machine import introduce
from benchmarks.record import COLUMNS, Figure, Missing, load_figures, tabulate

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- figures: written by benchmarks/performance_table.py -->", "<!-- /figures -->"


def render(machine: Mapping[str, Any], figures: Sequence[Figure], missing: Sequence[Missing]) -> str:
    """The machine, a table each benchmark, and what was not measured."""
    parts = ["  \n".join(introduce(machine).splitlines())]
    for benchmark, found in groupby(figures, key=lambda figure: figure.benchmark):
        parts.append(
            f"### {benchmark}\n\n`python -m benchmarks {benchmark.replace(' ', '_')}`\n\n{render_table(list(found))}"
        )
    if missing:
        lines = (f"- {one.benchmark}, {one.name}: {one.reason}" for one in missing)
        parts.append("### Not measured here\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def render_table(figures: Sequence[Figure]) -> str:
    """A Markdown table of the columns that say anything, with the notes last."""
    head = ["", "ours", "unit", "peer", "peer's", "ours/peer", "limit", "the limit's", "ours/limit", "target", "note"]
    rows = [[*row, figure.note] for row, figure in zip(tabulate(figures)[1:], figures, strict=True)]
    kept = [column for column in range(len(COLUMNS) + 1) if column == 0 or any(row[column] for row in rows)]
    lines = [[head[column] for column in kept], ["---"] * len(kept)]
    lines += [[escape(row[column]) for column in kept] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape(text: str) -> str:
    """A cell's text, which must not end the cell."""
    return text.strip().replace("|", "\\|")


def fill(page: str, tables: str) -> str:
    """The page with these tables between its marks; raises ValueError where it has not one of each, in order."""
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended) or BEGIN in rest or END in before + after:
        raise ValueError(f"the page needs {BEGIN} once, and {END} once after it")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="+", metavar="FILE", help="what --json wrote")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    runs = [load_figures(path.read_text(encoding="utf-8")) for path in options.figures]
    tables = render(runs[0][0], [one for run in runs for one in run[1]], [one for run in runs for one in run[2]])
    options.page.write_text(fill(options.page.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
