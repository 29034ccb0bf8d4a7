"""Leaderboards over HTTP, and their page: by the judge's comparisons, by people and by ratings."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.preferences.runs.test_api import LENGTHS, finish, post_system
from tests.support.elements import Page
from tests.support.fake_openai import FakeOpenAI
from tests.support.pair_judge import answer_with, prefer_longer
from tests.support.posted import NDJSON
from tests.support.serving import judged_by, serving
from tests.support.waiting import read_computed

COUNT = 16


async def run_all(client: httpx.AsyncClient) -> str:
    """The id of a completed preference run of three systems."""
    runs = [await post_system(client, system, COUNT) for system in LENGTHS]
    run = await finish(client, {"name": "spring", "runs": runs})
    return str(run["id"])


async def test_a_preference_run_has_a_leaderboard(tmp_path: Path) -> None:
    async with FakeOpenAI(answer_with(prefer_longer)) as fake, serving(tmp_path, **judged_by(fake)) as client:
        run = await run_all(client)
        answer = await client.get("/v1/leaderboards", params={"preference_run": run})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert [*found["judge"]["systems"]] == ["bot-a", "bot-b", "bot-c"]
        assert [one["rank"] for one in found["judge"]["systems"].values()] == [1, 2, 3]
        # The judge always takes the longer one: nothing is finite, and all of it is resolved.
        assert all(one["strength"] is None for one in found["judge"]["systems"].values())
        assert found["judge"]["tied_with_best"] == ["bot-a"]
        assert found["judge"]["position_consistency"] == 1
        assert found["ratings"] is not None
        assert found["people"] is None
        assert {*found["runs"]} == {*LENGTHS}
        by_name = (await client.get("/v1/leaderboards", params={"name": "nightly"})).json()
        assert by_name["judge"] is None
        assert {*by_name["ratings"]["systems"]} == {*LENGTHS}
        ranked = await client.post("/v1/analyses/ranking", json={"preference_run": run})
        assert ranked.json()["systems"] == found["judge"]["systems"]


async def test_what_is_not_there_is_said(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/leaderboards")).status_code == 422
    assert (await client.get("/v1/leaderboards", params={"name": "a", "preference_run": "pf_1"})).status_code == 422
    assert (await client.get("/v1/leaderboards", params={"name": "nobody"})).status_code == 404
    assert (await client.get("/v1/leaderboards", params={"preference_run": "pf_none"})).status_code == 404
    assert (await client.get("/v1/leaderboards", params={"name": "a", "alpha": "1"})).status_code == 422


async def test_an_aspect_that_no_run_has_is_refused(client: httpx.AsyncClient) -> None:
    for system in ("bot-a", "bot-b"):
        await post_system(client, system)
    answer = await client.get("/v1/leaderboards", params={"name": "nightly", "aspect": "grace"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/query/aspect")


async def test_the_page_shows_ranks_and_who_beats_whom(tmp_path: Path) -> None:
    async with FakeOpenAI(answer_with(prefer_longer)) as fake, serving(tmp_path, **judged_by(fake)) as client:
        run = await run_all(client)
        listed = (await client.get("/leaderboard/preferences")).text
        assert "/leaderboard/preferences?preference_run=" + run in listed
        assert "Choose which systems to rank:" in listed
        for language in ("en", "ja", "ko"):
            text = await read_computed(
                client, f"/leaderboard/preferences?preference_run={run}", **{"Accept-Language": language}
            )
            page = Page(text)
            rows = [row.text.split() for row in page.all("tr")][1:4]
            assert [row[0] for row in rows] == ["bot-a", "bot-b", "bot-c"]
        links = [link["href"] for link in page.all("a") if "preferences/pair" in link["href"]]
        assert len(links) == 6
        cases = await client.get(links[0])
        assert cases.status_code == 200
        assert "i0" in cases.text
        markdown = await client.get(f"/leaderboard/preferences.md?preference_run={run}")
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "| 1 | bot-a |" in markdown.text
        japanese = await client.get(
            f"/leaderboard/preferences.md?preference_run={run}", headers={"Accept-Language": "ja"}
        )
        assert "| 勝ち | 負け | 引き分け |" in japanese.text
        picture = await client.get(f"/leaderboard/preferences.svg?preference_run={run}")
        assert picture.text.startswith("<svg")
        assert (await client.get("/leaderboard/preferences?preference_run=pf_none")).status_code == 404


async def test_people_stand_beside_the_judge(tmp_path: Path) -> None:
    async with FakeOpenAI(answer_with(prefer_longer)) as fake, serving(tmp_path, **judged_by(fake)) as client:
        run = await run_all(client)
        runs = (await client.get("/v1/leaderboards", params={"preference_run": run})).json()["runs"]
        drawn = await client.post(
            "/v1/rounds", json={"kind": "preference", "name": "r", "runs": [*runs.values()], "items": 24}
        )
        assert drawn.status_code in {200, 201}, drawn.text
        round_id = drawn.json()["id"]
        said = [
            {"pair": f"{round_id}.{number}", "rater": "甲", "preference": ("first", "second", "tie")[number % 3]}
            for number in range(24)
        ]
        body = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in said).encode()
        posted = await client.post("/v1/preferences/human", content=body, headers=NDJSON)
        assert posted.status_code in {200, 201}, posted.text
        found = (await client.get("/v1/leaderboards", params={"preference_run": run})).json()
        assert found["people"]["raters"] == 1
        assert found["people"]["looks"] == 24
        assert [(one["first"], one["second"]) for one in found["agreement"]] == [
            ("judge", "people"), ("judge", "ratings"), ("people", "ratings")
        ]  # fmt: skip
        assert found["judge"]["refused"]
