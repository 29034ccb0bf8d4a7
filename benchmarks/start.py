"""How soon Saiten is there: `saiten --help`, commands, a service that is ready, what imports cost, and the install.

    python -m benchmarks.start
    python -m benchmarks.start --install      # also makes a virtual environment of the core, which takes a minute
    python -m benchmarks.start --quick --json start.json

Everything is timed from the start of a process. A service is ready at the first 200 of `/readyz`, asked every 10 ms.
The limits: Python with click loaded, for `--help`; an empty FastAPI application on uvicorn, for the service. Ours and
limit take turns. Nothing of an encoder is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.machine import introduce
from benchmarks.record import Beside, Figure, Report, at_most, finish, make_parser
from tests.support.command import ROOT, environment
from tests.support.services import find_binary, free_port, private_postgres

NAME = "start"
ROUNDS = 5
HELP_SECONDS = 0.3
READY_SECONDS = 1.5
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.01
SHOWN_PACKAGES = 10

COMMANDS = {
    "analyze --help": ["analyze", "--help"],
    "gate --help": ["gate", "--help"],
    "score --help": ["score", "--help"],
    "rubric list": ["rubric", "list"],
    "keys list": ["keys", "list"],
}
"""Beside `--help`; the last one opens a database that is there."""

EMPTY = """
import sys, uvicorn
from fastapi import FastAPI
application = FastAPI()

@application.get("/readyz")
async def ready() -> dict[str, str]:
    return {"status": "ready"}

