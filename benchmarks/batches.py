"""Batches: from POST to completed, beside the limit and a plain AsyncOpenAI loop, in one run.

    python -m benchmarks.batches             # every figure
    python -m benchmarks.batches embedded    # one of: embedded, workers, limited, scaling, day

Service, workers and judge are processes of their own; the judge answers after a fixed time. Without the binaries of
PostgreSQL and Redis the figures that need them are left out, and say so. `make bench` runs `limited` and `day` alone:
the others are in `benchmarks.judge_path` too, with a judge that costs less.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import introduce
from benchmarks.record import Beside, Figure, Report, finish, make_parser, read_names
from tests.support.services import find_binary, free_port, private_postgres, redis_on
from tests.support.site import JudgeProcess, Site, make_item, site

NAME = "batches"
LOOP = "AsyncOpenAI loop"
ITEMS = 1000
LATENCY_MS = 200
IN_FLIGHT = 100
ROUNDS = 3
FAST: dict[str, Any] = {
    "SAITEN_LOG_LEVEL": "warning",
    "SAITEN_LEASE_SECONDS": "15",
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "25",
}


def time_batch(made: Site, items: int, name: str, **more: Any) -> float:
    """Seconds from the POST to the batch's own `finished_at`."""
    started = time.time()
    batch_id = made.post(items, name=name, **more)
    while (batch := made.batch(batch_id))["status"] != "completed":
        time.sleep(0.25)
    if batch["counts"]["scored"] != items:
        raise RuntimeError(f"{batch['counts']}\n{made.log()}")
    return datetime.fromisoformat(batch["finished_at"]).timestamp() - started


def time_work(made: Site, items: int, name: str) -> float:
    """Seconds from the first chunk that a worker took to the batch's end."""
    time_batch(made, items, name)
    batch = made.client.get("/v1/batches", params={"name": name}).json()["items"][0]
    begun, ended = (datetime.fromisoformat(batch[moment]) for moment in ("started_at", "finished_at"))
    return (ended - begun).total_seconds()


async def ask_plainly(judge: JudgeProcess, items: int) -> tuple[float, int]:
    """Seconds and lost items of AsyncOpenAI under a semaphore, nothing stored: what a team would write first."""
    import openai

    places, lost = asyncio.Semaphore(IN_FLIGHT), 0
    schema = {"type": "object", "properties": {"overall": {"type": "integer", "enum": [1, 2, 3, 4, 5]}}}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}

    async def ask(client: openai.AsyncOpenAI, number: int) -> None:
        nonlocal lost
        async with places:
            try:
                content = make_item("plain", number)["response"]
                messages: Any = [{"role": "user", "content": content}]
                await client.chat.completions.create(model="m", messages=messages, response_format=wanted)
            except openai.OpenAIError:
                lost += 1

    async with openai.AsyncOpenAI(api_key="k", base_url=judge.base_url) as client:
        started = time.perf_counter()
        await asyncio.gather(*(ask(client, number) for number in range(items)))
        return time.perf_counter() - started, lost


def measure_rounds(report: Report, made: Site, what: str, loop: Beside | None = None) -> None:
    """Fresh rounds, and the same batches again."""
    limit = Beside("the judge's own time", ITEMS * LATENCY_MS / 1000 / IN_FLIGHT)
    fresh = [time_batch(made, ITEMS, f"{what}-{number}") for number in range(ROUNDS)]
    report.add(Figure(NAME, what, "s", fresh, peer=loop, limit=limit))
    cached = [time_batch(made, ITEMS, f"{what}-{number}") for number in range(ROUNDS)]
    report.add(Figure(NAME, f"{what}, all cached", "s", cached))


def measure_embedded(report: Report) -> None:
    with folder() as here, site(here, judge={"latency_ms": LATENCY_MS}, SAITEN_JUDGE_CONCURRENCY="100", **FAST) as made:
        asked = [asyncio.run(ask_plainly(made.judge, ITEMS)) for _ in range(ROUNDS)]
        measure_rounds(report, made, "embedded", Beside(LOOP, [seconds for seconds, _ in asked]))


@contextmanager
def servers() -> Iterator[dict[str, Any]]:
    """PostgreSQL and Redis of their own, as settings."""
    with private_postgres() as database, redis_on(free_port()) as queue:
        yield {"DATABASE_URL": database, "REDIS_URL": queue}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        yield Path(name)


def measure_workers(report: Report) -> None:
    with (
        servers() as urls,
        folder() as here,
        site(here, workers=2, judge={"latency_ms": LATENCY_MS}, SAITEN_JUDGE_CONCURRENCY="100", **urls, **FAST) as made,
    ):
        time_batch(made, 20, "warm")
        measure_rounds(report, made, "two workers, Redis, PostgreSQL")


