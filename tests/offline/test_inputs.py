"""The files that are scored offline."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from saiten_server.core.errors import InvalidRequest
from saiten_server.offline.inputs import BlockUnreadable, InputFile
from saiten_server.offline.rows import open_text
from tests.support.offline_input import make_conversation, write_parquet

pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")


def test_a_damaged_file_is_named_by_its_whole_path_and_the_others_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "conversations-of-november" / "day=28"
    whole = write_parquet(folder / "part-00000.parquet", [make_conversation(1)])
    broken = folder / "part-00001.parquet"
    broken.write_bytes(whole.read_bytes()[:-20])
    source = InputFile(str(tmp_path), "conversation")
    good, bad = source.list_blocks()
    assert len([*source.read(good)]) == 1
    with pytest.raises(BlockUnreadable) as told:
        [*source.read(bad)]
    assert str(broken) in str(told.value.message)
    whole.unlink()
    with pytest.raises(InvalidRequest) as refused:
        source.list_blocks()
    assert str(broken) in str(refused.value)


DAMAGED = {
    "empty.parquet": b"",
    "short.parquet": b"PAR1",
    "zeros.parquet": b"\0" * 5_000,
    "text.pq": b"id,turns\n1,2\n",
    "cut.ndjson.gz": gzip.compress(b'{"id": "a"}\n' * 9_000)[:-30],
    "text.ndjson.bz2": b"no archive",
    "text.jsonl.xz": b"no archive",
}
"""Files that cannot be read, or not to their ends."""


@pytest.mark.parametrize("name", DAMAGED)
def test_whatever_is_damaged_is_told_and_not_raised(name: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "whole.parquet", [make_conversation(1)])
    (tmp_path / name).write_bytes(DAMAGED[name])
    (tmp_path / "README.txt").write_text("a file of somebody else's")
    (tmp_path / "nothing.ndjson").write_bytes(b"")
    source = InputFile(str(tmp_path), "conversation")
    told = []
    for block in source.list_blocks():
        try:
            [*source.read(block)]
        except BlockUnreadable as fault:
            told.append(str(fault.message))
    assert [name in one for one in told] == [True]


def test_lines_that_are_no_items_are_told_each(tmp_path: Path) -> None:
    lines = [b'{"id": "a"}', b"\0\0\0", b'{"id": "b\0"}', b"\xff\xfe", b"[1]", b'{"id": "cut']
    (tmp_path / "a.ndjson").write_bytes(b"\n".join(lines))
    source = InputFile(str(tmp_path / "a.ndjson"), "item")
    cells = [one for block in source.list_blocks() for one in source.read(block)]
    assert [one.value is None for one in cells] == [False, True, True, True, True, True]


def test_a_file_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_arrays([pa.array(["x"])] * 3, names=["context", "response", "response"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InvalidRequest) as caught:
        InputFile(str(tmp_path), "item").list_blocks()
    assert caught.value.message.id == "offline-column-twice"
    assert caught.value.message.values["column"] == "response"


@pytest.mark.parametrize(
    "cell", ['[{"speaker": "A", "text": "a", "text": "b"}]', "[NaN]", '["\\ud83d"]', "[" * 100_000]
)
def test_json_in_a_cell_is_read_strictly(cell: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_text("context", cell)
    assert caught.value.message.id == "offline-cell-json"
