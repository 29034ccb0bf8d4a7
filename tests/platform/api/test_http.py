"""What holds for every request: framing, media types, sizes, ids, problems, keys."""

import asyncio
import gzip
import importlib
import json
import pkgutil
import re
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request

import saiten_server as server
from saiten_server.core import errors
from saiten_server.core.errors import SaitenError
from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import open_engine
from saiten_server.platform.web.problems import HTTP_STATUSES, answer_defect, clip, status_of
from tests.support.cases import in_turn
from tests.support.databases import run_statement
from tests.support.fake_openai import FakeOpenAI, status
from tests.support.records import BODY
from tests.support.serving import judged_by, serving

pytestmark = pytest.mark.usefixtures("fake")

JSON = {"Content-Type": "application/json"}
DOCUMENT = json.dumps(BODY).encode()


def all_errors(root: type[SaitenError] = SaitenError) -> set[type[SaitenError]]:
    return {root}.union(*(all_errors(kind) for kind in root.__subclasses__()))


def test_every_error_of_the_tree_has_a_status() -> None:
    unlisted = {kind for kind in all_errors() if kind.__module__ == errors.__name__} - set(HTTP_STATUSES)
    assert unlisted == set()


def test_every_error_that_the_service_can_raise_has_a_status_of_its_own_or_of_its_kind() -> None:
    for module in pkgutil.walk_packages(server.__path__, f"{server.__name__}."):
        if "migrations" not in module.name:
            importlib.import_module(module.name)
    raised = {
        kind for kind in all_errors() if kind.__module__.startswith(server.__name__) and ".cli." not in kind.__module__
    }
    assert set(HTTP_STATUSES) <= raised
    without = {kind for kind in raised - {SaitenError} if not any(each in HTTP_STATUSES for each in kind.__mro__[:-4])}
    assert without == set()
    assert {kind for kind in raised if status_of(kind) == 500} <= {
        SaitenError,
        errors.RubricInvalid,
        errors.SettingsInvalid,
        errors.StoreError,
    }


def test_every_code_is_one_errors() -> None:
    # `InvalidLines` is an invalid request whose faults are lines.
    kinds = [kind for kind in HTTP_STATUSES if kind.__module__ == errors.__name__ and kind is not errors.InvalidLines]
    assert len({kind.code for kind in kinds}) == len(kinds)


