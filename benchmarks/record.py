"""What every benchmark reports: figures of ours beside a peer's and a limit's of the same run, as a table and as JSON.

def measure(report: Report, *, quick: bool = False) -> None:
    report.add(Figure("batches", "1,000 items, embedded", "s", [2.31, 2.28, 2.40],
                      peer=Beside("AsyncOpenAI loop", [2.20, 2.19, 2.25]), limit=Beside("judge alone", 2.0),
                      target=at_most(1.3, of="limit")))
    report.skip("batches", "two workers", "the binaries of PostgreSQL and Redis are not here")

if __name__ == "__main__":
    run_alone(measure, __doc__)
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmarks.machine import describe_machine, introduce
from saiten_server.analyses.charts.intervals import IntervalLabels, IntervalRow, build_intervals
from saiten_server.platform.charts.canvas import Ruler
from saiten_server.platform.charts.sheet import ChartSection, ChartSheet, write_sheet

Of = Literal["ours", "peer", "limit"]
Values = float | Sequence[float]
"""One value, or that of each round."""

LEAST_ROUNDS = 3
FORMAT = 1
"""Of the JSON file."""


def read_rounds(values: Values) -> tuple[float, ...]:
    """The rounds' values; raises ValueError of none."""
    found = tuple(map(float, values)) if isinstance(values, Sequence) else (float(values),)
    if not found:
        raise ValueError("a figure without a round")
    return found


def find_median(values: Values) -> float:
    """The median of the rounds."""
    return statistics.median(read_rounds(values))


def find_spread(values: Values) -> float | None:
    """Half the range of the rounds, as a share of their median; None of a single round or a median of zero."""
    rounds = read_rounds(values)
    middle = statistics.median(rounds)
    return (max(rounds) - min(rounds)) / 2 / abs(middle) if len(rounds) > 1 and middle else None


@dataclass(frozen=True)
class Beside:
    """What a figure is held against: a peer or a limit by name, in the figure's unit, measured in the same run."""

    name: str
    values: Values


@dataclass(frozen=True)
class Target:
    """A bound on our own value (`ours`, in its unit) or on its ratio to the peer's or the limit's."""

    of: Of
    direction: Literal["<=", ">="]
    bound: float

    def __str__(self) -> str:
        sign = "≤" if self.direction == "<=" else "≥"
        return f"{sign} {self.bound:g}" + ("" if self.of == "ours" else f" × {self.of}")


def at_most(bound: float, *, of: Of = "ours") -> Target:
    """The value, or its ratio, is to be so large at most."""
    return Target(of, "<=", bound)


def at_least(bound: float, *, of: Of = "ours") -> Target:
    """The value, or its ratio, is to be so large at least."""
    return Target(of, ">=", bound)


