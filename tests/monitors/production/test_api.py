"""From production to tests over HTTP and on the pages: datasets, rating rounds and baselines of live conversations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.monitors.traces.commits import name_id
from tests.support.batches import START
from tests.support.databases import lay_schema, open_sqlite
from tests.support.live import MonitorBench, make_live
from tests.support.serving import serving

PAGE = {"Accept": "text/html", "Accept-Language": "en"}
COUNT = 12


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str, str]]:
    """A service with a monitor, whose complete window has twelve conversations, half of them sampled at a half; with
    the ids of monitor and run."""
    url = f"sqlite+aiosqlite:///{folder / 'saiten.db'}"
    lay_schema(url)
    async with open_sqlite(url) as engine:  # before the service's own worker would take part
        bench = MonitorBench(engine, project="default")
        bench.clock.now = START - timedelta(days=3)
        half = {"filter": {"service.version": "2"}, "rate": 0.5}
        monitor = await bench.make(name="窓口", strata=[half])
        for number in range(3 * COUNT):
            at, name = bench.clock.now + timedelta(minutes=number), f"c-{number}"
            own = {"build": "2" if number % 2 else "1", "project": "default"}
            bench.live.close(replace(make_live(name, at=at, **own), id=name_id("default", name)))
        await finish(bench, {f"c-{number}": 2 + number % 7 for number in range(3 * COUNT)})
    async with serving(folder, judge="lexical") as client:
        (last, *_) = [
            one for one in (await client.get(f"/v1/monitors/{monitor.id}/windows")).json()["items"] if one["sampled"]
        ]
        yield client, monitor.id, last["run"]


async def finish(bench: MonitorBench, ratings: dict[str, float]) -> None:
    """Scores what is sampled, and lets the window end."""
    for _ in range(2):
        await bench.work.do_round()
    await bench.score(ratings)
    await bench.work.do_round()
    bench.clock.move(2 * 86_400)
    await bench.work.do_round()


async def ask(client: httpx.AsyncClient, path: str, body: dict[str, Any], status: int = 200) -> Any:
    answered = await client.post(path, json=body)
    assert answered.status_code == status, answered.text
    return answered.json()


async def test_conversations_become_items_rounds_and_a_baseline(tmp_path: Path) -> None:
    async with watching(tmp_path) as (client, monitor, _):
        place = f"/v1/monitors/{monitor}"
        asked = {"dataset": "hard", "filter": {"at_most": {"overall": 3}}, "limit": 4}
        grown = await ask(client, f"{place}/dataset", asked)
        assert (grown["name"], grown["version"], grown["added"]) == ("hard", 1, 4)
        again = await ask(client, f"{place}/dataset", asked)
        assert (again["id"], again["added"], again["known"]) == (grown["id"], 0, 4)
        keyed: dict[str, Any] = {"headers": {"Idempotency-Key": "once"}, "json": asked | {"dataset": "other"}}
        first, second = [await client.post(f"{place}/dataset", **keyed) for _ in range(2)]
        assert (first.json()["added"], second.json()) == (4, first.json())
        assert second.headers["idempotent-replayed"] == "true"
        items = (await client.get(f"/datasets/{grown['id']}/items")).text
        assert items.count('"probability"') == items.count('"window"') == 4

        pinned = await ask(client, f"{place}/baseline", {})
        assert pinned["name"] == "窓口"
        (listed,) = (await client.get("/v1/baselines")).json()["items"]
        assert listed["batch"] == pinned["batch"]

        opened = await ask(client, f"{place}/rounds", {"name": "一回目", "items": 3}, 201)
        assert (opened["drawn"], opened["run"]) == (3, pinned["batch"])
        drawn = (await client.get(f"/v1/ratings/rounds/{opened['round']}/items")).json()["items"]
        run = (await client.get(f"/v1/batches/{opened['run']}")).json()
        rate = 0.5 if run["metadata"]["build"] == "2" else 1.0
        chance = 3 / run["counts"]["total"]
        assert [one["inclusion"] for one in drawn] == pytest.approx([rate * chance] * 3)


async def test_people_s_ratings_of_a_window_are_weighed_by_how_it_was_sampled(tmp_path: Path) -> None:
    """Those who are unhappy are all sampled, and of the others a part: the mean is that of all."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}"
    lay_schema(url)
    async with open_sqlite(url) as engine:
        bench = MonitorBench(engine, project="default")
        bench.clock.now = START - timedelta(days=3)
        monitor = await bench.make(rate=0.25, strata=[{"filter": {"feedback": "down"}, "rate": 1.0}])
        for number in range(60):
            at, attributes = bench.clock.now, {"feedback": "down"} if number % 6 == 0 else {}
            bench.live.close(make_live(f"c-{number}", at=at, attributes=attributes, project="default"))
        await finish(bench, {f"c-{number}": 2.0 if number % 6 == 0 else 4.0 + number % 2 for number in range(60)})
    async with serving(tmp_path, judge="lexical") as client:
        opened = await ask(client, f"/v1/monitors/{monitor.id}/rounds", {"name": "全件", "items": 2000}, 201)
        drawn = (await client.get(f"/v1/ratings/rounds/{opened['round']}/items")).json()["items"]
        sampled = {one["position"]: one["inclusion"] for one in drawn}
        assert {*sampled.values()} == {0.25, 1.0}
        rated = {position: 1.0 if share == 1 else 3.0 + position % 3 for position, share in sampled.items()}
        lines = [
            {"evaluation": f"ev_{opened['run']}_{position}", "rater": "甲", "ratings": {"overall": value}}
            for position, value in rated.items()
        ]
        content = "\n".join(map(json.dumps, lines))
        sent = await client.post("/v1/ratings", content=content, headers={"Content-Type": "application/x-ndjson"})
        assert sent.status_code == 200, sent.text
        report = (await client.get(f"/v1/ratings/rounds/{opened['round']}/corrected")).json()
        (system,) = report["systems"].values()
        figures = system["aspects"]["overall"]
        weighed = sum(value / sampled[at] for at, value in rated.items()) / sum(1 / share for share in sampled.values())
        assert figures["human"]["mean"] == pytest.approx(weighed)
        assert figures["human"]["mean"] > sum(rated.values()) / len(rated) + 0.5
        assert figures["rated"] == len(sampled)


