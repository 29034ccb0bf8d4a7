"""How far people agree with a run's judge: on the chips beside aspects, and response by response."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.elements import Page
from tests.support.keyed import make_keys
from tests.support.posted import NDJSON, make_context, make_item, wait_for
from tests.support.serving import serving
from tests.support.waiting import read_computed

COUNT = 24
UNLIKE = {3: 4.0, 7: 3.0}
"""Positions at which people rate the judge's 1 so."""


async def score(client: httpx.AsyncClient, build: str) -> str:
    items = [
        make_item(at, context=make_context(at), response="海に行きました。" * (1 + at % 5) + f"（{at}）")
        for at in range(COUNT)
    ]
    body = {"name": "nightly", "metadata": {"system": "bot", "build": build}, "relevance": None, "items": items}
    response = await client.post("/v1/batches", json=body)
    assert response.status_code == 202, response.text
    await wait_for(client, response.json()["id"])
    return str(response.json()["id"])


async def show(client: httpx.AsyncClient, path: str, **headers: str) -> Page:
    return Page(await read_computed(client, path, **headers))


async def rate(client: httpx.AsyncClient, run: str) -> list[float]:
    """Two people rate as the judge does on overall, but for what is rated unlike; the judge's values."""
    results = (await client.get(f"/v1/batches/{run}/results")).text.splitlines()
    judged = [float(json.loads(line)["aspects"]["overall"]["mean"]) for line in results]
    lines: list[dict[str, Any]] = [
        {"batch": run, "item": f"i{at}", "rater": rater, "ratings": {"overall": UNLIKE.get(at, judged[at])}}
        for at in range(COUNT)
        for rater in ("R1", "R2")
    ]
    body = "\n".join(map(json.dumps, lines))
    added = await client.post("/v1/ratings", content=body, headers=NDJSON)
    assert added.status_code == 200, added.text
    await client.post("/v1/analyses/correlation", json={"batch": run})
    return judged


async def test_what_people_say_of_the_judge_is_shown_and_leads_to_a_round(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        writer, reader = await make_keys(tmp_path, ("default", "write"), ("default", "read"))
        client.headers.update(writer)
        before, run = await score(client, "1"), await score(client, "2")
        assert "No one has rated responses" in (await show(client, f"/runs/{run}/disagreements")).one("main").text
        judged = await rate(client, run)

        for path in ("/", f"/runs/{run}", f"/explore?run={before}&run={run}"):
            chips = [one.text for one in (await show(client, path)).all("details", class_="trust")]
            told = [chip for chip in chips if "n = 24 · 2 raters" in chip]
            assert told, path
            assert all("○Judge and people: not shown" in chip and "Spearman's ρ" in chip for chip in told)
            assert any("?Judge and people: unknown" in chip for chip in chips), path

        page = await show(client, f"/runs/{run}/disagreements?aspect=overall")
        rows = [one.text for one in page.all("tr") if "海に" in one.text]
        differences = {at: judged[at] - value for at, value in UNLIKE.items() if judged[at] != value}
        ordered = sorted(differences, key=lambda at: -abs(differences[at]))
        assert [f"（{at}）" in row for at, row in zip(ordered, rows, strict=True)] == [True] * len(differences)
        listed = await show(client, f"/explore?run={run}&sort=people&measure=overall")
        places = [int(case["id"].removeprefix("at-")) for case in listed.all("details", class_="case")]
        assert (places[: len(ordered)], len(places)) == (ordered, 24)
        assert f"/runs/{run}/items/{ordered[0]}" in {link["href"] for link in page.all("a")}
        cells = [link["href"] for link in page.all("a") if "judge=" in link["href"] and "people=" in link["href"]]
        cell = f"judge={judged[3]:g}&people={UNLIKE[3]:g}"
        assert any(cell in address for address in cells)
        one = await show(client, f"/runs/{run}/disagreements?aspect=overall&{cell}")
        assert "（3）" in one.one("main").text
        assert "（7）" not in one.one("main").text
        for odd in ("judge=x&people=9", "aspect=%00&page=99999", "aspect=nothing&page=-1"):
            assert (await show(client, f"/runs/{run}/disagreements?{odd}")).all("tr")

        (sent,) = [
            link["href"]
            for link in page.all("a")
            if link["href"].startswith("/rate?run=") and "positions" in link["href"]
        ]
        form = await show(client, sent)
        positions = form.one("input", name="positions")["value"]
        assert positions == ",".join(map(str, ordered))
        readers = await show(client, f"/runs/{run}/disagreements?aspect=overall", **reader)
        assert not [link for link in readers.all("a") if "positions" in link["href"]]

        given = {"run": run, "name": "again", "raters_per_item": "1", "positions": positions}
        for wrong in ("99", "x", "1,1", "-1"):
            refused = await client.post("/rate", data={**given, "positions": wrong})
            assert (refused.status_code, "Choose responses of this run" in refused.text) == (422, True), wrong
        opened = await client.post("/rate", data=given)
        assert opened.status_code == 303, opened.text
        (found,) = (await client.get("/v1/ratings/rounds")).json()["items"]
        assert (found["options"]["choose"], found["drawn"]) == ("chosen", len(ordered))
        excluded = (await client.get("/v1/ratings/exclusions")).json()["items"]
        assert [one["round"] for one in excluded] == [found["id"]]
        assert "left out of figures" in (await show(client, opened.headers["location"])).one("main").text
