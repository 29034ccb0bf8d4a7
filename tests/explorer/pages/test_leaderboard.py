"""`/leaderboard`: systems in their places, by the judge and corrected by people."""

import json
import re
from pathlib import Path

import httpx

from tests.support.elements import Page
from tests.support.fake_openai import BAD, FakeOpenAI, judge_bad
from tests.support.posted import NDJSON, make_context, make_item, wait_for
from tests.support.serving import judged_by, serving
from tests.support.waiting import read_computed

COUNT = 30


async def score(client: httpx.AsyncClient, system: str, bad: int, **options: object) -> str:
    items = [
        make_item(at, context=make_context(at), response=f"{BAD if at < bad else '良い'}返事です。（{at}）（{system}）")
        for at in range(COUNT)
    ]
    body = {"name": "race", "metadata": {"system": system}, "relevance": None, "items": items, **options}
    found = (await client.post("/v1/batches", json=body)).json()["id"]
    await wait_for(client, found)
    return str(found)


async def show(client: httpx.AsyncClient, path: str, **headers: str) -> Page:
    return Page(await read_computed(client, path, **headers))


async def test_systems_stand_in_their_places(fake: FakeOpenAI, tmp_path: Path) -> None:
    fake.default = judge_bad
    async with serving(tmp_path, **judged_by(fake)) as client:
        page = await show(client, "/leaderboard")
        assert "no completed run with a name" in page.one("main").text
        assert page.one("a", aria_current="page").text == "Runs"
        await score(client, "poor", COUNT)
        runs = {system: await score(client, system, bad) for system, bad in (("fine", 1), ("poor", 25), ("good", 0))}
        otherwise = await score(client, "other", 0, judge={"samples": 2}, name="lonely")

        address = "/leaderboard?name=race&rubric=ja-dialogue"
        assert [link.text for link in (await show(client, "/leaderboard")).all("a", href=address)] == ["race"]
        assert "not two systems" in (await show(client, "/leaderboard?name=lonely")).one("main").text
        page = await show(client, "/leaderboard?name=race")
        rows = [row.text for row in page.all("tr")][1:]
        assert [row.split()[0] for row in rows] == ["good", "fine", "poor"]
        assert "places 1–2" in rows[0]
        assert "5.00 [" not in rows[0]  # no spread, no interval
        assert "place 3" in rows[2]
        assert f"/runs/{runs['poor']}" in {link["href"] for link in page.all("a")}
        assert not page.all("nav", class_="segments")
        page = await show(client, "/leaderboard?name=race&figures=corrected")
        assert [link.text for link in page.all("a", aria_current="true")] == ["Corrected by people"]
        assert not re.search(r"\d\.\d\d", page.one("tbody").text)

        lines = [
            {"batch": run, "item": f"i{at}", "rater": "R", "ratings": {"overall": rating}}
            for system, run in runs.items()
            for at in range(COUNT)
            for rating in [2 + at % 2 if system == "good" else 4 + (at % 3 == 0)]
        ]
        assert (await client.post("/v1/ratings", content="\n".join(map(json.dumps, lines)), headers=NDJSON)).is_success
        page = await show(client, "/leaderboard?name=race&figures=corrected")
        assert [link.text for link in page.all("a", aria_current="true")] == ["Corrected by people"]
        rows = [row.text for row in page.all("tr")][1:]
        assert rows[2].split()[0] == "good"
        assert "place 3" in rows[2]
        # People rated nothing but the overall quality.
        cells = [cell.text for cell in page.all("td", data_label="Coherence")]
        assert len(cells) == 3
        assert all(re.fullmatch(r"– No figure: about \d+ ratings of a run are needed\.", cell) for cell in cells), cells

        only = "&".join(f"run={runs[system]}" for system in ("good", "poor"))
        for odd in (f"{only}&aspect=nothing&figures=x", f"{only}&aspect=%00"):
            assert len((await show(client, f"/leaderboard?name=race&{odd}")).all("tr")) == 3
        newest = await score(client, "apart", 0, judge={"samples": 2})
        text = (await show(client, "/leaderboard?name=race")).one("main").text
        assert "not two systems" in text  # none was judged as the newest run was
        assert newest != otherwise


async def test_runs_of_one_name_by_two_rubrics_are_ranked_apart_and_a_judge_without_ratings_not_at_all(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client:
        for rubric in ("ja-conversation", "ko-conversation"):
            for system in ("a", "b"):
                turns = [
                    {"speaker": "U", "role": "user", "text": "こんにちは。"},
                    {"speaker": "S", "role": "system", "text": f"{system}です。"},
                ]
                body = {"name": "talks", "rubric": rubric, "metadata": {"system": system}}
                found = await client.post("/v1/batches", json={**body, "items": [{"turns": turns}]})
                assert found.status_code == 202, found.text
                await wait_for(client, found.json()["id"])
        links = [link["href"] for link in (await show(client, "/leaderboard")).all("a") if "name=" in link["href"]]
        assert sorted(links) == [f"/leaderboard?name=talks&rubric={one}-conversation" for one in ("ja", "ko")]
        for link in links:
            page = await show(client, link)
            assert link.partition("rubric=")[2] in page.one("main").text
            assert "nothing to rank" in page.one("main").text
            assert not page.all("table")
