"""Batches as a caller posts them over HTTP."""

import asyncio
import json
from typing import Any

import httpx

NDJSON = {"Content-Type": "application/x-ndjson"}
SECONDS = 240


def make_item(number: int = 0, **changes: Any) -> dict[str, Any]:
    """An item `i<number>` that no other number's equals."""
    context = [{"speaker": "A", "text": "週末はどこかに出かけましたか？"}]
    return {"id": f"i{number}", "context": context, "response": f"海まで行ってきました。（{number}）", **changes}


def make_context(number: int) -> list[dict[str, str]]:
    """A context that no other number's equals: items with equal contexts count as one dialogue."""
    return [{"speaker": "A", "text": f"週末はどこかに出かけましたか？（{number}）"}]


def make_body(count: int = 3, **options: Any) -> dict[str, Any]:
    """A batch of so many items."""
    return {**options, "items": [make_item(number) for number in range(count)]}


def write_ndjson(body: dict[str, Any]) -> bytes:
    """The same batch as NDJSON: the options first, then a line an item."""
    options = {name: value for name, value in body.items() if name != "items"}
    lines = [options, *body["items"]]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


async def post_batch(client: httpx.AsyncClient, count: int = 3, **options: Any) -> dict[str, Any]:
    """The accepted batch."""
    response = await client.post("/v1/batches", json=make_body(count, **options))
    if response.status_code != 202:
        raise RuntimeError(f"{response.status_code} {response.text}")
    found: dict[str, Any] = response.json()
    return found


async def wait_for(
    client: httpx.AsyncClient, batch_id: str, status: str = "completed", headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """The batch once it has this status."""
    async with asyncio.timeout(SECONDS):
        while True:
            batch: dict[str, Any] = (await client.get(f"/v1/batches/{batch_id}", headers=headers)).json()
            if batch["status"] == status:
                return batch
            await asyncio.sleep(0.02)


async def post_run(client: httpx.AsyncClient, build: str, count: int = 3, **options: Any) -> str:
    """The id of a completed run of `nightly`."""
    metadata = {"system": "bot-a", "build": build}
    batch = await post_batch(client, count, **{"name": "nightly", "metadata": metadata, **options})
    await wait_for(client, batch["id"])
    return str(batch["id"])
