"""`saiten adopt`: results in files become a run of a service."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import httpx
import pytest

from tests.support.command import saiten
from tests.support.offline_rows import make_rows, store
from tests.support.serving import serving

pq = pytest.importorskip("pyarrow.parquet")


async def run(folder: Path, service: httpx.AsyncClient, *arguments: str, **variables: str) -> tuple[int, str, str]:
    url = str(service.base_url)
    done = await asyncio.to_thread(
        lambda: saiten("adopt", *arguments, "--url", url, folder=folder, stdin=None, **variables)
    )
    return done.returncode, done.stdout, done.stderr


async def test_a_folder_is_sent_without_its_texts(tmp_path: Path) -> None:
    store(make_rows("responses", 40), "responses", tmp_path / "scores" / "signature=a", texts=True)
    (tmp_path / "scores" / "signature=a" / "settings.json").write_text("{}")
    async with serving(tmp_path, judge="lexical") as service:
        code, said, wrong = await run(
            tmp_path, service, "scores", "--name", "night", "--metadata", "system=甲", "--json"
        )
        assert code == 0, wrong
        batch = json.loads(said)
        assert (batch["name"], batch["metadata"], batch["counts"]["total"]) == ("night", {"system": "甲"}, 40)
        again = await run(tmp_path, service, "scores", "--name", "night", "--metadata", "system=甲")
        assert (again[0], batch["id"] in again[1]) == (0, True)
        page = await service.get(f"/runs/{batch['id']}/items/3")
        assert "について教えて" not in page.text
        file = next((tmp_path / "scores").rglob("*.parquet"))
        assert (await run(tmp_path, service, str(file), "--name", "part"))[0] == 0
        for language, words in (("ja", "取り込"), ("ko", "등록")):
            told = await run(tmp_path, service, "scores", "--name", "night", SAITEN_LANGUAGE=language)
            assert words in told[1]


async def test_the_service_reads_a_folder_where_it_lies(tmp_path: Path) -> None:
    store(make_rows("responses", 20), "responses", tmp_path / "scores", texts=True)
    async with serving(tmp_path, judge="lexical", adopt_from=str(tmp_path / "scores")) as service:
        code, said, wrong = await run(tmp_path, service, "scores", "--in-place", "--json")
        assert code == 0, wrong
        page = await service.get(f"/runs/{json.loads(said)['id']}/items/3")
        assert "item-3 について教えて" in page.text
        refused = await run(tmp_path, service, str(tmp_path), "--in-place")
        assert (refused[0], "SAITEN_ADOPT_FROM" in refused[2]) == (2, True)


async def test_what_cannot_be_adopted_is_named(tmp_path: Path) -> None:
    store(make_rows("responses", 20), "responses", tmp_path / "scores" / "signature=a")
    async with serving(tmp_path, judge="lexical") as service:
        (tmp_path / "empty").mkdir()
        empty = await run(tmp_path, service, "empty")
        assert (empty[0], "empty" in empty[2]) == (2, True)
        shutil.copytree(tmp_path / "scores" / "signature=a", tmp_path / "scores" / "signature=b")
        several = await run(tmp_path, service, "scores")
        assert (several[0], "signature=a, signature=b" in several[2]) == (2, True)
        shutil.rmtree(tmp_path / "scores" / "signature=b")
        broken = sorted((tmp_path / "scores").rglob("*.parquet"))[1]
        broken.write_bytes(broken.read_bytes()[:-9])
        damaged = await run(tmp_path, service, "scores")
        assert (damaged[0], broken.name in damaged[2], "Traceback" in damaged[2]) == (2, True, False)
