"""Rows of the fault table: the service and workers are killed, stopped, or frozen."""

from __future__ import annotations

import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable

import httpx

from benchmarks.fault_stage import IN_FLIGHT, ITEMS, KILLS, Row, Stage, check_no_restart, finish, post_once
from tests.support.site import kill, make_item, wait_until

KILLED_ITEMS = 400
STOP_SECONDS = 25.0


def workers_are_killed(stage: Stage) -> None:
    stage.bound = KILLS * IN_FLIGHT
    batch_id = stage.begin(100)
    for _ in range(KILLS):
        stage.made.kill_worker()
        stage.made.start_workers(1)
        time.sleep(10)
    stage.recovered(batch_id)
    finish(stage, batch_id)
    counted, paid = stage.made.batch(batch_id)["usage"]["judge_calls"], stage.made.judge.stats()["ok"]
    stage.expect(paid <= counted <= paid + KILLS * IN_FLIGHT, f"counted {counted} of {paid} paid calls")


def service_is_killed(stage: Stage) -> None:
    """Around its 202, and later: a key that is sent again answers with the same batch."""
    accepted: dict[str, str] = {}
    for number, delay in enumerate((0.01, 0.03, 0.06, 0.1, 0.2)):
        name, key = f"round-{number}", secrets.token_hex(8)
        timer = threading.Timer(delay, lambda: kill(stage.made.service))
        timer.start()
        first = post_once(stage.made, KILLED_ITEMS, name, key)
        timer.join()
        stage.made.start_service()
        settled: list[str] = []

        def settle(name: str = name, key: str = key, settled: list[str] = settled) -> bool:
            posted = post_once(stage.made, KILLED_ITEMS, name, key)
            settled.extend([posted] if posted else [])
            return posted is not None

        seconds = wait_until(settle, 90, "the key answers", stage.made.log)
        stage.note(f"{'202' if first else 'cut off'}, key settled {seconds:.1f} s")
        stage.expect(first in {None, settled[0]}, "same batch")
        accepted[name] = settled[0]
    never_run = 0
    for name, batch_id in accepted.items():
        stage.made.wait_for(batch_id, seconds=120)
        never_run += len(stage.made.results(batch_id)) != KILLED_ITEMS
        never_run += len(stage.made.client.get("/v1/batches", params={"name": name}).json()["items"]) != 1
    stage.expect(never_run == 0, f"never run or twice {never_run}")


def service_is_stopped(stage: Stage) -> None:
    """With requests under way; a balancer that asks for readiness each second sends new ones until it has noticed."""
    failures: list[str] = []
    answered: list[int] = []
    noticed = threading.Event()

    def send(number: int) -> None:
        base = f"http://127.0.0.1:{stage.made.port}"
        with httpx.Client(base_url=base, timeout=60, trust_env=False) as client:
            count = 0
            while not noticed.is_set():
                count += 1
                body = make_item(f"sender-{number}", count)
                body.pop("id")
                try:
                    response = client.post("/v1/evaluations", json={**body, "relevance": None})
                except httpx.HTTPError as error:
                    failures.append(type(error).__name__)
                    continue
                answered.append(response.status_code)
                if response.status_code not in {200, 201}:
                    failures.append(f"{response.status_code} {response.text[:120]}")

    senders = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for sender in senders:
        sender.start()
    time.sleep(4)
    process = stage.made.service
    started = time.monotonic()
    if process is not None:
        process.terminate()
    time.sleep(1)
    while stage.ready() == 200:
        time.sleep(1)
    noticed.set()
    for sender in senders:
        sender.join()
    wait_for_exit(stage, process, started, "service")
    stage.expect(not failures, f"failed requests {len(failures)} of {len(answered)} {sorted(set(failures))[:3]}")


def wait_for_exit(stage: Stage, process: subprocess.Popen[bytes] | None, started: float, what: str) -> None:
    """A stop is to take less than 25 s, and to end with 0 (or the signal, from uvicorn)."""
    if process is None:
        return
    try:
        code: int | str = process.wait(timeout=STOP_SECONDS - (time.monotonic() - started))
    except subprocess.TimeoutExpired:
        code = "never"
        kill(process)
    seconds = time.monotonic() - started
    stage.expect(code in {0, -signal.SIGTERM}, f"{what} left after {seconds:.1f} s with {code}")


def worker_is_stopped(trouble: Callable[[Stage], None], mend: Callable[[Stage], None], allowed: int) -> Row:
    """SIGTERM of one worker while something else is in trouble, or nothing is."""

    def row(stage: Stage) -> None:
        stage.bound = allowed
        batch_id = stage.begin()
        trouble(stage)
        time.sleep(1)
        process, started = stage.made.workers.pop(0), time.monotonic()
        process.terminate()
        wait_for_exit(stage, process, started, "worker")
        mend(stage)
        stage.recovered(batch_id)
        finish(stage, batch_id)

    return row


def worker_freezes(stage: Stage) -> None:
    batch_id = stage.begin()
    frozen = stage.made.workers[0]
    frozen.send_signal(signal.SIGSTOP)
    time.sleep(30)
    frozen.send_signal(signal.SIGCONT)
    stage.recovered(batch_id)
    finish(stage, batch_id)
    check_no_restart(stage)


def item_kills_workers(stage: Stage) -> None:
    stage.made.judge.turn(poison="POISON-7")
    items = [make_item("poison", number) for number in range(ITEMS)]
    items[417]["response"] += " POISON-7"
    batch_id = stage.made.post_items(items)
    started, done = time.monotonic(), False
    while not done and time.monotonic() - started < 240:
        stage.restart_dead_workers()
        done = stage.made.batch(batch_id)["status"] == "completed"
        time.sleep(0.2)
    killed = stage.made.judge.stats()["killed"]
    stage.bound = killed * IN_FLIGHT
    finish(stage, batch_id, failed=1)
    failed = [one for one in stage.made.results(batch_id) if one["status"] == "failed"]
    reasons = [(one["position"], one["error"]["code"]) for one in failed]
    stage.expect(reasons == [(417, "worker-died")], f"set aside {reasons}")
    stage.note(f"workers killed {killed}")


def nothing(_: Stage) -> None:
    """No trouble."""
