"""`/v1/ratings/rounds`: what people rate, with the probability of each, and what that makes of a batch's figures."""

import json
import re

import httpx
import pytest

from tests.support.cases import in_turn
from tests.support.posted import post_batch, wait_for

ROUNDS = "/v1/ratings/rounds"


async def score(client: httpx.AsyncClient, count: int) -> str:
    batch = await post_batch(client, count)
    await wait_for(client, batch["id"])
    found: str = batch["id"]
    return found


async def test_a_round_is_opened_listed_and_closed(client: httpx.AsyncClient) -> None:
    run = await score(client, 6)
    asked = {"batch": run, "name": "一回目", "items": 3, "choose": "informative"}
    answer = await client.post(ROUNDS, json=asked, headers={"Idempotency-Key": "k"})
    opened = answer.json()
    assert (answer.status_code, opened["drawn"], opened["signals"], opened["closed_at"]) == (201, 3, [], None)
    assert "drawn at random" in opened["note"]
    assert opened["progress"] == {"ratings": 0, "wanted": 9, "complete": 0, "raters": {}}
    assert (await client.post(ROUNDS, json=asked, headers={"Idempotency-Key": "k"})).json() == opened
    one = f"{ROUNDS}/{opened['id']}"
    assert (await client.get(one)).json() == opened
    assert (await client.get(ROUNDS, params={"batch": run})).json() == {"items": [opened]}
    assert (await client.get(ROUNDS, params={"batch": "ba_none"})).json() == {"items": []}
    items = (await client.get(f"{one}/items")).json()["items"]
    assert [each["probability"] for each in items] == [0.5] * 3
    assert all(each["item"] == f"i{each['position']}" for each in items)
    assert (await client.get(opened["address"])).status_code == 200
    assert (await client.post(f"{one}/close")).json()["closed_at"] is not None


async def test_probabilities_weight_the_figures_of_the_batch(client: httpx.AsyncClient) -> None:
    run = await score(client, 24)
    opened = (await client.post(ROUNDS, json={"batch": run, "name": "a", "items": 20, "choose": "stratified"})).json()
    one = f"{ROUNDS}/{opened['id']}"
    assert (await client.get(f"{one}/corrected")).status_code == 422  # no one has rated yet
    page = (await client.get(opened["address"], params={"margin": "0.5"})).text
    assert "There is no corrected figure yet" in page
    for number in range(20):
        sheet = f"{opened['address']}/sheet"
        page = (await client.get(sheet, params={"rater": "r1"})).text
        names = dict.fromkeys(re.findall(r'name="(rating\.[^"]+)"', page))
        (action,) = re.findall(r'action="(/rate/[^"]+/sheet[^"]*)"', page)
        levels = {**dict.fromkeys(names, "1"), "rating.overall": str(1 + number % 4)}
        await client.post(action.replace("&amp;", "&"), data=levels)
    lines = (await client.get("/v1/ratings", params={"batch": run})).text.splitlines()
    results = (await client.get(f"/v1/batches/{run}/results")).text.splitlines()
    places = {one["id"]: position for position, one in enumerate(map(json.loads, results))}
    drawn = {each["position"]: each["probability"] for each in (await client.get(f"{one}/items")).json()["items"]}
    report = (await client.get(f"{one}/corrected", params={"margin": 0.5, "looks": "any"})).json()
    assert (report["margin"], report["looks"]) == (0.5, "any")
    ((system, figures),) = report["systems"].items()
    rated = {places[each["evaluation"]]: each["ratings"] for each in map(json.loads, lines)}
    assert rated.keys() == drawn.keys(), system
    for name, found in figures["aspects"].items():
        weights = {position: 1 / probability for position, probability in drawn.items()}
        hajek = sum(weights[at] * rated[at][name] for at in rated) / sum(weights.values())
        assert found["human"]["mean"] == pytest.approx(hajek)
    page = (await client.get(opened["address"], params={"margin": "0.5"})).text
    assert "More ratings" in page


