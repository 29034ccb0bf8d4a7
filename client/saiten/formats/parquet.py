"""Reads Parquet and Arrow in a process of its own: the library aborts its process for some damaged files."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress

PARQUET, ARROW, ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
"""How files of these kinds begin. Hugging Face's datasets keep streams, in files called `.arrow`."""

BATCH_ROWS = 256
MOST_BYTES = 8 << 30
"""Of memory: damaged or hostile files state sizes that no one has."""


def send() -> None:
    """Sends the Parquet or Arrow file on standard input, column by column and a few rows at a time, to standard
    output."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limits
        import resource

        given = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MOST_BYTES if given == resource.RLIM_INFINITY else min(given, MOST_BYTES)  # root could raise its own
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
            columns = {heading: part.column(heading).to_pylist() for heading in part.column_names}
            pickle.dump(columns, sys.stdout.buffer)
            sys.stdout.buffer.flush()
