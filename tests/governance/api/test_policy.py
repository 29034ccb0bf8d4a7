"""`/v1/policy` over HTTP: whoever has a key reads it, administrators set it."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from saiten_server.erasure import service
from tests.support.keyed import make_keys
from tests.support.records import BODY
from tests.support.serving import serving

WHOLE = {"integrity": "refuse", "texts": "drop", "after_days": 0.0}


async def test_anonymous_callers_on_loopback_set_it_and_read_it_again(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        default = await client.get("/v1/policy")
        assert default.json() == {"integrity": "flag", "texts": "keep", "after_days": 30.0}
        assert (await client.put("/v1/policy", json=WHOLE)).json() == WHOLE
        assert (await client.get("/v1/policy")).json() == WHOLE
        # What is left out is as by default: PUT sets the whole policy.
        assert (await client.put("/v1/policy", json={"texts": "hash"})).json() == {
            "integrity": "flag",
            "texts": "hash",
            "after_days": 30.0,
        }
        events = (await client.get("/v1/audit")).json()["items"]
        assert [event["action"] for event in events][:2] == ["policy.changed", "policy.changed"]
        assert events[1]["detail"]["after"] == WHOLE


async def test_only_administrators_set_it(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        *others, admin = await make_keys(tmp_path, ("team", "read"), ("team", "write"), ("team", "admin"))
        for key in others:
            refused = await client.put("/v1/policy", json=WHOLE, headers=key)
            assert (refused.status_code, refused.json()["code"]) == (403, "insufficient-scope")
            assert (await client.get("/v1/policy", headers=key)).json()["texts"] == "keep"
        assert (await client.put("/v1/policy", json=WHOLE, headers=admin)).status_code == 200
        assert (await client.get("/v1/policy", headers=others[0])).json() == WHOLE


async def test_what_is_no_policy_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        for body, pointer in (
            ({"texts": "burn"}, "/texts"),
            ({"after_days": -1}, "/after_days"),
            ({"after_days": "30"}, "/after_days"),
            ({"keep": True}, "/keep"),
        ):
            refused = await client.put("/v1/policy", json=body)
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["pointer"] == pointer


async def test_texts_go_from_the_file_too_and_pages_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that holds an old evaluation is told to drop texts."""
    monkeypatch.setattr(service, "SWEEP_SECONDS", 0.2)
    async with serving(tmp_path, judge="lexical") as client:
        made = (await client.post("/v1/evaluations", json=BODY)).json()
        await asyncio.to_thread(age, tmp_path)
        await client.put("/v1/policy", json=WHOLE)
        await until_gone(tmp_path, BODY["response"])
        kept = (await client.get(f"/v1/evaluations/{made['id']}?include=request")).json()
        assert kept["request"]["response"] == "[text dropped]"
        assert {name: one["rating"] for name, one in kept["aspects"].items()} == {
            name: one["rating"] for name, one in made["aspects"].items()
        }
        for language, words in (
            ("en", "The texts were removed"),
            ("ja", "文章は削除されました"),
            ("ko", "삭제되었습니다"),
        ):
            page = await client.get(f"/evaluations/{made['id']}", headers={"Accept-Language": language})
            assert page.status_code == 200
            assert words in page.text


def age(folder: Path) -> None:
    """All evaluations become a day old."""
    # The service writes, too, and needs its event loop to finish: so this is called in a thread.
    with sqlite3.connect(folder / "saiten.db", timeout=60) as connection:
        connection.execute("UPDATE evaluations SET created_at = datetime(created_at, '-1 day')")
    connection.close()


async def until_gone(folder: Path, text: str) -> None:
    """Waits for the next sweep."""
    for _ in range(450):
        if all(text.encode() not in path.read_bytes() for path in folder.glob("saiten.db*")):
            return
        await asyncio.sleep(0.1)
    raise TimeoutError("the text is still there")


async def test_the_document_names_the_routes(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        document = (await client.get("/openapi.json")).json()
    assert {"get", "put"} <= document["paths"]["/v1/policy"].keys()
    assert "post" in document["paths"]["/v1/erasures"]
    assert {"ProjectPolicy", "ErasureRequest"} <= document["components"]["schemas"].keys()
