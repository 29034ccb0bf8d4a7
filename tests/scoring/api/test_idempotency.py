"""`Idempotency-Key`: once, however often it is sent."""

import asyncio

import httpx

from tests.support.fake_openai import FakeOpenAI, status
from tests.support.records import BODY

KEY = {"Idempotency-Key": "k1"}
OTHER = {**BODY, "response": "別の返答"}


async def test_the_same_key_and_body_replay(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    first = await client.post("/v1/evaluations", json=BODY, headers=KEY)
    second = await client.post("/v1/evaluations", json=BODY, headers=KEY)
    assert second.content == first.content
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(fake.requests) == 1


async def test_another_body_is_refused_and_the_first_untouched(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    first = await client.post("/v1/evaluations", json=BODY, headers=KEY)
    other = await client.post("/v1/evaluations", json=OTHER, headers=KEY)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert (await client.post("/v1/evaluations", json=BODY, headers=KEY)).content == first.content
    assert len(fake.requests) == 1


async def test_at_the_same_time_one_is_made_and_the_rest_told(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    answers = await asyncio.gather(*(client.post("/v1/evaluations", json=BODY, headers=KEY) for _ in range(4)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] == 200
    assert set(codes) <= {200, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 200}) == 1
    assert len(fake.requests) == 1


async def test_a_failure_leaves_the_key_free(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    fake.script(status(401))
    assert (await client.post("/v1/evaluations", json=BODY, headers=KEY)).status_code == 503
    assert (await client.post("/v1/evaluations", json=BODY, headers=KEY)).status_code == 200


async def test_a_key_is_1_to_255_printable_characters(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    for key in ("", "k" * 256, "a\tb"):
        response = await client.post("/v1/evaluations", json=BODY, headers={"Idempotency-Key": key})
        assert (response.status_code, response.json()["code"]) == (400, "invalid-idempotency-key"), key
    assert fake.requests == []
    assert (await client.post("/v1/evaluations", json=BODY, headers={"Idempotency-Key": "k" * 255})).is_success
