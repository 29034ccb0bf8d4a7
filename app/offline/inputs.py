"""The files that are scored, by fsspec URL: Parquet row group by row group, NDJSON in pieces of some megabytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from saiten.core.messages import Message
from saiten.core.plain_text import clean, printable
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.core.rubric import Unit
from saiten_server.offline.rows import TABLE_ROWS, find_columns

PARQUET_ENDINGS = (".parquet", ".pq")
NDJSON_ENDINGS = (".ndjson", ".jsonl")
PACKED = (".gz", ".bz2", ".xz", ".zst")
BLOCK_BYTES = 32 << 20
LONGEST_LINE = 64 << 20
FOOTERS_AT_ONCE = 16
"""Footers that are read at once: on object storage each takes a tenth of a second."""

MOST_REASON = 200
MOST_PATH = 1_024


class Block(NamedTuple):
    """A piece of the input that is read by itself: a row group of `rows` rows, or the lines of a file that begin in its
    bytes from `start` on and before `end`, where the number of rows is not known. A file that cannot be opened is a
    block with its `fault`."""

    path: str
    group: int | None
    rows: int | None
    start: int = 0
    end: int = 0
    packed: bool = False
    fault: Message | None = None

    def say(self) -> Message:
        """The block as a message names it."""
        if self.group is None:
            return Message("verbatim", text=self.path)
        return Message("offline-group", name=self.path, group=self.group)


class RowCells(NamedTuple):
    """A row as it was read, or what is wrong with it, and where it stands."""

    where: str
    value: Mapping[str, Any] | None
    error: SaitenError | None = None


class BlockUnreadable(Exception):
    """A block that could not be read to its end, with the reason."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class InputFile:
    """The files at an fsspec URL: a file, a folder, or a pattern. `options` are fsspec's for the storage. Methods raise
    InvalidRequest, which names the file."""

    url: str
    unit: Unit

    def list_blocks(self) -> list[Block]:
        """Everything that is to be read, in the order of the files' names. Reads each Parquet file's footer, and
        refuses a file without the columns that the rubric needs before anything is scored. A file that cannot be read
        is a block with its fault, unless none can."""
        files = self.list_files()
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            blocks = [block for found in pool.map(self._list_blocks, files) for block in found]
        faults = [block.fault for block in blocks if block.fault is not None]
        if faults and len(faults) == len(files):
            raise InvalidRequest(faults[0])
        return blocks

    def list_files(self) -> list[str]:
        """The paths of the files."""
        filesystem, path = open_filesystem(self.url)
        with naming(self.url):
            if any(sign in path for sign in "*?["):
                found = filesystem.glob(path)
            elif filesystem.isdir(path):
                found = filesystem.find(path)
            else:
                found = [path] if filesystem.exists(path) else []
        root = path.partition("*")[0] if "*" in path else path
        files = sorted(one for one in found if is_input(one) and not is_hidden(one.removeprefix(root)))
        if not files:
            raise InvalidRequest(
                Message(
                    "offline-no-files", url=show_path(self.url), endings=", ".join(PARQUET_ENDINGS + NDJSON_ENDINGS)
                )
            )
        return files

    def _list_blocks(self, path: str) -> list[Block]:
        try:
            return self._open_blocks(path)
        except SaitenError:
            raise
        except Exception as error:  # noqa: BLE001 - storages, packers and Arrow share no error; the run tells the fault
            fault = Message("offline-block-unreadable", where=show_path(path), reason=name_error(error))
            return [Block(path, None, 0, fault=fault)]

    def _open_blocks(self, path: str) -> list[Block]:
        filesystem, _ = open_filesystem(self.url)
        if path.endswith(PARQUET_ENDINGS):
            import pyarrow.parquet as pq

            with filesystem.open(path, "rb") as file:
                footer = pq.ParquetFile(file).metadata
            find_columns(list(footer.schema.to_arrow_schema().names), self.unit, path)
            return [Block(path, group, footer.row_group(group).num_rows) for group in range(footer.num_row_groups)]
        size, packed = filesystem.size(path), path.endswith(PACKED)
        if packed:
            return [Block(path, None, None, packed=True)]
        starts = range(0, size or 0, BLOCK_BYTES)
        return [Block(path, None, None, start, min(size, start + BLOCK_BYTES)) for start in starts]

    def read(self, block: Block) -> Iterator[RowCells]:
        """The rows of a block, some at a time. Raises BlockUnreadable where they cannot be read any further."""
        if block.fault is not None:
            raise BlockUnreadable(block.fault)
        try:
            if block.group is not None:
                yield from self._read_group(block, block.group)
            else:
                yield from self._read_lines(block)
        except SaitenError as error:
            raise BlockUnreadable(error.message) from error
        except Exception as error:
            raise BlockUnreadable(
                Message("offline-block-unreadable", where=block.say(), reason=name_error(error))
            ) from error

    def _read_group(self, block: Block, group: int) -> Iterator[RowCells]:
        import pyarrow.parquet as pq

        filesystem, _ = open_filesystem(self.url)
        with filesystem.open(block.path, "rb") as opened:
            file = pq.ParquetFile(opened, pre_buffer=False)
            names = find_columns(list(file.schema_arrow.names), self.unit, block.path)
            place = 0
            # Column by column and a few rows at a time: a row group may hold a gigabyte.
            for batch in file.iter_batches(TABLE_ROWS, row_groups=[group], columns=list(names), use_threads=False):
                for value in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield RowCells(f"{block.path}, row group {group}, row {place}", value)
                    place += 1

    def count_lines(self, block: Block) -> int:
        """The rows of lines, which are not parsed. Raises BlockUnreadable."""
        try:
            return sum(1 for _ in self._list_lines(block))
        except Exception as error:
            message = Message("offline-block-unreadable", where=block.say(), reason=name_error(error))
            raise BlockUnreadable(message) from error

    def _read_lines(self, block: Block) -> Iterator[RowCells]:
        return (read_line(f"{block.path}, byte {position}", line) for position, line in self._list_lines(block))

    def _list_lines(self, block: Block) -> Iterator[tuple[int, bytes]]:
        """The lines that begin in the block, with where they do."""
        filesystem, _ = open_filesystem(self.url)
        with filesystem.open(block.path, "rb", compression="infer" if block.packed else None) as opened:
            file = opened if block.packed else io.BufferedReader(opened, 1 << 20)
            position = block.start
            if position:
                file.seek(position - 1)
                position += len(file.readline()) - 1  # the end of a line that the block before reads
            while block.packed or position < block.end:
                line = file.readline(LONGEST_LINE)
                if not line:
                    return
                if line.strip():
                    yield position, line
                position += len(line)


