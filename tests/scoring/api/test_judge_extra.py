"""`judge.extra` over HTTP: only what the operator allows, refused before anything is stored or paid for."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import make_item
from tests.support.serving import serving

ALLOWED = {"chat_template_kwargs": {"enable_thinking": True}}
EXTRA = '{"chat_template_kwargs": {"allow": [{"enable_thinking": true}]}}'


def make_body(path: str, extra: dict[str, Any]) -> dict[str, Any]:
    item = {name: value for name, value in make_item(0).items() if name != "id"}
    return {"judge": {"extra": extra}} | (item if path == "/v1/evaluations" else {"items": [item]})


@pytest.mark.parametrize("path", ["/v1/evaluations", "/v1/batches", "/v1/estimates"])
async def test_a_request_has_what_the_operator_allows_and_nothing_else(tmp_path: Path, path: str) -> None:
    async with FakeOpenAI() as fake:
        settings = {"openai_base_url": fake.base_url, "judge_extra": EXTRA}
        async with serving(tmp_path, judge="openai", **settings) as client:
            refused = await client.post(path, json=make_body(path, {"service_tier": "priority"}))
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
            assert refused.json()["errors"][0]["pointer"] == "/judge/extra/service_tier"
            assert fake.requests == []
            taken = await client.post(path, json=make_body(path, ALLOWED))
            assert taken.is_success, taken.text
            if path == "/v1/evaluations":
                assert fake.requests[0]["chat_template_kwargs"] == ALLOWED["chat_template_kwargs"]
                assert 'chat_template_kwargs={"enable_thinking":true}' in taken.json()["signature"]


async def test_the_lexical_judge_takes_nothing_beside(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        refused = await client.post("/v1/evaluations", json=make_body("/v1/evaluations", ALLOWED))
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/judge/extra")
