"""What the command line prints: a table for eyes, NDJSON for programs."""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table
from rich.text import Text

from saiten.commands.folding import fold
from saiten.core.figures import DASH, write_figure
from saiten.core.language import mark, tell, tell_items
from saiten.core.plain_text import escape_controls, printable
from saiten.core.wording import name_run

if TYPE_CHECKING:
    from saiten.answers import Batch

TEXT_ROOM = 40
"""Columns that system, response and notes want beside the aspects."""

NARROWEST = 6
"""Columns of a text, below which it is left out."""

UNRATED = "?"
"""What stands for an unrated aspect where there is little room."""

EDGE = 1
GAP = 3
"""What a table leaves before the first column, and after each."""

PROGRESS_SECONDS = 30.0
"""Between two lines about the progress of a run, where standard error is not a terminal."""

LEFT: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "caption_justify": "left"}


def console(*, error: bool = False) -> Console:
    """A console on standard output, or on standard error; 100 columns where it is no terminal."""
    made = Console(stderr=error, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else Console(stderr=error, highlight=False, markup=False, emoji=False, width=100)


def print_line(text: str, on: Console, *, style: str = "") -> None:
    """Prints one line: folded on a terminal, else as it is, so that logs can be searched."""
    lines = fold(printable(text), on.width) if on.is_terminal else [printable(text)]
    for line in lines:
        on.print(Text(line, style=style), soft_wrap=True)


def print_ndjson(result: dict[str, Any]) -> None:
    """The result as one line, which the reader has at once."""
    sys.stdout.write(escape_controls(json.dumps(result, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def print_table(results: list[dict[str, Any]], *, on: Console | None = None) -> None:
    """A table a rubric: one row a result, one column an aspect, the blended value beside its rating."""
    target = on or console()
    for rubric in rubrics_of(results):
        rows = [result for result in results if rubric_of(result) == rubric]
        target.print(table_of(rubric, rows, target.width))


def print_scores(results: list[dict[str, Any]], *, on: Console | None = None) -> None:
    """The table of each rubric, its means below it, and what a reader of the means should know."""
    target = on or console()
    for rubric in rubrics_of(results):
        rows = [result for result in results if rubric_of(result) == rubric]
        target.print(table_of(rubric, rows, target.width))
        if any("aspects" in row for row in rows):
            print_sheet(means_of(rubric, rows), target)
        target.print(Text(printable(count_states(rows))))
        target.print()


def count_states(rows: list[dict[str, Any]]) -> str:
    """`12 items: 10 scored, 1 partly rated, 1 failed; unrated: fluency 1; warnings: suspected-injection 2`."""
    states = Counter(row["status"] for row in rows)
    told = ", ".join(tell(words, count=states[state]) for state, words in STATES.items() if states[state])
    unrated = Counter(name for row in rows for name, found in row.get("aspects", {}).items() if is_missing(found))
    warned = Counter(
        code
        for row in rows
        for code in {warning["code"] for warning in row.get("warnings", ())}
        if code != "baseline-judge"
    )
    line = tell_items(len(rows)) + ": " + told
    for head, counts in ((tell("unrated"), unrated), (tell("warnings"), warned)):
        if counts:
            line += f"; {head}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    return line


def is_missing(aspect: Mapping[str, Any]) -> bool:
    """Whether an aspect that applies is unrated."""
    unrated = aspect.get("unrated")
    return unrated is not None and unrated.get("reason") != "not-applicable"


STATES = {
    "scored": mark("{count} scored"),
    "partial": mark("{count} partly rated"),
    "failed": mark("{count} failed"),
}


def rubrics_of(results: list[dict[str, Any]]) -> list[str]:
    """The rubrics in the order in which they first appear."""
    return list(dict.fromkeys(rubric_of(result) for result in results))


def rubric_of(result: dict[str, Any]) -> str:
    """The id of a result's rubric."""
    found = result.get("rubric")
    return str(found["id"]) if isinstance(found, dict) else str(found)


def table_of(title: str, rows: list[dict[str, Any]], width: int) -> Table:
    """The table of one rubric's results; failed ones show why.

    Where `width` is short, the aspects' names are, then blended values and gaps go, and at last what was said.
    """
    scored = [row for row in rows if "aspects" in row]
    aspects = {name: result["scale"] for row in scored for name, result in row["aspects"].items()}
    composites = list(dict.fromkeys(name for row in scored for name in row["composites"]))
    whole, short = {name: name for name in aspects}, shorten_names(list(aspects))
    for heads, gap, compact in ((whole, GAP, False), (short, GAP, False), (short, 1, True)):
        figures = [
            [f"{heads[name]}\n{low}..{high}", *(cell(row, name, compact=compact) for row in rows)]
            for name, (low, high) in aspects.items()
        ]
        figures += [[name, *(number(row.get("composites", {}).get(name)) for row in rows)] for name in composites]
        room = (
            width
            - 2 * EDGE
            - sum(gap + max(cell_len(line) for text in one for line in text.split("\n")) for one in figures)
        )
        if room >= TEXT_ROOM + 3 * gap:
            break
    texts = {
        "system": [printable(row.get("metadata", {}).get("system", DASH)) for row in rows],
        "response": [printable(row.get("_response", DASH)) for row in rows],
        "notes": [notes(row) for row in rows],
    }
    widths = share_room(texts, room - 3 * gap)
    legend = ", ".join(f"{short}: {name}" for name, short in heads.items() if short != name)
    legend += f"{'; ' if legend else ''}{UNRATED}: {tell('unrated')}" if any(UNRATED in one for one in figures) else ""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), caption=legend or None, **LEFT)
    for name in ("system", "response"):
        if name in widths:
            table.add_column(tell(name), width=widths[name], no_wrap=True, overflow="ellipsis")
    for head, *_ in figures:
        table.add_column(head, justify="right", no_wrap=True)
    if "notes" in widths:
        table.add_column(tell("notes"), width=widths["notes"], overflow="fold")
    for place, _ in enumerate(rows):
        said = [texts[name][place] for name in ("system", "response") if name in widths]
        noted = [texts["notes"][place]] if "notes" in widths else []
        table.add_row(*(Text(text) for text in (*said, *(one[place + 1] for one in figures), *noted)))
    return table


def share_room(texts: Mapping[str, Sequence[str]], room: int) -> dict[str, int]:
    """How wide each column of texts is in so much room; none where it would be too narrow to tell anything."""
    wanted = {
        name: max(cell_len(line) for text in (tell(name), *column) for line in text.split("\n"))
        for name, column in texts.items()
    }
    found: dict[str, int] = {}
    for name, most, others in (("notes", 28, 2 * NARROWEST), ("system", 20, NARROWEST), ("response", 40, 0)):
        if room - others >= NARROWEST:
            found[name] = min(wanted[name], most, room - others)
            room -= found[name]
    return found


def shorten_names(names: list[str]) -> dict[str, str]:
    """Each name's shortest beginning of three letters or more that no other has."""
    lengths = range(3, max(map(len, names), default=3) + 1)
    enough = next((n for n in lengths if len({name[:n] for name in names}) == len(names)), None)
    return {name: name[:enough] for name in names}


def cell(row: dict[str, Any], name: str, *, compact: bool) -> str:
    """`3` for a rating, `3 (3.41)` with its blended value, `unrated` for none; the rating alone where it is compact."""
    aspect = row.get("aspects", {}).get(name)
    if aspect is None:
        return DASH
    if aspect["unrated"] is not None:
        return UNRATED if compact else tell("unrated")
    shown = (
        str(aspect["rating"])
        if len(aspect["samples"]) == 1
        else f"{figure(aspect['mean'], '.2f')}±{figure(aspect['sd'], '.2f')}"
    )
    return shown if aspect["blended"] is None or compact else f"{shown} ({figure(aspect['blended'], '.2f')})"


def number(value: float | None) -> str:
    """The value, or a dash for none."""
    return DASH if value is None else f"{value:g}"


def figure(value: float | None, form: str = ".3f") -> str:
    """The value, or a dash."""
    found = NUMBER_FORM.fullmatch(form)
    if value is None or found is None:
        return DASH if value is None else format(value, form)
    return write_figure(value, int(found["digits"]), signed=bool(found["sign"]))


NUMBER_FORM = re.compile(r"(?P<sign>\+)?\.(?P<digits>[0-9])f")
"""A form with digits behind the point."""


def bounds(interval: tuple[float, float] | None, form: str = ".2f") -> str:
    """`[2.58, 3.08]`, or a dash."""
    return DASH if interval is None else f"[{figure(interval[0], form)}, {figure(interval[1], form)}]"


def notes(row: dict[str, Any]) -> str:
    """What a reader should know of this result, in few words."""
    if "error" in row:
        return str(row["error"]["code"])
    found = [warning["code"] for warning in row["warnings"] if warning["code"] != "baseline-judge"]
    if (row.get("paths") or {}).get("translation_sensitive"):
        found.append("translation-sensitive")
    return "\n".join(map(printable, dict.fromkeys([*found, *(["cached"] if row["cached"] else [])]))) or DASH


def means_of(rubric: str, results: list[dict[str, Any]]) -> TerminalTable:
    """One rubric's mean rating per aspect (down) and system (across)."""
    rated = [result for result in results if "aspects" in result and rubric_of(result) == rubric]
    systems: dict[str, list[dict[str, Any]]] = {}
    for result in rated:
        systems.setdefault(result["metadata"].get("system", DASH), []).append(result)
    columns = [rows for _, rows in sorted(systems.items())]
    heads = [tell("aspect"), tell("scale"), *(f"{system} (n={len(rows)})" for system, rows in sorted(systems.items()))]
    scales = {name: found["scale"] for row in rated for name, found in row["aspects"].items()}
    found = [
        [[row["aspects"][name]["mean"] for row in rows if name in row["aspects"]] for rows in columns]
        for name in scales
    ]
    rows = [
        (name, "{}..{}".format(*scale), *map(mean_of, means))
        for (name, scale), means in zip(scales.items(), found, strict=True)
    ]
    return TerminalTable(tell("{rubric}: mean rating per aspect", rubric=rubric), heads, rows)


def mean_of(values: list[float | None]) -> str:
    """The mean of the rated ones, with how many are missing."""
    rated = [value for value in values if value is not None]
    missing = tell(" ({count} unrated)", count=len(values) - len(rated)) if len(rated) < len(values) else ""
    return (figure(statistics.fmean(rated), ".2f") if rated else DASH) + missing


def open_progress(*, shown: bool = True) -> Progress:
    """Bars on standard error, where that is a terminal and they are to be `shown`; messages are printed above them."""
    target = console(error=True)
    # Redirected, rich would send what is meant for standard output to standard error, where the bars are.
    return Progress(console=target, transient=True, disable=not (shown and target.is_terminal), redirect_stdout=False)


def make_progress(bar: Progress, *, clock: Callable[[], float] = time.monotonic) -> Callable[[Batch], None]:
    """Shows the progress of each batch as a bar; without a terminal as a line from time to time, so that the log of a
    CI distinguishes a slow run from one that hangs."""
    lines: dict[str, TaskID] = {}
    begun_at: dict[str, float] = {}
    reported_at: dict[str, float] = {}

    def show_progress(batch: Batch) -> None:
        name, total = name_run(batch), batch.counts.total
        done = total - batch.counts.queued
        if batch.id not in lines:
            lines[batch.id] = bar.add_task(tell("scoring {name}", name=name), total=total)
        bar.update(lines[batch.id], completed=done)
        now = clock()
        last = reported_at.get(batch.id)
        ended = batch.status == "completed"
        due = not ended if last is None else ended or now - last >= PROGRESS_SECONDS
        if bar.disable and due:
            begun, reported_at[batch.id] = begun_at.setdefault(batch.id, now), now
            took = tell(" in {seconds:.1f} s", seconds=now - begun) if ended else ""
            click.echo(
                tell("scoring {name}: {done} of {total}{took}", name=name, done=done, total=total, took=took), err=True
            )

    return show_progress


WORDY = frozenset({"", "higher", "system"})
"""Heads of columns that hold text wherever they stand; all others but the first hold figures."""


@dataclass(frozen=True)
class TerminalTable:
    """A table before it is known how wide it may be. `narrow` takes its place where it does not fit.

    The first column says what a row is: it stands again before every part of a table that is too wide.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    narrow: TerminalTable | None = None


def print_sheet(sheet: TerminalTable, on: Console) -> None:
    """The title, and the table in as many parts as the console's width asks for."""
    on.print(Text(printable(sheet.title), style="bold"))
    for part in lay_out(sheet, on):
        on.print(part)


def lay_out(sheet: TerminalTable, on: Console) -> Iterator[Table]:
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
        yield pick_columns(sheet, rest[:taken])
        rest = rest[taken:]


def widths_of(sheet: TerminalTable) -> list[int]:
    """How wide each column is on one line, with the room to the next."""
    columns = zip(sheet.heads, *sheet.rows, strict=True)
    return [GAP + max(cell_len(printable(str(cell))) for cell in column) for column in columns]


def pick_columns(sheet: TerminalTable, columns: Sequence[int]) -> Table:
    """The first column and those."""
    chosen = [0, *columns]
    rows = [[row[column] for column in chosen] for row in sheet.rows]
    return tabulate("", [sheet.heads[column] for column in chosen], rows)


def drop_zeros(sheet: TerminalTable, head: str) -> TerminalTable:
    """The sheet without the column of that head where it says 0 in every row."""
    place = sheet.heads.index(head)
    if any(row[place] not in {"0", ""} for row in sheet.rows):
        return sheet
    rows = [(*row[:place], *row[place + 1 :]) for row in sheet.rows]
    return TerminalTable(sheet.title, (*sheet.heads[:place], *sheet.heads[place + 1 :]), rows)


def tabulate(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table whose first column is text and whose others are figures, but for the heads that are WORDY."""
    table = Table(title=title or None, box=SIMPLE_HEAD, padding=(0, 2, 0, 0), **LEFT)
    for position, head in enumerate(heads):
        wordy = position == 0 or head in {*WORDY, tell("scale")}
        table.add_column(Text(printable(head)), justify="left" if wordy else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    return table
