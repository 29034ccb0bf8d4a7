"""Rows of the fault table: the judge fails, hangs, limits, refuses or talks nonsense, and who is asking too much."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx

from benchmarks.fault_stage import (
    FAULT_SECONDS,
    IN_FLIGHT,
    ITEMS,
    LONGEST_SECONDS,
    SHORT_SECONDS,
    Row,
    Stage,
    finish,
)
from tests.support.site import make_item


def judge_breaks(mode: str) -> Row:
    def row(stage: Stage) -> None:
        batch_id = stage.begin()
        stage.made.judge.turn(mode=mode)
        time.sleep(FAULT_SECONDS)
        stage.expect(stage.ready() == 200, "ready meanwhile")
        stage.made.judge.turn(mode="ok")
        stage.recovered(batch_id)
        finish(stage, batch_id)

    return row


def judge_refuses_connections(stage: Stage) -> None:
    batch_id = stage.begin()
    before = stage.made.judge.stats()["ok"]
    stage.made.judge.stop()
    time.sleep(FAULT_SECONDS)
    stage.made.judge.start()
    stage.recovered(batch_id)
    finish(stage, batch_id)
    # The judge forgot its count when it stopped.
    again = before + stage.made.judge.stats()["ok"] - ITEMS
    stage.expect(again <= IN_FLIGHT, f"judged twice, by calls, {again}")


def judge_limits(stage: Stage) -> None:
    stage.made.judge.turn(rpm=1200)
    finish(stage, stage.made.post(ITEMS))
    stats = stage.made.judge.stats()
    stage.expect(stats["early"] == 0, f"early {stats['early']}")
    stage.expect(stats["requests"] <= 1.2 * ITEMS, f"requests/items {stats['requests'] / ITEMS:.3f}")


def account_is_refused(mode: str, reason: str) -> Row:
    def row(stage: Stage) -> None:
        batch_id = stage.begin()
        stage.made.judge.turn(mode=mode)
        paused = stage.made.wait_for(batch_id, "paused", seconds=30)
        time.sleep(SHORT_SECONDS)
        refused = stage.made.judge.stats()["refused"]
        stage.expect(paused["pause_reason"] == reason, str(paused["pause_reason"]))
        stage.expect(refused <= IN_FLIGHT + 1, f"refused calls {refused} (≤ {IN_FLIGHT + 1})")
        stage.made.judge.turn(mode="ok")
        stage.made.client.post(f"/v1/batches/{batch_id}/resume").raise_for_status()
        stage.recovered(batch_id)
        finish(stage, batch_id)

    return row


def replies_are_malformed(stage: Stage) -> None:
    stage.made.judge.turn(malformed=0.3)
    batch_id = stage.made.post(ITEMS)
    batch = stage.made.wait_for(batch_id, seconds=120)
    results = stage.made.results(batch_id)
    aspects = [(result["status"], aspect) for result in results for aspect in result["aspects"].values()]
    invalid = sum(not is_valid(status, aspect) for status, aspect in aspects)
    stage.expect(invalid == 0, f"invalid values {invalid}")
    stage.expect(len(results) == ITEMS, f"lost {ITEMS - len(results)}")
    stage.note(f"unrated with a reason {batch['counts']['failed']}")


def is_valid(status: str, aspect: dict[str, Any]) -> bool:
    if status == "scored":
        return bool(aspect["scale"][0] <= aspect["rating"] <= aspect["scale"][1])
    return aspect["rating"] is None and aspect["unrated"]["reason"] == "unparseable"


BAD = "この応答は採点できない"
MOST_CALLS = 20
ENDED_SECONDS = 120.0


def candidates_always_fail(mode: str, *places: int) -> Row:
    """The judge fails the candidates in these places for ever, in this way (`down`, `hang` or `cut`)."""

    def row(stage: Stage) -> None:
        items = [make_item("run", number) for number in range(ITEMS)]
        for place in places:
            items[place]["response"] += BAD
        made = stage.made
        made.judge.turn(bad=BAD, bad_mode=mode)
        batch_id = made.post_items(items)
        made.wait_for_results(batch_id, ITEMS - len(places), LONGEST_SECONDS)
        started = time.monotonic()
        finish(stage, batch_id, failed=len(places))
        seconds = time.monotonic() - started
        calls = made.judge.stats()["bad"] / len(places)
        stage.expect(seconds <= ENDED_SECONDS, f"ended {seconds:.0f} s after the others (≤ {ENDED_SECONDS:.0f})")
        stage.expect(calls <= MOST_CALLS, f"calls each {calls:.1f} (≤ {MOST_CALLS})")

    return row


def callers_overload(stage: Stage) -> None:
    """Three times as many interactive callers as calls in flight, on the process that works on the batch."""
    over = threading.Event()

    def call(caller: int) -> None:
        with httpx.Client(base_url=stage.made.client.base_url, timeout=120, trust_env=False) as client:
            number = 0
            while not over.is_set():
                number += 1
                item = make_item(f"caller {caller}", number)
                body = {"context": item["context"], "response": item["response"], "relevance": None}
                client.post("/v1/evaluations", json=body)

    batch_id = stage.begin(least=50, items=4 * ITEMS)
    alone = measure_rate(stage, batch_id)
    callers = [threading.Thread(target=call, args=(number,)) for number in range(3 * IN_FLIGHT)]
    for caller in callers:
        caller.start()
    busy = measure_rate(stage, batch_id)
    over.set()
    for caller in callers:
        caller.join()
    stage.expect(busy >= 0.05 * alone, f"batch {busy:.1f} a second, alone {alone:.1f} (≥ 5%)")


def measure_rate(stage: Stage, batch_id: str) -> float:
    """Results a second."""
    before, started = stage.count(batch_id) or 0, time.monotonic()
    time.sleep(SHORT_SECONDS / 2)
    return ((stage.count(batch_id) or 0) - before) / (time.monotonic() - started)


def batch_ends_early(how: str) -> Row:
    """The batch is cancelled or erased (`cancel`, `delete`) while it runs."""

    def row(stage: Stage) -> None:
        batch_id, made = stage.begin(), stage.made
        if how == "cancel":
            made.client.post(f"/v1/batches/{batch_id}/cancel").raise_for_status()
        else:
            made.client.delete(f"/v1/batches/{batch_id}").raise_for_status()
        before = made.judge.stats()["requests"]
        time.sleep(1)
        within = made.judge.stats()["requests"]
        time.sleep(5)
        after = made.judge.stats()["requests"]
        stage.note(f"calls within a second {within - before}")
        stage.expect(after == within, f"after it {after - within}")

    return row
