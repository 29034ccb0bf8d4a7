"""How long others wait for pages and batches while 300 streams of one project each follow 50 runs.

    python -m benchmarks.followers                    # 300 streams, a minute without them and a minute with them
    python -m benchmarks.followers --places 100       # of a project; more are refused

The runs are judged meanwhile, slowly, so that their progress changes about once a second. A key of another project asks
for pages of a run of its own and posts a small batch, one request after the other. The streams are read by a process of
their own, which throws away what they tell.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from benchmarks.fast_judge import fast_judge
from tests.support.command import served
from tests.support.keyed import make_keys
from tests.support.site import make_item

STREAMS, RUNS, ITEMS = 300, 50, 100
SECONDS = 60.0
SETTLED_SECONDS = 15.0
"""How long streams may take to begin before others are timed."""

JUDGE_MS = 3000.0
CONCURRENCY = 4
PATIENCE_SECONDS = 120.0


async def follow(url: str, path: str, key: str, counts: Counter[str]) -> None:
    """Reads one stream, and forgets what it tells. Notes the status of the answer."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: {key}\r\n\r\n".encode())
    status = (await reader.readline()).decode().split()
    counts[status[1] if len(status) > 1 else "closed"] += 1
    while await reader.read(65536):
        pass
    writer.close()


def follow_all(url: str, path: str, key: str, streams: int, told: Any) -> None:
    """Follows with so many streams until the process is ended; puts the statuses of their answers into `told`."""

    async def run() -> None:
        counts: Counter[str] = Counter()
        tasks = [asyncio.create_task(follow(url, path, key, counts)) for _ in range(streams)]
        while True:
            await asyncio.sleep(1)
            told.put(dict(counts))
            tasks = [one for one in tasks if not one.done()] or tasks

    asyncio.run(run())


def post(client: httpx.Client, name: str, count: int) -> str:
    """The id of a new run."""
    body = {"name": name, "relevance": None, "items": [make_item(name, number) for number in range(count)]}
    return str(client.post("/v1/batches", json=body).raise_for_status().json()["id"])


def list_questions(client: httpx.Client, run: str) -> Mapping[str, Callable[[], object]]:
    """What the other project asks, by its name in the table."""

    def get(path: str) -> Callable[[], object]:
        return lambda: client.get(path).raise_for_status()

    return {
        "/": get("/"),
        "a run": get(f"/runs/{run}"),
        "/explore": get(f"/explore?run={run}"),
        "POST /v1/batches": lambda: post(client, "small", 1),
        "/livez": get("/livez"),
    }


def time_questions(questions: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Seconds of each answer; all are asked in turn."""
    found, end = defaultdict[str, list[float]](list), time.monotonic() + seconds
    while time.monotonic() < end:
        for name, ask in questions.items():
            began = time.perf_counter()
            ask()
            found[name].append(time.perf_counter() - began)
    return found


def show(title: str, found: Mapping[str, Sequence[float]]) -> None:
    """A row per question."""
    for name, taken in found.items():
        middle, late = np.quantile(taken, [0.5, 0.95])
        print(f"{title:22} {name:18} {len(taken):5} {middle:8.3f} {late:8.3f} {max(taken):8.3f}", flush=True)


def measure(url: str, folder: Path, options: argparse.Namespace, slow: Callable[[], None]) -> None:
    """Prints the table. `slow` makes the judge slow."""
    reader, writer, other = asyncio.run(make_keys(folder, ("one", "read"), ("one", "write"), ("other", "write")))
    with (
        httpx.Client(base_url=url, headers=writer, timeout=PATIENCE_SECONDS) as ours,
        httpx.Client(base_url=url, headers=other, timeout=PATIENCE_SECONDS) as theirs,
    ):
        run = post(theirs, "theirs", 20)
        while theirs.get(f"/v1/batches/{run}").json()["status"] != "completed":
            time.sleep(0.2)
        slow()
        runs = [post(ours, f"run {number}", ITEMS) for number in range(RUNS)]
        questions = list_questions(theirs, run)
        time_questions(questions, 3)
        show("alone", time_questions(questions, options.seconds))
        path = "/live?" + "&".join(f"run={one}" for one in runs)
        spawn = multiprocessing.get_context("spawn")
        told = spawn.Queue()
        arguments = (url, path, reader["Authorization"], options.streams, told)
        following = spawn.Process(target=follow_all, args=arguments, daemon=True)
        following.start()
        try:
            time.sleep(SETTLED_SECONDS)
            show("beside the streams", time_questions(questions, options.seconds))
        finally:
            following.kill()
        counts: dict[str, int] = {}
        while not told.empty():
            counts = told.get()
        print(f"answers to {options.streams} streams, by status: {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--places", type=int, default=STREAMS, help="SAITEN_PROJECT_STREAMS")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name, fast_judge() as judge:
        variables = {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": judge.base_url,
            "SAITEN_JUDGE_CONCURRENCY": str(CONCURRENCY),
            "SAITEN_PROJECT_STREAMS": str(options.places),
        }
        print(f"load {os.getloadavg()[0]:.1f}")
        print(f"{'':22} {'asked':18} {'n':>5} {'median':>8} {'p95':>8} {'longest':>8}")
        with served(Path(name), **variables) as (url, _):
            measure(url, Path(name), options, lambda: judge.turn(latency_ms=JUDGE_MS))
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
