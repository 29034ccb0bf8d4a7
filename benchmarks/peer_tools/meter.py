"""What every peer's script shares: its arguments, its clock, its answer. Standard library alone: it runs in any venv.

    python deepeval_run.py WORK.json BASE_URL FOLDER CONCURRENCY

WORK.json is what `workload.py` writes. The last line on stdout is a JSON object: `wall_seconds` and `cpu_seconds` (this
process and its children) of scoring `items`, and `ratings`, how many came back. The same is done with `warm` before.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "gpt-6-luna"
KEY = "none"


@dataclass(frozen=True)
class Task:
    """`instructions`: text; `aspects`: id, name, criterion, values; `items`, `warm`: id, context, response."""

    instructions: str
    aspects: list[dict[str, Any]]
    items: list[dict[str, str]]
    warm: list[dict[str, str]]
    base_url: str
    folder: Path
    concurrency: int


def read_task() -> Task:
    """The command line."""
    work, base_url, folder, concurrency = sys.argv[1:5]
    return Task(
        **json.loads(Path(work).read_text(encoding="utf-8")),
        base_url=base_url,
        folder=Path(folder),
        concurrency=int(concurrency),
    )


def count_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def time_task(task: Task, score: Callable[[list[dict[str, str]]], int]) -> None:
    """Scores the warm items, then the others, and prints what those took. `score` returns the number of ratings."""
    out = os.dup(1)
    os.dup2(2, 1)  # what a tool prints is not the answer
    if task.warm:
        score(task.warm)
    wall, cpu = time.perf_counter(), count_cpu()
    ratings = score(task.items)
    found = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": count_cpu() - cpu, "ratings": ratings}
    sys.stdout.flush()
    os.write(out, (json.dumps(found) + "\n").encode())
