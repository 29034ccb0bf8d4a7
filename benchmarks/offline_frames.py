"""Files of results: how long a gate and a summary over millions of rows take, and how much memory.

    python -m benchmarks.offline_frames                   # 5 million rows a run, 10 million in all: three minutes
    python -m benchmarks.offline_frames --rows 200000     # rows of each run
    python -m benchmarks.offline_frames --folder /data    # where the files are made and stay for the next time

The files are those of `ja-dialogue`, ten turns a dialogue, in parts of half a million rows, with keys that do not
compress. Each figure is of a process of its own: its peak memory is the process's, with Python and the libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gate import SHARES
from benchmarks.machine import introduce
from benchmarks.record import Figure, Report, at_most, finish, make_parser

PART_ROWS = 500_000
GROUP_ROWS = 100_000
TURNS = 10
MOST_SECONDS, MOST_MB = 20.0, 1000.0
SEEDS = {"baseline": 1, "candidate": 2}
ROWS, QUICK_ROWS = 5_000_000, 20_000


def write_run(folder: Path, rows: int, seed: int) -> None:
    """The files of a run with so many rows, unless they are there; runs of all seeds hold the same items."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, PART_ROWS)):
        path = folder / f"part-{number:05}.parquet"
        if not path.exists():
            table = make_part(first, min(PART_ROWS, rows - first), seed)
            pq.write_table(table, path, compression="zstd", row_group_size=GROUP_ROWS)


def make_part(first: int, count: int, seed: int) -> Any:
    """Rows with these numbers."""
    import pyarrow as pa

    from saiten_server.offline.frame_files import make_schema
    from saiten_server.scoring.rubrics.files import open_rubrics

    rubric = open_rubrics(None).get("ja-dialogue")
    draw, same = np.random.default_rng([seed, first]), np.random.default_rng(first)
    numbers = np.arange(first, first + count)
    digests = same.bytes(32 * count).hex()
    keys = same.integers(1, 2**63 - 1, size=count)
    dialogues = np.random.default_rng(0).integers(1, 2**63 - 1, size=first // TURNS + count // TURNS + 1)
    found: dict[str, Any] = {
        "key": [digests[64 * place : 64 * place + 64] for place in range(count)],
        "row_key": keys,
        "item": [f"talk-{number // TURNS:09}/{number % TURNS}" for number in numbers.tolist()],
        "item_key": keys ^ 0x5555555555555555,
        "cluster": [f"{number:016x}" for number in (numbers // TURNS).tolist()],
        "cluster_key": dialogues[numbers // TURNS],
        "context_key": keys ^ 0x3333333333333333,
        "rubric": [rubric.name] * count,
        "signature": ["saiten:1|rubric:ja-dialogue@2|judge:simulated"] * count,
        "status": ["scored"] * count,
        "system": ["甲"] * count,
        "judge_calls": np.ones(count, dtype=np.int32),
        "prompt_tokens": draw.integers(500, 900, size=count),
        "completion_tokens": draw.integers(60, 90, size=count),
        "cost_usd": draw.random(count) / 1000,
    }
    for aspect, levels in SHARES.items():
        # Most responses are rated as in the other run.
        shared, own = (each.choice([*levels], size=count, p=[*levels.values()]) for each in (same, draw))
        ratings = np.where(draw.random(count) < 0.8, shared, own)
        found |= {f"rating.{aspect}": ratings, f"mean.{aspect}": ratings.astype(np.float64)}
        found[f"sd.{aspect}"] = np.zeros(count)
    schema = make_schema(rubric)
    nothing = pa.nulls(count)
    columns = [
        pa.array(found[one.name], type=one.type) if one.name in found else nothing.cast(one.type) for one in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def gate(folder: Path) -> dict[str, Any]:
    """The gate over both runs."""
    from saiten_server.comparison.given_runs import GivenRun
    from saiten_server.comparison.requests import GateRequest
    from saiten_server.offline.opened_files import open_files
    from saiten_server.offline.runs import gate_files
    from saiten_server.scoring.rubrics.files import open_rubrics

    candidate, baseline = (open_files(str(folder / role)) for role in ("candidate", "baseline"))
    request = GateRequest(candidate=GivenRun(), baseline=GivenRun())
    report = gate_files(request, candidate, baseline, open_rubrics(None), None)
    return {"verdict": report.verdict, "pairs": report.comparison.pairing.pairs if report.comparison else 0}


def summarize(folder: Path) -> dict[str, Any]:
    """The summary of one run."""
    from saiten_server.offline.opened_files import open_files
    from saiten_server.offline.runs import summarize_files
    from saiten_server.scoring.rubrics.files import open_rubrics

    summary = summarize_files(open_files(str(folder / "candidate")), open_rubrics(None), None)
    return {"rated": summary.coverage.rated}


def run_alone(name: str, folder: Path) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds, seconds of the processors, and peak bytes of the work in a process of its own, and what it found."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "benchmarks.offline_frames", "--work", name, "--folder", str(folder)]
    # Of one thread: on a busy machine, those of BLAS wait for each other.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    said = subprocess.run(command, capture_output=True, check=True, text=True, env=alone).stdout
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(said)
    busy = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return seconds, busy, float(found.pop("peak_bytes")), found


WORK = {"gate": gate, "summary": summarize}


def work_alone(name: str, folder: Path) -> None:
    """Does the work, and prints what it found with the peak memory of this process."""
    found = WORK[name](folder)
    print(json.dumps({**found, "peak_bytes": read_peak()}))


def read_peak() -> int:
    """The most memory that this process had, in bytes. Not `ru_maxrss`, which a process has from the one that began
    it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def measure(report: Report, *, quick: bool = False, rows: int | None = None, folder: Path | None = None) -> None:
    """Adds time and memory of a gate and a summary."""
    rows = rows or (QUICK_ROWS if quick else ROWS)
    with tempfile.TemporaryDirectory() as made:
        place = (folder or Path(made)) / f"rows-{rows}"
        for role, seed in SEEDS.items():
            write_run(place / role, rows, seed)
        size = sum(path.stat().st_size for path in place.rglob("*.parquet"))
        report.say(f"{rows:,} rows a run, {size / 1e9:.2f} GB of files, {os.cpu_count()} cores")
        for name in WORK:
            seconds, busy, peak, found = run_alone(name, place)
            report.say(f"{name}: {seconds:.1f} s, {busy:.1f} s of CPU, peak {peak / 1e6:,.0f} MB; {found}")
            for what, unit, value, most in (("", "s", seconds, MOST_SECONDS), (": memory", "MB", peak / 1e6, MOST_MB)):
                report.add(Figure("offline_frames", name + what, unit, [value], target=at_most(most), once=True))


def main() -> None:
    parser = make_parser(__doc__ or "")
    parser.add_argument("--rows", type=int, help="rows of each run")
    parser.add_argument("--folder", type=Path, help="where the files are made, and stay")
    parser.add_argument("--work", choices=[*WORK], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work_alone(options.work, options.folder)
        return
    report = Report()
    report.say(introduce(report.machine))
    measure(report, quick=options.quick, rows=options.rows, folder=options.folder)
    finish(report, options)


if __name__ == "__main__":
    main()
