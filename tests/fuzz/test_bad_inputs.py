"""Hostile requests of our own, byte by byte over sockets: the statuses that are right, and nothing asked of the judge.

`tests/data/bad_inputs.jsonl` holds a case a line. `send` is `raw`, the whole request, or its parts: `line`, `headers`
and a body as `text`, `hex`, `repeat`, `nested`, `gzip`, or as the smallest valid document with `change`d members (as
JSON texts) or something behind it (`base`). In a text that is a list, `[part, times]` stands for a part again and again.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.raw_http import Answer, RawConnection
from tests.support.records import BODY
from tests.support.site import Site, site

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "bad_inputs.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
QUIET_SECONDS = 0.3


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service as an operator runs it, and a judge that counts."""
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


def spell(text: str | list[Any]) -> str:
    """The text with its repetitions written out."""
    return (
        text
        if isinstance(text, str)
        else "".join(part if isinstance(part, str) else part[0] * part[1] for part in text)
    )


def body_of(send: dict[str, Any]) -> bytes | None:
    """The bytes of a case's body; None where it has none."""
    if "hex" in send:
        return bytes.fromhex(str(send["hex"]))
    if "gzip" in send:
        return gzip.compress(spell([send["gzip"]]).encode())
    if "repeat" in send:
        return spell([send["repeat"]]).encode()
    if "nested" in send:
        opening, inside, closing, times = send["nested"]
        return spell([[opening, times], inside, [closing, times]]).encode()
    if "change" in send:
        members: dict[str, str] = {name: json.dumps(value) for name, value in BODY.items()}
        members |= {name: spell(text) for name, text in send["change"].items()}
        return ("{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}").encode()
    if "base" in send:
        return f"{json.dumps(BODY)}{send['base']}".encode()
    if "long_key" in send:
        return json.dumps({**BODY, "k" * int(send["long_key"]): 1}).encode()
    if "text" in send:
        return spell([spell(send["text"]), [" ", send.get("pad", 0)]]).encode()
    return None


def request_of(send: dict[str, Any]) -> bytes:
    """The request, as it goes over the wire."""
    if "raw" in send:
        return spell(send["raw"]).encode("latin-1")
    body = body_of(send)
    line = spell(send.get("line", "POST /v1/evaluations HTTP/1.1"))
    headers = [
        *([] if line.endswith("HTTP/1.0") else ["Host: x"]),
        *send.get("headers", ["Content-Type: application/json"]),
    ]
    if "chunks" in send:
        body = "".join(f"{len(chunk):x}\r\n{chunk}\r\n" for chunk in [*send["chunks"], ""]).encode()
    elif body is not None:
        headers.append(f"Content-Length: {len(body)}")
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1") + (body or b"")


def ask(port: int, request: bytes, answers: int) -> list[Answer]:
    """So many answers, and one more where the server has one; status 0 stands for a closed connection."""
    connection = RawConnection(port)
    try:
        connection.send(request)
        head = request.startswith(b"HEAD ")
        found = [connection.read_answer(head=head)]
        while answers > 1 and len(found) < answers:
            found.append(connection.read_answer())
        if answers > 1 or b"HTTP/1" in request[20:].split(b"\r\n\r\n", 1)[-1]:
            try:
                found.append(connection.read_answer(seconds=QUIET_SECONDS))
            except TimeoutError:
                return found
        return found
    finally:
        connection.close()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(service: Site, case: dict[str, Any]) -> None:
    expect = case["expect"]
    wanted = expect.get("statuses")
    before = service.judge.stats()["requests"]
    found = ask(service.port, request_of(case["send"]), len(wanted or [0]))
    statuses = [answer.status for answer in found if answer.status]
    if wanted is not None:
        assert statuses == wanted, case["description"]
    else:
        assert len(statuses) == 1, case["description"]
        assert statuses[0] in expect["status"], f"{case['description']}: {statuses[0]} {found[0].body[:300]!r}"
    for answer in found:
        check_answer(answer)
    if expect["judge_calls"] is not None:
        assert service.judge.stats()["requests"] - before == expect["judge_calls"]


def check_answer(answer: Answer) -> None:
    """No server's error, no stack trace, no long echo, and a problem document wherever the application answered."""
    assert answer.status < 500
    assert b"Traceback" not in answer.body
    assert "set-cookie" not in answer.headers
    if answer.status >= 400 and "x-request-id" in answer.headers and answer.body:
        assert answer.headers["content-type"] == "application/problem+json"
        problem = json.loads(answer.body)
        assert problem["status"] == answer.status
        assert len(problem["detail"]) <= 400
        assert len(problem.get("errors", [])) <= 20
        assert len(answer.body) < 20_000


def test_all_cases_are_of_their_own_and_send_something() -> None:
    assert len(CASES) >= 200
    assert len({case["id"] for case in CASES}) == len(CASES)
    assert len({request_of(case["send"]) for case in CASES}) == len(CASES)


def test_the_service_is_as_well_as_before(service: Site) -> None:
    assert service.client.get("/readyz").status_code == 200
    assert service.client.get("/v1/batches").json()["items"] == []
    assert "unexpected error" not in service.log()
