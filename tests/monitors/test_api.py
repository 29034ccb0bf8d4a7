"""`/v1/monitors` over HTTP: from a span to a score, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from saiten_server.monitors.values import MonitorOptions
from saiten_server.platform.web.dependencies import write_cursor
from saiten_server.scoring.store import STORED
from tests.support.conversations import find_planted
from tests.support.fake_openai import FakeOpenAI
from tests.support.waiting import LIMIT_SECONDS

BODY = {"name": "live", "rubric": "ja-conversation", "rate": 1.0, "max_turns": 2, "idle_seconds": 5}


@pytest.fixture
def judging(fake: FakeOpenAI) -> None:
    fake.default = find_planted


def span(conversation: str, asked: str, answer: str) -> dict[str, Any]:
    """One call of a bot's model, as its instrumentation sends it."""
    said: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": conversation,
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": asked}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in said.items()]
    own = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "chat"}
    times = {"startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000"}
    return {
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "front"}}]},
        "scopeSpans": [{"spans": [{**own, **times, "kind": 3, "attributes": attributes}]}],
    }


async def send(client: httpx.AsyncClient, *spans: dict[str, Any]) -> None:
    answered = await client.post("/v1/traces", json={"resourceSpans": [*spans]})
    assert answered.status_code == 200, answered.text


async def test_from_a_span_to_a_score(client: httpx.AsyncClient, fake: FakeOpenAI, judging: None) -> None:
    made = await client.post("/v1/monitors", json=BODY)
    assert made.status_code == 201, made.text
    monitor = made.json()
    assert made.headers["Location"] == f"/v1/monitors/{monitor['id']}"
    assert (monitor["version"], monitor["options"]["rubric"]) == (1, "ja-conversation@2")
    await send(client, span("c-1", "電話は090-1234-5678です。", "かしこまりました。[fault:coherence]"))

    result: dict[str, Any] = {"status": None}
    async with asyncio.timeout(LIMIT_SECONDS):
        while result["status"] is None:
            await asyncio.sleep(0.05)
            found = (await client.get(f"/v1/monitors/{monitor['id']}/conversations")).json()["items"]
            result = found[0] if found else result
    assert (result["conversation"], result["outcome"], result["status"]) == ("c-1", "sampled", "scored")
    assert result["system"] == "front"
    assert result["faulty_turns"] == 1
    run = (await client.get(f"/v1/batches/{result['run']}")).json()
    assert (run["name"], run["metadata"]["monitor"], run["counts"]["scored"]) == ("live", monitor["id"], 1)
    # What was said is covered before it is stored, and so in the judge's prompt.
    texts = (await client.get(f"/v1/batches/{result['run']}/results?texts=true")).text
    assert "[phone]" in texts
    assert "1234" not in texts
    (window,) = (await client.get(f"/v1/monitors/{monitor['id']}/windows")).json()["items"]
    assert (window["run"], window["conversations"], window["open"]) == (result["run"], 1, True)


async def test_a_monitor_is_changed_listed_and_deleted(client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/monitors", json=BODY)).json()
    place = f"/v1/monitors/{made['id']}"
    changed = await client.patch(place, json={"rate": 0.5, "alarm": {"aspects": ["overall"]}})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["version"], changed.json()["options"]["rate"]) == (2, 0.5)
    assert changed.json()["options"]["name"] == "live"
    assert [one["id"] for one in (await client.get("/v1/monitors")).json()["items"]] == [made["id"]]
    assert (await client.get(f"{place}/alarms")).json() == {"measures": [], "items": [], "next": None}
    assert (await client.delete(place)).status_code == 204
    for asked in (place, f"{place}/windows", f"{place}/alarms", f"{place}/conversations"):
        answered = await client.get(asked, headers={"Accept-Language": "ja"})
        assert (answered.status_code, answered.json()["code"]) == (404, "not-found")
        assert "モニター" in answered.json()["detail"]


