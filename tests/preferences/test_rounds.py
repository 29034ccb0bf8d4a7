"""Rounds in which people compare pairs: drawn, handed out blind in an order of each rater's own, and read back."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from typing import Any

import httpx
import pytest

from saiten_server.ratings.rounds.pairs import measure_pairs, share_out
from saiten_server.ratings.values import PairItem, PairOpinion, shows_swapped
from tests.ratings.pages.test_invited import as_browser, invite
from tests.support.cases import in_turn
from tests.support.posted import wait_for
from tests.support.waiting import read_computed

HUMAN = "/v1/preferences/human"
NOTHING = {"_": ""}
LANGUAGES = ["en", "ja", "ko"]


def make_items(system: str, count: int = 4, **changes: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"SECRET-{number}",
            "context": [{"speaker": "甲", "text": f"連休は{number}日です。どこか行きますか？"}],
            "response": f"{number}日なら温泉がいいですね。（{system}）",
            "metadata": {"system": f"SECRET-{system}"},
            **changes,
        }
        for number in range(count)
    ]


def make_talks(system: str, count: int = 2) -> list[dict[str, Any]]:
    turns = [("客", "user", "駅はどこですか。"), ("案内", "system", f"右です。（{system}）")]
    said = [{"speaker": speaker, "role": role, "text": text} for speaker, role, text in turns]
    return [{"id": f"talk-{number}", "turns": said} for number in range(count)]


async def score(client: httpx.AsyncClient, items: list[dict[str, Any]], **options: Any) -> str:
    response = await client.post("/v1/batches", json={"name": "SECRET-run", "items": items, **options})
    assert response.status_code == 202, response.text
    batch = await wait_for(client, response.json()["id"])
    found: str = batch["id"]
    return found


async def open_round(client: httpx.AsyncClient, *runs: str, **options: Any) -> dict[str, Any]:
    asked = {"kind": "preference", "runs": runs, "name": "比較", "raters_per_item": 2, **options}
    answer = await client.post("/v1/rounds", json=asked)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def two_runs(client: httpx.AsyncClient, count: int = 4, **options: Any) -> dict[str, Any]:
    runs = [await score(client, make_items(name, count)) for name in ("波", "凪")]
    return await open_round(client, *runs, **options)


async def show(client: httpx.AsyncClient, address: str, rater: str = "甲", **more: Any) -> str:
    answer = await client.get(f"{address}/sheet", params={"rater": rater, **more}, follow_redirects=True)
    assert answer.status_code == 200
    return answer.text


def action_of(page: str) -> str:
    (found,) = re.findall(r'action="(/rate/[^"]+/sheet[^"]*)"', page)
    return html.unescape(found)


def order_of(page: str) -> str:
    """The systems in the order in which the page shows them."""
    return "".join(re.findall(r"（(波|凪)）", page))


async def choose(client: httpx.AsyncClient, page: str, key: str, **more: str) -> httpx.Response:
    return await client.post(action_of(page), data={"preference": key, **more})


async def read(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await client.get(HUMAN, params=params)).text.splitlines()]


async def test_a_round_is_opened_listed_and_closed(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client, seed=3)
    assert (opened["drawn"], opened["progress"]["wanted"], opened["closed_at"]) == (4, 8, None)
    one = f"/v1/rounds/{opened['id']}"
    assert (await client.get(one)).json() == opened
    assert (await client.get("/v1/rounds")).json() == {"items": [opened]}
    pairs = (await client.get(f"{one}/items")).json()["items"]
    assert {each["item"] for each in pairs} == {f"SECRET-{number}" for number in range(4)}
    assert [each["probability"] for each in pairs] == [1.0] * 4
    assert {(each["first"], each["second"]) for each in pairs} == {tuple(opened["options"]["runs"])}
    assert (await client.get("/v1/ratings/rounds")).json() == {"items": []}
    for path in ("", "/items", "/corrected"):
        assert (await client.get(f"/v1/ratings{one.removeprefix('/v1')}{path}")).status_code == 404
    assert (await client.post(f"{one}/close")).json()["closed_at"] is not None
    assert "Nothing to compare" in await show(client, opened["address"])


async def test_a_rater_compares_blind_goes_back_and_is_thanked(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client)
    address, orders, keys = opened["address"], [], ["1", "2", "0", "1"]
    for number, key in enumerate(keys):
        page = await show(client, address)
        assert f"Pair {number + 1} of 4" in page
        assert "SECRET" not in page
        assert "ba_" not in page
        assert opened["id"] not in page.replace(address, "")
        orders.append(order_of(page))
        assert (await choose(client, page, key, reason="具体的" if key == "2" else "")).status_code == 303
    assert Counter(orders) == {"波凪": 2, "凪波": 2}
    thanks = await show(client, address)
    assert "You have compared 4 pairs as 甲." in thanks
    kept = await read(client, round=opened["id"])
    expected = [{"0": "tie", "1": "first", "2": "second"}[key] for key in keys]
    swapped = {"first": "second", "second": "first", "tie": "tie"}
    assert [one["preference"] for one in kept] == [
        said if order == "波凪" else swapped[said] for said, order in zip(expected, orders, strict=True)
    ]
    assert [one["shown"][0] for one in kept] == ["first" if order == "波凪" else "second" for order in orders]
    assert kept[1]["reason"] == "具体的"
    # Undo: the earlier choice is marked, and another takes its place.
    again = await show(client, address, number=0)
    assert order_of(again) == orders[0]
    assert "You have already compared this pair" in again
    answer = await choose(client, again, "0")
    assert answer.headers["location"].endswith("number=1")
    kept = await read(client, round=opened["id"])
    assert (len(kept), kept[-1]["preference"]) == (4, "tie")
    assert (await client.get(f"/v1/rounds/{opened['id']}")).json()["progress"]["raters"] == {"甲": 4}


async def test_what_is_no_choice_is_asked_again(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client)
    page = await show(client, opened["address"])
    answer = await choose(client, page, "3", reason="長い理由")
    assert answer.status_code == 422
    assert "Choose one of the three buttons." in answer.text
    assert "長い理由" in answer.text
    answer = await choose(client, page, "1", reason="あ" * 2001)
    assert (answer.status_code, "Use at most 2,000 characters." in answer.text) == (422, True)
    assert await read(client) == []
    other = await client.post(f"{opened['address']}/sheet?rater=乙&number=0", data={"preference": "1"})
    assert other.status_code == 404


async def test_a_pair_may_be_posted_by_its_name(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client, raters_per_item=2)
    given = {"pair": f"{opened['id']}.0", "rater": "外部", "preference": "second"}
    assert (await client.post(HUMAN, json=given)).json() == {"added": 1, "replaced": 0}
    (kept,) = await read(client, pair=given["pair"])
    assert (kept["round"], kept["preference"], kept["shown"]) == (opened["id"], "second", ["first", "second"])


async def test_what_is_posted_counts_in_the_round(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client, raters_per_item=2)
    one, page = f"/v1/rounds/{opened['id']}", await show(client, opened["address"], "外部")
    given = [{"pair": f"{opened['id']}.{place}", "rater": rater} for place in range(3) for rater in ("外部", "甲")]
    lines = "\n".join(json.dumps({**each, "preference": "tie"}) for each in given)
    headers = {"content-type": "application/x-ndjson"}
    assert (await client.post(HUMAN, content=lines, headers=headers)).json() == {"added": 6, "replaced": 0}
    # Again, and what no person said: neither counts.
    await client.post(HUMAN, content=lines, headers=headers)
    await client.post(HUMAN, json={**given[0], "rater": "simulated-1", "preference": "tie", "simulated": True})
    progress = (await client.get(one)).json()["progress"]
    assert (progress["ratings"], progress["complete"], progress["raters"]) == (6, 3, {"外部": 3, "甲": 3})
    # The page goes on with what is left: it had given one of the pairs before.
    for rater in ("外部", "甲"):
        page = await show(client, opened["address"], rater)
        if "Pair" in page:
            await choose(client, page, "1")
    progress = (await client.get(one)).json()["progress"]
    assert (progress["ratings"], progress["complete"]) == (8, 4)
    assert "Pair" not in await show(client, opened["address"], "乙")


async def test_agreement_is_corrected_for_chance_and_leaves_excluded_raters_out(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client)
    one = f"/v1/rounds/{opened['id']}"
    for rater, wanted in (("甲", "波"), ("乙", "波"), ("丙", "凪")):
        for number in range(4):
            given = {"pair": f"{opened['id']}.{number}", "rater": rater}
            preference = "first" if (wanted == "波") != (number == 3) else "second"
            await client.post(HUMAN, json={**given, "preference": preference})
    report = (await client.get(f"{one}/agreement")).json()
    assert (report["pairs"], report["raters"], report["repeated"], report["unanimous"]) == (4, 3, 4, 0)
    assert report["agreed"] == pytest.approx(1 / 3)
    assert report["krippendorff_alpha"] < 0
    await client.post("/v1/ratings/exclusions", json={"rater": "丙"})
    report = (await client.get(f"{one}/agreement")).json()
    assert (report["raters"], report["unanimous"], report["agreed"]) == (2, 4, 1.0)
    assert report["krippendorff_alpha"] == 1
    (tally,) = report["runs"]
    assert (tally["first_preferred"], tally["second_preferred"], tally["ties"]) == (6, 2, 0)
    page = await read_computed(client, opened["address"])
    assert "Krippendorff" in page


@in_turn("language", LANGUAGES)
async def test_every_page_renders_in_every_language(client: httpx.AsyncClient, language: str) -> None:
    opened = await two_runs(client, 1)
    address, spoken = opened["address"], {"Accept-Language": language}
    sheet = (await client.get(f"{address}/sheet?rater=r1", headers=spoken)).text
    assert f'<html lang="{language}"' in sheet
    for path in ("/rate", address):
        assert (await client.get(path, headers=spoken)).status_code == 200
    await choose(client, sheet, "2", reason="理由")
    thanks = (await client.get(f"{address}/sheet?rater=r1", headers=spoken)).text
    assert "理由" in thanks
    assert "2" in thanks


async def test_an_invited_rater_compares_and_sees_nothing_else(client: httpx.AsyncClient) -> None:
    opened = await two_runs(client)
    link = await invite(client, opened["address"])
    async with as_browser(client) as rater:
        entered = await rater.post("/invited", data={"link": link})
        assert entered.headers["location"] == opened["address"]
        welcome = await rater.get(opened["address"])
        assert "side by side" in welcome.text
        assert "SECRET" not in welcome.text
        page = (await rater.get(f"{opened['address']}/sheet")).text
        assert (await choose(rater, page, "1")).status_code == 303
    assert [one["rater"] for one in await read(client)] == ["花子"]


async def test_conversations_stand_side_by_side(client: httpx.AsyncClient) -> None:
    rubric = {"rubric": "ja-conversation"}
    runs = [await score(client, make_talks(name), **rubric) for name in ("波", "凪")]
    opened = await open_round(client, *runs)
    page = await show(client, opened["address"])
    assert "Which conversation is better?" in page
    assert page.count("駅はどこですか。") == 2
    assert sorted(order_of(page)) == ["凪", "波"]
    await choose(client, page, "1")
    assert len(await read(client)) == 1


async def test_equal_texts_and_other_contexts_are_not_drawn(client: httpx.AsyncClient) -> None:
    here, there = make_items("波", 4), make_items("凪", 4)
    there[0]["response"] = here[0]["response"]
    there[1]["context"] = [{"speaker": "甲", "text": "別の話です。"}]
    opened = await open_round(client, await score(client, here), await score(client, there))
    pairs = (await client.get(f"/v1/rounds/{opened['id']}/items")).json()["items"]
    assert {one["item"] for one in pairs} == {"SECRET-2", "SECRET-3"}


async def test_pairs_of_three_runs_are_shared_out(client: httpx.AsyncClient) -> None:
    runs = [await score(client, make_items(name, 5)) for name in ("波", "凪", "渚")]
    opened = await open_round(client, *runs, items=6)
    pairs = (await client.get(f"/v1/rounds/{opened['id']}/items")).json()["items"]
    counts = Counter((one["first"], one["second"]) for one in pairs)
    assert counts == dict.fromkeys([(runs[0], runs[1]), (runs[0], runs[2]), (runs[1], runs[2])], 2)
    assert {one["probability"] for one in pairs} == {2 / 5}
    again = await open_round(client, *runs, items=6)
    same = (await client.get(f"/v1/rounds/{again['id']}/items")).json()["items"]
    places = ("item", "first", "second")
    assert [[one[name] for name in places] for one in same] == [[one[name] for name in places] for one in pairs]


async def test_what_cannot_be_compared_is_told_at_its_field(client: httpx.AsyncClient) -> None:
    run, other = await score(client, make_items("波")), await score(client, make_items("凪"))
    talk = await score(client, make_talks("波"), rubric="ja-conversation")
    alone = await score(client, [{**one, "id": "other-" + one["id"]} for one in make_items("凪")])
    for runs in ([run], [run, run], [run, "ba_none"], [run, talk], [run, alone], [run] * 21, "ba_1"):
        answer = await client.post("/v1/rounds", json={"kind": "preference", "runs": runs, "name": "比較"})
        assert answer.status_code in {404, 422}, runs
        assert "/runs" in answer.text, runs
    asked = {"kind": "rating", "runs": [run, other], "name": "比較"}
    answer = await client.post("/v1/rounds", json=asked)
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/kind"]


async def test_the_form_starts_a_round_and_says_what_is_wrong(client: httpx.AsyncClient) -> None:
    runs = [await score(client, make_items(name)) for name in ("波", "凪")]
    assert "Compare runs side by side" in (await client.get("/rate")).text
    wrong = await client.post("/rate/pairs", data={"name": "", "runs": runs[:1], "items": "x"})
    assert wrong.status_code == 422
    for fault in ("Choose two to 20 runs of one rubric.", "Enter a name on one line", "Enter a whole number from 1"):
        assert fault in wrong.text
    started = await client.post("/rate/pairs", data={"name": "比較", "runs": runs, "items": "2", "raters_per_item": ""})
    assert started.status_code == 303
    page = (await client.get(started.headers["location"])).text
    assert "0 of 6 choices" in page
    assert "比較" in (await client.get("/rate")).text


async def test_erased_candidates_leave_the_round(client: httpx.AsyncClient) -> None:
    items = make_items("凪", 3)
    items[1]["metadata"] = {"user": "42"}
    opened = await open_round(client, await score(client, make_items("波", 3)), await score(client, items))
    await client.post(HUMAN, json={"pair": f"{opened['id']}.0", "rater": "甲", "preference": "tie"})
    gone = await client.post("/v1/erasures", json={"metadata": {"user": "42"}})
    assert gone.status_code == 200, gone.text
    left = (await client.get(f"/v1/rounds/{opened['id']}")).json()
    pairs = (await client.get(f"/v1/rounds/{opened['id']}/items")).json()["items"]
    assert (left["drawn"], {one["item"] for one in pairs}) == (2, {"SECRET-0", "SECRET-2"})
    assert all(one["pair"] in {each["pair"] for each in pairs} for one in await read(client))


def test_each_rater_sees_one_of_two_the_other_way_round() -> None:
    for rater in ("甲", "乙", "丙"):
        shown = [shows_swapped(7, rater, number) for number in range(40)]
        assert all(shown[place] != shown[place + 1] for place in range(0, 40, 2))
    firsts = [shows_swapped(7, f"r{number}", 0) for number in range(200)]
    assert 60 < sum(firsts) < 140


@pytest.mark.parametrize(
    ("wanted", "there", "shares"),
    [
        (6, [5, 5, 5], [2, 2, 2]),
        (100, [3, 500, 500], [3, 48, 49]),
        (2, [9, 9, 9], [0, 1, 1]),
        (9, [0, 2, 3], [0, 2, 3]),
        (1, [1], [1]),
    ],
)
def test_what_some_lack_the_others_get(wanted: int, there: list[int], shares: list[int]) -> None:
    assert share_out(wanted, there) == shares


def test_a_round_without_preferences_has_no_figures() -> None:
    report = measure_pairs([], [])
    assert (report.pairs, report.preferences, report.agreed, report.krippendorff_alpha) == (0, 0, None, None)


def test_a_single_rater_has_no_agreement_and_says_why() -> None:
    items = [PairItem(pair="p", item="i", first="a", first_position=0, second="b", second_position=0, probability=1.0)]
    report = measure_pairs([PairOpinion("p", "甲", "second", swapped=True)], items)
    assert (report.agreed, report.krippendorff_alpha, report.shown_first) == (None, None, 1.0)
    assert set(report.undefined) == {"krippendorff_alpha", "cohen_kappa", "fleiss_kappa"}
