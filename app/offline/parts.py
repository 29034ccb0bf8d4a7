"""The keyed output: Parquet files of finished results, of which every row counts once however often it was written.

    OUTPUT/signature=0f2c…/settings.json       what the results are scored with
                           recent/….parquet    what was finished in the last seconds of each process
                           prefix=a/….parquet  the same, put together by the first digit of the keys

A file is there as a whole or not at all. What replaces files is written before these are removed, so that a process may
be killed at any time: rows are then there twice, and count once by their keys.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saiten.core.messages import Message
from saiten_server.core.errors import SaitenError, StoreError, StoreFull
from saiten_server.offline.frame_files import METADATA_KEY
from saiten_server.offline.inputs import FOOTERS_AT_ONCE, is_hidden, name_error, open_filesystem
from saiten_server.runs.intake import FULL

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from saiten_server.core.rubric import Rubric

HELD_ROWS = 50
"""Results that are held as objects: of ten turns each takes some 20 KB, and as a row of a table 1 KB."""

FLUSH_ROWS = 2_000
FLUSH_SECONDS = 5.0
LEAST_FLUSH_SECONDS = 0.5
FLUSH_SHARE = 0.01
"""How much a process may lose where it is killed, of rows that are finished: those of a hundredth of its time so far,
between these bounds. A run that is killed again and again loses little, and a long one writes few files."""

SETTLE_ROWS = 10_000
"""Rows that are put together: of a rubric with ten aspects some 10 MB."""

FEW_FILES = 16
"""Small files of one prefix from which on they are put together."""

SMALL_ROWS = SETTLE_ROWS // 4
WHOLE_PUTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "memory"})
"""Storages that show an object once it was sent as a whole. On others it is written under another name, and renamed."""

RECENT = "recent"
DESCRIPTION = "settings.json"


class Output:
    """The results of one signature at a URL. `rubric` is theirs. Methods raise StoreFull and StoreError, which name the
    file."""

    def __init__(self, url: str, signature: str, rubric: Rubric) -> None:
        self._rubric = rubric
        self._filesystem, root = open_filesystem(url)
        protocol = self._filesystem.protocol
        self._whole_puts = bool(WHOLE_PUTS & {*([protocol] if isinstance(protocol, str) else protocol)})
        self._local = "file" in ([protocol] if isinstance(protocol, str) else protocol)
        self.folder = f"{root.rstrip('/')}/signature={signature}"

    def begin(self, described: Mapping[str, Any]) -> None:
        """Makes the folder, and says in it what the results are scored with."""
        with self._writing(self.folder):
            self._filesystem.makedirs(self.folder, exist_ok=True)
        if not self._filesystem.exists(f"{self.folder}/{DESCRIPTION}"):
            self._put(f"{self.folder}/{DESCRIPTION}", json.dumps(described, ensure_ascii=False, indent=2).encode())

    def write(self, table: pa.Table, folder: str = RECENT, label: str = "") -> str:
        """Writes a file, and returns its path. Files of a `label` are found by `list_labelled`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        path = f"{self.folder}/{folder}/part-{label}{secrets.token_hex(8)}.parquet"
        self._put(path, sink.getvalue().to_pybytes())
        return path

    def list_parts(self) -> list[str]:
        """The paths of all files of results."""
        with self._reading(self.folder):
            self._filesystem.invalidate_cache()
            found = self._filesystem.find(self.folder) if self._filesystem.exists(self.folder) else []
        inside = len(self.folder)
        return sorted(path for path in found if path.endswith(".parquet") and not is_hidden(path[inside:]))

    def list_labelled(self, label: str) -> list[str]:
        """The paths of recent files of a label."""
        with self._reading(self.folder):
            self._filesystem.invalidate_cache()
            return [str(path) for path in self._filesystem.glob(f"{self.folder}/{RECENT}/part-{label}*.parquet")]

    def read_keys(self, paths: Sequence[str] | None = None) -> np.ndarray[Any, Any]:
        """The `row_key` of every finished row, or of those in these files, ascending: 8 bytes a row."""
        import numpy as np

        from saiten_server.stats.observations import list_distinct

        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            found = [*pool.map(self._read_keys, self.list_parts() if paths is None else paths)]
        return list_distinct(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def settle(self) -> None:
        """Puts the recent files of processes that have ended together by prefix, and small files of a prefix."""
        parts = self.list_parts()
        for group in group_parts([path for path in parts if f"/{RECENT}/" in path], self._count_rows):
            self.replace(group)
        prefixes: dict[str, list[str]] = {}
        for path in self.list_parts():
            if f"/{RECENT}/" not in path:
                prefixes.setdefault(path.rpartition("/")[0], []).append(path)
        for paths in prefixes.values():
            if len(paths) < FEW_FILES:
                continue
            small = [path for path in paths if self._count_rows(path) < SMALL_ROWS]
            if len(small) >= FEW_FILES:
                for group in group_parts(small, self._count_rows):
                    self.replace(group)

    def replace(self, paths: Sequence[str]) -> None:
        """Writes what these files hold by prefix, and then removes them."""
        import pyarrow as pa

        self._write_together(paths)
        for path in paths:
            with self._writing(path):
                self._filesystem.rm_file(path)
        # Arrow keeps what it has freed for its next tables, which are as large only after thousands of rows.
        pa.default_memory_pool().release_unused()

    def _write_together(self, paths: Sequence[str]) -> None:
        import pyarrow as pa

        # In one piece first: each part that is taken of a table in many pieces puts all of them together.
        whole = drop_repeated(pa.concat_tables(map(self._read, paths))).combine_chunks()
        for prefix, table in split_by_prefix(whole):
            self.write(table, f"prefix={prefix}")

    def _read_keys(self, path: str) -> np.ndarray[Any, Any]:
        import pyarrow.parquet as pq

        with self._reading(path), self._filesystem.open(path, "rb") as opened:
            file = pq.ParquetFile(opened)
            about = json.loads((file.schema_arrow.metadata or {}).get(METADATA_KEY, b"{}"))
            if about.get("digest") != self._rubric.digest:
                raise StoreError(
                    Message("offline-part-other-rubric", name=path, rubric=str(about.get("rubric", "-"))[:64])
                )
            keys: np.ndarray[Any, Any] = file.read(["row_key"]).column(0).to_numpy()
            return keys

    def _count_rows(self, path: str) -> int:
        import pyarrow.parquet as pq

        with self._reading(path), self._filesystem.open(path, "rb") as opened:
            return int(pq.ParquetFile(opened).metadata.num_rows)

    def _read(self, path: str) -> pa.Table:
        import pyarrow.parquet as pq

        # Not `read_table`, which loads Arrow's datasets for it, 20 MB.
        with self._reading(path), self._filesystem.open(path, "rb") as opened:
            return pq.ParquetFile(opened).read()

    def _put(self, path: str, content: bytes) -> None:
        with self._writing(path):
            if self._whole_puts:
                self._filesystem.pipe_file(path, content)
                return
            folder, _, name = path.rpartition("/")
            self._filesystem.makedirs(folder, exist_ok=True)
            hidden = f"{folder}/.{name}"
            if self._local:
                write_durably(hidden, path, content)
            else:
                self._filesystem.pipe_file(hidden, content)
                self._filesystem.mv(hidden, path)

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """Raises what the storage raises as StoreFull or StoreError."""
        try:
            yield
        except SaitenError:
            raise
        except Exception as error:
            full = getattr(error, "errno", None) in FULL
            raise (StoreFull if full else StoreError)(
                Message("offline-write-failed", name=path, reason=name_error(error))
            ) from error

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Raises what the storage or the file raises as StoreError."""
        try:
            yield
        except SaitenError:
            raise
        except Exception as error:
            raise StoreError(Message("offline-part-unreadable", name=path, reason=name_error(error))) from error


def write_durably(hidden: str, path: str, content: bytes) -> None:
    """Writes a local file under a hidden name, and renames it once it is on the disk."""
    try:
        with open(hidden, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)
    except OSError as error:
        Path(hidden).unlink(missing_ok=True)
        if error.errno == errno.ENOENT:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        raise


def group_parts(paths: Iterable[str], count_rows: Callable[[str], int]) -> Iterator[list[str]]:
    """The files in groups of about `SETTLE_ROWS` rows."""
    group: list[str] = []
    rows = 0
    for path in paths:
        group.append(path)
        rows += count_rows(path)
        if rows >= SETTLE_ROWS:
            yield group
            group, rows = [], 0
    if group:
        yield group


def drop_repeated(table: pa.Table) -> pa.Table:
    """The table with each key once."""
    import numpy as np

    keys = table.column("row_key").to_numpy()
    _, firsts = np.unique(keys, return_index=True)
    return table if len(firsts) == len(keys) else table.take(np.sort(firsts))


def split_by_prefix(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows by the first digit of their keys, in the order of the keys. Memory: the table and its largest part."""
    import pyarrow.compute as pc

    order = pc.sort_indices(table.column("key"))
    digits = pc.utf8_slice_codeunits(table.column("key").take(order), 0, 1)
    start = 0
    for run in pc.value_counts(digits).to_pylist():
        yield run["values"], table.take(order.slice(start, run["counts"]))
        start += run["counts"]


class Writer:
    """What one process finishes, on its way into the output. For one thread. With a `label`, by which its files are
    found, these are left as they are. `since` is when the process began to score, by the monotonic clock."""

    def __init__(
        self,
        output: Output,
        make_table: Callable[[Sequence[Any]], pa.Table],
        *,
        label: str = "",
        since: float | None = None,
    ) -> None:
        self._output = output
        self._make_table = make_table
        self._label = label
        self._rows: list[Any] = []
        self._tables: list[pa.Table] = []
        self._waiting = 0
        self._flushed_at = time.monotonic()
        self._since = self._flushed_at if since is None else since
        self._paths: list[str] = []
        self._written = 0

    def add(self, row: Any) -> None:
        """Takes a finished row, and writes those that wait if they are many, or have waited for long."""
        self._rows.append(row)
        self._waiting += 1
        if len(self._rows) >= HELD_ROWS:
            self._pack()
        now = time.monotonic()
        wait_seconds = min(FLUSH_SECONDS, max(LEAST_FLUSH_SECONDS, FLUSH_SHARE * (now - self._since)))
        if self._waiting >= FLUSH_ROWS or now - self._flushed_at >= wait_seconds:
            self.flush()

    def _pack(self) -> None:
        """Makes a table of the rows that are held."""
        rows, self._rows = self._rows, []
        if rows:
            self._tables.append(self._make_table(rows))

    def flush(self) -> None:
        """Writes what waits."""
        import pyarrow as pa

        self._flushed_at = time.monotonic()
        self._pack()
        if not self._tables:
            return
        tables, self._tables, self._waiting = self._tables, [], 0
        table = pa.concat_tables(tables)
        self._paths.append(self._output.write(table, label=self._label))
        self._written += len(table)
        if self._written >= SETTLE_ROWS and not self._label:
            self._output.replace(self._paths)
            self._paths, self._written = [], 0


class KeyIndex:
    """The rows that are finished or under way, by their `row_key`: 8 bytes each. Each array of `known` is ascending."""

    def __init__(self, *known: np.ndarray[Any, Any]) -> None:
        self._known = known
        self._levels: list[np.ndarray[Any, Any]] = []
        self._fresh: set[int] = set()

    def add(self, key: int) -> bool:
        """Takes a key in; returns whether it is new."""
        if key in self._fresh or any(has_key(level, key) for level in (*self._known, *self._levels)):
            return False
        self._fresh.add(key)
        if len(self._fresh) >= FLUSH_ROWS:
            self._sink()
        return True

    def was_known(self, key: int) -> bool:
        """Whether the key was there at the beginning."""
        return any(has_key(level, key) for level in self._known)

    def _sink(self) -> None:
        """Puts fresh keys into sorted arrays, each at least twice as long as the next: a key is moved a few times."""
        import numpy as np

        level = np.sort(np.fromiter(self._fresh, dtype=np.int64, count=len(self._fresh)))
        while self._levels and len(self._levels[-1]) < 2 * len(level):
            level = np.sort(np.concatenate([self._levels.pop(), level]))
        self._levels.append(level)
        self._fresh = set()


def has_key(keys: np.ndarray[Any, Any], key: int) -> bool:
    """Whether an ascending array has the key."""
    place = int(keys.searchsorted(key))
    return place < len(keys) and int(keys[place]) == key
