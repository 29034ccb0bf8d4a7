"""Evaluations a second through the service over HTTP: fresh, cached, and by the lexical judge.

The judge is the fake endpoint of the tests, which answers at once: what is measured is Saiten's own work an item. It
runs in this process and shares its core with the service, so the figures are a floor.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.serving import serving

ITEMS = 400
IN_FLIGHT = 32
ROUNDS = 3


async def post_all(client: httpx.AsyncClient, bodies: list[dict[str, Any]]) -> float:
    """Items a second."""
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def post(body: dict[str, Any]) -> None:
        async with gate:
            (await client.post("/v1/evaluations", json=body)).raise_for_status()

    started = time.perf_counter()
    await asyncio.gather(*map(post, bodies))
    return len(bodies) / (time.perf_counter() - started)


def make_bodies(round_number: int) -> list[dict[str, Any]]:
    """Items that no other round has."""
    return [{**BODY, "response": f"おはよう、よく眠れた？（{round_number}-{item}）"} for item in range(ITEMS)]


async def measure() -> dict[str, float]:
    """The median of the rounds of each kind, in items a second."""
    rates: dict[str, list[float]] = {"fresh": [], "cached": [], "lexical": []}
    with tempfile.TemporaryDirectory() as folder:
        async with FakeOpenAI() as fake:
            settings = {"openai_api_key": "k", "openai_base_url": fake.base_url, "log_level": "error"}
            async with serving(Path(folder), **settings) as client:
                for number in range(ROUNDS):
                    rates["fresh"].append(await post_all(client, make_bodies(number)))
                    rates["cached"].append(await post_all(client, make_bodies(number)))
        async with serving(Path(folder), judge="lexical", log_level="error") as client:
            await post_all(client, make_bodies(0)[:1])
            rates["lexical"] = [await post_all(client, make_bodies(number)) for number in range(ROUNDS)]
    return {kind: statistics.median(found) for kind, found in rates.items()}


def main() -> None:
    print(f"evaluations over HTTP, {ITEMS} items, {IN_FLIGHT} in flight, SQLite, median of {ROUNDS} rounds")
    for kind, rate in asyncio.run(measure()).items():
        print(f"  {kind:8} {rate:8.0f} items/s   {1000 / rate:6.2f} ms an item")


if __name__ == "__main__":
    main()
