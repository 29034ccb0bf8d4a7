"""Reads Parquet in a process of its own: the library aborts its process for some damaged files."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress

BATCH_ROWS = 256
MOST_BYTES = 8 << 30
"""Of memory: damaged or hostile files state sizes that no one has."""


def send() -> None:
    """Sends the Parquet file on standard input, column by column and a few rows at a time, to standard output."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limits
        import resource

        given = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MOST_BYTES if given == resource.RLIM_INFINITY else min(given, MOST_BYTES)  # root could raise its own
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from arro3.io import read_parquet

    for batch in read_parquet(sys.stdin.buffer, batch_size=BATCH_ROWS):
        columns = {heading: batch.column(heading).to_pylist() for heading in batch.column_names}
        pickle.dump(columns, sys.stdout.buffer)
        sys.stdout.buffer.flush()
