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
from benchmarks.record import Figure, Missing, load_figures, tabulate

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
MOST_ROWS = 20
"""A benchmark with more targets shows only those it misses; build/bench.json has all figures."""
BEGIN, END = "<!-- figures: written by benchmarks/performance_table.py -->", "<!-- /figures -->"


def render(machine: Mapping[str, Any], figures: Sequence[Figure], missing: Sequence[Missing]) -> str:
    """The machine, a table of each benchmark's targets, and what was not measured."""
    parts = ["  \n".join(introduce(machine).splitlines())]
    for benchmark, found in groupby(figures, key=lambda figure: figure.benchmark):
        judged = [figure for figure in found if figure.met is not None]
        if judged:
            parts.append(
                f"### {benchmark}\n\n`python -m benchmarks {benchmark.replace(' ', '_')}`: "
                f"{sum(bool(figure.met) for figure in judged)} of {len(judged)} targets met\n\n{render_table(judged)}"
            )
    if missing:
        lines = (f"- {one.benchmark}, {one.name}: {one.reason}" for one in missing)
        parts.append("### Not measured here\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def render_table(figures: Sequence[Figure]) -> str:
    """A Markdown table of figures that have a target; of very many, those that miss it."""
    if len(figures) > MOST_ROWS:
        figures = [figure for figure in figures if not figure.met] or figures[:MOST_ROWS]
    lines = [["", "ours", "beside it", "ratio", "target"], ["---"] * 5]
    for row in tabulate(figures)[1:]:
        name, ours, unit, *besides, target = row
        given = [besides[first : first + 3] for first in (0, 3) if besides[first]]
        beside = "; ".join(f"{other} {value}" for other, value, _ in given)
        lines.append([name, f"{ours} {unit}".strip(), beside, "; ".join(ratio for *_, ratio in given), target])
    return "\n".join(f"| {' | '.join(escape(cell) for cell in line)} |" for line in lines)


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
