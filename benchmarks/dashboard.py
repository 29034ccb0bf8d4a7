"""The dashboard on 100,000 results a run: each page's server time, bytes and first paint, beside the targets.

    python -m benchmarks.dashboard                    # seeds a database, measures, removes it
    python -m benchmarks.dashboard --keep FILE        # leaves the database in FILE, or takes the one that is there
    python -m benchmarks.dashboard --keep postgresql+asyncpg://…    # the same in PostgreSQL
    python -m benchmarks.dashboard --results 5000     # smaller runs
    python -m benchmarks.dashboard --fresh            # each page's first visit is that of a service just started

The service is a process of its own with the lexical judge; pages are fetched over HTTP, one at a time, and once more by
Chromium where there is one. Comparison and overview of aspects are computed once, behind a page that says so: how long
that takes is told apart, with how fast the service answers others meanwhile. A `first` visit of a page compiles its
templates, and may start the process that draws charts.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import httpx

from benchmarks.dashboard_browser import Painted, paint
from benchmarks.dashboard_data import RATERS, Seeded, locate, seed
from benchmarks.dashboard_results import NEEDLE
from benchmarks.machine import introduce
from benchmarks.record import Figure, Report, at_most, finish, make_parser
from saiten_server.explorer.pages.exploration import LINES
from tests.support.command import served

RESULTS, QUICK_RESULTS = 100_000, 1000
REQUESTS = 9
NAME = "dashboard"
SERVER_LIMIT_MS = 300.0
PAINT_LIMIT_MS = 1500.0
LIMIT_BYTES = 1_500_000
READY_SECONDS = 300.0
POLL_SECONDS = 1.0
"""Between two looks at a page that is being computed, as the page's own script has it."""

SETTLING_SECONDS = 3.0
"""After a start, until templates are compiled and clients loaded."""

PING_SECONDS = 0.01
ASSET = re.compile(r'(?:href|src)="(/assets/[^"]+)"')
RESULT_LINK = re.compile(r'href="(/runs/[^"/]+/items/\d+\?[^"]+)"')
COMPUTING = re.compile(r'class="[^"]*\bcomputing\b')
HTML = {"Accept": "text/html", "Accept-Encoding": "gzip"}


@dataclass
class Visits:
    """How a page was answered, in milliseconds; `wire` counts the bytes of it and of its assets as they came."""

    name: str
    path: str
    first: float = 0.0
    later: list[float] = field(default_factory=list)
    wire: int = 0
    painted: Painted | None = None
    missing: bool = False

    @property
    def faults(self) -> list[str]:
        """The targets that are missed."""
        found = []
        if max(self.first, *self.later) >= SERVER_LIMIT_MS:
            found.append("first visit" if max(self.later) < SERVER_LIMIT_MS else "server time")
        if self.painted is not None and self.painted.paint_ms >= PAINT_LIMIT_MS:
            found.append("first paint")
        if max(self.wire, self.painted.wire if self.painted else 0) >= LIMIT_BYTES:
            found.append("bytes")
        return found


@dataclass(frozen=True)
class Wait:
    """How long a page was computed, and what the service did meanwhile, in milliseconds."""

    name: str
    seconds: float
    pings: Sequence[float]


def fetch(client: httpx.Client, path: str) -> tuple[httpx.Response, float]:
    """The answer, and the milliseconds until its last byte."""
    started = time.perf_counter()
    answer = client.get(path)
    return answer, 1000 * (time.perf_counter() - started)


def visit(client: httpx.Client, name: str, path: str) -> Visits:
    """Visits a page again and again."""
    found = Visits(name, path)
    answer, found.first = fetch(client, path)
    if answer.status_code == 404 and answer.url.path == "/explore/aspects":
        found.missing = True
        return found
    answer.raise_for_status()
    found.later = [fetch(client, path)[1] for _ in range(REQUESTS)]
    found.wire = weigh(client, answer)
    return found


def weigh(client: httpx.Client, answer: httpx.Response) -> int:
    """Bytes of a page and all that it links, bodies as they were sent."""
    assets = sorted(set(ASSET.findall(answer.text)))
    return answer.num_bytes_downloaded + sum(client.get(path).num_bytes_downloaded for path in assets)


@contextmanager
def pinging(url: str) -> Iterator[list[float]]:
    """Asks after the service's life all the while; the milliseconds that each answer took."""
    taken: list[float] = []
    done = threading.Event()

    def ping() -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
            while not done.is_set():
                taken.append(fetch(client, "/livez")[1])
                done.wait(PING_SECONDS)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield taken
    finally:
        done.set()
        thread.join()


