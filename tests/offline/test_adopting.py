"""`POST /v1/runs/adopt`: files of results become a run of the service."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

import saiten
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest
from saiten_server.offline.frame_files import make_table
from saiten_server.offline.places import find_place
from saiten_server.platform.web.body import decode
from tests.support.offline_rows import make_rows, rubric_of, store
from tests.support.serving import serving

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PARQUET = {"Content-Type": "application/vnd.apache.parquet"}


def write(rows: list[Any], kind: str, change: Any = None) -> bytes:
    table = make_table(rows, rubric_of(kind))
    file = io.BytesIO()
    pq.write_table(change(table) if change else table, file, row_group_size=10)
    return file.getvalue()


async def adopt(client: httpx.AsyncClient, body: bytes, **query: str) -> httpx.Response:
    return await client.post("/v1/runs/adopt", content=body, headers=PARQUET, params=query)


@pytest.mark.parametrize("kind", ["blended", "candidates", "conversations"])
async def test_a_run_that_is_adopted_is_a_run_like_any_other(client: httpx.AsyncClient, kind: str) -> None:
    runs = {name: make_rows(kind, 60, seed=seed, drop=drop) for name, seed, drop in (("a", 1, 0.0), ("b", 2, 0.6))}
    ids = {}
    for name, rows in runs.items():
        made = await adopt(client, write(rows, kind), name=name, **{"metadata.build": name})
        assert made.status_code == 201, made.text
        batch = made.json()
        assert (batch["status"], batch["texts"], batch["counts"]["total"]) == ("completed", "drop", 60)
        assert batch["metadata"] == {"build": name}
        ids[name] = batch["id"]
    summary = (await client.get(f"/v1/batches/{ids['a']}/summary")).json()
    assert summary["counts"]["failed"] == sum(row.record is None for row in runs["a"])
    assert summary["warnings"]["adopted"] == 60 - summary["counts"]["failed"]
    lines = (await client.get(f"/v1/batches/{ids['a']}/results")).text.splitlines()
    results = [json.loads(line) for line in lines]
    for row, result in zip(runs["a"], results, strict=True):
        assert result["item"] == row.entry.item
        if row.record is not None:
            means = {name: one.mean for name, one in row.record.evaluation.aspects.items()}
            assert {name: one["mean"] for name, one in result["aspects"].items()} == means
            assert result["signature"] == row.record.evaluation.signature
    gate = (
        await client.post("/v1/gates", json={"candidate": ids["b"], "baseline": ids["a"], "min_coverage": 0.5})
    ).json()
    assert gate["verdict"] == "fail", gate
    assert gate["comparison"]["pairing"]["pairs"] == (20 if kind == "candidates" else 60)


async def test_a_small_file_does_not_unfold_to_gigabytes(client: httpx.AsyncClient) -> None:
    def lengthen(table: Any) -> Any:
        long = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int32()), pa.array(["x" * 600_000]))
        return table.set_column(table.schema.get_field_index("warnings"), "warnings", long)

    body = write(make_rows("responses", 130), "responses", lengthen)
    assert len(body) < 1 << 20
    made = await adopt(client, body)
    assert (made.status_code, made.json()["message"]) == (422, "adopted-bytes-most"), made.text
    assert (await client.get("/v1/batches")).json()["items"] == []


async def test_pages_ratings_and_erasure_work_on_it(client: httpx.AsyncClient) -> None:
    ids = {}
    for kind in ("responses", "conversations"):
        made = await adopt(client, write(make_rows(kind, 20), kind), name=kind)
        ids[kind] = made.json()["id"]
        evaluations = [
            json.loads(line)["id"]
            for line in (await client.get(f"/v1/batches/{ids[kind]}/results")).text.splitlines()
            if "id" in json.loads(line)
        ]
        for path in (
            "",
            f"/runs/{ids[kind]}",
            f"/runs/{ids[kind]}/items/1",
            f"/explore?run={ids[kind]}",
            f"/runs/{ids[kind]}/trend",
        ):
            page = await client.get(path or "/", follow_redirects=True)
            assert page.status_code == 200, (path, page.text)
        assert (await client.get(f"/evaluations/{evaluations[0]}", follow_redirects=True)).status_code == 200
        rating = {"batch": ids[kind], "item": "item-1", "rater": "r1", "ratings": {"overall": 2}}
        rated = await client.post("/v1/ratings", json=rating)
        assert rated.status_code in {200, 201}, rated.text
        assert (await client.delete(f"/v1/batches/{ids[kind]}")).status_code == 204
        assert (await client.get(f"/v1/batches/{ids[kind]}")).status_code == 404
    again = await adopt(client, write(make_rows("responses", 20), "responses"), name="responses")
    assert (again.status_code, again.json()["id"]) == (201, ids["responses"])


async def test_the_same_results_are_adopted_once(client: httpx.AsyncClient) -> None:
    rows = make_rows("responses", 30)
    first = await adopt(client, write(rows, "responses"), name="nightly")
    again = await adopt(client, write([*reversed(rows)], "responses"), name="nightly")
    other = await adopt(client, write(rows, "responses"), name="weekly")
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert first.json()["id"] == again.json()["id"] != other.json()["id"]
    twice = await adopt(client, write([*rows, *rows[:7]], "responses"), name="nightly")
    assert (twice.status_code, twice.json()["id"]) == (200, first.json()["id"])
    assert len((await client.get("/v1/batches")).json()["items"]) == 2


def spoil(column: str, value: Any, row: int = 12) -> Any:
    def change(table: Any) -> Any:
        place = table.schema.get_field_index(column)
        cells = table.column(column).to_pylist()
        cells[row] = value
        field = table.schema.field(place)
        return table.set_column(place, field, pa.array(cells, type=field.type))

    return change


SPOILT = [
    ("mean.overall", 99.0, "row 12: the column mean.overall"),
    ("mean.overall", float("inf"), "upload.parquet, row group 1: the column mean.overall"),
    ("item", "another", "row 12: the column item"),
    ("status", "fine", "row 12: the column status"),
    ("metadata", "[]", "row 12: the column metadata"),
    ("signature", None, "row 12: the column signature"),
    ("rubric", "ja-dialogue@1", "row 12: the column rubric"),
    ("judge_calls", -1, "row 12: the column judge_calls"),
    ("faults", "{", "row 12: the column faults"),
]


async def test_what_no_result_has_is_named_and_nothing_stays(client: httpx.AsyncClient) -> None:
    for column, value, said in SPOILT:
        kind = "conversations" if column == "faults" else "responses"
        refused = await adopt(client, write(make_rows(kind, 15), kind, spoil(column, value)))
        assert refused.status_code == 422, refused.text
        assert said in refused.json()["detail"]
    assert (await client.get("/v1/batches")).json()["items"] == []


async def test_damaged_files_and_other_bodies_are_refused(client: httpx.AsyncClient) -> None:
    body = write(make_rows("responses", 30), "responses")
    broken = await adopt(client, body[: len(body) // 2] + b"PAR1")
    assert (broken.status_code, "upload.parquet: it cannot be read" in broken.json()["detail"]) == (422, True)
    assert "/tmp" not in broken.text
    assert (await adopt(client, b"")).status_code == 422
    assert (await adopt(client, body, nonsense="1")).status_code == 422
    text = await client.post("/v1/runs/adopt", content=b"x", headers={"Content-Type": "text/csv"})
    assert text.status_code == 415
    url = await client.post("/v1/runs/adopt", json={"url": "/etc"})
    assert (url.status_code, "SAITEN_ADOPT_FROM" in url.json()["detail"]) == (422, True)


async def test_a_large_document_is_parsed_off_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def decode_seen(body: bytes) -> Any:
        threads.append(threading.get_ident())
        return decode(body)

    for module in ("saiten_server.platform.web.body", "saiten_server.offline.api"):
        monkeypatch.setattr(f"{module}.decode", decode_seen, raising=False)
    answered = await client.post("/v1/runs/adopt", json={"results": [1] * 100_000})
    assert answered.status_code == 422
    assert threads
    assert threading.get_ident() not in threads


async def test_a_run_of_too_many_results_is_refused_before_they_are_read(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", limits=Limits(batch_items=20)) as client:
        refused = await adopt(client, write(make_rows("responses", 21), "responses"))
        assert (refused.status_code, "a run may have 20" in refused.json()["detail"]) == (422, True)


def test_only_what_lies_below_an_allowed_address_is_read(tmp_path: Path) -> None:
    (tmp_path / "in" / "mine").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "mine" / "link").symlink_to(tmp_path / "out")
    allowed = [f"{tmp_path}/in/{{project}}", "s3://results/{project}/"]
    for address in (f"{tmp_path}/in/mine", f"file://{tmp_path}/in/mine/x.parquet"):
        assert find_place(address, allowed, "mine").startswith(os.path.realpath(tmp_path / "in" / "mine"))
    assert find_place("s3://results/mine/night", allowed, "mine") == "s3://results/mine/night"
    for address in (
        f"{tmp_path}/in/other",
        f"{tmp_path}/in/mine/link",
        f"{tmp_path}/in/mine/../other",
        f"{tmp_path}/in/mine-not",
        f"{tmp_path}/out",
        "in/mine",
        "",
        "/",
        "s3://results/other",
        "s3://results/mine/../other",
        "s3://results/mine//other",
        "s3://results/minerva",
        "s3://results/mine/*",
        "s3://results/mine/%2e%2e/other",
        "s3://other/mine",
        "gs://results/mine",
        "s3://key@results/mine",
        "zip://a.parquet::s3://results/mine",
        "http://results/mine",
        "http://169.254.169.254/latest",
        "s3://results/mine?x=1",
        "s3://results/mine\n",
    ):
        with pytest.raises(InvalidRequest):
            find_place(address, allowed, "mine")
    with pytest.raises(InvalidRequest):
        find_place(f"{tmp_path}/in/mine", [], "mine")
    for project in (".", ".."):
        with pytest.raises(InvalidRequest):
            find_place(f"{tmp_path}/in/other", [f"{tmp_path}/in/{{project}}"], project)


async def test_a_folder_that_is_allowed_is_read_where_it_lies(tmp_path: Path) -> None:
    store(make_rows("responses", 30), "responses", tmp_path / "runs" / "night")
    async with serving(tmp_path, judge="lexical", adopt_from=str(tmp_path / "runs")) as client:
        body = {"url": str(tmp_path / "runs" / "night"), "name": "night", "metadata": {"system": "甲"}}
        first, again = [
            await client.post("/v1/runs/adopt", json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2)
        ]
        assert first.status_code == again.status_code == 201, first.text
        assert first.json()["id"] == again.json()["id"]
        assert again.headers["Idempotent-Replayed"] == "true"
        assert first.headers["Location"] == again.headers["Location"] == f"/v1/batches/{first.json()['id']}"
        refused = await client.post("/v1/runs/adopt", json={"url": str(tmp_path)})
        assert refused.status_code == 422


async def test_a_key_is_of_one_name(client: httpx.AsyncClient) -> None:
    body, key = write(make_rows("responses", 12), "responses"), {**PARQUET, "Idempotency-Key": "k1"}
    first = await client.post("/v1/runs/adopt", content=body, headers=key, params={"name": "nightly"})
    other = await client.post("/v1/runs/adopt", content=body, headers=key, params={"name": "weekly"})
    again = await client.post("/v1/runs/adopt", content=body, headers=key, params={"name": "nightly"})
    assert first.status_code == 201, first.text
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")


async def test_a_fault_of_a_file_that_was_sent_points_at_the_body(client: httpx.AsyncClient) -> None:
    refused = await adopt(client, b"PAR1")
    assert (refused.status_code, [one["pointer"] for one in refused.json()["errors"]]) == (422, [""])
    asked = {"name": "x" * 129, "metadata.build": "y" * 257}
    refused = await adopt(client, write(make_rows("responses", 3), "responses"), **asked)
    assert {one["pointer"] for one in refused.json()["errors"]} == {"/query/name", "/query/metadata.build"}


async def test_a_project_that_is_full_adopts_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical", project_bytes=20_000) as client:
        refused = await adopt(client, write(make_rows("responses", 60), "responses"))
        assert (refused.status_code, refused.json()["code"]) == (507, "project-full")
        assert (await client.get("/v1/batches")).json()["items"] == []


async def test_both_clients_adopt_a_file_and_what_a_service_may_read(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "night.parquet"
    path.parent.mkdir()
    path.write_bytes(write(make_rows("responses", 12), "responses"))
    async with (
        serving(tmp_path, judge="lexical", adopt_from=str(path.parent)) as service,
        saiten.AsyncClient(str(service.base_url)) as client,
    ):
        sent = await client.adopt(path, name="night", metadata={"build": "b1"})
        assert (sent.name, sent.metadata, sent.counts.total) == ("night", {"build": "b1"}, 12)
        read = await client.adopt(f"file://{path}", name="night")
        assert read.id == sent.id
        with pytest.raises(saiten.InputUnusable, match=r"is a folder; .* `saiten adopt` sends folders"):
            await client.adopt(path.parent)
        with pytest.raises(saiten.InputUnusable, match="No such file or directory"):
            await client.adopt(path.parent / "day.parquet")
