"""Requests as people write them: a misspelt field is told what it may mean, and a context may be a list of texts."""

import json
from typing import Any

import httpx

from saiten.core.formats.mapping import Spoken, name_speakers
from tests.support.posted import wait_for

STRINGS = {"context": ["おはよう", "おはようございます", "よく眠れた？"], "response": "はい、よく眠れました。"}
SPOKEN = name_speakers([Spoken(None, text) for text in STRINGS["context"]])


MISSPELT: list[tuple[str, dict[str, Any], str, str]] = [
    ("/v1/evaluations", {"contxt": ["あ"], "response": "い"}, "/contxt", "context"),
    ("/v1/evaluations", STRINGS | {"judge": {"sampels": 2}}, "/judge/sampels", "samples"),
    ("/v1/batches", {"items": [STRINGS | {"metdata": {}}]}, "/items/0/metdata", "metadata"),
    ("/v1/batches", {"rubrik": "ja-dialogue", "items": [STRINGS]}, "/rubrik", "rubric"),
    ("/v1/estimates", {"items": [{"contxt": ["あ"], "response": "い"}]}, "/items/0/contxt", "context"),
]


async def test_a_misspelt_field_is_told_what_it_may_mean(client: httpx.AsyncClient) -> None:
    for path, body, pointer, meant in MISSPELT:
        for language, words in (
            ("en", f"did you mean {meant!r}?"),
            ("ja", f"{meant!r} のこと"),
            ("ko", f"혹시 {meant!r} 아닌가요?"),
        ):
            problem = (await client.post(path, json=body, headers={"Accept-Language": language})).json()
            told = {fault["pointer"]: fault["detail"] for fault in problem["errors"]}
            assert words in told[pointer], (path, told)
    odd = (await client.post("/v1/evaluations", json=STRINGS | {"zzz": 1})).json()
    assert [(one["pointer"], one["code"]) for one in odd["errors"]] == [("/zzz", "unknown-field")]


async def test_a_context_of_texts_is_taken_as_the_command_takes_it(client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/evaluations", json=STRINGS)
    assert made.status_code == 200, made.text
    kept = (await client.get(f"/v1/evaluations/{made.json()['id']}?include=request")).json()
    assert kept["request"]["context"] == SPOKEN
    assert [one["speaker"] for one in SPOKEN] == ["user", "assistant", "user"]
    assert (await client.post("/v1/estimates", json={"items": [STRINGS]})).status_code == 200
    lines = "\n".join(map(json.dumps, ({}, STRINGS)))
    for more in (
        {"json": {"items": [STRINGS]}},
        {"content": lines, "headers": {"Content-Type": "application/x-ndjson"}},
    ):
        batch = (await client.post("/v1/batches", **more)).json()
        await wait_for(client, batch["id"])
        (line,) = (await client.get(f"/v1/batches/{batch['id']}/results")).text.splitlines()
        assert json.loads(line)["status"] == "scored"


async def test_texts_beside_objects_and_blank_texts_are_refused_at_their_place(client: httpx.AsyncClient) -> None:
    for context, pointer in ((["あ", {"speaker": "A", "text": "い"}], "/context/0"), (["あ", " "], "/context/1")):
        response = await client.post("/v1/evaluations", json=STRINGS | {"context": context})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == pointer


async def test_no_key_and_a_wrong_key_are_told_apart(client: httpx.AsyncClient) -> None:
    wrong = await client.get("/v1/info", headers={"Authorization": "Bearer sk_nobody_knows"})
    assert wrong.status_code == 401
    assert "was revoked" in wrong.json()["detail"]


async def test_the_openapi_document_takes_texts_as_a_context(client: httpx.AsyncClient) -> None:
    schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
    for name in ("EvaluationRequest", "BatchItem"):
        kinds = [one["items"] for one in schemas[name]["properties"]["context"]["anyOf"]]
        assert kinds[0] == {"$ref": "#/components/schemas/Utterance"}
        assert kinds[1]["type"] == "string"
