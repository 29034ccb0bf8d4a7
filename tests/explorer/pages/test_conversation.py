"""Pages of conversations: turns with findings beside them, and what a run's findings amount to."""

import html
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from saiten_server.core.conversation import FAULT_KINDS, Finding
from saiten_server.explorer.pages.conversation import find_earlier
from saiten_server.platform.web.language import speech_in
from saiten_server.scoring.rubrics.files import open_rubrics
from saiten_server.stats.severity import TOO_FEW
from tests.support.conversations import find_planted, make_turns
from tests.support.elements import Page
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import wait_for
from tests.support.waiting import read_computed

pytestmark = pytest.mark.usefixtures("fake")

ITEMS: list[dict[str, Any]] = [
    {
        "id": "shop",
        "turns": make_turns("いらっしゃいませ。", "[fault:memory]お名前は?", "<b>うるさい</b>、黙れよ。"),
        "persona": {"name": "佐藤<i>", "age": 41},
        "goal": "注文を済ませる。",
    },
    {"id": "clinic", "turns": make_turns("承知しました。", "お待ちしております。")},
]


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(find_planted) as running:
        yield running


def describe_kind(rubric: str, language: str, kind: str) -> tuple[str, str]:
    """The name and the description of a kind of fault in the rubric."""
    found = next(one for one in open_rubrics(None).get(rubric).kinds if one.id == kind)
    return found.name[language], found.description[language]


def test_every_kind_has_its_name_and_description_in_three_languages() -> None:
    for rubric, language in (("ja-conversation", "ja"), ("ko-conversation", "ko"), ("ja-conversation", "en")):
        speech = speech_in(language)
        for kind in FAULT_KINDS:
            told = speech.term("kind", kind), speech.term("kind-description", kind)
            assert told == describe_kind(rubric, language, kind)
            assert speech.term("finding", f"kind:{kind}") == told[0]


async def read(client: httpx.AsyncClient, address: str, language: str = "en") -> str:
    return await read_computed(client, address, **{"accept-language": language})


async def test_a_run_of_conversations_shows_turns_findings_and_their_course(client: httpx.AsyncClient) -> None:
    items = [{**ITEMS[0], "metadata": {"system": "bot-a", "build": "7"}}, ITEMS[1]]
    asked = {"items": items, "budget_usd": 10, "metadata": {"build": "9"}}
    batch = (await client.post("/v1/batches", json=asked)).json()["id"]
    await wait_for(client, batch)
    page = await read(client, f"/runs/{batch}/items/0")
    turns = re.findall(r'<li id="turn-(\d)" class="(\w+)( faulty)?">', page)
    assert [(number, role) for number, role, _ in turns] == [
        (str(number), "other" if number % 2 else "user") for number in range(6)
    ]
    assert [number for number, _, faulty in turns if faulty] == ["3", "5"]
    third = page[page.index('id="turn-3"') : page.index('id="turn-4"')]
    assert "found by the judge" in third
    assert "memory の評価を下げる。" in third
    fifth = page[page.index('id="turn-5"') : page.index('id="ratings"')]
    assert "register shift" in fifth
    assert 'href="#turn-3"' in fifth or 'href="#turn-1"' in fifth
    assert "&lt;b&gt;うるさい" in fifth
    assert "佐藤&lt;i&gt;" in page
    assert "注文を済ませる。" in page
    # The same by its evaluation; the other one has neither persona nor findings.
    evaluation = re.search(r'href="/evaluations/(ev_\w+)"', page)
    assert evaluation is not None
    assert 'id="turn-5"' in await read(client, f"/evaluations/{evaluation[1]}")
    other = await read(client, f"/runs/{batch}/items/1", "ko")
    assert "faulty" not in other
    assert "해당 없음" in other

    for language, kind, description in (
        ("en", "unclear intention", "What it is getting at, or how it follows, cannot be told."),
        ("ja", *describe_kind("ja-conversation", "ja", "unclear-intention")),
        ("ko", *describe_kind("ko-conversation", "ko", "unclear-intention")),
    ):
        told = html.unescape(await read(client, f"/runs/{batch}/items/0", language))
        third = told[told.index('id="turn-3"') : told.index('id="turn-4"')]
        assert f'title="{description}">{kind}</span>' in third
        counts = told[told.index('<p class="small kinds">') : told.index('<ol class="chat turns">')]
        assert f'title="{description}">{kind} 1</span>' in counts
        summed = html.unescape(await read(client, f"/runs/{batch}", language))
        fixes = summed[summed.index('id="fix-first"') : summed.index('<h3 id="turns"')]
        assert f">{kind}</a>" in fixes
        assert (str(TOO_FEW) in fixes) == (language == "en")
        listed = html.unescape(await read(client, f"/explore?run={batch}", language))
        assert kind in listed
        assert "kind:" not in re.sub(r'(value|href)="[^"]*"', "", listed)
        assert ">kinds " not in listed

    orders = {
        "weight": ["unclear intention", "lack of sociality"],
        "kind": ["lack of sociality", "unclear intention"],
        "nothing": ["unclear intention", "lack of sociality"],
    }
    for order, kinds in orders.items():
        page = await read(client, f"/runs/{batch}?order={order}")
        fixes = page[page.index('id="fix-first"') : page.index('<h3 id="turns"')]
        tables = fixes.split("<table>")[1:]
        assert [re.findall(r'<th scope="row"><a [^>]*>([^<]+)<', table) for table in tables] == [kinds, kinds]
        assert re.findall(r"<h4>([^<]+)<", fixes) == ["Build: 9", "System: bot-a · Build: 7"]
        ((sort, chosen),) = re.findall(r'aria-sort="(\w+)"><a href="[^"]*order=(\w+)', tables[0])
        assert (sort, chosen) == (("ascending", "kind") if order == "kind" else ("descending", "weight"))

    codes = ["judge", "register-shift", "any", "kind:unclear-intention", "kind:lack-of-sociality"]
    for code, shown in (*((code, ["shop"]) for code in codes), ("repetition", []), ("kind:repetition", [])):
        listed = await read(client, f"/explore?run={batch}&warning=finding:{code}")
        assert re.findall(r'class="who"><b><bdi[^>]*>(\w+)<', listed) == shown, code
    run = await read(client, f"/runs/{batch}?faults=register-shift", "ja")
    found = run[run.index('<section id="findings"') : run.index('<section id="flagged"')]
    assert f"/explore?run={batch}&amp;warning=finding%3Ajudge" in found
    assert found.count("<svg") == 3
    rows = re.findall(r'<th scope="row" class="num">(\d)</th><td class="num">(\d)</td><td class="num">(\d)</td>', found)
    assert rows == [("1", "2", "0"), ("2", "2", "0"), ("3", "1", "1")]


