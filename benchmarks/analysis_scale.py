"""Analyses of 10,000 to 10,000,000 ratings by the command line, and of up to 200,000 stored results by the service.

    python -m benchmarks.analysis_scale [--quick]

Ratings are lines of NDJSON, each by one rater of one item, with two aspects and their scores; each command runs in a
process of its own, whose peak memory is told; corrected means are of one line per judged item. Beside it: the same
statistics by SciPy and krippendorff on arrays that are in memory already (the limit: nothing read, nothing checked, no
intervals), and by a notebook's way, which reads the file with pandas. Quick: up to 100,000 ratings and 2 × 2,000
results.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.analysis_work import RATERS, SCALES, SYSTEMS, draw_parts
from benchmarks.dashboard_data import Seeded, locate, seed
from benchmarks.record import Beside, Figure, Report, at_most, run_alone

NAME = "analysis_scale"
ANALYSES = ("agreement", "correlation", "hierarchy")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
ROUNDS = 3
ONCE_FROM = 10_000_000
"""Ratings from which one round has to do."""

MOST_OF_PANDAS = 1_000_000
"""Lines of which pandas makes more objects than a small machine holds."""

MOST_SECONDS, MOST_MEGABYTES = 120.0, 2000.0
STORED = (10_000, 100_000)
"""Results of each of two runs."""

JUDGED, LARGE_JUDGED, RATED = 1_000, 1_000_000, 200
SHORT_SECONDS, JUDGED_SECONDS, JUDGED_MEGABYTES = 0.2, 5.0, 500.0

WORKS = {"win-rates": 1, "overview": 2, "compare": 2, "gate": 2}
"""What is asked of stored results, and of how many of the runs."""

READ_SECONDS, OVERVIEW_MEGABYTES = 1.5, 400.0


class Spent(NamedTuple):
    """What a process took; `seconds` are wall time."""

    seconds: float
    megabytes: float
    said: str


def spend(command: Sequence[str]) -> Spent:
    """Runs a process; raises CalledProcessError where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Spent(time.perf_counter() - started, usage.ru_maxrss / 1024, said)


def work(*arguments: object) -> dict[str, float]:
    """What a piece of work says, with the time and the peak memory of its whole process."""
    spent = spend([sys.executable, "-m", "benchmarks.analysis_work", *map(str, arguments)])
    return {**json.loads(spent.said), "whole": spent.seconds, "megabytes": spent.megabytes}


def write_lines(path: Path, lines: int) -> None:
    """The ratings as NDJSON."""
    left = lines
    with path.open("w", encoding="utf-8") as file:
        for start, ratings, scores in draw_parts(lines):
            rated = {aspect: column.astype(int).tolist() for aspect, column in ratings.items()}
            scored = {aspect: column.tolist() for aspect, column in scores.items()}
            for at in range(len(scored["overall"])):
                unit = start + at
                told = json.dumps({aspect: scored[aspect][at] for aspect in SCALES})
                for rater in range(min(RATERS, left)):
                    given = json.dumps({aspect: rated[aspect][at][rater] for aspect in SCALES})
                    file.write(
                        f'{{"system": "bot-{unit % SYSTEMS}", "item": "{unit // SYSTEMS}", "rater": "R{rater}", '
                        f'"ratings": {given}, "scores": {told}}}\n'
                    )
                    left -= 1


def measure_file(report: Report, path: Path, lines: int) -> dict[str, float]:
    """Each analysis of a file of so many lines; its seconds by name."""
    rounds = 1 if lines >= ONCE_FROM else ROUNDS
    medians = {}
    for name in ANALYSES:
        ours, plain, notebook = list[Spent](), list[float](), list[float]()
        for _ in range(rounds):
            ours.append(spend([sys.executable, "-m", "saiten_server", "analyze", name, str(path), "--json"]))
            plain.append(work("in-memory", name, lines)["seconds"])
            if lines <= MOST_OF_PANDAS and find_spec("pandas"):
                notebook.append(work("pandas", name, path)["whole"])
        figure = Figure(
            NAME,
            f"{name}, {lines:,} ratings",
            "s",
            [spent.seconds for spent in ours],
            peer=Beside("pandas, SciPy, krippendorff", notebook) if notebook else None,
            limit=Beside("the statistics alone, in memory", plain),
            target=at_most(MOST_SECONDS) if lines == SIZES[-1] else None,
            note=f"{path.stat().st_size / 2**20:,.0f} MiB" + ("; intervals too" if name == "correlation" else ""),
            once=rounds == 1,
        )
        report.add(figure)
        report.add(
            Figure(
                NAME,
                f"{name}, {lines:,} ratings: peak memory",
                "MB",
                [spent.megabytes for spent in ours],
                target=at_most(MOST_MEGABYTES) if lines == SIZES[-1] else None,
                once=rounds == 1,
            )
        )
        medians[name] = figure.value
    return medians


