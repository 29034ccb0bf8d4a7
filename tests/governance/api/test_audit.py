"""`/v1/audit`: what was administered over HTTP, by whom, and for whose eyes."""

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.platform.sql.engine import open_engine, write
from saiten_server.platform.web.dependencies import QUIET_SECONDS, Attempt, Refusals
from tests.support.keyed import Header, make_keys

SAID = {"context": [{"speaker": "A", "text": "おはよう"}], "response": "おはよう、よく眠れた？"}
BATCH = {"rubric": "ja-dialogue", "relevance": None, "items": [{"id": "1", **SAID}]}


async def events(client: httpx.AsyncClient, key: Header | None = None, **query: Any) -> list[dict[str, Any]]:
    response = await client.get("/v1/audit", headers=key, params=query)
    assert response.status_code == 200
    found: list[dict[str, Any]] = response.json()["items"]
    return found


async def make_batch(client: httpx.AsyncClient, key: Header | None = None) -> str:
    return str((await client.post("/v1/batches", json=BATCH, headers=key)).json()["id"])


async def rate(client: httpx.AsyncClient, batch: str, *raters: str) -> None:
    for rater in raters:
        rating = {"batch": batch, "item": "1", "rater": rater, "ratings": {"naturalness": 3}}
        assert (await client.post("/v1/ratings", json=rating)).status_code == 200


async def test_an_erased_batch_is_noted(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "saiten.audit")
    batch = await make_batch(client)
    assert await events(client) == []
    assert (await client.delete("/v1/batches/ba_0")).status_code == 404
    assert (await client.delete(f"/v1/batches/{batch}")).status_code == 204
    [event] = await events(client)
    assert (event["action"], event["target"], event["actor"]) == ("batch.erased", batch, "anonymous")
    assert (event["project"], event["detail"]) == ("default", {})
    [told] = [record.__dict__ for record in caplog.records if record.name == "saiten.audit"]
    assert (told["message"], told["action"], told["actor"]) == ("audit", "batch.erased", "anonymous")


async def test_a_run_that_is_erased_on_its_page_is_noted(client: httpx.AsyncClient, tmp_path: Path) -> None:
    [key] = await make_keys(tmp_path, ("team", "admin"))
    batch = await make_batch(client, key)
    origin = {"Origin": str(client.base_url).rstrip("/")}
    response = await client.post(f"/runs/{batch}/delete", data={"yes": "1"}, headers=key | origin)
    assert response.status_code == 303
    [event] = await events(client, key)
    assert (event["action"], event["target"], event["project"]) == ("batch.erased", batch, "team")
    assert event["actor"].startswith("key_")


async def test_removed_ratings_are_noted_without_what_callers_wrote(client: httpx.AsyncClient) -> None:
    batch = await make_batch(client)
    await rate(client, batch, "佐藤", "田中")
    assert (await client.delete("/v1/ratings?rater=nobody")).json() == {"removed": 0}
    assert await events(client) == []
    assert (await client.delete("/v1/ratings", params={"rater": "佐藤"})).json() == {"removed": 1}
    assert (await client.delete("/v1/ratings", params={"batch": batch, "item": "1"})).json() == {"removed": 1}
    [second, first] = await events(client)
    assert (first["target"], first["detail"]) == ("ratings", {"removed": 1, "by": ["rater"]})
    assert (second["target"], second["detail"]) == (batch, {"removed": 1, "by": ["item", "batch"]})
    assert "佐藤" not in str(first)


async def test_a_replaced_reference_of_the_judge_is_noted_and_the_first_is_not(client: httpx.AsyncClient) -> None:
    asked = {"rubric": "ko-comment", "record": True}
    assert (await client.post("/v1/judge-checks", json=asked)).json()["verdict"] == "recorded"
    assert await events(client) == []
    assert (await client.post("/v1/judge-checks", json=asked)).json()["verdict"] == "recorded"
    assert (await client.post("/v1/judge-checks", json=asked | {"record": False})).json()["verdict"] == "steady"
    [event] = await events(client)
    assert (event["action"], event["target"], event["actor"]) == (
        "judge-reference.replaced",
        "ko-comment",
        "anonymous",
    )


async def test_whoever_replaces_the_reference_is_named(client: httpx.AsyncClient, tmp_path: Path) -> None:
    first, second, admin = await make_keys(tmp_path, ("team", "write"), ("team", "write"), ("team", "admin"))
    for key in (first, second):
        response = await client.post("/v1/judge-checks", json={"rubric": "ko-comment", "record": True}, headers=key)
        assert response.status_code == 200
    await client.get("/v1/audit", headers=second)
    [refused, replaced] = await events(client, admin)
    assert replaced["actor"] == refused["actor"] != "anonymous"


