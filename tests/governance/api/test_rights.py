"""Who may do what, over every route of the OpenAPI document, so that a new one cannot be forgotten."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from google.rpc.status_pb2 import Status

from saiten_server.analyses.requests import REQUESTS
from saiten_server.application import create_application
from saiten_server.core.access import Scope
from saiten_server.platform.settings import Settings
from saiten_server.platform.web.dependencies import ADMINISTRATIVE
from saiten_server.platform.web.otlp import EXPORTS
from tests.support.keyed import Header, make_keys
from tests.support.posted import wait_for
from tests.support.serving import openapi_document
from tests.support.spans import export, talk

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SAID = {"context": [{"speaker": "A", "text": "おはよう"}], "response": "おはよう、よく眠れた？"}
BODY = {"rubric": "ja-dialogue", "relevance": None, **SAID}
BATCH = {"rubric": "ja-dialogue", "relevance": None, "items": [{"id": "1", **SAID}]}

ASKING = {
    "/v1/estimates",
    "/v1/preference-runs/estimates",
    "/v1/comparisons",
    "/v1/gates",
    "/v1/analyses/{name}",
    "/v1/analyses/ranking",
    *(f"/v1/validations/{name}" for name in ("evaluations", "ratings", "gates")),
}
"""POST that a key may send which only reads."""

OPEN = {"/livez", "/readyz", "/metrics"}
"""What asks for no key."""

GENERAL = {"rubric_id": "ja-dialogue", "name": "agreement"}
"""Parameters of paths that name nothing of any project."""

NOTHING = {
    "batch_id": "ba_0",
    "evaluation_id": "ev_0",
    "conversation_id": "ev_0",
    "live_conversation_id": "lc_0",
    "link_id": "ln_0",
    "monitor_id": "mo_0",
    "gate_id": "ga_0",
    "round_id": "rr_0",
    "preference_round_id": "rr_0",
    "preference_id": "pr_0",
    "run_id": "ba_0",
}
"""Those that do, and ids of which there are none."""

REFERRING = {"batch", "baseline", "candidate", "evaluation"}
"""Fields and queries that name a batch or an evaluation."""


class Operation(NamedTuple):
    """A method and the template of a path."""

    method: str
    path: str


def operations() -> Iterator[tuple[Operation, dict[str, Any]]]:
    for path, methods in openapi_document()["paths"].items():
        for method, about in methods.items():
            if path not in OPEN:
                yield Operation(method.upper(), path), about


def fields_of(about: dict[str, Any]) -> set[str]:
    """Queries, and the fields at the top of the body's schemas."""
    names = {one["name"] for one in about.get("parameters", ()) if one["in"] == "query"}
    for content in about.get("requestBody", {}).get("content", {}).values():
        text = json.dumps(content.get("schema", {}))
        schemas = [content.get("schema", {})]
        schemas += [
            one for name, one in openapi_document()["components"]["schemas"].items() if f'schemas/{name}"' in text
        ]
        names |= {field for schema in schemas for field in schema.get("properties", ())}
    return names


def all_operations() -> list[Operation]:
    return [operation for operation, _ in operations()]


async def send(
    client: httpx.AsyncClient, operation: Operation, key: Header, ids: dict[str, str] = NOTHING
) -> tuple[int, str]:
    """Status and `code` of the answer to an empty request; of a stream nothing more is waited for. KeyError for a path
    with a parameter that this file does not know."""
    path = operation.path.format_map(GENERAL | ids)
    body: dict[str, Any] | None = (
        {} if operation.method == "PATCH" else None
    )  # it is read before it is known whose the thing is
    async with client.stream(operation.method, path, headers=key, json=body) as response:
        if response.is_error and operation.method == "POST" and path in EXPORTS:
            # OTLP's form: the code stands before the sentence.
            return response.status_code, Status.FromString(await response.aread()).message.partition(":")[0]
        if response.headers.get("content-type") != "application/problem+json":
            return response.status_code, ""
        return response.status_code, json.loads(await response.aread())["code"]