uvicorn.run(application, port=int(sys.argv[1]), log_level="error")
"""


def saiten(*arguments: str) -> list[str]:
    """The command as it is called from a checkout."""
    return [sys.executable, "-m", "saiten", *arguments]


def time_command(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> float:
    """Seconds from the process's start to its end; raises RuntimeError where it fails."""
    started = time.perf_counter()
    done = subprocess.run(command, env=dict(variables), cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return seconds


def answers(port: int) -> bool:
    """Whether `/readyz` says 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def running(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> Iterator[psutil.Popen]:
    """The process, ended with the context."""
    with (folder / "log").open("ab") as log:
        process = psutil.Popen(command, env=dict(variables), cwd=folder, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)


def time_ready(command: Sequence[str], port: int, variables: Mapping[str, str], folder: Path) -> tuple[float, float]:
    """Seconds from the process's start until it is ready, and its CPU seconds by then; raises TimeoutError with its
    log."""
    started = time.perf_counter()
    with running(command, variables, folder) as process:
        while not answers(port):
            if time.perf_counter() - started > PATIENCE_SECONDS or process.poll() is not None:
                raise TimeoutError((folder / "log").read_text(encoding="utf-8"))
            time.sleep(POLL_SECONDS)
        seconds = time.perf_counter() - started
        spent = process.cpu_times()
        return seconds, float(spent.user + spent.system)


def measure_commands(report: Report, rounds: int) -> None:
    """`saiten --help` beside Python with click, and a few other commands."""
    click = [sys.executable, "-c", "import click"]
    with TemporaryDirectory() as made:
        folder = Path(made)
        variables = environment(folder)
        ours: dict[str, list[float]] = {name: [] for name in ("--help", *COMMANDS)}
        limit = []
        time_command(saiten("keys", "list"), variables, folder)  # makes the database
        for _ in range(rounds):
            ours["--help"].append(time_command(saiten("--help"), variables, folder))
            limit.append(time_command(click, variables, folder))
            for name, arguments in COMMANDS.items():
                ours[name].append(time_command(saiten(*arguments), variables, folder))
    beside, target = Beside("Python that imports click", limit), at_most(HELP_SECONDS)
    report.add(Figure(NAME, "saiten --help", "s", ours.pop("--help"), limit=beside, target=target))
    for name, seconds in ours.items():
        report.add(Figure(NAME, f"saiten {name}", "s", seconds))


def measure_service(report: Report, rounds: int) -> None:
    """From exec to ready: on a new SQLite file, on one that is there, with a judge over HTTP, and on PostgreSQL."""
    compare_starts(report, rounds, "SQLite", environment)
    compare_starts(report, rounds, "SQLite, OpenAI judge", lambda folder: environment(folder, OPENAI_API_KEY="any"))
    if find_binary("postgres") is None:
        report.skip(NAME, "ready, PostgreSQL", "the server's binaries are not here")
        return
    with private_postgres() as url:
        compare_starts(report, rounds, "PostgreSQL", lambda folder: environment(folder, DATABASE_URL=renew(url)))


def renew(url: str) -> str:
    """The server's URL with an empty database of its own."""
    import asyncio
    import secrets

    from tests.support.databases import run_statement

    name = f"start_{secrets.token_hex(6)}"
    asyncio.run(run_statement(url, f"CREATE DATABASE {name}"))
    return f"{url.rsplit('/', 1)[0]}/{name}"


def compare_starts(report: Report, rounds: int, kind: str, choose: Callable[[Path], Mapping[str, str]]) -> None:
    """Adds a figure for a new database, one for the same once it is there, and their CPU seconds."""
    fresh: list[tuple[float, float]] = []
    existing: list[tuple[float, float]] = []
    empty: list[tuple[float, float]] = []
    for _ in range(rounds):
        with TemporaryDirectory() as made:
            folder = Path(made)
            variables = choose(folder)
            for found in (fresh, existing):
                port = free_port()
                found.append(time_ready(saiten("serve", "--port", str(port)), port, variables, folder))
            port = free_port()
            empty.append(time_ready([sys.executable, "-c", EMPTY, str(port)], port, variables, folder))
    limit = Beside("empty FastAPI on uvicorn", [seconds for seconds, _ in empty])
    for name, found in (("new", fresh), ("existing", existing)):
        wall = [seconds for seconds, _ in found]
        title = f"ready, {name} database, {kind}"
        report.add(Figure(NAME, title, "s", wall, limit=limit, target=at_most(READY_SECONDS)))
        spent = Beside(limit.name, [cpu for _, cpu in empty])
        report.add(Figure(NAME, f"  of that CPU, {name} database, {kind}", "s", [cpu for _, cpu in found], limit=spent))


def measure_imports(report: Report, rounds: int) -> None:
    """What `saiten serve` imports: all of it, and the packages that cost most."""
    totals, counts = [], []
    by_package: Counter[str] = Counter()
    for _ in range(rounds):
        by_package = read_imports("import saiten_server.cli.serve")
        totals.append(sum(by_package.values()) / 1e6)
        counts.append(len(by_package))
    report.add(Figure(NAME, "imports of saiten serve", "s", totals, note=f"{counts[-1]} packages"))
    most = ", ".join(f"{name} {spent / 1000:.0f}" for name, spent in by_package.most_common(SHOWN_PACKAGES))
    report.say(f"  imports in ms by package, under -X importtime: {most}")


def read_imports(code: str) -> Counter[str]:
    """Microseconds that the modules of each package took for themselves."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stderr
    spent: Counter[str] = Counter()
    for line in told.splitlines():
        own, _, module = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            spent[module.strip().partition(".")[0]] += int(own)
    return spent


def measure_install(report: Report) -> None:
    """Time and size of a virtual environment with the core alone, by pip from wherever pip is told to fetch."""
    with TemporaryDirectory() as made:
        folder = Path(made) / "venv"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        bare = count_bytes(folder)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        started = time.perf_counter()
        command = [*pip, str(ROOT), "-c", str(ROOT / "constraints.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode:
            report.fail(NAME, f"pip did not install the core: {done.stderr.strip().splitlines()[-1]}")
            return
        note = "one round, caches as they are"
        report.add(Figure(NAME, "install of the core by pip", "s", seconds, note=note))
        report.add(Figure(NAME, "size of the core's install", "MB", (count_bytes(folder) - bare) / 1e6, note="on disk"))
        largest = Counter({path.name: count_bytes(path) for path in site_packages(folder).iterdir()})
        told = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in largest.most_common(SHOWN_PACKAGES))
        report.say(f"  MB by package: {told}")


def site_packages(folder: Path) -> Path:
    """Where the environment's packages lie."""
    return next((folder / "lib").glob("python*/site-packages"))


def count_bytes(folder: Path) -> int:
    """Bytes on disk of a file, or of all files below a folder; links are not followed."""
    if folder.is_file():
        return folder.stat().st_blocks * 512
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if not path.is_dir())


def measure(report: Report, *, quick: bool = False) -> None:
    """Everything but the install."""
    rounds = 1 if quick else ROUNDS
    # Files that the system has not read yet, and bytecode that is not compiled, are no part of it.
    with TemporaryDirectory() as folder:
        time_command(saiten("keys", "list"), environment(Path(folder)), Path(folder))
        time_command([sys.executable, "-c", "import saiten_server.cli.serve"], os.environ, ROOT)
    measure_commands(report, rounds)
    measure_service(report, rounds)
    measure_imports(report, rounds)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--install", action="store_true", help="also install the core into a new environment")
    options = parser.parse_args()
    report = Report()
    report.say(introduce(report.machine))
    measure(report, quick=options.quick)
    if options.install:
        measure_install(report)
    finish(report, options)


if __name__ == "__main__":
    main()
