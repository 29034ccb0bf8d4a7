"""The explorer's verdict on two runs: the answer, the figures behind it, and the cases below it."""

import json
import re
from typing import Any

import httpx
import pytest

from saiten_server.comparison.values import Measure
from saiten_server.explorer.pages.verdict import explain_held_measure, explain_lack, list_names
from saiten_server.platform.web.language import speech_in
from tests.support.elements import Page
from tests.support.fake_openai import BAD
from tests.support.keyed import make_keys
from tests.support.posted import make_item, post_batch, wait_for
from tests.support.serving import serving
from tests.support.waiting import read_computed

pytestmark = pytest.mark.usefixtures("judging")

COUNT = 30
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


async def score(client: httpx.AsyncClient, build: str, *, bad: int = 0, extra: str = "", **options: Any) -> str:
    """The id of a completed run, its first responses bad. Each item has a context of its own: equal ones are one unit."""
    items = [
        make_item(
            at,
            context=[{"speaker": "A", "text": f"週末はどこかに出かけましたか？（{at}）"}],
            response=f"{BAD if at < bad else '良い'}返事です。（{at}）{extra}",
        )
        for at in range(COUNT)
    ]
    metadata = {"system": "bot-a", "build": build}
    body = {"name": "nightly", "metadata": metadata, "relevance": None, "items": items, **options}
    response = await client.post("/v1/batches", json=body)
    assert response.status_code == 202, response.text
    await wait_for(client, response.json()["id"])
    return str(response.json()["id"])


async def compare(client: httpx.AsyncClient, baseline: str, candidate: str, more: str = "", **headers: str) -> Page:
    return Page(await read_computed(client, f"/explore?run={baseline}&run={candidate}{more}", **headers))


async def test_a_worse_run_is_called_so_above_its_worst_cases(client):
    before, after = await score(client, "a-1"), await score(client, "a-2", bad=20)
    page = await compare(client, before, after)
    assert re.match(r"a-2 is worse than a-1 on .+ and 4 more; no aspect is shown to be better", page.one("h1").text)
    assert page.all("span", class_="verdict-fail")
    report = (await client.post("/v1/comparisons", json={"baseline": before, "candidate": after})).json()
    table = page.all("table", class_="differences")[0].text
    overall = report["aspects"]["overall"]
    assert f"{overall['baseline_mean']:.2f} → {overall['candidate_mean']:.2f}" in table
    assert "large" in table
    assert table.count("Judge and people: unknown") == len(report["aspects"])
    assert report["reliability"] == dict.fromkeys([*report["aspects"], *report["composites"]], "unknown")
    assert "has not been compared with people" in page.one("ul", class_="reasons").text
    (opened,) = [details for details in page.all("details", class_="case") if "open" in details.attributes]
    assert f"{BAD}返事です。" in opened.text
    assert "良い返事です。" in opened.text
    links = {link["href"] for link in page.all("a")}
    assert {f"/runs/{before}/items/0", f"/runs/{after}/items/0"} <= links
    assert f"/explore?run={after}&run={before}" in links


async def test_a_kept_verdict_stands_with_its_rules_beside_the_pages_own(client):
    before, after = await score(client, "a-1"), await score(client, "a-2", bad=20)
    assert not (await compare(client, before, after)).all("h2", id="kept")
    asked = {"baseline": before, "candidate": after, "keep": True, "metadata": {"commit": "1a2b3c"}}
    lenient = [{"aspect": "overall", "max_drop": 4}, {"aspect": "coherence", "min_mean": 0.1, "max_drop": 0.9}]
    first = (await client.post("/v1/gates", json={**asked, "rules": lenient})).json()
    second = (await client.post("/v1/gates", json={**asked, "rules": [{"aspect": "overall", "max_drop": 0.5}]})).json()
    assert (first["verdict"], second["verdict"]) == ("pass", "fail")
    page = await compare(client, before, after)
    assert second["id"] in page.one("section", aria_labelledby="kept").text
    for language, own, rule in (
        ("en", "Gate by the default rules", "a drop of more than 4 fails"),
        ("ja", "既定のルールによるゲート", "4 を超える低下で不合格"),
        ("ko", "기본 규칙에 따른 게이트", "하락이 4보다 크면 불합격"),
    ):
        page = await compare(client, before, after, f"&gate={first['id']}", **{"Accept-Language": language})
        kept = page.one("section", aria_labelledby="kept")
        assert rule in kept.text
        assert "1a2b3c" in kept.text
        assert page.one("h2", id="gate").text == own
        # A second verdict beside the kept one is opened by who wants it.
        assert own in [one.text for one in page.all("summary")]
        signs = [page.all("span", class_=f"verdict-{verdict}") for verdict in ("pass", "fail")]
        assert all(signs)
        if language == "en":
            assert "✓ pass" in kept.text
            assert "✗ fail" in page.one("section", aria_labelledby="gate").text
    # Another pair has none, and the gate's own address leads to its runs.
    swapped = await compare(client, after, before, f"&gate={first['id']}")
    assert not swapped.all("h2", id="kept")
    led = await client.get(f"/explore?gate={first['id']}", headers={"Accept": "text/html"})
    assert led.headers["location"] == f"/explore?run={before}&run={after}&gate={first['id']}"


