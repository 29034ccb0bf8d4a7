"""The way of a candidate from the job queue over the judge into the store: CPU an item, time beside the limit, scaling.

    python -m benchmarks.judge_path                # four minutes
    python -m benchmarks.judge_path --quick        # smaller batches, one round each
    python -m benchmarks.conversations             # the same way for whole conversations

Service, workers, judge and the plain `AsyncOpenAI` loop are processes of their own; ours and the loop take turns and
ask the same. The judge is `benchmarks.fast_judge`, whose own CPU a call is told. CPU is user and system time of the
process that works: the service where the queue is embedded (it also takes the batch in), else the workers.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.fast_judge import FastJudge, fast_judge
from benchmarks.plain_loop import run_plain_loop
from benchmarks.record import Beside, Figure, Report, at_least, at_most, run_alone
from tests.support.services import find_binary, free_port, private_postgres, redis_on
from tests.support.site import Site

NAME = "judge path"
LOOP = "AsyncOpenAI loop"
ITEMS, ROUNDS = 1000, 3
SCALE_ITEMS = 4000
LATENCY_MS, IN_FLIGHT = 200, 100
LEAST_SHARE = 0.95
"""Of N times one worker."""
CPU_MS, LIMIT_RATIO, CACHED_SECONDS = 1.2, 1.3, 1.0
POLL_SECONDS = 0.25
"""Between two looks at a batch: each costs the service some milliseconds of CPU. Ends are the batch's own."""
PATIENCE_SECONDS = 300.0
VARIABLES = {
    "SAITEN_LOG_LEVEL": "warning",
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
    "SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT),
}
EMBEDDED, WORKERS = "embedded", "two workers, Redis, PostgreSQL"


@dataclass(frozen=True)
class Run:
    """One batch: seconds from the POST to its end and from its first chunk on, CPU ms an item of who worked."""

    seconds: float
    work_seconds: float
    cpu_ms: float
    items: int

    @property
    def per_second(self) -> float:
        return self.items / self.work_seconds


class Stage:
    """A site and the fast judge. Batches have names, so that none is answered from the cache unless it is meant to."""

    def __init__(self, site: Site, judge: FastJudge) -> None:
        self.site = site
        self.judge = judge

    def run(self, items: int, name: str) -> Run:
        """Raises RuntimeError where an item is not scored."""
        processes = self.site.workers or filter(None, [self.site.service])
        working = [psutil.Process(process.pid) for process in processes]
        before, started = use_cpu(working), time.time()
        batch_id = self.site.post(items, name=name)
        batch = self.wait(batch_id)
        if batch["counts"]["scored"] != items:
            raise RuntimeError(f"{batch['counts']}\n{self.site.log()}")
        begun, ended = (datetime.fromisoformat(batch[moment]).timestamp() for moment in ("started_at", "finished_at"))
        # What a commit leaves to be done goes with it.
        time.sleep(POLL_SECONDS)
        cpu_ms = 1000 * (use_cpu(working) - before) / items
        return Run(ended - started, ended - begun, cpu_ms, items)

    def wait(self, batch_id: str) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while (batch := self.site.batch(batch_id))["status"] != "completed":
            if time.monotonic() > until:
                raise RuntimeError(f"the batch does not end\n{self.site.log()}")
            time.sleep(POLL_SECONDS)
        return batch


def use_cpu(processes: list[psutil.Process]) -> float:
    """CPU seconds that they have used so far."""
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def has_servers() -> bool:
    """Whether the binaries of PostgreSQL and Redis are here."""
    return find_binary("initdb") is not None and shutil.which("redis-server") is not None


