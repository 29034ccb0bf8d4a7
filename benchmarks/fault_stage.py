"""What the rows of the fault table share: servers that can be broken, one run of a batch, and what is counted."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.support.services import PostgresServer, free_port, wait_for_port
from tests.support.site import Site, make_item, site

ITEMS = 1000
WORKERS = 2
IN_FLIGHT = 16
LATENCY_MS = 200
LONGEST_SECONDS = 400.0
FAULT_SECONDS = 60.0
SHORT_SECONDS = 25.0
"""Where a row does not need more."""
KILLS = 5
RECOVERED_SECONDS = 30.0
VARIABLES = {
    "SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT),
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
    "SAITEN_DRAIN_SECONDS": "5",
}


class RedisServer:
    """A Redis that keeps nothing on disk, which a row may wipe, kill and start again."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="saiten-redis-")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        flags = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._folder]
        self._process = subprocess.Popen(["redis-server", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def wipe(self) -> None:
        with redis.Redis(port=self.port) as client:
            client.flushall()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class Stage:
    """A running site with its servers. `expect` and `note` add to the row's figures."""

    made: Site
    postgres: PostgresServer
    redis: RedisServer
    recovery_seconds: float | None = None
    bound: int = IN_FLIGHT
    notes: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def note(self, words: str) -> None:
        self.notes.append(words)

    def expect(self, holds: bool, words: str) -> None:
        """Notes what was measured; where it does not hold, the row has missed its figure."""
        self.note(words)
        if not holds:
            self.missed.append(words)

    def begin(self, least: int = 200, items: int = ITEMS, **more: Any) -> str:
        """Posts the batch and waits until so many results are there."""
        batch_id = self.made.post(items, **more)
        self.made.wait_for_results(batch_id, least)
        return batch_id

    def ready(self) -> int:
        """What readiness says; 0 where it says nothing within 10 s."""
        try:
            return self.made.client.get("/readyz", timeout=10).status_code
        except httpx.HTTPError:
            return 0

    def recovered(self, batch_id: str) -> None:
        """Call it at the fault's end: waits for the next committed result."""
        started, first = time.monotonic(), None
        while time.monotonic() - started < LONGEST_SECONDS:
            count = self.count(batch_id)
            if count is not None:
                first = count if first is None else first
                if count > first or count == ITEMS:
                    break
            time.sleep(0.02)
        self.recovery_seconds = time.monotonic() - started

    def count(self, batch_id: str) -> int | None:
        """Committed results; None while nobody says."""
        try:
            counts = self.made.client.get(f"/v1/batches/{batch_id}", timeout=5).raise_for_status().json()["counts"]
        except httpx.HTTPError:
            return None
        return int(counts["total"] - counts["queued"])

    def restart_dead_workers(self) -> None:
        """What a process supervisor does."""
        for process in [one for one in self.made.workers if one.poll() is not None]:
            self.made.workers.remove(process)
            self.made.start_workers(1)


@contextmanager
def open_stage(
    folder: Path, *, workers: int = WORKERS, latency_ms: int = LATENCY_MS, embedded: bool = False, **variables: str
) -> Iterator[Stage]:
    """A site on PostgreSQL and Redis of its own; embedded: on SQLite, without either."""
    postgres, queue = PostgresServer(), RedisServer()
    try:
        if not embedded:
            postgres.start()
            queue.start()
            variables = {"DATABASE_URL": postgres.url, "REDIS_URL": f"redis://127.0.0.1:{queue.port}/0", **variables}
        judge = {"latency_ms": latency_ms}
        with site(folder, workers=0 if embedded else workers, judge=judge, **{**VARIABLES, **variables}) as made:
            yield Stage(made, postgres, queue)
    finally:
        queue.remove()
        postgres.remove()


def finish(stage: Stage, batch_id: str, *, failed: int = 0, items: int = ITEMS) -> None:
    """Waits for the end, then counts what was lost, stored twice and judged twice."""
    batch = stage.made.wait_for(batch_id, seconds=LONGEST_SECONDS)
    results = stage.made.results(batch_id)
    positions = [result["position"] for result in results]
    lost, twice = items - len(set(positions)), len(positions) - len(set(positions))
    again = stage.made.judge.stats()["paid_again"]
    stage.expect(lost == 0, f"lost {lost}")
    stage.expect(twice == 0, f"stored twice {twice}")
    stage.expect(again <= stage.bound, f"judged twice {again} (≤ {stage.bound})")
    scored = batch["counts"]["scored"]
    if scored != items - failed or batch["counts"]["queued"]:
        stage.expect(False, f"{batch['counts']}")
    if stage.recovery_seconds is not None:
        stage.expect(stage.recovery_seconds <= RECOVERED_SECONDS, f"recovered {stage.recovery_seconds:.1f} s")


def check_no_restart(stage: Stage) -> None:
    ended = sum(worker.poll() is not None for worker in stage.made.workers)
    stage.expect(ended == 0, f"restarts {ended}")


def post_once(made: Site, items: int, name: str, key: str) -> str | None:
    """Posts a batch under an Idempotency-Key; its id, where the answer came and was 202."""
    body = {"name": name, "relevance": None, "items": [make_item(name, number) for number in range(items)]}
    try:
        response = made.client.post("/v1/batches", json=body, headers={"Idempotency-Key": key}, timeout=20)
    except httpx.HTTPError:
        return None
    return str(response.json()["id"]) if response.status_code == 202 else None


Row = Callable[[Stage], None]
"""Breaks something while a batch runs, and tells the stage what came of it."""
