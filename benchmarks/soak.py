"""Hours of mixed load: what a service and its workers gain in memory, descriptors and time to answer.

    python -m benchmarks.soak --minutes 60              # at 80% of the capacity that it finds first
    python -m benchmarks.soak --minutes 60 --rate 20    # at so many requests a second, for a machine that others use

One service and two workers on PostgreSQL and Redis of their own, a judge that answers over HTTP after 200 ms. Every
5 s memory, descriptors and threads of each process are written down. Growth is a straight line through all that comes
after the warm-up; times to answer are of that part too. `--json FILE` keeps the figures, anew every minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil

from benchmarks.ending import end_on_sigterm
from benchmarks.load import Callers, evaluate, find_quantile, print_latencies, tabulate
from benchmarks.soak_mix import EVERYTHING
from benchmarks.soak_samples import Sample, describe_growth, print_growth, take_sample
from tests.support.command import saiten
from tests.support.services import free_port, private_postgres, redis_on
from tests.support.site import Site, site

LATENCY_MS = 200
WORKERS = 2
SAMPLE_SECONDS = 5.0
WARM_SHARE = 0.2
STEP_SECONDS = 10.0
LARGEST_RATE = 400
BOUND_SECONDS = 1.0
"""The 99th percentile of a fresh evaluation up to which a rate counts as sustained."""
VARIABLES = {
    "SAITEN_JUDGE_CONCURRENCY": "200",
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
    "SAITEN_DRAIN_SECONDS": "5",
    # Never reached: what counts requests has to count them all the same.
    "SAITEN_KEY_REQUESTS_PER_MINUTE": "1000000",
    "SAITEN_LOG_LEVEL": "warning",
}


class Observer:
    """Writes down every part of a site, every few seconds."""

    def __init__(self, made: Site, database: str) -> None:
        named = {"service": made.service, **{f"worker {number}": one for number, one in enumerate(made.workers, 1)}}
        self._made = made
        self._database = database.replace("postgresql+asyncpg://", "postgresql://")
        self._processes = {name: psutil.Process(process.pid) for name, process in named.items() if process}
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.lags: list[float] = []
        self.database_mb: list[float] = []
        self.load_average: list[float] = []

    async def run(self) -> None:
        """Until it is cancelled."""
        began, due = time.monotonic(), 0.0
        async with httpx.AsyncClient(base_url=str(self._made.client.base_url), trust_env=False) as client:
            while True:
                await self._ask_lag(client)
                if time.monotonic() - began >= due:
                    due += SAMPLE_SECONDS
                    await self._look(time.monotonic() - began)
                await asyncio.sleep(1)

    async def _ask_lag(self, client: httpx.AsyncClient) -> None:
        """A probe that does nothing waits for the event loop alone, and for its turn at a core."""
        asked = time.monotonic()
        await client.get("/livez")
        self.lags.append(time.monotonic() - asked)

    async def _look(self, at_seconds: float) -> None:
        for name, process in self._processes.items():
            self.samples[name].append(take_sample(process, at_seconds))
        connection = await asyncpg.connect(self._database)
        try:
            size = await connection.fetchval("SELECT pg_database_size(current_database())")
        finally:
            await connection.close()
        self.database_mb.append(size / 1e6)
        self.load_average.append(os.getloadavg()[0])

    def figures(self, warm_seconds: float) -> dict[str, Any]:
        lags = {f"p{share:g}": round(1000 * find_quantile(self.lags, share / 100), 1) for share in (50, 95, 99)}
        return {
            "processes": {name: describe_growth(samples, warm_seconds) for name, samples in self.samples.items()},
            "livez_ms": {**lags, "max": round(1000 * max(self.lags, default=0.0), 1)},
            "database_mb": [round(size, 1) for size in self.database_mb[:: max(1, len(self.database_mb) // 20)]],
            "load_average_of_the_machine": round(sum(self.load_average) / max(1, len(self.load_average)), 1),
        }


async def find_capacity(callers: Callers) -> float:
    """Fresh evaluations a second up to which the 99th percentile stays within the bound, in steps of a quarter."""
    sustained, rate = 0.0, 20.0
    while rate <= LARGEST_RATE:
        callers.forget()
        until = time.monotonic() + STEP_SECONDS
        began = time.monotonic()
        await callers.run({"evaluate": (evaluate, 1)}, rate, lambda until=until: time.monotonic() < until)  # type: ignore[misc]
        done = len(callers.seconds["evaluate"]) / (time.monotonic() - began)
        p99 = find_quantile(callers.seconds["evaluate"], 0.99)
        print(f"  {rate:6.0f} a second asked: {done:6.1f} done, p99 {1000 * p99:6.0f} ms", flush=True)
        if p99 > BOUND_SECONDS or callers.faults or done < 0.85 * rate:
            break
        sustained, rate = rate, rate * 1.25
    callers.forget()
    if not sustained:
        raise SystemExit("not even the first rate was sustained: the machine does something else; name a --rate")
    return sustained


async def soak(made: Site, database: str, key: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures after so many minutes of mixed load."""
    async with Callers(str(made.client.base_url), key=key, count=10) as callers:
        found = await load(made, database, callers, options)
    return {**found, "batches": count_batches(made, callers.batches, key)}


