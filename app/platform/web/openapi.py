"""The parts of the OpenAPI document that FastAPI does not derive: strictly parsed bodies, problems, and headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, WithJsonSchema
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from saiten_server.platform.web.glossary import ALIKE, FIELD_DESCRIPTIONS, PARAMETERS
from saiten_server.platform.web.problems import PROBLEM_CODES

EVALUATION_EXAMPLE = {
    "rubric": "ja-dialogue",
    "context": [
        {"speaker": "A", "text": "週末はどこかに出かけましたか？"},
        {"speaker": "B", "text": "はい、家族で海まで行ってきました。"},
    ],
    "response": "いいですね。海の水はもう冷たくありませんでしたか？",
    "metadata": {"system": "bot-a"},
}


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


ARTICLES = {
    "evaluations": "Score one response, and read scores again.",
    "conversations": "Rate whole conversations, and name the turns that went wrong.",
    "batches": "Score thousands of responses: estimate, post, follow, read results.",
    "validations": "Whether requests are valid, before the first is made. Nothing is stored or judged.",
    "comparisons": "Compare two batches, pass or fail one, and check the judge for drift.",
    "links": "Show the runs of a judge that ended on the scale of the judge after it.",
    "preferences": "Which of two responses is better: by the judge, for pairs and stored runs, and by people.",
    "traces": "Send what live bots say, and read the conversations that were put together from it.",
    "monitors": "Live conversations that are sampled, scored and watched for alarms.",
    "analyses": "Agreement of raters, correlation of scores with ratings, hierarchies, fits and win rates.",
    "ratings": "Human ratings of responses, which validate the judge.",
    "rubrics": "The rubrics that the judge can rate with.",
    "governance": "The project's policy, erasure, and the audit log.",
    "operate": "Health, metrics, and which service this is.",
}
"""What each tag is about, in the order of the document."""

LICENSE = {"name": "Apache 2.0", "identifier": "Apache-2.0"}
SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "a key that `saiten keys create` made, with the scope read, write, admin or ingest",
}


def name_operation(function: str) -> str:
    """`create_evaluation` as `createEvaluation`."""
    first, *others = function.split("_")
    return first + "".join(map(str.capitalize, others))


def name_operations(document: dict[str, Any], routes: Iterable[BaseRoute]) -> None:
    """Names every operation after its function, in place: generators make methods of these names."""
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                document["paths"][route.path_format][method.lower()]["operationId"] = name_operation(route.name)


def describe_fields(schemas: Mapping[str, dict[str, Any]]) -> None:
    """Describes in place each field that does not describe itself, from the glossary."""
    for model, schema in schemas.items():
        schema.setdefault("description", "")
        for name, field in schema.get("properties", {}).items():
            own = f"{ALIKE.get(model, model)}.{name}"
            description = FIELD_DESCRIPTIONS.get(own, FIELD_DESCRIPTIONS.get(name))
            if "description" not in field and description is not None:
                field["description"] = description


def simplify_tuples(value: Any) -> None:
    """Writes a pair of equal types, in place, as a list of two: every reader of schemas knows lists."""
    if isinstance(value, dict):
        places = value.get("prefixItems")
        if places and all(place == places[0] for place in places):
            value["items"] = value.pop("prefixItems")[0]
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        simplify_tuples(part)


def complete(document: dict[str, Any], problems: Mapping[int | str, dict[str, Any]]) -> None:
    """Adds to every operation what all have in common, in place. `problems` are the descriptions by status."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", ()):
                name = parameter["name"]
                found = PARAMETERS.get(f"{method.upper()} {path} {name}", PARAMETERS.get(name, ""))
                parameter.setdefault("description", found)
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
    """One fault of a body: a JSON pointer (RFC 6901) and a description; `code` is the id of its message."""

    pointer: str
    detail: str
    code: str
    values: dict[str, Any]


