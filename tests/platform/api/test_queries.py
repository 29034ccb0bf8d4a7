"""Query parameters that an address does not know are refused: passed over, the answer would hold more than was meant."""

import httpx
import pytest

from tests.support.records import BODY

LISTS = ("/v1/batches", "/v1/audit", "/v1/ratings", "/v1/batches/ba_1/results", "/v1/evaluations/ev_1")


@pytest.mark.parametrize("path", LISTS)
async def test_what_is_not_known_is_refused(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path, params={"limmit": 1})
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request"), response.text
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/query/limmit"
    assert error["detail"].startswith("is not known; known are ")
    assert response.json()["detail"] == f"/query/limmit: {error['detail']}", "a sentence by itself"


@pytest.mark.parametrize("path", ["/v1/preferences/pr_1", "/v1/monitors"])
async def test_an_address_without_parameters_says_so(client: httpx.AsyncClient, path: str) -> None:
    answer = (await client.get(path, params={"include": "trace"})).json()
    assert answer["detail"] == "/query/include: is not known; this address takes no parameters"


@pytest.mark.parametrize("path", LISTS[:-1])
async def test_what_is_given_twice_is_refused(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(f"{path}?limit=1&limit=2")
    assert response.status_code == 422
    assert [(one["pointer"], one["code"]) for one in response.json()["errors"]] == [("/query/limit", "given-twice")]
    assert response.json()["detail"].startswith("/query/limit: ")


async def test_what_may_be_repeated_is_not(client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/evaluations", json=BODY)).json()["id"]
    found = await client.get(f"/v1/evaluations/{made}?include=trace&include=request")
    assert {"trace", "request"} <= found.json().keys()


async def test_metadata_may_have_any_name(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/batches", params={"metadata.build": "7", "metadata.日": "x"})
    assert (response.status_code, response.json()["items"]) == (200, [])


@pytest.mark.parametrize("written", ["1.0", "1_0", "+5", " 5", "05", "５", "1e1", ""])
@pytest.mark.parametrize(
    ("path", "name"), [("/v1/batches", "limit"), ("/v1/ratings", "cursor"), ("/v1/batches/ba_1/results", "after")]
)
async def test_a_whole_number_is_written_as_in_json(
    client: httpx.AsyncClient, path: str, name: str, written: str
) -> None:
    response = await client.get(path, params={name: written})
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["code"]) == (f"/query/{name}", "must-be-integer")


async def test_a_whole_number_may_be_below_0(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/batches/ba_1/results", params={"after": "-1"})).status_code == 404
