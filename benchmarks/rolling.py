"""Rolling restarts under load: nobody may notice.

    python -m benchmarks.rolling                                    # 10 restarts, 10,000 requests, 50 a second
    python -m benchmarks.rolling --restarts 2 --requests 500 --json FILE

Two `saiten serve` and two `saiten worker`, on PostgreSQL and Redis of their own, with a judge that answers over HTTP
after 50 to 200 ms. Callers keep their connections and reach the service through a stand-in for a Kubernetes Service
(`rolling_balancer.py`), which repeats nothing. In each restart a replica and a worker get SIGTERM, and their successors
start once they have ended; the next restart begins when these are ready. A request fails by any transport error and by
any status that it should not have.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from benchmarks.ending import end_on_sigterm
from benchmarks.load import USUAL, Callers, print_latencies, tabulate
from benchmarks.rolling_balancer import Balancer
from saiten_server.platform.tasks import cancel_for_good
from tests.support.command import ROOT, environment
from tests.support.services import free_port, private_postgres, redis_on
from tests.support.site import JudgeProcess, kill

STOP_SECONDS = 25.0
START_SECONDS = 60.0
BATCH_SECONDS = 120.0
LATENCIES_MS = (50, 200)
VARIABLES = {
    "OPENAI_API_KEY": "k",
    "SAITEN_JUDGE_CONCURRENCY": "64",
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_DRAIN_SECONDS": "5",
    "SAITEN_LOG_LEVEL": "warning",
}


@dataclass(frozen=True)
class Restart:
    """One restart: how long the old process took to end, with which code, and how long the new one to be ready."""

    name: str
    exit_seconds: float
    exit_code: int
    ready_seconds: float


def begin(*arguments: str, folder: Path, variables: dict[str, str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts `saiten …`, which writes to `log`."""
    command = [sys.executable, "-m", "saiten_server", *arguments]
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment(folder, **variables), cwd=ROOT)


@dataclass
class Fleet:
    """Replicas and workers as processes, each at a port that its successor takes over."""

    folder: Path
    variables: dict[str, str]
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """A name that begins with `worker` is one; any other is a replica of the service."""
        port = self.ports.setdefault(name, free_port())
        role = ["worker", "--metrics-port"] if name.startswith("worker") else ["serve", "--port"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = begin(*role, str(port), folder=self.folder, variables=self.variables, log=log)

    async def wait_until_ready(self, name: str) -> float:
        """Seconds until `/readyz` is 200; raises TimeoutError with the log."""
        began = time.monotonic()
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            while time.monotonic() - began < START_SECONDS:
                with suppress(httpx.HTTPError):
                    if (await client.get(f"http://127.0.0.1:{self.ports[name]}/readyz")).status_code == 200:
                        return time.monotonic() - began
                await asyncio.sleep(0.1)
        raise TimeoutError(f"{name} is not ready\n{self.log()}")

    async def restart(self, name: str) -> Restart:
        """SIGTERM, the end, a successor, its readiness."""
        process, began = self.processes[name], time.monotonic()
        process.terminate()
        try:
            code = await asyncio.to_thread(process.wait, STOP_SECONDS + 10)
        except subprocess.TimeoutExpired:
            kill(process)
            code = process.wait()
        ended = time.monotonic()
        self.start(name)
        return Restart(name, round(ended - began, 2), code, round(await self.wait_until_ready(name), 2))

    def kill(self) -> None:
        for process in self.processes.values():
            kill(process)

    def log(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(encoding='utf-8')[-1500:]}" for path in sorted(self.folder.glob("*.log"))
        )


async def vary_latency(judge: JudgeProcess, callers: Callers) -> None:
    """Until cancelled: what one judge call takes is drawn anew ten times a second."""
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            knobs = {"latency_ms": callers.chance.uniform(*LATENCIES_MS)}
            await client.post(f"http://127.0.0.1:{judge.port}/knobs", json=knobs)
            await asyncio.sleep(0.1)


async def roll(fleet: Fleet, restarts: int, done: asyncio.Event) -> list[Restart]:
    """Replicas in turn, a worker along with each."""
    made: list[Restart] = []
    try:
        for number in range(restarts):
            await asyncio.sleep(1)
            pair = (f"replica {number % 2 + 1}", f"worker {number % 2 + 1}")
            made += await asyncio.gather(*map(fleet.restart, pair))
    finally:
        done.set()
    return made