async def test_without_a_key_nothing_is_answered(client: httpx.AsyncClient, tmp_path: Path) -> None:
    [key] = await make_keys(tmp_path, ("team", "admin"))
    for operation in all_operations():
        for nobody in ({}, {"Authorization": "Bearer saiten_wrong"}):
            assert await send(client, operation, nobody) == (401, "unauthorized"), operation
        assert (await send(client, operation, key))[0] != 401, operation


async def test_each_scope_may_do_its_own_and_refused_administration_is_noted(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    wanted: list[tuple[str, Scope]] = [("team", "read"), ("team", "write"), ("team", "admin"), ("team", "ingest")]
    reader, writer, admin, sender = await make_keys(tmp_path, *wanted)
    may_not = (403, "insufficient-scope")
    for operation in all_operations():
        administers = operation in ADMINISTRATIVE
        reads = operation.method == "GET" or operation.path in ASKING
        assert (await send(client, operation, admin))[0] != 403, operation
        assert (await send(client, operation, writer) == may_not) == administers, operation
        assert (await send(client, operation, reader) == may_not) == (administers or not reads), operation
        sends = operation.method == "POST" and operation.path in EXPORTS
        assert (await send(client, operation, sender) != may_not) == sends, operation
    noted = (await client.get("/v1/audit", headers=admin)).json()["items"]
    refused = [(one["detail"]["method"], one["target"]) for one in noted if one["action"] == "admin.refused"]
    assert sorted(refused) == sorted([*ADMINISTRATIVE] * 3)
    assert {*all_operations()} >= ADMINISTRATIVE


ROUNDS = "/v1/ratings/rounds"


async def make_theirs(client: httpx.AsyncClient, key: Header, *, with_round: bool = False) -> dict[str, str]:
    """Ids of what the key's project has, by the names that paths give them."""
    evaluation = await client.post("/v1/evaluations", json=BODY, headers=key)
    turns = [{"speaker": "A", "role": "user", "text": "はい。"}, {"speaker": "B", "role": "system", "text": "いいえ。"}]
    conversation = await client.post("/v1/conversations", json={"turns": turns}, headers=key)
    batch = await client.post("/v1/batches", json=BATCH, headers=key)
    again = await client.post("/v1/batches", json={**BATCH, "judge": {"samples": 2}}, headers=key)
    ids = [one.json()["id"] for one in (batch, again)]
    for one in ids:
        await wait_for(client, one, headers=key)
    link = await client.post("/v1/links", json=dict(zip(("old", "new"), ids, strict=True)), headers=key)
    await client.post("/v1/traces", content=export(talk(1, "a")).SerializeToString(), headers=key | PROTOBUF)
    live = await client.get("/v1/traces/conversations", headers=key)
    monitor = await client.post("/v1/monitors", json={"name": "a", "rubric": "ja-conversation"}, headers=key)
    gate = await client.post("/v1/gates", json={"candidate": ids[0], "coverage_only": True, "keep": True}, headers=key)
    made = {
        "gate_id": gate.json()["id"],
        "evaluation_id": evaluation.json()["id"],
        "conversation_id": conversation.json()["id"],
        "batch_id": ids[0],
        "live_conversation_id": live.json()["items"][0]["id"],
        "link_id": link.json()["id"],
        "monitor_id": monitor.json()["id"],
        **{name: NOTHING[name] for name in ("round_id", "preference_round_id", "preference_id", "run_id")},
    }
    if not with_round:
        return made
    opened = await client.post(ROUNDS, json={"batch": ids[0], "name": "a"}, headers=key)
    return {**made, "round_id": opened.json()["id"], **await make_pairs(client, key, ids[0])}


async def make_pairs(client: httpx.AsyncClient, key: Header, batch: str) -> dict[str, str]:
    """Ids of a comparison by the judge, of a preference run and of a round of preferences."""
    items = [{"id": "1", **SAID, "response": "別の応答です。"}]
    other = (await client.post("/v1/batches", json={**BATCH, "items": items}, headers=key)).json()["id"]
    await wait_for(client, other, headers=key)
    runs, sides = [batch, other], {"first": {"response": "はい。"}, "second": {"response": "いいえ。"}}
    asked = {"rubric": "ja-dialogue", "context": SAID["context"], **sides}
    preference = await client.post("/v1/preferences", json=asked, headers=key)
    compared = await client.post("/v1/preference-runs", json={"name": "a", "runs": runs}, headers=key)
    opened = await client.post("/v1/rounds", json={"kind": "preference", "runs": runs, "name": "a"}, headers=key)
    return {
        "preference_id": preference.json()["id"],
        "run_id": compared.json()["id"],
        "preference_round_id": opened.json()["id"],
    }


async def test_an_id_of_another_project_is_unknown(client: httpx.AsyncClient, tmp_path: Path) -> None:
    owner, rival = await make_keys(tmp_path, ("team", "admin"), ("rivals", "admin"))
    theirs = await make_theirs(client, owner, with_round=True)
    with_ids = [one for one in all_operations() if any(f"{{{name}}}" in one.path for name in NOTHING)]
    assert len(with_ids) > 10
    for operation in with_ids:
        assert await send(client, operation, rival, theirs) == (404, "not-found"), operation
    # The same request of its owner is known: 404 was for want of a right, not of the thing.
    for operation in with_ids:
        assert (await send(client, operation, owner, theirs))[0] != 404, operation
        if operation.method == "DELETE":
            theirs = await make_theirs(client, owner, with_round=True)


RATES = Operation("POST", "/v1/ratings")


def bodies(ids: dict[str, str]) -> dict[Operation, list[dict[str, Any]]]:
    """Bodies that name these batches and evaluations."""
    batch, evaluation = ids["batch_id"], ids["evaluation_id"]
    rating = {"rater": "R1", "ratings": {"naturalness": 3}}
    return {
        Operation("POST", "/v1/comparisons"): [{"baseline": batch, "candidate": batch}],
        Operation("POST", "/v1/gates"): [{"candidate": batch}, {"candidate": batch, "baseline": batch}],
        Operation("POST", "/v1/analyses/{name}"): [{"batch": batch}],
        Operation("POST", "/v1/analyses/ranking"): [{"runs": [batch, "ba_1"]}],
        Operation("POST", ROUNDS): [{"batch": batch, "name": "a"}],
        Operation("PUT", "/v1/baselines/{name}"): [{"batch": batch}],
        Operation("POST", "/v1/rounds"): [{"kind": "preference", "runs": [batch, "ba_1"], "name": "a"}],
        Operation("POST", "/v1/preference-runs"): [{"name": "a", "runs": [batch, "ba_1"]}],
        Operation("POST", "/v1/preference-runs/estimates"): [{"name": "a", "runs": [batch, "ba_1"]}],
        RATES: [
            {"batch": batch, "item": "1", **rating},
            {"evaluation": evaluation, **rating},
        ],
    }


async def refusals(
    client: httpx.AsyncClient, operation: Operation, name: str, ids: dict[str, str], key: Header
) -> list[tuple[int, str]]:
    """Status and text of each answer, without the ids in it."""
    answers = []
    for body in bodies(ids)[operation]:
        response = await client.request(operation.method, operation.path.format(name=name), json=body, headers=key)
        text = response.text
        for id_ in ids.values():
            text = text.replace(id_, "")
        answers.append((response.status_code, text))
    return answers


async def test_a_body_that_names_what_another_project_has_names_nothing(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    owner, rival = await make_keys(tmp_path, ("team", "admin"), ("rivals", "admin"))
    theirs = await make_theirs(client, owner)
    for operation in bodies(NOTHING):
        for name in REQUESTS if "{name}" in operation.path else [""]:
            answers = [await refusals(client, operation, name, ids, rival) for ids in (theirs, NOTHING)]
            assert answers[0] == answers[1], (operation, name)
            # Of many ratings in one body the line is told that is not right.
            assert {status for status, _ in answers[0]} == {422 if operation == RATES else 404}, (operation, name)
    for body in bodies(theirs)[RATES]:
        assert (await client.post("/v1/ratings", json=body, headers=owner)).status_code == 200
    listed = {"batch": theirs["batch_id"]}
    assert (await client.get("/v1/evaluations", params=listed, headers=rival)).json()["items"] == []
    assert (await client.get(ROUNDS, params=listed, headers=rival)).json() == {"items": []}
    assert (await client.get("/v1/gates", params={"candidate": theirs["batch_id"]}, headers=rival)).json()[
        "items"
    ] == []
    for query in ({"batch": theirs["batch_id"]}, {"evaluation": theirs["evaluation_id"]}):
        assert (await client.get("/v1/ratings", params=query, headers=rival)).text == ""
        assert (await client.delete("/v1/ratings", params=query, headers=rival)).json() == {"removed": 0}
        assert (await client.get("/v1/ratings", params=query, headers=owner)).text != ""
    queried = {Operation("GET", path) for path in ("/v1/ratings", ROUNDS, "/v1/evaluations", "/v1/gates")}
    queried |= {Operation("DELETE", "/v1/ratings")}
    # It never looks for what the ratings name.
    unlooked = {Operation("POST", "/v1/validations/ratings")}
    with_references = {operation for operation, about in operations() if fields_of(about) & REFERRING}
    assert {*bodies(theirs), *queried, *unlooked} >= with_references, "a new route refers to batches: try it here"


@pytest.mark.parametrize("allow_anonymous", [False, True])
async def test_without_keys_only_this_machine_is_answered(tmp_path: Path, allow_anonymous: bool) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}"
    settings = Settings(judge="lexical", encoder="off", database_url=url, allow_anonymous=allow_anonymous)
    application = create_application(settings)
    async with application.router.lifespan_context(application):
        for host, is_answered in (
            ("127.0.0.1", True),
            ("192.0.2.7", allow_anonymous),
            ("2001:db8::7", allow_anonymous),
        ):
            transport = httpx.ASGITransport(application, client=(host, 50_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                for operation in all_operations():
                    told = await send(client, operation, {})
                    assert (told != (403, "loopback-only")) == is_answered, (host, operation)


async def test_without_keys_no_page_of_another_site_is_answered_from_anywhere(tmp_path: Path) -> None:
    settings = Settings(
        judge="lexical",
        encoder="off",
        database_url=f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}",
        allow_anonymous=True,
        allowed_hosts=" Saiten.example.org , b.example",
    )
    application = create_application(settings)
    async with application.router.lifespan_context(application):
        # As Docker publishes a port: the caller is a gateway.
        transport = httpx.ASGITransport(application, client=("172.18.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            for host, origin, is_answered in (
                ("127.0.0.1:8000", None, True),
                ("localhost:8000", "http://localhost:8000", True),
                ("api:8000", None, True),
                ("192.0.2.9:8000", "http://192.0.2.9:8000", True),
                ("saiten.example.org", "https://saiten.example.org", True),
                ("b.example:8000", None, True),
                ("rebound.example:8000", None, False),
                ("rebound.example:8000", "http://rebound.example:8000", False),
                ("saiten.example.org.evil.example", None, False),
                ("127.0.0.1:8000", "http://evil.example", False),
                ("192.0.2.9:8000", "http://192.0.2.10:8000", False),
                ("127.0.0.1:8000", "null", False),
            ):
                headers = {"Host": host, "Content-Type": "text/plain"} | ({"Origin": origin} if origin else {})
                for method, path in (
                    ("GET", "/v1/info"),
                    ("GET", "/"),
                    ("POST", "/v1/estimates"),
                    ("DELETE", "/v1/batches/ba_1"),
                ):
                    told = await client.request(
                        method, path, headers=headers, content=b"{}" if method == "POST" else None
                    )
                    assert (told.status_code != 403) == is_answered, (host, origin, path, told.text)
