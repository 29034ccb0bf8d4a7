"""Pinned baselines: over HTTP, on the pages, and as what a gate compares with where it names no baseline."""

from pathlib import Path
from urllib.parse import quote

import httpx

from tests.support.elements import Page
from tests.support.posted import post_batch, wait_for
from tests.support.serving import serving

NAME = "夜間/nightly"


async def score(client: httpx.AsyncClient, build: str, name: str | None = NAME) -> str:
    metadata = {"system": "bot-a", "build": build}
    found: str = (await post_batch(client, 8, relevance=None, name=name, metadata=metadata))["id"]
    await wait_for(client, found)
    return found


async def show(client: httpx.AsyncClient, path: str) -> Page:
    response = await client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200, response.text
    return Page(response.text)


async def test_a_pinned_baseline_is_what_runs_of_its_name_are_compared_with(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        first, second, third = [await score(client, build) for build in ("1", "2", "3")]
        other, address = await score(client, "1", "other"), f"/v1/baselines/{quote(NAME, safe='')}"
        assert (await client.post("/v1/gates", json={"candidate": third})).status_code == 422

        pinned = await client.put(address, json={"batch": first})
        assert (pinned.status_code, pinned.json()["name"], pinned.json()["batch"]) == (200, NAME, first)
        assert (await client.get("/v1/baselines")).json() == {"items": [pinned.json()]}
        for refused, status in ((other, 422), ("ba_0", 404)):
            assert (await client.put(address, json={"batch": refused})).status_code == status

        drop, least = {"aspect": "overall", "max_drop": 0.1}, {"aspect": "overall", "min_mean": 1}
        for asked, compared in (
            ({}, first),
            ({"rules": [drop]}, first),
            ({"rules": [drop], "baseline": second}, second),
            ({"rules": [least]}, None),
        ):
            report = (await client.post("/v1/gates", json={"candidate": third, **asked})).json()
            told = (report["comparison"] or {}).get("baseline")
            assert told == (compared and f"{NAME} ({compared})"), asked

        home = await show(client, "/")
        compared = f"/explore?run={first}&run={third}"
        assert {link.text for link in home.all("a", href=compared, class_="before")} == {
            f"compared with the baseline ({NAME} 3)"
        }
        assert len(home.all("a", href=compared)) == 2  # in the list, and among the newest builds
        assert not home.all("a", href=f"/explore?run={second}&run={third}")
        choice = (await show(client, f"/explore?candidate={third}")).all("input", type="checkbox", checked="")
        assert {one["value"] for one in choice} == {first, third}
        page = await show(client, f"/runs/{third}")
        assert page.one("a", href=compared).text == "Compare with the baseline (1)"
        assert "Baseline" in (await show(client, f"/runs/{first}")).one("h1").text

        for run, form, now in (
            (third, {"pin": "1"}, third),
            (first, {"unpin": "1"}, third),
            (third, {"unpin": "1"}, None),
        ):
            answer = await client.post(f"/runs/{run}/baseline", data=form)
            assert answer.status_code == 303
            items = (await client.get("/v1/baselines")).json()["items"]
            assert [one["batch"] for one in items] == ([now] if now else [])
        assert (await client.delete(address)).status_code == 404

        await client.put(address, json={"batch": first})
        await client.delete(f"/v1/batches/{first}")
        assert (await client.get("/v1/baselines")).json() == {"items": []}
        assert f"/explore?run={second}&run={third}" in {a["href"] for a in (await show(client, "/")).all("a")}


async def test_a_rule_on_findings_is_compared_with_the_pinned_baseline(tmp_path: Path) -> None:
    turns = [
        ("user", "こんにちは。"),
        ("system", "こんにちは。"),
        ("user", "元気ですか。"),
        ("system", "はい、元気です。"),
    ]
    talk = {"turns": [{"speaker": role, "text": text, "role": role} for role, text in turns]}
    async with serving(tmp_path, judge="lexical") as client:
        runs = []
        for _ in range(2):
            body = {"name": NAME, "rubric": "ja-conversation", "items": [{"id": str(one), **talk} for one in range(3)]}
            runs.append((await client.post("/v1/batches", json=body)).raise_for_status().json()["id"])
            await wait_for(client, runs[-1])
        (await client.put(f"/v1/baselines/{quote(NAME, safe='')}", json={"batch": runs[0]})).raise_for_status()
        rules = [{"finding": "repetition", "max_rise": 1}]
        report = (await client.post("/v1/gates", json={"candidate": runs[1], "rules": rules})).raise_for_status().json()
        assert report["comparison"]["baseline"] == f"{NAME} ({runs[0]})"
