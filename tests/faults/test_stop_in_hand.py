"""SIGTERM with something in hand: streams that never end by themselves, downloads, a worker's judge calls."""

import json
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.services import absent, free_port, redis_on
from tests.support.site import Site, make_item, site, wait_until
from tests.support.waiting import LIMIT_SECONDS

ITEMS = 100
LONG = {f"note-{number}": "海" * 250 for number in range(16)}
"""12 kB in each result."""


@pytest.fixture
def workers(tmp_path: Path, postgres_url: str) -> Iterator[Site]:
    """Service and one worker; the judge takes a second."""
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    variables = {"SAITEN_JUDGE_CONCURRENCY": "16", "SAITEN_LEASE_SECONDS": "15", "DATABASE_URL": postgres_url}
    with (
        redis_on(free_port()) as queue,
        site(tmp_path, workers=1, judge={"latency_ms": 1000}, REDIS_URL=queue, **variables) as made,
    ):
        yield made


def stop(made: Site, part: str) -> int:
    """The exit code of the service or the first worker after SIGTERM; raises where it takes too long."""
    process = made.service if part == "service" else made.workers[0]
    if process is None:
        raise RuntimeError("it does not run")
    process.terminate()
    return process.wait(timeout=LIMIT_SECONDS)


def test_event_streams_and_idle_connections_end_with_the_service(workers: Site) -> None:
    batch_id = workers.post(ITEMS)
    with (
        httpx.Client(base_url=workers.client.base_url, trust_env=False, verify=False) as idle,
        workers.client.stream("GET", f"/v1/batches/{batch_id}/events") as stream,
    ):
        idle.get("/livez")
        lines = stream.iter_lines()
        assert next(lines).startswith("event: progress")
        assert stop(workers, "service") == 0, workers.log()
        # A clean end of a chunked answer: a cut would be raised as an error.
        assert "event: completed" not in list(lines)


def test_a_download_of_a_slow_reader_is_whole(tmp_path: Path) -> None:
    """More than the system's buffers hold is under way when the signal comes: the reader's is small, and the other
    grows to some 4 MB."""
    items = [{**make_item("long", number), "metadata": LONG} for number in range(600)]
    small = httpx.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)])
    with site(tmp_path, SAITEN_JUDGE="lexical") as made:
        batch_id = made.post_items(items)
        made.wait_for(batch_id)
        with (
            httpx.Client(base_url=made.client.base_url, transport=small, timeout=LIMIT_SECONDS) as reader,
            reader.stream("GET", f"/v1/batches/{batch_id}/results") as answer,
        ):
            pieces = answer.iter_bytes()
            taken = next(pieces)
            assert made.service is not None
            made.service.terminate()
            time.sleep(3)
            assert made.service.poll() is None, "it waits for the reader"
            taken += b"".join(pieces)
        assert len([json.loads(line) for line in taken.splitlines()]) == len(items)
        assert made.service.wait(timeout=LIMIT_SECONDS) == 0


def test_a_second_signal_ends_the_drain_and_not_the_request(workers: Site) -> None:
    """The first lets the listener stay for a second; the second closes it, and the call in flight is answered."""
    assert workers.service is not None
    body = make_item("flying", 1)
    del body["id"]
    payload = json.dumps({**body, "relevance": None}).encode()
    head = f"POST /v1/evaluations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", workers.port), timeout=LIMIT_SECONDS) as connection:
        connection.sendall(head.encode() + payload)
        wait_until(lambda: workers.judge.stats()["in_flight"] == 1, LIMIT_SECONDS, "the judge is asked", workers.log)
        workers.service.send_signal(signal.SIGTERM)
        workers.service.send_signal(signal.SIGTERM)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer.lower()
    assert workers.service.wait(timeout=LIMIT_SECONDS) == 0, workers.log()


def test_a_worker_with_calls_in_flight_ends_and_loses_nothing(workers: Site) -> None:
    """A second signal changes nothing: what is in hand is still finished and handed over."""
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, 20)
    workers.workers[0].terminate()
    time.sleep(0.2)
    assert stop(workers, "worker") == 0, workers.log()
    before = workers.judge.stats()["ok"]
    assert workers.finished(batch_id) == before, "what was paid for is stored"
    workers.judge.turn(latency_ms=0)
    workers.start_workers(1)
    workers.wait_for(batch_id)
    assert [result["position"] for result in workers.results(batch_id)] == list(range(ITEMS))
    assert workers.judge.stats()["paid_again"] == 0
