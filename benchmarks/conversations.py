"""Batches of whole conversations: time beside what the judge alone takes, and CPU per conversation.

    python -m benchmarks.conversations             # 1,000 conversations of 20 turns, judge 400 ms, 100 in flight
    python -m benchmarks.conversations --quick     # 300 of them, one round

As `benchmarks.judge_path`, with whose parts it is built. What rules find is looked for in every turn, beside the judge.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import psutil

from benchmarks.fast_judge import fast_judge
from benchmarks.judge_path import (
    EMBEDDED,
    IN_FLIGHT,
    LIMIT_RATIO,
    POLL_SECONDS,
    WORKERS,
    Stage,
    has_servers,
    stage,
    use_cpu,
)
from benchmarks.record import Beside, Figure, Report, at_most, run_alone

NAME = "conversations"
CONVERSATIONS, ROUNDS, TURNS = 1000, 3, 20
LATENCY_MS = 400
SAID = ("週末の予定を相談したいのですが、よろしいですか。", "はい、承ります。ご希望の日時を教えていただけますか。")


def make_conversation(name: str, number: int) -> dict[str, Any]:
    """A conversation that no other one equals, of ordinary length."""
    turns = [
        {
            "speaker": ("客", "受付")[place % 2],
            "role": ("user", "system")[place % 2],
            "text": f"{SAID[place % 2]}（{name}の{number}番、{place}回目）",
        }
        for place in range(TURNS)
    ]
    return {"id": f"{name}-{number}", "turns": turns}


def run_batch(made: Stage, count: int, name: str) -> tuple[float, float]:
    """Seconds from the POST to the end, and CPU ms per conversation of who works."""
    processes = made.site.workers or filter(None, [made.site.service])
    working = [psutil.Process(process.pid) for process in processes]
    items = [make_conversation(name, number) for number in range(count)]
    before, started = use_cpu(with_helpers(working)), time.time()
    batch = made.wait(made.site.post_items(items, name=name, rubric="ja-conversation"))
    if batch["counts"]["scored"] != count:
        raise RuntimeError(f"{batch['counts']}\n{made.site.log()}")
    time.sleep(POLL_SECONDS)
    seconds = datetime.fromisoformat(batch["finished_at"]).timestamp() - started
    return seconds, 1000 * (use_cpu(with_helpers(working)) - before) / count


def with_helpers(processes: list[psutil.Process]) -> list[psutil.Process]:
    """The processes and those that they began, such as what looks through conversations."""
    return [one for process in processes for one in (process, *process.children(recursive=True))]


def measure(report: Report, *, quick: bool = False) -> None:
    """Adds the figures of batches of conversations."""
    count, rounds = (300, 1) if quick else (CONVERSATIONS, ROUNDS)
    limit = count * LATENCY_MS / 1000 / IN_FLIGHT
    with fast_judge() as judge, ExitStack() as stack:
        stages = {EMBEDDED: stack.enter_context(stage(judge, workers=0))}
        if has_servers():
            stages[WORKERS] = stack.enter_context(stage(judge, workers=2))
        else:
            report.skip(NAME, "workers", "the binaries of PostgreSQL and Redis are not here")
        for made in stages.values():
            run_batch(made, 50, "warm")
        judge.turn(latency_ms=LATENCY_MS, reset=True)
        for name, made in stages.items():
            runs = [run_batch(made, count, f"time-{number}") for number in range(rounds)]
            report.add(
                Figure(
                    NAME,
                    f"{name}: {count:,} conversations of {TURNS} turns, judge {LATENCY_MS} ms, {IN_FLIGHT} in flight",
                    "s",
                    [seconds for seconds, _ in runs],
                    limit=Beside("judge alone", limit),
                    target=at_most(LIMIT_RATIO, of="limit"),
                )
            )
            report.add(Figure(NAME, f"{name}: CPU per conversation", "ms", [cpu_ms for _, cpu_ms in runs]))


if __name__ == "__main__":
    run_alone(measure, __doc__)
