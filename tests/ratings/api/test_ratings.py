"""`/v1/ratings`: whole or not at all, every fault at its line, read in pages, removed by name and with their batch."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cases import in_turn
from tests.support.gate_files import ASPECTS
from tests.support.keyed import make_keys
from tests.support.posted import NDJSON, make_context, make_item, post_batch, wait_for
from tests.support.records import BODY
from tests.support.serving import serving
from tests.support.waiting import LIMIT_SECONDS

JSON = {"Content-Type": "application/json"}


def rating(item: str | None = "a", rater: str = "r1", **changes: Any) -> dict[str, Any]:
    given = {"item": item, "rater": rater, "ratings": {"overall": 4}, **changes}
    return {name: value for name, value in given.items() if value is not None}


def write(*ratings: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in ratings).encode()


async def post(client: httpx.AsyncClient, *ratings: dict[str, Any], **headers: str) -> httpx.Response:
    return await client.post("/v1/ratings", content=write(*ratings), headers=NDJSON | headers)


async def read(client: httpx.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    response = await client.get(f"/v1/ratings{query}")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in response.content.splitlines()]


async def test_ratings_are_kept_replaced_and_given_back(client: httpx.AsyncClient) -> None:
    batch = await post_batch(client, 2)
    await wait_for(client, batch["id"])
    evaluation = (await client.post("/v1/evaluations", json=BODY)).json()["id"]
    given = [
        rating("a", comment="少し硬い\u2028"),
        rating("i0", batch=batch["id"], ratings={"overall": 4.5, "naturalness": 1}),
        rating(None, evaluation=evaluation),
        rating("a", "r2", candidate=1, system="甲", ratings={"mood": -3}),
    ]
    response = await post(client, *given)
    assert (response.status_code, response.json()) == (200, {"added": 4, "replaced": 0})
    kept = await read(client)
    assert [{name: value for name, value in one.items() if name != "created_at"} for one in kept] == given
    assert all(one["created_at"].endswith("Z") for one in kept)
    again = await post(client, rating("a", ratings={"overall": 1}), rating("b"))
    assert again.json() == {"added": 1, "replaced": 1}
    assert [one["ratings"]["overall"] for one in await read(client, "?item=a&rater=r1")] == [1]


async def test_one_rating_may_come_as_a_json_document(client: httpx.AsyncClient) -> None:
    spread = json.dumps(rating("a"), indent=2).encode()
    response = await client.post("/v1/ratings", content=spread, headers=JSON)
    assert (response.status_code, response.json()) == (200, {"added": 1, "replaced": 0})
    bad = await client.post("/v1/ratings", json=rating("a", ratings={"overall": "4", "mood": 1}))
    assert [(one["pointer"], one["code"]) for one in bad.json()["errors"]] == [("/ratings/overall", "must-be-number")]
    for content in (b"{", write(rating("b"), rating("c"))):
        response = await client.post("/v1/ratings", content=content, headers=JSON)
        assert (response.status_code, response.json()["code"]) == (400, "invalid-json")
    assert (await client.post("/v1/ratings", json=[rating("b")])).status_code == 422
    assert len(await read(client)) == 1


async def test_the_same_key_replays_and_adds_nothing(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    first = await post(client, rating("a"), **key)
    second = await post(client, rating("a"), **key)
    assert second.json() == first.json() == {"added": 1, "replaced": 0}
    assert second.headers["idempotent-replayed"] == "true"
    other = await post(client, rating("b"), **key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    refused = await post(client, rating("c", rater=""), **{"Idempotency-Key": "k2"})
    assert refused.status_code == 422
    assert (await post(client, rating("c"), **{"Idempotency-Key": "k2"})).status_code == 200


BAD_LINES = [
    (b'{"item": "b", "rater": "r1"', "not valid JSON"),
    (b"3", "must be an object"),
    (b'{"item": "b", "item": "c", "rater": "r1", "ratings": {"x": 1}}', "the same key twice"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": NaN}}', "NaN is not a JSON number"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": 1e400}}', "too large"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": 1e300}}', "less than or equal to 1000000000000000"),
    (b'{"item": "\\ud800", "rater": "r1", "ratings": {"x": 1}}', "surrogate"),
    (b'{"item": "\xff", "rater": "r1", "ratings": {"x": 1}}', "not UTF-8"),
    (b'{"item": "a\\u0000", "rater": "r1", "ratings": {"x": 1}}', "/item"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": 1}, "score": 3}', "/score: is not a field"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": "3"}}', "/ratings/x: must be a number"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": true}}', "/ratings/x: must be a number"),
    (b'{"item": "b", "rater": "r1", "ratings": {"x": null}}', "/ratings/x: must be a number"),
    (b'{"item": "b", "rater": "r1", "ratings": {}}', "/ratings"),
    (b'{"item": "b", "rater": "r1", "ratings": {"Nice!": 1}}', "/ratings/Nice!"),
    (b'{"item": 7, "rater": "r1", "ratings": {"x": 1}}', "/item: must be a text"),
    (b'{"item": "b", "ratings": {"x": 1}}', "/rater: is missing"),
    (b'{"rater": "r1", "ratings": {"x": 1}}', "needs an item or an evaluation"),
    (b'{"item": "b", "evaluation": "ev_1", "rater": "r1", "ratings": {"x": 1}}', "and not both"),
    (b'{"evaluation": "ev_1", "batch": "ba_1", "rater": "r1", "ratings": {"x": 1}}', "/batch: goes with an item"),
    (b'{"item": "b", "candidate": -1, "rater": "r1", "ratings": {"x": 1}}', "/candidate"),
    (b'{"item": "a", "rater": "r1", "ratings": {"x": 2}}', "rates what line 1 rates, by the same rater"),
    (b'{"item": "b", "batch": "ba_none", "rater": "r1", "ratings": {"x": 1}}', "there is no batch ba_none"),
    (b'{"evaluation": "ev_none", "rater": "r1", "ratings": {"x": 1}}', "there is no evaluation ev_none"),
]  # fmt: skip


async def test_a_bad_line_refuses_all_and_is_told(client: httpx.AsyncClient) -> None:
    for line, told in BAD_LINES:
        body = write(rating("a")) + b"\n" + line + b"\n"
        response = await client.post("/v1/ratings", content=body, headers=NDJSON)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (422, "invalid-request"), (line, problem)
        (fault,) = problem["errors"]
        assert (fault["pointer"], fault["detail"][:8]) == ("/2", "line 3: "), line
        assert told in fault["detail"], line
    assert await read(client) == []


async def test_what_does_not_fit_the_batch_is_told_at_its_line(client: httpx.AsyncClient) -> None:
    batch = (await post_batch(client, 2))["id"]
    bad = [
        rating("i0", batch=batch),
        rating("i1", batch=batch, ratings={"overall": 6}),
        rating("i1", "r2", batch=batch, ratings={"overal": 3}),
    ]
    problem = (await post(client, *bad)).json()
    assert [(fault["pointer"], fault["detail"]) for fault in problem["errors"]] == [
        ("/1", "line 2: /ratings/overall: 6 is off its scale from 1 to 5"),
        ("/2", "line 3: /ratings/overal: the rubric has no such aspect; did you mean 'overall'?"),
    ]
    problem = (await post(client, rating("i0", batch=batch), rating("i9", batch=batch))).json()
    assert [(fault["pointer"], fault["detail"]) for fault in problem["errors"]] == [
        ("/1", "line 2: the batch has no item i9")
    ]
    assert await read(client) == []


async def test_many_faults_are_capped_and_no_text_is_echoed_at_length(client: httpx.AsyncClient) -> None:
    text = "あ" * 5000
    lines = [rating(str(number), ratings={"overall": text}) | {text: 1} for number in range(50)]
    problem = (await post(client, *lines)).json()
    assert len(problem["errors"]) == 20
    assert "(and 49 more)" in problem["detail"]
    assert "あ" * 201 not in json.dumps(problem, ensure_ascii=False)


@in_turn(
    ("content", "headers", "status", "code"),
    [
        (b"", NDJSON, 422, "invalid-request"),
        (b"\n \n", NDJSON, 422, "invalid-request"),
        (b"", JSON, 400, "invalid-json"),
        (write(rating()), {"Content-Type": "text/csv"}, 415, "unsupported-media-type"),
        (write(rating()), {}, 415, "unsupported-media-type"),
        (write(rating()), {"Content-Type": "application/x-ndjson; charset=euc-kr"}, 415, "unsupported-media-type"),
        (write(rating()), {**NDJSON, "Content-Encoding": "gzip"}, 415, "unsupported-media-type"),
        (b"[" * 100_000, JSON, 400, "invalid-json"),
        (b"[" * 100_000, NDJSON, 422, "invalid-request"),
    ],
)
async def test_what_holds_no_rating_is_a_problem(
    client: httpx.AsyncClient, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    response = await client.post("/v1/ratings", content=content, headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_a_body_has_its_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", limits={"body_bytes": 20_000}) as client:
        assert (await post(client, *(rating(str(number)) for number in range(100)))).status_code == 200
        large = await post(client, *(rating(str(number)) for number in range(500)))
        assert (large.status_code, large.json()["code"]) == (413, "body-too-large")
        assert "20000 bytes" in large.json()["detail"]


async def test_long_bodies_are_read_as_short_ones(client: httpx.AsyncClient) -> None:
    count = 5000  # more than a quarter of a megabyte: read in a thread
    response = await post(client, *(rating(f"item-{number}", comment="長" * 20) for number in range(count)))
    assert response.json() == {"added": count, "replaced": 0}
    bad = await post(client, *(rating(f"item-{number}", comment="長" * 20) for number in range(count)), {"item": "x"})
    assert [fault["pointer"] for fault in bad.json()["errors"]] == [f"/{count}"]


async def test_pages_follow_each_other(client: httpx.AsyncClient) -> None:
    await post(client, *(rating(f"i{number}", f"r{number % 2}") for number in range(7)))
    found, cursor, sizes = [], "0", []
    while cursor:
        response = await client.get(f"/v1/ratings?limit=3&cursor={cursor}")
        lines = response.text.splitlines()
        found += [json.loads(line)["item"] for line in lines]
        sizes.append(len(lines))
        cursor = response.headers.get("x-next-cursor", "")
    assert (found, sizes) == ([f"i{number}" for number in range(7)], [3, 3, 1])
    exactly = await client.get("/v1/ratings?limit=7")
    assert "x-next-cursor" not in exactly.headers
    assert [one["item"] for one in await read(client, "?rater=r1")] == ["i1", "i3", "i5"]
    assert await read(client, "?rater=r1&item=i0") == []


@in_turn("method", ["GET", "DELETE"])
@in_turn(
    ("query", "pointer"),
    [("ratr=r1&item=a", "/query/ratr"), ("item=a&item=b", "/query/item"), ("x=1", "/query/x")],
)
async def test_a_misspelt_filter_is_refused(client: httpx.AsyncClient, method: str, query: str, pointer: str) -> None:
    """Passed over, it would show, or remove, more than was meant."""
    await post(client, rating("a"), rating("a", "r2"))
    response = await client.request(method, f"/v1/ratings?{query}")
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, pointer)
    assert len(await read(client)) == 2


@in_turn("query", ["limit=0", "limit=10001", "cursor=-1", "cursor=x", f"cursor={10**30}"])
async def test_a_page_that_does_not_fit_is_a_problem(client: httpx.AsyncClient, query: str) -> None:
    response = await client.get(f"/v1/ratings?{query}")
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


async def test_ratings_are_removed_by_name(client: httpx.AsyncClient) -> None:
    await post(client, rating("a"), rating("a", "r2"), rating("b"))
    refused = await client.delete("/v1/ratings")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/query")
    for query, expected in (("item=a&rater=r2", 1), ("item=a&rater=r2", 0), ("rater=%00", 0), ("rater=r1", 2)):
        response = await client.delete(f"/v1/ratings?{query}")
        assert (response.status_code, response.json()) == (200, {"removed": expected})
    assert await read(client) == []


async def test_a_batchs_ratings_go_with_it(client: httpx.AsyncClient) -> None:
    batch = (await post_batch(client, 2))["id"]
    await wait_for(client, batch)
    line = (await client.get(f"/v1/batches/{batch}/results")).text.splitlines()[0]
    evaluation = json.loads(line)["id"]
    await post(client, rating("i0", batch=batch), rating(None, evaluation=evaluation), rating("i0", "own"))
    assert (await client.delete(f"/v1/batches/{batch}")).status_code in {200, 204}
    assert [one["rater"] for one in await read(client)] == ["own"]


async def test_each_project_has_its_own_and_readers_may_only_read(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        ours, theirs, reader = await make_keys(tmp_path, ("team", "write"), ("rivals", "write"), ("team", "read"))
        evaluation = (await client.post("/v1/evaluations", json=BODY, headers=ours)).json()["id"]
        assert (await post(client, rating(None, evaluation=evaluation), **ours)).status_code == 200
        stolen = await post(client, rating(None, evaluation=evaluation), **theirs)
        assert stolen.status_code == 422
        (fault,) = stolen.json()["errors"]
        assert (fault["pointer"], fault["detail"]) == (
            "/0",
            f"line 1: there is no evaluation {evaluation} in this project",
        )
        assert (await client.get("/v1/ratings", headers=theirs)).text == ""
        assert (await client.delete("/v1/ratings?rater=r1", headers=theirs)).json() == {"removed": 0}
        assert len((await client.get("/v1/ratings", headers=reader)).text.splitlines()) == 1
        for response in (
            await post(client, rating("a"), **reader),
            await client.delete("/v1/ratings?rater=r1", headers=reader),
        ):
            assert (response.status_code, response.json()["code"]) == (403, "insufficient-scope")


async def wait_for_badge(client: httpx.AsyncClient, batch_id: str, n: int | None) -> dict[str, Any]:
    """The reliability of the batch's summary once it rests on so many items."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            found: dict[str, Any] = (await client.get(f"/v1/batches/{batch_id}/summary")).json()["reliability"]
            if found["n"] == n:
                return found
            await asyncio.sleep(0.02)


