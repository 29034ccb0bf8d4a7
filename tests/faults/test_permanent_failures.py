"""Candidates that the judge always fails, the calls of workers that die, and batches that are cancelled or erased.

Small forms of rows of the fault table; `benchmarks/faults.py` has them at full size.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.services import absent, free_port, redis_on
from tests.support.site import Site, make_item, site

IN_FLIGHT = 8
MOST_CALLS = 20
ENDED_SECONDS = 240.0
STARTED_SECONDS = 240.0
"""Until workers have started and scored some, on a machine that does much else."""
PLAIN = {
    "SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT),
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "2",
    "SAITEN_LEASE_SECONDS": "3",
}
BAD = "この応答は採点できない"


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Site]:
    """The service alone, on embedded defaults."""
    with site(tmp_path, 0, {"latency_ms": 30}, **PLAIN) as made:
        yield made


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> Iterator[Site]:
    """Service and two workers on PostgreSQL and Redis; a parameter changes variables of theirs."""
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    port = free_port()
    with redis_on(port):
        changed = getattr(request, "param", {})
        variables = {**PLAIN, "DATABASE_URL": postgres_url, "REDIS_URL": f"redis://127.0.0.1:{port}/0", **changed}
        with site(tmp_path, 2, {"latency_ms": 30}, **variables) as made:
            yield made


def make_items(count: int, *bad: int) -> list[dict[str, Any]]:
    """So many items; the judge fails those in these places."""
    items = [make_item("run", number) for number in range(count)]
    for number in bad:
        items[number]["response"] += BAD
    return items


def check_ended(made: Site, count: int, mode: str, *bad: int, **options: Any) -> None:
    """Scores all but the bad ones, which fail with their reason after few calls; the batch ends soon after."""
    made.judge.turn(bad=BAD, bad_mode=mode)
    started = time.monotonic()
    batch_id = made.post_items(make_items(count, *bad), **options)
    made.wait_for_results(batch_id, count - len(bad), STARTED_SECONDS)
    others = time.monotonic()
    batch = made.wait_for(batch_id, seconds=ENDED_SECONDS)
    ended = time.monotonic()
    calls = made.judge.stats()["bad"]
    print(
        f"\n{mode}, {len(bad)} of {count}: others {others - started:.1f} s, end {ended - others:.1f} s later, "
        f"{calls / len(bad):.1f} calls each"
    )
    assert (batch["counts"]["scored"], batch["counts"]["failed"]) == (count - len(bad), len(bad)), made.log()
    results = {result["position"]: result for result in made.results(batch_id)}
    assert {place for place, result in results.items() if result["status"] == "failed"} == set(bad)
    assert {results[place]["error"]["code"] for place in bad} == {"judge-unavailable"}
    assert calls <= MOST_CALLS * len(bad)
    # What the judge was paid for is on the bill, probes too.
    assert batch["usage"]["judge_calls"] == made.judge.stats()["ok"]


@pytest.mark.parametrize(("mode", "place"), [("down", 0), ("hang", 19), ("cut", 10)])
def test_a_batch_ends_though_the_judge_always_fails_one_candidate(embedded: Site, mode: str, place: int) -> None:
    check_ended(embedded, 20, mode, place)


def test_several_bad_candidates_stop_no_other(embedded: Site) -> None:
    check_ended(embedded, 100, "hang", 0, 1, 2, 3)


def test_two_workers_end_a_batch_with_bad_candidates(workers: Site) -> None:
    check_ended(workers, 80, "hang", 5, 25, 45, 79)


def test_in_an_outage_of_everything_nobody_fails(embedded: Site) -> None:
    batch_id = embedded.post(60)
    embedded.wait_for_results(batch_id, 10)
    embedded.judge.turn(mode="down")
    time.sleep(8)
    assert embedded.batch(batch_id)["counts"]["failed"] == 0
    embedded.judge.turn(mode="ok")
    assert embedded.wait_for(batch_id)["counts"]["scored"] == 60


# A slow machine loses leases of three seconds: what their holder calls then is made twice.
@pytest.mark.parametrize("workers", [{"SAITEN_LEASE_SECONDS": "15"}], ids=["long leases"], indirect=True)
def test_what_killed_workers_had_called_is_counted(workers: Site) -> None:
    workers.judge.turn(latency_ms=250)
    batch_id, kills = workers.post(100), 3
    for number in range(kills):
        workers.wait_for_results(batch_id, 20 * (number + 1), STARTED_SECONDS)
        workers.kill_worker()
        workers.start_workers(1)
    usage = workers.wait_for(batch_id, seconds=120)["usage"]
    stats = workers.judge.stats()
    paid, asked = stats["ok"], stats["requests"]
    print(f"\ncounted {usage['judge_calls']} calls, {usage['estimated_calls']} of them estimated; paid {paid}")
    # A call whose answer was not read may be billed all the same: one that was in flight at a kill, or, on a busy
    # machine, one that took longer than its timeout.
    assert paid <= usage["judge_calls"] <= asked + kills * IN_FLIGHT


@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_second_after_the_end_of_a_batch_its_calls_have_ended(workers: Site, how: str) -> None:
    workers.judge.turn(latency_ms=200)
    batch_id = workers.post(400)
    workers.wait_for_results(batch_id, 20, STARTED_SECONDS)
    if how == "cancel":
        workers.client.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
    else:
        workers.client.delete(f"/v1/batches/{batch_id}").raise_for_status()
    at_once = workers.judge.stats()["requests"]
    time.sleep(1.0)
    after = workers.judge.stats()["requests"]
    time.sleep(2.0)
    print(f"\n{how}: {after - at_once} calls within a second, {workers.judge.stats()['requests'] - after} after it")
    assert workers.judge.stats()["requests"] == after


def test_a_batch_that_is_past_its_deadline_ends(embedded: Site) -> None:
    embedded.judge.turn(mode="hang")
    batch_id = embedded.post(60, deadline_hours=2 / 3600)
    batch = embedded.wait_for(batch_id)
    assert (batch["counts"]["expired"], batch["deadline_hours"]) == (60, 2 / 3600)
    assert {result["error"]["code"] for result in embedded.results(batch_id)} == {"expired"}
    assert embedded.client.get(f"/v1/batches/{batch_id}/summary").json()["counts"] == batch["counts"]


def test_batches_go_on_under_interactive_overload(embedded: Site) -> None:
    embedded.judge.turn(latency_ms=100)

    def measure(seconds: float) -> float:
        before, started = embedded.finished(batch_id), time.monotonic()
        time.sleep(seconds)
        return (embedded.finished(batch_id) - before) / (time.monotonic() - started)

    batch_id = embedded.post(400)
    embedded.wait_for_results(batch_id, 10)
    alone, over = measure(2), threading.Event()

    def call(caller: int) -> None:
        with httpx.Client(base_url=embedded.client.base_url, timeout=60, trust_env=False, verify=False) as client:
            number = 0
            while not over.is_set():
                number += 1
                item = make_item(f"caller {caller}", number)
                body = {"context": item["context"], "response": item["response"], "relevance": None}
                client.post("/v1/evaluations", json=body).raise_for_status()

    callers = [threading.Thread(target=call, args=(number,)) for number in range(3 * IN_FLIGHT)]
    for caller in callers:
        caller.start()
    try:
        time.sleep(0.5)
        busy = measure(3)
    finally:
        over.set()
        for caller in callers:
            caller.join()
    print(f"\nbatch alone {alone:.1f} a second, under three times as many callers as places {busy:.1f}")
    assert busy >= 0.05 * alone
