"""`/v1/links`: two judges linked over HTTP, and a comparison and a gate that use the link."""

import re
from typing import Any

import httpx
import pytest

from tests.support.fake_openai import Answer, FakeOpenAI, Request, candidate_of, complete, verdict_of
from tests.support.posted import make_context, make_item, wait_for
from tests.support.waiting import read_computed

COUNT = 100


def judge(request: Request) -> Answer:
    """The response's number decides the level; the model `new` is kinder to every second response of a low level."""
    found = re.search(r"（(\d+)）", candidate_of(request))
    number = int(found[1]) if found else 0

    def choose(levels: list[int]) -> int:
        span = max(levels) - min(levels) + 1
        at = number % span
        kinder = request["model"] == "new" and number // span % 2 and at < span - 1
        return int(min(levels)) + at + int(bool(kinder))

    return complete(request, verdict_of(request, choose))


@pytest.fixture(autouse=True)
def judging(fake: FakeOpenAI) -> None:
    fake.default = judge


async def score(client: httpx.AsyncClient, model: str, count: int = COUNT, **options: Any) -> str:
    items = [make_item(at, context=make_context(at), response=f"返事です。（{at}）") for at in range(count)]
    body = {"relevance": None, "judge": {"model": model}, "items": items, **options}
    response = await client.post("/v1/batches", json=body)
    assert response.status_code == 202, response.text
    found: str = response.json()["id"]
    await wait_for(client, found)
    return found


async def test_a_link_is_made_used_and_deleted(client: httpx.AsyncClient) -> None:
    old, new = [await score(client, model, name="nightly", metadata={"build": model}) for model in ("old", "new")]
    key = {"Idempotency-Key": "k1"}
    made, again = [await client.post("/v1/links", json={"old": old, "new": new}, headers=key) for _ in range(2)]
    assert made.status_code == 201, made.text
    link = made.json()
    assert (again.json(), again.headers["idempotent-replayed"]) == (link, "true")
    assert made.headers["location"] == again.headers["location"] == f"/v1/links/{link['id']}"
    assert re.fullmatch(r"ln_[0-9a-zA-Z]+", link["id"])
    overall = link["aspects"]["overall"]
    assert (overall["state"], overall["method"], overall["n"]) == ("linked", "equipercentile", COUNT)
    assert [*overall["table"]] == ["1", "2", "3", "4", "5"]
    assert overall["table"]["2"]["value"] > 2
    assert {one["method"] for name, one in link["aspects"].items() if name != "overall"} <= {"linear", "equipercentile"}
    assert (await client.get("/v1/links")).json() == {"items": [link]}
    assert (await client.get(made.headers["location"])).json() == link

    asked = {"baseline": old, "candidate": new}
    assert (await client.post("/v1/comparisons", json=asked)).status_code == 409
    compared = (await client.post("/v1/comparisons", json={**asked, "link": link["id"]})).json()
    assert (compared["link"]["id"], compared["link"]["runs"]) == (link["id"], ["baseline"])
    assert compared["signature_differences"] == {}
    assert abs(compared["aspects"]["overall"]["difference"]) < 0.1
    assert compared["aspects"]["overall"]["link_error"] > 0
    gated = (await client.post("/v1/gates", json={**asked, "link": link["id"]})).json()
    assert gated["verdict"] != "fail"
    assert gated["comparison"]["link"] == compared["link"]

    # The comparison's page offers the link, and marks what it moved.
    assert f"link={link['id']}" in await read_computed(client, "/explore", asked)
    page = await read_computed(client, "/explore", {**asked, "link": link["id"]})
    assert f"<code>{link['id']}</code>" in page
    assert re.search(r'<span title="linked">≈</span>[\d.]+ → \d', page)

    # A trend is broken between the judges, and shows the old one's run by the link where that is asked for.
    trend = f"/runs/{new}/trend"
    broken, shown = [await read_computed(client, trend, asked) for asked in ({}, {"links": "1", "axis": "time"})]
    assert (broken.count("different signature"), broken.count("chart-linked-points"), broken.count("chart-breaks")) == (
        1,
        0,
        len(link["aspects"]),
    )
    assert "Show runs of other judges by links" in broken
    moved = sum(one["state"] == "linked" for one in link["aspects"].values())
    assert (shown.count("different signature"), shown.count("chart-linked-points")) == (0, moved)
    assert shown.count("not linked") == len(link["aspects"]) - moved > 0
    assert f'<span class="badge">linked</span> <code class="small">{link["id"]}</code>' in shown
    overalls = [
        re.findall(r'<td class="num">([\d.]+) <span class="soft small">\[([\d.]+)', one)[-1] for one in (broken, shown)
    ]
    assert float(overalls[1][0]) > float(overalls[0][0])

    refusals: list[tuple[str, dict[str, Any], int, str]] = [
        ("comparisons", {"baseline": new, "candidate": new}, 422, "no run was scored by the old judge of this link"),
        ("comparisons", {**asked, "estimate": "corrected"}, 422, "stands on people's scale already"),
        ("gates", {"baseline": new, "candidate": old}, 422, "a gate links the baseline only"),
        ("gates", {"candidate": new, "rules": [{"aspect": "overall", "min_mean": 1}]}, 422, "name one"),
    ]
    for what, body, status, detail in refusals:
        refused = await client.post(f"/v1/{what}", json={**body, "link": link["id"]})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (status, "/link"), refused.text
        assert detail in refused.json()["detail"]

    assert (await client.delete(made.headers["location"])).status_code == 204
    gone = await client.post("/v1/comparisons", json={**asked, "link": link["id"]})
    assert gone.status_code == 404
    assert (await client.delete(made.headers["location"])).status_code == 404


async def test_judges_without_enough_in_common_are_refused_with_the_reason(client: httpx.AsyncClient) -> None:
    old, new = await score(client, "old", 20), await score(client, "new", 20)
    link = (await client.post("/v1/links", json={"old": old, "new": new})).json()
    assert {one["state"] for one in link["aspects"].values()} == {"refused"}
    assert link["aspects"]["overall"]["reason"] == "both judges rated 20 responses: 100 are needed"
    same = await client.post("/v1/links", json={"old": old, "new": old})
    assert same.status_code == 422
    assert "scored in the same way" in same.json()["detail"]
    absent = await client.post("/v1/links", json={"old": old, "new": "ba_none"})
    assert absent.status_code == 404
    # It goes with either batch.
    assert (await client.delete(f"/v1/batches/{new}")).status_code == 204
    assert (await client.get("/v1/links")).json() == {"items": []}
    assert (await client.get(f"/v1/links/{link['id']}")).status_code == 404