async def score(client: httpx.AsyncClient) -> str:
    """The id of a completed batch of 60 dialogues whose ratings differ."""
    items = [
        make_item(at, context=make_context(at), response="はい、" * (at % 5) + "海まで行きました。") for at in range(60)
    ]
    batch: str = (await client.post("/v1/batches", json={"items": items})).json()["id"]
    await wait_for(client, batch)
    return batch


async def test_ratings_of_a_batch_become_the_reliability_of_its_judge_by_themselves(client: httpx.AsyncClient) -> None:
    batch = await score(client)
    assert (await wait_for_badge(client, batch, None))["detail"] == "not validated against humans"
    lines = (await client.get(f"/v1/batches/{batch}/results")).content.splitlines()
    scored = {one["item"]: one["aspects"] for one in map(json.loads, lines)}
    given = [
        rating(item, rater, batch=batch, ratings={name: found["rating"] for name, found in aspects.items()})
        for item, aspects in scored.items()
        for rater in ("r1", "r2")
    ]
    assert (await post(client, *given)).json() == {"added": 120, "replaced": 0}
    badge = await wait_for_badge(client, batch, 60)
    assert badge["validated"] is True
    rated = [found for found in badge["aspects"].values() if found["n"]]
    assert [found["spearman"] for found in rated] == pytest.approx([1] * len(rated))
    assert {found["state"] for found in rated} == {"validated"}
    assert (await client.delete(f"/v1/ratings?batch={batch}")).json() == {"removed": 120}
    assert (await wait_for_badge(client, batch, None))["validated"] is False


