"""How many workers for which limit of the judge, what a candidate costs in CPU, and a process in memory.

    python -m benchmarks.sizing
    python -m benchmarks.sizing --workers 1 2 --limits 32 100 --latencies 200

For each limit a service, workers and a judge as processes of their own, on PostgreSQL and Redis; in each a batch that
the judge alone would hold up for some seconds. Candidates a second depend on what else the machine does; CPU a
candidate hardly does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.ending import end_on_sigterm
from benchmarks.load import Callers, evaluate
from tests.support.services import free_port, private_postgres, redis_on
from tests.support.site import Site, site

BOUND_SECONDS = 6.0
"""How long the judge's limit alone holds up a batch."""
MOST_ITEMS = 4000
EVALUATIONS = 200
EVALUATIONS_PER_SECOND = 20.0
VARIABLES: dict[str, Any] = {
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
    "SAITEN_LOG_LEVEL": "warning",
}


@dataclass(frozen=True)
class Point:
    """One batch: candidates a second while workers worked, and CPU of all workers together for each."""

    workers: int
    limit: int
    latency_ms: int
    items: int
    per_second: float
    share_of_limit: float
    worker_cpu_ms_per_candidate: float
    worker_rss_mb: float


def use_cpu(processes: list[psutil.Process]) -> float:
    """CPU seconds that they have used so far, children's included."""
    everyone = [one for process in processes for one in (process, *process.children(recursive=True))]
    return sum(times.user + times.system for times in (one.cpu_times() for one in everyone))


def run_batch(made: Site, items: int, name: str) -> float:
    """Seconds from the first chunk that a worker took to the batch's end."""
    batch_id = made.post(items, name=name)
    while (batch := made.batch(batch_id))["status"] != "completed":
        time.sleep(0.2)
    if batch["counts"]["scored"] != items:
        raise RuntimeError(f"{batch['counts']}\n{made.log()}")
    begun, ended = (datetime.fromisoformat(batch[moment]) for moment in ("started_at", "finished_at"))
    return (ended - begun).total_seconds()


def measure_point(made: Site, limit: int, latency_ms: int) -> Point:
    """A batch by the workers that there are."""
    bound, count = limit * 1000 / latency_ms, len(made.workers)
    items = int(min(MOST_ITEMS, max(100, bound * BOUND_SECONDS)))
    made.judge.turn(latency_ms=latency_ms)
    workers = [psutil.Process(process.pid) for process in made.workers]
    before = use_cpu(workers)
    rate = items / run_batch(made, items, f"sizing-{count}-{limit}-{latency_ms}")
    return Point(
        workers=count,
        limit=limit,
        latency_ms=latency_ms,
        items=items,
        per_second=round(rate, 1),
        share_of_limit=round(rate / bound, 2),
        worker_cpu_ms_per_candidate=round(1000 * (use_cpu(workers) - before) / items, 2),
        worker_rss_mb=round(max(process.memory_info().rss for process in workers) / 1e6, 1),
    )


async def measure_service(made: Site) -> dict[str, float]:
    """CPU of the service for a single evaluation over HTTP, and its memory."""
    process = psutil.Process(made.service.pid) if made.service else None
    if process is None:
        raise RuntimeError("the service does not run")
    async with Callers(str(made.client.base_url)) as callers:
        await callers.run({"evaluate": (evaluate, 1)}, EVALUATIONS_PER_SECOND, lambda: callers.sent < 20)
        before = use_cpu([process])
        callers.forget()
        until = EVALUATIONS
        await callers.run({"evaluate": (evaluate, 1)}, EVALUATIONS_PER_SECOND, lambda: callers.sent < until)
        if callers.faults:
            raise RuntimeError(str(dict(callers.faults)))
    return {
        "service_cpu_ms_per_evaluation": round(1000 * (use_cpu([process]) - before) / EVALUATIONS, 1),
        "service_rss_mb": round(process.memory_info().rss / 1e6, 1),
    }


def show(point: Point) -> None:
    print(
        f"  {point.workers:7} {point.limit:6} {point.latency_ms:10} {point.per_second:12.0f}"
        f" {100 * point.share_of_limit:10.0f}% {point.worker_cpu_ms_per_candidate:14.2f} {point.worker_rss_mb:8.0f}",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--limits", type=int, nargs="+", default=[32, 100, 300])
    parser.add_argument("--latencies", type=int, nargs="+", default=[200, 1000], help="ms")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    points: list[Point] = []
    service: dict[str, float] = {}
    print("sizing: batches by workers, judge calls in flight and milliseconds a call")
    print(f"  workers  limit  latency ms  candidates/s   of the limit  CPU ms/candidate  RSS MB    (load {load_now()})")
    for limit in options.limits:
        with (
            private_postgres() as database,
            redis_on(free_port()) as queue,
            tempfile.TemporaryDirectory(prefix="saiten-sizing-") as folder,
            site(
                Path(folder),
                judge={"latency_ms": options.latencies[0]},
                SAITEN_JUDGE_CONCURRENCY=str(limit),
                DATABASE_URL=database,
                REDIS_URL=queue,
                **VARIABLES,
            ) as made,
        ):
            for workers in options.workers:
                made.start_workers(workers - len(made.workers))
                run_batch(made, 80 * workers, f"warm-{workers}")
                for latency_ms in options.latencies:
                    points.append(measure_point(made, limit, latency_ms))
                    show(points[-1])
            service = service or asyncio.run(measure_service(made))
    print(
        f"  the service: {service['service_cpu_ms_per_evaluation']} CPU ms a single evaluation,"
        f" {service['service_rss_mb']:.0f} MB   (load {load_now()})"
    )
    if options.json:
        found = {"points": [asdict(point) for point in points], **service}
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def load_now() -> str:
    """The machine's load average of the last minute, for the reader of figures."""
    return f"{psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores"


if __name__ == "__main__":
    main()
