"""The fault table: each row on real PostgreSQL, real Redis and real processes. Slow parts are the faults themselves.

What may be lost is nothing, what may be stored twice is nothing, and what may be judged twice is bounded by the calls
in flight. `benchmarks/faults.py` makes the same rows at full size and prints how long recovery took.
"""

import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.support.conversations import make_turns
from tests.support.services import PostgresServer, free_port, redis_on
from tests.support.site import Site, kill, make_item, site, wait_until
from tests.support.waiting import LIMIT_SECONDS

IN_FLIGHT = 16
ITEMS = 80
TALKS = 20
PLAIN = {"SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT)}
DYING = {"SAITEN_LEASE_SECONDS": "5"}
"""For what waits until leases of the dead run out. No figure of these tests turns on a lease that a slow machine loses."""
COUNTED = {"SAITEN_LEASE_SECONDS": "15"}
"""The same where deaths are counted: who loses a lease while alive may die over a candidate that is tried again already."""
JUDGE = {"latency_ms": 400}
"""Slow enough that each fault comes amid the batch: waiting costs no CPU, and items do."""


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, redis_port: int) -> Iterator[Site]:
    """Service and two workers on PostgreSQL and Redis; a parameter is further settings."""
    servers = {"DATABASE_URL": postgres_url, "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0"}
    variables = {**PLAIN, **servers, **getattr(request, "param", {})}
    with site(tmp_path, workers=2, judge=JUDGE, **variables) as made:
        yield made


