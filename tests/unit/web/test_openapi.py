"""What the OpenAPI document says of all answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.web.openapi import complete


async def operations_of(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    paths = (await client.get("/openapi.json")).json()["paths"]
    return {f"{method} {path}": found for path, methods in paths.items() for method, found in methods.items()}


async def test_every_answer_has_its_headers_in_the_document(client: httpx.AsyncClient) -> None:
    for name, operation in (await operations_of(client)).items():
        for status, response in operation["responses"].items():
            assert response["headers"]["X-Request-Id"]["required"], (name, status)
        assert {"400", "431", "500"} <= set(operation["responses"]), name


async def test_no_status_is_listed_that_cannot_be(client: httpx.AsyncClient) -> None:
    found = await operations_of(client)
    assert {"408", "413", "415", "502"} <= set(found["post /v1/evaluations"]["responses"])
    assert not {"408", "409", "413", "415", "502", "507"} & set(found["get /v1/batches"]["responses"])
    assert "409" in found["post /v1/batches/{batch_id}/cancel"]["responses"]
    assert "415" not in found["post /v1/batches/{batch_id}/cancel"]["responses"]
    assert "Idempotent-Replayed" in found["post /v1/batches"]["responses"]["202"]["headers"]
    assert "Idempotent-Replayed" not in found["post /v1/estimates"]["responses"]["200"]["headers"]


def test_what_a_route_says_of_a_header_stays() -> None:
    own = {"description": "its own", "schema": {"type": "string"}}
    document: dict[str, Any] = {
        "paths": {"/x": {"get": {"responses": {"200": {"description": "", "headers": {"X-Request-Id": own}}}}}}
    }
    complete(document, {status: {"description": "a problem"} for status in (400, 431, 500)})
    responses = document["paths"]["/x"]["get"]["responses"]
    assert responses["200"]["headers"]["X-Request-Id"] == own
    assert responses["431"]["headers"]["X-Request-Id"]["required"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/batches", "HEAD, GET, POST"),
        ("/v1/batches/ba_1", "HEAD, GET, DELETE"),
        ("/v1/ratings", "HEAD, GET, POST, DELETE"),
        ("/v1/evaluations", "POST"),
        ("/livez", "HEAD, GET"),
    ],
)
async def test_a_wrong_method_is_told_all_right_ones(client: httpx.AsyncClient, path: str, allowed: str) -> None:
    response = await client.request("PATCH", path)
    assert (response.status_code, response.headers["allow"]) == (405, allowed)


async def test_what_is_read_again_with_more_is_described(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert set(schemas["ReadEvaluation"]["properties"]) - set(schemas["Evaluation"]["properties"]) == {
        "trace",
        "request",
    }
