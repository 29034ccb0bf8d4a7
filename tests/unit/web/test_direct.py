"""The short way to the route that is asked most answers as the long one does, and leaves everything else to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message, Receive, Scope, Send

from app.domain.errors import StoreUnavailable
from app.web.api.evaluations import create_evaluation
from app.web.api.evaluations import router as evaluations
from app.web.direct import Direct

ROUTER = APIRouter(prefix="/v1/things")


@ROUTER.post("")
async def make(request: Request) -> Response:
    body = await request.body()
    if body == b"away":
        raise StoreUnavailable("away")
    if body == b"defect":
        raise LookupError
    return Response(body + b" made", 201)


@ROUTER.post("/other")
async def make_other(request: Request) -> Response:
    return Response(b"not direct")


async def inner(scope: Scope, receive: Receive, send: Send) -> None:
    await Response(b"the long way")(scope, receive, send)


DIRECT = Direct(inner, routes=ROUTER.routes, endpoints=[make])


async def ask(method: str, path: str, body: bytes = b"", **more: Any) -> tuple[int, bytes, Scope]:
    """Status, body and scope of the answer."""
    sent: list[Message] = []
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", **more}

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await DIRECT(scope, receive, send)
    return sent[0]["status"], sent[1]["body"], scope


async def test_its_route_is_answered_at_once_and_named() -> None:
    status, body, scope = await ask("POST", "/v1/things", b"it")
    assert (status, body) == (201, b"it made")
    assert scope["route"].path == "/v1/things"
    assert scope["path_params"] == {}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/things"),
        ("post", "/v1/things"),
        ("POST", "/v1/things/"),
        ("POST", "/v1/things/other"),
        ("POST", "/v1/thing"),
    ],
)
async def test_everything_else_goes_the_long_way(method: str, path: str) -> None:
    assert (await ask(method, path))[:2] == (200, b"the long way")


async def test_below_another_root_it_goes_the_long_way() -> None:
    assert (await ask("POST", "/v1/things", root_path="/saiten"))[1] == b"the long way"


async def test_an_error_of_ours_is_a_problem_document() -> None:
    status, body, _ = await ask("POST", "/v1/things", b"away")
    assert (status, json.loads(body)["instance"]) == (503, "/v1/things")


async def test_a_defect_is_the_outer_layers_to_tell() -> None:
    with pytest.raises(LookupError):
        await ask("POST", "/v1/things", b"defect")


def test_the_route_that_is_asked_most_depends_on_nothing_that_would_be_left_out() -> None:
    [route] = [
        route for route in evaluations.routes if isinstance(route, APIRoute) and route.endpoint is create_evaluation
    ]
    assert route.dependant.dependencies == []
    assert route.dependant.request_param_name == "request"
    assert [name for name in ("path_params", "query_params", "body_params") if getattr(route.dependant, name)] == []


def test_an_endpoint_that_depends_on_something_is_refused() -> None:
    router = APIRouter()

    @router.post("/x", dependencies=[Depends(inner)])
    async def guarded(request: Request) -> Response:
        return Response()

    with pytest.raises(ValueError, match="depends"):
        Direct(inner, routes=router.routes, endpoints=[guarded])
