"""The explorer on two runs of 100,000 results: each view's server time, beside the targets.

    python -m benchmarks.explorer                   # seeds SQLite, then a PostgreSQL of its own; measures, removes both
    python -m benchmarks.explorer --keep FILE       # SQLite alone, left in FILE, or taken where it is there
    python -m benchmarks.explorer --keep postgresql+asyncpg://…    # a database in PostgreSQL alone
    python -m benchmarks.explorer --results 5000    # smaller runs

The service is a process of its own. The first visit reads both runs into memory, from their results and not from the
frames that an earlier visit kept; the others sort and filter there.
`CPU` is the service's own time a visit, without that of PostgreSQL. It tells more than the clock on a machine that does
other things too.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import httpx

from benchmarks.dashboard import COMPUTING, fetch, open_client
from benchmarks.dashboard_data import Seeded, locate, seed
from benchmarks.dashboard_results import NEEDLE
from benchmarks.machine import introduce
from benchmarks.record import Figure, Report, at_most, finish, make_parser
from tests.support.command import served
from tests.support.databases import run_statement
from tests.support.services import find_binary, private_postgres

NAME = "explorer"
RESULTS, QUICK_RESULTS = 100_000, 1000
REQUESTS = 9
READ_LIMIT_MS, FIRST_LIMIT_MS, LIMIT_MS = 3000.0, 150.0, 300.0
RENEWAL_SECONDS = 1.0
"""After which a page that waits asks again (`app.js`). To ask ten times a second took a third of the service's CPU."""

MISSING = re.compile(r'class="empty computing"')
"""On a page without its verdict or its cases. A chart that is being drawn is no such part."""

TICKS = os.sysconf("SC_CLK_TCK")

VIEWS: Mapping[str, Mapping[str, str]] = {
    "verdict, and by drop": {},
    "by gain": {"sort": "gain"},
    "by disagreement of runs": {"sort": "runs"},
    "by disagreement of samples": {"sort": "samples"},
    "by disagreement with people": {"sort": "people"},
    "by worst value of an aspect": {"sort": "worst", "measure": "overall"},
    "changed": {"show": "changed"},
    "beyond noise": {"show": "beyond"},
    "warning": {"warning": "suspected-injection"},
    "value": {"aspect": "overall", "least": "1", "most": "1"},
    "text, two characters": {"text": NEEDLE},
    "text, one character": {"text": "海"},
    "text in every one": {"text": "です"},
    "text, long and frequent": {"text": "とても楽しかったです"},
    "text nowhere": {"text": "どこにもない文"},
    "last page": {"page": "9999999"},
}


LIST: Mapping[str, Mapping[str, str]] = {
    "one run": {},
    "one run, in order": {"sort": "item"},
    "one run, by samples": {"sort": "samples"},
    "one run, by people": {"sort": "people"},
    "one run, value and warning": {"value": "overall:1", "warning": "suspected-injection"},
    "one run, text": {"text": NEEDLE},
    "one run, text in every one": {"text": "です"},
    "one run, text, long and frequent": {"text": "とても楽しかったです"},
    "one run, system": {"meta": "system=bot-a"},
    "one run, last page": {"page": "9999999"},
}


@dataclass
class View:
    """How a view was answered, in milliseconds by the clock and of the service's CPU."""

    name: str
    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0
    kilobytes: float = 0.0


