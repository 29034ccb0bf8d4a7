"""Equal candidates are judged once: in a batch, in batches at the same time, and beside single evaluations."""

import asyncio
from typing import Any

import httpx
import pytest

from saiten_server.providers.openai.endpoint import dump_json
from tests.support.beginnings import common_beginning
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import make_item, wait_for

DISTINCT = 7


def repeat(times: int, **options: Any) -> dict[str, Any]:
    """A batch that holds each of DISTINCT items so many times, never beside itself, each under an id of its own."""
    items = [make_item(number) | {"id": f"i{number}-{time}"} for time in range(times) for number in range(DISTINCT)]
    return {"relevance": None, "items": items, **options}


async def post(client: httpx.AsyncClient, body: dict[str, Any]) -> str:
    """The id of the accepted batch."""
    response = await client.post("/v1/batches", json=body)
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


async def evaluate(client: httpx.AsyncClient, number: int) -> dict[str, Any]:
    item = make_item(number)
    body = {"context": item["context"], "response": item["response"], "relevance": None}
    found: dict[str, Any] = (await client.post("/v1/evaluations", json=body)).raise_for_status().json()
    return found


@pytest.mark.parametrize("samples", [1, 3])
async def test_a_batch_asks_once_for_each_distinct_candidate(
    client: httpx.AsyncClient, fake: FakeOpenAI, samples: int
) -> None:
    body = repeat(5, judge={"samples": samples})
    told = (await client.post("/v1/estimates", json=body)).json()
    batch = await wait_for(client, await post(client, body))
    assert batch["counts"]["scored"] == 5 * DISTINCT
    assert len(fake.requests) == batch["usage"]["judge_calls"] == samples * DISTINCT
    # As the estimate says, which reckons equal candidates once.
    assert told["calls"] == samples * DISTINCT
    assert len({dump_json(request) for request in fake.requests}) == samples * DISTINCT


async def test_another_batch_asks_for_nothing_that_was_judged(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    first = await wait_for(client, await post(client, repeat(1)))
    second = await wait_for(client, await post(client, repeat(2, name="again")))
    assert (first["usage"]["judge_calls"], second["usage"]["judge_calls"]) == (DISTINCT, 0)
    assert second["usage"]["cost_usd"] == 0
    assert len(fake.requests) == DISTINCT


async def test_batches_and_evaluations_at_the_same_time_ask_once(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    posting = [post(client, repeat(3, name=name)) for name in ("one", "two", "three")]
    singles = [evaluate(client, number % DISTINCT) for number in range(4 * DISTINCT)]
    ids, found = await asyncio.gather(asyncio.gather(*posting), asyncio.gather(*singles))
    batches = [await wait_for(client, batch_id) for batch_id in ids]
    assert {batch["counts"]["scored"] for batch in batches} == {3 * DISTINCT}
    assert len(fake.requests) == DISTINCT
    # Each call is on one bill.
    paid = [*(batch["usage"] for batch in batches), *(one["usage"] for one in found)]
    assert sum(usage["judge_calls"] for usage in paid) == DISTINCT


async def test_all_requests_of_a_batch_begin_alike(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    await wait_for(client, await post(client, repeat(1)))
    sent = [dump_json(request) for request in fake.requests]
    system = fake.requests[0]["messages"][0]["content"]
    assert len(set(sent)) == DISTINCT
    assert dump_json(system) in common_beginning(sent)
