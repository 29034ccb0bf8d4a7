"""A provider's filter or region block is a matter of the item, with the provider's words; a refused key is not."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.core.errors import JudgeRefusedRequest, JudgeUnauthorized
from tests.support.fake_openai import Answer, FakeOpenAI, Request, candidate_of, status, valid
from tests.support.judges import details_of, open_bench, reasons_of
from tests.support.posted import make_item, wait_for
from tests.support.serving import judged_by, serving

FLAGGED = "The chosen model requires moderation, and the input was flagged"
OPENROUTER = {"reasons": ["violence"], "flagged_input": "…", "provider_name": "Somebody", "model_slug": "m"}
BEHIND = '{"error": {"code": "unsupported_country_region_territory", "message": "Not here"}}'

FILTERS: dict[str, tuple[int, dict[str, Any], str]] = {
    "OpenRouter": (403, {"code": 403, "message": FLAGGED, "metadata": OPENROUTER}, f"{FLAGGED} (violence)"),
    "Azure": (400, {"code": "content_filter", "message": "Filtered by policy.", "param": "prompt"}, "by policy."),
    "Azure through a proxy": (
        400,
        {"code": "400", "message": "Filtered.", "innererror": {"code": "ResponsibleAIPolicyViolation"}},
        "Filtered.",
    ),
    "OpenAI": (400, {"code": "content_policy_violation", "message": "Against the policy."}, "Against the policy."),
    "OpenAI's reasoning models": (400, {"code": "invalid_prompt", "message": "Invalid prompt: flagged."}, "flagged."),
    "DeepSeek": (400, {"code": "invalid_request_error", "message": "Content Exists Risk"}, "Content Exists Risk"),
    "a type alone": (400, {"code": "421", "type": "content_filter", "message": "Moderation Block"}, "Moderation"),
    "DashScope": (400, {"code": "data_inspection_failed", "message": "Input data may be bad."}, "may be bad"),
    "Gemini": (400, {"code": 400, "message": "Blocked: block_reason PROHIBITED_CONTENT"}, "PROHIBITED_CONTENT"),
    "sent with HTTP 200": (200, {"code": 403, "message": FLAGGED, "metadata": OPENROUTER}, FLAGGED),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_what_a_filter_stops_is_unrated_with_the_providers_words_and_asked_once(name: str) -> None:
    http, error, words = FILTERS[name]
    async with open_bench(lambda _: Answer(http, {"error": error})) as bench:
        judgement = await bench.rate()
        assert reasons_of(judgement) == {"content-filter"}
        assert all(words in detail for detail in details_of(judgement))
        assert len(bench.fake.requests) == 1


@pytest.mark.parametrize(
    ("http", "error"),
    [
        (
            403,
            {"code": "unsupported_country_region_territory", "message": "Country, region, or territory not supported"},
        ),
        (403, {"code": 403, "message": "Provider returned error", "metadata": {"raw": BEHIND}}),
        (
            400,
            {"code": 400, "status": "FAILED_PRECONDITION", "message": "User location is not supported for this use."},
        ),
        (451, {"message": "Unavailable."}),
    ],
)
async def test_a_region_block_is_a_refused_request(http: int, error: dict[str, Any]) -> None:
    async with open_bench(lambda _: Answer(http, {"error": error})) as bench:
        with pytest.raises(JudgeRefusedRequest, match="does not serve this region") as caught:
            await bench.rate()
        assert error["message"] in caught.value.detail
        assert error["message"] not in caught.value.loggable
        assert len(bench.fake.requests) == 1


async def test_a_plain_403_still_concerns_the_account() -> None:
    async with open_bench(status(403, "Project keys may not use this model")) as bench:
        with pytest.raises(JudgeUnauthorized):
            await bench.rate()


async def test_a_filters_words_are_bounded_and_hold_no_key() -> None:
    message = "Filtered sk-0123456789abcdef " + "長" * 500
    async with open_bench(status(400, message, code="content_filter")) as bench:
        for detail in details_of(await bench.rate()):
            assert "sk-0123" not in detail
            assert len(detail) < 300


async def run_batch(client: httpx.AsyncClient, items: list[dict[str, Any]], status: str) -> tuple[dict[str, Any], str]:
    made = (await client.post("/v1/batches", json={"items": items})).json()
    batch = await wait_for(client, made["id"], status)
    return batch, (await client.get(f"/v1/batches/{made['id']}/results")).text


async def test_one_moderated_item_stops_no_batch_and_many_alike_pause_it(tmp_path: Path) -> None:
    """Over HTTP on both sides: the endpoint flags what it is told to."""

    def answer(request: Request) -> Answer:
        flagged = {"code": 403, "message": FLAGGED, "metadata": OPENROUTER}
        return Answer(403, {"error": flagged}) if "flagged" in candidate_of(request) else valid(request)

    async with FakeOpenAI(answer) as fake, serving(tmp_path, **judged_by(fake)) as client:
        items = [make_item(number, response=f"{'flagged' if number == 1 else 'はい'} {number}") for number in range(4)]
        batch, results = await run_batch(client, items, "completed")
        assert batch["counts"]["scored"] == 3
        assert results.count(f"{FLAGGED} (violence)") >= 1
        assert len(fake.requests) == 4
        items = [make_item(number, response=f"flagged {number}") for number in range(40)]
        batch, _ = await run_batch(client, items, "paused")
        assert batch["pause_reason"] == "judge-refused-request"
        assert FLAGGED in str(batch)
