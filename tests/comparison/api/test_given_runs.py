"""Comparisons and gates of runs that are given as results: the same verdict as of the same results in batches."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.platform.web.body import BodyMemory
from tests.support.conversations import find_planted, make_turns
from tests.support.fake_openai import BAD, FakeOpenAI, judge_bad
from tests.support.gate_files import make_result
from tests.support.posted import NDJSON, make_context, make_item, wait_for
from tests.support.serving import judged_by, serving

pytestmark = pytest.mark.usefixtures("judging")


async def score(client: httpx.AsyncClient, items: Iterable[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """The completed batch of these items."""
    response = await client.post("/v1/batches", json={"items": [*items], **options})
    assert response.status_code == 202, response.text
    return await wait_for(client, response.json()["id"])


async def fetch(client: httpx.AsyncClient, batch_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/batches/{batch_id}/results")
    return [json.loads(line) for line in answer.text.splitlines()]


def name_of(batch: dict[str, Any]) -> str:
    return f"{batch['name']} ({batch['id']})" if batch["name"] else batch["id"]


def write(options: dict[str, Any], **runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The request as NDJSON."""
    lines = [options, *({"run": run, **result} for run, results in runs.items() for result in results)]
    return {"content": "".join(json.dumps(line) + "\n" for line in lines), "headers": NDJSON}


def say(at: int, bad: bool) -> str:
    return f"{BAD if bad else '良い'}返事です。（{at}）"


