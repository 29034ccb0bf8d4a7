"""`/v1/preferences/human`: what people prefer, kept all or none, and read back."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import InvalidLines
from saiten_server.preferences.human import values
from saiten_server.preferences.human.store import HumanPreferenceStore
from saiten_server.preferences.human.values import read_preference_lines
from tests.support.cases import in_turn

HUMAN = "/v1/preferences/human"
NDJSON = {"Content-Type": "application/x-ndjson"}


def prefer(rater: str = "甲", preference: str = "first", **changes: Any) -> dict[str, Any]:
    """A preference of two responses."""
    return {
        "context": ["週末は何をしましたか。"],
        "first": {"response": "海に行きました。", "id": "波"},
        "second": {"response": "はい。", "id": "凪"},
        "rater": rater,
        "preference": preference,
        **changes,
    }


def talk(*texts: str) -> list[dict[str, str]]:
    return [
        {"speaker": "甲" if number % 2 else "客", "role": "system" if number % 2 else "user", "text": text}
        for number, text in enumerate(texts)
    ]


async def post(client: httpx.AsyncClient, *given: dict[str, Any], **headers: str) -> httpx.Response:
    body = "\n".join(json.dumps(one, ensure_ascii=False) for one in given)
    return await client.post(HUMAN, content=body.encode(), headers={**NDJSON, **headers})


async def read(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await client.get(HUMAN, params=params)).text.splitlines()]


async def test_preferences_come_back_as_they_were_given(client: httpx.AsyncClient) -> None:
    two = {"first": {"turns": talk("道は？", "右です。")}, "second": {"turns": talk("道は？", "左かな。")}}
    whole = {**prefer("乙", "tie", simulated=True), **two}
    del whole["context"]
    given = [prefer(shown=["second", "first"], reason="具体的", dialogue="海"), whole]
    assert (await post(client, *given)).json() == {"added": 2, "replaced": 0}
    first, second = await read(client)
    assert first["first"] == {"response": "海に行きました。", "id": "波"}
    assert (first["rater"], first["preference"], first["reason"]) == ("甲", "first", "具体的")
    assert first["shown"] == ["second", "first"]
    assert [said["text"] for said in first["context"]] == ["週末は何をしましたか。"]
    assert "simulated" not in first
    assert (second["preference"], second["simulated"]) == ("tie", True)
    assert [turn["text"] for turn in second["second"]["turns"]] == ["道は？", "左かな。"]
    assert [one["rater"] for one in await read(client, rater="乙")] == ["乙"]


async def test_pages_lead_to_all_and_a_later_preference_replaces_the_earlier(client: httpx.AsyncClient) -> None:
    await post(client, *(prefer(f"r{number}") for number in range(5)))
    swapped = prefer("r0", first=prefer()["second"], second=prefer()["first"], preference="first")
    assert (await post(client, swapped)).json() == {"added": 0, "replaced": 1}
    raters, cursor = [], "0"
    while cursor:
        page = await client.get(HUMAN, params={"limit": 2, "cursor": cursor})
        raters += [json.loads(line)["rater"] for line in page.text.splitlines()]
        cursor = page.headers.get("X-Next-Cursor", "")
    assert raters == ["r1", "r2", "r3", "r4", "r0"]
    (kept,) = await read(client, rater="r0")
    assert (kept["first"]["id"], kept["preference"]) == ("凪", "first")


async def test_a_repeated_request_is_answered_once(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "一度"}
    key = {"Idempotency-Key": "once"}
    first = await post(client, prefer(), **key)
    again = await post(client, prefer(), **key)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")


@in_turn(
    "wrong",
    [
        {"preference": "a"},
        {"preference": "1"},
        {"rater": None},
        {"second": {"response": "海に行きました。"}},
        {"second": {"response": "はい。", "id": "波"}},
        {"second": {"turns": talk("道は？", "左かな。")}},
        {"second": {"response": "はい。", "turns": talk("道は？", "左かな。")}},
        {"second": {}},
        {"second": None},
        {"context": None},
        {"context": []},
        {"shown": ["first", "first"]},
        {"shown": ["first"]},
        {"pair": "rr_1.0"},
        {"reason": "あ" * 2001},
        {"winner": "first"},
    ],
)
async def test_what_is_no_preference_is_refused_with_its_line(client: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    answer = await post(client, prefer("乙"), {**prefer(), **wrong})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/1"]
    assert await read(client) == []


async def test_one_rater_says_one_thing_of_a_pair(client: httpx.AsyncClient) -> None:
    other = prefer(first=prefer()["second"], second=prefer()["first"], preference="tie")
    answer = await post(client, prefer(), prefer("乙"), other)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/2"]
    assert "line 1" in answer.text
    assert await read(client) == []


@in_turn("name", ["pr_none", "rr_none.1", "rr_none.x", ".", "rr_\x00.1"])
async def test_a_pair_has_to_be_there(client: httpx.AsyncClient, name: str) -> None:
    answer = await post(client, {"pair": name, "rater": "甲", "preference": "tie"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/0"


async def test_an_empty_body_and_another_type_are_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post(HUMAN, content=b"\n", headers=NDJSON)).status_code == 422
    assert (await client.post(HUMAN, content=b"a", headers={"Content-Type": "text/csv"})).status_code == 415
    assert (await client.post(HUMAN, json=prefer())).json() == {"added": 1, "replaced": 0}
    assert (await client.get(HUMAN, params={"winner": "x"})).status_code == 422


async def test_preferences_are_removed_by_what_they_are_of(client: httpx.AsyncClient) -> None:
    await post(client, prefer("甲"), prefer("乙"))
    assert (await client.delete(HUMAN)).status_code == 422
    assert (await client.delete(HUMAN, params={"rater": "甲"})).json() == {"removed": 1}
    assert [one["rater"] for one in await read(client)] == ["乙"]


def test_a_body_has_so_many_preferences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_PREFERENCES", 2)
    body = "\n".join(json.dumps(prefer(f"r{number}")) for number in range(3)).encode()
    with pytest.raises(InvalidLines) as refused:
        read_preference_lines(body, DEFAULT_LIMITS)
    assert [number for number, _ in refused.value.faults] == [3]


async def test_a_page_of_long_texts_is_short(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.platform.sql.sizes.MOST_PAGE_BYTES", 20_000)
    monkeypatch.setattr("saiten_server.platform.sql.sizes.MEASURED_ROWS", 3)
    await post(client, *(prefer(f"r{number}") for number in range(7)))
    await post(client, *(prefer(f"s{number}", context=["長" * 4000]) for number in range(3)))
    raters, cursor = [], "0"
    while cursor:
        page = await client.get(HUMAN, params={"cursor": cursor})
        raters.append([json.loads(line)["rater"] for line in page.text.splitlines()])
        cursor = page.headers.get("X-Next-Cursor", "")
    assert raters == [[f"r{number}" for number in range(7)], ["s0"], ["s1"], ["s2"]]


async def test_many_rounds_that_are_not_there_take_few_queries(sqlite_engine: AsyncEngine) -> None:
    seen = list[str]()
    event.listen(sqlite_engine.sync_engine, "before_cursor_execute", lambda *told: seen.append(told[2]))
    names = [f"rr_{number}.1" for number in range(5_000)]
    assert await HumanPreferenceStore(sqlite_engine).find_pairs("team", names) == {}
    assert len(seen) < 50
