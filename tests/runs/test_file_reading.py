"""Files that a process of its own reads: what it is given, and what becomes of it where the disk is full."""

import asyncio
import gzip
import logging
import os
import resource
from pathlib import Path

import pytest

from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import Overloaded, StoreFull
from saiten_server.runs.datasets.reading import MEMORY_BYTES, limit_process, read_file
from saiten_server.runs.datasets.service import OF_ONE, ReadingTurns
from saiten_server.runs.datasets.values import FileQuestion

TABLE = "質問,応答\nおはよう,おはようございます\n"
FULL = Path("/dev/full")
OOM = Path("/proc/self/oom_score_adj")


@pytest.fixture
def source(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text(TABLE, encoding="utf-8")
    with path.open("r+b") as file:
        yield file


async def test_items_are_written_to_a_file_without_a_name(source, tmp_path: Path) -> None:
    path = tmp_path / "items"
    with path.open("w+b") as items:
        path.unlink()
        report = await read_file(source, "a.csv", FileQuestion(), Limits(), items)
        assert (report.trouble, report.items, report.columns) == (None, 1, ["質問", "応答"])
        assert "おはようございます" in os.pread(items.fileno(), 1000, 0).decode()


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
async def test_a_full_disk_is_no_fault_of_the_file(source, caplog) -> None:
    with FULL.open("r+b", buffering=0) as items, caplog.at_level(logging.WARNING), pytest.raises(StoreFull):
        await read_file(source, "a.csv", FileQuestion(), Limits(), items)
    assert caplog.messages == []


@pytest.mark.skipif(not OOM.exists(), reason="the system does not choose what is ended")
def test_the_process_is_limited_and_ended_before_the_service() -> None:
    if (child := os.fork()) == 0:
        limit_process()
        limited = resource.getrlimit(resource.RLIMIT_AS) == (MEMORY_BYTES, MEMORY_BYTES)
        os._exit(0 if limited and OOM.read_text() == "1000\n" else 1)
    assert os.waitpid(child, 0)[1] == 0


async def test_a_file_holds_no_more_than_its_size_allows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("質問,応答\n" + "あ,い\n" * 90_000).encode(), mtime=0))
    assert path.stat().st_size < 4_000
    with path.open("r+b") as file:
        report = await read_file(file, path.name, FileQuestion(), Limits())
    assert report.trouble == "expands"
    assert report.items < 90_000


async def test_a_pile_of_files_delays_another_project_by_one_file() -> None:
    turns, began, ends = ReadingTurns(), list[str](), dict[str, asyncio.Event]()

    async def read(project: str, name: str) -> None:
        ends[name] = asyncio.Event()
        async with turns.take(project):
            began.append(name)
            await ends[name].wait()

    pile = [asyncio.create_task(read("many", f"many {number}")) for number in range(OF_ONE)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await read("many", "too many")
    others = [asyncio.create_task(read(name, name)) for name in ("one", "two")]
    for _ in range(5):
        await asyncio.sleep(0)
    assert began == ["many 0", "one"]
    ends["many 0"].set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert began == ["many 0", "one", "two"]
    pile[1].cancel()  # its caller has gone
    ends["one"].set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert began[3:] == ["many 2"]
    for task in (*pile, *others):
        task.cancel()
    await asyncio.gather(*pile, *others, return_exceptions=True)
    async with turns.take("many"):  # nobody holds a place any more
        pass
