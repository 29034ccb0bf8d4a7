"""What a key may ask for and cost, and what a process takes on, as callers meet it."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.governance.limits import seconds_left
from tests.support.conversations import make_turns
from tests.support.fake_openai import Answer, FakeOpenAI, hang, say, valid
from tests.support.keyed import make_keys
from tests.support.limited_keys import limit_key, make_limited_key, spend
from tests.support.records import BODY
from tests.support.serving import judged_by, serving
from tests.support.waiting import LIMIT_SECONDS

FORM = {
    "rubric": "ja-dialogue",
    "speaker": ["A"],
    "text": ["おはよう。"],
    "response": "よく眠れました。",
    "samples": "1",
    "action": "score",
}


def items(count: int) -> dict[str, Any]:
    item = {"context": BODY["context"], "response": BODY["response"]}
    return {"rubric": "ja-dialogue", "relevance": None, "items": [item] * count}


async def metric(client: httpx.AsyncClient, limit: str) -> float:
    """How many requests were turned away for it."""
    found = re.search(
        rf'^saiten_limited_requests_total{{limit="{limit}"}} (\S+)', (await client.get("/metrics")).text, re.M
    )
    return float(found[1]) if found else 0.0


def read_remaining(response: httpx.Response) -> int:
    told = re.fullmatch(r'"requests";r=(\d+);t=(\d+)', response.headers["ratelimit"])
    assert told is not None
    assert 0 <= int(told[2]) <= 60
    return int(told[1])


@pytest.fixture(params=["redis", "alone"])
def shared_by(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"redis_url": request.getfixturevalue("redis_url")} if request.param == "redis" else {}


async def test_a_key_has_so_many_requests_and_every_answer_says_so(tmp_path: Path, shared_by: dict[str, Any]) -> None:
    async with serving(tmp_path, judge="lexical", key_requests_per_minute=9, **shared_by) as client:
        _, key = await make_limited_key(tmp_path, requests_per_minute=5)
        answers = [
            await client.post("/v1/evaluations", json=BODY, headers=key),
            await client.get("/v1/rubrics", headers=key),
            await client.get("/v1/evaluations/ev_none", headers=key),
            await client.post("/v1/evaluations", json={}, headers=key),
            await client.get("/v1/nowhere", headers=key),
            await client.get("/v1/info", headers=key),
        ]
        # Another key has the service's own limit, and all of it.
        _, other = await make_limited_key(tmp_path)
        assert read_remaining(await client.get("/v1/info", headers=other)) == 8
        assert await metric(client, "requests") == 1
    assert [answer.status_code for answer in answers] == [200, 200, 404, 422, 404, 429]
    assert [read_remaining(answer) for answer in answers] == [4, 3, 2, 1, 0, 0]
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {'"requests";q=5;w=60'}
    refused = answers[-1]
    assert refused.json()["code"] == "request-limit-reached"
    assert refused.headers["content-type"] == "application/problem+json"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "retry-after" not in answers[0].headers


async def test_a_key_that_may_only_read_is_counted_when_it_writes(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", key_requests_per_minute=3) as client:
        [reader] = await make_keys(tmp_path, ("team", "read"))
        refused = await client.post("/v1/evaluations", json=BODY, headers=reader)
        assert (refused.status_code, read_remaining(refused)) == (403, 2)


async def test_nobody_is_limited_without_a_limit_or_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", key_requests_per_minute=1, key_usd_per_day=0.5) as client:
        anonymous = [await client.get("/v1/info") for _ in range(3)]
        assert [answer.status_code for answer in anonymous] == [200] * 3
        assert anonymous[0].json()["key"] is None
        _, key = await make_limited_key(tmp_path)
        assert (await client.get("/v1/info")).status_code == 401
        # Pages and probes are not counted, with or without a key.
        assert [(await client.get("/", headers=key)).status_code for _ in range(3)] == [200] * 3
        assert (await client.get("/livez", headers=key)).status_code == 200
        assert (await client.get("/v1/info", headers=key)).status_code == 200
    async with serving(tmp_path, judge="lexical") as client:
        free = await client.get("/v1/info", headers=key)
        assert (free.status_code, free.headers.get("ratelimit"), free.headers.get("ratelimit-policy")) == (
            200,
            None,
            None,
        )


async def test_a_key_is_told_its_limits_and_what_it_cost(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake), key_usd_per_day=2.0) as client:
        key_id, key = await make_limited_key(tmp_path, requests_per_minute=50)
        before = (await client.get("/v1/info", headers=key)).json()["key"]
        cost = (await client.post("/v1/evaluations", json=BODY, headers=key)).json()["usage"]["cost_usd"]
        after = (await client.get("/v1/info", headers=key)).json()["key"]
    assert before == {
        "id": key_id,
        "name": "ci",
        "project": "team",
        "scope": "write",
        "requests_per_minute": 50,
        "usd_per_day": 2.0,
        "spent_usd_today": 0.0,
    }
    assert cost > 0
    assert after == {**before, "spent_usd_today": pytest.approx(cost)}


async def test_who_has_spent_the_days_money_asks_no_judge(fake: FakeOpenAI, tmp_path: Path, database_url: str) -> None:
    async with serving(tmp_path, **judged_by(fake), database_url=database_url) as client:
        key_id, key = await make_limited_key(database_url, usd_per_day=1.0)
        idempotent = {**key, "Idempotency-Key": "once"}
        first = await client.post("/v1/evaluations", json=BODY, headers=idempotent)
        await spend(database_url, key_id, 1.0)
        asked = len(fake.requests)
        gate = {"candidate": "ba_none", "check_judge": True}
        refused = [
            await client.post("/v1/evaluations", json={**BODY, "response": "別の返事"}, headers=key),
            await client.post("/v1/batches", json=items(2), headers=key),
            await client.post("/v1/judge-checks", json={"rubric": "ja-dialogue"}, headers=key),
            await client.post("/v1/gates", json=gate, headers=key),
        ]
        assert len(fake.requests) == asked
        assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(429, "cost-limit-reached")}
        assert all(1 <= int(answer.headers["retry-after"]) <= 86_400 for answer in refused)
        assert await metric(client, "cost") == 4
        # What costs nothing goes on: reading, and a replay.
        assert (await client.get("/v1/batches", headers=key)).json()["items"] == []
        again = await client.post("/v1/evaluations", json=BODY, headers=idempotent)
        assert (again.status_code, again.content) == (200, first.content)
        await limit_key(database_url, key_id, 5.0)
        mended = await client.post("/v1/evaluations", json={**BODY, "response": "別の返事"}, headers=key)
        assert mended.status_code == 200


UNPRICED = {"model": "o9-unpriced"}


def priced_requests(batch: str, judge: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Whatever names a judge, by its route."""
    return [
        ("evaluations", {**BODY, "judge": judge}),
        ("batches", {**items(2), "judge": judge}),
        ("judge-checks", {"rubric": "ja-dialogue", "judge": judge}),
        ("gates", {"candidate": batch, "rules": [{"aspect": "overall", "min_mean": 1}], "check_judge": True}),
        ("conversations", {"turns": make_turns("はい。"), "judge": judge}),
    ]


