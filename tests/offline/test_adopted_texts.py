"""Pages of an adopted run read its texts from the files, where the service may read them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.offline import opening
from saiten_server.offline.frame_files import make_table
from saiten_server.offline.opening import MOST_TOLD_BYTES, PROBLEMS, TooLarge, read_written_texts
from saiten_server.offline.texts import CHANGED, MOST_LINE_BYTES, TOLD, UNREADABLE, read_told
from tests.support.offline_rows import make_rows, rubric_of, store
from tests.support.serving import serving

pq = pytest.importorskip("pyarrow.parquet")

ROWS = 40


async def adopt(client: httpx.AsyncClient, folder: Path, **more: Any) -> str:
    made = await client.post("/v1/runs/adopt", json={"url": str(folder), "name": "night", **more})
    assert made.status_code in {200, 201}, made.text
    return str(made.json()["id"])


async def find_id(client: httpx.AsyncClient, run: str, position: int = 3) -> str:
    """The id of the run's result there."""
    lines = (await client.get(f"/v1/batches/{run}/results")).text.splitlines()
    return str(json.loads(lines[position])["id"])


async def open_page(client: httpx.AsyncClient, run: str, position: int = 3) -> str:
    page = await client.get(f"/runs/{run}/items/{position}")
    assert page.status_code == 200, page.text
    return page.text


async def test_a_case_is_read_from_the_file(tmp_path: Path) -> None:
    said = {"responses": "item-3 について教えて", "conversations": "item-3の2番目の発話です。"}
    for kind, text in said.items():
        folder = store(make_rows(kind, ROWS), kind, tmp_path / "runs" / kind, texts=True)
        (tmp_path / kind).mkdir()
        async with serving(tmp_path / kind, judge="lexical", adopt_from=str(tmp_path / "runs")) as client:
            run = await adopt(client, folder)
            page = await open_page(client, run)
            assert text in page
            assert "[text dropped]" not in page
            assert "/try?from=" not in page
            listed = await client.get("/explore", params={"run": run, "sort": "item"})
            assert text in listed.text
            # What failed has no texts in files.
            assert "[text dropped]" in await open_page(client, run, 5)
            # Nothing was stored: what reads no files has none.
            assert text not in (await client.get(f"/v1/batches/{run}/results")).text
            made = await find_id(client, run)
            assert text in (await client.get(f"/evaluations/{made}")).text


async def test_a_request_is_read_from_the_file(tmp_path: Path) -> None:
    """With the judge's reasons, and with findings at the turns that they are of."""
    for kind in ("responses", "conversations"):
        rows = make_rows(kind, ROWS)
        number, record = next(
            (at, one.record)
            for at, one in enumerate(rows)
            if one.record and (kind == "responses" or one.record.evaluation.findings)
        )
        folder = store(rows, kind, tmp_path / "runs" / kind, texts=True)
        (tmp_path / kind).mkdir()
        async with serving(tmp_path / kind, judge="lexical", adopt_from=str(tmp_path / "runs")) as client:
            made = await find_id(client, await adopt(client, folder), number)
            bare = (await client.get(f"/v1/evaluations/{made}")).json()
            places = ["evaluations", "conversations"] if kind == "conversations" else ["evaluations"]
            for place in places:
                found = (await client.get(f"/v1/{place}/{made}?include=request")).json()
                asked = record.request.model_dump(mode="json")
                said = ("turns", "persona", "goal") if kind == "conversations" else ("context", "response")
                assert {name: found["request"][name] for name in said} == {name: asked[name] for name in said}
                assert {one["reason"] for one in found["aspects"].values() if one["rating"]} == {"…"}
                assert "texts_missing" not in found
                known = record.evaluation.findings
                assert known is None or [one.turn for one in known] == [one["turn"] for one in found["findings"]]
        assert "request" not in bare
        assert not any(one["reason"] for one in bare["aspects"].values())


async def test_findings_stand_at_the_turns_that_they_are_of(tmp_path: Path) -> None:
    rows = make_rows("conversations", ROWS)
    number, row = next((at, one) for at, one in enumerate(rows) if one.record and one.record.evaluation.findings)
    folder = store(rows, "conversations", tmp_path / "runs", texts=True)
    async with serving(tmp_path, judge="lexical", adopt_from=str(folder)) as client:
        page = await open_page(client, await adopt(client, folder), number)
    assert row.record is not None
    for finding in row.record.evaluation.findings or ():
        assert f'href="#turn-{finding.turn}"' in page or f"turn-{finding.turn}" in page


