"""Verdicts that are kept: what is stored, who may, and what they go with."""

import json
from pathlib import Path
from typing import Any

import httpx

from saiten_server.platform.sql.engine import close_engine, open_engine
from saiten_server.runs.quota import count_stored
from tests.support.gate_files import make_result
from tests.support.keyed import make_keys
from tests.support.posted import NDJSON, post_batch, wait_for

RULES = [{"aspect": "overall", "max_drop": 0.1}]


async def score(client: httpx.AsyncClient, **options: Any) -> str:
    found: str = (await post_batch(client, 8, relevance=None, **options))["id"]
    await wait_for(client, found)
    return found


async def test_a_kept_verdict_is_read_listed_and_replayed(client: httpx.AsyncClient, tmp_path: Path) -> None:
    before, after = await score(client), await score(client, metadata={"build": "1a2b"})
    asked = {"candidate": after, "baseline": before, "rules": RULES}
    assert "id" not in (await client.post("/v1/gates", json=asked)).json()
    assert (await client.get("/v1/gates")).json() == {"items": [], "next": None}

    headers = {"Idempotency-Key": "nightly-1"}
    first = await client.post("/v1/gates", json={**asked, "keep": True}, headers=headers)
    kept = first.json()
    assert kept["id"].startswith("ga_")
    assert kept["runs"] == {"candidate": after, "baseline": before}
    assert kept["metadata"] == {"build": "1a2b"}
    again = await client.post("/v1/gates", json={**asked, "keep": True}, headers=headers)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (kept, "true")
    other = await client.post("/v1/gates", json={**asked, "keep": True, "alpha": 0.1}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert (await client.get(f"/v1/gates/{kept['id']}")).json() == kept
    told = (await client.get(f"/v1/gates/{kept['id']}", headers={"Accept-Language": "ja"})).json()
    assert (told["verdict"], told["reasons"]) != (kept["verdict"], kept["reasons"])
    assert [one["messages"] for one in told["reasons"]] == [one["messages"] for one in kept["reasons"]]
    assert (await client.get("/v1/gates/ga_0")).status_code == 404

    newer = (await client.post("/v1/gates", json={**asked, "keep": True, "metadata": {"commit": "c1"}})).json()
    assert newer["metadata"] == {"commit": "c1"}
    swapped = (await client.post("/v1/gates", json={"candidate": before, "coverage_only": True, "keep": True})).json()
    assert swapped["runs"] == {"candidate": before, "baseline": None}
    listed: list[str] = []
    cursor = None
    while True:
        page = (await client.get("/v1/gates", params={"limit": 1, **({"cursor": cursor} if cursor else {})})).json()
        listed += [one["id"] for one in page["items"]]
        assert [one["comparison"] for one in page["items"]] == [None]
        cursor = page["next"]
        if cursor is None:
            break
    assert listed == [swapped["id"], newer["id"], kept["id"]]
    for query, found in (
        ({"candidate": after}, [newer["id"], kept["id"]]),
        ({"baseline": before, "candidate": after}, [newer["id"], kept["id"]]),
        ({"candidate": "ba_0"}, []),
    ):
        page = (await client.get("/v1/gates", params=query)).json()
        assert [one["id"] for one in page["items"]] == found

    # It counts as stored, and goes with either of its batches.
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    full = await count_stored(engine, "default")
    await client.delete(f"/v1/batches/{before}")
    assert (await client.get("/v1/gates")).json() == {"items": [], "next": None}
    assert await count_stored(engine, "default") < full - 3 * len(json.dumps(kept["reasons"]))
    await close_engine(engine)


async def test_a_verdict_on_results_is_kept_without_them_and_erased_by_its_metadata(client: httpx.AsyncClient) -> None:
    lines = [{"keep": True, "rules": RULES, "metadata": {"commit": "c1", "by": "kim"}}]
    lines += [{"run": run, **make_result(at)} for run in ("candidate", "baseline") for at in range(8)]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    headers = {**NDJSON, "Idempotency-Key": "k"}
    kept = (await client.post("/v1/gates", content=content, headers=headers)).json()
    assert kept["runs"] == {"candidate": None, "baseline": None}
    assert (await client.post("/v1/gates", content=content, headers=headers)).json() == kept
    assert (await client.get("/v1/batches")).json()["items"] == []
    for metadata, left in (({"by": "lee"}, [kept["id"]]), ({"by": "kim", "commit": "c1"}, [])):
        assert (await client.post("/v1/erasures", json={"metadata": metadata})).status_code == 200
        assert [one["id"] for one in (await client.get("/v1/gates")).json()["items"]] == left


async def test_a_key_that_may_only_read_keeps_nothing(client: httpx.AsyncClient, tmp_path: Path) -> None:
    writes, reads = await make_keys(tmp_path, ("team", "write"), ("team", "read"))
    asked = {"candidate": {"results": [make_result(0)]}, "coverage_only": True}
    assert (await client.post("/v1/gates", json=asked, headers=reads)).status_code == 200
    refused = await client.post("/v1/gates", json={**asked, "keep": True}, headers=reads)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient-scope")
    assert (await client.post("/v1/gates", json={**asked, "keep": True}, headers=writes)).json()["id"]
