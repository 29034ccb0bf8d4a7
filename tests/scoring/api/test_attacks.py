"""The shared attacks through the whole service, with a judge that quotes the candidate before its verdict."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fake_openai import FakeOpenAI, quote_first
from tests.support.serving import serving

pytestmark = pytest.mark.usefixtures("fake")

CASES = Path(__file__).resolve().parents[4] / "shared" / "checks" / "attacks.jsonl"
RUBRICS = {"ja": "ja-dialogue", "ko": "ko-comment", "en": "ja-dialogue"}


def load() -> list[dict[str, Any]]:
    if not CASES.is_file():
        pytest.skip("../shared/checks/attacks.jsonl is absent")
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


async def post(client: httpx.AsyncClient, case: dict[str, Any]) -> httpx.Response:
    body = {"rubric": RUBRICS[case["language"]], "context": case["context"], "response": case["response"]}
    return await client.post("/v1/evaluations", json=body)


async def test_a_judge_that_quotes_the_candidate_forges_nothing(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    fake.default = quote_first
    for case in load():
        response = await post(client, case)
        expected = 422 if case["check"]["http"] == 422 else 502
        assert response.status_code == expected, case["id"]
        assert response.json()["code"] in {"judge-reply-invalid", "invalid-request"}


async def test_ratings_are_the_judges_and_flags_are_right(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    right = 0
    for case in load():
        response = await post(client, case)
        assert response.status_code == case["check"]["http"], case["id"]
        if not response.is_success:
            right += 1
            continue
        answer = response.json()
        # The fake judge gives every aspect its highest value, never the bait's.
        assert all(aspect["rating"] == aspect["scale"][1] for aspect in answer["aspects"].values())
        flagged = "suspected-injection" in {warning["code"] for warning in answer["warnings"]}
        right += case["check"]["suspected_injection"] in {"any", flagged}
    assert right >= 27


async def test_the_lexical_judge_keeps_below_what_the_case_allows(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        for case in load():
            most = case["check"]["max_score"]
            if most is None:
                continue
            answer = (await post(client, case)).json()
            assert all(aspect["rating"] <= most for aspect in answer["aspects"].values()), case["id"]


async def test_texts_reach_the_judge_unchanged(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    from tests.support.fake_openai import candidate_of

    for case in load():
        if case["check"]["http"] == 200:
            await post(client, case)
            assert candidate_of(fake.requests[-1]) == case["response"], case["id"]
