"""The page of aspects: what hangs together, which systems differ, and how far people agree."""

import json
from typing import Any

import httpx
import pytest

from saiten_server.explorer.pages.aspects import name_systems, suggest_runs
from tests.explorer.pages.test_verdict import COUNT, HOSTILE, score
from tests.support.elements import Page
from tests.support.posted import NDJSON, post_batch, wait_for
from tests.support.waiting import read_computed

pytestmark = pytest.mark.usefixtures("judging")


async def score_two(client: httpx.AsyncClient) -> list[str]:
    """A good system and one that is worse in everything."""
    other = {"system": "bot-b", "build": "b-1"}
    return [await score(client, "a-1"), await score(client, "b-1", bad=20, metadata=other)]


async def rate(client: httpx.AsyncClient, run: str, shift: int = 0) -> None:
    """Two raters, who nearly agree with the judge and with each other."""
    ratings = [
        {
            "item": f"i{at}",
            "batch": run,
            "rater": rater,
            "ratings": {"overall": 1 + (at + shift + (rater == "r2" and at % 7 == 0)) % 5, "coherence": at % 2},
        }
        for at in range(COUNT)
        for rater in ("r1", "r2")
    ]
    lines = "".join(json.dumps(rating) + "\n" for rating in ratings)
    response = await client.post("/v1/ratings", content=lines, headers=NDJSON)
    assert response.status_code < 300, response.text


async def look(client: httpx.AsyncClient, path: str, **headers: str) -> Page:
    return Page(await read_computed(client, path, **headers))


def said(page: Page) -> str:
    return page.one("main").text


async def test_systems_that_differ_stand_in_a_matrix(client):
    await score_two(client)
    page = await look(client, "/explore/aspects")
    matrices = page.all("table", class_="systems")
    assert len(matrices) == 6
    assert all("▲better < 0.001" in matrix.text for matrix in matrices), matrices[0].text
    assert "bot-a a-1" in matrices[0].text
    # What is known of the judge stands beside each aspect: in the table of the graph, and above each matrix.
    assert len(page.all("details", class_="trust")) >= 2 * len(matrices)
    assert len(page.all("td", class_="cell-p3")) == len(page.all("td", class_="cell-n3")) == 6
    assert "No one has rated responses from these runs yet." in said(page)


async def test_ratings_of_people_are_found_at_once(client):
    runs = await score_two(client)
    assert "No one has rated" in said(await look(client, "/explore/aspects"))
    await rate(client, runs[0])
    page = await look(client, "/explore/aspects")
    assert "No one has rated" not in said(page)
    assert "2 raters · 30 responses" in said(page)
    report = (await client.post("/v1/analyses/agreement", json={"batch": runs[0]})).json()["aspects"]["overall"]
    (row,) = [row for row in page.all("tr") if f"{report['icc']:.2f}" in row.text]
    for name in ("pairwise_spearman", "cohen_kappa", "fleiss_kappa"):
        assert f"{report[name]:.2f}" in row.text
    matrices = [table.text for table in page.all("table", class_="matrix") if "median (rows)" in table.text]
    assert len(matrices) == 2
    assert any("".join(map(str, counts)) in text for counts in report["confusion"]["counts"] for text in matrices)
    assert "come from one system only" in said(await look(client, "/explore/aspects?values=ratings"))
    await rate(client, runs[1], shift=1)
    page = await look(client, "/explore/aspects?values=ratings")
    assert len(page.all("table", class_="systems")) == 2
    assert page.one("a", aria_current="true").text == "people's ratings"


async def test_what_is_asked_for_is_looked_at(client):
    one, other = await score_two(client)
    alone = await look(client, f"/explore/aspects?run={one}&chosen=1&alpha=0.05")
    assert "1 run chosen" in said(alone)
    assert "come from one system only" in said(alone)
    assert page_level(alone) == "0.05"
    both = await look(client, f"/explore/aspects?run={one}")
    assert "2 runs chosen" in said(both)
    odd = await look(client, f"/explore/aspects?run={one}&run={other}&alpha=9&values=x&rubric=nothing")
    assert page_level(odd) == "0.01"
    assert "2 runs chosen" in said(odd)
    assert (await client.get("/explore/aspects?run=ba_nothing")).status_code == 404


def page_level(page: Page) -> str:
    (chosen,) = [option["value"] for option in page.all("option") if "selected" in option.attributes]
    return chosen


async def test_one_rubric_at_a_time(client):
    await score_two(client)
    korean = await post_batch(client, 3, rubric="ko-comment", relevance=None)
    await wait_for(client, korean["id"])
    assert page_rubric(await look(client, "/explore/aspects")) == "ja-dialogue@2"
    assert page_rubric(await look(client, "/explore/aspects?rubric=ko-comment")) == "ko-comment@2"
    assert page_rubric(await look(client, f"/explore/aspects?run={korean['id']}")) == "ko-comment@2"


def page_rubric(page: Page) -> str:
    return page.all("a", aria_current="true")[0].text


async def test_without_runs_the_page_says_what_to_do(client):
    assert "There is no completed run yet." in said(await look(client, "/explore/aspects"))


async def test_hostile_names_are_text_in_every_language(client):
    for bad in (0, 20):
        metadata = {"system": f"{HOSTILE}{bad}", "build": HOSTILE}
        await score(client, "1", bad=bad, name=HOSTILE, metadata=metadata)
    for language, words in (("en", "Which systems differ"), ("ja", "どのシステム"), ("ko", "어느 시스템")):
        page = await look(client, "/explore/aspects", **{"Accept-Language": language})
        assert page.inline() == []
        assert not page.all("img")
        assert HOSTILE in said(page)
        assert words in said(page)


def make_run(batch_id: str, system: str, build: str, name: str = "nightly") -> Any:
    metadata = {"system": system, "build": build}
    return type("Run", (), {"id": batch_id, "name": name, "rubric_name": "r@1", "metadata": metadata})()


def test_of_each_system_the_newest_two_of_one_name_are_suggested():
    runs = [
        make_run("1", "a", "3"),
        make_run("2", "b", "9", "other"),
        make_run("3", "a", "2"),
        make_run("4", "a", "1"),
        make_run("5", "b", "8"),
    ]
    assert sorted(run.id for run in suggest_runs(runs)) == ["1", "2", "3"]


def test_systems_are_called_by_their_builds():
    runs = [make_run("1", "a", "3"), make_run("2", "a", "2"), make_run("3", "b", "")]
    named = name_systems(["a", "a (2)", "b", "c"], runs)
    assert named == {"a": "a\n3", "a (2)": "a\n2", "b": "b", "c": "c"}


async def test_links_keep_the_runs_that_were_chosen(client):
    runs = await score_two(client)
    page = await look(client, "/explore/aspects")
    (link,) = [link["href"] for link in page.all("a") if "values=ratings" in link.attributes.get("href", "")]
    assert all(run in link for run in runs)
    former = await client.get("/aspects?rubric=ja-dialogue&chosen=1")
    assert (former.status_code, former.headers["location"]) == (303, "/explore/aspects?rubric=ja-dialogue&chosen=1")