# Exclusions


async def test_raters_and_rounds_are_excluded_and_included(client: httpx.AsyncClient) -> None:
    address = "/v1/ratings/exclusions"
    assert (await client.post(address, json={"rater": "R3"})).json() == {"added": 1}
    assert (await client.post(address, json={"rater": "R3"})).json() == {"added": 0}
    (found,) = (await client.get(address)).json()["items"]
    assert (found["rater"], found["round"]) == ("R3", None)
    missing = await client.post(address, json={"round": "rr_none"})
    assert (missing.status_code, missing.json()["code"]) == (404, "not-found")
    for wrong in ({}, {"rater": "R3", "round": "rr_1"}, {"rater": " "}, {"rater": 3}, {"raters": ["R3"]}):
        assert (await client.post(address, json=wrong)).status_code == 422
    assert (await client.delete(address)).status_code == 422
    assert (await client.delete(f"{address}?rater=R3&reason=x")).status_code == 422
    assert (await client.delete(f"{address}?rater=R3")).json() == {"removed": 1}
    assert (await client.delete(f"{address}?rater=R3")).json() == {"removed": 0}
    events = (await client.get("/v1/audit")).json()["items"]
    assert [event["action"] for event in events] == ["ratings.included", "ratings.excluded"]
    assert "R3" not in json.dumps(events)


