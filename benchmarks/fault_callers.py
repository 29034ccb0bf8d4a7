"""Rows of the fault table: one caller asks for much in one request, and the others are to notice little of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.fault_stage import Row, Stage
from tests.support.limited_keys import make_limited_key
from tests.support.site import make_item

MEGABYTE = 2**20
MOST_MEMORY_MEGABYTES = 200.0
MOST_LIVEZ_SECONDS = 0.2
MOST_SLOWER = 2.0
SAMPLES_SECONDS = 12.0
"""How long the other project's evaluations are timed, alone and beside the heavy ones."""

TURNS = 400
DAILY_USD = 0.002
ANYTHING = "ほんとうにそうですね。"
MOST_BODY_BYTES = 4 * MEGABYTE - 4096


def make_conversation(name: str, *, turns: int, samples: int, characters: int) -> dict[str, Any]:
    """A conversation of which each system turn is to be scored, each text so long."""
    text = (ANYTHING * (characters // len(ANYTHING) + 1))[: characters - 8]
    said = [
        {"speaker": role, "role": role, "text": f"{text}{name}{number:04}"}
        for number, role in zip(range(turns), ("user", "system") * turns, strict=False)
    ]
    return {
        "rubric": "ja-conversation",
        "turns": said,
        "score_turns": {"rubric": "ja-dialogue"},
        "judge": {"samples": samples},
    }


def read_memory(pid: int) -> float:
    """Resident megabytes of a process."""
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


class Watch:
    """Asks for signs of life and reads the memory of the service until it is stopped."""

    def __init__(self, stage: Stage) -> None:
        self.seconds: list[float] = []
        self.megabytes: list[float] = []
        self._stage = stage
        self._over = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._ask, self._read)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._stage.made.client.base_url, timeout=60, trust_env=False) as client:
            while not self._over.wait(0.02):
                started = time.monotonic()
                with contextlib.suppress(httpx.HTTPError):
                    client.get("/livez")
                self.seconds.append(time.monotonic() - started)

    def _read(self) -> None:
        service = self._stage.made.service
        while service is not None and not self._over.wait(0.02):
            self.megabytes.append(read_memory(service.pid))


class Callers:
    """Another project's evaluations, one after the other, while a block runs."""

    def __init__(self, stage: Stage, headers: dict[str, str]) -> None:
        self.seconds: list[float] = []
        self.failed = 0
        self._stage, self._headers, self._sent = stage, headers, 0

    def p95(self) -> float:
        return float(np.quantile(self.seconds, 0.95)) if self.seconds else float("inf")

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        over = threading.Event()
        self.seconds = []

        def call() -> None:
            with httpx.Client(base_url=self._stage.made.client.base_url, timeout=120, trust_env=False) as client:
                while not over.is_set():
                    self._sent += 1
                    item = make_item(name, self._sent)
                    body = {"context": item["context"], "response": item["response"], "relevance": None}
                    started = time.monotonic()
                    answer = client.post("/v1/evaluations", json=body, headers=self._headers)
                    self.seconds.append(time.monotonic() - started)
                    self.failed += answer.status_code != 200

        thread = threading.Thread(target=call)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def post_all(stage: Stage, bodies: list[dict[str, Any]], headers: dict[str, str], seconds: float) -> list[str]:
    """Sends the conversations at once, and hangs up on those that take longer than so many seconds."""

    async def post(client: httpx.AsyncClient, content: bytes) -> str:
        try:
            sent = {**headers, "Content-Type": "application/json"}
            answer = await client.post("/v1/conversations", content=content, headers=sent)
        except httpx.TimeoutException:
            return "hung up"
        if answer.status_code != 200:
            return f"{answer.status_code} {answer.json()['code']}"
        return f"200 with {answer.json()['usage']['judge_calls']} calls"

    async def send() -> list[str]:
        contents = [json.dumps(body, ensure_ascii=False).encode() for body in bodies]
        base = stage.made.client.base_url
        async with httpx.AsyncClient(base_url=base, timeout=seconds, trust_env=False) as client:
            return await asyncio.gather(*(post(client, content) for content in contents))

    return asyncio.run(send())