async def test_a_round_of_the_worst_feeds_no_corrected_figure(tmp_path: Path) -> None:
    async with watching(tmp_path) as (client, monitor, run):
        body = {"name": "低い順", "choose": "worst", "aspect": "overall", "items": 2, "run": run}
        opened = await ask(client, f"/v1/monitors/{monitor}/rounds", body, 201)
        place = f"/v1/ratings/rounds/{opened['round']}"
        found = (await client.get(place)).json()
        assert (found["options"]["choose"], found["drawn"]) == ("worst", 2)
        assert found["note"]
        assert [one["inclusion"] for one in (await client.get(f"{place}/items")).json()["items"]] == [None, None]
        figures = await client.get(f"{place}/corrected")
        assert (figures.status_code, figures.json()["message"]) == (422, "round-not-a-sample")
        included = await client.delete(f"/v1/ratings/exclusions?round={opened['round']}")
        assert (included.status_code, included.json()["message"]) == (422, "round-not-a-sample")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"dataset": "a"}, ""),
        ({"dataset": "a", "conversations": [], "filter": {}}, "/conversations"),
        ({"dataset": "", "filter": {}}, "/dataset"),
        ({"dataset": "a\nb", "filter": {}}, "/dataset"),
        ({"dataset": "a", "filter": {}, "limit": 1001}, "/limit"),
        ({"dataset": "a", "filter": {"finding": "rude"}}, "/filter/finding"),
        ({"dataset": "a", "conversations": ["a"] * 1001}, "/conversations"),
        ({"dataset": "a", "conversations": []}, "/conversations"),
        ({"dataset": "a", "conversations": ["no\u0000body"]}, None),
    ],
)
async def test_what_is_wrong_is_refused_with_its_place(
    client: httpx.AsyncClient, body: dict[str, Any], pointer: str | None
) -> None:
    made = await ask(client, "/v1/monitors", {"name": "a", "rubric": "ja-conversation"}, 201)
    answered = await client.post(f"/v1/monitors/{made['id']}/dataset", json=body)
    assert answered.status_code == 422, answered.text
    places = [one["pointer"] for one in answered.json().get("errors", [])]
    assert pointer is None or pointer in places or answered.json().get("pointer") == pointer, answered.text


async def test_the_page_adds_to_a_dataset_and_pins_the_last_window(tmp_path: Path) -> None:
    async with watching(tmp_path) as (client, monitor, run):
        place = f"/monitors/{monitor}"
        page = (await client.get(place, headers=PAGE)).text
        assert f'href="/rate?run={run}"' in page
        assert page.count('name="conversation"') > 1
        for form, kept in (({"conversation": ["c-0", "c-2"]}, "new"), ({"conversation": ["c-0"]}, "same")):
            sent = await client.post(f"{place}/dataset", data={"dataset": "手本", **form}, headers=PAGE)
            assert (sent.status_code, sent.headers["location"].partition("?")[2]) == (303, f"kept={kept}")
        by_filter = {"by": "filter", "dataset": "手本", "aspect": "overall", "at_most": "4", "limit": "50"}
        sent = await client.post(f"{place}/dataset", data=by_filter, headers=PAGE)
        assert sent.status_code == 303, sent.text
        assert (await client.get(sent.headers["location"], headers=PAGE)).status_code == 200
        for wrong in ({"dataset": "手本"}, {"dataset": "", "conversation": "c-0"}, {**by_filter, "at_most": "<x>"}):
            refused = await client.post(f"{place}/dataset", data=wrong, headers=PAGE)
            assert refused.status_code == 422
            assert 'role="alert"' in refused.text
        pinned = await client.post(f"{place}/baseline", data={"run": ""}, headers=PAGE)
        assert pinned.headers["location"] == f"{place}#windows"
        assert ">Baseline</span>" in (await client.get(place, headers=PAGE)).text
        # The same on the page of one conversation.
        shown = (await client.get(f"/runs/{run}/items/0", headers=PAGE)).text
        assert f'action="{place}/dataset"' in shown
