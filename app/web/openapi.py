"""The parts of the OpenAPI document that FastAPI does not derive: strictly parsed bodies, problems, and headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

Operation = dict[str, Any]

EVERYWHERE = (400, 431, 500)
"""Statuses of every route: framing and headers are checked first."""

NEEDS_BODY = frozenset({"408", "413", "415"})
NEVER_READING = frozenset({"409", "502", "507"})
"""Statuses that a GET never has: it changes nothing and calls no other service."""


def header(description: str, *, required: bool = False, **schema: Any) -> dict[str, Any]:
    """A header of an answer; a string unless `schema` gives another type."""
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


REQUEST_ID = header("the caller's, or one made for this request; the log has it too", required=True)
LINK = {
    "description": 'the address of the next page as `<…>; rel="next"`; none after the last',
    "schema": {"type": "string"},
}
REPLAYED = header("`true` where the answer is the stored one of an earlier request with this key", enum=["true"])
BY_STATUS: dict[str, dict[str, Any]] = {
    "401": {"WWW-Authenticate": header('`Bearer realm="saiten"`', required=True)},
    "409": {"Retry-After": header("seconds, where the Idempotency-Key is in use", pattern="^[0-9]+$")},
    "429": {"Retry-After": header("seconds", required=True, pattern="^[0-9]+$")},
    "503": {"Retry-After": header("seconds", pattern="^[0-9]+$")},
}


def complete(document: dict[str, Any], problems: Mapping[int | str, dict[str, Any]]) -> None:
    """Adds to every operation what all have in common, in place. `problems` are the descriptions by status."""
    for operations in document["paths"].values():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.update({str(status): problems[status] for status in EVERYWHERE if str(status) not in responses})
            never = frozenset() if "requestBody" in operation else NEEDS_BODY
            for status in never | (NEVER_READING if method == "get" else frozenset()):
                responses.pop(status, None)
            operation["responses"] = {
                status: {**response, "headers": {**headers_of(status, operation), **response.get("headers", {})}}
                for status, response in responses.items()
            }


def headers_of(status: str, operation: Operation) -> dict[str, Any]:
    """The headers of an operation's answers with a status."""
    names = {parameter.get("name") for parameter in operation.get("parameters", ())}
    found = {"X-Request-Id": REQUEST_ID, **BY_STATUS.get(status, {})}
    replays = status.startswith("2") and "Idempotency-Key" in names
    return {**found, "Idempotent-Replayed": REPLAYED} if replays else found


TEMPLATE = "#/components/schemas/{model}"


class Fault(BaseModel):
    """One fault of a body: a JSON pointer (RFC 6901) and a description."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem document. `code` is stable; `type` is `urn:saiten:problem:` and the code."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[Fault] = Field(default_factory=list, max_length=20)
    total: int | None = Field(default=None, description="all faults, where `errors` does not list every one")


DESCRIPTIONS = {
    400: "Not valid JSON, ambiguous framing, or a bad header",
    401: "No valid key",
    403: "The key's scope does not allow this",
    404: "Not found in this project",
    408: "The body took too long to arrive",
    409: "A request with this Idempotency-Key is running, or the batch is finished",
    413: "The body is too large",
    415: "Not UTF-8, or not of a media type that is taken",
    422: "The body does not fit; `errors` points at each fault",
    431: "The header block is too large",
    429: "A limit of the key or project is reached; see `code`, `Retry-After` and `RateLimit`",
    500: "A defect of Saiten; the log has a record with the `X-Request-Id`",
    502: "The judge's reply was no rating, or it refused the request",
    503: "Overloaded, or judge, translator or store unavailable, out of quota or unauthorized; see `code`",
    507: "The store is full",
}

PROBLEM = {"application/problem+json": {"schema": {"$ref": TEMPLATE.format(model="Problem")}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": PROBLEM} for status, text in DESCRIPTIONS.items()
}

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same key and body replay the stored answer, for 24 hours at least",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}

DESCRIBED: list[type[BaseModel]] = []
"""The models passed to `refer_to`: of strictly parsed bodies and of lines, which no route declares."""


def refer_to(model: type[BaseModel]) -> dict[str, Any]:
    """A reference to the model's schema, which is added to the document."""
    DESCRIBED.append(model)
    return {"$ref": TEMPLATE.format(model=model.__name__)}


def form(model: type[BaseModel], example: Any) -> dict[str, Any]:
    """A JSON body that is parsed as `model`."""
    return {"schema": refer_to(model), "example": example}


def lines(model: type[BaseModel], description: str, *examples: dict[str, Any]) -> dict[str, Any]:
    """An NDJSON body or answer whose lines are parsed as `model`."""
    refer_to(model)
    schema = {"type": "string", "description": description}
    return {"schema": schema, "example": write_lines(*examples)} if examples else {"schema": schema}


def write_lines(*values: dict[str, Any]) -> str:
    """The values as NDJSON."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def reads(content: dict[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route whose body, a form per media type, `app.web.body` reads; `repeatable` under a key."""
    parameters = {"parameters": [IDEMPOTENCY_KEY]} if repeatable else {}
    return {"requestBody": {"required": True, "content": content}, **parameters}


def describe(application: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if application.openapi_schema is None:
        document = get_openapi(
            title=application.title,
            version=application.version,
            description=application.description,
            routes=application.routes,
            tags=application.openapi_tags,
        )
        models: list[type[BaseModel]] = [Problem, *DESCRIBED]
        _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=TEMPLATE)
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        # An empty object beside it: without any key configured, loopback needs none.
        document["security"] = [{"key": []}, {}]
        complete(document, PROBLEMS)
        application.openapi_schema = document
    return application.openapi_schema