@pytest.fixture
def embedded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The service alone, on embedded defaults; a parameter is further settings."""
    with site(tmp_path, 0, JUDGE, **PLAIN, **getattr(request, "param", {})) as made:
        yield made


def check_all_scored(made: Site, batch_id: str, items: int = ITEMS) -> list[dict[str, Any]]:
    """Lost 0, stored twice 0, in order, one signature."""
    results = made.results(batch_id)
    assert [result["position"] for result in results] == list(range(items)), made.log()
    assert [result["item"] for result in results] == [f"item-{number}" for number in range(items)]
    assert {result["status"] for result in results} == {"scored"}
    batch = made.batch(batch_id)
    assert batch["counts"] == {"total": items, "queued": 0, "scored": items, "partial": 0, "failed": 0, "expired": 0}
    assert batch["signature"] == results[0]["signature"]
    return results


@pytest.mark.parametrize("fault", ["down", "hang"])
def test_a_judge_that_fails_or_hangs_loses_nothing(workers: Site, fault: str) -> None:
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, 30)
    workers.judge.turn(mode=fault)
    time.sleep(4)
    before = workers.judge.stats()
    assert workers.client.get("/readyz").status_code == 200
    workers.judge.turn(mode="ok")
    recovered = wait_until(
        lambda: workers.judge.stats()["ok"] > before["ok"], LIMIT_SECONDS, "judged again", workers.log
    )
    print(f"\njudge {fault}: at work again after {recovered:.1f} s")
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id)
    assert workers.judge.stats()["paid_again"] <= IN_FLIGHT


def test_a_judge_that_refuses_connections_loses_nothing(embedded: Site) -> None:
    batch_id = embedded.post(ITEMS)
    embedded.wait_for_results(batch_id, 30)
    embedded.judge.stop()
    time.sleep(3)
    embedded.judge.start()
    embedded.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(embedded, batch_id)


def test_nobody_calls_before_retry_after(workers: Site) -> None:
    workers.judge.turn(rpm=1200, latency_ms=200)
    batch_id = workers.post(2 * ITEMS)
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id, 2 * ITEMS)
    stats = workers.judge.stats()
    assert stats["early"] == 0
    assert stats["requests"] <= 1.2 * 2 * ITEMS


@pytest.mark.parametrize(("mode", "reason"), [("quota", "judge-quota-exhausted"), ("locked", "judge-unauthorized")])
def test_a_spent_account_pauses_the_batch_until_it_is_resumed(workers: Site, mode: str, reason: str) -> None:
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, 30)
    workers.judge.turn(mode=mode)
    paused = workers.wait_for(batch_id, "paused", seconds=LIMIT_SECONDS)
    assert paused["pause_reason"] == reason
    time.sleep(2)
    assert workers.judge.stats()["refused"] <= IN_FLIGHT + 1
    workers.judge.turn(mode="ok")
    workers.client.post(f"/v1/batches/{batch_id}/resume").raise_for_status()
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id)


def test_malformed_replies_are_asked_again_twice_and_never_stored(workers: Site) -> None:
    workers.judge.turn(malformed=0.5)
    batch_id = workers.post(ITEMS)
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    results = workers.results(batch_id)
    assert len(results) == ITEMS
    for result in results:
        for aspect in result["aspects"].values():
            if result["status"] == "scored":
                assert aspect["scale"][0] <= aspect["rating"] <= aspect["scale"][1]
            else:
                assert (aspect["rating"], aspect["unrated"]["reason"]) == (None, "unparseable")
    assert {result["status"] for result in results} == {"scored", "failed"}
    stats = workers.judge.stats()
    assert ITEMS < stats["requests"] <= 3 * ITEMS


def test_a_wiped_redis_loses_nothing(workers: Site, redis_port: int) -> None:
    batch_id = workers.post(ITEMS)
    with redis.Redis(port=redis_port) as client:
        for _ in range(3):
            workers.wait_for_results(batch_id, workers.finished(batch_id) + 10)
            client.flushall()
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id)


def test_a_redis_that_goes_and_comes_back_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    port = free_port()
    variables = {**PLAIN, "DATABASE_URL": postgres_url, "REDIS_URL": f"redis://127.0.0.1:{port}/0"}
    with redis_on(port) as _:
        context = site(tmp_path, workers=2, judge=JUDGE, **variables)
        made = context.__enter__()
        batch_id = made.post(ITEMS)
        made.wait_for_results(batch_id, 30)
    try:
        # What is leased goes on without Redis; a batch taken meanwhile waits for it, and is not refused.
        second = made.post(20, name="meanwhile")
        time.sleep(3)
        assert made.client.get("/readyz").status_code == 200
        with redis_on(port):
            made.wait_for(batch_id, seconds=LIMIT_SECONDS)
            made.wait_for(second, seconds=LIMIT_SECONDS)
            check_all_scored(made, batch_id)
            check_all_scored(made, second, 20)
    finally:
        context.__exit__(None, None, None)


def test_a_database_that_goes_and_comes_back_loses_nothing(tmp_path: Path, redis_port: int) -> None:
    server = PostgresServer()
    server.start()
    variables = {**PLAIN, "DATABASE_URL": server.url, "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0"}
    try:
        with site(tmp_path, workers=2, judge=JUDGE, **variables) as made:
            batch_id = made.post(ITEMS)
            made.wait_for_results(batch_id, 30)
            server.stop()
            time.sleep(3)
            assert made.client.get("/livez").status_code == 200
            assert made.client.get("/readyz").status_code == 503
            server.start()
            seconds = wait_until(
                lambda: made.client.get("/readyz").status_code == 200 and made.finished(batch_id) > 30,
                LIMIT_SECONDS,
                "recovered",
            )
            print(f"\ndatabase gone: at work again after {seconds:.1f} s")
            made.wait_for(batch_id, seconds=LIMIT_SECONDS)
            check_all_scored(made, batch_id)
            assert [worker.poll() for worker in made.workers] == [None, None], made.log()
    finally:
        server.remove()


def test_a_database_that_hangs_loses_nothing_and_is_told_from_one_that_answers(tmp_path: Path, redis_port: int) -> None:
    server = PostgresServer()
    server.start()
    variables = {**PLAIN, **DYING, "DATABASE_URL": server.url, "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0"}
    try:
        with site(tmp_path, workers=2, judge=JUDGE, **variables) as made:
            batch_id = made.post(ITEMS)
            made.wait_for_results(batch_id, 30)
            server.freeze()
            assert made.client.get("/livez").status_code == 200
            ready = made.client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "store-unavailable")
            stopped = made.workers.pop(0)
            stopped.terminate()
            # It cannot hand back what it holds, and leaves all the same.
            assert stopped.wait(timeout=LIMIT_SECONDS) == 0, made.log()
            server.thaw()
            made.wait_for(batch_id, seconds=LIMIT_SECONDS)
            check_all_scored(made, batch_id)
            assert made.workers[0].poll() is None, made.log()
    finally:
        server.remove()


@pytest.mark.parametrize("workers", [DYING], ids=["dying"], indirect=True)
def test_five_killed_workers_lose_nothing(workers: Site) -> None:
    batch_id = workers.post(ITEMS)
    talks = [{"id": f"item-{number}", "turns": make_turns(f"承知しました。（{number}）")} for number in range(TALKS)]
    talking = workers.post_items(talks, name="talks", rubric="ja-conversation")
    for round_number in range(5):
        workers.wait_for_results(batch_id, 10 * (round_number + 1))
        workers.kill_worker()
        workers.start_workers(1)
    for found, items in ((batch_id, ITEMS), (talking, TALKS)):
        workers.wait_for(found, seconds=LIMIT_SECONDS)
        check_all_scored(workers, found, items)
    # Each response and each conversation is judged once, but for what was in flight at a worker's end.
    assert workers.judge.stats()["paid_again"] <= 5 * IN_FLIGHT


@pytest.mark.parametrize("workers", [DYING], ids=["dying"], indirect=True)
def test_what_a_stopped_worker_held_goes_to_another_and_its_late_results_are_refused(workers: Site) -> None:
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, 30)
    frozen = workers.workers[0]
    os.kill(frozen.pid, signal.SIGSTOP)
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    os.kill(frozen.pid, signal.SIGCONT)
    time.sleep(4)
    check_all_scored(workers, batch_id)
    assert frozen.poll() is None, workers.log()


@pytest.mark.parametrize("embedded", [DYING], ids=["dying"], indirect=True)
def test_what_was_accepted_runs_although_the_service_is_killed(embedded: Site) -> None:
    """Killed at any moment around the answer: who has the 202 has a batch, and a key sent again makes no second one."""
    accepted: dict[str, str | None] = {}
    for round_number in range(4):
        name, key = f"round-{round_number}", secrets.token_hex(8)
        body = {"name": name, "relevance": None, "items": [make_item(name, number) for number in range(30)]}
        timer = threading.Timer(0.02 * (round_number + 1), lambda: kill(embedded.service))
        timer.start()
        accepted[name] = post_once(embedded, body, key)
        timer.join()
        embedded.start_service()
        again = post_until_settled(embedded, body, key)
        assert accepted[name] in {None, again}
        accepted[name] = again
    for name, batch_id in accepted.items():
        assert batch_id is not None
        embedded.wait_for(batch_id, seconds=LIMIT_SECONDS)
        assert len(embedded.results(batch_id)) == 30
        assert len(embedded.client.get("/v1/batches", params={"name": name}).json()["items"]) == 1


def post_once(made: Site, body: dict[str, Any], key: str) -> str | None:
    """The batch's id, where the answer came."""
    try:
        response = made.client.post("/v1/batches", json=body, headers={"Idempotency-Key": key})
    except httpx.HTTPError:
        return None
    return str(response.json()["id"]) if response.status_code == 202 else None


