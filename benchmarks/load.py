"""What callers do all day, as an open loop of so many requests a second: the load of `rolling` and `soak`."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from saiten_server.platform.tasks import cancel_for_good
from tests.support.site import make_item

BATCH_ITEMS = 20
MOST_IN_FLIGHT = 1000
"""Requests of these callers under way; beyond it they fall behind, and say so."""

Operation = Callable[["Callers", httpx.AsyncClient], Awaitable[str]]
"""One request; what came of it where it was not what was asked for, else an empty text."""


class Callers:
    """Callers, each with connections of its own, and what they were answered.

    Latencies are seconds by operation; `faults` counts what was not as it should be. A transport error is a fault
    always: nobody sends anything twice here.
    """

    def __init__(self, base_url: str, *, count: int = 20, key: str | None = None, seed: int = 0) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Connections are kept as proxies and other languages' clients keep them; httpx alone would let go after 5 s.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60)
        self.clients = [
            httpx.AsyncClient(base_url=base_url, timeout=60, trust_env=False, limits=limits, headers=headers)
            for _ in range(count)
        ]
        self.key = key
        self.chance = random.Random(seed)
        self.sent = 0
        self.behind = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.faults: Counter[str] = Counter()
        self.evaluations: deque[str] = deque(maxlen=500)
        self.posted: deque[int] = deque(maxlen=500)
        self.batches: list[str] = []
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_for_good(self._tasks)
        for client in self.clients:
            await client.aclose()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def forget(self) -> None:
        """Starts counting anew; what was made is still known."""
        self.sent, self.behind = 0, 0
        self.seconds.clear()
        self.faults.clear()

    async def run(self, mix: Mapping[str, tuple[Operation, float]], rate: float, going: Callable[[], bool]) -> None:
        """Sends `rate` requests a second while it is `going`, whatever becomes of those before; then waits for all."""
        names, weights = list(mix), [weight for _, weight in mix.values()]
        began, sent = time.monotonic(), 0
        while going():
            await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))
            sent += 1
            if len(self._tasks) >= MOST_IN_FLIGHT:
                self.behind += 1
                continue
            name = self.chance.choices(names, weights)[0]
            task = asyncio.create_task(self._do(name, mix[name][0]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _do(self, name: str, operation: Operation) -> None:
        self.sent += 1
        began = time.monotonic()
        try:
            fault = await operation(self, self.chance.choice(self.clients))
        except httpx.HTTPError as error:
            fault = type(error).__name__
        if fault:
            self.faults[f"{name}: {fault}"] += 1
        else:
            self.seconds[name].append(time.monotonic() - began)


def read(response: httpx.Response, *expected: int) -> str:
    """The fault of an answer: its status, and the code that came with it."""
    if response.status_code in expected:
        return ""
    is_problem = response.headers.get("content-type", "").startswith("application/problem+json")
    return f"{response.status_code} {response.json()['code'] if is_problem else ''}".strip()


def make_body(number: int) -> dict[str, Any]:
    body = make_item("load", number)
    del body["id"]
    return {**body, "relevance": None}


async def evaluate(callers: Callers, client: httpx.AsyncClient) -> str:
    """A text that nobody has asked about."""
    number = callers.next_number()
    response = await client.post("/v1/evaluations", json=make_body(number))
    if response.status_code == 200:
        callers.evaluations.append(response.json()["id"])
        callers.posted.append(number)
    return read(response, 200)


async def evaluate_again(callers: Callers, client: httpx.AsyncClient) -> str:
    """A text that was asked about lately: no judge call is needed."""
    number = callers.chance.choice(callers.posted) if callers.posted else callers.next_number()
    return read(await client.post("/v1/evaluations", json=make_body(number)), 200)


async def read_evaluation(callers: Callers, client: httpx.AsyncClient) -> str:
    if not callers.evaluations:
        return await evaluate(callers, client)
    return read(await client.get(f"/v1/evaluations/{callers.chance.choice(callers.evaluations)}"), 200)


async def post_batch(callers: Callers, client: httpx.AsyncClient) -> str:
    name = f"load-{callers.next_number()}"
    items = [make_item(name, number) for number in range(BATCH_ITEMS)]
    response = await client.post("/v1/batches", json={"name": name, "relevance": None, "items": items})
    if response.status_code == 202:
        callers.batches.append(response.json()["id"])
    return read(response, 202)


async def read_batch(callers: Callers, client: httpx.AsyncClient) -> str:
    if not callers.batches:
        return await post_batch(callers, client)
    return read(await client.get(f"/v1/batches/{callers.chance.choice(callers.batches[-50:])}"), 200)


async def show_runs(callers: Callers, client: httpx.AsyncClient) -> str:
    """The dashboard's first page."""
    return read(await client.get("/", headers={"Accept": "text/html"}), 200)


USUAL: dict[str, tuple[Operation, float]] = {
    "evaluate": (evaluate, 55),
    "evaluate again": (evaluate_again, 10),
    "read evaluation": (read_evaluation, 20),
    "read batch": (read_batch, 8),
    "dashboard": (show_runs, 4),
    "post batch": (post_batch, 3),
}


def find_quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed; NaN of none."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def tabulate(callers: Callers) -> list[dict[str, Any]]:
    """Count and latencies in ms of each operation, most frequent first."""
    rows = []
    for name, seconds in sorted(callers.seconds.items(), key=lambda pair: -len(pair[1])):
        p50, p95, p99 = (round(1000 * find_quantile(seconds, share)) for share in (0.5, 0.95, 0.99))
        rows.append({"operation": name, "count": len(seconds), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99})
    return rows


def print_latencies(rows: Sequence[Mapping[str, Any]]) -> None:
    print(f"  {'':18} {'count':>8} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
    for row in rows:
        print(
            f"  {row['operation']:18} {row['count']:8,} {row['p50_ms']:8,} {row['p95_ms']:8,} {row['p99_ms']:8,}",
            flush=True,
        )