async def test_exclusions_are_the_projects_and_readers_only_look(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        ours, theirs, reader = await make_keys(tmp_path, ("team", "write"), ("rivals", "write"), ("team", "read"))
        address = "/v1/ratings/exclusions"
        headers = {**ours, "Idempotency-Key": "once"}
        first = await client.post(address, json={"rater": "R3"}, headers=headers)
        again = await client.post(address, json={"rater": "R3"}, headers=headers)
        assert first.json() == again.json() == {"added": 1}
        assert again.headers["idempotent-replayed"] == "true"
        assert (await client.get(address, headers=theirs)).json() == {"items": []}
        assert len((await client.get(address, headers=reader)).json()["items"]) == 1
        assert (await client.post(address, json={"rater": "R4"}, headers=reader)).status_code == 403
        assert (await client.delete(f"{address}?rater=R3", headers=reader)).status_code == 403


async def test_simulated_and_excluded_ratings_validate_no_judge(client: httpx.AsyncClient) -> None:
    batch = await score(client)
    lines = (await client.get(f"/v1/batches/{batch}/results")).content.splitlines()
    results = [json.loads(line) for line in lines]
    name = next(name for name in ASPECTS if len({one["aspects"][name]["rating"] for one in results}) > 1)
    scored = {one["item"]: one["aspects"][name]["rating"] for one in results}

    async def rate(*raters: str, **changes: Any) -> None:
        given = [
            rating(item, rater, batch=batch, ratings={name: value}, **changes)
            for item, value in scored.items()
            for rater in raters
        ]
        assert (await post(client, *given)).status_code == 200

    await rate("s1", "s2", simulated=True)
    assert {line.get("simulated") for line in await read(client)} == {True}
    report = (await client.post("/v1/analyses/correlation", json={"batch": batch})).json()
    assert report["ratings_used"] == {"counted": 120, "simulated": True, "simulated_left_out": 0, "excluded": 0}
    assert report["aspects"][name]["spearman"] == pytest.approx(1)
    badge = (await client.get(f"/v1/batches/{batch}/summary")).json()["reliability"]
    assert (badge["validated"], badge["n"]) == (False, None)
    assert {aspect["state"] for aspect in badge["aspects"].values()} == {"unknown"}
    await rate("hanako", "taro")
    badge = await wait_for_badge(client, batch, 60)
    assert badge["validated"] is True
    states = {one: found["state"] for one, found in badge["aspects"].items()}
    assert states == dict.fromkeys(ASPECTS, "unknown") | {name: "validated"}
    assert badge["aspects"][name]["source"] == {"batch": batch, "items": 60, "raters": 2, "at": badge["at"]}
    report = (await client.post("/v1/analyses/agreement", json={"batch": batch})).json()
    assert report["ratings_used"] == {"counted": 120, "simulated": False, "simulated_left_out": 120, "excluded": 0}
    for rater in ("hanako", "taro"):
        await client.post("/v1/ratings/exclusions", json={"rater": rater})
    assert (await wait_for_badge(client, batch, None))["aspects"][name]["state"] == "unknown"


async def test_a_page_of_long_ratings_is_short(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.platform.sql.sizes.MOST_PAGE_BYTES", 5_000)
    given = [{"item": f"i{at}", "rater": "r1", "ratings": {"overall": 3}, "comment": "長" * 600} for at in range(4)]
    body = "\n".join(map(json.dumps, given)).encode()
    await client.post("/v1/ratings", content=body, headers={"Content-Type": "application/x-ndjson"})
    found, cursor = [], "0"
    while cursor:
        page = await client.get("/v1/ratings", params={"cursor": cursor, "limit": 3})
        found.append([json.loads(line)["item"] for line in page.text.splitlines()])
        cursor = page.headers.get("X-Next-Cursor", "")
    assert found == [["i0", "i1"], ["i2", "i3"]]
