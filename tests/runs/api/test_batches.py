"""`/v1/batches`: whole or not at all, once for each key, each project its own; listed, steered and erased."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import open_engine
from tests.support import fake_openai
from tests.support.cases import in_turn
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import NDJSON, make_body, make_item, post_batch, wait_for, write_ndjson
from tests.support.serving import serving

KEY = {"Idempotency-Key": "k1"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def service_settings(redis_url: str) -> dict[str, Any]:
    """With Redis batches are left to workers, and there is none."""
    return {"judge": "lexical", "redis_url": redis_url}


async def list_ids(client: httpx.AsyncClient, query: str = "", **more: Any) -> list[str]:
    response = await client.get(f"/v1/batches{query}", **more)
    assert response.status_code == 200, response.text
    return [batch["id"] for batch in response.json()["items"]]


@pytest.mark.parametrize("ndjson", [False, True])
async def test_a_batch_is_accepted_in_either_form(client: httpx.AsyncClient, ndjson: bool) -> None:
    body = make_body(2, name="夜間", metadata={"system": "bot-a"}, budget_usd=1.5, rubric="ja-dialogue")
    body["items"].append({"context": make_item()["context"], "responses": ["はい。", "いいえ。"]})
    content, headers = (write_ndjson(body), NDJSON) if ndjson else (json.dumps(body).encode(), JSON)
    response = await client.post("/v1/batches", content=content, headers=headers)
    batch = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/batches/{batch['id']}"
    assert (batch["status"], batch["name"], batch["progress"]) == ("queued", "夜間", 0.0)
    assert batch["counts"] == {"total": 4, "queued": 4, "scored": 0, "partial": 0, "failed": 0, "expired": 0}
    assert (await client.get(response.headers["location"])).json() == batch


@in_turn(
    ("change", "expected"),
    [
        ({"items": [make_item(0), make_item(1, response="")]}, ["/items/1/response"]),
        ({"items": [make_item(0), make_item(1, context=[]), make_item(2, extra=1)]}, ["/items/1/context", "/items/2/extra"]),
        ({"items": []}, ["/items"]),
        ({"rubric": "no-such"}, ["/rubric"]),
        ({"relevance": {"aspects": ["naturalness", "charm"]}}, ["/relevance/aspects/1"]),
        ({"rubric": "ko-comment", "path": "english"}, None),
        ({"budget_usd": -1}, ["/budget_usd"]),
        ({"judge": {"samples": 17}}, ["/judge/samples"]),
        ({"colour": "red"}, ["/colour"]),
    ],
)  # fmt: skip
@in_turn("ndjson", [False, True])
async def test_a_fault_refuses_the_whole_batch_and_is_pointed_at(
    client: httpx.AsyncClient, change: dict[str, Any], expected: list[str] | None, ndjson: bool
) -> None:
    body = make_body() | change
    content, headers = (write_ndjson(body), NDJSON) if ndjson else (json.dumps(body).encode(), JSON)
    for path in ("/v1/batches", "/v1/estimates"):
        response = await client.post(path, content=content, headers=headers)
        problem = response.json()
        if expected is None:
            assert (response.status_code, problem["code"]) == (422, "translator-not-configured")
        else:
            assert response.status_code == 422, problem
            assert [fault["pointer"] for fault in problem["errors"]] == expected
    assert await list_ids(client) == []


@in_turn(
    ("content", "headers", "status", "code"),
    [
        (b"{", JSON, 400, "invalid-json"),
        (b"", NDJSON, 400, "invalid-json"),
        (b'{}\n{"context": nonsense}\n', NDJSON, 400, "invalid-json"),
        (b"{}", {}, 415, "unsupported-media-type"),
        (b"{}", {"Content-Type": "text/csv"}, 415, "unsupported-media-type"),
        (b"{}", {**NDJSON, "Content-Encoding": "gzip"}, 415, "unsupported-media-type"),
        (b"{}", {"Content-Type": "application/x-ndjson; charset=shift_jis"}, 415, "unsupported-media-type"),
        (json.dumps(make_body()).encode(), {**JSON, "Idempotency-Key": "あ".encode()}, 400, "invalid-idempotency-key"),
    ],
)
async def test_what_is_no_batch_is_a_problem(
    client: httpx.AsyncClient, content: bytes, headers: dict[str, Any], status: int, code: str
) -> None:
    response = await client.post("/v1/batches", content=content, headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert await list_ids(client) == []


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/estimates"])
async def test_items_without_a_line_of_options_are_told_what_is_missing(client: httpx.AsyncClient, path: str) -> None:
    content = "".join(f"{json.dumps(item)}\n" for item in make_body()["items"]).encode()
    answer = await client.post(path, content=b"\n" + content, headers=NDJSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    [fault] = answer.json()["errors"]
    assert fault["detail"].startswith("line 2: the first line must be the options, and this looks like an item")
    assert (await client.post(path, content=b"{}\n" + content, headers=NDJSON)).status_code < 300


async def test_an_items_size_is_limited_where_the_batch_is_not(tmp_path: Path) -> None:
    limits = {"body_bytes": 2000, "batch_bytes": 20_000}
    async with serving(tmp_path, judge="lexical", limits=limits) as client:
        fits = await client.post("/v1/batches", content=write_ndjson(make_body(50)), headers=NDJSON)
        large = await client.post("/v1/batches", json={"items": [make_item(0, response="あ" * 700)]})
        declared = await client.post("/v1/batches", json=make_body(500))

        async def stream() -> AsyncIterator[bytes]:
            for line in write_ndjson(make_body(500)).splitlines(keepends=True):
                yield line

        streamed = await client.post("/v1/batches", content=stream(), headers=NDJSON)
        assert len(await list_ids(client)) == 1
    assert fits.status_code == 202
    assert (large.status_code, "2000 bytes" in large.text) == (422, True)
    assert (declared.status_code, streamed.status_code) == (413, 413)
    assert "20000 bytes" in streamed.json()["detail"]


async def test_the_same_key_and_body_replay(client: httpx.AsyncClient) -> None:
    content = write_ndjson(make_body())
    first = await client.post("/v1/batches", content=content, headers=NDJSON | KEY)
    second = await client.post("/v1/batches", content=content, headers=NDJSON | KEY)
    other = await client.post("/v1/batches", content=content + b"\n", headers=NDJSON | KEY)
    assert (first.status_code, second.status_code) == (202, 202)
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert len(await list_ids(client)) == 1


async def test_a_refused_batch_leaves_its_key_free(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/batches", json=make_body(rubric="no-such"), headers=KEY)
    accepted = await client.post("/v1/batches", json=make_body(), headers=KEY)
    assert (refused.status_code, accepted.status_code) == (422, 202)


async def test_a_list_is_filtered(client: httpx.AsyncClient) -> None:
    one = await post_batch(client, name="a", metadata={"system": "x", "build": "1"})
    two = await post_batch(client, name="b", metadata={"system": "x", "build": "2"}, rubric="ko-comment")
    await client.post(f"/v1/batches/{one['id']}/pause")
    for query, expected in (
        ("", [two, one]),
        ("?name=a", [one]),
        ("?rubric=ko-comment", [two]),
        ("?status=paused", [one]),
        ("?metadata.system=x", [two, one]),
        ("?metadata.system=x&metadata.build=1", [one]),
        ("?metadata.system=y", []),
        ("?name=%00", []),
    ):
        assert await list_ids(client, query) == [batch["id"] for batch in expected], query
    for query in ("?status=done", "?limit=0", "?limit=201", "?metadata.a=1&metadata.a=2"):
        assert (await client.get(f"/v1/batches{query}")).status_code == 422


async def test_pages_follow_each_other(client: httpx.AsyncClient) -> None:
    made = [(await post_batch(client, 1, metadata={"n": "1"}))["id"] for _ in range(5)]
    found: list[str] = []
    url = "/v1/batches?metadata.n=1&limit=2"
    while url:
        response = await client.get(url)
        found += [batch["id"] for batch in response.json()["items"]]
        assert ("next" in response.links) is (response.json()["next"] is not None)
        url = response.links.get("next", {}).get("url", "")
    assert found == made[::-1]


@in_turn(
    "cursor", ["x", "%E3%81%82", "%00", "YXxi", "MjAyNi0wMS0wMXxiYV8x", "MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMHxiYV8x"]
)
async def test_a_cursor_that_nobody_gave_is_refused(client: httpx.AsyncClient, cursor: str) -> None:
    response = await client.get(f"/v1/batches?cursor={cursor}")
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/query/cursor")


async def test_steering(client: httpx.AsyncClient) -> None:
    path = f"/v1/batches/{(await post_batch(client))['id']}"
    for step, status, reason in (
        ("resume", "queued", None),
        ("pause", "paused", "requested"),
        ("pause", "paused", "requested"),
        ("resume", "queued", None),
        ("cancel", "cancelled", None),
        ("cancel", "cancelled", None),
    ):
        response = await client.post(f"{path}/{step}")
        assert (response.status_code, response.json()["status"]) == (200, status), step
        assert response.json()["pause_reason"] == reason
    for step in ("pause", "resume"):
        response = await client.post(f"{path}/{step}")
        assert (response.status_code, response.json()["code"]) == (409, "batch-finished")
        assert "cancelled" in response.json()["detail"]


async def test_a_completed_batch_is_not_cancelled(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        batch = await post_batch(client)
        await wait_for(client, batch["id"])
        response = await client.post(f"/v1/batches/{batch['id']}/cancel")
        assert (response.status_code, response.json()["code"]) == (409, "batch-finished")
        assert (await client.get(f"/v1/batches/{batch['id']}")).json()["status"] == "completed"


ROUTES = [
    ("GET", ""),
    ("GET", "/results"),
    ("GET", "/results?format=csv"),
    ("GET", "/summary"),
    ("GET", "/events"),
    ("POST", "/pause"),
    ("POST", "/resume"),
    ("POST", "/cancel"),
    ("DELETE", ""),
]


async def test_an_erased_batch_is_gone(client: httpx.AsyncClient) -> None:
    path = f"/v1/batches/{(await post_batch(client))['id']}"
    assert (await client.delete(path)).status_code == 204
    for method, part in ROUTES:
        response = await client.request(method, path + part)
        assert (response.status_code, response.json()["code"]) == (404, "not-found"), part
    assert await list_ids(client) == []


async def test_another_projects_batches_do_not_exist(client: httpx.AsyncClient, tmp_path: Path) -> None:
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    keys = {}
    for project, scope in (("team", "write"), ("rivals", "write"), ("team", "read")):
        _, text = await APIKeyStore(engine).create("k", project, scope)  # type: ignore[arg-type]
        keys[project, scope] = {"Authorization": f"Bearer {text}"}
    await engine.dispose()
    own, rival, reader = keys["team", "write"], keys["rivals", "write"], keys["team", "read"]
    batch = (await client.post("/v1/batches", json=make_body(), headers=own)).json()
    path = f"/v1/batches/{batch['id']}"
    for method, part in ROUTES:
        assert (await client.request(method, path + part, headers=rival)).status_code == 404, part
        if method != "GET":
            assert (await client.request(method, path + part, headers=reader)).status_code == 403
    assert await list_ids(client, headers=rival) == []
    assert await list_ids(client, headers=reader) == [batch["id"]]
    assert (await client.get(path, headers=reader)).json() == batch
    assert (await client.post("/v1/batches", json=make_body(), headers=reader)).status_code == 403


async def test_the_document_knows_both_forms_and_every_route(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    paths, schemas = document["paths"], document["components"]["schemas"]
    for path in ("/v1/batches", "/v1/estimates"):
        content = paths[path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", "application/x-ndjson"}
        lines = content["application/x-ndjson"]["example"].encode()
        assert (await client.post(path, content=lines, headers=NDJSON)).is_success
        assert (await client.post(path, json=content["application/json"]["example"])).is_success
    assert {path.removeprefix("/v1/batches/{batch_id}") for path in paths if "{batch_id}" in path} == {
        "", "/results", "/summary", "/events", "/pause", "/resume", "/cancel",
    }  # fmt: skip
    assert {"BatchRequest", "BatchItem", "Batch", "BatchPage", "Summary", "EstimateReport"} <= set(schemas)
    results = paths["/v1/batches/{batch_id}/results"]["get"]["responses"]["200"]["content"]
    assert set(results) == {"application/x-ndjson", "text/csv", "application/vnd.apache.parquet"}
    referred = set(json.dumps(document).split('"#/components/schemas/')[1:])
    assert {part.split('"')[0] for part in referred} <= set(schemas)


async def test_at_the_same_time_one_is_made_and_the_rest_told(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.post("/v1/batches", json=make_body(), headers=KEY) for _ in range(4)))
    assert {answer.status_code for answer in answers} <= {202, 409}
    made = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert await list_ids(client) == list(made)
    assert len(made) == 1


@pytest.mark.parametrize("affordable", [0, 3, 40])
async def test_a_budget_stops_the_batch_before_it_is_passed(tmp_path: Path, affordable: int) -> None:
    async with FakeOpenAI() as fake:
        settings = {"openai_api_key": "k", "openai_base_url": fake.base_url}
        async with serving(tmp_path, **settings) as client:
            one = await wait_for(client, (await post_batch(client, 1, relevance=None))["id"])
            budget = affordable * 2 * one["usage"]["cost_usd"]
            batch = await post_batch(client, 100, relevance=None, budget_usd=budget)
            batch = await wait_for(client, batch["id"], "paused")
    assert batch["pause_reason"] == "budget-exhausted"
    assert batch["usage"]["cost_usd"] <= budget
    # What is left is less than what the next may cost: reckoned at two tries, and half as dear again as it will be.
    assert budget - batch["usage"]["cost_usd"] <= 3 * one["usage"]["cost_usd"]
    assert len(fake.requests) < 100


async def test_a_candidate_refused_in_broken_words_is_a_result_and_no_end_of_the_work(
    tmp_path: Path, database_url: str
) -> None:
    """As of a gateway that cuts the text that it quotes in the middle of an emoji: no store can hold its words."""
    async with FakeOpenAI() as fake:
        settings = {"openai_api_key": "k", "openai_base_url": fake.base_url, "database_url": database_url}
        async with serving(tmp_path, **settings) as client:
            await wait_for(client, (await post_batch(client, 1, relevance=None))["id"])  # the first of those below, too
            fake.default = fake_openai.status(400, "cannot process こ\ud83d\x00")
            batch = await wait_for(client, (await post_batch(client, 3, name="broken", relevance=None))["id"])
            results = (await client.get(f"/v1/batches/{batch['id']}/results")).text.splitlines()
    assert batch["counts"]["failed"] == 2
    errors = [one["error"] for one in map(json.loads, results) if one["status"] == "failed"]
    assert {one["code"] for one in errors} == {"judge-refused-request"}
    assert all("cannot process こ\ufffd" in one["detail"] for one in errors)