def post_until_settled(made: Site, body: dict[str, Any], key: str) -> str:
    """The batch's id. 409 while the killed request's claim is still there."""
    found: list[str] = []

    def settled() -> bool:
        posted = post_once(made, body, key)
        found.extend([posted] if posted else [])
        return posted is not None

    wait_until(settled, LIMIT_SECONDS, "the key answers", made.log)
    return found[0]


@pytest.mark.parametrize("workers", [DYING], ids=["dying"], indirect=True)
def test_everything_killed_and_started_again_finishes_with_the_same_signature(workers: Site, redis_port: int) -> None:
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, ITEMS // 2)
    before = workers.batch(batch_id)["signature"]
    workers.kill_service()
    workers.kill_worker()
    workers.kill_worker()
    with redis.Redis(port=redis_port) as client:
        client.flushall()
    workers.start_service()
    workers.start_workers(2)
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id)
    assert workers.batch(batch_id)["signature"] == before


def test_a_stopped_worker_hands_its_work_back(workers: Site) -> None:
    batch_id = workers.post(ITEMS)
    workers.wait_for_results(batch_id, 30)
    started = time.monotonic()
    first = workers.workers.pop(0)
    first.terminate()
    assert first.wait(timeout=LIMIT_SECONDS) == 0, workers.log()
    print(f"\nSIGTERM: the worker left after {time.monotonic() - started:.1f} s")
    workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(workers, batch_id)
    # It finished what it had begun: nothing was judged twice.
    assert workers.judge.stats()["paid_again"] == 0


