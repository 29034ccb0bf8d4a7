"""Rolling restarts under load, in small: benchmarks/rolling.py does ten of them under 50 requests a second."""

import shutil
from pathlib import Path
from typing import IO

import pytest

from benchmarks import rolling
from tests.support.command import environment
from tests.support.nursery import Forked
from tests.support.services import absent, free_port, redis_on
from tests.support.waiting import LIMIT_SECONDS


def fork(*arguments: str, folder: Path, variables: dict[str, str], log: IO[bytes]) -> Forked:
    """How long a start takes is the benchmark's to measure: here all of it is imported already."""
    return Forked(arguments, folder=folder, variables=environment(folder, **variables), stdout=log, stderr=log)


def test_two_restarts_fail_nobody(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    # Twice what the balancer needs to notice.
    monkeypatch.setitem(rolling.VARIABLES, "SAITEN_DRAIN_SECONDS", "3")
    for limit in ("START_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(rolling, limit, LIMIT_SECONDS)
    monkeypatch.setattr(rolling, "begin", fork)
    with redis_on(free_port()) as queue:
        found = rolling.run(restarts=2, requests=90, rate=3.0, database=postgres_url, queue=queue)
    assert rolling.find_misses(found) == []
    assert found["requests"] >= 90
    assert [restart["name"] for restart in found["restarts"]] == ["replica 1", "worker 1", "replica 2", "worker 2"]
    # Fewer connections than requests: some were kept, and lived through the end of their replica.
    assert found["connections"] < found["requests"]
    assert found["batches"]["posted"] > 0


def test_what_does_not_hold_is_named() -> None:
    late = {"name": "replica 1", "exit_seconds": 26.0, "exit_code": -9, "ready_seconds": 1.0}
    found = {
        "failed": 2,
        "not_sent": 0,
        "connections_refused": 1,
        "restarts": [late],
        "batches": {"posted": 3, "not_completed": 1, "with_unscored_items": 0},
    }
    assert rolling.find_misses(found) == [
        "failed requests: 2",
        "connections refused: 1",
        "exits late or with a code: 1",
        "batches not completed: 1",
    ]