def measure_limited(report: Report) -> None:
    """200 items under 600 requests a minute that nobody told Saiten of, beside a loop with the SDK's retries."""
    items = 200
    ours, scored, told = list[float](), list[int](), list[str]()
    with folder() as here, site(here, judge={"latency_ms": 50, "rpm": 600}, **FAST) as made:
        for number in range(ROUNDS):
            made.judge.turn(rpm=600)
            ours.append(time_batch(made, items, f"limited-{number}"))
            stats = made.judge.stats()
            made.judge.turn(rpm=600)
            seconds, lost = asyncio.run(ask_plainly(made.judge, items))
            scored.append(items - lost)
            told.append(f"{seconds:.1f} s, refused {made.judge.stats()['throttled']}")
    name = f"{items} items, 600 requests a minute"
    note = f"refused {stats['throttled']}, asked too early {stats['early']}"
    report.add(Figure(NAME, name, "s", ours, limit=Beside("the rate limit", 60 * items / 600), note=note))
    # `time_batch` raises where an item of ours is not scored.
    loop = Beside(LOOP, scored)
    note = f"the loop: {'; '.join(told)}"
    report.add(Figure(NAME, f"{name}, scored", "items", items, peer=loop, note=note, better="higher", once=True))


def measure_scaling(report: Report) -> None:
    """What a second worker adds where the judge answers at once: items a second while they work, without the POST."""
    items, rates = 6000, dict[int, list[float]]()
    for workers in (1, 2):
        with servers() as urls, folder() as here:
            variables = {**urls, **FAST, "SAITEN_JUDGE_CONCURRENCY": "400"}
            with site(here, workers=workers, judge={"latency_ms": 20}, **variables) as made:
                time_batch(made, 400, "warm")
                rates[workers] = [items / time_work(made, items, f"scale-{number}") for number in range(ROUNDS)]
    one, two = (statistics.median(rates[workers]) for workers in (1, 2))
    limit = Beside("twice one worker", 2 * one)
    note = f"one worker: {one:,.0f} items/s; two do {two / one:.2f} x the work of one"
    report.add(Figure(NAME, "two workers", "items/s", rates[2], limit=limit, note=note, better="higher"))


def measure_day(report: Report) -> None:
    """Post 2,000 items, kill everything, start again."""
    with (
        servers() as urls,
        folder() as here,
        site(here, workers=2, judge={"latency_ms": 50}, **urls, **FAST) as made,
    ):
        batch_id = made.post(2000)
        made.wait_for_results(batch_id, 600)
        before = made.batch(batch_id)["signature"]
        made.kill_service()
        made.kill_worker()
        made.kill_worker()
        killed = time.perf_counter()
        made.start_service()
        made.start_workers(2)
        batch = made.wait_for(batch_id, seconds=120)
        seconds = time.perf_counter() - killed
        same, again = batch["signature"] == before, made.judge.stats()["paid_again"]
        about = f"{batch['counts']['scored']:,} scored, same signature {same}, judged twice {again}"
        report.add(Figure(NAME, "all killed and started again: to done", "s", seconds, note=about, once=True))


MEASURES: dict[str, tuple[Callable[[Report], None], bool]] = {
    "embedded": (measure_embedded, False),
    "limited": (measure_limited, False),
    "workers": (measure_workers, True),
    "scaling": (measure_scaling, True),
    "day": (measure_day, True),
}
"""Each with whether it needs PostgreSQL and Redis."""

BRIEF = ("limited", "day")


def run(report: Report, chosen: Sequence[str]) -> None:
    """The chosen measures."""
    report.say(
        f"  {ITEMS} items × six aspects, judge {LATENCY_MS} ms, {IN_FLIGHT} calls in flight where nothing else is said"
    )
    at_hand = find_binary("initdb") is not None and shutil.which("redis-server") is not None
    for name in chosen:
        measured, needs_servers = MEASURES[name]
        if needs_servers and not at_hand:
            report.skip(NAME, name, "it needs the binaries of PostgreSQL and Redis")
        else:
            measured(report)


def measure(report: Report, *, quick: bool = False) -> None:
    """A rate limit and a bad day; of them the rate limit's rounds take a minute, and quick leaves them out."""
    run(report, BRIEF[1:] if quick else BRIEF)


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_names(make_parser(__doc__), MEASURES, "measure", arguments)
    report = Report()
    report.say(introduce(report.machine))
    run(report, options.names)
    finish(report, options)


if __name__ == "__main__":
    main()
