"""`/v1/validations`: what would be refused is said of all requests at once, and nothing is stored."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.records import BODY
from tests.support.serving import serving

NDJSON = {"Content-Type": "application/x-ndjson"}


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


async def post(client: httpx.AsyncClient, what: str, body: bytes) -> httpx.Response:
    return await client.post(f"/v1/validations/{what}", content=body, headers=NDJSON)


async def test_requests_are_valid_or_each_fault_has_the_number_of_its_request(client: httpx.AsyncClient) -> None:
    good = await post(client, "evaluations", lines(BODY, {**BODY, "id": "i1", "dialogue": "d"}))
    assert good.status_code == 200, good.text
    assert good.json()["clusters"][0] is None
    korean = {"context": [{"speaker": "일기", "text": "오늘 시험을 망쳤다."}], "response": "속상했겠어요."}
    bad = await post(client, "evaluations", lines(BODY, {**BODY, "samples": 2}, korean) + b"\n{")
    assert bad.status_code == 422
    assert [fault["pointer"] for fault in bad.json()["errors"]] == ["/1/samples", "/2/rubric", "/3"]
    assert "total" not in bad.json()
    many = (await post(client, "evaluations", lines(*[{}] * 15))).json()
    assert (len(many["errors"]), many["total"]) == (20, 30)
    assert (await client.get("/v1/evaluations/none")).status_code == 404


async def test_nothing_and_too_much_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, limits={"batch_items": 2, "body_bytes": 2048}) as client:
        assert (await post(client, "evaluations", b"\n")).status_code == 422
        assert (await post(client, "evaluations", lines(BODY, BODY))).status_code == 200
        too_many = await post(client, "evaluations", lines(BODY, BODY, BODY))
        assert (too_many.status_code, "at most 2 requests" in too_many.text) == (422, True)
        long = await post(client, "evaluations", lines({**BODY, "response": "あ" * 1000}))
        assert long.status_code == 413


async def test_ratings_are_validated_and_not_kept(client: httpx.AsyncClient) -> None:
    rating = {"item": "a", "rater": "R1", "ratings": {"overall": 3}}
    assert (await post(client, "ratings", lines(rating))).json() == {"ratings": 1}
    assert (await client.get("/v1/ratings")).text == ""
    bad = await post(client, "ratings", lines(rating, {**rating, "rater": ""}))
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/1")


async def test_ratings_are_validated_by_a_rubric_where_one_is_named(client: httpx.AsyncClient) -> None:
    good, unfit, unknown = ({"item": "a", "rater": f"R{n}", "ratings": {"overall": n}} for n in (3, 9, 4))
    unknown["ratings"] = {"charm": 1}
    body = lines(good, unfit) + b"\n" + lines(unknown)
    assert (await post(client, "ratings", body)).status_code == 200
    refused = await post(client, "ratings?rubric=ja-dialogue", body)
    assert (refused.status_code, [fault["pointer"] for fault in refused.json()["errors"]]) == (422, ["/1", "/3"])
    assert "9 is off its scale from 1 to 5" in refused.text
    assert (await post(client, "ratings?rubric=ja-dialogue", lines(good))).json() == {"ratings": 1}
    assert (await post(client, "ratings?rubric=none", lines(good))).status_code == 422
    assert (await post(client, "ratings?rubrik=none", lines(good))).status_code == 422


@pytest.mark.parametrize(
    ("terms", "pointer"),
    [
        ({}, "/rules"),
        ({"rules": [{"aspect": "overall", "max_drop": 1}]}, "/rules/0/max_drop"),
        ({"rules": [{"aspect": "charm", "min_mean": 1}]}, "/rules/0/aspect"),
        ({"alpha": 2}, "/alpha"),
        ({"judge": {"samples": 99}}, "/judge/samples"),
    ],
)
async def test_a_gate_that_cannot_be_judged_is_pointed_at(
    client: httpx.AsyncClient, terms: dict[str, Any], pointer: str
) -> None:
    asked = {**terms, "candidate_rubric": "ja-dialogue"}
    refused = await client.post("/v1/validations/gates", json=asked)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer), refused.text


async def test_a_gate_is_planned_for_the_rubrics_of_its_runs(client: httpx.AsyncClient) -> None:
    both = {"candidate_rubric": "ja-dialogue", "baseline_rubric": "ja-dialogue@1"}
    assert (await client.post("/v1/validations/gates", json=both)).json() == {"rules": 6}
    assert (await client.post("/v1/validations/gates", json={"candidate_rubric": "none"})).status_code == 422
    assert (await client.post("/v1/validations/gates", json={})).json() == {"rules": 0}