async def raw(client: httpx.AsyncClient, request: bytes) -> bytes:
    """Everything that comes back until the server closes the connection, or has begun and says nothing for a second."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(request)
    await writer.drain()
    answer = b""
    try:
        while chunk := await asyncio.wait_for(reader.read(65536), 1 if answer else 30):
            answer += chunk
    except TimeoutError:
        pass
    writer.close()
    return answer


@in_turn(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "text/plain"}, DOCUMENT, 415),
        ({}, DOCUMENT, 415),
        ({"Content-Type": "application/json; charset=shift_jis"}, DOCUMENT, 415),
        ({"Content-Type": "application/json; charset=UTF-8"}, DOCUMENT, 200),
        ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(DOCUMENT), 415),
        (JSON, b"[" + DOCUMENT + b"]", 422),
        (JSON, b'"\xff"', 400),
        (JSON, b"\xef\xbb\xbf" + DOCUMENT, 400),
    ],
)
async def test_only_plain_utf8_json_is_taken(
    client: httpx.AsyncClient, headers: dict[str, str], body: bytes, status: int
) -> None:
    response = await client.post("/v1/evaluations", content=body, headers=headers)
    assert response.status_code == status
    if status != 200:
        problem = response.json()
        assert response.headers["content-type"] == "application/problem+json"
        assert problem["type"] == f"urn:saiten:problem:{problem['code']}"
        assert problem["status"] == status
        assert {"title", "detail", "instance"} <= set(problem)


async def test_a_large_body_is_cut_off_declared_or_not(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake, limits={"body_bytes": 2000})) as client:
        declared = await client.post("/v1/evaluations", content=b" " * 2001, headers=JSON)

        async def chunks():
            for _ in range(3):
                yield b" " * 1000

        streamed = await client.post("/v1/evaluations", content=chunks(), headers=JSON)
        fits = await client.post("/v1/evaluations", content=DOCUMENT.ljust(2000), headers=JSON)
    assert (declared.status_code, streamed.status_code, fits.status_code) == (413, 413, 200)
    assert "2000 bytes" in declared.json()["detail"]


async def test_a_body_that_never_comes_is_given_up(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake, body_timeout_seconds=0.2)) as client:
        head = (
            b"POST /v1/evaluations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        answer = await raw(client, head)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"body-timeout" in answer


async def test_two_lengths_are_no_length(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    answer = await raw(
        client,
        b"POST /v1/evaluations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"alive" not in answer
    assert fake.requests == []


async def test_huge_headers_are_refused(client: httpx.AsyncClient) -> None:
    answer = await raw(client, b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Pad: " + b"a" * 131072 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")
    assert b"headers-too-large" in answer


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-123", True), ("a" * 64, True), ("a" * 65, False), ("abc%0d%0aSet-Cookie: a=b", False), ("", False)],
)
async def test_request_ids(client: httpx.AsyncClient, given: str, kept: bool) -> None:
    response = await client.get("/livez", headers={"X-Request-Id": given})
    assert (response.headers["x-request-id"] == given) is kept
    assert response.headers["x-request-id"]
    assert "set-cookie" not in response.headers


async def test_what_does_not_exist_is_a_problem_too(client: httpx.AsyncClient) -> None:
    for method, path, expected in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/rubrics/none", 404),
        ("DELETE", "/v1/rubrics", 405),
    ):
        response = await client.request(method, path)
        assert response.status_code == expected
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_head_is_get_without_a_body(client: httpx.AsyncClient) -> None:
    for path in ("/livez", "/readyz", "/v1/rubrics", "/docs"):
        head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]


async def test_headers_that_never_end_are_cut(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.cli.server.HEADER_SECONDS", 1.0)
    for beginning in (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n"):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(beginning)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    # A connection on which requests were whole stays.
    assert (await client.get("/livez")).status_code == 200
    await asyncio.sleep(1.2)
    assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("POST /nowhere", b"404"),
        ("GET /livez", b"200"),
        ("PUT /v1/evaluations", b"405"),
        ("POST /v1/evaluations", b"415"),
    ],
)
async def test_an_answered_caller_does_not_go_on_sending(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, line: str, answer: bytes
) -> None:
    monkeypatch.setattr("saiten_server.cli.server.CLOSING_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())

    async def drip() -> None:
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    try:
        said = await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        said = b""
    finally:
        dripping.cancel()
        writer.close()
    # Without the cut the read above never ends; a reset may take the answer with it.
    assert not said or said.split(b" ")[1] == answer


async def test_a_connection_serves_one_request_after_another(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    first = b"POST /v1/evaluations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    whole = first + f"Content-Length: {len(DOCUMENT)}\r\n\r\n".encode() + DOCUMENT
    answer = await raw(client, whole + whole + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 3


async def test_a_page_of_another_site_is_not_answered_without_keys(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    for origin, expected in (
        ("http://evil.example:8000", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://127.0.0.1:3000", 200),
        ("http://localhost", 200),
    ):
        response = await client.post("/v1/evaluations", json=BODY, headers={"Origin": origin})
        assert response.status_code == expected
    assert len(fake.requests) == 1


async def test_an_endpoints_own_words_reach_the_caller_and_not_the_log(
    client: httpx.AsyncClient, fake: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    fake.default = status(400, f"cannot handle: {BODY['response']}")
    response = await client.post("/v1/evaluations", json=BODY)
    assert BODY["response"] in response.json()["detail"]
    assert "judge-refused-request" in caplog.text
    assert BODY["response"] not in caplog.text


async def test_faults_are_capped_and_never_echo_the_text(client: httpx.AsyncClient) -> None:
    secret = "とても秘密の話です。" * 30
    body = {**BODY, "context": [{"speaker": "", "text": ""}] * 100, "path": secret, secret: 1}
    response = await client.post("/v1/evaluations", json=body)
    assert response.status_code == 422
    assert len(response.json()["errors"]) == 20
    assert secret[:201] not in json.dumps(response.json(), ensure_ascii=False)


def test_clipping_makes_controls_visible() -> None:
    assert clip("a\x1b[31m\nb") == "a\\u001b[31m\\u000ab"
    assert len(clip("あ" * 300)) == 200


async def test_operations(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    assert (await client.get("/livez")).json() == {"status": "alive"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    await client.post("/v1/evaluations", json=BODY)
    metrics = (await client.get("/metrics")).text
    assert 'saiten_judge_calls_total{judge="openai"} 1.0' in metrics
    assert 'saiten_evaluations_total{rubric="ja-dialogue",status="scored"} 1.0' in metrics
    assert 'saiten_call_cache_total{call="judge",outcome="miss"} 1.0' in metrics
    info = (await client.get("/v1/info")).json()
    assert info["judge"] == {"kind": "openai", "model": "gpt-6-luna", "baseline": False}
    assert info["limits"]["text_characters"] == 8000
    assert [rubric["id"] for rubric in (await client.get("/v1/rubrics")).json()["rubrics"]] == [
        "ja-conversation",
        "ja-dialogue",
        "ko-comment",
        "ko-conversation",
        "ko-dialogue",
        "lfqa",
    ]
    rubric = (await client.get("/v1/rubrics/ko-comment")).json()
    assert rubric["aspects"][0]["name"]["ko"] == "합리성"
    assert len(rubric["digest"]) == 64


async def test_docs_need_no_other_server_and_no_host(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs", headers={"Host": "evil.example"})
    assert page.status_code == 200
    assert "evil.example" not in page.text
    assert "script-src 'self'; style-src 'self'; " in page.headers["Content-Security-Policy"]
    assert re.findall("<script(?![^>]* src=)", page.text) == []
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) >= 3
    for address in addresses:
        assert "//" not in address
        assert (await client.get(address)).status_code in {200, 303}, address
    assert (await client.get("/rubrics/", headers={"Host": "evil.example"})).status_code == 404
    document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/v1/evaluations"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/EvaluationRequest"}
    assert {"EvaluationRequest", "Evaluation", "Problem"} <= set(document["components"]["schemas"])


async def test_readiness_follows_the_database_and_liveness_does_not(
    fake: FakeOpenAI, tmp_path: Path, postgres_server: str, bare_postgres_url: str
) -> None:
    settings = judged_by(fake, database_url=bare_postgres_url, cache="memory")
    async with serving(tmp_path, **settings) as client:
        assert (await client.get("/readyz")).status_code == 200
        name = bare_postgres_url.rsplit("/", 1)[1]
        await run_statement(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")
        ready = await client.get("/readyz")
        scored = await client.post("/v1/evaluations", json=BODY)
        live = await client.get("/livez")
    assert (ready.status_code, ready.json()["code"]) == (503, "store-unavailable")
    assert (scored.status_code, scored.json()["code"]) == (503, "store-unavailable")
    assert "retry-after" in ready.headers
    assert live.status_code == 200


@pytest.fixture
async def keyed(client: httpx.AsyncClient, tmp_path: Path):
    """Headers by scope, and of another project, on the running service's own database."""
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    keyring = APIKeyStore(engine)
    made = {}
    for scope, project in (("read", "team"), ("write", "team"), ("admin", "rivals")):
        key, text = await keyring.create(scope, project, scope)  # type: ignore[arg-type]
        made[scope] = ({"Authorization": f"Bearer {text}"}, key.id)
    yield made, keyring
    await engine.dispose()


