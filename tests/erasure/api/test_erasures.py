"""`POST /v1/erasures` over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.keyed import make_keys
from tests.support.records import BODY
from tests.support.serving import serving

USER = {"user": "u-42"}
ITEM = {"context": BODY["context"], "response": "秘密の返事"}


async def post_batch(client: httpx.AsyncClient, items: list[dict[str, Any]], **options: Any) -> str:
    """A completed batch's id."""
    made = await client.post("/v1/batches", json={"relevance": None, "items": items, **options})
    assert made.status_code == 202, made.text
    async with client.stream("GET", f"/v1/batches/{made.json()['id']}/events") as events:
        async for _ in events.aiter_lines():
            pass
    return str(made.json()["id"])


async def test_everything_that_bears_the_mark_goes_and_nothing_else(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        single = (await client.post("/v1/evaluations", json={**BODY, "metadata": USER})).json()["id"]
        other = (await client.post("/v1/evaluations", json=BODY)).json()["id"]
        marked = await post_batch(client, [ITEM], metadata=USER)
        mixed = await post_batch(client, [{**ITEM, "metadata": USER}, {**ITEM, "response": "はい"}])
        answer = await client.post("/v1/erasures", json={"metadata": USER})
        assert answer.json() == {
            "batches": 1,
            "candidates": 1,
            "evaluations": 1,
            "dataset_items": 0,
            "live_conversations": 0,
        }
        assert (await client.get(f"/v1/evaluations/{single}")).status_code == 404
        assert (await client.get(f"/v1/evaluations/{other}")).status_code == 200
        assert (await client.get(f"/v1/batches/{marked}")).status_code == 404
        summary = (await client.get(f"/v1/batches/{mixed}/summary")).json()
        assert summary["counts"]["failed"] == 1
        assert {one["n"] for one in summary["aspects"].values()} == {1}
        page = await client.get(f"/runs/{mixed}/items/0")
        assert page.status_code == 200
        assert "[text erased]" in page.text
        assert (await client.post("/v1/erasures", json={"metadata": USER})).json()["candidates"] == 0
        events = (await client.get("/v1/audit")).json()["items"]
        assert [one["action"] for one in events if one["action"].startswith("erasure")] == [
            *("erasure.done", "erasure.begun") * 2
        ]
        assert "u-42" not in str(events)
    assert all("秘密の返事".encode() not in path.read_bytes() for path in tmp_path.glob("saiten.db*"))


async def test_what_is_erased_is_not_replayed(tmp_path: Path) -> None:
    key, other = {"Idempotency-Key": "k1"}, {"Idempotency-Key": "k2"}
    asked = {**BODY, "metadata": USER}
    batch = {"relevance": None, "items": [ITEM], "metadata": USER}
    async with serving(tmp_path, judge="lexical") as client:

        async def ask() -> tuple[list[str], list[bool]]:
            """The ids, and whether they were replayed."""
            told = [
                await client.post("/v1/evaluations", json=asked, headers=key),
                await client.post("/v1/batches", json=batch, headers=other),
            ]
            return [one.json()["id"] for one in told], ["idempotent-replayed" in one.headers for one in told]

        first, _ = await ask()
        assert await ask() == (first, [True, True])
        await client.post("/v1/erasures", json={"metadata": USER})
        later, replayed = await ask()
        assert replayed == [False, False]
        assert not {*first} & {*later}


async def test_only_administrators_erase(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        keys = await make_keys(tmp_path, ("team", "read"), ("team", "write"), ("team", "admin"))
        for key, status in zip(keys, (403, 403, 200), strict=True):
            answer = await client.post("/v1/erasures", json={"metadata": USER}, headers=key)
            assert answer.status_code == status


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": {"user": 42}}, {"metadata": USER, "all": True}])
async def test_what_names_nothing_is_refused(tmp_path: Path, body: dict[str, Any]) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        assert (await client.post("/v1/erasures", json=body)).status_code == 422
