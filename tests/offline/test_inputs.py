"""The files that are scored offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from saiten_server.core.errors import InvalidRequest
from saiten_server.offline.inputs import InputFile
from tests.support.offline_input import make_conversation, write_parquet

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")


def test_a_damaged_file_is_named_by_its_whole_path(tmp_path: Path) -> None:
    folder = tmp_path / "conversations-of-november" / "day=28"
    write_parquet(folder / "part-00000.parquet", [make_conversation(1)])
    broken = folder / "part-00001.parquet"
    broken.write_bytes((folder / "part-00000.parquet").read_bytes()[:-20])
    with pytest.raises(InvalidRequest) as refused:
        InputFile(str(tmp_path), "conversation").list_blocks()
    assert str(broken) in str(refused.value)