def make_items(bad: int, *, turns: int = 1, named: bool = True, dialogue: bool = False) -> list[dict[str, Any]]:
    """36 items, the first `bad` with bad responses; `turns` of them have one context."""
    items = []
    for at in range(36):
        item = make_item(at, context=make_context(at // turns), response=say(at, at < bad))
        if not named:
            del item["id"]
        if dialogue:
            item["dialogue"] = f"d{at // 3}"
        items.append(item)
    return items


def make_conversations(faulty: int) -> list[dict[str, Any]]:
    """24 conversations of several lengths, of which the first `faulty` have a fault."""
    return [
        {
            "id": f"c{at}",
            "turns": make_turns(*["承知しました。"] * (1 + at % 3), f"{'[fault:safety]' * (at < faulty)}では。"),
        }
        for at in range(24)
    ]


RULES = [{"aspect": "overall", "max_drop": 0.1}]
PAIRS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "responses": (make_items(0), make_items(20), {"relevance": None}, {"rules": RULES}),
    "dialogues": (make_items(0, dialogue=True), make_items(20, dialogue=True), {"relevance": None}, {}),
    "found dialogues": (make_items(0, turns=2), make_items(9, turns=2), {"relevance": None}, {"rules": RULES}),
    "numbered": (make_items(0, named=False), make_items(20, named=False)[3:], {"relevance": None}, {"rules": RULES}),
    "blended": (make_items(0), make_items(20), {}, {"rules": [{"aspect": "relevance.blended", "max_drop": 0.1}]}),
    "several responses": (
        [{"id": f"i{at}", "context": make_context(at), "responses": [say(at, False)] * 2} for at in range(12)],
        [
            {"id": f"i{at}", "context": make_context(at), "responses": [say(at, at < 9), say(0, True)]}
            for at in range(12)
        ],
        {"relevance": None},
        {"rules": RULES},
    ),
    "one id with several contexts": (
        [{**item, "id": f"s{at % 4}"} for at, item in enumerate(make_items(0))],
        [{**item, "id": f"s{at % 4}"} for at, item in enumerate(make_items(20))],
        {"relevance": None},
        {"rules": RULES},
    ),
    "conversations": (
        make_conversations(0),
        make_conversations(20),
        {},
        {
            "rules": [
                {"measure": "faulty_turns", "max_rise": 2},
                {"finding": "judge", "max_rise": 2},
                {"finding": "kind:unclear-intention", "max_rise": 2},
                {"aspect": "safety", "max_drop": 0.1},
            ]
        },
    ),
}


@pytest.mark.parametrize("case", PAIRS)
async def test_results_are_judged_as_the_batches_that_they_are_of(
    client: httpx.AsyncClient, fake: FakeOpenAI, case: str
) -> None:
    before, after, options, terms = PAIRS[case]
    fake.default = find_planted if case == "conversations" else judge_bad
    batches = [await score(client, items, **options) for items in (before, after)]
    results = [await fetch(client, batch["id"]) for batch in batches]
    ids = {"baseline": batches[0]["id"], "candidate": batches[1]["id"]}
    sent = {
        role: {"results": lines, "name": name_of(batch)}
        for role, lines, batch in zip(ids, results, batches, strict=True)
    }
    for path, asked in (("/v1/gates", {**terms, "alpha": 0.1}), ("/v1/comparisons", {"test": "unpaired"})):
        expected = (await client.post(path, json={**ids, **asked})).json()
        assert "status" not in expected, expected
        for runs in (sent, {**ids, "candidate": sent["candidate"]}, {**ids, "baseline": sent["baseline"]}):
            found = await client.post(path, json={**runs, **asked})
            assert found.json() == expected, found.text[:2000]
        named = {role: {"name": name_of(batch)} for role, batch in zip(ids, batches, strict=True)}
        lines = write({**named, **asked}, baseline=results[0], candidate=results[1])
        assert (await client.post(path, **lines)).json() == expected
    listed = (await client.get("/v1/batches")).json()["items"]
    assert len(listed) == 2


def gate(results: list[Any], **changes: Any) -> dict[str, Any]:
    return {"candidate": {"results": results}, "baseline": {"results": [make_result(0), make_result(1)]}, **changes}


async def test_what_does_not_fit_is_refused_with_its_place(client: httpx.AsyncClient) -> None:
    good = [make_result(0), make_result(1)]
    off = make_result(1)
    off["aspects"]["overall"]["mean"] = 5.5
    huge = make_result(1)
    huge["aspects"]["relevance"]["blended"] = -1e300
    foreign = make_result(1)
    foreign["aspects"]["overall"]["median"] = 3
    conversation = {**make_result(0), "rubric": {"id": "ja-conversation", "version": 2}, "findings": []}
    rise = [{"finding": "any", "max_rise": 2}]
    cases: list[tuple[dict[str, Any], str, str]] = [
        (gate([]), "invalid-request", "/candidate/results"),
        (gate([good[0], good[0]]), "invalid-request", "/candidate/results/1/item"),
        (gate([good[0], {**good[1], "mood": "calm"}]), "invalid-request", "/candidate/results/1/mood"),
        (gate([good[0], foreign]), "invalid-request", "/candidate/results/1/aspects/overall/median"),
        (gate([good[0], off]), "invalid-request", "/candidate/results/1/aspects/overall/mean"),
        (gate([good[0], huge]), "invalid-request", "/candidate/results/1/aspects/relevance/blended"),
        (gate([{**good[0], "aspects": {}}]), "invalid-request", "/candidate/results/0"),
        (gate([{**good[0], "status": 1}]), "invalid-request", "/candidate/results/0/status"),
        (gate([7]), "invalid-request", "/candidate/results/0"),
        (
            gate([good[0], make_result(1, rubric={"id": "ko-dialogue", "version": 1})]),
            "invalid-request",
            "/candidate/results/1/rubric",
        ),
        (gate([make_result(rubric={"id": "gone"})]), "unknown-rubric", "/candidate/rubric"),
        (gate([{"status": "failed"}]), "invalid-request", "/candidate/rubric"),
        (gate(good, sequence="nightly"), "invalid-request", "/sequence"),
        (gate(good, estimate="corrected"), "invalid-request", "/estimate"),
        (gate(good, link="ln_1"), "invalid-request", "/link"),
        (gate(good, check_judge=True), "invalid-request", "/check_judge"),
        (
            gate([conversation], baseline={"results": [conversation]}, rules=rise),
            "invalid-request",
            "/candidate/results/0/system_turns",
        ),
        ({"candidate": 7}, "invalid-request", "/candidate"),
    ]
    for body, code, where in cases:
        answer = await client.post("/v1/gates", json=body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, code), (where, problem)
        assert [one["pointer"] for one in problem["errors"]][:1] == [where], problem
    other = [make_result(number, signature="judge:lexical") for number in range(2)]
    answer = await client.post("/v1/gates", json=gate(other))
    assert (answer.status_code, answer.json()["code"]) == (409, "signature-mismatch")
    assert answer.json()["pieces"]["judge"] == ["openai", "lexical"]
    assert (await client.post("/v1/gates", json=gate(other, allow_signature_mismatch=True))).status_code == 200


async def test_results_without_signatures_are_not_taken_for_alike(client: httpx.AsyncClient) -> None:
    unsigned = [make_result(number, signature=None) for number in range(2)]
    korean = [{**one, "rubric": {"id": "ko-dialogue", "version": 1}} for one in unsigned]
    newer = [{**one, "rubric": {"id": "ja-dialogue", "version": 2}} for one in unsigned]
    cases: list[tuple[list[Any], list[Any], dict[str, list[str]]]] = [
        (unsigned, korean, {"rubric": ["ja-dialogue@1", "ko-dialogue@1"]}),
        (unsigned, newer, {"rubric": ["ja-dialogue@1", "ja-dialogue@2"]}),
        (
            [make_result(0), make_result(1)],
            [make_result(0), unsigned[1]],
            {
                "rubric": ["ja-dialogue@1", "-, ja-dialogue@1"],
                "judge": ["openai", "-, openai"],
                "model": ["m", "-, m"],
            },
        ),
    ]
    for before, after, pieces in cases:
        body = {"baseline": {"results": before}, "candidate": {"results": after}}
        answer = await client.post("/v1/gates", json=body)
        assert (answer.status_code, answer.json().get("pieces")) == (409, pieces), answer.text
        assert (await client.post("/v1/gates", json={**body, "allow_signature_mismatch": True})).status_code == 200
    failed = {"item": "i1", "status": "failed"}
    for after in (unsigned, [unsigned[0], failed]):
        body = {"baseline": {"results": unsigned}, "candidate": {"results": after}}
        assert (await client.post("/v1/gates", json=body)).status_code == 200
    body = {"baseline": {"results": [make_result(0)]}, "candidate": {"results": [make_result(0), failed]}}
    assert (await client.post("/v1/gates", json=body)).status_code == 200


async def test_lines_are_refused_with_their_number(client: httpx.AsyncClient) -> None:
    one = make_result(0)
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"content": "", "headers": NDJSON}, 400, "the document is empty"),
        ({"content": "{}\n{", "headers": NDJSON}, 400, "line 2"),
        (
            {"content": json.dumps({"run": "candidate", **one}), "headers": NDJSON},
            422,
            "the first line must be the options",
        ),
        ({"content": "{}\n" + json.dumps(one), "headers": NDJSON}, 422, "line 2: must be"),
        (write({"candidate": "ba_1"}, candidate=[one]), 422, "is a batch, and there are lines"),
        (write({"candidate": {"results": [one]}}, candidate=[one]), 422, "stand in lines of their own"),
        (write({}, candidate=[one, one]), 422, "line 3: is that of another result"),
        (write({}, baseline=[one]), 422, "/candidate: is missing"),
        (write({"baseline": {}}, candidate=[one]), 422, "must hold at least 1"),
    ]
    for sent, status, words in cases:
        answer = await client.post("/v1/gates", **sent)
        assert (answer.status_code, words in answer.json()["detail"]) == (status, True), (words, answer.text)