def measure_judged(report: Report, folder: Path, *, quick: bool) -> None:
    """Corrected means of items that a judge rated, each its own line, and people some of them. Of few the work alone is
    timed, of many the whole command."""
    figures = np.random.default_rng(9).integers(1, 6, (2, LARGE_JUDGED)).tolist()
    for lines in (JUDGED, 20 * JUDGED if quick else LARGE_JUDGED):
        path = folder / f"judged-{lines}.ndjson"
        with path.open("w", encoding="utf-8") as file:
            for at in range(lines):
                rated = f', "ratings": {{"overall": {figures[1][at]}}}' if at < RATED else ""
                item = f'"system": "bot", "item": "response {at}", "dialogue": "dialogue {at // 10}"'
                file.write(f'{{{item}, "scores": {{"overall": {figures[0][at]}}}{rated}}}\n')
        few = lines == JUDGED
        command = [sys.executable, "-m", "saiten_server", "analyze", "corrected", str(path), "--ranges", "overall=1:5"]
        found = [work("corrected", "overall", path) if few else spend(command)._asdict() for _ in range(ROUNDS)]
        name = f"corrected, {lines:,} judged and {RATED} rated"
        seconds, whole = [one["seconds"] for one in found], lines == LARGE_JUDGED
        most = at_most(SHORT_SECONDS) if few else at_most(JUDGED_SECONDS) if whole else None
        report.add(Figure(NAME, name, "s", seconds, target=most))
        memory = [one["megabytes"] * 2**20 / 1e6 for one in found]
        report.add(
            Figure(NAME, f"{name}: peak memory", "MB", memory, target=at_most(JUDGED_MEGABYTES) if whole else None)
        )
        path.unlink()


def measure_stored(report: Report, stored: Seeded) -> None:
    """What the service takes for two runs of so many results."""
    for name, runs in WORKS.items():
        ids = [stored.runs[1], stored.runs[0]][:runs]
        found = [work("stored", name, stored.url, *ids) for _ in range(ROUNDS)]
        many = runs * stored.results
        whole = stored.results == STORED[-1]
        report.add(
            Figure(
                NAME,
                f"{name} of {many:,} stored results, CPU",
                "s",
                [one["cpu"] for one in found],
                target=at_most(READ_SECONDS) if whole and name == "win-rates" else None,
                note=f"{found[-1]['seconds']:.1f} s of wall time",
            )
        )
        report.add(
            Figure(
                NAME,
                f"{name} of {many:,} stored results: peak memory",
                "MB",
                [one["megabytes"] for one in found],
                target=at_most(OVERVIEW_MEGABYTES) if whole and name == "overview" else None,
                note="of the whole process",
            )
        )


def measure(report: Report, *, quick: bool = False) -> None:
    """Files first, then what is stored."""
    with TemporaryDirectory() as folder:
        medians: dict[int, dict[str, float]] = {}
        for lines in SIZES[:2] if quick else SIZES:
            path = Path(folder, f"{lines}.ndjson")
            write_lines(path, lines)
            medians[lines] = measure_file(report, path, lines)
            path.unlink()
        small, large = sorted(medians)[-2:]
        for name in ANALYSES:
            grown = medians[large][name] / medians[small][name]
            report.add(Figure(NAME, f"{name}: time of {large:,} ratings over that of {small:,}", "×", grown, once=True))
        measure_judged(report, Path(folder), quick=quick)
        for results in (2_000,) if quick else STORED:
            report.say(f"  (two runs of {results:,} results are put in)")
            measure_stored(report, asyncio.run(seed(locate(f"{folder}/{results}.db", Path(folder)), results)))


if __name__ == "__main__":
    run_alone(measure, __doc__)