@in_turn("margin", ["0", "-1", "nan", "x", "inf"])
async def test_a_margin_is_a_number_above_0(client: httpx.AsyncClient, margin: str) -> None:
    run = await score(client, 2)
    opened = (await client.post(ROUNDS, json={"batch": run, "name": "a"})).json()
    answer = await client.get(f"{ROUNDS}/{opened['id']}/corrected", params={"margin": margin})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert (await client.get(opened["address"], params={"margin": margin})).status_code == 200


@in_turn(
    "wrong", [{"items": 0}, {"choose": "best"}, {"batch": ["ba_1", "ba_2"]}, {"batches": ["ba_1"]}, {"aspect": "x"}]
)
async def test_what_cannot_be_opened_is_told_at_its_field(client: httpx.AsyncClient, wrong: dict[str, object]) -> None:
    answer = await client.post(ROUNDS, json={"batch": "ba_1", "name": "a", **wrong})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{name}" for name in wrong]


async def rate(client: httpx.AsyncClient, address: str, rater: str) -> None:
    """Rates the rater's next response."""
    page = (await client.get(f"{address}/sheet", params={"rater": rater})).text
    (action,) = re.findall(r'action="(/rate/[^"]+/sheet[^"]*)"', page)
    names = dict.fromkeys(re.findall(r'name="(rating\.[^"]+)"', page), "1")
    assert (await client.post(action.replace("&amp;", "&"), data=names)).status_code == 303


async def test_a_round_shares_the_items_of_another_runs_and_says_who_rated_both(client: httpx.AsyncClient) -> None:
    before, after = await score(client, 8), await score(client, 5)
    first = (await client.post(ROUNDS, json={"batch": before, "name": "a", "items": 7, "seed": 2})).json()
    assert first["shared"] is None
    asked = {"batch": after, "name": "b", "shared_with": first["id"]}
    second = (await client.post(ROUNDS, json=asked)).json()
    drawn = [each["item"] for each in (await client.get(f"{ROUNDS}/{first['id']}/items")).json()["items"]]
    shared = (await client.get(f"{ROUNDS}/{second['id']}/items")).json()["items"]
    assert [each["item"] for each in shared] == [item for item in drawn if int(item[1:]) < 5]
    assert {each["probability"] for each in shared} == {7 / 8}
    assert second["shared"] == {"round": first["id"], "raters": 0, "here": 0, "there": 0, "needed": 15}
    for address, rater in ((first, "both"), (first, "both"), (second, "both"), (first, "one"), (second, "other")):
        await rate(client, address["address"], rater)
    found = (await client.get(f"{ROUNDS}/{second['id']}")).json()
    assert found["shared"] == {"round": first["id"], "raters": 1, "here": 1, "there": 2, "needed": 15}
    page = (await client.get(second["address"])).text
    assert "People who rated in both: 1. Responses that they rated: 1 here, 2 there." in page
    assert f'<a href="{first["address"]}">the other round</a>' in page
    assert "People who rated in both" not in (await client.get(first["address"])).text


@in_turn(
    ("more", "status", "expected"),
    [
        ({"shared_with": "rr_none"}, 404, "there is no rating round rr_none"),
        ({"shared_with": "OWN"}, 422, "a round of another batch that drew its responses"),
        ({"shared_with": "OWN", "choose": "stratified"}, 422, "goes with no other choice"),
    ],
)
async def test_items_that_cannot_be_shared_are_refused(
    client: httpx.AsyncClient, more: dict[str, str], status: int, expected: str
) -> None:
    run = await score(client, 3)
    own = (await client.post(ROUNDS, json={"batch": run, "name": "a"})).json()["id"]
    answer = await client.post(
        ROUNDS, json={"batch": run, "name": "b", **more, "shared_with": more["shared_with"].replace("OWN", own)}
    )
    assert answer.status_code == status
    assert expected in answer.text
    assert "/shared_with" in answer.text
