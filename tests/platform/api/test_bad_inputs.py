"""Malformed and hostile requests: the statuses that were agreed on, no 5xx, no judge call on a refused one."""

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import open_engine
from tests.platform.api.test_http import raw
from tests.support.fake_openai import FakeOpenAI
from tests.support.records import BODY
from tests.support.serving import judged_by, serving

ITEM = {name: BODY[name] for name in ("context", "response")}
BODIES = ("body_text", "body_json", "body_text_set", "body_repeat", "body_hex", "body_encode", "gzip_repeat")
CASES = Path(__file__).resolve().parents[4] / "shared" / "checks" / "bad_inputs.jsonl"


def load() -> list[dict[str, Any]]:
    """All cases; skips where the file is absent."""
    if not CASES.is_file():
        pytest.skip("../shared/checks/bad_inputs.jsonl is absent")
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def is_refused(case: dict[str, Any]) -> bool:
    """Whether it leaves the service as it was: no key is made, and no judge is asked."""
    return case["expect"]["judge_calls"] == 0 and not {"auth", "script"} & case["send"].keys()


def grow(value: Any) -> Any:
    """`$repeat` and `$list` written out."""
    if isinstance(value, dict) and "$repeat" in value:
        text, times = value["$repeat"]
        return value.get("$prefix", "") + text * times
    if isinstance(value, dict) and "$list" in value:
        entry, times = value["$list"]
        return [entry] * times
    if isinstance(value, dict):
        return {name: grow(part) for name, part in value.items()}
    return value


def body_of(send: dict[str, Any]) -> bytes:
    """The bytes that a case sends."""
    if "body_repeat" in send:
        text, times = send["body_repeat"]
        return (str(text) * int(times)).encode()
    if "gzip_repeat" in send:
        return gzip.compress((send["gzip_repeat"][0] * send["gzip_repeat"][1]).encode())
    if "body_hex" in send:
        return bytes.fromhex(send["body_hex"])
    if "body_encode" in send:
        encoding, text = send["body_encode"]
        return str(text).encode(str(encoding))
    if "body_text" in send:
        return str(send["body_text"]).encode()
    base = {**(BODY if send.get("base") else {}), **grow(send.get("body_json", {}))}
    if "body_text_set" in send:
        name, text = send["body_text_set"]
        base.pop(name, None)
        return (json.dumps(base)[:-1] + f', "{name}": {text}}}').encode()
    return bytes.fromhex(send.get("prefix_hex", "")) + json.dumps(base).encode()


async def send_script(client: httpx.AsyncClient, steps: list[str]) -> httpx.Response:
    """`POST BASE key=k1`, `POST BASE+response=… key=k2`, and the one about a batch."""
    for step in steps:
        if step == "POST batch of 100, item 57 response=null":
            items = [{**ITEM, "response": None if number == 57 else ITEM["response"]} for number in range(100)]
            response = await client.post("/v1/batches", json={"items": items})
            assert [fault["pointer"] for fault in response.json()["errors"]] == ["/items/57/response"]
            continue
        _, what, key = step.split(" ")
        change = dict([what.removeprefix("BASE+").split("=")]) if "+" in what else {}
        headers = {"Idempotency-Key": key.removeprefix("key=")}
        response = await client.post("/v1/evaluations", json={**BODY, **change}, headers=headers)
    return response


async def authorize(send: dict[str, Any], folder: Path) -> dict[str, str]:
    """The headers of a case about keys, with keys made first."""
    if "auth" not in send:
        return {}
    engine = open_engine(f"sqlite+aiosqlite:///{folder / 'saiten.db'}")
    _, key = await APIKeyStore(engine).create("reader", "default", "read")
    await engine.dispose()
    return {"Authorization": f"Bearer {key}"} if send["auth"] == "READONLY" else {}


def test_no_case_is_left_out() -> None:
    """Every line is a case of its own, with something to send that this module knows."""
    cases = load()
    assert len(cases) >= 46
    assert len({case["id"] for case in cases}) == len(cases)
    for case in cases:
        known = {"method", "path", "headers", "raw", "script", "auth", "base", "prefix_hex", *BODIES}
        assert set(case["send"]) <= known, case["id"]
        assert all(status < 500 for status in case["expect"]["status"]), case["id"]


async def test_what_is_refused(client: httpx.AsyncClient, fake: FakeOpenAI, tmp_path: Path) -> None:
    refused = [case for case in load() if is_refused(case)]
    assert len(refused) > 30
    for case in refused:
        await check(client, fake, tmp_path, case)


async def test_what_changes_the_service(tmp_path: Path) -> None:
    """Each on a service of its own."""
    for case in [case for case in load() if not is_refused(case)]:
        folder = tmp_path / case["id"]
        folder.mkdir()
        async with FakeOpenAI() as fake, serving(folder, **judged_by(fake)) as client:
            await check(client, fake, folder, case)


async def check(client: httpx.AsyncClient, fake: FakeOpenAI, folder: Path, case: dict[str, Any]) -> None:
    send, expect = case["send"], case["expect"]
    if "raw" in send:
        answer = await raw(client, send["raw"].encode())
        assert int(answer.split(b" ")[1]) in expect["status"], (case["id"], answer)
        assert b"set-cookie" not in answer.lower()
    elif "script" in send:
        response = await send_script(client, send["script"])
        assert response.status_code in expect["status"], (case["id"], response.text)
    else:
        headers = {**grow(send["headers"]), **await authorize(send, folder)}
        content = body_of(send) if send["method"] == "POST" else None
        response = await client.request(send["method"], send["path"], content=content, headers=headers)
        assert response.status_code in expect["status"], (case["id"], response.text)
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            problem = response.json()
            assert {"type", "title", "status", "code"} <= set(problem)
            assert "Traceback" not in response.text
    if expect["judge_calls"] is not None and "script" not in send:
        assert len(fake.requests) == expect["judge_calls"], case["id"]
    if case["area"] == "batch":
        assert (await client.get("/v1/batches")).json()["items"] == []
        assert fake.requests == []
    elif "script" in send:
        assert len(fake.requests) == 1