async def test_two_conversations_stand_beside_each_other_turn_by_turn(client: httpx.AsyncClient) -> None:
    shorter = make_turns("いらっしゃいませ。", "[fault:coherence]雨ですね。")
    runs = []
    for items in (ITEMS, [{**ITEMS[0], "turns": shorter}, {"id": "alone", "turns": shorter}]):
        runs.append((await client.post("/v1/batches", json={"items": items, "budget_usd": 10})).json()["id"])
        await wait_for(client, runs[-1])
    for language, same, ended, kind in (
        ("en", "same turn", "This conversation has no more turns.", "unclear intention"),
        ("ja", "同じ発話", "この対話の発話はここまでです。", describe_kind("ja-conversation", "ja", "unclear-intention")[0]),
        ("ko", "같은 발화", "이 대화의 발화는 여기까지입니다.", describe_kind("ko-conversation", "ko", "unclear-intention")[0]),
    ):  # fmt: skip
        page = Page(await read(client, f"/explore?run={runs[0]}&run={runs[1]}&sort=item&text=shop", language))
        rows = [row for row in page.all("li", class_="answers") if row.text]
        assert len(rows) == 6
        assert [same in row.text for row in rows] == [True, True, True, False, False, False]
        assert [kind in row.text for row in rows] == [False, False, False, True, False, False]
        assert [ended in row.text for row in rows] == [False] * 4 + [True, False]
        turns = {turn["id"]: turn for turn in page.all("div", class_="turn")}
        assert [*turns] == [
            f"turn-{letter}-0-{number}" for number in range(6) for letter in ("AB" if number < 4 else "A")
        ]
        assert {at for at, turn in turns.items() if turn.has(class_="faulty")} == {
            "turn-A-0-3", "turn-A-0-5", "turn-B-0-3"
        }  # fmt: skip
        assert "memory の評価を下げる。" in turns["turn-A-0-3"].text
        assert "coherence の評価を下げる。" in turns["turn-B-0-3"].text
        assert "<b>うるさい" in turns["turn-A-0-5"].text
        links = {link["href"] for link in page.all("a", class_="badge")}
        assert links >= {"#turn-A-0-3", "#turn-A-0-5", "#turn-B-0-3"}
        assert {link["href"][1:] for link in page.all("a") if link["href"].startswith("#turn")} <= {*turns}
    alone = Page(await read(client, f"/explore?run={runs[0]}&run={runs[1]}&text=alone"))
    assert {turn["id"][:7] for turn in alone.all("div", class_="turn")} == {"turn-B-"}
    report = await read(client, f"/explore.html?run={runs[0]}&run={runs[1]}")
    assert "turn-A-1-3" in report