async def count_incomplete(callers: Callers) -> dict[str, int]:
    """Batches that are not completed, or whose results are not all there and scored, once time is up."""
    deadline, left, lacking = time.monotonic() + BATCH_SECONDS, list(callers.batches), 0
    client = callers.clients[0]
    while left and time.monotonic() < deadline:
        batch = (await client.get(f"/v1/batches/{left[0]}")).raise_for_status().json()
        if batch["status"] == "completed":
            counts = batch["counts"]
            lacking += counts["scored"] != counts["total"]
            left.pop(0)
        else:
            await asyncio.sleep(0.2)
    return {"posted": len(callers.batches), "not_completed": len(left), "with_unscored_items": lacking}


async def measure(fleet: Fleet, judge: JudgeProcess, restarts: int, requests: int, rate: float) -> dict[str, Any]:
    """The figures of so many restarts while at least so many requests are sent."""
    names = ("replica 1", "replica 2", "worker 1", "worker 2")
    for name in names:
        fleet.start(name)
    await asyncio.gather(*map(fleet.wait_until_ready, names))
    replicas = {name: port for name, port in fleet.ports.items() if name.startswith("replica")}
    done = asyncio.Event()
    async with Balancer(replicas) as balancer, Callers(balancer.base_url) as callers:
        varying = asyncio.create_task(vary_latency(judge, callers))
        rolling = asyncio.create_task(roll(fleet, restarts, done))
        began = time.monotonic()
        try:
            await callers.run(USUAL, rate, lambda: callers.sent + callers.behind < requests or not done.is_set())
            seconds, made = time.monotonic() - began, await rolling
            batches = await count_incomplete(callers)
        finally:
            await cancel_for_good([varying, rolling])
    return {
        "requests": callers.sent,
        "failed": sum(callers.faults.values()),
        "failures": dict(callers.faults),
        "not_sent": callers.behind,
        "seconds": round(seconds, 1),
        "rate_per_second": rate,
        "connections": balancer.connections,
        "connections_refused": balancer.refused,
        "restarts": [asdict(restart) for restart in made],
        "batches": batches,
        "latencies": tabulate(callers),
    }


def find_misses(found: dict[str, Any]) -> list[str]:
    """What did not hold."""
    exits = [
        restart for restart in found["restarts"] if restart["exit_seconds"] >= STOP_SECONDS or restart["exit_code"]
    ]
    misses = {
        "failed requests": found["failed"],
        "requests that were not sent": found["not_sent"],
        "connections refused": found["connections_refused"],
        "exits late or with a code": len(exits),
        "batches not completed": found["batches"]["not_completed"],
        "batches with unscored items": found["batches"]["with_unscored_items"],
    }
    return [f"{what}: {count}" for what, count in misses.items() if count]


def run(restarts: int, requests: int, rate: float, database: str, queue: str) -> dict[str, Any]:
    """The figures, on this database and Redis; the log goes to stderr where something did not hold."""
    judge = JudgeProcess(latency_ms=LATENCIES_MS[0])
    judge.start()
    urls = {"OPENAI_BASE_URL": judge.base_url, "DATABASE_URL": database, "REDIS_URL": queue}
    with tempfile.TemporaryDirectory(prefix="saiten-rolling-") as folder:
        fleet = Fleet(Path(folder), {**VARIABLES, **urls})
        try:
            found = asyncio.run(measure(fleet, judge, restarts, requests, rate))
            if find_misses(found):
                print(fleet.log(), file=sys.stderr)
            return found
        finally:
            fleet.kill()
            judge.stop()


def show(found: dict[str, Any]) -> None:
    print(f"  {'':12} {'exit s':>8} {'code':>5} {'ready s':>8}")
    for one in found["restarts"]:
        print(f"  {one['name']:12} {one['exit_seconds']:8.1f} {one['exit_code']:5} {one['ready_seconds']:8.1f}")
    print_latencies(found["latencies"])
    batches, longest = found["batches"], max((one["exit_seconds"] for one in found["restarts"]), default=0.0)
    print(
        f"  failed requests: {found['failed']} of {found['requests']:,} in {found['seconds']:.0f} s {found['failures']}"
    )
    print(
        f"  connections: {found['connections']}, refused {found['connections_refused']}; longest exit {longest:.1f} s"
    )
    print(f"  batches: {batches['posted']} posted, {batches['not_completed']} not completed")
    print(f"  {'; '.join(('MISSED', *find_misses(found))) if find_misses(found) else 'held'}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    print(f"rolling: {options.restarts} restarts, {options.requests:,} requests, {options.rate:g} a second", flush=True)
    with private_postgres() as database, redis_on(free_port()) as queue:
        found = run(options.restarts, options.requests, options.rate, database, queue)
    show(found)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(find_misses(found)))


if __name__ == "__main__":
    main()
