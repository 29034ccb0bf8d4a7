"""Batches of conversations over HTTP: the real judge adapter, a fake endpoint that finds planted faults."""

import csv
import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten import Connection
from saiten.answers import Evaluation, Summary
from saiten.commands.batch import print_summary
from saiten.commands.score import Shown, read_scored_items, score_and_show
from tests.support.conversations import find_planted, make_turns
from tests.support.fake_deepl import KEY, Answer, FakeDeepL
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import NDJSON, make_item, wait_for, write_ndjson
from tests.support.serving import judged_by, serving
from tests.support.waiting import read_computed

pytestmark = pytest.mark.usefixtures("fake")

PERSONA = {"name": "佐藤", "age": 41}
PLANTED: list[dict[str, Any]] = [
    {
        "id": "shop",
        "turns": make_turns("いらっしゃいませ。", "[fault:memory]お名前は?", "[fault:memory][fault:safety]うるさい。"),
        "persona": PERSONA,
        "metadata": {"system": "bot-a"},
    },
    {"id": "clinic", "turns": make_turns("承知しました。"), "goal": "予約する。", "dialogue": "d-1"},
    {"turns": [{"speaker": "受付", "role": "system", "text": "[fault:safety]もしもし。"}]},
]
FOUND = {
    "shop": "3:judge/memory;5:register-shift/politeness;5:judge/memory;5:judge/safety",
    "clinic": "",
    "2": "0:judge/safety",
}