@pytest.mark.parametrize(
    "changes", [{"name": None}, {"rubric": None}, {"rate": None}, {"rate": 2}, {"send_to": None}, {"unknown": 1}, []]
)
async def test_a_change_that_cannot_be_is_refused(client: httpx.AsyncClient, changes: object) -> None:
    made = (await client.post("/v1/monitors", json=BODY)).json()
    answered = await client.patch(f"/v1/monitors/{made['id']}", json=changes)
    assert answered.status_code == 422, answered.text
    assert (await client.get(f"/v1/monitors/{made['id']}")).json()["version"] == 1


async def test_a_repeated_post_makes_one_monitor(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = await client.post("/v1/monitors", json=BODY, headers=headers)
    again = await client.post("/v1/monitors", json=BODY, headers=headers)
    assert first.json() == again.json()
    assert len((await client.get("/v1/monitors")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"rate": 1.5}, "/rate"),
        ({"rate": -0.1}, "/rate"),
        ({"name": "a\nb"}, "/name"),
        ({"window": "week"}, "/window"),
        ({"alarm": {"reference_days": 1}}, "/alarm/reference_days"),
        ({"alarm": {"alpha": 0}}, "/alarm/alpha"),
        ({"alarm": {"alpha": 1e-10}}, "/alarm/alpha"),
        ({"strata": [{"filter": {}, "rate": 1}]}, "/strata/0/filter"),
        ({"filter": {f"a{n}": "1" for n in range(9)}}, "/filter"),
        ({"filter": {"": "1"}}, "/filter/"),
        ({"budget_usd_per_day": 0}, "/budget_usd_per_day"),
        ({"redact": ["face"]}, "/redact/0"),
        ({"send_to": [{"kind": "webhook", "url": "http://127.0.0.1/"}]}, "/send_to/0/url"),
        ({"send_to": [{"kind": "post", "url": "http://a/"}]}, "/send_to/0/kind"),
        ({"unknown": 1}, "/unknown"),
        ({"max_turns": 1}, "/max_turns"),
        ({"rubric": "ja-dialogue"}, None),
    ],
)
async def test_what_is_wrong_is_refused_with_its_place(
    client: httpx.AsyncClient, changes: dict[str, Any], pointer: str | None
) -> None:
    answered = await client.post("/v1/monitors", json={**BODY, **changes})
    assert answered.status_code == 422, answered.text
    places: Sequence[str] = [one["pointer"] for one in answered.json().get("errors", [])]
    assert pointer is None or pointer in places or answered.json().get("pointer") == pointer, answered.text


async def test_pages_of_lists_are_linked(client: httpx.AsyncClient) -> None:
    made = (await client.post("/v1/monitors", json=BODY)).json()
    for asked in ("windows", "alarms", "conversations"):
        assert (await client.get(f"/v1/monitors/{made['id']}/{asked}?limit=1")).status_code == 200
        assert (await client.get(f"/v1/monitors/{made['id']}/{asked}?limit=0")).status_code == 422
        assert (await client.get(f"/v1/monitors/{made['id']}/{asked}?cursor=x")).status_code == 422


@pytest.mark.parametrize("part", ["2147483648", "9" * 30])
async def test_a_cursor_with_a_number_that_no_database_takes(client: httpx.AsyncClient, part: str) -> None:
    made = (await client.post("/v1/monitors", json=BODY)).json()
    cursor = write_cursor(datetime(2026, 1, 1, tzinfo=UTC), f"x_{part}")
    answered = await client.get(f"/v1/monitors/{made['id']}/windows?cursor={cursor}")
    assert (answered.status_code, answered.json().get("items")) == (200, []), answered.text


def test_a_monitor_that_was_stored_with_a_smaller_alpha_is_still_read() -> None:
    text = json.dumps({**BODY, "alarm": {"alpha": 1e-12}})
    found = MonitorOptions.model_validate_json(text, context=STORED)
    assert found.alarm is not None
    assert found.alarm.alpha == 1e-12