async def test_a_key_with_a_money_limit_asks_no_model_without_a_price(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        key_id, key = await make_limited_key(tmp_path)
        # Without a limit nothing has to be charged.
        made = await client.post("/v1/batches", json={**items(2), "judge": UNPRICED}, headers=key)
        assert (made.status_code, made.json()["judge"]["model"]) == (202, "o9-unpriced")
        batch = made.json()["id"]
        await wait_for(client, batch, key, "completed")
        await limit_key(tmp_path, key_id, 100.0)
        asked = len(fake.requests)
        for route, body in priced_requests(batch, UNPRICED):
            refused = await client.post(f"/v1/{route}", json=body, headers=key)
            problem = refused.json()
            assert (refused.status_code, problem["code"]) == (422, "price-unknown"), route
            expected = "/check_judge" if route == "gates" else "/judge/model"
            assert [fault["pointer"] for fault in problem["errors"]] == [expected]
        assert len(fake.requests) == asked
        assert len((await client.get("/v1/batches", headers=key)).json()["items"]) == 1
        # A price makes all the difference; a release's name has that of its family.
        dated = {"model": "gpt-6-luna-2026-09-22"}
        for route, body in priced_requests(batch, dated)[:3]:
            answer = await client.post(f"/v1/{route}", json=body, headers=key)
            assert answer.status_code in {200, 202}, (route, answer.text)
        assert (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"] > 0


async def test_a_gate_that_asks_no_judge_needs_no_price(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        key_id, key = await make_limited_key(tmp_path)
        made = (await client.post("/v1/batches", json={**items(2), "judge": UNPRICED}, headers=key)).json()
        await wait_for(client, made["id"], key, "completed")
        check = (await client.post("/v1/judge-checks", json={"judge": UNPRICED}, headers=key)).json()
        await limit_key(tmp_path, key_id, 1.0)
        gate = {"candidate": made["id"], "rules": [{"aspect": "overall", "min_mean": 1}]}
        for more in ({}, {"check_judge": True, "judge_check": check}):
            answer = await client.post("/v1/gates", json=gate | more, headers=key)
            assert answer.status_code == 200, answer.text


async def test_a_default_model_without_a_price_is_no_way_around_either(fake: FakeOpenAI, tmp_path: Path) -> None:
    settings = judged_by(fake, model="o9-unpriced", key_usd_per_day=1.0)
    async with serving(tmp_path, **settings) as client:
        _, key = await make_limited_key(tmp_path)
        refused = await client.post("/v1/evaluations", json=BODY, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (422, "price-unknown")
        shown = await client.post("/try", data=FORM, headers=key)
        assert (shown.status_code, "SAITEN_PRICES" in shown.text, "よく眠れました。" in shown.text) == (422, True, True)
        # What is wrong besides is told as ever.
        unknown = await client.post("/v1/evaluations", json={**BODY, "rubric": "none"}, headers=key)
        assert unknown.json()["code"] == "unknown-rubric"
        assert fake.requests == []


async def test_the_judge_that_costs_nothing_needs_no_price(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", key_usd_per_day=1.0) as client:
        _, key = await make_limited_key(tmp_path)
        for route, body in priced_requests("ba_none", UNPRICED)[:3]:
            answer = await client.post(f"/v1/{route}", json=body, headers=key)
            assert answer.status_code in {200, 202}, (route, answer.text)
        assert (await client.post("/try", data=FORM, headers=key)).status_code == 303
        # It does not read English, and says so itself.
        other = await client.post("/v1/evaluations", json={**BODY, "rubric": "lfqa"}, headers=key)
        assert (other.status_code, other.json()["code"]) == (422, "rubric-not-supported")


async def test_calls_that_came_to_nothing_are_charged_too(fake: FakeOpenAI, tmp_path: Path) -> None:
    fake.script(say("わかりません"), say("わかりません"), say("わかりません"), say("わかりません"))
    async with serving(tmp_path, **judged_by(fake)) as client:
        _, key = await make_limited_key(tmp_path, usd_per_day=1.0)
        failed = await client.post("/v1/evaluations", json=BODY, headers=key)
        assert failed.json()["code"] == "judge-reply-invalid"
        assert (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"] > 0


async def test_a_judge_check_is_charged(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        _, key = await make_limited_key(tmp_path, usd_per_day=100.0)
        check = await client.post("/v1/judge-checks", json={"rubric": "ja-dialogue"}, headers=key)
        assert check.status_code == 200, check.text
        assert (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"] > 0


async def wait_for(client: httpx.AsyncClient, batch_id: str, key: dict[str, str], *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            batch: dict[str, Any] = (await client.get(f"/v1/batches/{batch_id}", headers=key)).json()
            if batch["status"] in statuses:
                return batch
            await asyncio.sleep(0.05)


async def test_a_batch_charges_its_key_pauses_and_goes_on(fake: FakeOpenAI, tmp_path: Path, database_url: str) -> None:
    settings = {**judged_by(fake), "judge_concurrency": 1, "cache": "off"}
    async with serving(tmp_path, **settings, database_url=database_url) as client:
        key_id, key = await make_limited_key(database_url, usd_per_day=100.0)
        one = await client.post("/v1/evaluations", json=BODY | {"relevance": None}, headers=key)
        cost = one.json()["usage"]["cost_usd"]
        # Not half of it is paid for.
        await limit_key(database_url, key_id, cost * 40)
        made = (await client.post("/v1/batches", json=items(160), headers=key)).json()
        paused = await wait_for(client, made["id"], key, "paused", "completed")
        assert (paused["status"], paused["pause_reason"]) == ("paused", "cost-limit-reached")
        assert "USD a day" in paused["pause_detail"]
        spent = (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"]
        assert cost * 39.9 <= spent < cost * 41.1
        await limit_key(database_url, key_id, None)
        await client.post(f"/v1/batches/{made['id']}/resume", headers=key)
        done = await wait_for(client, made["id"], key, "completed", "paused")
        assert (done["status"], done["counts"]["scored"]) == ("completed", 160)
        total = (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"]
        assert total == pytest.approx(cost + done["usage"]["cost_usd"])


async def test_a_batch_begins_no_more_than_is_left_before_it_knows_any_cost(
    fake: FakeOpenAI, tmp_path: Path, database_url: str
) -> None:
    async with serving(tmp_path, **judged_by(fake), cache="off", database_url=database_url) as client:
        key_id, key = await make_limited_key(database_url, usd_per_day=100.0)
        one = await client.post("/v1/evaluations", json=BODY | {"relevance": None}, headers=key)
        cost = one.json()["usage"]["cost_usd"]
        await limit_key(database_url, key_id, cost * 3)
        made = (await client.post("/v1/batches", json=items(30), headers=key)).json()
        paused = await wait_for(client, made["id"], key, "paused", "completed")
        assert (paused["status"], paused["pause_reason"]) == ("paused", "cost-limit-reached")
        # One was paid for already.
        assert 1 <= paused["counts"]["scored"] <= 3


async def announce(client: httpx.AsyncClient, path: str) -> bytes:
    """What is answered to a request whose body never comes, up to the end of its headers."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(LIMIT_SECONDS):
        answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_process_that_has_enough_in_hand_reads_no_further_body(fake: FakeOpenAI, tmp_path: Path) -> None:
    fake.script(lambda _: Answer(fault="hang"))
    async with serving(tmp_path, **judged_by(fake), most_evaluations=1) as client:
        first = asyncio.create_task(client.post("/v1/evaluations", json=BODY))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not fake.requests:
                await asyncio.sleep(0.01)

        assert (await announce(client, "/v1/evaluations")).startswith(b"HTTP/1.1 503 ")
        answer = await client.post("/v1/evaluations", json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1
        shown = await client.post("/try", data=FORM)
        assert (shown.status_code, "よく眠れました。" in shown.text) == (503, True)
        assert int(shown.headers["retry-after"]) >= 1
        assert await metric(client, "evaluations") == 3
        assert (await announce(client, "/v1/judge-checks")).startswith(b"HTTP/1.1 503 ")
        checked = await client.post("/v1/gates", json={"candidate": "ba_none", "check_judge": True})
        assert (checked.status_code, checked.json()["code"]) == (503, "overloaded")
        # Only a gate that asks the judge needs a place.
        assert (await client.post("/v1/gates", json={"candidate": "ba_none"})).status_code == 404
        assert len(fake.requests) == 1
        # Nothing else waits for a place.
        assert (await client.get("/v1/rubrics")).status_code == 200
        first.cancel()
        await asyncio.wait([first])
        # Else the service would wait for the judge before it stops.
        fake.default = valid
        fake.drop_connections()


async def test_a_check_of_the_judge_takes_a_place(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake), most_evaluations=1) as client:
        batch = (await client.post("/v1/batches", json=items(1))).json()["id"]
        await wait_for(client, batch, {}, "completed")
        gate = {"candidate": batch, "rules": [{"aspect": "overall", "min_mean": 1}], "check_judge": True}
        for route, body in (("judge-checks", {}), ("gates", gate)):
            fake.requests.clear()
            fake.default = lambda _: Answer(fault="hang")
            check = asyncio.create_task(client.post(f"/v1/{route}", json=body))
            async with asyncio.timeout(LIMIT_SECONDS):
                while not fake.requests:
                    await asyncio.sleep(0.01)
            refused = await client.post("/v1/evaluations", json=BODY)
            assert (refused.status_code, refused.json()["code"]) == (503, "overloaded"), route
            check.cancel()
            await asyncio.wait([check])
            fake.default = valid
            fake.drop_connections()
            async with asyncio.timeout(LIMIT_SECONDS):  # until the check, for which nobody waits any more, has ended
                while (await client.post("/v1/evaluations", json=BODY)).status_code == 503:
                    await asyncio.sleep(0.01)


async def test_a_place_is_free_again_after_success_and_error(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake), most_evaluations=1) as client:
        fake.script(say("わかりません"), say("わかりません"), say("わかりません"), valid)
        statuses = [
            (await client.post("/v1/evaluations", json=body)).status_code
            for body in (BODY, {}, BODY | {"response": "はい"}, BODY | {"response": "いいえ"})
        ]
    assert statuses == [502, 422, 200, 200]


async def test_a_batch_that_would_wait_too_long_is_turned_away(tmp_path: Path, redis_url: str) -> None:
    # With Redis and no worker nothing is scored: what was taken waits.
    limits = {"most_queued": 10, "project_queued": 6}
    async with serving(tmp_path, judge="lexical", redis_url=redis_url, **limits) as client:
        _, key = await make_limited_key(tmp_path)
        assert (await client.post("/v1/batches", json=items(5), headers=key)).status_code == 202
        over = await client.post("/v1/batches", json=items(2), headers=key)
        assert (over.status_code, over.json()["code"]) == (429, "queue-limit-reached")
        assert int(over.headers["retry-after"]) >= 1
        assert "when some are done" in over.json()["detail"]
        assert (await client.post("/v1/batches", json=items(1), headers=key)).status_code == 202
        too_large = await client.post("/v1/batches", json=items(7), headers=key)
        assert "send smaller batches" in too_large.json()["detail"]
        [other] = await make_keys(tmp_path, ("other", "write"))
        full = await client.post("/v1/batches", json=items(5), headers=other)
        assert (full.status_code, full.json()["code"]) == (503, "overloaded")
        assert (await client.post("/v1/batches", json=items(4), headers=other)).status_code == 202
        assert await metric(client, "queue") == 3
        # A batch that is paused is not in anybody's way.
        listed = (await client.get("/v1/batches", headers=key)).json()["items"]
        for batch in listed:
            await client.post(f"/v1/batches/{batch['id']}/pause", headers=key)
        assert (await client.post("/v1/batches", json=items(6), headers=other)).status_code == 429
        assert (await client.post("/v1/batches", json=items(6), headers=key)).status_code == 202


async def test_a_project_stores_no_more_than_its_quota(tmp_path: Path, redis_url: str) -> None:
    # With Redis and no worker nothing is scored.
    async with serving(tmp_path, judge="lexical", redis_url=redis_url, project_bytes=60_000) as client:
        _, key = await make_limited_key(tmp_path)
        wide = items(1)
        wide["items"][0] = {"context": [{"speaker": "A", "text": "あ" * 200}], "responses": ["はい。"] * 64}
        refused = await client.post("/v1/batches", json=wide, headers=key)  # its context is stored 64 times
        assert (refused.status_code, refused.json()["code"]) == (507, "project-full")
        assert "60,000 bytes" in refused.json()["detail"]
        assert "SAITEN_PROJECT_BYTES" in refused.json()["detail"]
        assert (await client.get("/v1/batches", headers=key)).json()["items"] == []
        told = (await client.get("/v1/info", headers=key)).json()
        assert (told["limits"]["project_bytes"], told["stored_bytes"]) == (60_000, 0)
        assert (await client.post("/v1/batches", json=items(9), headers=key)).status_code == 202
        assert 9 * 4_500 < (await client.get("/v1/info", headers=key)).json()["stored_bytes"] < 60_000
        assert (await client.post("/v1/batches", json=items(9), headers=key)).status_code == 507
        assert await metric(client, "bytes") == 2
        [other] = await make_keys(tmp_path, ("other", "write"))
        assert (await client.post("/v1/batches", json=items(9), headers=other)).status_code == 202


async def test_a_full_project_pays_for_no_evaluation_and_keeps_no_rating(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", project_bytes=1_000) as client:
        _, key = await make_limited_key(tmp_path)
        assert (await client.post("/v1/evaluations", json=BODY, headers=key)).status_code == 200
    async with serving(tmp_path, judge="lexical", project_bytes=1_000) as client:  # the sum outlives the process
        assert (await client.get("/v1/info", headers=key)).json()["stored_bytes"] > 1_000
        rating = {"item": "one", "rater": "anna", "ratings": {"coherence": 3}}
        for path, body in (("evaluations", BODY), ("ratings", rating)):
            refused = await client.post(f"/v1/{path}", json=body, headers=key)
            assert (refused.status_code, refused.json()["code"]) == (507, "project-full"), refused.text


async def test_a_full_project_keeps_no_file_no_dataset_and_no_round(tmp_path: Path) -> None:
    file = {"file": ("a.csv", "質問,応答\nおはよう,おはよう\n".encode())}
    async with serving(tmp_path, judge="lexical") as client:
        _, key = await make_limited_key(tmp_path)
        batch = (await client.post("/v1/batches", json=items(1), headers=key)).json()["id"]
        await wait_for(client, batch, key, "completed")
        uploaded = (await client.post("/datasets/new", files=file, headers=key)).headers["location"]
    async with serving(tmp_path, judge="lexical", project_bytes=1_000) as client:
        drawn = {"batch": batch, "name": "first", "items": 1}
        refused = [
            await client.post("/v1/ratings/rounds", json=drawn, headers=key),
            await client.post("/datasets/new", files=file, headers=key),
            await client.post(uploaded, data={"name": "a", "action": "keep"}, headers=key),
        ]
        assert [one.status_code for one in refused] == [507] * 3
        assert all("SAITEN_PROJECT_BYTES" in one.text for one in refused)
        assert (await client.get("/v1/ratings/rounds", params={"batch": batch}, headers=key)).json() == {"items": []}
        page = (await client.get("/datasets", headers=key)).text
        assert "There are no datasets yet." in page
        assert "of at most 1.0 kB" in page
        # What was not kept can still be thrown away.
        gone = await client.post(uploaded, data={"action": "discard"}, headers=key)
        assert gone.headers["location"] == "/datasets"


async def test_pausing_and_resuming_is_no_way_around_the_queues_limit(tmp_path: Path, redis_url: str) -> None:
    # With Redis and no worker nothing is scored: what was taken waits.
    async with serving(tmp_path, judge="lexical", redis_url=redis_url, project_queued=6, most_queued=9) as client:
        _, key = await make_limited_key(tmp_path)
        first = (await client.post("/v1/batches", json=items(5), headers=key)).json()["id"]
        await client.post(f"/v1/batches/{first}/pause", headers=key)
        second = (await client.post("/v1/batches", json=items(5), headers=key)).json()["id"]
        refused = await client.post(f"/v1/batches/{first}/resume", headers=key)
        assert (refused.status_code, refused.json()["code"]) == (429, "queue-limit-reached")
        assert int(refused.headers["retry-after"]) >= 1
        assert "resume the batch when some are done" in refused.json()["detail"]
        assert (await client.get(f"/v1/batches/{first}", headers=key)).json()["status"] == "paused"
        origin = {"Origin": str(client.base_url).rstrip("/")}
        assert (await client.post(f"/runs/{first}/resume", data={"": ""}, headers=key | origin)).status_code == 429
        assert await metric(client, "queue") == 2
        # One that waits already needs no more room.
        assert (await client.post(f"/v1/batches/{second}/resume", headers=key)).status_code == 200
        await client.post(f"/v1/batches/{second}/cancel", headers=key)
        assert (await client.post(f"/v1/batches/{second}/resume", headers=key)).status_code == 409
        # Others may leave no room, too.
        [other] = await make_keys(tmp_path, ("other", "write"))
        assert (await client.post("/v1/batches", json=items(6), headers=other)).status_code == 202
        full = await client.post(f"/v1/batches/{first}/resume", headers=key)
        assert (full.status_code, full.json()["code"]) == (503, "overloaded")
        [theirs] = (await client.get("/v1/batches", headers=other)).json()["items"]
        await client.post(f"/v1/batches/{theirs['id']}/cancel", headers=other)
        resumed = await client.post(f"/v1/batches/{first}/resume", headers=key)
        assert (resumed.status_code, resumed.json()["status"]) == (200, "queued")
        assert (await client.post("/v1/batches/ba_none/resume", headers=key)).status_code == 404


async def test_the_page_for_trying_is_counted_and_keeps_what_was_typed(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", key_requests_per_minute=1) as client:
        _, key = await make_limited_key(tmp_path)
        scored = await client.post("/try", data=FORM, headers=key)
        assert (scored.status_code, read_remaining(scored)) == (303, 0)
        assert (await client.get("/try", headers=key)).status_code == 200
        assert (await client.post("/try", data={**FORM, "action": "add"}, headers=key)).status_code == 200
        refused = await client.post("/try", data=FORM, headers=key)
        assert (refused.status_code, read_remaining(refused)) == (429, 0)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "よく眠れました。" in refused.text


async def test_trying_is_paid_for_by_the_visitors_key(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        key_id, key = await make_limited_key(tmp_path, usd_per_day=1.0)
        assert (await client.post("/try", data=FORM, headers=key)).status_code == 303
        spent = (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"]
        assert spent > 0
        await spend(tmp_path, key_id, 1.0)
        refused = await client.post("/try", data=FORM, headers=key)
        assert (refused.status_code, "よく眠れました。" in refused.text) == (429, True)


def test_a_day_has_its_last_second() -> None:
    assert seconds_left(datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)) == 1.0
    assert seconds_left(datetime(2027, 1, 1, tzinfo=UTC)) == 86_400.0


def make_heavy(turns: int, samples: int) -> dict[str, Any]:
    """A conversation of which each system turn is to be scored."""
    said = make_turns(*(f"{number}番です。" for number in range(turns)))
    return {"turns": said, "score_turns": {"rubric": "ja-dialogue"}, "judge": {"samples": samples}}


async def test_more_calls_than_one_request_may_make_are_refused_before_the_first(
    fake: FakeOpenAI, tmp_path: Path
) -> None:
    async with serving(tmp_path, **judged_by(fake), limits={"judge_calls": 20}) as client:
        check = {"rubric": "ja-dialogue", "judge": {"samples": 16}}
        bodies = {
            "evaluations": {**BODY, "judge": {"samples": 16}, "integrity": "judge-twice"},
            "conversations": make_heavy(7, 3),
            "judge-checks": check,
        }
        for route, body in bodies.items():
            refused = await client.post(f"/v1/{route}", json=body)
            problem = refused.json()
            assert (refused.status_code, problem["code"]) == (422, "too-much-work"), (route, problem)
            assert "SAITEN_LIMITS__JUDGE_CALLS" in problem["detail"]
        told = await client.post("/v1/conversations", json=make_heavy(7, 3), headers={"Accept-Language": "ja"})
        assert "24 回" in told.json()["detail"]
        form = await client.post("/try", data={**FORM, "samples": "16"})
        assert form.status_code == 303
        assert len(fake.requests) == 16
        assert (await client.get("/v1/info")).json()["limits"]["judge_calls"] == 20


async def test_the_answer_counts_the_calls_for_its_turns(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        answer = (await client.post("/v1/conversations", json=make_heavy(5, 2))).json()
        stored = (await client.get(f"/v1/conversations/{answer['id']}")).json()
    assert answer["usage"]["judge_calls"] == len(fake.requests) == 12
    assert stored["usage"] == answer["usage"]


async def test_work_that_is_dearer_than_what_is_left_asks_no_judge(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        _, key = await make_limited_key(tmp_path, usd_per_day=0.002)
        for route, body in (
            ("conversations", make_heavy(30, 16)),
            ("evaluations", {**BODY, "judge": {"samples": 16}}),
            ("judge-checks", {"rubric": "ja-dialogue"}),
        ):
            refused = await client.post(f"/v1/{route}", json=body, headers=key)
            assert (refused.status_code, refused.json()["code"]) == (429, "cost-limit-reached"), refused.text
            assert "would cost" in refused.json()["detail"]
        assert (len(fake.requests), await metric(client, "cost")) == (0, 3)
        assert (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"] == 0
        # What is left is for smaller work.
        assert (await client.post("/v1/evaluations", json=BODY, headers=key)).status_code == 200


async def test_requests_at_once_do_not_overspend_together(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        _, key = await make_limited_key(tmp_path, usd_per_day=0.002)
        bodies = [{**BODY, "response": f"{number}回目の返事です。"} for number in range(30)]
        answers = await asyncio.gather(*(client.post("/v1/evaluations", json=body, headers=key) for body in bodies))
        spent = (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"]
    costs = [answer.json()["usage"]["cost_usd"] for answer in answers if answer.status_code == 200]
    assert 0 < len(costs) == len(fake.requests) < 30
    assert spent == pytest.approx(sum(costs))
    assert spent <= 0.002 + max(costs)


async def test_a_call_that_asks_again_needs_money_too(fake: FakeOpenAI, tmp_path: Path) -> None:
    async with serving(tmp_path, **judged_by(fake)) as client:
        price = (await client.post("/v1/estimates", json=items(1))).json()["cost_usd"]
        _, key = await make_limited_key(tmp_path, usd_per_day=1.01 * price)
        fake.default = say("わかりません")
        refused = await client.post("/v1/evaluations", json=BODY, headers=key)
        assert (refused.status_code, refused.json()["code"]) == (429, "cost-limit-reached")
        assert len(fake.requests) == 1
        assert (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"] > 0


@pytest.mark.parametrize("route", ["evaluations", "conversations"])
async def test_no_call_begins_once_the_caller_has_gone(fake: FakeOpenAI, tmp_path: Path, route: str) -> None:
    fake.default = hang
    body = {**BODY, "judge": {"samples": 16}, "path": "source"} if route == "evaluations" else make_heavy(30, 1)
    async with serving(tmp_path, **judged_by(fake), judge_concurrency=4) as client:
        _, key = await make_limited_key(tmp_path, usd_per_day=10.0)
        posting = asyncio.create_task(client.post(f"/v1/{route}", json=body, headers=key))
        async with asyncio.timeout(LIMIT_SECONDS):
            while len(fake.requests) < 4:
                await asyncio.sleep(0.005)
            posting.cancel()
            while (begun := await read_gauge(client, "saiten_judge_calls_in_flight")) > 0:
                await asyncio.sleep(0.005)
            assert await read_gauge(client, "saiten_judge_calls_waiting") == begun == 0
            # What was begun may be billed, and is charged as it was priced; the rest of the reservation is back.
            fake.default = valid
            costs = (await client.post("/v1/evaluations", json=BODY, headers=key)).json()["usage"]["cost_usd"]
            spent = 0.0
            while not costs < spent < 0.01:
                spent = (await client.get("/v1/info", headers=key)).json()["key"]["spent_usd_today"]
    assert len(fake.requests) == 5


async def read_gauge(client: httpx.AsyncClient, name: str) -> float:
    found = re.search(rf"^{name} (\S+)", (await client.get("/metrics")).text, re.M)
    return float(found[1]) if found else 0.0