@dataclass(frozen=True)
class Figure:
    """One measured thing. `better` says which way is good; ratios are ours over the other's, whatever is good.

    With `once` a single round is enough: it is a count, or happens but once, as a first visit.
    """

    benchmark: str
    name: str
    unit: str
    ours: Values
    peer: Beside | None = None
    limit: Beside | None = None
    target: Target | None = None
    note: str = ""
    better: Literal["lower", "higher"] = "lower"
    once: bool = False

    def __post_init__(self) -> None:
        if self.target is not None and self.target.of != "ours" and getattr(self, self.target.of) is None:
            raise ValueError(f"{self.name}: a target against a {self.target.of} that is not there")

    @property
    def value(self) -> float:
        return find_median(self.ours)

    def ratio(self, of: Literal["peer", "limit"]) -> float | None:
        """Our median over the other's; None where there is none, or it is zero."""
        other: Beside | None = getattr(self, of)
        middle = find_median(other.values) if other else 0.0
        return self.value / middle if middle else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one, or without a ratio to hold it against."""
        if self.target is None:
            return None
        found = self.value if self.target.of == "ours" else self.ratio(self.target.of)
        if found is None:
            return None
        return found <= self.target.bound if self.target.direction == "<=" else found >= self.target.bound


@dataclass(frozen=True)
class Missing:
    """What was not measured, and why: left out (`skipped`), or broken (`failed`)."""

    benchmark: str
    name: str
    reason: str
    kind: Literal["skipped", "failed"] = "skipped"


@dataclass
class Report:
    """Collects figures, each said as it comes through `say`."""

    machine: Mapping[str, Any] = field(default_factory=describe_machine)
    figures: list[Figure] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    say: Callable[[str], None] = lambda text: print(text, flush=True)

    def add(self, figure: Figure) -> None:
        """Keeps and says it."""
        self.figures.append(figure)
        self.say("  " + describe(figure))

    def skip(self, benchmark: str, name: str, reason: str) -> None:
        """Says that this is not measured here."""
        self.missing.append(Missing(benchmark, name, reason))
        self.say(f"  {name}: not measured, {reason}")

    def fail(self, benchmark: str, reason: str) -> None:
        """Says that a benchmark broke."""
        self.missing.append(Missing(benchmark, benchmark, reason, "failed"))
        self.say(f"  {benchmark}: FAILED, {reason}")

    @property
    def failed(self) -> bool:
        return any(one.kind == "failed" for one in self.missing)

    def to_json(self) -> dict[str, Any]:
        """All of it, rounds included, with ratios and verdicts."""
        return {
            "format": FORMAT,
            "machine": dict(self.machine),
            "figures": [dump(figure) for figure in self.figures],
            "missing": [asdict(one) for one in self.missing],
        }

    def write_json(self, path: Path) -> None:
        """Writes `to_json()` there."""
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def dump(figure: Figure) -> dict[str, Any]:
    """A figure as JSON."""

    def dump_beside(beside: Beside | None) -> dict[str, Any] | None:
        return None if beside is None else {"name": beside.name, **dump_values(beside.values)}

    return {
        "benchmark": figure.benchmark,
        "name": figure.name,
        "unit": figure.unit,
        "better": figure.better,
        "once": figure.once,
        "ours": dump_values(figure.ours),
        "peer": dump_beside(figure.peer),
        "limit": dump_beside(figure.limit),
        "ratio_to_peer": figure.ratio("peer"),
        "ratio_to_limit": figure.ratio("limit"),
        "target": figure.target and asdict(figure.target),
        "met": figure.met,
        "note": figure.note,
    }


def dump_values(values: Values) -> dict[str, Any]:
    return {"median": find_median(values), "rounds": list(read_rounds(values)), "spread": find_spread(values)}


def load_figures(text: str) -> tuple[dict[str, Any], list[Figure], list[Missing]]:
    """Machine, figures and what is missing of a file that `write_json` wrote; raises ValueError of another."""
    found = json.loads(text)
    if found.get("format") != FORMAT:
        raise ValueError(f"not a report of format {FORMAT}")

    def load_beside(one: Mapping[str, Any] | None) -> Beside | None:
        return Beside(one["name"], one["rounds"]) if one else None

    figures = [
        Figure(
            one["benchmark"],
            one["name"],
            one["unit"],
            one["ours"]["rounds"],
            peer=load_beside(one["peer"]),
            limit=load_beside(one["limit"]),
            target=Target(**one["target"]) if one["target"] else None,
            note=one["note"],
            better=one["better"],
            once=one["once"],
        )
        for one in found["figures"]
    ]
    return found["machine"], figures, [Missing(**one) for one in found["missing"]]


def show_number(value: float) -> str:
    """Three digits that count, thousands told apart: `0.0123`, `1.30`, `12,345`."""
    if value == 0 or abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = max(0, 2 - len(f"{abs(value):.0f}") + 1) if abs(value) >= 1 else 3
    text = f"{value:,.{digits}f}" if abs(value) >= 0.1 else f"{value:.3g}"
    return text.removesuffix(".00")


def show_values(values: Values, unit: str = "") -> str:
    """The median with its spread: `2.31 s ±4%`."""
    spread = find_spread(values)
    told = "" if spread is None else f" ±{100 * spread:.0f}%"
    return f"{show_number(find_median(values))}{' ' + unit if unit else ''}{told}"


def show_ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{show_number(ratio)} ×"


def show_verdict(figure: Figure) -> str:
    """`met: ≤ 1.3 × limit`; nothing without a target."""
    if figure.target is None:
        return ""
    verdict = {True: "met", False: "missed", None: "not known"}[figure.met]
    return f"{verdict}: {figure.target}"


def describe(figure: Figure) -> str:
    """A figure in one line."""
    parts = [f"{figure.name}: {show_values(figure.ours, figure.unit)}"]
    sides: tuple[Literal["peer", "limit"], ...] = ("peer", "limit")
    for of in sides:
        beside: Beside | None = getattr(figure, of)
        if beside:
            label = "" if of == "peer" else "limit, "
            parts.append(f"{show_ratio(figure.ratio(of))} {label}{beside.name} ({show_values(beside.values)})")
    return "; ".join([*parts, *filter(None, [show_verdict(figure), figure.note])])


COLUMNS = ("benchmark", "ours", "unit", "peer", "", "ours/peer", "limit", "", "ours/limit", "target")
NUMBERS = {1, 4, 5, 7, 8}
"""Columns that are aligned on the right."""


def tabulate(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """A row a figure, with COLUMNS; a benchmark's name is a row of its own before its figures."""
    rows: list[tuple[str, ...]] = []
    before = ""
    for figure in figures:
        if figure.benchmark != before:
            rows.append((figure.benchmark, *[""] * (len(COLUMNS) - 1)))
            before = figure.benchmark
        peer, limit = figure.peer, figure.limit
        rows.append(
            (
                "  " + figure.name,
                show_values(figure.ours),
                figure.unit,
                peer.name if peer else "",
                show_values(peer.values) if peer else "",
                show_ratio(figure.ratio("peer")),
                limit.name if limit else "",
                show_values(limit.values) if limit else "",
                show_ratio(figure.ratio("limit")),
                show_verdict(figure),
            )
        )
    return rows


