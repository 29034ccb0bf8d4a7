"""Results of a batch over HTTP: in order, whole or visibly broken off, harmless in a spreadsheet, and in figures."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import arro3.io
import httpx
import pytest
from jsonschema import Draft202012Validator

from saiten_server.core.batch import BatchConversation, BatchItem, list_candidates
from saiten_server.core.errors import StoreUnavailable
from saiten_server.core.redaction import drop, hash_with, redact_asked, texts_asked
from saiten_server.platform.telemetry import OwnRecords
from saiten_server.runs.result import Result
from saiten_server.runs.store.batches import BatchStore
from tests.support.cases import in_turn
from tests.support.faults import words
from tests.support.posted import make_item, post_batch, wait_for
from tests.support.serving import serving

TALK = BatchConversation.model_validate(
    {"turns": [{"speaker": "A", "text": "はい。", "role": "system"}], "goal": "話す"}
)


def read_lines(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line) for line in response.text.splitlines()]


async def complete_batch(client: httpx.AsyncClient, *items: dict[str, Any], **options: Any) -> str:
    """The address of a completed batch of these items."""
    response = await client.post("/v1/batches", json={**options, "items": items})
    batch = await wait_for(client, response.json()["id"])
    return f"/v1/batches/{batch['id']}"


async def test_results_come_in_item_order(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.service.RESULTS_PAGE", 7)
    several = {"context": make_item()["context"], "responses": ["はい。", "いいえ。"], "metadata": {"system": "甲"}}
    path = await complete_batch(client, *(make_item(number) for number in range(30)), several)
    response = await client.get(f"{path}/results")
    lines = read_lines(response)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["x-batch-status"] == "completed"
    assert [line["position"] for line in lines] == list(range(32))
    assert [(line["item"], line["candidate"]) for line in lines[29:]] == [("i29", None), ("30", 0), ("30", 1)]
    assert {line["status"] for line in lines} == {"scored"}
    assert (lines[0]["metadata"], lines[31]["metadata"]) == ({}, {"system": "甲"})
    pages = [await client.get(f"{path}/results?after={after}&limit=12") for after in (-1, 11, 23)]
    assert [line for page in pages for line in read_lines(page)] == lines
    assert [len(read_lines(page)) for page in pages] == [12, 12, 8]


async def test_a_stream_that_fails_does_not_end_as_if_it_were_whole(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = await complete_batch(client, *(make_item(number) for number in range(10)))
    monkeypatch.setattr("saiten_server.runs.service.RESULTS_PAGE", 5)
    read = BatchStore.results

    async def fail_later(self: BatchStore, project: str, batch_id: str, *, after: int, limit: int) -> list[Result]:
        if after > 0:
            raise StoreUnavailable(words("the database went away"))
        return await read(self, project, batch_id, after=after, limit=limit)

    monkeypatch.setattr(BatchStore, "results", fail_later)
    for form in ("ndjson", "csv"):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{path}/results?format={form}")


async def test_an_erasure_in_mid_stream_is_no_end_either(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = await complete_batch(client, *(make_item(number) for number in range(10)))
    monkeypatch.setattr("saiten_server.runs.service.RESULTS_PAGE", 5)
    read = BatchStore.results

    async def erase_later(self: BatchStore, project: str, batch_id: str, *, after: int, limit: int) -> list[Result]:
        if after > 0:
            await self.erase(project, batch_id)
        return await read(self, project, batch_id, after=after, limit=limit)

    monkeypatch.setattr(BatchStore, "results", erase_later)
    with caplog.at_level("INFO", logger="saiten.web"), pytest.raises(httpx.RemoteProtocolError):
        await client.get(f"{path}/results")
    written = [record for record in caplog.records if OwnRecords().filter(record)]
    assert [record.message for record in written if record.exc_info or record.levelname != "INFO"] == []
    (told,) = (record for record in written if record.message == "answer broken off")
    assert told.__dict__["code"] == "not-found"


async def test_a_formula_is_text_in_the_table(client: httpx.AsyncClient) -> None:
    formula = '=HYPERLINK("http://evil.example","見る")'
    path = await complete_batch(client, make_item(0, id=formula, metadata={"note": "@SUM(A1)"}), make_item(1, id="b"))
    response = await client.get(f"{path}/results?format=csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert response.headers["content-type"].startswith("text/csv; charset=utf-8")
    assert response.headers["content-disposition"] == f'attachment; filename="{path.rsplit("/", 1)[1]}.csv"'
    assert [row["item"] for row in rows] == ["'" + formula, "b"]
    assert [row["status"] for row in rows] == ["scored", "scored"]
    assert not any(cell.startswith(("=", "@", "+")) for row in rows for cell in row.values())

    response = await client.get(f"{path}/results?format=parquet&limit=1")
    assert response.headers["content-type"] == "application/vnd.apache.parquet"
    assert response.headers["content-disposition"].endswith('.parquet"')
    (row,) = arro3.io.read_parquet(io.BytesIO(response.content)).read_all().to_struct_array().to_pylist()
    assert (row["item"], row["status"], row["position"]) == (formula, "scored", 0)


async def test_what_has_no_result_yet_is_left_out(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client)
        response = await client.get(f"/v1/batches/{batch['id']}/results")
        assert (response.status_code, response.text, response.headers["x-batch-status"]) == (200, "", "queued")
        summary = (await client.get(f"/v1/batches/{batch['id']}/summary")).json()
    assert summary["coverage"] == {"rated": 0, "expected": 18, "share": 0.0}


@in_turn("query", ["format=xml", "after=-2", "after=x", "limit=0", f"after={10**30}"])
async def test_a_query_that_does_not_fit_is_a_problem(client: httpx.AsyncClient, query: str) -> None:
    path = await complete_batch(client, make_item())
    response = await client.get(f"{path}/results?{query}")
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


async def test_the_summary_is_over_all_results(client: httpx.AsyncClient) -> None:
    path = await complete_batch(client, *(make_item(number) for number in range(8)), name="a")
    lines = read_lines(await client.get(f"{path}/results"))
    first, again = await client.get(f"{path}/summary"), await client.get(f"{path}/summary")
    summary = first.json()
    assert again.content == first.content
    assert (summary["name"], summary["status"], summary["counts"]["scored"]) == ("a", "completed", 8)
    for name, aspect in summary["aspects"].items():
        ratings = [line["aspects"][name]["rating"] for line in lines]
        assert (aspect["n"], aspect["mean"]) == (8, pytest.approx(sum(ratings) / 8))
        assert aspect["histogram"] == {level: ratings.count(int(level)) for level in aspect["histogram"]}
    assert summary["signature"] == lines[0]["signature"]


async def test_results_carry_texts_and_the_batch_s_metadata_on_request(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saiten_server.runs.service.TEXTS_BYTES", 200)  # less than any two items
    spoken = [{"speaker": "=A", "text": "はい。"}]
    formula = {"context": spoken, "responses": ["=1+1", "一行目\n二行目"]}
    gone = make_item(7, id="gone", metadata={"user": "u-7"})
    path = await complete_batch(client, make_item(0), formula, gone, metadata={"build": "b1"})
    await client.post("/v1/erasures", json={"metadata": {"user": "u-7"}})
    plain, lines = [read_lines(await client.get(f"{path}/results{query}")) for query in ("", "?texts=true")]
    assert [line.pop("context", None) for line in lines] == [make_item()["context"], spoken, spoken, None]
    responses = [make_item()["response"], "=1+1", "一行目\n二行目", None]
    assert [line.pop("response", None) for line in lines] == responses
    assert lines == plain
    assert [line["batch_metadata"] for line in lines] == [{"build": "b1"}] * 4

    sheet = await client.get(f"{path}/results?format=csv&texts=true&excel=true")
    assert sheet.content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(sheet.content.decode("utf-8-sig"), newline="")))
    assert [*rows[0]][:3] == ["item", "context", "response"]
    assert [row["response"] for row in rows] == [responses[0], "'=1+1", "一行目\n二行目", ""]
    assert [row["context"] for row in rows[1:]] == ["'=A: はい。", "'=A: はい。", ""]
    response = await client.get(f"{path}/results?format=parquet&texts=true&after=0")
    table = arro3.io.read_parquet(io.BytesIO(response.content)).read_all().to_struct_array().to_pylist()
    assert [(row["context"], row["response"]) for row in table] == [
        ("=A: はい。", "=1+1"),
        ("=A: はい。", "一行目\n二行目"),
        (None, None),
    ]
    assert table[0]["batch_metadata"] == '{"build":"b1"}'
    for query in ("excel=true", "texts=", "format=parquet&excel=true"):
        assert (await client.get(f"{path}/results?{query}")).status_code == 422


async def test_results_of_conversations_carry_their_turns(client: httpx.AsyncClient) -> None:
    turns = [
        {"speaker": "客", "text": "今日は何時までですか。", "role": "user"},
        {"speaker": "店", "text": "夜の八時までです。", "role": "system"},
    ]
    whole = {"turns": turns, "persona": {"name": "店"}, "goal": "閉店の時刻を知る"}
    path = await complete_batch(client, {"id": "a", **whole}, {"id": "b", "turns": turns}, rubric="ja-conversation")
    lines = read_lines(await client.get(f"{path}/results?texts=true"))
    told = ("turns", "persona", "goal", "context", "response")
    assert [{name: line[name] for name in told if name in line} for line in lines] == [whole, {"turns": turns}]
    spoken = "客: 今日は何時までですか。\n店: 夜の八時までです。"
    rows = list(csv.DictReader(io.StringIO((await client.get(f"{path}/results?format=csv&texts=true")).text)))
    assert [(row["turns"], row["given.persona"], row["given.goal"]) for row in rows] == [
        (spoken, '{"name":"店"}', whole["goal"]),
        (spoken, "", ""),
    ]


@pytest.mark.parametrize("texts", ["hash", "drop"])
def test_texts_that_a_policy_replaced_are_none(texts: str) -> None:
    cover = drop if texts == "drop" else hash_with("salt")
    for asked in (BatchItem.model_validate(make_item()), TALK):
        ((_, candidate),) = list_candidates(asked, 0, 0)
        assert texts_asked(candidate)
        assert texts_asked(redact_asked(candidate, cover)) == {}


async def test_lines_of_results_are_as_the_document_says(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    answer = document["paths"]["/v1/batches/{batch_id}/results"]["get"]["responses"]["200"]["content"]
    schema = answer["application/x-ndjson"]["schema"]["contentSchema"]
    validator = Draft202012Validator({**schema, "components": document["components"]})
    gone = make_item(7, metadata={"user": "u-7"})
    path = await complete_batch(client, make_item(0), gone, metadata={"build": "b1"})
    await client.post("/v1/erasures", json={"metadata": {"user": "u-7"}})
    lines = read_lines(await client.get(f"{path}/results?texts=true"))
    assert [line["status"] for line in lines] == ["scored", "failed"]
    assert [error.message for line in lines for error in validator.iter_errors(line)] == []
    # They are taken as a run as they come.
    asked = {"candidate": {"results": lines}, "rules": [{"aspect": "overall", "min_mean": 1}]}
    assert (await client.post("/v1/gates", json=asked)).status_code == 200
