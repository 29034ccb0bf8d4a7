"""`/v1/comparisons`, `/v1/gates` and `/v1/judge-checks` with a judge that says what the test has it say."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.comparison.judge_checks.service import MOST_CHECK_RUNS, RECORDED_RUNS, load_anchors
from tests.support.cases import in_turn
from tests.support.fake_openai import (
    BAD,
    Answer,
    FakeOpenAI,
    Request,
    candidate_of,
    complete,
    judge_bad,
    say,
    status,
    verdict_of,
)
from tests.support.keyed import make_keys
from tests.support.posted import make_context, make_item, post_batch, wait_for
from tests.support.serving import serving

pytestmark = pytest.mark.usefixtures("judging")

ANCHORS = load_anchors("ja-dialogue")
COUNT = 30


def strict(request: Request) -> Answer:
    """The same judge after it moved: the lowest for everybody."""
    return complete(request, verdict_of(request, min))


async def score(client: httpx.AsyncClient, bad: int = 0, count: int = COUNT, **options: Any) -> str:
    """The id of a completed batch of dialogues, its first responses bad."""
    items = [
        make_item(at, context=make_context(at), response=f"{BAD if at < bad else '良い'}返事です。（{at}）")
        for at in range(count)
    ]
    response = await client.post("/v1/batches", json={"relevance": None, "items": items, **options})
    assert response.status_code == 202, response.text
    await wait_for(client, response.json()["id"])
    found: str = response.json()["id"]
    return found


async def ask(client: httpx.AsyncClient, what: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await client.post(f"/v1/{what}", json=body, headers=headers)


async def find(client: httpx.AsyncClient, what: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await ask(client, what, body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


# Comparison


async def test_a_comparison_tells_each_measure(client: httpx.AsyncClient) -> None:
    good, worse = await score(client, name="good"), await score(client, bad=20)
    found = await find(client, "comparisons", {"baseline": good, "candidate": worse, "alpha": 0.01, "test": "paired"})
    assert (found["baseline"], found["candidate"], found["alpha"]) == (f"good ({good})", worse, 0.01)
    assert (found["pairing"]["test"], found["pairing"]["pairs"]) == ("paired", COUNT)
    overall = found["aspects"]["overall"]
    # 20 of 30 fall from 5 to 1.
    assert overall["difference"] == pytest.approx(-4 * 20 / 30)
    assert (overall["verdict"], overall["test"], overall["n"]) == ("worse", "sign-flip", COUNT)
    assert (overall["baseline_mean"], overall["candidate_mean"]) == (5, pytest.approx(5 - 80 / 30))
    low, high = overall["interval"]
    assert low <= overall["difference"] <= high < 0
    assert {"p", "p_adjusted", "cliffs_delta", "smallest_detectable", "wins"} <= set(overall)
    assert found["coverage"]["candidate"]["share"] == 1
    same = await find(client, "comparisons", {"baseline": good, "candidate": good})
    assert {measure["verdict"] for measure in same["aspects"].values()} == {"inconclusive"}


async def test_other_signatures_are_a_conflict_with_the_pieces_named(client: httpx.AsyncClient) -> None:
    one, other = await score(client), await score(client, judge={"samples": 2})
    body: dict[str, Any] = {"baseline": one, "candidate": other}
    for what in ("comparisons", "gates"):
        response = await ask(client, what, body)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (409, "signature-mismatch")
        assert response.headers["content-type"] == "application/problem+json"
        assert problem["pieces"] == {"samples": ["1", "2"]}
        assert "samples" in problem["detail"]
    allowed = await find(client, "comparisons", {**body, "allow_signature_mismatch": True})
    assert allowed["signature_differences"] == {"samples": ["1", "2"]}
    assert (await find(client, "gates", {**body, "allow_signature_mismatch": True}))["verdict"] == "pass"


async def test_batches_of_two_rubrics_are_not_compared(client: httpx.AsyncClient) -> None:
    one, other = await score(client), await score(client, rubric="ko-comment")
    response = await ask(client, "comparisons", {"baseline": one, "candidate": other})
    assert response.status_code == 409
    assert {"rubric", "digest"} <= set(response.json()["pieces"])


@in_turn(
    ("change", "pointer"),
    [
        ({"alpha": 0}, "/alpha"),
        ({"alpha": 1e-17}, "/alpha"),
        ({"alpha": 0.5}, "/alpha"),
        ({"alpha": "0.05"}, "/alpha"),
        ({"test": "t"}, "/test"),
        ({"seed": -1}, "/seed"),
        ({"colour": 1}, "/colour"),
        ({"baseline": ""}, "/baseline"),
        ({"candidate": None}, "/candidate"),
        ({"allow_signature_mismatch": 1}, "/allow_signature_mismatch"),
    ],
)
@in_turn("what", ["comparisons", "gates"])
async def test_a_field_that_does_not_fit_is_pointed_at(
    client: httpx.AsyncClient, what: str, change: dict[str, Any], pointer: str
) -> None:
    response = await ask(client, what, {"baseline": "ba_1", "candidate": "ba_2", **change})
    assert (response.status_code, [fault["pointer"] for fault in response.json()["errors"]]) == (422, [pointer])


async def test_pairs_that_there_are_not_are_told(client: httpx.AsyncClient) -> None:
    one = await score(client, count=2)
    items = [make_item(at, id=f"other-{at}") for at in range(2)]
    other = (await client.post("/v1/batches", json={"relevance": None, "items": items})).json()["id"]
    await wait_for(client, other)
    response = await ask(client, "comparisons", {"baseline": one, "candidate": other, "test": "paired"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/test")
    found = await find(client, "comparisons", {"baseline": one, "candidate": other})
    assert (found["pairing"]["test"], found["pairing"]["pairs"]) == ("paired", 0)
    assert {measure["verdict"] for measure in found["aspects"].values()} == {"inconclusive"}
    assert (await find(client, "gates", {"baseline": one, "candidate": other}))["verdict"] == "inconclusive"


async def test_ids_that_are_numbers_are_ids(client: httpx.AsyncClient) -> None:
    def make(number: int, **changes: Any) -> dict[str, Any]:
        return {"context": make_context(number), "response": "返事です。", **changes}

    async def post(items: list[dict[str, Any]]) -> str:
        found: str = (await client.post("/v1/batches", json={"relevance": None, "items": items})).json()["id"]
        await wait_for(client, found)
        return found

    # The candidate's contexts are others, so that only ids can tell what belongs together.
    named = [await post([make(number + own, id=str(number)) for number in range(8)]) for own in (0, 100)]
    unnamed = [await post([make(number + own) for number in range(8)]) for own in (0, 100)]
    for (baseline, candidate), pairs, given in ((named, 8, True), (unnamed, 0, False)):
        found = await find(client, "comparisons", {"baseline": baseline, "candidate": candidate})
        assert (found["pairing"]["pairs"], found["pairing"]["contexts_differ"]) == (pairs, pairs)
        assert (await client.get(f"/v1/batches/{candidate}")).json()["ids_given"] is given
        lines = (await client.get(f"/v1/batches/{candidate}/results")).text.splitlines()
        assert {json.loads(line)["ids_given"] for line in lines} == {given}


async def test_a_batch_that_is_not_there_or_anothers(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        ours, theirs, reader = await make_keys(tmp_path, ("team", "write"), ("rivals", "write"), ("team", "read"))
        made = await client.post("/v1/batches", json={"items": [make_item()]}, headers=ours)
        batch = made.json()["id"]
        await wait_for(client, batch, headers=ours)
        body = {"baseline": batch, "candidate": batch}
        for what in ("comparisons", "gates"):
            assert (await ask(client, what, body, **theirs)).status_code == 404
            assert (await ask(client, what, {**body, "baseline": "ba_none"}, **ours)).status_code == 404
            assert (await ask(client, what, {**body, "candidate": "ba_none"}, **ours)).json()["code"] == "not-found"
            # Asking changes nothing, so a key that may only read is enough …
            assert (await ask(client, what, body, **reader)).status_code == 200
        assert (await client.post("/v1/estimates", json={"items": [make_item()]}, headers=reader)).status_code == 200
        # … but for what costs judge calls, or stores.
        for what, more in (("gates", {**body, "check_judge": True}), ("judge-checks", {})):
            response = await ask(client, what, more, **reader)
            assert (response.status_code, response.json()["code"]) == (403, "insufficient-scope"), what


async def test_a_batch_without_results_compares_to_nothing(tmp_path: Path, redis_url: str) -> None:
    """With Redis nobody works on it here: it waits, is cancelled, and never has a result."""
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = (await post_batch(client, 3))["id"]
        for _ in range(2):
            found = await find(client, "comparisons", {"baseline": batch, "candidate": batch})
            assert found["coverage"]["candidate"] == {"candidates": 3, "rated": 0, "expected": 18, "share": 0.0}
            assert {measure["verdict"] for measure in found["aspects"].values()} <= {"inconclusive"}
            gate = await find(client, "gates", {"baseline": batch, "candidate": batch})
            assert (gate["verdict"], gate["reasons"][0]["code"]) == ("inconclusive", "coverage")
            await client.post(f"/v1/batches/{batch}/cancel")


async def test_failed_candidates_count_against_coverage(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    fake.default = lambda request: say("no verdict")(request) if BAD in candidate_of(request) else judge_bad(request)
    good, holed = await score(client), await score(client, bad=3)
    found = await find(client, "comparisons", {"baseline": good, "candidate": holed})
    assert found["coverage"]["candidate"] == {"candidates": COUNT, "rated": 162, "expected": 180, "share": 0.9}
    assert found["aspects"]["overall"]["n"] == COUNT - 3
    gate = await find(client, "gates", {"baseline": good, "candidate": holed, "min_coverage": 0.95})
    assert (gate["verdict"], gate["reasons"][0]["code"]) == ("inconclusive", "coverage")
    assert "162 of 180" in gate["reasons"][0]["detail"]
    assert gate["coverage"]["share"] == 0.9
    enough = await find(client, "gates", {"baseline": good, "candidate": holed, "min_coverage": 0.9})
    assert enough["verdict"] == "pass"


# Gate


async def test_the_gate_passes_and_fails(client: httpx.AsyncClient) -> None:
    good, worse = await score(client), await score(client, bad=20)
    passed = await find(client, "gates", {"baseline": good, "candidate": good})
    assert (passed["verdict"], {reason["code"] for reason in passed["reasons"]}) == ("pass", {"held"})
    failed = await find(client, "gates", {"baseline": good, "candidate": worse})
    assert failed["verdict"] == "fail"
    assert {reason["aspect"] for reason in failed["reasons"] if reason["code"] == "drop"} == set(
        failed["comparison"]["aspects"]
    )
    assert [rule["max_drop"] for rule in failed["rules"]] == [0] * 6
    least = {
        "candidate": worse,
        "rules": [{"aspect": "overall", "min_mean": 4}, {"aspect": "coherence", "min_mean": 0}],
    }
    below = await find(client, "gates", least)
    assert [(reason["code"], reason["verdict"], reason["rule"]) for reason in below["reasons"]] == [
        ("below-minimum", "fail", 0),
        ("held", "pass", None),
        ("held", "pass", 1),
    ]
    assert below["comparison"] is None


async def test_too_few_items_decide_nothing(client: httpx.AsyncClient) -> None:
    good, worse = await score(client, count=3), await score(client, bad=1, count=3)
    found = await find(client, "gates", {"baseline": good, "candidate": worse})
    assert (found["verdict"], found["reasons"][0]["code"]) == ("inconclusive", "not-enough-data")


@in_turn(
    ("change", "code", "pointer"),
    [
        ({}, "invalid-request", "/rules"),
        ({"rules": [{"aspect": "overall", "min_mean": 1}, {"aspect": "charm", "min_mean": 1}]}, "unknown-aspect", "/rules/1/aspect"),
        ({"rules": [{"aspect": "overall", "max_drop": 0.1}]}, "invalid-request", "/rules/0/max_drop"),
        ({"rules": [{"aspect": "overall"}]}, "invalid-request", "/rules/0"),
        ({"rules": [{"aspect": "overall", "max_drop": -1}]}, "invalid-request", "/rules/0/max_drop"),
        ({"rules": [{"aspect": "overall", "min_mean": 1, "max": 2}]}, "invalid-request", "/rules/0/max"),
        ({"rules": [{"aspect": "A" * 5000, "min_mean": 1}]}, "invalid-request", "/rules/0/aspect"),
        ({"rules": [{"aspect": "overall", "min_mean": 1}] * 65}, "invalid-request", "/rules"),
        ({"min_coverage": 1.5}, "invalid-request", "/min_coverage"),
    ],
)  # fmt: skip
async def test_what_the_gate_cannot_judge_by_is_pointed_at(
    client: httpx.AsyncClient, change: dict[str, Any], code: str, pointer: str
) -> None:
    batch = await score(client, count=1)
    response = await ask(client, "gates", {"candidate": batch, **change})
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, code), problem
    assert problem["errors"][0]["pointer"] == pointer
    assert "A" * 201 not in response.text


# Judge checks


async def test_a_check_is_made_once_under_a_key(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    key = {"Idempotency-Key": "k1"}
    first, second = [await client.post("/v1/judge-checks", json={}, headers=key) for _ in range(2)]
    assert (first.status_code, second.content) == (200, first.content)
    assert second.headers["idempotent-replayed"] == "true"
    assert len(fake.requests) == RECORDED_RUNS * len(ANCHORS)


async def test_anchors_are_asked_past_the_cache(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    first = await find(client, "judge-checks", {})
    assert (first["verdict"], first["rubric"], first["anchors"]) == ("recorded", "ja-dialogue", len(ANCHORS))
    assert len(fake.requests) == RECORDED_RUNS * len(ANCHORS)
    second = await find(client, "judge-checks", {"rubric": "ja-dialogue"})
    assert (second["verdict"], second["reference_at"]) == ("steady", first["ratings"]["at"])
    assert len(fake.requests) == (RECORDED_RUNS + MOST_CHECK_RUNS) * len(ANCHORS)
    # To everybody else the cache answers as ever: the same text is asked for once more, and then never again.
    anchor = ANCHORS[0].model_dump(mode="json")
    body = {"context": anchor["context"], "response": anchor["response"], "relevance": None}
    fake.requests.clear()
    answers = [(await client.post("/v1/evaluations", json=body)).json() for _ in range(3)]
    assert ([answer["cached"] for answer in answers], len(fake.requests)) == ([False, True, True], 1)
    await find(client, "judge-checks", {})
    assert len(fake.requests) == 1 + MOST_CHECK_RUNS * len(ANCHORS)
    assert (await client.post("/v1/evaluations", json=body)).json()["cached"] is True
    # No anchor is anybody's evaluation or batch.
    assert (await client.get("/v1/batches")).json()["items"] == []


async def test_a_judge_that_moved_is_no_bot_that_got_worse(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    good = await score(client)
    body = {"baseline": good, "candidate": good, "check_judge": True}
    assert (await find(client, "gates", body))["verdict"] == "pass"
    assert [one["about"] for one in (await find(client, "gates", body))["reasons"]].count("judge") == 1
    fake.default = strict
    worse = await score(client, bad=COUNT)
    moved = await find(client, "judge-checks", {})
    assert moved["verdict"] == "moved"
    assert {name for name, drift in moved["aspects"].items() if drift["moved"]} == set(ANCHORS[0].ratings)
    assert all(name in moved["detail"] for name in ANCHORS[0].ratings)
    # Every rating fell from the top of its scale to the bottom: from 5 to 1, from 3 to 1, from 1 to 0.
    assert {moved["aspects"][name]["shift"] for name in ("overall", "naturalness", "coherence")} == {-4, -2, -1}
    assert moved["aspects"]["overall"]["changed"] == len(ANCHORS)
    alone = await find(client, "gates", {"baseline": good, "candidate": worse})
    assert (alone["verdict"], alone["reasons"][0]["code"]) == ("fail", "drop")
    gate = await find(client, "gates", {"baseline": good, "candidate": worse, "check_judge": True})
    assert (gate["verdict"], gate["reasons"][0]["code"]) == ("inconclusive", "judge-moved")
    assert "naturalness" in gate["reasons"][0]["detail"]
    # A check that was made already does as well, and costs nothing.
    fake.requests.clear()
    given = await find(client, "gates", {"baseline": good, "candidate": worse, "judge_check": moved})
    assert (given["verdict"], given["reasons"][0]["code"], fake.requests) == ("inconclusive", "judge-moved", [])


async def test_a_reference_of_the_callers_own_comes_first(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    own = (await find(client, "judge-checks", {}))["ratings"]
    fake.default = strict
    await find(client, "judge-checks", {"record": True})
    assert (await find(client, "judge-checks", {}))["verdict"] == "steady"
    assert (await find(client, "judge-checks", {"reference": own}))["verdict"] == "moved"
    other = await find(client, "judge-checks", {"reference": {**own, "anchors": "0" * 64}})
    assert (other["verdict"], other["aspects"]) == ("recorded", {})
    assert other["ratings"]["anchors"] == own["anchors"]


@in_turn(
    ("ratings", "pointer"),
    [
        ({"ja-01": {"overall": [10**19]}}, "/reference/ratings/ja-01/overall/0"),
        ({"ja-01": {"overall": []}}, "/reference/ratings/ja-01/overall"),
        ({"ja-01": {"overall": [1] * 101}}, "/reference/ratings/ja-01/overall"),
        ({"ja-01": {"overall": ["5"]}}, "/reference/ratings/ja-01/overall/0"),
        ({"ja-01": {"overall": 5}}, "/reference/ratings/ja-01/overall"),
    ],
)
async def test_a_reference_that_does_not_fit_is_pointed_at(
    client: httpx.AsyncClient, fake: FakeOpenAI, ratings: Any, pointer: str
) -> None:
    about = {"rubric": "ja-dialogue", "anchors": "0", "asked": "0", "judge": "j", "signature": "s"}
    reference = {**about, "at": "2026-11-21T00:00:00Z"}
    response = await ask(client, "judge-checks", {"reference": {**reference, "ratings": ratings}})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert fake.requests == []


async def test_a_reference_of_nothing_that_is_asked_says_so(client: httpx.AsyncClient) -> None:
    own = (await find(client, "judge-checks", {}))["ratings"]
    found = await find(client, "judge-checks", {"reference": {**own, "ratings": {"x": {"overall": [5], "charm": [1]}}}})
    assert (found["verdict"], found["aspects"], found["pooled"]) == ("recorded", {}, None)
    assert found["detail"] == "the reference holds no rating of these anchors: keep those of now in its place"
    # Of what only the reference has there is no drift.
    rated = {**own["ratings"], "x": {"charm": [1]}}
    found = await find(client, "judge-checks", {"reference": {**own, "ratings": rated}})
    assert found["aspects"]["charm"]["undefined"]["p"]


@pytest.mark.parametrize(
    ("fault", "http", "code"),
    [
        (status(503), 503, "judge-unavailable"),
        (status(401), 503, "judge-unauthorized"),
        (status(429, "quota", code="insufficient_quota"), 503, "judge-quota-exhausted"),
        (status(400), 502, "judge-refused-request"),
        (say("no verdict"), 502, "judge-reply-invalid"),
    ],
)
async def test_a_judge_in_trouble_is_the_usual_problem(
    client: httpx.AsyncClient, fake: FakeOpenAI, fault: Any, http: int, code: str
) -> None:
    batch = await score(client, count=2)
    fake.default = fault
    rules = [{"aspect": "overall", "min_mean": 1}]
    for what, body in (("judge-checks", {}), ("gates", {"candidate": batch, "rules": rules, "check_judge": True})):
        response = await ask(client, what, body)
        assert (response.status_code, response.json()["code"]) == (http, code), response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert ("retry-after" in response.headers) is (http == 503)
    fake.default = judge_bad
    # Nothing was stored on the way.
    assert (await find(client, "judge-checks", {}))["verdict"] == "recorded"


async def test_a_refused_gate_asks_no_judge(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    batch = await score(client, count=1)
    fake.requests.clear()
    body = {"candidate": batch, "check_judge": True, "rules": [{"aspect": "charm", "min_mean": 1}]}
    assert (await ask(client, "gates", body)).status_code == 422
    assert (await ask(client, "judge-checks", {"rubric": "none"})).json()["code"] == "unknown-rubric"
    assert fake.requests == []


async def test_the_document_shows_what_these_take(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    batch = await score(client, count=1)
    for what in ("comparisons", "gates", "judge-checks"):
        content = document["paths"][f"/v1/{what}"]["post"]["requestBody"]["content"]["application/json"]
        example = json.loads(json.dumps(content["example"]).replace("ba_\\u2026", batch))
        assert (await ask(client, what, example)).status_code == 200, what


async def test_checks_side_by_side_do_not_get_into_each_others_way(client: httpx.AsyncClient) -> None:
    await find(client, "judge-checks", {})
    found = await asyncio.gather(*(find(client, "judge-checks", {}) for _ in range(3)))
    assert [one["verdict"] for one in found] == ["steady"] * 3


async def test_the_raters_of_one_run_do_not_decide_about_another(client: httpx.AsyncClient) -> None:
    """The issue's case: anna rates one run, ben, who is harsher, the other. Then anna rates some of both."""
    before, after = await score(client, bad=1), await score(client, bad=2)

    async def rate(batch: str, rater: str, harsh: int, rows: range) -> None:
        given = [
            {"batch": batch, "item": make_item(at)["id"], "rater": rater, "ratings": {"overall": 2 + at % 4 - harsh}}
            for at in rows
        ]
        lines = "".join(json.dumps(one) + "\n" for one in given)
        posted = await client.post("/v1/ratings", content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert posted.status_code == 200, posted.text

    await rate(before, "anna", 0, range(COUNT))
    await rate(after, "ben", 1, range(COUNT))
    body = {"baseline": before, "candidate": after, "estimate": "corrected"}
    body["rules"] = [{"aspect": "overall", "max_drop": 0.1, "must_detect": 1}]  # type: ignore[assignment]
    for language, expected in (
        ("en", "no rater rated both sides, and raters differ in severity: some 15 ratings"),
        ("ja", "両方を評価した人がいません。評価の厳しさは人によって違うため"),
        ("ko", "양쪽을 모두 평가한 사람이 없습니다. 평가의 엄격함은 사람마다 다르므로"),
    ):
        report = (await ask(client, "gates", body, **{"Accept-Language": language})).json()
        assert report["verdict"] == "inconclusive"
        assert expected in next(one["detail"] for one in report["reasons"] if one["rule"] == 0)
    assert report["corrected"]["overall"]["shared"] == {"raters": 0, "baseline": 0, "candidate": 0, "needed": 15}
    await rate(after, "anna", 0, range(1, COUNT))
    report = (await ask(client, "gates", body)).json()
    assert report["corrected"]["overall"]["shared"] == {"raters": 1, "baseline": 30, "candidate": 29, "needed": None}
    assert report["corrected"]["overall"]["difference"] == pytest.approx(0, abs=0.2)
    detail = next(one["detail"] for one in report["reasons"] if one["rule"] == 0)
    assert "corrected by 30 and 29 ratings by 1 rater of both runs" in detail
