"""`/datasets`: a file is uploaded, looked at, kept, scored and erased in a browser, without script."""

import asyncio
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import httpx
import openpyxl
import pytest

from saiten.core import language
from saiten.core.messages import DEFAULT_LANGUAGE
from saiten_server.runs.datasets import reading
from saiten_server.runs.datasets.pages import uploads
from tests.support.elements import Page
from tests.support.keyed import make_keys

FULL = Path("/dev/full")
TABLE = "質問,応答,メモ\nおはよう,おはようございます,x\n元気？,,y\n海は？,行きました,z\n"
FIELDS = {"rubric": "ja-dialogue", "name": "朝", "system": "bot-a", "samples": "1", "explain": "yes"}


@pytest.fixture(autouse=True)
def wait_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that does not wait would say so, and be asked again."""
    monkeypatch.setattr(uploads, "READING_WAIT_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each file, at which `tests/runs/test_file_reading.py` looks, takes a second of CPU."""
    monkeypatch.setenv("LANGUAGE", language.language)  # which reading sets, and this puts back
    monkeypatch.setattr(reading, "limit_process", lambda: None)

    def read(files: Sequence[int]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the process's end would close its files
            reading.main(",".join(str(os.dup(file)) for file in files))
        language.use_language(DEFAULT_LANGUAGE)
        return 0

    async def run_child(files: Sequence[int]) -> int:
        return await asyncio.to_thread(read, files)

    monkeypatch.setattr(reading, "run_child", run_child)


async def upload(client: httpx.AsyncClient, name: str, content: bytes, **more) -> str:
    sent = await client.post("/datasets/new", files={"file": (name, content)}, **more)
    assert sent.status_code == 303, sent.text
    return sent.headers["location"]


async def keep(client: httpx.AsyncClient, address: str, name: str = "朝の会話", **fields) -> str:
    kept = await client.post(address, data={"name": name, "action": "keep", **fields})
    assert kept.status_code == 303, kept.text
    return kept.headers["location"]


async def test_a_file_becomes_a_dataset_and_a_run(client):
    await client.post("/preferences", data={"language": "ja"})
    address = await upload(client, "C:\\表\\朝.csv", TABLE.encode("cp932"))
    page = Page((await client.get(address)).text)
    text = page.one("main").text
    for said in (
        "朝.csv",
        "CP932",
        "質問 → context",
        "応答 → response",
        "1 行を飛ばしました",
        "メモ",
        "おはようございます",
    ):
        assert said in text
    assert page.one("input", name="name")["value"] == "朝"
    assert page.inline() == []

    kept = await keep(client, address)
    # A second click, also with another name, and the way back lead to the dataset.
    assert [await keep(client, address), await keep(client, address, "別名")] == [kept, kept]
    assert (await client.get(address)).headers["location"] == kept
    page = Page((await client.get(kept)).text)
    assert page.one("option", selected="")["value"] == "ja-dialogue"
    dataset = kept.partition("?")[0]
    lines = await client.get(f"{dataset}/items")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [line.count("response") for line in lines.text.splitlines()] == [1, 1]

    token = page.one("input", name="token")["value"]
    started = [await client.post(f"{dataset}/runs", data={**FIELDS, "token": token}) for _ in range(2)]
    assert {one.status_code for one in started} == {303}
    (run,) = {one.headers["location"] for one in started}
    batch = (await client.get(f"/v1/batches/{run.rpartition('/')[2]}")).json()
    assert (batch["name"], batch["counts"]["total"], batch["metadata"]["system"]) == ("朝", 2, "bot-a")
    assert batch["metadata"]["dataset"] == "朝の会話 v1"
    assert (await client.get(run)).status_code == 200
    assert page.all("a", href=run) == []
    assert Page((await client.get(dataset)).text).one("a", href=run).text == "朝"

    # The same items in another file are the same version; others are the next.
    again = await keep(client, await upload(client, "b.csv", TABLE.encode("utf-16")))
    assert again == f"{dataset}?kept=same"
    other = await keep(client, await upload(client, "c.csv", TABLE.replace("海", "山").encode()))
    assert "1" in Page((await client.get(other)).text).one("a", href=dataset).text
    listed = Page((await client.get("/datasets")).text)
    assert [row.text for row in listed.all("th", scope="row")] == ["朝の会話", "朝の会話"]

    assert (await client.get(f"{dataset}/delete")).status_code == 200
    assert (await client.post(f"{dataset}/delete", data={"x": ""})).headers["location"] == "/datasets"
    assert [(await client.get(gone)).status_code for gone in (dataset, address)] == [404, 404]
    assert (await client.get(run)).status_code == 200
    noted = (await client.get("/v1/audit")).json()["items"][0]
    assert (noted["action"], noted["target"]) == ("dataset.erased", dataset.rpartition("/")[2])


async def test_columns_are_chosen_where_none_is_known(client):
    book = openpyxl.Workbook()
    for row in (["말", "되돌린 말", "봇"], ["밥 먹었어?", "네, 먹었어요.", "b1"], ["어디 가?", "가" * 8001, "b1"]):
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    address = await upload(client, "talk.xlsx", file.getvalue())
    page = Page((await client.get(address)).text)
    assert "No column is known" in page.one("main").text
    assert page.all("button", value="keep") == []
    selects = [select["name"] for select in page.all("select") if select["name"].startswith("map.")]
    assert {"map.context", "map.context.2", "map.response", "map.speaker"} <= set(selects)
    assert len(page.all("option", value="되돌린 말")) == len(selects)
    chosen = {"map.context": "말", "map.response": "되돌린 말", "map.metadata.system": "봇"}
    text = Page((await client.get(address, params=chosen)).text).one("main").text
    assert "1 item cannot be scored" in text
    assert "row 3" in text
    assert "XLSX" in text
    assert Page((await client.post(address, data={"name": " ", **chosen})).text).one("input", name="name")[
        "aria-invalid"
    ]
    dataset = (await keep(client, address, "한국어", **chosen)).partition("?")[0]

    # For Korean a rubric must be named.
    page = Page((await client.get(dataset)).text)
    assert [option["value"] for option in page.all("option")][:2] == ["", "ko-comment"]
    assert page.all("option", selected="") == []
    refused = await client.post(f"{dataset}/runs", data={**FIELDS, "rubric": ""})
    assert (refused.status_code, "ko-dialogue" in refused.text) == (422, True)
    refused = await client.get(dataset, params={**FIELDS, "rubric": "ko-comment", "samples": "99"})
    assert "/judge/samples" in refused.text
    estimated = Page((await client.get(dataset, params={**FIELDS, "rubric": "ko-comment"})).text)
    assert "$0.00" in estimated.one("main").text


async def test_what_cannot_be_read_is_said(client, monkeypatch):
    address = await upload(client, "old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)
    assert ".xlsx" in Page((await client.get(address)).text).one("main").text
    assert (await client.post(address, data={"action": "discard"})).headers["location"] == "/datasets"
    assert (await client.get(address)).status_code == 404
    assert (await client.post("/datasets/new", files={"file": ("", b"")})).status_code == 422
    assert (await client.post("/datasets/new", files={"other": ("a", b"b")})).status_code == 422
    assert (await client.post("/datasets/new", data={"file": "a"})).status_code == 415
    headers = {"Content-Type": "multipart/form-data"}
    assert (await client.post("/datasets/new", content=b"x", headers=headers)).status_code == 422
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/datasets/new", files={"file": ("a", b"b")}, headers=foreign)).status_code == 403
    monkeypatch.setattr(uploads, "UPLOAD_BYTES", 1000)
    for size in (1001, 100_000):
        refused = await client.post("/datasets/new", files={"file": ("a", b"b" * size)})
        assert (refused.status_code, "larger than 1.0 kB" in refused.text) == (413, True)


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
async def test_a_file_that_the_disk_has_no_room_for_is_told_so(client, monkeypatch):
    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", lambda **_: FULL.open("r+b", buffering=0))
    refused = await client.post("/datasets/new", files={"file": ("a.csv", TABLE.encode())})
    assert (refused.status_code, "TMPDIR" in refused.text) == (507, True)


async def test_a_key_that_may_only_read_reads(client, tmp_path):
    writer, reader = await make_keys(tmp_path, ("team", "write"), ("team", "read"))
    address = await upload(client, "a.csv", TABLE.encode(), headers=writer)
    kept = await client.post(address, data={"name": "a", "action": "keep"}, headers=writer)
    dataset = kept.headers["location"].partition("?")[0]
    assert Page((await client.get(dataset, headers=reader)).text).all("a", href=f"{dataset}/delete") == []
    for method, path in (
        ("GET", "/datasets/new"),
        ("POST", "/datasets/new"),
        ("POST", f"{dataset}/runs"),
        ("GET", f"{dataset}/delete"),
        ("POST", f"{dataset}/delete"),
    ):
        assert (await client.request(method, path, headers=reader)).status_code == 403, path


async def test_files_that_are_read_are_bounded_and_end_with_who_asked(client, monkeypatch):
    address = await upload(client, "a.csv", TABLE.encode())
    began, ended = asyncio.Event(), asyncio.Event()

    async def read(*_: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with monkeypatch.context() as patched:
        patched.setattr("saiten_server.runs.datasets.service.read_file", read)
        patched.setattr("saiten_server.runs.datasets.service.OF_ONE", 1)
        first = asyncio.create_task(keep(client, address))
        await began.wait()
        refused = await client.post(address, data={"name": "a", "action": "keep"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
        first.cancel()
        await ended.wait()
    await keep(client, address)


async def test_a_file_is_its_projects_alone(client, tmp_path):
    own, other = await make_keys(tmp_path, ("team", "write"), ("other", "write"))
    address = await upload(client, "a.csv", TABLE.encode(), headers=own)
    for form in ({"name": "a", "action": "keep"}, {"name": " "}, {"action": "discard"}):
        assert (await client.post(address, data=form, headers=other)).status_code == 404
    assert (await client.post("/datasets/uploads/ds_none", data={"action": "keep"}, headers=own)).status_code == 404
    kept = await client.post(address, data={"name": "a", "action": "keep"}, headers=own)
    assert kept.status_code == 303
    assert (await client.post(address, data={"name": "a", "action": "keep"}, headers=other)).status_code == 404
