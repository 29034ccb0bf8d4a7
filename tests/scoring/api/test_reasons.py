"""Asking the judge for its reasons after it rated: over HTTP and with the button of a page."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from saiten_server.core.evaluation import Evaluation
from saiten_server.erasure.store import TextStore
from saiten_server.platform.sql.engine import open_engine
from saiten_server.platform.sql.tables import evaluations
from saiten_server.scoring.store import EvaluationStore
from tests.support.elements import Page
from tests.support.fake_openai import Answer, FakeOpenAI, Request, complete, verdict_of
from tests.support.posted import post_batch, wait_for
from tests.support.records import BODY
from tests.support.stored_sizes import list_drift
from tests.support.waiting import read_computed

pytestmark = pytest.mark.usefixtures("fake")

REASON = "前の発話に答えていない。"


def rate(request: Request) -> Answer:
    """The highest ratings; asked for reasons, the lowest, so that a test can tell the two apart."""
    explains = "（理由）" in request["messages"][0]["content"] or '"reason"' in json.dumps(request)
    return complete(request, verdict_of(request, min if explains else max, REASON))


@pytest.fixture
async def fake():
    async with FakeOpenAI(rate) as found:
        yield found


async def results_of(client: httpx.AsyncClient, batch_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/batches/{batch_id}/results")
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_reasons_asked_for_afterwards_change_no_rating_and_stay(
    client: httpx.AsyncClient, fake: FakeOpenAI, tmp_path: Path
) -> None:
    batch = await post_batch(client, 2)
    await wait_for(client, batch["id"])
    single = (await client.post("/v1/evaluations", json=BODY)).json()
    before, asked = await results_of(client, batch["id"]), len(fake.requests)
    for name in (before[0]["id"], single["id"]):
        answer = await client.post(f"/v1/evaluations/{name}/reasons")
        assert answer.status_code == 200, answer.text
        explained = answer.json()["explained"]
        assert explained["aspects"]["overall"] == {"rating": 1, "reason": REASON}
        assert explained["usage"]["judge_calls"] == 1
        # Asked again it is there already, at no cost.
        again = await client.post(f"/v1/evaluations/{name}/reasons", params={"budget_usd": 0})
        assert again.json()["explained"] == explained
    assert len(fake.requests) == asked + 2
    told = (await client.get(f"/v1/evaluations/{single['id']}")).json()
    assert {**told, "explained": None, "reliability": None} == {**single, "explained": None, "reliability": None}
    after = await results_of(client, batch["id"])
    assert after[0].pop("explained")["aspects"]["overall"]["reason"] == REASON
    assert after == before
    # An erasure has to find both calls, and quotas the bytes.
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    async with engine.connect() as connection:
        calls = select(evaluations.c.calls).where(evaluations.c.id == before[0]["id"])
        assert len(json.loads((await connection.execute(calls)).scalar_one())) == 2
    drift = await list_drift(engine)
    await engine.dispose()
    assert drift == {}


async def test_reasons_cost_no_more_than_their_budget(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    single = (await client.post("/v1/evaluations", json=BODY)).json()
    asked = len(fake.requests)
    refused = await client.post(f"/v1/evaluations/{single['id']}/reasons", params={"budget_usd": 0.000001})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/budget_usd")
    assert len(fake.requests) == asked
    assert (await client.post("/v1/evaluations/ev_none/reasons")).status_code == 404


async def test_reasons_of_texts_that_are_gone_are_a_conflict(
    client: httpx.AsyncClient, fake: FakeOpenAI, tmp_path: Path
) -> None:
    batch = await post_batch(client, 1)
    await wait_for(client, batch["id"])
    single = (await client.post("/v1/evaluations", json=BODY)).json()
    (result,) = await results_of(client, batch["id"])
    engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    later = datetime.now(UTC) + timedelta(hours=1)
    await TextStore(engine, clock=lambda: later).redact("default", "drop", later, 10)
    await engine.dispose()
    asked = len(fake.requests)
    for name in (single["id"], result["id"]):
        answer = await client.post(f"/v1/evaluations/{name}/reasons")
        assert (answer.status_code, answer.json()["code"]) == (409, "texts-erased")
    assert len(fake.requests) == asked


async def test_reasons_asked_for_while_a_batch_loses_its_texts_are_not_kept(
    client: httpx.AsyncClient, fake: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await post_batch(client, 1)
    await wait_for(client, batch["id"])
    (result,) = await results_of(client, batch["id"])
    explain = EvaluationStore.explain

    async def drop_first(self: EvaluationStore, *given: Any) -> Evaluation | None:
        engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
        later = datetime.now(UTC) + timedelta(hours=1)
        await TextStore(engine, clock=lambda: later).redact("default", "drop", later, 10)
        await engine.dispose()
        return await explain(self, *given)

    monkeypatch.setattr(EvaluationStore, "explain", drop_first)
    answer = await client.post(f"/v1/evaluations/{result['id']}/reasons")
    assert (answer.status_code, answer.json()["code"]) == (409, "texts-erased")
    assert REASON not in (await client.get(f"/v1/batches/{batch['id']}/results")).text


async def test_a_page_without_reasons_offers_to_ask_for_them(client: httpx.AsyncClient, fake: FakeOpenAI) -> None:
    batch = await post_batch(client, 2)
    other = await post_batch(client, 2)
    for one in (batch, other):
        await wait_for(client, one["id"])
    run = Page((await client.get(f"/runs/{batch['id']}")).text)
    assert "no reasons" in run.one("main").text
    address = f"/runs/{batch['id']}/items/0"
    page = Page((await client.get(address)).text)
    form = next(one for one in page.all("form") if (one["action"] or "").endswith("/reasons"))
    asked = len(fake.requests)
    foreign = await client.post(form["action"], data={"back": address}, headers={"Origin": "https://elsewhere.example"})
    assert (foreign.status_code, len(fake.requests)) == (403, asked)
    done = await client.post(form["action"], data={"back": address})
    assert (done.status_code, done.headers["location"]) == (303, address)
    for back in ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere.example"):
        led = await client.post(form["action"], data={"back": back})
        assert led.headers["location"].startswith("/evaluations/")
    assert len(fake.requests) == asked + 1
    shown = await client.get(address)
    assert REASON in shown.text
    assert "asked again" in Page(shown.text).one("main").text
    assert "/reasons" not in shown.text
    beside = await read_computed(client, "/explore", {"run": [batch["id"], other["id"]]})
    assert REASON in beside
    assert "/reasons" in beside  # of the other run's response there is none yet