def read_line(where: str, line: bytes) -> RowCells:
    """The JSON object on a line."""
    try:
        value = parse_strict_json(line)
    except StrictJSONError as error:
        return RowCells(where, None, InvalidRequest(error.message))
    if not isinstance(value, dict):
        return RowCells(where, None, InvalidRequest(Message("offline-line-object")))
    return RowCells(where, value)


def open_filesystem(url: str) -> tuple[Any, str]:
    """The storage of a URL, and the path there. Raises InvalidRequest for a scheme whose package is not installed."""
    from fsspec.core import url_to_fs

    try:
        filesystem, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InvalidRequest(Message("offline-url", url=show_path(url), reason=name_error(error))) from error
    return filesystem, path


class naming:  # noqa: N801 - a context, called as a function
    """Raises what fails in the block as InvalidRequest, which names the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, SaitenError):
            message = Message("offline-block-unreadable", where=show_path(self._name), reason=name_error(error))
            raise InvalidRequest(message) from error


def name_error(error: BaseException) -> str:
    """What an error of a storage or of a library says, on one line."""
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(clean(f"{type(error).__name__}: {said}").split())[:MOST_REASON]


def show_path(path: str) -> str:
    """A path or an address as messages name it: its end tells files of a folder apart, and so it is whole."""
    return printable(path[:MOST_PATH])


def is_input(path: str) -> bool:
    """Whether a file is read, by its name."""
    bare = next((path.removesuffix(ending) for ending in PACKED if path.endswith(ending)), path)
    return path.endswith(PARQUET_ENDINGS) or bare.endswith(NDJSON_ENDINGS)


def is_hidden(path: str) -> bool:
    """Whether a name on the path says that it is not for readers, as those of temporary files do."""
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def count_rows(blocks: Sequence[Block]) -> int | None:
    """The rows of all blocks; None where files do not tell."""
    return None if any(block.rows is None for block in blocks) else sum(block.rows or 0 for block in blocks)