async def test_a_better_and_an_equal_run(client):
    worse, good, same = await score(client, "a-1", bad=20), await score(client, "a-2"), await score(client, "a-3")
    assert "a-2 is better than a-1" in (await compare(client, worse, good)).one("h1").text
    page = await compare(client, good, same)
    assert page.one("h1").text == "No aspect shows a difference between a-2 and a-3"


async def test_runs_judged_otherwise_are_refused_and_shown_with_caution(client):
    before, after = await score(client, "a-1"), await score(client, "a-2", bad=9, judge={"samples": 3})
    page = await compare(client, before, after)
    assert "not rated in the same way" in page.one("main").text
    assert "ratings requested per response samples 1 3" in page.one("main").text
    assert not page.all("section", id="differences")
    (anyway,) = [link["href"] for link in page.all("a", class_="button") if "mismatch=1" in link["href"]]
    page = Page(await read_computed(client, anyway))
    assert "a-2 is worse than a-1" in page.one("h1").text
    assert "Caution: these runs were not rated in the same way." in page.one("main").text
    assert page.one("input", type="hidden", name="mismatch")["value"] == "1"


async def test_what_cannot_be_compared_is_explained(client):
    run = await score(client, "a-1")
    korean = await post_batch(client, 2, rubric="ko-comment", relevance=None)
    await wait_for(client, korean["id"])
    assert "different rubrics" in (await compare(client, run, korean["id"])).one("main").text


async def test_a_run_that_goes_on_is_waited_for(tmp_path, redis_url):
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        ids = [(await post_batch(client, 3))["id"] for _ in range(2)]
        page = await compare(client, *ids)
        assert "will be made when the run has ended" in page.one("main").text
        assert [part.has(data_live=run) for part, run in zip(page.all("div", class_="progress"), ids, strict=True)]
        assert "0 of 3" in page.one("main").text
        await client.post(f"/v1/batches/{ids[0]}/cancel")
        await client.post(f"/v1/batches/{ids[1]}/cancel")
        assert "no ratings to compare" in (await compare(client, *ids)).one("main").text


async def test_runs_are_chosen_the_newest_against_the_one_before(client):
    """Former addresses of comparisons lead to the explorer, with what they asked for."""

    async def choose(query: str) -> list[str]:
        moved = await client.get(f"/compare{query}")
        assert moved.status_code == 303
        page = Page(await read_computed(client, moved.headers["location"]))
        return [box["value"] for box in page.all("input", type="checkbox") if "checked" in box.attributes]

    assert await choose("") == []
    first = await score(client, "a-1")
    assert await choose("") == [first]
    other = await score(client, "b-1", metadata={"system": "bot-b", "build": "b-1"})
    last = await score(client, "a-2")
    assert {*await choose("")} == {first, last}
    assert {*await choose(f"?candidate={last}&baseline=")} == {first, last}
    assert {*await choose(f"?baseline={other}")} == {other, last}
    assert {*await choose(f"?baseline={other}&candidate={other}")} == {other, last}
    moved = await client.get(f"/compare?baseline={first}&candidate={last}&measure=overall&mismatch=1")
    page = Page(await read_computed(client, moved.headers["location"]))
    assert page.one("h1").text == "No aspect shows a difference between a-1 and a-2"
    assert page.one("option", value="overall", selected="")
    assert page.one("input", type="hidden", name="mismatch")["value"] == "1"


async def test_other_projects_runs_are_not_there(tmp_path):
    async with serving(tmp_path, judge="lexical", auth="on") as client:
        own, other = await make_keys(tmp_path, ("ours", "write"), ("theirs", "write"))
        response = await client.post("/v1/batches", json={"items": [make_item()]}, headers=own)
        run = response.json()["id"]
        for path in (f"/explore?run={run}", f"/explore?candidate={run}", f"/explore/aspects?run={run}"):
            assert (await client.get(path, headers=other)).status_code == 404
            assert (await client.get(path, headers=own)).status_code == 200


async def test_hostile_texts_are_text_in_every_language(client):
    named: dict[str, Any] = {"name": HOSTILE, "metadata": {"system": HOSTILE}}
    before = await score(client, "1", extra=HOSTILE, **named)
    after = await score(client, "2", bad=20, extra=HOSTILE, **named)
    for language, said in (("en", "Gate"), ("ja", "ゲート"), ("ko", "게이트")):
        page = await compare(client, before, after, **{"Accept-Language": language})
        assert page.inline() == []
        assert not page.all("img")
        assert HOSTILE in page.one("main").text
        assert said in page.one("main").text