async def test_pages_follow_each_other_and_new_events_shift_nothing(client: httpx.AsyncClient) -> None:
    erased = [await make_batch(client) for _ in range(4)]
    for batch in erased[:3]:
        await client.delete(f"/v1/batches/{batch}")
    first = await client.get("/v1/audit?limit=2")
    await client.delete(f"/v1/batches/{erased[3]}")
    assert [one["target"] for one in first.json()["items"]] == [erased[2], erased[1]]
    link = first.headers["link"]
    assert link == f'</v1/audit?limit=2&before={first.json()["next"]}>; rel="next"'
    last = await client.get(link[1:].partition(">")[0])
    assert [one["target"] for one in last.json()["items"]] == [erased[0]]
    assert last.json()["next"] is None
    assert "link" not in last.headers
    assert (await client.get("/v1/audit?limit=3&before=1")).json() == {"items": [], "next": None}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "before=0", "before=x", "before=99999999999999999999"])
async def test_what_is_no_page_is_refused(client: httpx.AsyncClient, query: str) -> None:
    response = await client.get(f"/v1/audit?{query}")
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request")


async def test_whoever_goes_on_trying_is_noted_once(
    client: httpx.AsyncClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "saiten.audit")
    reader, writer, admin = await make_keys(tmp_path, ("team", "read"), ("team", "write"), ("team", "admin"))
    policy = {"integrity": "flag"}
    for _ in range(5):
        for key in (reader, writer):
            assert (await client.get("/v1/audit", headers=key)).status_code == 403
            assert (await client.put("/v1/policy", json=policy, headers=key)).status_code == 403
    noted = await events(client, admin)
    assert {event["action"] for event in noted} == {"admin.refused"}
    # Each key at each route, and no more; but the log has them all.
    tried = [(event["actor"], event["detail"]["method"], event["target"]) for event in noted]
    assert (len(tried), len(set(tried)), len({actor for actor, _, _ in tried})) == (4, 4, 2)
    records = [record.__dict__ for record in caplog.records if record.name == "saiten.audit"]
    assert len(records) == 20
    assert {(record["message"], record["project"], record["action"]) for record in records} == {
        ("audit", "team", "admin.refused")
    }
    counted = (await client.get("/metrics")).text
    assert 'saiten_http_requests_total{method="GET",route="/v1/audit",status="403"} 10.0' in counted


async def test_an_attempt_that_could_not_be_noted_is_noted_when_it_comes_again(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    reader, admin = await make_keys(tmp_path, ("team", "read"), ("team", "admin"))
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    async with write(engine) as connection:
        await connection.exec_driver_sql("ALTER TABLE audit_events RENAME TO audit_events_away")
    assert (await client.get("/v1/audit", headers=reader)).status_code == 503
    async with write(engine) as connection:
        await connection.exec_driver_sql("ALTER TABLE audit_events_away RENAME TO audit_events")
    await engine.dispose()
    assert (await client.get("/v1/audit", headers=reader)).status_code == 403
    assert len(await events(client, admin)) == 1


def attempt(actor: str) -> Attempt:
    return ("team", actor, "GET", "/v1/audit")


def test_an_attempt_is_noted_again_after_a_minute() -> None:
    moments = [0.0, 1.0, QUIET_SECONDS - 0.1, QUIET_SECONDS, QUIET_SECONDS + 1, 2 * QUIET_SECONDS]
    times = [0.0]
    refusals = Refusals(clock=lambda: times[-1])
    taken = []
    for moment in moments:
        times.append(moment)
        taken.append(refusals.take(attempt("key_1")))
    assert taken == [True, False, False, True, False, True]
    assert refusals.take(attempt("key_2"))
    refusals.leave(attempt("key_2"))
    refusals.leave(attempt("key_3"))
    assert refusals.take(attempt("key_2"))


def test_only_so_many_attempts_are_kept_in_mind() -> None:
    now = 0.0
    refusals = Refusals(clock=lambda: now, most=2)
    assert [refusals.take(attempt(actor)) for actor in ("a", "b", "c")] == [True] * 3
    # The oldest made room; the others are still known.
    assert [refusals.take(attempt(actor)) for actor in ("b", "c", "a")] == [False, False, True]
    now = QUIET_SECONDS
    assert refusals.take(attempt("c"))
    # `c` came last by now, so that `a` goes first.
    assert [refusals.take(attempt(actor)) for actor in ("d", "c", "a")] == [True, False, True]


async def test_a_project_sees_its_own_events(client: httpx.AsyncClient, tmp_path: Path) -> None:
    team, rivals = await make_keys(tmp_path, ("team", "admin"), ("rivals", "admin"))
    await client.delete(f"/v1/batches/{await make_batch(client, team)}", headers=team)
    assert [one["project"] for one in await events(client, team)] == ["team"]
    assert await events(client, rivals) == []


async def test_what_cannot_be_noted_is_told(
    client: httpx.AsyncClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batch = await make_batch(client)
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    async with write(engine) as connection:
        await connection.exec_driver_sql("ALTER TABLE audit_events RENAME TO audit_events_away")
    await engine.dispose()
    response = await client.delete(f"/v1/batches/{batch}")
    assert (response.status_code, response.json()["code"]) == (503, "store-unavailable")
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "missing in the audit log" in told.getMessage()
    assert told.__dict__["target"] == batch