async def test_what_is_not_there_is_told_without_a_path(tmp_path: Path) -> None:
    runs = tmp_path / "secret-runs"
    folder = store(make_rows("responses", ROWS), "responses", runs / "night", texts=True)
    told = {
        "changed": "no longer in them",
        "gone": "no longer there",
        "broken": "cannot be read",
        "uploaded": "from a file that was sent",
        "bare": "hold no texts",
        "refused": "may not read",
    }
    found = {}
    async with serving(tmp_path, judge="lexical", adopt_from=str(runs)) as client:
        run = await adopt(client, folder)
        kept = tmp_path / "kept"
        shutil.copytree(folder, kept)
        shutil.rmtree(folder)
        store(make_rows("responses", 2), "responses", folder, texts=True)
        found["changed"] = await open_page(client, run, 20)
        shutil.rmtree(folder)
        found["gone"] = await open_page(client, run)
        shutil.copytree(kept, folder)
        for path in folder.rglob("*.parquet"):
            path.write_bytes(path.read_bytes()[:-9])
        found["broken"] = await open_page(client, run)
        upload = make_table(make_rows("responses", 9), rubric_of("responses"), texts=True)
        pq.write_table(upload, tmp_path / "one.parquet")
        headers = {"Content-Type": "application/vnd.apache.parquet"}
        content = (tmp_path / "one.parquet").read_bytes()
        sent = await client.post("/v1/runs/adopt", content=content, headers=headers)
        found["uploaded"] = await open_page(client, sent.json()["id"])
        bare = store(make_rows("responses", 8), "responses", runs / "bare")
        found["bare"] = await open_page(client, await adopt(client, bare))
    async with serving(tmp_path, judge="lexical") as client:
        found["refused"] = await open_page(client, run)
        address = f"/v1/evaluations/{await find_id(client, run)}?include=request"
        answer = (await client.get(address, headers={"Accept-Language": "ja"})).json()
        assert "許可されていません" in answer["texts_missing"]
        assert answer["messages"] == {"texts_missing": {"code": "adopted-texts-refused", "values": {}}}
        assert answer["request"]["response"] == "[text dropped]"
    for case, page in found.items():
        assert told[case] in page, case
        assert "[text dropped]" in page
        assert "secret-runs" not in page


async def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = store(make_rows("responses", ROWS), "responses", tmp_path / "outside", texts=True)
    folder = tmp_path / "runs" / "night"
    folder.mkdir(parents=True)
    async with serving(tmp_path, judge="lexical", adopt_from=str(tmp_path / "runs")) as client:
        (folder / "part.parquet").symlink_to(next(outside.rglob("*.parquet")))
        refused = await client.post("/v1/runs/adopt", json={"url": str(folder)})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
        (folder / "part.parquet").unlink()
        shutil.copytree(outside, folder, dirs_exist_ok=True)
        run = await adopt(client, folder)
        for path in folder.rglob("*.parquet"):
            path.unlink()
            os.symlink(outside / path.relative_to(folder), path)
        assert "について教えて" not in await open_page(client, run)


async def test_erased_texts_are_not_read_again(tmp_path: Path) -> None:
    folder = store(make_rows("responses", ROWS), "responses", tmp_path / "runs", texts=True)
    async with serving(tmp_path, judge="lexical", adopt_from=str(folder)) as client:
        run = await adopt(client, folder)
        assert "item-3 について教えて" in await open_page(client, run)
        address = f"/v1/evaluations/{await find_id(client, run)}?include=request"
        assert "item-3 について教えて" in (await client.get(address)).text
        erased = await client.post("/v1/erasures", json={"metadata": {"system": "甲"}})
        assert erased.is_success, erased.text
        assert "item-3 について教えて" not in await open_page(client, run)
        assert "item-3 について教えて" not in (await client.get(address)).text


async def test_the_address_is_that_of_the_last_adoption(tmp_path: Path) -> None:
    folder = store(make_rows("responses", ROWS), "responses", tmp_path / "runs" / "old", texts=True)
    async with serving(tmp_path, judge="lexical", adopt_from=str(tmp_path / "runs")) as client:
        run = await adopt(client, folder)
        moved = folder.rename(tmp_path / "runs" / "new")
        assert "[text dropped]" in await open_page(client, run)
        assert await adopt(client, moved) == run
        assert "item-3 について教えて" in await open_page(client, run)


def test_only_row_groups_that_may_hold_a_key_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(make_rows("responses", ROWS), rubric_of("responses"), texts=True).sort_by("key")
    path = tmp_path / "part" / "part.parquet"
    path.parent.mkdir()
    pq.write_table(table, path, row_group_size=5)
    key = table.column("key")[22].as_py()
    looked: list[int] = []
    find_rows = opening.find_rows

    def look(file: Any, group: int, keys: set[str]) -> dict[int, str]:
        looked.append(group)
        return find_rows(file, group, keys)

    monkeypatch.setattr(opening, "find_rows", look)
    [(found, texts)] = read_written_texts(str(path), [key])
    assert (found, bool(texts["response"])) == (key, True)
    assert looked == [4]
    monkeypatch.undo()
    assert [*read_written_texts(str(tmp_path), ["zz"])] == []
    assert [opening.may_hold(f"prefix={one}/part.parquet", {"ab"}) for one in ("a", "ab", "b")] == [True, True, False]
    monkeypatch.setattr(opening.ReadingAllowance.__init__, "__defaults__", (10,))
    with pytest.raises(TooLarge):
        [*read_written_texts(str(path), [key])]


def test_a_process_that_broke_off_tells_nothing() -> None:
    whole = b'{"key": "k", "texts": {"response": "a"}}\n'
    assert read_told(whole + b'{"problem": null}\n') == ({"k": {"response": "a"}}, CHANGED)
    for said in (b"", whole, whole + b'{"prob', b"[1]\n"):
        assert read_told(said) == ({}, UNREADABLE)


def test_the_service_knows_what_a_look_may_tell() -> None:
    assert [*TOLD] == [*PROBLEMS]
    assert MOST_LINE_BYTES >= 4 * MOST_TOLD_BYTES