async def test_a_run_has_as_many_results_as_a_batch_may(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake), limits={"batch_items": 3, "body_bytes": 8192}) as client:
        many = [make_result(number) for number in range(4)]
        for sent in ({"json": gate(many)}, write({}, candidate=many)):
            problem = (await client.post("/v1/gates", **sent)).json()
            assert problem["errors"][0]["pointer"] == "/candidate/results", problem
        # JSON is one document, lines are a stream: each line may be as long as another body.
        assert (await client.post("/v1/gates", json={"candidate": "x" * 9000})).status_code == 413
        long = write({"coverage_only": True}, candidate=[{**one, "response": "あ" * 500} for one in many[:3]])
        assert len(long["content"]) > 8192
        assert (await client.post("/v1/gates", **long)).status_code == 200


async def test_results_count_as_held_from_their_first_to_their_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saiten_server.application.BodyMemory", lambda: BodyMemory(maximum=20_000))
    async with serving(tmp_path, judge="lexical", limits={"body_bytes": 8192}) as client:
        # Beyond the bytes of each body that are not counted.
        for count, status in ((80, 200), (160, 503)):
            sent = write(
                {"coverage_only": True},
                candidate=[make_result(at, metadata={"note": "x" * 200}) for at in range(count)],
            )
            answer = await client.post("/v1/gates", **sent)
            assert answer.status_code == status, (len(sent["content"]), answer.text)