def test_a_sentence_names_three_aspects_at_most():
    def row(name: str, verdict: str) -> Any:
        measure = type("Measure", (), {"verdict": verdict})()
        return type("Row", (), {"name": name, "measure": measure})()

    speech = speech_in("en")
    rows = [row(name, "worse") for name in "abcd"] + [row("e", "better")]
    assert list_names(rows, "worse", speech) == "a, b and 2 more"
    assert list_names(rows, "worse", speech_in("ja")) == "a、b、ほか 2 件"
    assert list_names(rows, "worse", speech_in("ko")) == "a, b 외 2개"
    assert list_names(rows[1:], "worse", speech) == "b, c, and d"
    assert list_names(rows, "better", speech) == "e"
    assert list_names(rows, "inconclusive", speech) == ""


async def test_what_people_say_stands_beside_what_the_judge_says(client):
    before, after = await score(client, "a-1"), await score(client, "a-2", bad=20)
    assert "Corrected by people" not in await read_computed(client, f"/explore?run={before}&run={after}")
    given = [
        {"batch": batch, "item": make_item(at)["id"], "rater": "r1", "ratings": {"overall": 2 + (at + shift) % 3}}
        for batch, shift in ((before, 0), (after, 1))
        for at in range(24)
    ]
    given = [one for one in given if one["batch"] == before or one["item"] != make_item(23)["id"]]
    lines = "".join(json.dumps(one) + "\n" for one in given)
    posted = await client.post("/v1/ratings", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert posted.status_code == 200, posted.text
    for language, title, kept in (
        ("en", "On people's scale", "24 / 23"),
        ("ja", "人の評価を基準に補正した値", "24 / 23"),
    ):
        page = await compare(client, before, after, "&figures=corrected", **{"Accept-Language": language})
        section = page.one("section", id="differences").text
        assert page.one("div", role="region", aria_label=title)
        assert kept in section
        assert "0 / 0" in section
        unrated = [row.text for row in page.all("tr") if "0 / 0" in row.text]
        assert all("– No figure: about" in row or "– 値なし:" in row for row in unrated), unrated
    page = await compare(client, before, after, "&figures=corrected")
    drawn = [chart for chart in page.all("svg") if "Coherence" in chart.text]
    assert [chart.text.count("–") for chart in drawn] == [5]  # only overall has a difference by people
    judges = (await compare(client, before, after)).one("section", id="differences")
    assert "Corrected by people" in judges.text
    assert "Smallest detectable" in judges.text
    excluded = await client.post("/v1/ratings/exclusions", json={"rater": "r1"})
    assert excluded.status_code == 200, excluded.text
    assert "Corrected by people" not in await read_computed(client, f"/explore?run={before}&run={after}")
    section = (await compare(client, before, after, "&figures=corrected")).one("section", id="differences").text
    assert "people's ratings are not sufficient" in section
    assert "Smallest detectable" not in section


def test_a_fall_that_is_not_proven_is_no_tick_for_no_drop():
    speech = speech_in("en")
    known: dict[str, Any] = {"verdict": "inconclusive", "smallest_detectable": 0.2, "clusters": 40}
    measure = Measure.model_construct(**known, difference=-0.17, interval=(-0.36, -0.02), p=0.02, p_adjusted=0.06)
    assert explain_held_measure(measure, speech).startswith("fell by 0.17, not proven (p = 0.060")
    assert explain_lack(measure, speech) == "fell by 0.17, not proven (p = 0.060)"
    even = Measure.model_construct(**known, difference=-0.01, interval=(-0.1, 0.08), p=0.9, p_adjusted=0.9)
    assert explain_held_measure(even, speech).startswith("shows no drop")


def test_values_that_differ_in_a_few_cases_are_not_the_same():
    known: dict[str, Any] = {"verdict": "inconclusive", "smallest_detectable": None, "wins": None, "cliffs_delta": 0.0}
    known |= {"clusters": 60, "clusters_baseline": 30, "clusters_candidate": 30, "standard_error": 0.03, "differing": 3}
    for test in ("sign-flip", "permutation"):
        few = Measure.model_construct(**known, test=test, difference=-0.05, interval=(-0.14, 0.01), p=0.25)
        assert explain_held_measure(few, speech_in("en")).startswith("differs in only 3 of 60: too few")
        assert explain_held_measure(few, speech_in("ja")).startswith("値が異なるのは 60 件中 3 件だけ")
    same = Measure.model_construct(**{**known, "standard_error": 0.0}, test="sign-flip", difference=0.0, p=1.0)
    assert explain_held_measure(same, speech_in("en")) == "has the same values in both runs"


async def test_the_home_page_says_which_system_is_best_and_what_to_fix_first(client):
    await score(client, "1", metadata={"system": "bot-b", "build": "1"})
    await score(client, "1")
    last = await score(client, "2", bad=25)
    page = await read_computed(client, "/")
    best, fix = page.index('id="best"'), page.index('id="fix"')
    assert "bot-b" in page[best:fix]
    assert "bot-a" not in page[best:fix]
    assert "Naturalness" in page[fix : page.index("</section>", fix)]
    # One sentence for all aspects that no one has checked, and no chip for each.
    assert "have not been checked against people" in page
    assert "Judge and people:" not in page
    run = await read_computed(client, f"/runs/{last}")
    assert "two people each rate at least 20 responses" in run
