"""Parquet and Arrow: read in a process of its own, since the library aborts its process for some damaged files, and
written as Parquet."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

Kind = type[str] | type[int] | type[float] | type[bool]
"""Of the values of a column, any of which may be None."""

GROUP_ROWS = 10_000
"""The rows that are held until they are written, at most."""

PARQUET, ARROW, ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
"""How files of these kinds begin. Hugging Face's datasets keep streams, in files called `.arrow`."""

BATCH_ROWS = 256
MOST_MEMORY_BYTES = 8 << 30
"""Of memory: damaged or hostile files state sizes that no one has."""


def send() -> None:
    """Sends the Parquet or Arrow file on standard input, column by column and a few rows at a time, to standard
    output."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limits
        import resource

        given = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = (
            MOST_MEMORY_BYTES if given == resource.RLIM_INFINITY else min(given, MOST_MEMORY_BYTES)
        )  # root could raise its own
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from arro3.io import read_ipc, read_ipc_stream, read_parquet

    file = sys.stdin.buffer
    start = file.read(8)
    file.seek(0)
    if start.startswith(PARQUET):
        batches = read_parquet(file, batch_size=BATCH_ROWS)
    else:
        batches = read_ipc(file) if start.startswith(ARROW) else read_ipc_stream(file)
    for batch in batches:
        for place in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(place, min(BATCH_ROWS, batch.num_rows - place))
            names = part.column_names
            cells = [[read_cell(cell) for cell in part.column(place).to_pylist()] for place in range(len(names))]
            pickle.dump((names, cells), sys.stdout.buffer)
            sys.stdout.buffer.flush()


def read_cell(cell: Any) -> Any:
    """The cell; a text where it is bytes, as Hive and Impala write texts. What is not UTF-8 stays as it is."""
    if isinstance(cell, bytes):
        with suppress(UnicodeDecodeError):
            return cell.decode()
    return cell


def write_table(
    kinds: Mapping[str, Kind],
    pages: Iterable[Sequence[Sequence[Any]]],
    file: IO[bytes],
    group_rows: int = GROUP_ROWS,
) -> None:
    """Writes columns of these names and kinds into a file that can be sought in, a page of rows after another. At most
    `group_rows` are held until they are written: fewer of long texts."""
    from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema
    from arro3.io import write_parquet

    types = {str: DataType.utf8(), int: DataType.int64(), float: DataType.float64(), bool: DataType.bool()}
    schema = Schema([Field(name, types[kind], nullable=True) for name, kind in kinds.items()])

    def list_batches() -> Iterator[RecordBatch]:
        for page in pages:
            columns = zip(kinds.values(), zip(*page, strict=True), strict=True) if page else ()
            arrays = [
                Array([None if cell is None else kind(cell) for cell in cells], type=types[kind])
                for kind, cells in columns
            ]
            if arrays:
                yield RecordBatch.from_arrays(arrays, schema=schema)

    batches = RecordBatchReader.from_batches(schema, list_batches())
    write_parquet(batches, file, compression="zstd(3)", max_row_group_size=min(group_rows, GROUP_ROWS))
