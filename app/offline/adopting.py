"""Reads files of results for a service, in a process of its own: the library may abort its process for damaged files.

    python -I -m saiten_server.offline.adopting ADDRESS MOST_ROWS

Writes NDJSON: `{"rubric", "rows", "digest"}` first, then a result a line with the columns that it has, and
`{"end": true}`. What cannot be read is `{"error": {"code", "values"}}`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import isinf, isnan
from typing import Any

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.offline.columns import RESULT_COLUMNS
from saiten_server.offline.frame_reading import Rows, find_kept, read_clusters
from saiten_server.offline.opened_files import FrameFiles, FramePart, named, open_files
from saiten_server.runs.clusters import name_found

MOST_MEMORY = 4 << 30
"""Of memory: damaged or hostile files state sizes that no one has."""

ROWS_IN_MEMORY = 500

ROOM_BYTES, ROW_BYTES = 64 << 20, 8 << 10
"""Of all lines together, and of each result beside: a small file can state long texts once for all of its rows."""

FILE_TEXTS = ("context", "response", "turns", "persona", "goal", "findings", "reason")
"""Columns of texts, which stay where they are."""


def main(address: str, most: int) -> None:
    """Writes the results."""
    limit_memory()
    try:
        room = ROOM_BYTES
        for line in read_lines(address, most):
            room += ROW_BYTES - write(line)
            if room < 0:
                raise InvalidRequest(Message("adopted-bytes-most", room=ROOM_BYTES >> 20, row=ROW_BYTES >> 10))
    except SaitenError as error:
        write({"error": {"code": error.message.id, "values": error.message.as_json()}})


def write(line: dict[str, Any]) -> int:
    """Writes one line; how long it is."""
    return sys.stdout.write(json.dumps(line, allow_nan=False) + "\n")


def limit_memory() -> None:
    """Bounds this process's memory, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        given = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MOST_MEMORY if given == resource.RLIM_INFINITY else min(given, MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read_lines(address: str, most: int) -> Iterator[dict[str, Any]]:
    """The lines of the files at an address. Raises InvalidRequest, which names the file and the row group."""
    files = open_files(address, inside=True)
    if files.rows > most:
        raise InvalidRequest(Message("adopted-rows-most", rows=files.rows, most=most))
    kept = find_kept(files)
    rows = Rows(files, kept)
    yield {"rubric": files.rubric, "rows": rows.size, "digest": digest_rows(rows)}
    wanted = None if kept is None else {*kept.tolist()}
    clusters = read_clusters(rows)
    number = counted = 0
    for part in files.parts:
        for row in read_frame_rows(part, choose_columns(files)):
            if wanted is None or number in wanted:
                found = clean_row(row, files, number)
                if cluster := int(clusters[counted]):
                    found.setdefault("cluster", name_found("context", cluster))
                yield found
                counted += 1
            number += 1
    yield {"end": True}


def digest_rows(rows: Rows) -> str:
    """A digest of the results: the same for the same, in whatever order files hold them."""
    keys = np.stack([rows.numbers(name, -1, np.int64) for name in ("row_key", "item_key", "candidate")])
    order = np.lexsort(keys)
    found = hashlib.sha256(np.ascontiguousarray(keys[:, order]).tobytes())
    for name in sorted(name for name in rows.files.columns if name.startswith("mean.")):
        found.update(name.encode())
        found.update(rows.floats(name)[order].tobytes())
    return found.hexdigest()


def clean_row(row: dict[str, Any], files: FrameFiles, number: int) -> dict[str, Any]:
    """The row without what is null. Raises InvalidRequest for an infinite value."""
    found = {}
    for name, value in row.items():
        if isinstance(value, float) and isinf(value):
            raise InvalidRequest(Message("frame-value-infinite", place=files.place(number), column=name))
        if value is not None and not (isinstance(value, float) and isnan(value)):
            found[name] = value
    return found


def choose_columns(files: FrameFiles) -> list[str]:
    """What is read: all columns of results but the texts."""
    known = {one.name for one in RESULT_COLUMNS}
    return sorted(
        name for name in files.columns if name in known or (name.partition(".")[0] not in FILE_TEXTS and "." in name)
    )


def read_frame_rows(part: FramePart, names: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of a file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(part.open(), metadata=part.footer) as file:
        for group in range(part.footer.num_row_groups):
            with named(part.name, group):
                there = [name for name in names if name in part.leaves]
                for batch in file.iter_batches(ROWS_IN_MEMORY, row_groups=[group], columns=there):
                    yield from batch.to_pylist()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
