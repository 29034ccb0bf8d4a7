"""Rows of the fault table: the judge fails, hangs, limits, refuses or talks nonsense."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.fault_stage import FAULT_SECONDS, IN_FLIGHT, ITEMS, SHORT_SECONDS, Row, Stage, finish


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