async def test_a_round_shows_the_whole_conversation_and_keeps_marked_turns(client: httpx.AsyncClient) -> None:
    batch = (await client.post("/v1/batches", json={"items": ITEMS, "budget_usd": 10})).json()["id"]
    await wait_for(client, batch)
    started = await client.post("/rate", data={"run": batch, "name": "一回目", "raters_per_item": "1"})
    address = f"{started.headers['location']}/sheet?rater=r1"
    for _ in ITEMS:
        page = await read(client, address)
        item = next(one for one in ITEMS if one["turns"][1]["text"] in page)
        assert [turn["text"] in html.unescape(page) for turn in item["turns"]] == [True] * len(item["turns"])
        assert "<b>うる" not in page
        # Nothing of what the judge or the rules found.
        assert "register shift" not in page
        boxes = re.findall(r'name="faulty" value="(\d+)"', page)
        assert boxes == [str(number) for number in range(1, len(item["turns"]), 2)]
        levels = dict(reversed(re.findall(r'name="(rating\.\w+)" value="(-?\d+)"', page)))
        # Only what applies is asked: the persona and the goal of a conversation that has them.
        for requirement in ("persona", "goal"):
            assert (f"rating.{requirement}" in levels) == (requirement in item)
            assert (str(item.get("goal")) in page) == ("goal" in item)
        action = re.search(r'action="([^"]+/sheet[^"]*)"', page)
        assert action is not None
        saved = html.unescape(action[1])
        # A turn of the user, and one that is not there, count as not marked.
        form = {**levels, "faulty": ["0", "99", "x", "3"]}
        assert (await client.post(saved, data=form)).status_code == 303
        again = await read(client, saved)
        assert re.findall(r'name="faulty" value="(\d+)" checked', again) == ["3"]
    ratings = [json.loads(line) for line in (await client.get("/v1/ratings")).text.splitlines()]
    assert [rating["faulty_turns"] for rating in ratings] == [[3], [3]]
    assert "marked as faulty by 1 rater" in await read(client, f"/runs/{batch}/items/0")
    # By the API too; numbers of turns are bounded.
    rating = {"batch": batch, "item": "shop", "rater": "r2", "ratings": {"overall": 4}}
    for turns, status in (
        ([1, 3], 200),
        ([], 200),
        ([1], 200),
        ([0], 422),
        ([1, 99], 422),
        ([400], 422),
        ([-1], 422),
        (list(range(400)) * 2, 422),
        ("3", 422),
    ):
        answer = await client.post("/v1/ratings", json={**rating, "faulty_turns": turns})
        assert answer.status_code == status, answer.text
        if turns in ([0], [1, 99]):
            assert answer.json()["errors"][0]["detail"] == "line 1: /faulty_turns: is not a turn of the system"
    # Of what is known by no batch, nothing tells which turns there are; of an evaluation by itself, its record does.
    loose = {"item": "elsewhere", "rater": "r2", "ratings": {"overall": 4}, "faulty_turns": [0]}
    assert (await client.post("/v1/ratings", json=loose)).status_code == 200
    alone = (await client.post("/v1/conversations", json={"turns": ITEMS[0]["turns"]})).json()["id"]
    first = (await client.get(f"/v1/batches/{batch}/results")).text.splitlines()[0]
    for evaluation in (alone, json.loads(first)["id"]):
        for turns, status in (([3], 200), ([2], 422)):
            marked = {"evaluation": evaluation, "rater": "r3", "ratings": {"overall": 4}, "faulty_turns": turns}
            assert (await client.post("/v1/ratings", json=marked)).status_code == status, (evaluation, turns)
    assert (await client.delete("/v1/ratings?rater=r3")).status_code == 200
    assert (await client.post("/v1/ratings", json={**rating, "faulty_turns": [1, 3]})).status_code == 200
    (corrected,) = [json.loads(line) for line in (await client.get("/v1/ratings?rater=r2&item=shop")).text.splitlines()]
    assert [one["faulty_turns"] for one in corrected["earlier"]] == [[1, 3], [], [1]]
    assert "marked as faulty by 2 raters" in await read(client, f"/runs/{batch}/items/0")


def test_the_earlier_turn_is_read_outside_quotations() -> None:
    for detail, by, earlier in (
        ("「turn 1 」 repeats turn 3: 「ok」.", "rule", 3),
        ("「ok」 repeats turn 9.", "rule", None),
        ("turn 2 is worse", "judge", None),
    ):
        finding = Finding(turn=5, aspect=None, code="repetition" if by == "rule" else None, by=by, detail=detail)  # type: ignore[arg-type]
        assert find_earlier(finding) == earlier