def await_ready(client: httpx.Client, url: str, name: str, path: str) -> tuple[list[Visits], Wait | None]:
    """Asks for what has to be computed until it is there: its visits meanwhile, and those after it."""
    pending = Visits(f"{name}, computing", path)
    begun = time.perf_counter()
    with pinging(url) as pings:
        answer, pending.first = fetch(client, path)
        while answer.is_success and COMPUTING.search(answer.text):
            if time.perf_counter() - begun > READY_SECONDS:
                raise TimeoutError(f"{path} is not ready after {READY_SECONDS:g} s")
            pending.wire = pending.wire or weigh(client, answer)
            time.sleep(POLL_SECONDS)
            answer, taken = fetch(client, path)
            pending.later.append(taken)
        seconds = time.perf_counter() - begun
    if pending.later:
        pending.later.pop()  # the first look at what is ready, told below
        ready = visit(client, name, path)
        ready.first = max(ready.first, taken)
        pending.later = pending.later or [pending.first]
        return [pending, ready], Wait(name, seconds, pings)
    return [visit(client, name, path)], None


def list_pages(client: httpx.Client, full: Seeded, results: int) -> Iterator[tuple[str, str]]:
    """What is visited, in order: names and addresses."""
    run = full.runs[1]
    items = f"/explore?run={run}"
    yield "runs", "/"
    yield "runs, searched", "/?" + urlencode({"text": "nightly"})
    yield "run", f"/runs/{run}"
    yield "items, worst first", items
    yield "items, own order", f"{items}&sort=item"
    deep = max(1, results // 2 // LINES)
    yield f"items, from {deep * LINES:,}", f"{items}&page={deep + 1}"
    yield f"items, own order, from {deep * LINES:,}", f"{items}&sort=item&page={deep + 1}"
    yield "items, last page", f"{items}&page={results // LINES}"
    yield "items, value and warning", f"{items}&value=overall:1&warning=suspected-injection"
    yield "items, unrated", f"{items}&unrated=*"
    yield "items, text", f"{items}&" + urlencode({"text": NEEDLE})
    yield "items, text in every one", f"{items}&" + urlencode({"text": "です"})
    yield "items, text nowhere", f"{items}&" + urlencode({"text": "どこにもない文"})
    yield "item, first", find_result(client, items, last=False)
    yield "item, last", find_result(client, f"{items}&page={results // LINES}", last=True)
    yield "try", "/try"
    yield "rate", "/rate"
    yield "round", f"/rate/{full.round}"
    yield "sheet", f"/rate/{full.round}/sheet?rater={RATERS[0]}"


def list_computed(full: Seeded) -> Mapping[str, str]:
    """Pages that have to be computed first."""
    baseline, candidate = full.runs
    return {
        "explorer with the verdict": f"/explore?run={baseline}&run={candidate}",
        "aspects, both runs": f"/explore/aspects?run={baseline}&run={candidate}",
        "aspects, one run": f"/explore/aspects?run={candidate}&chosen=1",
    }


def find_result(client: httpx.Client, items: str, *, last: bool) -> str:
    """The address of the first or the last result on a page of the table."""
    found = RESULT_LINK.findall(client.get(items).text)
    if not found:
        raise RuntimeError(f"{items} links no result")
    return str(found[-1 if last else 0]).replace("&amp;", "&")


def visit_all(full: Seeded, results: int, folder: Path, *, fresh: bool) -> tuple[list[Visits], list[Wait], str]:
    """All pages, how long those took that are computed, and the service's memory at its peak."""
    settings = {"DATABASE_URL": full.url, "SAITEN_JUDGE": "lexical", "SAITEN_LOG_LEVEL": "warning"}
    with served(folder, **settings) as (url, process), open_client(url) as client:
        found = [visit(client, name, path) for name, path in list_pages(client, full, results)]
        waits = []
        for name, path in list_computed(full).items():
            visits, wait = await_ready(client, url, name, path)
            found += visits
            waits += [wait] if wait else []
        memory = read_memory(process.pid)
        there = [each for each in found if not each.missing and not each.name.endswith("computing")]
        for each, painted in zip(there, paint(url, [each.path for each in there]), strict=False):
            each.painted = painted
    if fresh:
        for each in there:
            each.first = visit_first(each.path, folder, settings)
    return found, waits, memory


def visit_first(path: str, folder: Path, settings: Mapping[str, str]) -> float:
    """Milliseconds of the very first visit of a service; the time of a page to say that it computes where it does."""
    # A variable of Python's own: started anew, not forked, for what it imports is part of a first visit.
    with served(folder, **settings, PYTHONUNBUFFERED="1") as (url, _), open_client(url) as client:
        time.sleep(SETTLING_SECONDS)
        return fetch(client, path)[1]


@contextmanager
def open_client(url: str) -> Iterator[httpx.Client]:
    """A visitor, once the service answers."""
    with httpx.Client(base_url=url, timeout=READY_SECONDS, trust_env=False, headers=HTML) as client:
        client.get("/livez").raise_for_status()
        yield client


def read_memory(pid: int) -> str:
    """The most memory that the process has had, where the system tells."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return "unknown"
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return f"{int(peak[1]) / 1024:,.0f} MB" if peak else "unknown"


def show(report: Report, found: Sequence[Visits]) -> None:
    """The table."""
    report.say(f"  {'page':34}{'median':>8}{'max':>8}{'first':>8} ms{'wire':>8}{'paint':>9}{'wire':>8} kB   targets")
    for each in found:
        if each.missing:
            report.say(f"  {each.name:34}  not there")
            continue
        painted = (
            f"{each.painted.paint_ms:6.0f} ms{each.painted.wire / 1000:8.1f}" if each.painted else f"{'-':>9}{'-':>8}"
        )
        times = f"{statistics.median(each.later):8.0f}{max(each.later):8.0f}{each.first:8.0f}"
        told = "missed: " + ", ".join(each.faults) if each.faults else "met"
        report.say(f"  {each.name:34}{times}   {each.wire / 1000:8.1f}{painted}      {told}")


def show_waits(report: Report, waits: Sequence[Wait]) -> None:
    """What computed pages took, and others meanwhile."""
    for wait in waits:
        pings = sorted(wait.pings)
        p99 = pings[min(len(pings) - 1, int(0.99 * len(pings)))]
        report.say(
            f"  {wait.name}: ready in {wait.seconds:.1f} s; meanwhile {len(pings)} GET /livez:"
            f" median {statistics.median(pings):.0f} ms, p99 {p99:.0f} ms, max {pings[-1]:.0f} ms"
        )


def report_worst(report: Report, found: Sequence[Visits], waits: Sequence[Wait]) -> None:
    """A figure each target, of the page that is farthest from it, and one a page that is computed first."""
    there = [each for each in found if not each.missing]
    slowest = max(there, key=lambda each: statistics.median(each.later))
    report.add(
        Figure(NAME, "the slowest page", "ms", slowest.later, target=at_most(SERVER_LIMIT_MS), note=slowest.name)
    )
    first = max(there, key=lambda each: each.first)
    report.add(
        Figure(
            NAME,
            "the slowest first visit",
            "ms",
            first.first,
            target=at_most(SERVER_LIMIT_MS),
            note=first.name,
            once=True,
        )
    )
    largest = max(there, key=lambda each: max(each.wire, each.painted.wire if each.painted else 0))
    report.add(
        Figure(
            NAME,
            "the largest page with its assets",
            "kB",
            max(largest.wire, largest.painted.wire if largest.painted else 0) / 1000,
            target=at_most(LIMIT_BYTES / 1000),
            note=largest.name,
            once=True,
        )
    )
    painted = [(each.name, each.painted.paint_ms) for each in there if each.painted]
    if painted:
        name, milliseconds = max(painted, key=lambda pair: pair[1])
        report.add(
            Figure(
                NAME,
                "the slowest first paint",
                "ms",
                milliseconds,
                target=at_most(PAINT_LIMIT_MS),
                note=f"{name}, the median of a few",
                once=True,
            )
        )
    for wait in waits:
        report.add(Figure(NAME, f"{wait.name}, computed", "s", wait.seconds, note="once for two runs", once=True))


def run(report: Report, results: int, keep: str | None, *, fresh: bool) -> None:
    """Seeds where it has to, visits all pages, reports."""
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        folder, started = Path(name), time.perf_counter()
        full = asyncio.run(seed(locate(keep, folder), results))
        report.say(
            f"dashboard, two runs of {full.results:,} results in {full.kind}, {REQUESTS} visits a page after the first"
        )
        report.say(f"  database ready in {time.perf_counter() - started:.0f} s")
        found, waits, memory = visit_all(full, full.results, folder, fresh=fresh)
    show(report, found)
    show_waits(report, waits)
    missed = [each.name for each in found if not each.missing and each.faults]
    report.say(
        f"  targets: server < {SERVER_LIMIT_MS:g} ms, first paint < {PAINT_LIMIT_MS:g} ms, < {LIMIT_BYTES / 1e6:g} MB"
    )
    report.say(f"  {'missed by ' + ', '.join(missed) if missed else 'all met'}; the service's memory at most {memory}")
    report_worst(report, found, waits)


def measure(report: Report, *, quick: bool = False) -> None:
    """Everything but the visits of services just started."""
    run(report, QUICK_RESULTS if quick else RESULTS, None, fresh=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--keep", "--database", metavar="FILE", help="the database, a file or URL, made where it is not there"
    )
    parser.add_argument("--results", type=int, help=f"results of each big run that is seeded, {RESULTS:,} without")
    parser.add_argument("--fresh", action="store_true", help="take first visits of a service just started")
    options = parser.parse_args(arguments)
    report = Report()
    report.say(introduce(report.machine))
    results = options.results or (QUICK_RESULTS if options.quick else RESULTS)
    run(report, results, options.keep, fresh=options.fresh)
    finish(report, options)


if __name__ == "__main__":
    main()