@contextmanager
def stage(judge: FastJudge, *, workers: int, **variables: str) -> Iterator[Stage]:
    """A service with as many workers, on PostgreSQL and Redis of their own; without any it works itself, on SQLite."""
    with ExitStack() as stack:
        if workers:
            variables["DATABASE_URL"] = stack.enter_context(private_postgres())
            variables["REDIS_URL"] = stack.enter_context(redis_on(free_port()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saiten-bench-")))
        site = Site(folder, judge, **{**VARIABLES, **variables})  # type: ignore[arg-type]
        stack.callback(site.stop)
        site.start_service()
        site.start_workers(workers)
        made = Stage(site, judge)
        made.run(300, "warm")
        yield made


def measure_cpu(report: Report, judge: FastJudge, stages: dict[str, Stage], *, items: int, rounds: int) -> None:
    """CPU an item where the judge answers at once."""
    judge.turn(latency_ms=0, reset=True)
    ours: dict[str, list[Run]] = {name: [] for name in stages}
    plain = []
    for number in range(rounds):
        for name, each in stages.items():
            ours[name].append(each.run(items, f"cpu-{number}"))
        loop = run_plain_loop(judge.base_url, items=items, in_flight=IN_FLIGHT, name=f"cpu-{number}")
        plain.append(1000 * loop["cpu_seconds"] / items)
    seen = judge.stats()
    report.add(
        Figure(
            NAME, "the judge's own CPU a call", "ms", 1000 * seen["cpu_seconds"] / seen["requests"], note="of all calls"
        )
    )
    for name, runs in ours.items():
        rate = max(run.per_second for run in runs)
        report.add(
            Figure(
                NAME,
                f"{name}: CPU an item, judge 0 ms",
                "ms",
                [run.cpu_ms for run in runs],
                peer=Beside(LOOP, plain),
                target=at_most(CPU_MS),
                note=f"{items:,} items; the fastest round did {rate:.0f} items/s",
            )
        )


def measure_time(report: Report, judge: FastJudge, stages: dict[str, Stage], *, items: int, rounds: int) -> None:
    """From the POST to the end beside what the judge alone takes; then the same batches from the cache."""
    judge.turn(latency_ms=LATENCY_MS, reset=True)
    limit = items * LATENCY_MS / 1000 / IN_FLIGHT
    fresh: dict[str, list[float]] = {name: [] for name in stages}
    cached: dict[str, list[float]] = {name: [] for name in stages}
    plain = []
    for number in range(rounds):
        for name, each in stages.items():
            fresh[name].append(each.run(items, f"time-{number}").seconds)
        loop = run_plain_loop(judge.base_url, items=items, in_flight=IN_FLIGHT, name=f"time-{number}")
        plain.append(loop["seconds"])
    for number in range(rounds):
        for name, each in stages.items():
            cached[name].append(each.run(items, f"time-{number}").seconds)
    for name in stages:
        report.add(
            Figure(
                NAME,
                f"{name}: {items:,} items, judge {LATENCY_MS} ms, {IN_FLIGHT} in flight",
                "s",
                fresh[name],
                peer=Beside(LOOP, plain),
                limit=Beside("judge alone", limit),
                target=at_most(LIMIT_RATIO, of="limit"),
            )
        )
        target = at_most(CACHED_SECONDS * items / ITEMS)
        report.add(Figure(NAME, f"{name}: {items:,} items, all cached", "s", cached[name], target=target))


def measure_scaling(report: Report, judge: FastJudge, *, items: int, rounds: int) -> None:
    """1, 2 and 3 workers where the judge answers at once: items a second, and CPU of all workers an item. The second
    tells what the first would be on more cores: database, judge and service want some too."""
    judge.turn(latency_ms=0, reset=True)
    counts = (1, 2, 3)
    found: dict[int, list[Run]] = {}
    with stage(judge, workers=1, SAITEN_JUDGE_CONCURRENCY="400") as made:
        for count in counts:
            made.site.start_workers(count - len(made.site.workers))
            made.run(400 * count, f"warm-{count}")
            found[count] = [made.run(items, f"scale-{count}-{number}") for number in range(rounds)]
    for count in counts:
        busy = [run.cpu_ms * run.per_second / 1000 / count for run in found[count]]
        first = count == counts[0]
        one = [count * run.per_second for run in found[counts[0]]]
        report.add(
            Figure(
                NAME,
                f"{count} worker{'' if first else 's'}: items a second, judge 0 ms",
                "1/s",
                [run.per_second for run in found[count]],
                limit=None if first else Beside(f"{count} × one worker", one),
                target=None if first else at_least(LEAST_SHARE, of="limit"),
                note=f"each on {sum(busy) / len(busy):.2f} of a core; {psutil.cpu_count()} cores for all processes",
                better="higher",
            )
        )
        report.add(
            Figure(
                NAME,
                f"{count} worker{'' if first else 's'}: CPU of all an item",
                "ms",
                [run.cpu_ms for run in found[count]],
                limit=None if first else Beside("one worker", [run.cpu_ms for run in found[counts[0]]]),
                target=None if first else at_most(round(1 / LEAST_SHARE, 3), of="limit"),
            )
        )


def measure(report: Report, *, quick: bool = False) -> None:
    """Adds all figures of the judge path."""
    items, rounds = (300, 1) if quick else (ITEMS, ROUNDS)
    with fast_judge() as judge:
        with ExitStack() as stack:
            stages = {EMBEDDED: stack.enter_context(stage(judge, workers=0))}
            if has_servers():
                stages[WORKERS] = stack.enter_context(stage(judge, workers=2))
            measure_cpu(report, judge, stages, items=items, rounds=rounds)
            measure_time(report, judge, stages, items=items, rounds=rounds)
        if has_servers():
            measure_scaling(report, judge, items=items if quick else SCALE_ITEMS, rounds=rounds)
        else:
            report.skip(NAME, "workers", "the binaries of PostgreSQL and Redis are not here")


if __name__ == "__main__":
    run_alone(measure, __doc__)