async def load(made: Site, database: str, callers: Callers, options: argparse.Namespace) -> dict[str, Any]:
    """Finds the capacity, where no rate is given, and sends so many requests for so long."""
    capacity = None
    if options.rate is None:
        capacity = await find_capacity(callers)
        print(f"  capacity {capacity:.0f} fresh evaluations a second", flush=True)
    rate = options.rate or 0.8 * (capacity or 0.0)
    seconds = 60.0 * options.minutes
    began, observer = time.monotonic(), Observer(made, database)
    warm_seconds = min(600.0, max(60.0, WARM_SHARE * seconds))

    def figures() -> dict[str, Any]:
        return {
            "minutes": round((time.monotonic() - began) / 60, 1),
            "capacity_per_second": capacity,
            "rate_per_second": round(rate, 1),
            "warm_up_seconds": warm_seconds,
            "requests": callers.sent,
            "not_sent_as_too_many_were_under_way": callers.behind,
            "errors": sum(callers.faults.values()),
            "error_kinds": dict(callers.faults),
            "latencies": tabulate(callers),
            **observer.figures(warm_seconds),
        }

    async def keep() -> None:
        while True:
            await asyncio.sleep(60)
            write(options.json, {**figures(), "finished": False})

    async def forget_warm_up() -> None:
        await asyncio.sleep(warm_seconds)
        callers.seconds.clear()

    watching = [asyncio.create_task(work) for work in (observer.run(), keep(), forget_warm_up())]
    await callers.run(EVERYTHING, rate, lambda: time.monotonic() - began < seconds)
    for task in watching:
        task.cancel()
    ended = await asyncio.gather(*watching, return_exceptions=True)
    found = {**figures(), "finished": True}
    found["observer_errors"] = [repr(one) for one in ended if one and not isinstance(one, asyncio.CancelledError)]
    return found


def count_batches(made: Site, batches: list[str], key: str) -> dict[str, int]:
    """How many were posted, and are not completed half a minute after the load has ended."""
    made.client.headers["Authorization"] = f"Bearer {key}"
    deadline, open_batches = time.monotonic() + 30, list(batches)
    while open_batches and time.monotonic() < deadline:
        open_batches = [one for one in open_batches if made.batch(one)["status"] != "completed"]
    return {"posted": len(batches), "not_completed": len(open_batches)}


def write(path: str | None, found: dict[str, Any]) -> None:
    if path is not None:
        Path(path).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def show(found: dict[str, Any]) -> None:
    print(f"  {found['requests']:,} requests in {found['minutes']} min, {found['rate_per_second']} a second")
    print_latencies(found["latencies"])
    print_growth(found["processes"])
    lag, batches = found["livez_ms"], found["batches"]
    print(f"  /livez: p50 {lag['p50']} ms, p99 {lag['p99']} ms, at most {lag['max']} ms")
    print(f"  database: {found['database_mb'][0]} MB to {found['database_mb'][-1]} MB")
    print(f"  batches: {batches['posted']} posted, {batches['not_completed']} not completed")
    print(f"  errors: {found['errors']} {found['error_kinds']}")
    print(f"  load average of the machine meanwhile: {found['load_average_of_the_machine']}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, help="requests a second in place of 80%% of the capacity")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    with (
        private_postgres() as database,
        redis_on(free_port()) as queue,
        tempfile.TemporaryDirectory(prefix="saiten-soak-") as name,
    ):
        folder = Path(name)
        urls: dict[str, Any] = {"DATABASE_URL": database, "REDIS_URL": queue}
        print(f"soak: one service, {WORKERS} workers, judge {LATENCY_MS} ms, PostgreSQL and Redis", flush=True)
        key = saiten("keys", "create", folder=folder, **urls).stdout.split()[-1]
        with site(folder, workers=WORKERS, judge={"latency_ms": LATENCY_MS}, **VARIABLES, **urls) as made:
            found = asyncio.run(soak(made, database, key, options))
            write(options.json, found)
            show(found)
            print(made.log()[-2000:])


if __name__ == "__main__":
    main()
