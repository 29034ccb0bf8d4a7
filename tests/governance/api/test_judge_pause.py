"""`/v1/judge/pause`: how long the judge is not called, and an administrator who ends that."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fake_deepl import KEY, Answer, FakeDeepL
from tests.support.fake_openai import FakeOpenAI, status
from tests.support.keyed import make_keys
from tests.support.records import BODY
from tests.support.serving import serving

CHECK = {"rubric": "ja-dialogue"}


async def test_an_administrator_ends_it_for_everybody(tmp_path: Path) -> None:
    async with FakeOpenAI() as fake:
        address = {"openai_base_url": fake.base_url, "openai_api_key": "sk-any", "judge_malformed_retries": 0}
        async with serving(tmp_path, judge_attempts=1, **address) as client:
            reader, admin = await make_keys(tmp_path, ("team", "write"), ("other", "admin"))
            pause = "/v1/judge/pause"
            assert (await client.get(pause, headers=reader)).json() == {
                "seconds": 0.0,
                "until": None,
                "translator_seconds": 0.0,
            }
            fake.script(status(429, "slow down", headers={"Retry-After": "86400"}))
            refused = await client.post("/v1/evaluations", json=BODY, headers=reader)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "600")
            # A check that was to wait for a judge would hang here.
            checked = await client.post("/v1/judge-checks", json=CHECK, headers=reader)
            assert (checked.status_code, checked.json()["code"]) == (503, "judge-unavailable")
            assert "until" in checked.json()["detail"]
            told = (await client.get(pause, headers=reader)).json()
            assert told["seconds"] == pytest.approx(600, abs=60)
            assert datetime.now(UTC) < datetime.fromisoformat(told["until"]) < datetime.now(UTC) + timedelta(minutes=11)
            assert len(fake.requests) == 1

            assert (await client.delete(pause, headers=reader)).json()["code"] == "insufficient-scope"
            assert (await client.delete(pause, headers=admin)).status_code == 204
            assert (await client.get(pause, headers=reader)).json()["seconds"] == 0.0
            assert (await client.post("/v1/evaluations", json=BODY, headers=reader)).status_code == 200
            (event,) = (await client.get("/v1/audit", headers=admin)).json()["items"]
            assert (event["action"], event["target"]) == ("judge.reopened", "judge")
            assert event["detail"]["seconds"] == pytest.approx(600, abs=60)


async def test_the_translators_pause_is_told_and_ended_with_it(tmp_path: Path) -> None:
    with FakeDeepL() as deepl:
        deepl.script.append(Answer(429, {"Retry-After": "86400"}))
        async with FakeOpenAI() as fake:
            address = {"openai_base_url": fake.base_url, "openai_api_key": "sk-any"}
            translated = {"deepl_api_key": KEY, "deepl_server_url": deepl.url, "longest_pause_seconds": 300}
            async with serving(tmp_path, **address, **translated) as client:
                pause, body = "/v1/judge/pause", {**BODY, "path": "english"}
                refused = [await client.post("/v1/evaluations", json=body) for _ in range(2)]
                assert {one.json()["code"] for one in refused} == {"translator-unavailable"}
                told = (await client.get(pause)).json()
                assert (told["seconds"], told["until"]) == (0.0, None)
                assert told["translator_seconds"] == pytest.approx(300, abs=60)
                assert len(deepl.seen) == 1
                assert (await client.delete(pause)).status_code == 204
                assert (await client.get(pause)).json()["translator_seconds"] == 0.0
                assert (await client.post("/v1/evaluations", json=body)).status_code == 200
                (event,) = (await client.get("/v1/audit")).json()["items"]
                assert event["detail"]["translator_seconds"] == pytest.approx(300, abs=60)
