"""The soak's requests: those of every day, and those of callers who are wrong, impatient or strangers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx

from benchmarks.load import (
    USUAL,
    Callers,
    Operation,
    make_body,
    post_batch,
    read,
    show_runs,
)

IMPATIENCE_SECONDS = 0.08
"""Less than the judge takes: the caller is gone before the answer."""


async def read_results(callers: Callers, client: httpx.AsyncClient) -> str:
    if not callers.batches:
        return await post_batch(callers, client)
    return read(await client.get(f"/v1/batches/{callers.chance.choice(callers.batches[-50:])}/results"), 200)


async def follow(callers: Callers, client: httpx.AsyncClient) -> str:
    """Opens a stream of a batch's events, reads the first, and hangs up."""
    if not callers.batches:
        return await post_batch(callers, client)
    async with client.stream("GET", f"/v1/batches/{callers.batches[-1]}/events") as response:
        fault = read(response, 200) if response.status_code == 200 else str(response.status_code)
        with suppress(TimeoutError):
            async with asyncio.timeout(callers.chance.uniform(0.1, 3.0)):
                async for _ in response.aiter_bytes():
                    pass
    return fault


async def ask_badly(callers: Callers, client: httpx.AsyncClient) -> str:
    """What is refused before anybody is asked: no JSON, a missing field, an unknown path, the wrong type."""
    kind = callers.chance.randrange(4)
    if kind == 0:
        wrong = await client.post("/v1/evaluations", content=b'{"context', headers={"Content-Type": "application/json"})
        return read(wrong, 400)
    if kind == 1:
        return read(await client.post("/v1/evaluations", json={"context": []}), 422)
    if kind == 2:
        return read(await client.get(f"/v1/batches/ba_{callers.next_number()}"), 404)
    return read(await client.post("/v1/evaluations", content=b"a", headers={"Content-Type": "text/plain"}), 415)


async def ask_without_key(callers: Callers, client: httpx.AsyncClient) -> str:
    headers = {"Authorization": f"Bearer stranger-{callers.next_number()}"}
    return read(await client.post("/v1/evaluations", json=make_body(0), headers=headers), 401)


async def hang_up(callers: Callers, client: httpx.AsyncClient) -> str:
    """A caller that does not wait for the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(IMPATIENCE_SECONDS):
            return read(await client.post("/v1/evaluations", json=make_body(callers.next_number())), 200)
    return ""


async def show_run(callers: Callers, client: httpx.AsyncClient) -> str:
    """A run's page, with charts; it may still be computing."""
    if not callers.batches:
        return await show_runs(callers, client)
    run = callers.chance.choice(callers.batches[-50:])
    return read(await client.get(f"/runs/{run}", headers={"Accept": "text/html"}), 200, 202)


async def probe(callers: Callers, client: httpx.AsyncClient) -> str:
    return read(await client.get(callers.chance.choice(["/livez", "/readyz", "/metrics", "/v1/info"])), 200)


EVERYTHING: dict[str, tuple[Operation, float]] = {
    **USUAL,
    "post batch": (post_batch, 1),
    "read results": (read_results, 2),
    "follow a batch": (follow, 3),
    "bad request": (ask_badly, 5),
    "no key": (ask_without_key, 3),
    "hung up": (hang_up, 4),
    "run's page": (show_run, 1.5),
    "probe": (probe, 2),
}
