"""What the OpenAPI document says of all answers."""

import asyncio
import json
import re
import threading
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from jsonschema import Draft202012Validator

from saiten_server.application import create_application
from saiten_server.platform.settings import Settings
from saiten_server.platform.web.glossary import FIELD_DESCRIPTIONS
from saiten_server.platform.web.openapi import ARTICLES, ServedDocument, complete
from saiten_server.platform.web.problems import PROBLEM_CODES
from tests.support.serving import openapi_document


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
        ("/v1/evaluations", "HEAD, GET, POST"),
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
        "texts_missing",
        "messages",
    }


def test_the_document_is_the_same_each_time() -> None:
    first, second = openapi_document(), create_application(Settings()).openapi()
    assert json.dumps(first) == json.dumps(second)


def test_operations_are_named_as_methods_and_described() -> None:
    operations = [one for methods in openapi_document()["paths"].values() for one in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert {"createEvaluation", "listEvaluations", "createBatch", "readBatchResults"} <= set(names)
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)+", name) for name in names)
    for operation in operations:
        assert operation["summary"], operation
        assert operation["description"], operation
        assert set(operation["tags"]) <= set(ARTICLES)
        assert all(parameter["description"] for parameter in operation.get("parameters", ())), operation["operationId"]


def test_every_field_is_described_and_the_glossary_holds_nothing_else() -> None:
    fields = {
        f"{model}.{name}": field.get("description")
        for model, schema in openapi_document()["components"]["schemas"].items()
        for name, field in schema.get("properties", {}).items()
    }
    assert [name for name, description in fields.items() if not description] == []
    used = {description for description in fields.values() if description is not None}
    known = {*fields, *(name.partition(".")[2] for name in fields)}
    assert [name for name in FIELD_DESCRIPTIONS if name not in known or FIELD_DESCRIPTIONS[name] not in used] == []


def test_every_body_has_an_example_that_fits_its_schema() -> None:
    document = openapi_document()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                example = content["example"]
                if media_type != "application/json":
                    assert isinstance(example, str), path
                    continue
                schema = {**content["schema"], "components": document["components"]}
                assert [error.message for error in Draft202012Validator(schema).iter_errors(example)] == [], path


def test_a_problem_knows_every_code() -> None:
    code = openapi_document()["components"]["schemas"]["Problem"]["properties"]["code"]
    assert code["anyOf"] == [{"type": "string", "enum": sorted(PROBLEM_CODES)}, {"type": "string"}]


async def test_the_document_is_made_once_and_off_the_event_loop() -> None:
    made_in = list[int]()

    class Slow(FastAPI):
        def openapi(self) -> dict[str, Any]:
            made_in.append(threading.get_ident())
            return {"openapi": "3.1.0"}

    document = ServedDocument(Slow())
    request = Request({"type": "http"})
    answers = await asyncio.gather(*(document.answer(request) for _ in range(5)))
    assert {bytes(answer.body) for answer in answers} == {b'{"openapi":"3.1.0"}'}
    assert len(made_in) == 1
    assert made_in != [threading.get_ident()]