def test_a_stopped_service_with_a_batch_under_way_finishes_it_after_its_next_start(embedded: Site) -> None:
    batch_id = embedded.post(ITEMS)
    embedded.wait_for_results(batch_id, 30)
    process = embedded.service
    assert process is not None
    process.terminate()
    assert process.wait(timeout=LIMIT_SECONDS) == 0, embedded.log()
    embedded.start_service()
    embedded.wait_for(batch_id, seconds=LIMIT_SECONDS)
    check_all_scored(embedded, batch_id)
    assert embedded.judge.stats()["paid_again"] == 0


@pytest.mark.parametrize("workers", [COUNTED], ids=["counted"], indirect=True)
def test_a_candidate_that_kills_its_worker_is_set_aside_after_three_tries_under_suspicion(workers: Site) -> None:
    workers.judge.turn(poison="POISON-7")
    items = [make_item("poison", number) for number in range(60)]
    items[41]["response"] += " POISON-7"
    batch_id = workers.post_items(items)
    stop = threading.Event()
    guard = threading.Thread(target=restart_dead_workers, args=(workers, stop))
    guard.start()
    try:
        workers.wait_for(batch_id, seconds=LIMIT_SECONDS)
    finally:
        stop.set()
        guard.join()
    results = workers.results(batch_id)
    failed = [result for result in results if result["status"] == "failed"]
    assert [result["position"] for result in failed] == [41], workers.log()
    assert failed[0]["error"]["code"] == "worker-died"
    assert len(results) == 60
    assert workers.judge.stats()["killed"] == 4


def restart_dead_workers(made: Site, stop: threading.Event) -> None:
    """What a process supervisor does."""
    while not stop.wait(0.2):
        for process in [one for one in made.workers if one.poll() is not None]:
            made.workers.remove(process)
            made.start_workers(1)


def test_an_erasure_during_the_run_leaves_no_trace(tmp_path: Path, redis_port: int) -> None:
    """On SQLite, where the whole database can be read: in it, in its log, in Redis and in the logs."""
    variables = {**PLAIN, "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0"}
    marker = "海まで行ってきました"
    with site(tmp_path, workers=1, judge=JUDGE, **variables) as made:
        kept = made.post_items([kept_item(number) for number in range(10)])
        made.wait_for(kept)
        batch_id = made.post(ITEMS, judge={"explain": True})
        made.wait_for_results(batch_id, 30)
        assert marker.encode() in read_database(tmp_path)
        assert made.client.delete(f"/v1/batches/{batch_id}").status_code == 204
        wait_until(lambda: made.judge.stats()["in_flight"] == 0, LIMIT_SECONDS, "nothing in flight", made.log)
        wait_until(
            lambda: marker.encode() not in read_database(tmp_path), LIMIT_SECONDS, "no trace in the database", made.log
        )
        time.sleep(1)
        with redis.Redis(port=redis_port) as client:
            held = json.dumps([repr((key, dump(client, key))) for key in client.keys("*")])
        assert batch_id not in held
        assert "文脈に沿う" not in held
        assert marker not in made.log()
        assert made.client.get(f"/v1/batches/{batch_id}").status_code == 404
        assert len(made.results(kept)) == 10


def kept_item(number: int) -> dict[str, Any]:
    return {"context": [{"speaker": "A", "text": "元気？"}], "response": f"元気です。{number}"}


def read_database(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("saiten.db*"))


def dump(client: Any, key: bytes) -> object:
    """A key's value, whatever it is, as text."""
    kind = client.type(key)
    if kind == b"string":
        return client.get(key).decode("utf-8", "replace")
    if kind == b"list":
        return [part.decode("utf-8", "replace") for part in client.lrange(key, 0, -1)]
    return kind
