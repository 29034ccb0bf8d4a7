"""Files that a process of its own reads: what it is given, and what becomes of it where the disk is full."""

from __future__ import annotations

import logging
import os
import resource
from pathlib import Path

import pytest

from app.batches.file_reading import MEMORY_BYTES, limit_process, read_file
from app.domain.dataset import FileQuestion
from app.domain.dialogue import Limits
from app.domain.errors import StoreFull

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
