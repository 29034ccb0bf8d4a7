"""The OpenAPI document and the service say the same: few cases of every operation, the same ones each time.

`make fuzz` asks 10,000 and more.
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

from tests.support.command import served
from tests.support.threaded_server import ThreadedServer

EXAMPLES = 5
LIES = {
    "openapi": "3.1.0",
    "info": {"title": "Lies", "version": "1"},
    "paths": {
        f"/{name}": {
            "get": {
                "responses": {
                    "200": {"description": "", "content": {"application/json": {"schema": {"type": "integer"}}}}
                }
            }
        }
        for name in ("broken", "text", "wrong")
    },
}
ANSWERS = {"/broken": (500, "application/json", b"1"), "/text": (200, "text/plain", b"1")}


def test_the_service_keeps_to_its_document(tmp_path: Path) -> None:
    # Schemathesis takes a quarter of a second to import: not in each process that collects the tests.
    from tests.fuzz.openapi import run

    with served(tmp_path, SAITEN_JUDGE="lexical") as (url, _):
        tally = run(url, examples=EXAMPLES, phases=("examples", "fuzzing"))
        documented = httpx.get(f"{url}/openapi.json", trust_env=False, verify=False).json()["paths"]
    assert tally.server_errors == 0, tally.report()
    assert not tally.failures, tally.report()
    assert not tally.errors, tally.report()
    every = {f"{method.upper()} {path}" for path, methods in documented.items() for method in methods}
    assert set(tally.operations) == every
    # What is accepted and what is refused: both sorts got through to the routes.
    assert tally.statuses[200] > 50
    assert tally.statuses[422] > 50


@pytest.fixture
def liar() -> Iterator[str]:
    """A service that does not do as its document says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            default = (200, "application/json", json.dumps(LIES).encode())
            status, kind, body = ANSWERS.get(self.path, default)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadedServer(Handler) as server:
        yield server.url


def test_a_service_that_does_otherwise_is_found_out(liar: str) -> None:
    from tests.fuzz.openapi import run

    tally = run(liar, examples=2, phases=("fuzzing",))
    found = {tuple(name.split(" ")[1:3]) for name in tally.failures}
    assert {("/broken", "not_a_server_error"), ("/broken", "status_code_conformance")} <= found
    assert {("/text", "content_type_conformance"), ("/wrong", "response_schema_conformance")} <= found
    assert tally.server_errors > 0
