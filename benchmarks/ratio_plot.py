"""How far ahead of each peer and how near to each limit, in one drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from app.charts.canvas import Ruler
from app.charts.intervals import IntervalLabels, IntervalRow, build_intervals
from app.charts.sheet import ChartSection, ChartSheet, write_sheet
from benchmarks.record import Figure, show_ratio

WIDTH = 900
LONGEST = 84
AXIS = "times as good as the other (log scale; right of 1 is ahead)"


def find_advantage(figure: Figure, of: Literal["peer", "limit"]) -> float | None:
    """How many times as good ours is: the ratio, turned where lower is better; None where nothing positive is."""
    ratio = figure.ratio(of)
    if ratio is None or ratio <= 0:
        return None
    return ratio if figure.better == "higher" else 1 / ratio


def find_goal(figure: Figure, of: Literal["peer", "limit"]) -> float | None:
    """The target's bound on the same axis; None where it is about something else."""
    if figure.target is None or figure.target.of != of or figure.target.bound <= 0:
        return None
    return figure.target.bound if figure.better == "higher" else 1 / figure.target.bound


def draw_ratios(figures: Sequence[Figure], path: Path) -> int:
    """Draws every figure with a ratio, in its order, into the file; how many those are."""
    shown = [one for one in figures if one.ratio("peer") is not None or one.ratio("limit") is not None]
    rows = [row for figure in shown for row in make_rows(figure)]
    labels = IntervalLabels("", "", "no figure has a ratio", "ours against the other", "target", AXIS)
    chart = build_intervals(rows, labels, rule_ratios(rows), width=WIDTH)
    write_sheet(ChartSheet("Against peers and limits, in the same run", [ChartSection("", [chart])]), path)
    return len(shown)


def make_rows(figure: Figure) -> Iterator[IntervalRow]:
    """A row for the peer and one for the limit, each from 1 to the ratio, with the target's bound."""
    sides: tuple[Literal["peer", "limit"], ...] = ("peer", "limit")
    for of in sides:
        at = find_advantage(figure, of)
        if at is not None:
            ends = min(1.0, at), max(1.0, at)
            yield IntervalRow(label(figure, of), show_ratio(at), at, ends, find_goal(figure, of))


def rule_ratios(rows: Sequence[IntervalRow]) -> Ruler:
    """A logarithmic axis over all ratios and bounds, with ticks at 1, 2 and 5 times the powers of ten."""
    ends = [1.0, *(end for row in rows for end in (row.value, row.reference) if end is not None)]
    low, high = min(ends) / 1.15, max(ends) * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return Ruler(low, high, tuple(tick for tick in ticks if low <= tick <= high), ",.4~r", AXIS, log=True)


def label(figure: Figure, of: Literal["peer", "limit"] = "peer") -> str:
    """Benchmark and figure with the peer or the limit, cut where it is long."""
    other = figure.peer if of == "peer" else figure.limit
    text = f"{figure.benchmark}: {figure.name.strip()}" + (f" / {other.name}" if other else "")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
