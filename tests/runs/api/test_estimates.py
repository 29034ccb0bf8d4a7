"""`/v1/estimates`: the figures of a batch, with nothing stored and nobody called."""

import httpx
import pytest

from saiten.core.messages import Message
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import NDJSON, make_body, write_ndjson

pytestmark = pytest.mark.usefixtures("fake")


@pytest.mark.parametrize("ndjson", [False, True])
async def test_a_batch_is_estimated(client: httpx.AsyncClient, fake: FakeOpenAI, ndjson: bool) -> None:
    body = make_body(5, judge={"samples": 3})
    sent = {"content": write_ndjson(body), "headers": NDJSON} if ndjson else {"json": body}
    response = await client.post("/v1/estimates", **sent)
    report = response.json()
    assert response.status_code == 200
    assert (report["candidates"], report["distinct_candidates"]) == (5, 5)
    assert report["calls"] >= 5
    assert report["prompt_tokens"] > report["prefix_tokens"] > 0
    assert report["cost_usd"] >= report["unit_cost_usd"] > 0
    assert fake.requests == []
    assert (await client.get("/v1/batches")).json()["items"] == []


@pytest.mark.parametrize("language", ["en", "ja", "ko"])
async def test_what_is_assumed_is_said_in_the_callers_language(client: httpx.AsyncClient, language: str) -> None:
    headers = {"Accept-Language": language}
    report = (await client.post("/v1/estimates", json=make_body(1), headers=headers)).json()
    assert Message("assumed-tokens").say(language) in report["assumptions"]
    assert {"code": "assumed-tokens", "values": {}} in report["messages"]["assumptions"]
    accepted = await client.post("/v1/batches", json=make_body(1), headers=headers)
    assert (accepted.status_code, accepted.headers["content-language"]) == (202, language)


async def test_the_projects_policy_holds_for_an_estimate_too(client: httpx.AsyncClient) -> None:
    async def look(**options: str) -> int:
        found = (await client.post("/v1/estimates", json=make_body(4, **options))).json()
        return int(found["second_look_calls"])

    assert await look() == 0
    assert await look(integrity="judge-twice") == 4
    (await client.put("/v1/policy", json={"integrity": "judge-twice"})).raise_for_status()
    assert await look() == 4
    assert await look(integrity="flag") == 0


async def test_a_budget_needs_a_known_price(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    unpriced = make_body(judge={"model": "somebody/else-7"})
    response = await client.post("/v1/batches", json={**unpriced, "budget_usd": 1})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/budget_usd")
    assert (await client.post("/v1/estimates", json=unpriced)).json()["cost_usd"] is None
    assert fake.requests == []