class Problem(BaseModel):
    """RFC 9457 problem document. `code` is stable; `type` is `urn:saiten:problem:` and the code."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    # Any text beside the known ones: a code may be added, and generated clients of today are to read it.
    code: Annotated[
        str,
        WithJsonSchema(
            {"anyOf": [{"type": "string", "enum": sorted(PROBLEM_CODES)}, {"type": "string"}], "title": "Code"}
        ),
    ]
    message: str
    values: dict[str, Any]
    errors: list[Fault] = Field(default_factory=list, max_length=20)
    total: int | None = Field(default=None, description="all faults, where `errors` does not list every one")
    pieces: dict[str, list[str]] | None = Field(
        default=None,
        description="with `signature-mismatch`, by piece of the signature the baseline's and the candidate's value",
    )


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

CONTENT_LANGUAGE = header("the language of `title` and `detail`, by `Accept-Language`", enum=["en", "ja", "ko"])
PROBLEM = {"application/problem+json": {"schema": {"$ref": TEMPLATE.format(model="Problem")}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "headers": {"Content-Language": CONTENT_LANGUAGE}, "content": PROBLEM}
    for status, text in DESCRIPTIONS.items()
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


def answers(model: type[BaseModel], description: str = "Successful Response") -> dict[str, Any]:
    """A JSON answer of the model's shape, where the route makes it without the model."""
    return {"description": description, "content": {"application/json": {"schema": refer_to(model)}}}


def form(model: type[BaseModel], example: Any) -> dict[str, Any]:
    """A JSON body that is parsed as `model`."""
    return {"schema": refer_to(model), "example": example}


def lines(
    model: type[BaseModel] | Sequence[type[BaseModel]], description: str, *examples: dict[str, Any]
) -> dict[str, Any]:
    """An NDJSON body or answer whose lines are parsed as `model`, or as one of several."""
    schema = {
        **STREAM,
        "contentMediaType": "application/json",
        "contentSchema": {"anyOf": [*map(refer_to, model)]} if isinstance(model, Sequence) else refer_to(model),
        "description": description,
    }
    return {"schema": schema, "example": write_ndjson(*examples)} if examples else {"schema": schema}


STREAM = {"type": "string", "format": "binary"}
"""A body or answer that is a file, not one JSON value: generated clients pass it on as it is."""


def write_ndjson(*values: dict[str, Any]) -> str:
    """The values as NDJSON."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def reads(content: dict[str, Any], *, repeatable: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route that reads its own body, of one form per media type; `repeatable` under a key."""
    parameters = {"parameters": [IDEMPOTENCY_KEY]} if repeatable else {}
    return {"requestBody": {"required": True, "content": content}, **parameters}


def leave_out_unused(document: dict[str, Any]) -> None:
    """Removes schemas that nothing refers to: of fields that are stored and not told."""
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    for name in [name for name in schemas if f'/{name}"' not in text]:
        del schemas[name]


def describe_api(application: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if application.openapi_schema is None:
        document = get_openapi(
            title=application.title,
            version=application.version,
            description=application.description,
            routes=application.routes,
            tags=[{"name": name, "description": text} for name, text in ARTICLES.items()],
            servers=[{"url": "/", "description": "this service"}],
            contact={"name": "Saiten"},
            license_info=LICENSE,
        )
        name_operations(document, application.routes)
        models: list[type[BaseModel]] = [Problem, *DESCRIBED]
        _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=TEMPLATE)
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
        describe_fields(document["components"]["schemas"])
        simplify_tuples(document)
        document["components"]["securitySchemes"] = {"key": SCHEME}
        # An empty object beside it: without any key configured, loopback needs none.
        document["security"] = [{"key": []}, {}]
        complete(document, PROBLEMS)
        leave_out_unused(document)
        application.openapi_schema = document
    return application.openapi_schema


class ServedDocument:
    """Answers with the OpenAPI document, which is made in a thread, once."""

    def __init__(self, application: FastAPI) -> None:
        self._application = application
        self._making = asyncio.Lock()
        self._written: bytes | None = None

    async def answer(self, _: Request) -> Response:
        async with self._making:
            if self._written is None:
                self._written = await asyncio.to_thread(self._write)
        return Response(self._written, media_type="application/json")

    def _write(self) -> bytes:
        return json.dumps(self._application.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