def read_cpu(pid: int) -> float:
    """The process's CPU time so far, in milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / TICKS


def visit(client: httpx.Client, pid: int, name: str, path: str) -> View:
    """Visits a view again and again."""
    found = View(name)
    before = read_cpu(pid)
    for _ in range(REQUESTS):
        answer, taken = fetch(client, path)
        answer.raise_for_status()
        found.wall.append(taken)
    found.cpu = (read_cpu(pid) - before) / REQUESTS
    found.kilobytes = answer.num_bytes_downloaded / 1000
    return found


def visit_first(client: httpx.Client, pid: int, path: str) -> View:
    """The very first visit, until verdict and cases are there; returns once the chart is, too."""
    found = View("first visit of all, until verdict and cases")
    before, begun = read_cpu(pid), time.perf_counter()
    while COMPUTING.search(page := fetch(client, path)[0].text):
        if not found.wall and not MISSING.search(page):
            end_visit(found, pid, before, begun)
        time.sleep(RENEWAL_SECONDS)
    if not found.wall:
        end_visit(found, pid, before, begun)
    return found


def end_visit(found: View, pid: int, before: float, begun: float) -> None:
    """Notes what was taken until now."""
    found.wall.append(1000 * (time.perf_counter() - begun))
    found.cpu = read_cpu(pid) - before


def run(report: Report, full: Seeded, folder: Path) -> None:
    """Visits all views, and reports."""
    with (
        served(folder, DATABASE_URL=full.url, SAITEN_JUDGE="lexical", SAITEN_LOG_LEVEL="warning") as (address, process),
        open_client(address) as client,
    ):
        fetch(client, "/explore")  # compiles the templates
        base = [("run", one) for one in full.runs]
        path = "/explore?" + urlencode(base)
        found = [visit_first(client, process.pid, path)]
        for name, asked in VIEWS.items():
            found.append(visit(client, process.pid, name, "/explore?" + urlencode([*base, *asked.items()])))
        for name, asked in LIST.items():
            fetch(client, one := "/explore?" + urlencode([base[1], *asked.items()]))  # what is computed once a run
            found.append(visit(client, process.pid, name, one))
        found.append(visit(client, process.pid, "text in all runs", "/explore?" + urlencode({"text": NEEDLE})))
    report.say(f"  {'view':44}{'median':>8}{'max':>8}{'CPU':>8} ms{'wire':>8} kB")
    for each in found:
        times = f"{statistics.median(each.wall):8.0f}{max(each.wall):8.0f}{each.cpu:8.0f}"
        report.say(f"  {each.name:44}{times}   {each.kilobytes:8.1f}")
    read, first, *others = found
    slowest = max(others, key=lambda each: statistics.median(each.wall))
    for title, view, most, note in (
        ("both runs read", read, READ_LIMIT_MS, f"once a process and pair; {read.cpu / 1000:.1f} s of CPU"),
        ("first rows", first, FIRST_LIMIT_MS, first.name),
        ("the slowest view", slowest, LIMIT_MS, slowest.name),
    ):
        once = view is read
        figure = Figure(NAME, f"{title}, {full.kind}", "ms", view.wall, target=at_most(most), note=note, once=once)
        report.add(figure)


def visit_database(report: Report, url: str, results: int) -> None:
    """Seeds the database where there is nothing in it, and visits it."""
    full = asyncio.run(seed(url, results))
    asyncio.run(run_statement(full.url, "DELETE FROM run_frames"))
    report.say(f"explorer, two runs of {full.results:,} results in {full.kind}, {REQUESTS} visits a view")
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        run(report, full, Path(name))


def measure(report: Report, *, quick: bool = False, results: int | None = None, keep: str | None = None) -> None:
    """Visits the database that is given, else one in SQLite and one in PostgreSQL."""
    results = results or (QUICK_RESULTS if quick else RESULTS)
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        visit_database(report, locate(keep, Path(name)), results)
    if keep is not None:
        return
    if find_binary("postgres") is None:
        report.skip(NAME, "PostgreSQL", "the server's binaries are not here")
        return
    with private_postgres() as url:
        visit_database(report, url, results)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--keep", metavar="FILE", help="the database, a file or URL, made where it is not there")
    parser.add_argument("--results", type=int, help=f"results of each run that is seeded, {RESULTS:,} without")
    asked = parser.parse_args(arguments)
    report = Report()
    report.say(introduce(report.machine))
    measure(report, quick=asked.quick, results=asked.results, keep=asked.keep)
    finish(report, asked)


if __name__ == "__main__":
    main()