KINDS_FOUND = {
    "shop": "3:unclear-intention;5:lack-of-sociality;5:unclear-intention",
    "clinic": "",
    "2": "0:unclear-intention",
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(find_planted) as running:
        yield running


async def post(client: httpx.AsyncClient, body: dict[str, Any], *, lines: bool = False) -> httpx.Response:
    """The answer to the batch, as JSON or as NDJSON."""
    sent: dict[str, Any] = {"content": write_ndjson(body), "headers": NDJSON} if lines else {"json": body}
    return await client.post("/v1/batches", **sent)


async def test_planted_faults_arrive_at_their_turns_in_every_format(
    client: httpx.AsyncClient, fake: FakeOpenAI
) -> None:
    body = {"items": PLANTED, "budget_usd": 10}
    estimate = (await client.post("/v1/estimates", json=body)).json()
    assert (estimate["calls"], estimate["candidates"], estimate["cost_usd_provider_batch"]) == (3, 3, None)
    ids = []
    for lines in (False, True):
        batch = (await post(client, body, lines=lines)).json()
        assert (batch["rubric"], batch["relevance"]) == ("ja-conversation", None)
        ids.append(batch["id"])
        done = await wait_for(client, batch["id"])
        assert done["counts"]["scored"] == 3
        # The second batch finds every reply in the cache, as a repeated conversation does.
        assert (len(fake.requests), done["usage"]["judge_calls"]) == (3, 0 if lines else 3)
        answer = await client.get(f"/v1/batches/{batch['id']}/results")
        rows = [json.loads(line) for line in answer.text.splitlines()]
        table = await client.get(f"/v1/batches/{batch['id']}/results", params={"format": "csv"})
        cells = list(csv.DictReader(table.text.splitlines()))
        assert {row["item"]: row["findings"] for row in cells} == FOUND
        assert {row["item"]: row["kinds"] for row in cells} == KINDS_FOUND
        for row in rows:
            found = [(one["turn"], one["code"] or "judge", one["aspect"]) for one in row["findings"]]
            assert ";".join(f"{turn}:{code}/{aspect}" for turn, code, aspect in found) == FOUND[row["item"]]
        assert [row["dialogue"] for row in rows] == ["shop", "d-1", None]
        summary = (await client.get(f"/v1/batches/{batch['id']}/summary")).json()
        # Aspects that require a persona or goal that a conversation does not have are not expected.
        assert summary["coverage"] == {"rated": 26, "expected": 26, "share": 1.0}
        told = {code: (one["turns"], one["rate"], one["thirds"]) for code, one in summary["findings"]["codes"].items()}
        assert told["judge"] == (3, 60.0, [pytest.approx(100 / 3), 100.0, 100.0])
        assert told["register-shift"] == (1, 20.0, [0.0, 0.0, 100.0])
        assert told["repetition"] == (0, 0.0, [0.0, 0.0, 0.0])
        judged = summary["findings"]["codes"]["judge"]
        assert (judged["conversations"], judged["system_turns"], judged["clusters"]) == (3, 5, 3)
        assert judged["interval"][0] < 60 < judged["interval"][1]
        assert summary["findings"]["any"] == judged == summary["faulty_turns"]
        fixes = {one["kind"]: one for one in summary["fix_first"]}
        assert {kind: (one["conversations"], one["of"]) for kind, one in fixes.items()} == {
            "unclear-intention": (2, 3),
            "lack-of-sociality": (1, 3),
        }
        assert fixes["unclear-intention"]["rate"] == pytest.approx(60.0)
        assert {(one["interval"], one["reason"]) for one in fixes.values()} == {(None, "fewer than 8 dialogues")}
        assert summary["fix_first_by_system"] == {}
    asked = {"baseline": ids[0], "candidate": ids[1]}
    gate = {**asked, "rules": [{"finding": "judge", "max_rise": 2}, {"aspect": "safety", "max_drop": 0.5}]}
    report = (await client.post("/v1/gates", json=gate)).json()
    told = {one["rule"]: (one["aspect"], one.get("finding"), one["code"]) for one in report["reasons"]}
    assert told[0] == (None, "judge", "not-enough-data")
    assert report["comparison"]["findings"]["judge"]["candidate_mean"] == pytest.approx(100 * (2 / 3 + 0 + 1) / 3)
    checked = await client.post(
        "/v1/validations/gates",
        json={"rules": gate["rules"], "candidate_rubric": "ja-dialogue", "baseline_rubric": None},
    )
    assert checked.json()["errors"][0]["pointer"] == "/rules/0/finding"
    given = {name: value for name, value in PLANTED[0].items() if name != "id"}
    single = (await client.post("/v1/conversations", json=given)).json()
    for name in ("findings", "signature", "aspects"):
        assert single[name] == rows[0][name]
    assert len(fake.requests) == 3
    stored = (await client.get(f"/v1/conversations/{rows[0]['id']}", params={"include": "request"})).json()
    assert {name: stored["request"][name] for name in ("turns", "persona")} == {
        name: given[name] for name in ("turns", "persona")
    }
    # Erased, the conversation is out of results, figures and database.
    assert (await client.post("/v1/erasures", json={"metadata": {"system": "bot-a"}})).json()["candidates"] == 2
    rows = [json.loads(line) for line in (await client.get(f"/v1/batches/{ids[0]}/results")).text.splitlines()]
    assert [row["status"] for row in rows] == ["failed", "scored", "scored"]
    left = (await client.get(f"/v1/batches/{ids[0]}/summary")).json()["findings"]["codes"]
    assert (left["judge"]["turns"], left["judge"]["system_turns"], left["register-shift"]["turns"]) == (1, 2, 0)
    assert (await client.get(f"/v1/conversations/{stored['id']}")).status_code == 404


async def test_commands_end_with_what_to_fix_first(
    client: httpx.AsyncClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = [{**one, "metadata": {"system": "bot", "build": str(at)}} for at, one in enumerate(PLANTED)]
    batch = (await post(client, {"items": builds})).json()["id"]
    await wait_for(client, batch)
    summary = Summary.model_validate((await client.get(f"/v1/batches/{batch}/summary")).json())
    assert [(one.system, one.build) for one in summary.fix_first_by_build] == [("bot", "0"), ("bot", "1"), ("bot", "2")]
    assert [len(one.fix_first) for one in summary.fix_first_by_build] == [2, 0, 1]
    print_summary(summary)
    file = tmp_path / "talks.ndjson"
    file.write_text("".join(json.dumps({"turns": one["turns"]}) + "\n" for one in PLANTED), encoding="utf-8")
    async with Connection(str(client.base_url)) as connection:
        items = read_scored_items(str(file), {"rubric": "ja-conversation"})
        assert await score_and_show(items, [None] * 3, connection, concurrency=2, shown=Shown(as_table=True))
    tables = [
        [
            line.split()
            for line in told.splitlines()
            if line.strip().startswith(("unclear-intention", "lack-of-sociality"))
        ]
        for told in capsys.readouterr().out.split("what to fix first")[1:]
    ]
    assert [row[:2] for row in tables[0]] == [["unclear-intention", "60.00"], ["lack-of-sociality", "20.00"]]
    assert tables[0] == tables[1]


async def test_marks_of_people_correct_the_rate_of_faulty_turns(client: httpx.AsyncClient) -> None:
    """The judge names one turn of two in half of the conversations. In the first run people mark one in three of four
    conversations, in the second both in two of three and else one."""
    ids: list[str] = []
    count = 24
    for marked in ([1 - at % 4 // 3 for at in range(24)], [2 - (at % 3 == 0) for at in range(24)]):
        faults = ["[fault:memory]お名前は?" if at % 4 < 2 else "お名前は?" for at in range(count)]
        items = [
            {"id": str(at), "turns": make_turns(f"いらっしゃいませ {at}。", fault)} for at, fault in enumerate(faults)
        ]
        named = {"name": "talks", "metadata": {"system": f"bot-{len(ids)}"}}
        batch = (await post(client, {"items": items, **named})).json()["id"]
        await wait_for(client, batch)
        ids.append(batch)
        ratings = [
            {
                "batch": batch,
                "item": str(at),
                "rater": "anna",
                "ratings": {"overall": 5},
                "faulty_turns": [1, 3][:turns],
            }
            for at, turns in enumerate(marked)
        ]
        lines = "".join(json.dumps(one) + "\n" for one in ratings)
        assert (await client.post("/v1/ratings", content=lines, headers=NDJSON)).status_code == 200
    asked = {"baseline": ids[0], "candidate": ids[1], "estimate": "corrected"}
    compared = (await client.post("/v1/comparisons", json=asked)).json()
    own = compared["corrected"]["faulty_turns"]
    assert (own["rated_baseline"], own["rated_candidate"], own["verdict"]) == (count, count, "worse")
    assert compared["faulty_turns"]["difference"] == 0
    # All are rated, so that what people say is all that counts.
    assert [own[side]["mean"] for side in ("baseline", "candidate")] == pytest.approx([37.5, 250 / 3])
    gate = {**asked, "rules": [{"measure": "faulty_turns", "max_rise": 10}]}
    report = (await client.post("/v1/gates", json=gate)).json()
    told = next(one for one in report["reasons"] if one["rule"] == 0)
    assert (report["verdict"], told["measure"], told["code"]) == ("fail", "faulty_turns", "rise")
    assert "rose by 45.833" in told["detail"]
    assert "(by the judge alone +0.000)" in told["detail"]
    found = (await client.post("/v1/analyses/corrected", json={"batch": ids[0]})).json()
    (system,) = found["systems"].values()
    figures = system["aspects"]["faulty_turns"]
    assert (figures["judge"]["mean"], figures["corrected"]["mean"], figures["levels"]) == (25.0, 37.5, {})
    await check_pages(client, ids)
    # Ratings without marks say nothing of turns, and a mark says nothing of a code.
    assert "faulty_turns" not in (await client.post("/v1/analyses/agreement", json={"batch": ids[0]})).json()["aspects"]
    refused = await client.post("/v1/gates", json={**gate, "rules": [{"finding": "judge", "max_rise": 1}]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/rules/0/finding")


async def check_pages(client: httpx.AsyncClient, ids: list[str]) -> None:
    """The rate of faulty turns stands on the pages of the runs: by the judge 25, by people 37.5 and 83.3."""
    corrected = {"figures": "corrected"}
    for path, more, expected in (
        (f"/runs/{ids[0]}/trend", {}, r"Faulty turns per 100 system turns.*bot-0.*25\.00"),
        (f"/runs/{ids[0]}", {}, r"On people's scale.*Faulty turns per 100 system turns</bdi></th>.*37\.50"),
        (f"/runs/{ids[0]}", {}, r"Trend across builds.*Faulty turns per 100 system turns.*25\.00"),
        ("/leaderboard", {"name": "talks"}, r"Faulty turns per 100 system turns.*25\.00.*places 1–2"),
        ("/leaderboard", {"name": "talks", "aspect": "faulty_turns", **corrected}, r"ascending.*bot-0.*37\.50.*bot-1"),
        ("/explore", {"run": ids}, r"<h3>Faulty turns</h3>.*25\.00 → 25\.00.*unclear intention.*25\.00 → 25\.00"),
        ("/explore", {"run": ids, **corrected}, r"Faulty turns per 100.*worse.*37\.50 → 83\.33.*\+45\.83"),
    ):
        page = await read_page(client, path, more)
        assert re.search(expected, page, re.DOTALL), (path, more)
    for language, name in (
        ("ja", "問題のある発話（システムの 100 発話あたり）"),
        ("ko", "문제 있는 발화(시스템 발화 100개당)"),
    ):
        assert name in await read_page(client, f"/runs/{ids[0]}/trend", {}, language)


async def read_page(client: httpx.AsyncClient, path: str, asked: dict[str, Any], language: str = "en") -> str:
    return html.unescape(await read_computed(client, path, asked, **{"accept-language": language}))


async def test_conversations_on_the_english_path(fake: FakeOpenAI, tmp_path: Path) -> None:
    given = {name: value for name, value in PLANTED[0].items() if name != "id"}
    own = [(3, "judge", "memory"), (5, "rule", "politeness"), (5, "judge", "memory"), (5, "judge", "safety")]
    with FakeDeepL() as deepl:
        async with serving(tmp_path, **judged_by(fake, deepl_api_key=KEY, deepl_server_url=deepl.url)) as client:
            single = (await client.post("/v1/conversations", json={**given, "path": "english"})).json()
            assert [(one["turn"], one["by"], one["aspect"]) for one in single["findings"]] == own
            assert single["translation"]["persona"] == {"[EN] name": "[EN] 佐藤", "[EN] age": 41}
            assert single["usage"]["translated_characters"] == sum(map(len, deepl.texts)) > 0
            assert "You are shown one conversation" in fake.requests[0]["messages"][0]["content"]
            page = (await client.get(f"/evaluations/{single['id']}")).text
            assert all(f"[EN] {turn['text']}" in page for turn in given["turns"])
            body = {"items": PLANTED, "path": "both"}
            refused = (await post(client, {**body, "rubric": "ja-conversation@1"})).json()
            assert (refused["code"], refused["errors"][0]["pointer"]) == ("language-not-supported", "/path")
            estimate = (await client.post("/v1/estimates", json=body)).json()
            batch = (await post(client, body)).json()
            done = await wait_for(client, batch["id"])
            assert (done["path"], done["counts"]["scored"], estimate["calls"]) == ("both", 3, 6)
            # The estimate knows nothing of what is cached: here all of the first conversation in English.
            spent = single["usage"]["translated_characters"] + done["usage"]["translated_characters"]
            assert estimate["translated_characters"] == spent == sum(map(len, deepl.texts))
            assert (len(fake.requests), done["usage"]["judge_calls"]) == (6, 5)
            answer = await client.get(f"/v1/batches/{batch['id']}/results", params={"format": "csv"})
            rows = {row["item"]: row for row in csv.DictReader(answer.text.splitlines())}
            assert {item: row["findings"] for item, row in rows.items()} == FOUND
            assert (rows["shop"]["safety.english"], rows["clinic"]["translation_sensitive"]) == ("0", "false")
            [result, *_] = (await client.get(f"/v1/batches/{batch['id']}/results")).text.splitlines()
            paths = Evaluation.model_validate_json(
                (await client.get(f"/v1/conversations/{json.loads(result)['id']}")).text
            ).paths
            assert paths is not None
            assert [(one.turn, one.by, one.aspect) for one in paths.english.findings or ()] == own
            erased = await client.post("/v1/erasures", json={"metadata": {"system": "bot-a"}})
            assert (erased.json()["candidates"], erased.json()["evaluations"]) == (1, 1)
            again = (await client.post("/v1/conversations", json={**given, "path": "english"})).json()
            assert again["usage"]["translated_characters"] == single["usage"]["translated_characters"]
            # A quota that is used up pauses the batch, before anything is judged.
            judged, deepl.always = len(fake.requests), Answer(456)
            paused = (await post(client, {"path": "both", "items": [{"turns": make_turns("本日は休みです。")}]})).json()
            waiting = await wait_for(client, paused["id"], "paused")
            assert (waiting["pause_reason"], len(fake.requests)) == ("translator-quota-exhausted", judged)


async def test_the_lexical_judge_leaves_what_rules_find(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        batch = (await post(client, {"items": PLANTED})).json()
        assert (await wait_for(client, batch["id"]))["counts"]["partial"] == 3
        summary = (await client.get(f"/v1/batches/{batch['id']}/summary")).json()
    codes = summary["findings"]["codes"]
    assert (codes["register-shift"]["turns"], codes["judge"]["conversations"], codes["judge"]["rate"]) == (1, 0, None)
    assert summary["coverage"]["share"] == 0.0


async def test_what_does_not_fit_is_refused_with_its_place_and_nothing_is_stored(
    client: httpx.AsyncClient, fake: FakeOpenAI
) -> None:
    talk, item = {"turns": make_turns("はい。")}, make_item()
    korean = {"turns": make_turns("네, 알겠습니다.", user="예약하고 싶어요.")}
    for body, code, pointer in (
        ({"items": [talk, item]}, "rubric-unit-mismatch", "/items/1"),
        ({"items": [item, item, talk]}, "rubric-unit-mismatch", "/items/2"),
        ({"rubric": "ja-conversation", "items": [talk, talk, item]}, "rubric-unit-mismatch", "/items/2"),
        ({"rubric": "ja-dialogue", "items": [talk]}, "rubric-unit-mismatch", "/items/0"),
        ({"items": [korean, korean]}, "rubric-required", "/items/0"),
        ({"items": [talk], "relevance": {"weight": 3.0}}, "invalid-request", "/relevance"),
        ({"items": [talk], "mode": "provider-batch"}, "invalid-request", "/mode"),
        ({"items": [talk], "score_turns": {"rubric": "ja-dialogue"}}, "invalid-request", "/score_turns"),
        ({"items": [talk, {"turns": make_turns("はい。")[:1]}]}, "invalid-request", "/items/1/turns"),
        ({"items": [{**talk, "context": item["context"]}]}, "invalid-request", "/items/0/context"),
        ({"items": [{**talk, "persona": {f"f{n}": 1 for n in range(100)}}]}, "invalid-request", "/items/0/persona"),
        ({"items": [{"turns": make_turns("はい。") * 5000}]}, "invalid-request", "/items/0/turns"),
    ):
        for response in (await post(client, body, lines=True), await client.post("/v1/estimates", json=body)):
            problem = response.json()
            assert (response.status_code, problem["code"]) == (422, code), problem
            assert problem["errors"][0]["pointer"] == pointer, problem
    assert (await client.get("/v1/batches")).json()["items"] == []
    assert fake.requests == []
