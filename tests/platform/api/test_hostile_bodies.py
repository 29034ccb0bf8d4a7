"""Bodies that are small to send and large to read: refused with a few faults, before their values are looked at."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from saiten_server.core.errors import MOST_REFUSED
from tests.support.cases import in_turn
from tests.support.posted import NDJSON
from tests.support.records import BODY
from tests.support.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}
MANY = {str(number): 1 for number in range(30_000)}
ITEM = {name: BODY[name] for name in ("context", "response")}

BODIES: dict[str, tuple[str, Any]] = {
    "faults in a list": ("/v1/evaluations", {**BODY, "reference": [0] * 30_000}),
    "unknown fields": ("/v1/evaluations", {**BODY, **MANY}),
    "metadata": ("/v1/evaluations", {**BODY, "metadata": MANY}),
    "responses of an item": ("/v1/batches", {"items": [{"context": BODY["context"], "responses": [0] * 30_000}]}),
    "unknown fields of an item": ("/v1/batches", {"items": [{**ITEM, **MANY}]}),
    "unknown options of a batch": ("/v1/batches", {**MANY, "items": [ITEM]}),
    "metadata of a batch": ("/v1/batches", {"metadata": MANY, "items": [ITEM]}),
    "an estimate": ("/v1/estimates", {"items": [{**ITEM, **MANY}]}),
    "labels of an analysis": ("/v1/analyses/agreement", {"data": [{"item": "1"}], "labels": MANY}),
    "unknown options of an analysis": ("/v1/analyses/agreement", {"data": [{"item": "1"}], **MANY}),
    "a comparison": ("/v1/comparisons", MANY),
    "rules of a gate": ("/v1/gates", {"candidate": "ba_1", "rules": [{}] * 30_000}),
    "a rating": ("/v1/ratings", {"item": "1", "rater": "a", "ratings": MANY}),
    "an erasure": ("/v1/erasures", {"metadata": MANY}),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path_factory.mktemp("hostile"), judge="lexical") as found:
        yield found


@in_turn(("path", "body"), BODIES.values())
async def test_many_faults_are_one_short_answer(client: httpx.AsyncClient, path: str, body: Any) -> None:
    answer = await client.post(path, content=json.dumps(body, separators=(",", ":")), headers=JSON)
    assert answer.status_code == 422
    assert 1 <= len(answer.json()["errors"]) <= 20
    assert len(answer.content) < 10_000


@pytest.mark.parametrize("path", ["/v1/analyses/agreement", "/v1/analyses/correlation", "/v1/ratings"])
async def test_many_faulty_lines_are_one_short_answer(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, content="1\n" * (MOST_REFUSED + 1), headers=NDJSON)
    assert answer.status_code == 422
    assert "at least 999 more" in answer.json()["detail"]
    assert len(answer.json()["errors"]) == 20


async def test_an_analysis_may_hold_many_records(client: httpx.AsyncClient) -> None:
    data = [{"item": str(number % 20), "rater": str(number), "ratings": {"a": number % 3}} for number in range(5_000)]
    answer = await client.post("/v1/analyses/agreement", json={"data": data})
    assert answer.status_code == 200