def requests_are_heavy(make: Callable[[str], dict[str, Any]], *, count: int, seconds: float) -> Row:
    """So many requests with much work at once, sent again and again; their caller hangs up after so many seconds."""

    def row(stage: Stage) -> None:
        url = f"sqlite+aiosqlite:///{stage.made.folder / 'saiten.db'}"
        _, heavy = asyncio.run(make_key(url, "heavy"))
        _, light = asyncio.run(make_key(url, "light"))
        callers = Callers(stage, light)
        for _ in range(2):  # the first loads what the service has not loaded yet
            with Watch(stage) as quiet, callers.calling("alone"):
                time.sleep(SAMPLES_SECONDS / 2)
        alone, service = callers.p95(), stage.made.service
        before = read_memory(service.pid) if service is not None else 0.0
        asked = stage.made.judge.stats()["requests"]
        with Watch(stage) as watch, callers.calling("beside"):
            started = time.monotonic()
            answers: list[str] = []
            while not answers or time.monotonic() - started < SAMPLES_SECONDS:
                bodies = [make(f"{len(answers)}-{number}") for number in range(count)]
                answers += post_all(stage, bodies, heavy, seconds)
        calls = stage.made.judge.stats()["requests"] - asked - len(callers.seconds)
        time.sleep(1)
        settled = stage.made.judge.stats()["requests"]
        time.sleep(3)
        stage.note(f"answers {sorted(set(answers))}, calls {calls}")
        later = stage.made.judge.stats()["requests"] - settled
        stage.expect(later == 0, f"calls after the caller left {later}")
        more, beside = max(watch.megabytes) - before, callers.p95()
        stage.expect(more <= MOST_MEMORY_MEGABYTES, f"memory +{more:.0f} MB (≤ {MOST_MEMORY_MEGABYTES:.0f})")
        slowest = max(watch.seconds)
        words = f"livez {slowest:.2f} s (≤ {MOST_LIVEZ_SECONDS}), alone {max(quiet.seconds):.2f}"
        stage.expect(slowest <= MOST_LIVEZ_SECONDS, words)
        words = f"others p95 {beside:.2f} s, alone {alone:.2f} (≤ {MOST_SLOWER:.0f} ×), failed {callers.failed}"
        stage.expect(beside <= MOST_SLOWER * alone and not callers.failed, words)

    return row


async def make_key(url: str, project: str, **limits: Any) -> tuple[str, dict[str, str]]:
    return await make_limited_key(url, project=project, **limits)


def money_is_short(stage: Stage) -> None:
    """A key that may cost little a day asks for much at once, then for as much as it gets in many small requests."""
    url = f"sqlite+aiosqlite:///{stage.made.folder / 'saiten.db'}"
    _, key = asyncio.run(make_key(url, "poor", usd_per_day=DAILY_USD))
    heavy = [make_conversation(f"poor{number}", turns=TURNS, samples=5, characters=30) for number in range(3)]
    stage.note(f"answers {post_all(stage, heavy, key, 60)}")
    answers: list[dict[str, Any]] = []

    async def send() -> None:
        base = stage.made.client.base_url
        async with httpx.AsyncClient(base_url=base, timeout=60, trust_env=False, headers=key) as client:

            async def post(number: int) -> None:
                item = make_item("poor", number)
                body = {"context": item["context"], "response": item["response"], "relevance": None}
                answers.append((await client.post("/v1/evaluations", json=body)).json())

            await asyncio.gather(*(post(number) for number in range(64)))

    asyncio.run(send())
    costs = [answer["usage"]["cost_usd"] for answer in answers if "usage" in answer]
    info = stage.made.client.get("/v1/info", headers=key).json()["key"]
    over = info["spent_usd_today"] - DAILY_USD
    words = f"{len(costs)} of 64 small ones scored, spent {info['spent_usd_today']:.6f} of {DAILY_USD} USD a day"
    stage.expect(over <= max(costs, default=0.0) and bool(costs), words)


HEAVY_ROWS: dict[str, Row] = {
    # The largest body that is taken, and the longest texts for its number of turns.
    "heavy-texts": requests_are_heavy(
        lambda name: make_conversation(name, turns=TURNS, samples=16, characters=3_400), count=1, seconds=30
    ),
    # Nearly as many tokens as the service takes in one request.
    "heavy-long": requests_are_heavy(
        lambda name: make_conversation(name, turns=100, samples=2, characters=3_400), count=1, seconds=30
    ),
    "heavy-calls": requests_are_heavy(
        lambda name: make_conversation(name, turns=TURNS, samples=16, characters=40), count=3, seconds=30
    ),
    # As many calls as the service takes in one request.
    "heavy-taken": requests_are_heavy(
        lambda name: make_conversation(name, turns=TURNS, samples=4, characters=40), count=3, seconds=8
    ),
    "heavy-money": money_is_short,
}
"""By name; each on a service that works by itself."""
