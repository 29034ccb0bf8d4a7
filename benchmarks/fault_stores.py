"""Rows of the fault table: Redis, PostgreSQL and the disk go, hang, or are full, and a batch is erased."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import redis

from benchmarks.fault_stage import FAULT_SECONDS, KILLS, SHORT_SECONDS, Stage, check_no_restart, finish
from tests.support.site import make_item, wait_until


def redis_is_wiped(stage: Stage) -> None:
    batch_id = stage.begin()
    for _ in range(KILLS):
        stage.redis.wipe()
        time.sleep(1)
    stage.recovered(batch_id)
    finish(stage, batch_id)


def redis_is_killed(stage: Stage) -> None:
    batch_id = stage.begin()
    stage.redis.kill()
    time.sleep(SHORT_SECONDS)
    stage.expect(stage.ready() == 200, "ready meanwhile")
    meanwhile = stage.made.post(100, name="meanwhile")
    stage.redis.start()
    stage.recovered(batch_id)
    finish(stage, batch_id)
    stage.made.wait_for(meanwhile, seconds=60)
    stage.expect(len(stage.made.results(meanwhile)) == 100, "a batch taken meanwhile is whole")


def postgres_is_stopped(stage: Stage) -> None:
    batch_id = stage.begin()
    stage.postgres.stop()
    time.sleep(FAULT_SECONDS)
    check_probes(stage)
    stage.postgres.start()
    stage.recovered(batch_id)
    finish(stage, batch_id)
    check_no_restart(stage)


def postgres_hangs(stage: Stage) -> None:
    batch_id = stage.begin()
    stage.postgres.freeze()
    time.sleep(FAULT_SECONDS)
    check_probes(stage)
    stage.postgres.thaw()
    stage.recovered(batch_id)
    finish(stage, batch_id)
    check_no_restart(stage)


def check_probes(stage: Stage) -> None:
    stage.expect(stage.made.client.get("/livez", timeout=5).status_code == 200, "alive meanwhile")
    ready = stage.ready()
    stage.expect(ready == 503, f"readyz {ready}")


def disk_is_full(stage: Stage) -> None:
    """On a small file system of its own, filled up by another file."""
    batch_id = stage.begin()
    ballast = stage.made.folder / "disk" / "ballast"
    fill(ballast)
    time.sleep(SHORT_SECONDS)
    body = {"relevance": None, "items": [make_item("full", number) for number in range(500)]}
    status = stage.made.client.post("/v1/batches", json=body).status_code
    stage.expect(status == 507, f"POST {status}")
    stage.expect(stage.made.client.get("/livez", timeout=5).status_code == 200, "alive meanwhile")
    ballast.unlink()
    stage.recovered(batch_id)
    finish(stage, batch_id)
    with sqlite3.connect(stage.made.folder / "disk" / "saiten.db") as database:
        found = database.execute("PRAGMA integrity_check").fetchone()[0]
    database.close()
    stage.expect(found == "ok", f"integrity_check {found}")


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def batch_is_erased(stage: Stage) -> None:
    """On SQLite, where every byte that is kept can be read."""
    marker = "海まで行ってきました"
    batch_id = stage.begin(judge={"explain": True})
    started = time.monotonic()
    stage.made.client.delete(f"/v1/batches/{batch_id}").raise_for_status()

    def traces() -> int:
        """Files with its texts, keys in Redis that stand for it or its replies, and logs."""
        files = sum(marker.encode() in path.read_bytes() for path in stage.made.folder.glob("saiten.db*"))
        with redis.Redis(port=stage.redis.port) as client:
            keys = sum(key.startswith(b"saiten:call:") or batch_id.encode() in key for key in client.keys("*"))
        return int(files + keys + (marker in stage.made.log()))

    wait_until(lambda: stage.made.judge.stats()["in_flight"] == 0, 60, "nothing in flight")
    while traces() and time.monotonic() - started < 60:
        time.sleep(0.2)
    seconds, left = time.monotonic() - started, traces()
    time.sleep(5)
    stage.expect(left + traces() == 0, f"traces {left} after {seconds:.1f} s, {traces()} later")
    status = stage.made.client.get(f"/v1/batches/{batch_id}").status_code
    stage.expect(status == 404, f"GET {status}")