def print_table(report: Report) -> None:
    """The aligned table of all figures, what is missing, and how many targets are met."""
    rows = [COLUMNS, *tabulate(report.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        cells = (
            cell.rjust(width) if column in NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        report.say("  ".join(cells).rstrip())
    for one in report.missing:
        report.say(f"{one.benchmark}: {one.name} {'FAILED' if one.kind == 'failed' else 'not measured'}: {one.reason}")
    judged = [figure.met for figure in report.figures if figure.met is not None]
    if few := list_hasty(report.figures):
        report.say(f"fewer than {LEAST_ROUNDS} rounds: {', '.join(few)}")
    report.say(f"{sum(judged)} of {len(judged)} targets met; ± is half the range of the rounds over their median")


def list_hasty(figures: Sequence[Figure]) -> list[str]:
    """What was timed in too few rounds to be quoted: benchmark and name, each once."""
    names = (
        f"{one.benchmark}, {one.name}" for one in figures if not one.once and len(read_rounds(one.ours)) < LEAST_ROUNDS
    )
    return list(dict.fromkeys(names))


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
            yield IntervalRow(name_row(figure, of), show_ratio(at), at, ends, find_goal(figure, of))


def rule_ratios(rows: Sequence[IntervalRow]) -> Ruler:
    """A logarithmic axis over all ratios and bounds, with ticks at 1, 2 and 5 times the powers of ten."""
    ends = [1.0, *(end for row in rows for end in (row.value, row.reference) if end is not None)]
    low, high = min(ends) / 1.15, max(ends) * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return Ruler(low, high, tuple(tick for tick in ticks if low <= tick <= high), ",.4~r", AXIS, log=True)


def name_row(figure: Figure, of: Literal["peer", "limit"] = "peer") -> str:
    """Benchmark and figure with the peer or the limit, cut where it is long."""
    other = figure.peer if of == "peer" else figure.limit
    text = f"{figure.benchmark}: {figure.name.strip()}" + (f" / {other.name}" if other else "")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class Measure(Protocol):
    def __call__(self, report: Report, *, quick: bool = False) -> None: ...


def make_parser(description: str | None, **more: Any) -> argparse.ArgumentParser:
    """A parser of the options of every benchmark: --quick, --json, --plot."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **more
    )
    parser.add_argument("--quick", action="store_true", help="less work and fewer rounds: does it run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios there (.svg, .png, .pdf)")
    return parser


def read_names(
    parser: argparse.ArgumentParser, known: Iterable[str], what: str, arguments: Sequence[str] | None = None
) -> argparse.Namespace:
    """The options, with `names`: those of the known ones that are to be run, all of them where none is named."""
    choices = list(known)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(choices)}; all without one")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in choices]:
        parser.error(f"no such {what}: {', '.join(unknown)}; there are {', '.join(choices)}")
    options.names = options.names or choices
    return options


def finish(report: Report, options: argparse.Namespace) -> None:
    """Prints the table, and writes what the options ask for."""
    report.say("")
    print_table(report)
    if options.json:
        report.write_json(options.json)
    if options.plot:
        draw_ratios(report.figures, options.plot)


def run_alone(measure: Measure, description: str | None, arguments: Sequence[str] | None = None) -> None:
    """A benchmark module's command line: `python -m benchmarks.NAME [--quick] [--json FILE] [--plot FILE]`."""
    options = make_parser(description).parse_args(arguments)
    report = Report()
    report.say(introduce(report.machine))
    measure(report, quick=options.quick)
    finish(report, options)
