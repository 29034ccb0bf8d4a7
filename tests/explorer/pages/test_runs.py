"""The list of runs: what it says of each, and how two are picked out of it."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from saiten_server.core.errors import SignatureMismatch
from saiten_server.explorer.pages import runs
from saiten_server.platform.computations import PendingComputation
from tests.support.elements import Page as Elements
from tests.support.faults import words
from tests.support.keyed import make_keys
from tests.support.posted import make_body, make_item, post_batch, post_run, wait_for
from tests.support.seen_page import HOSTILE, Page
from tests.support.serving import serving


async def look(client: httpx.AsyncClient, path: str = "/", **headers: str) -> Page:
    response = await client.get(path, headers={"Accept": "text/html", **headers})
    assert response.status_code == 200, response.text
    return Page(response.text)


async def post_items(client: httpx.AsyncClient, items: list[dict[str, Any]], **options: Any) -> str:
    """The id of a completed run of these items."""
    batch = (await client.post("/v1/batches", json={**options, "items": items})).json()
    await wait_for(client, batch["id"])
    return str(batch["id"])


def listed(page: Page) -> list[str]:
    """The runs on the page, in order."""
    paths = (link for link in page.links() if link.startswith("/runs/"))
    return list(dict.fromkeys(path.removeprefix("/runs/") for path in paths))


async def test_without_a_run_the_page_says_how_to_make_one(client):
    page = await look(client)
    assert "make run" in page.said
    assert "curl" in page.said
    assert str(client.base_url).rstrip("/") in page.said
    assert {"/datasets/new", "/try"} <= set(page.links())
    assert page.named("baseline") == []


@pytest.mark.parametrize(("reader", "rubric"), [("en", "ja-dialogue"), ("ja", "ja-dialogue"), ("ko", "ko-dialogue")])
async def test_what_the_empty_page_says_to_send_is_taken(client, reader, rubric):
    page = Elements((await client.get("/", headers={"Accept-Language": reader})).text)
    body = page.one("pre").text.partition("-d '")[2].rstrip().removesuffix("'")
    sent = await client.post("/v1/batches", json=json.loads(body))
    assert sent.status_code == 202, sent.text
    assert (await client.get(sent.headers["Location"])).json()["rubric"] == rubric


async def test_cases_without_a_run_lead_to_how_to_make_one(client):
    main = (await client.get("/explore")).text.partition("<main")[2].partition("</main>")[0]
    assert "/" in Page(main).links()


async def test_a_run_is_shown_with_its_figures(client):
    run = await post_run(client, "1")
    page = await look(client)
    assert listed(page) == [run]
    summary = (await client.get(f"/v1/batches/{run}/summary")).json()
    meters = [attributes["value"] for tag, attributes in page.tags if tag == "meter"]
    assert [float(value or "nan") for value in meters] == [aspect["mean"] for aspect in summary["aspects"].values()]
    for said in ("nightly", "bot-a", "Naturalness", "completed", "lexical baseline", "100%"):
        assert said in page.said


async def test_a_run_is_held_against_the_completed_one_before_it(client):
    first = await post_run(client, "1")
    await post_run(client, "1", name="weekly")
    await post_run(client, "1", metadata={"system": "bot-b", "build": "1"})
    second = await post_run(client, "2")
    address = f"/explore?run={first}&run={second}"
    comparisons = [link for link in (await look(client)).links() if link.startswith("/explore?run=")]
    assert comparisons == [address, address]  # above the list, and beside the run
    beyond = [link for link in (await look(client, "/?text=2")).links() if link.startswith("/explore?run=")]
    assert address in beyond


async def test_predecessors_beyond_the_page_are_found(client, monkeypatch):
    monkeypatch.setattr(runs, "RUNS_PAGE", 1)
    first, second = await post_run(client, "1"), await post_run(client, "2")
    page = await look(client)
    assert listed(page) == [second]
    assert f"/explore?run={first}&run={second}" in page.links()


async def test_a_run_is_held_against_the_one_before_it_by_the_same_version(client):
    # An `x` is in no run's id, which a filter looks at too.
    first = await post_run(client, "x1", rubric="ja-dialogue@1")
    second = await post_run(client, "x2", rubric="ja-dialogue@2")
    third = await post_run(client, "x3", rubric="ja-dialogue@1")
    page = await look(client, "/?text=x3")
    assert f"/explore?run={first}&run={third}" in page.links()
    assert not any(link.endswith(f"&run={second}") for link in (await look(client, "/?text=x2")).links())


async def test_pages_follow_each_other_with_filter_and_picks(client, monkeypatch):
    monkeypatch.setattr(runs, "RUNS_PAGE", 2)
    made = [await post_run(client, str(number)) for number in range(3)]
    page = await look(client, f"/?system=bot-a&candidate={made[2]}")
    assert listed(page) == [made[2], made[1]]
    (following,) = [link for link in page.links() if "cursor=" in link]
    page = await look(client, following)
    assert listed(page) == [made[0]]
    kept = [field for field in page.named("candidate") if "checked" in field]
    assert [field["value"] for field in kept] == [made[2]]


async def test_filters(client):
    runs_by_name = {
        "nightly": await post_run(client, "build-7"),
        "weekly": await post_run(client, "8", name="weekly", metadata={"system": "bot-b"}),
    }
    for query, expected in (
        ("text=WEEK", ["weekly"]),
        ("text=build-7", ["nightly"]),
        ("rubric=ko-comment", []),
        ("rubric=ja-dialogue&status=completed", ["weekly", "nightly"]),
        ("status=paused", []),
        ("system=bot-b", ["weekly"]),
        ("status=nonsense&cursor=nonsense&colour=red", ["weekly", "nightly"]),
        ("text=%00", []),
        ("candidate=ba_nothing", ["weekly", "nightly"]),
    ):
        page = await look(client, f"/?{query}")
        assert listed(page) == [runs_by_name[name] for name in expected], query
        if not expected:
            assert "No run matches" in page.said, query


async def test_runs_of_several_rubrics_stand_under_their_own_aspects(client):
    await post_run(client, "1")
    await post_run(client, "1", rubric="ko-comment", name="diary")
    page = await look(client)
    captions = [attributes["aria-label"] for _, attributes in page.tags if attributes.get("role") == "region"]
    assert captions == ["Runs of the rubric ko-comment@2", "Runs of the rubric ja-dialogue@2"]
    assert "Sympathy" in page.said


async def test_a_run_that_is_going_on_can_be_followed(waiting):
    batch = await post_batch(waiting, name="nightly")
    page = await look(waiting)
    followed = [attributes["data-live"] for _, attributes in page.tags if "data-live" in attributes]
    assert followed == [batch["id"]]
    assert any(tag == "progress" for tag, _ in page.tags)


async def test_hostile_names_are_text_and_nothing_is_inline(client):
    body = make_body(1, name=HOSTILE, metadata={"system": HOSTILE, "build": HOSTILE})
    body["items"] = [make_item(0, response=HOSTILE)]
    batch = (await client.post("/v1/batches", json=body)).json()
    await wait_for(client, batch["id"])
    page = await look(client, "/?" + str(httpx.QueryParams({"text": "alert", "system": HOSTILE})))
    assert listed(page) == [batch["id"]]
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert page.find_inline() == []
    assert HOSTILE in page.said


@pytest.mark.parametrize(("language", "said"), [("ja", "基準"), ("ko", "기준")])
async def test_other_languages(client, language, said):
    for build in "12":
        await post_run(client, build)
    page = await look(client, **{"Accept-Language": language})
    assert said in page.said
    assert not re.search(r"\b(Baseline|Candidate|Coverage|Started|Search)\b", page.said)


async def test_other_projects_runs_are_not_listed(tmp_path):
    async with serving(tmp_path, judge="lexical") as client:
        ours, theirs = await make_keys(tmp_path, ("ours", "write"), ("theirs", "write"))
        made = (await client.post("/v1/batches", json=make_body(name="secret"), headers=ours)).json()
        page = await look(client, f"/?baseline={made['id']}", **theirs)
    assert "secret" not in page.said
    assert listed(page) == []


async def test_a_regression_shows_at_a_glance_however_many_runs_came_since(client, monkeypatch):
    monkeypatch.setattr(runs, "RUNS_PAGE", 2)
    monkeypatch.setattr(runs, "MOST", 2)
    good, bad = "海まで行って、夕日を見てきました。とてもきれいでしたよ。", "あ"
    pairs = []
    for name, said in (("nightly", (good, bad)), ("diary", (good, good)), ("weekly", (good, bad))):
        items = [[make_item(number, response=text) for number in range(12)] for text in said]
        pairs.append([await post_items(client, each, name=name) for each in items])
    for number in range(3):
        await post_run(client, "1", count=1, name=f"once {number}")
    page = await look(client)
    shown = [link for link in page.links() if link.startswith("/explore?run=")]
    wanted = [f"/explore?run={before}&run={now}" for before, now in (pairs[2], pairs[0])]
    assert sorted(shown[:2]) == sorted(wanted), "the two that fell, and not the one that stayed"
    assert not {run for pair in pairs for run in pair} & set(listed(page))


@pytest.mark.parametrize("is_pending", [True, False])
async def test_without_script_the_page_comes_again_until_all_is_compared(client, monkeypatch, is_pending):
    for build in "12":
        await post_run(client, build)

    async def answer(*_: object, **__: object) -> PendingComputation:
        if is_pending:
            return PendingComputation(datetime.now(UTC), 0.0)
        raise SignatureMismatch(words("scored in different ways"))

    monkeypatch.setattr(runs, "examine", answer)
    page = (await client.get("/", headers={"Accept": "text/html"})).text
    assert ('<noscript><meta http-equiv="refresh"' in page) == is_pending


async def test_conversations_that_the_judge_cannot_rate_show_what_the_rules_found(client):
    turns = [
        {"speaker": "A", "role": "user", "text": "明日の予定を教えてください。"},
        {"speaker": "B", "role": "system", "text": "明日は十時に会議があります。"},
        {"speaker": "A", "role": "user", "text": "場所はどこですか。"},
        {"speaker": "B", "role": "system", "text": "회의는 삼 층 회의실에서 열립니다."},
    ]
    await post_items(client, [{"turns": turns}], rubric="ja-conversation", name="talks")
    page = await look(client)
    assert "rates no conversations" in page.said
    assert "wrong language 1" in page.said
    assert "Coverage" not in page.said
    # Neither does its own page show ten dashes, and ask people to confirm ratings that do not exist.
    (link,) = {one for one in page.links() if one.startswith("/runs/")}
    own = (await client.get(link, headers={"Accept": "text/html"})).text
    assert own.count("rates no conversations") == 1
    assert "wrong language" in own
    for gone in ('class="panel aspect"', 'id="reliability"', 'id="correlation"'):
        assert gone not in own