async def test_with_keys_nobody_comes_in_without_one(client: httpx.AsyncClient, fake: FakeOpenAI, keyed) -> None:
    for path in ("/v1/evaluations", "/v1/nowhere"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}):
            response = await client.post(path, content=b"{broken", headers=headers)
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Bearer")
    assert (await client.get("/livez")).status_code == 200
    assert fake.requests == []


@pytest.mark.parametrize("path", ["/v1/info", "/v1/batches/ba_1/events"])
async def test_a_wrong_key_is_refused_also_where_there_are_no_keys(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert (await client.get("/v1/info", headers={"Authorization": "Basic YTpi"})).status_code == 200
    assert (await client.get("/v1/info", headers={"Cookie": "saiten_session=of-another-database"})).status_code == 200


async def test_scopes_and_projects(client: httpx.AsyncClient, fake: FakeOpenAI, keyed) -> None:
    made, keyring = keyed
    (read, _), (write, write_id), (rival, _) = made["read"], made["write"], made["admin"]
    refused = await client.post("/v1/evaluations", json=BODY, headers=read)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient-scope")
    assert fake.requests == []
    answer = (await client.post("/v1/evaluations", json=BODY, headers=write)).json()
    path = f"/v1/evaluations/{answer['id']}"
    assert (await client.get(path, headers=read)).json() == answer
    assert (await client.get(path, headers=rival)).status_code == 404
    await keyring.revoke(write_id)
    assert (await client.post("/v1/evaluations", json=BODY, headers=write)).status_code == 401


async def test_a_caller_who_hangs_up_is_no_defect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST /v1/evaluations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    with caplog.at_level("INFO", logger="saiten.web"):
        async with serving(tmp_path, judge="lexical") as client:
            _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            writer.write(head)
            await writer.drain()
            writer.close()
            while not any(record.message == "request" for record in caplog.records):
                await asyncio.sleep(0.01)
    assert "unexpected error" not in caplog.text


def test_a_defect_is_answered_with_the_id_of_its_record() -> None:
    scope = {"type": "http", "method": "GET", "path": "/v1/info", "query_string": b"", "headers": []}
    answer = answer_defect(Request({**scope, "state": {"request_id": "deadbeef"}}))
    assert (answer.status_code, "deadbeef" in json.loads(bytes(answer.body))["detail"]) == (500, True)
