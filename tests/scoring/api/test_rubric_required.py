"""A Korean dialogue that names no rubric is not rated by the Japanese one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import saiten
from tests.support.gate_files import write_lines
from tests.support.posted import make_item
from tests.support.serving import serving

KOREAN = {
    "context": [{"speaker": "A", "text": "오늘 발표를 망쳤어요."}, {"speaker": "B", "text": "왜요?"}],
    "response": "많이 속상하셨겠어요. Saiten도 같은 일을 겪었어요.",
}
JAPANESE = make_item(0)


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


async def test_a_korean_evaluation_must_name_its_rubric(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        refused = await client.post("/v1/evaluations", json=KOREAN)
        assert (refused.status_code, refused.json()["code"]) == (422, "rubric-required")
        assert refused.json()["errors"][0]["pointer"] == "/rubric"
        said = refused.json()["errors"][0]["detail"]
        assert said.endswith("name one, such as ko-dialogue for chat or ko-comment for comments on a text")
        for language, words in (("ja", "雑談なら ko-dialogue、"), ("ko", "일상 대화라면 ko-dialogue, ")):
            told = await client.post("/v1/evaluations", json=KOREAN, headers={"Accept-Language": language})
            assert words in told.text
            assert "ko-comment" in told.text
        for rubric in ("ko-dialogue", "ko-comment", "ja-dialogue"):
            taken = await client.post("/v1/evaluations", json=KOREAN | {"rubric": rubric})
            assert taken.status_code == 200, taken.text
        quoted = JAPANESE | {"id": None, "response": "韓国語で「안녕하세요」は「こんにちは」という意味ですよ。"}
        del quoted["id"]
        assert (await client.post("/v1/evaluations", json=quoted)).status_code == 200


@pytest.mark.parametrize("path", ["/v1/batches", "/v1/estimates"])
async def test_a_batch_names_the_items_that_need_a_rubric(tmp_path: Path, path: str) -> None:
    several = {"context": KOREAN["context"], "responses": [KOREAN["response"], "네."]}
    options, items = {"name": "mixed"}, [JAPANESE, KOREAN, several]
    async with serving(tmp_path) as client:
        # The options of a JSON document may follow its items.
        for body in ({"items": items, **options}, {**options, "items": items}):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "rubric-required")
            assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/items/1", "/items/2"]
        headers = {"content-type": "application/x-ndjson"}
        refused = await client.post(path, content=lines(options, *items), headers=headers)
        assert refused.json()["code"] == "rubric-required"
        named = await client.post(path, content=lines({"rubric": "ko-comment"}, KOREAN), headers=headers)
        assert named.is_success, named.text
        after = await client.post(path, json={"items": [KOREAN], "rubric": "ko-comment"})
        assert after.is_success, after.text


def test_commands_name_the_line_that_needs_a_rubric(tmp_path: Path) -> None:
    write_lines(tmp_path / "items.ndjson", [JAPANESE, {"id": "k", **KOREAN}])
    scored = saiten("score", "items.ndjson", folder=tmp_path)
    assert scored.returncode == 2
    assert "items.ndjson:2: /rubric: most letters are Hangul" in scored.stderr
    gated = saiten("gate", "--candidate", "items.ndjson", "--record", "base.ndjson", folder=tmp_path)
    assert gated.returncode == 3
    assert "items.ndjson:2: the item: most letters are Hangul" in gated.stderr
    named = saiten("score", "items.ndjson", "--rubric", "ko-comment", folder=tmp_path)
    assert named.returncode == 0, named.stderr
