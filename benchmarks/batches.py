"""Batches: from POST to completed, beside the limit and a plain AsyncOpenAI loop, in one run.

    python -m benchmarks.batches             # every figure
    python -m benchmarks.batches embedded    # one of: embedded, workers, limited, scaling, day

Service, workers and judge are processes of their own; the judge answers after a fixed time. Without the binaries of
PostgreSQL and Redis the figures that need them are left out, and say so.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.services import find_binary, free_port, private_postgres, redis_on
from tests.support.site import JudgeProcess, Site, make_item, site

ITEMS = 1000
LATENCY_MS = 200
IN_FLIGHT = 100
ROUNDS = 3
FAST = {"SAITEN_LOG_LEVEL": "warning", "SAITEN_LEASE_SECONDS": "15", "SAITEN_JUDGE_TIMEOUT_SECONDS": "25"}


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


def show(what: str, seconds: float, limit_seconds: float | None = None, more: str = "") -> None:
    ratio = f"   {seconds / limit_seconds:5.2f} x the limit of {limit_seconds:g} s" if limit_seconds else ""
    print(f"  {what:44} {seconds:7.2f} s{ratio}   {more}".rstrip())


def measure_rounds(made: Site, what: str) -> None:
    """The median of fresh rounds, and of the same batches again."""
    limit = ITEMS * LATENCY_MS / 1000 / IN_FLIGHT
    fresh = [time_batch(made, ITEMS, f"{what}-{number}") for number in range(ROUNDS)]
    show(what, statistics.median(fresh), limit, f"rounds {', '.join(f'{one:.2f}' for one in fresh)}")
    cached = [time_batch(made, ITEMS, f"{what}-{number}") for number in range(ROUNDS)]
    show(f"{what}, all cached", statistics.median(cached))


def measure_embedded() -> None:
    with folder() as here, site(here, judge={"latency_ms": LATENCY_MS}, SAITEN_JUDGE_CONCURRENCY="100", **FAST) as made:
        measure_rounds(made, "embedded")
        seconds, lost = asyncio.run(ask_plainly(made.judge, ITEMS))
        show("a plain AsyncOpenAI loop", seconds, more=f"lost {lost}")


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """PostgreSQL and Redis of their own, as settings."""
    with private_postgres() as database, redis_on(free_port()) as queue:
        yield {"DATABASE_URL": database, "REDIS_URL": queue}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
        yield Path(name)


def measure_workers() -> None:
    with (
        servers() as urls,
        folder() as here,
        site(here, workers=2, judge={"latency_ms": LATENCY_MS}, SAITEN_JUDGE_CONCURRENCY="100", **urls, **FAST) as made,
    ):
        time_batch(made, 20, "warm")
        measure_rounds(made, "two workers, Redis, PostgreSQL")


def measure_limited() -> None:
    """200 items under 600 requests a minute that nobody told Saiten of."""
    items, limit = 200, 20.0
    with folder() as here, site(here, judge={"latency_ms": 50, "rpm": 600}, **FAST) as made:
        seconds = time_batch(made, items, "limited")
        stats = made.judge.stats()
        show("600 requests a minute, 200 items", seconds, limit, f"429s {stats['throttled']}, early {stats['early']}")
        made.judge.turn(rpm=600)
        seconds, lost = asyncio.run(ask_plainly(made.judge, items))
        show("a plain AsyncOpenAI loop", seconds, limit, f"429s {made.judge.stats()['throttled']}, lost {lost}")


def measure_scaling() -> None:
    """What a second worker adds where the judge answers at once: items a second while they work, without the POST."""
    items, rates = 6000, {}
    for workers in (1, 2):
        with servers() as urls, folder() as here:
            variables = {**urls, **FAST, "SAITEN_JUDGE_CONCURRENCY": "400"}
            with site(here, workers=workers, judge={"latency_ms": 20}, **variables) as made:
                time_batch(made, 400, "warm")
                seconds = statistics.median(time_work(made, items, f"scale-{number}") for number in range(ROUNDS))
                rates[workers] = items / seconds
                show(f"{items:,} items, {workers} worker(s)", seconds, more=f"{rates[workers]:.0f} items/s")
    print(f"  two workers do {rates[2] / rates[1]:.2f} x the work of one")


def measure_day() -> None:
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
        same, again = batch["signature"] == before, made.judge.stats()["paid_again"]
        about = f"{batch['counts']}, same signature {same}, judged twice {again}"
        show("an operator's day: started again to done", time.perf_counter() - killed, more=about)


MEASURES: dict[str, tuple[Callable[[], None], bool]] = {
    "embedded": (measure_embedded, False),
    "limited": (measure_limited, False),
    "workers": (measure_workers, True),
    "scaling": (measure_scaling, True),
    "day": (measure_day, True),
}


def main(*chosen: str) -> None:
    if unknown := [name for name in chosen if name not in MEASURES]:
        sys.exit(f"no such measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    print(f"batches of {ITEMS} items × six aspects, judge {LATENCY_MS} ms, {IN_FLIGHT} calls in flight")
    at_hand = find_binary("initdb") is not None and shutil.which("redis-server") is not None
    for name, (measure, needs_servers) in MEASURES.items():
        if chosen and name not in chosen:
            continue
        if needs_servers and not at_hand:
            print(f"  {name}: not measured, it needs the binaries of PostgreSQL and Redis")
        else:
            measure()


if __name__ == "__main__":
    main(*sys.argv[1:])
