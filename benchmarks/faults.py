"""The fault table at its standard size: 1,000 items, 2 workers, 16 judge calls in flight, real servers and processes.

    python -m benchmarks.faults              # every row, some 25 minutes
    python -m benchmarks.faults judge-500 …  # these

Each row prints what was lost, stored twice and judged twice, how long after the fault's end the next result was
committed, and what it took in all. A row that misses its figure says MISSED, and the exit code is 1. An encoder that is
slow is not among them: tests/scoring/test_relevance.py holds what a rating does without one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.fault_callers import HEAVY_ROWS
from benchmarks.fault_judge import (
    account_is_refused,
    batch_ends_early,
    callers_overload,
    candidates_always_fail,
    judge_breaks,
    judge_limits,
    judge_refuses_connections,
    replies_are_malformed,
)
from benchmarks.fault_processes import (
    item_kills_workers,
    nothing,
    service_is_killed,
    service_is_stopped,
    worker_freezes,
    worker_is_stopped,
    workers_are_killed,
)
from benchmarks.fault_stage import IN_FLIGHT, ITEMS, Row, open_stage
from benchmarks.fault_stores import (
    batch_is_erased,
    disk_is_full,
    postgres_hangs,
    postgres_is_stopped,
    redis_is_killed,
    redis_is_wiped,
)
from tests.support.services import find_binary

ROWS: dict[str, tuple[Row, dict[str, Any]]] = {
    "judge-500": (judge_breaks("down"), {}),
    "judge-hangs": (judge_breaks("hang"), {}),
    "judge-refuses-connections": (judge_refuses_connections, {}),
    "judge-limits": (judge_limits, {"latency_ms": 50}),
    "quota-exhausted": (account_is_refused("quota", "judge-quota-exhausted"), {}),
    "unauthorized": (account_is_refused("locked", "judge-unauthorized"), {}),
    "malformed-replies": (replies_are_malformed, {}),
    "redis-wiped": (redis_is_wiped, {"latency_ms": 300}),
    "redis-killed": (redis_is_killed, {"latency_ms": 800}),
    "postgres-stopped": (postgres_is_stopped, {}),
    "postgres-hangs": (postgres_hangs, {}),
    "disk-full": (disk_is_full, {"embedded": True}),
    "worker-killed": (workers_are_killed, {"latency_ms": 1000}),
    "service-killed": (service_is_killed, {}),
    "service-stopped": (service_is_stopped, {"latency_ms": 1500}),
    "worker-stopped": (worker_is_stopped(nothing, nothing, 0), {}),
    "worker-stopped-judge-hangs": (
        worker_is_stopped(lambda s: s.made.judge.turn(mode="hang"), lambda s: s.made.judge.turn(mode="ok"), IN_FLIGHT),
        {},
    ),
    "worker-stopped-redis-gone": (
        worker_is_stopped(lambda s: s.redis.kill(), lambda s: s.redis.start(), IN_FLIGHT),
        {},
    ),
    "worker-stopped-postgres-gone": (
        worker_is_stopped(lambda s: s.postgres.stop(), lambda s: s.postgres.start(), IN_FLIGHT),
        {},
    ),
    "worker-stopped-postgres-hangs": (
        worker_is_stopped(lambda s: s.postgres.freeze(), lambda s: s.postgres.thaw(), IN_FLIGHT),
        {},
    ),
    "worker-freezes": (worker_freezes, {"latency_ms": 800}),
    "bad-500": (candidates_always_fail("down", 400), {}),
    "bad-hang": (candidates_always_fail("hang", 999), {}),
    "bad-cut": (candidates_always_fail("cut", 0), {}),
    "bad-four": (candidates_always_fail("hang", 0, 50, 400, 999), {}),
    "overload": (callers_overload, {"embedded": True}),
    **{name: (row, {"embedded": True}) for name, row in HEAVY_ROWS.items()},
    "cancelled": (batch_ends_early("cancel"), {}),
    "deleted": (batch_ends_early("delete"), {}),
    "poison": (item_kills_workers, {}),
    "erasure": (batch_is_erased, {"workers": 2, "DATABASE_URL": "sqlite"}),
}


def run(name: str) -> bool:
    """Runs a row, prints its line; whether it held."""
    row, options = ROWS[name]
    folder = Path(tempfile.mkdtemp(prefix="saiten-fault-"))
    options, started, disk = dict(options), time.monotonic(), folder / "disk"
    if name == "disk-full":
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], check=False).returncode:
            print(f"  {name:30} not measured: it mounts a small file system, which needs root")
            return True
        options["DATABASE_URL"] = f"sqlite+aiosqlite:///{disk / 'saiten.db'}"
    if name == "erasure":
        options["DATABASE_URL"] = f"sqlite+aiosqlite:///{folder / 'saiten.db'}"
    missed: list[str] = []
    notes: list[str] = []
    try:
        with open_stage(folder, **options) as stage:
            missed, notes = stage.missed, stage.notes
            row(stage)
            if missed:
                print(stage.made.log(), file=sys.stderr)
    except Exception:  # noqa: BLE001 - the other rows are still wanted
        missed = [*missed, traceback.format_exc()]
    finally:
        if name == "disk-full":
            subprocess.run(["umount", disk], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    sign = f"MISSED {'; '.join(missed)}" if missed else ""
    print(f"  {name:30} {', '.join(notes)}, total {time.monotonic() - started:.0f} s   {sign}".rstrip(), flush=True)
    return not missed


def main(*chosen: str) -> None:
    if find_binary("initdb") is None or shutil.which("redis-server") is None:
        print("faults: not measured, they need the binaries of PostgreSQL and Redis")
        return
    if unknown := [name for name in chosen if name not in ROWS]:
        sys.exit(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    print(f"faults: {ITEMS} items, 2 workers, {IN_FLIGHT} judge calls in flight, leases of 15 s")
    held = [run(name) for name in chosen or ROWS]
    sys.exit(not all(held))


if __name__ == "__main__":
    main(*sys.argv[1:])
