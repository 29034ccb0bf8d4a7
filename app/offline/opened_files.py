"""Parquet files of results whose footers are read, and their columns, some rows at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saiten.core.messages import Message
from saiten.core.plain_text import clip, printable
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import RUBRIC_PATTERN
from saiten_server.offline.columns import ASPECT, COMPOSITE, REQUIRED, RESULT_COLUMNS
from saiten_server.offline.frame_files import METADATA_KEY, require_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SUFFIX = ".parquet"
HIDDEN = (".", "_")
"""How names of files begin that hold no rows: `_SUCCESS`, and those that are not whole yet."""

MOST_FILES = 100_000
MOST_REASON = 200
MOST_ROWS = 2**31 - 1
"""Positions have 32 bits."""

COLUMN_ROWS = 1 << 17
"""Rows of one column that are decoded at a time."""


class FramePart(NamedTuple):
    """One file: its name in messages, what opens it, its footer, what columns it has, and where in a row group."""

    name: str
    open: Callable[[], Any]
    footer: pq.FileMetaData
    schema: pa.Schema
    leaves: Mapping[str, int]


@dataclass(frozen=True)
class FrameFiles:
    """Files of results in the order of their names. Methods raise InvalidRequest, which names the file and the row
    group, for what cannot be read."""

    name: str
    parts: Sequence[FramePart]

    @cached_property
    def rows(self) -> int:
        """Rows of all files, those that were written twice among them."""
        return sum(part.footer.num_rows for part in self.parts)

    @cached_property
    def columns(self) -> frozenset[str]:
        """What any file has."""
        return frozenset(name for part in self.parts for name in part.schema.names)

    @cached_property
    def rubric(self) -> str | None:
        """The rubric that the files name, with its version; None where they name none. Raises InvalidRequest for
        several."""
        names = {name for part in self.parts if (name := read_rubric(part.schema)) is not None}
        if len(names) > 1:
            raise InvalidRequest(Message("frame-rubrics-several", name=self.name, rubrics=", ".join(sorted(names))))
        return names.pop() if names else None

    def holds(self, name: str) -> bool:
        """Whether the column may hold anything, as far as statistics tell."""
        return any(not is_null(part, group, name) for part in self.parts for group in range(part.footer.num_row_groups))

    def read(self, name: str) -> Iterator[tuple[slice, Any]]:
        """One column, some rows at a time: which rows these are, and the array; None where all of them are null."""
        first = 0
        for part in self.parts:
            for count, array in read_part(part, name):
                yield slice(first, first + count), array
                first += count

    def read_numbers(self, name: str, absent: float, dtype: Any) -> NDArray[Any]:
        """A column of numbers, shape (rows,); `absent` where it is null."""
        nothing = np.array(absent, dtype=dtype)
        if not self.holds(name):
            return np.broadcast_to(nothing, self.rows)
        found = np.empty(self.rows, dtype=dtype)
        for rows, array in self.read(name):
            if array is None:
                found[rows] = nothing
            else:
                # Of floats, a null becomes NaN by itself.
                filled = array.fill_null(absent) if array.null_count and not np.isnan(nothing) else array
                found[rows] = filled.to_numpy(zero_copy_only=False)
        return found

    def read_codes(self, name: str, most: int) -> tuple[NDArray[np.int32], list[str | None]]:
        """A column of texts as numbers of what it holds, shape (rows,), and what these stand for, at most so many. A
        column of a single value takes no memory, and is not read where statistics tell the value."""
        known: dict[str | None, int] = {}
        found: NDArray[np.int32] | None = None
        for rows, array in self.read(name):
            own, codes = list_values(array)
            for code in range(len(own)) if codes is None else np.unique(codes).tolist():
                known.setdefault(own[code], len(known))
            if len(known) > most:
                raise InvalidRequest(Message("frame-values-most", name=self.name, column=name, most=most))
            if len(known) > 1:
                found = np.zeros(self.rows, dtype=np.int32) if found is None else found
                numbers = np.array([known.get(value, 0) for value in own], dtype=np.int32)
                found[rows] = numbers[0 if codes is None else codes]
        if found is None:
            found = np.broadcast_to(np.int32(0), self.rows)
        return found, [*known] or [None]

    def place(self, row: int) -> str:
        """The file and the row group of a row."""
        for part in self.parts:
            for group in range(part.footer.num_row_groups):
                row -= part.footer.row_group(group).num_rows
                if row < 0:
                    return f"{part.name}, row group {group}"
        return self.name


def list_values(array: Any) -> tuple[list[str | None], NDArray[np.int32] | None]:
    """What an array of texts holds, and the number of each row's; None where all rows have the one value."""
    if array is None or isinstance(array, str):
        return [array], None
    if not hasattr(array, "dictionary"):
        array = array.dictionary_encode()
    own = [*array.dictionary.to_pylist(), None]
    return own, array.indices.fill_null(len(own) - 1).to_numpy(zero_copy_only=False)


def read_part(part: FramePart, name: str) -> Iterator[tuple[int, Any]]:
    """A column of one file: how many rows, and the array, the one text of all, or None where all are null."""
    import pyarrow.parquet as pq

    file = None
    try:
        for group in range(part.footer.num_row_groups):
            rows = part.footer.row_group(group).num_rows
            if is_null(part, group, name):
                yield rows, None
            elif (alike := find_text(part, group, name)) is not None:
                yield rows, alike
            else:
                with named(part.name, group):
                    if file is None:
                        texts = [one.name for one in part.schema if is_text(one.type)]
                        file = pq.ParquetFile(part.open(), metadata=part.footer, read_dictionary=texts)
                    for batch in file.iter_batches(COLUMN_ROWS, row_groups=[group], columns=[name]):
                        yield batch.num_rows, batch.column(name)
    finally:
        if file is not None:
            file.close()


def find_statistics(part: FramePart, group: int, name: str) -> Any:
    """The statistics of a column of a row group; None where there are none, or the column is not there."""
    place = part.leaves.get(name)
    return None if place is None else part.footer.row_group(group).column(place).statistics


def is_null(part: FramePart, group: int, name: str) -> bool:
    """Whether the column is not there, or null in the whole row group."""
    if name not in part.leaves:
        return True
    found = find_statistics(part, group, name)
    rows = part.footer.row_group(group).num_rows
    return not rows or (found is not None and found.has_null_count and found.null_count == rows)


def find_text(part: FramePart, group: int, name: str) -> str | None:
    """The text that the column has in the whole row group; None where statistics do not tell."""
    found = find_statistics(part, group, name)
    told = found is not None and found.has_min_max and found.has_null_count and not found.null_count
    # Of texts that were cut off for the statistics, the greatest is not the least.
    return found.min if told and isinstance(found.min, str) and found.min == found.max else None


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: Any, wanted: str) -> bool:
    """Whether a column of this type can be read as one of the wanted type."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or (wanted == "float64" and pa.types.is_floating(kind)))


@contextmanager
def named(name: str, group: int | None = None) -> Iterator[None]:
    """Raises InvalidRequest, which names the file and the row group, for what the reader of Parquet or a file system
    raises."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        why = printable((str(error) or type(error).__name__).splitlines()[0][:MOST_REASON])
        if group is None:
            raise InvalidRequest(Message("frame-file-unreadable", name=name, why=why)) from None
        raise InvalidRequest(Message("frame-group-unreadable", name=name, group=group, why=why)) from None


def read_rubric(schema: pa.Schema) -> str | None:
    """The rubric that a file's schema names."""
    import re

    try:
        about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except ValueError:
        return None
    name = about.get("rubric") if isinstance(about, dict) else None
    return name if isinstance(name, str) and re.match(RUBRIC_PATTERN, name) else None


def open_files(url: str, *, inside: bool = False) -> FrameFiles:
    """The Parquet files at a path or an `fsspec` URL: a file, a folder with all below it, or a pattern. With `inside`
    no link may lead out of the folder. Raises InvalidRequest for what is not there, cannot be read or holds no results,
    and SettingsInvalid without pyarrow."""
    return gather_files(url, list_parts(url, inside=inside))


def list_parts(url: str, *, inside: bool = False) -> list[tuple[str, Callable[[], Any]]]:
    """The files at a path or a URL, which are not opened yet: what messages call each, and what opens it."""
    require_arrow()
    from fsspec.core import url_to_fs

    with named(url):
        system, path = url_to_fs(url)
        alone = system.isfile(path)
        if alone:
            names = [path]
        else:
            found = system.find(path) if system.isdir(path) else system.glob(path)
            names = sorted(name for name in found if is_rows(name.removeprefix(path)))
    if not names:
        raise InvalidRequest(Message("frame-files-none", name=url))
    if len(names) > MOST_FILES:
        raise InvalidRequest(Message("frame-files-most", name=url, most=MOST_FILES))
    local = getattr(system, "protocol", None) in (("file", "local"), "file")
    called = {name: url if alone else show_below(name, path) for name in names}
    if local and inside:
        called = {keep_inside(name, path, own): own for name, own in called.items()}
    return [(own, partial(open_part, system, name, local)) for name, own in called.items()]


def keep_inside(name: str, folder: str, called: str) -> str:
    """The path without links. Raises InvalidRequest where it is not below the folder."""
    real, root = os.path.realpath(name), os.path.realpath(folder)
    if os.path.commonpath([real, root]) != root:
        raise InvalidRequest(Message("frame-file-outside", name=called))
    return real


def open_part(system: Any, name: str, local: bool) -> Any:
    """The file, or its path where it is one of this machine."""
    return name if local else system.open(name, "rb")


def is_rows(path: str) -> bool:
    """Whether a file below a folder is one of rows, and whole."""
    parts = path.strip("/").split("/")
    return parts[-1].endswith(SUFFIX) and not any(part.startswith(HIDDEN) for part in parts)


def show_below(name: str, base: str) -> str:
    """What messages call a file: its path below the folder."""
    return name.removeprefix(base).strip("/")


def gather_files(name: str, files: Sequence[tuple[str, Callable[[], Any]]]) -> FrameFiles:
    """The files with their footers; raises InvalidRequest where one is none of results."""
    import pyarrow.parquet as pq

    parts = []
    for called, opens in files:
        with named(called):
            footer = pq.read_metadata(opens())
            schema = footer.schema.to_arrow_schema()
        check_columns(called, schema)
        leaves = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
        parts.append(
            FramePart(called, opens, footer, schema, {one: leaves[one] for one in schema.names if one in leaves})
        )
    found = FrameFiles(name, parts)
    if found.rows > MOST_ROWS:
        raise InvalidRequest(Message("frame-rows-most", name=name, most=MOST_ROWS))
    return found


COLUMN_TYPES = {one.name: one.type for one in (*ASPECT, COMPOSITE)}


def check_columns(name: str, schema: pa.Schema) -> None:
    """Raises InvalidRequest where a column is missing that every file of results has, or is of another type."""
    for column in REQUIRED:
        if column not in schema.names:
            raise InvalidRequest(Message("frame-column-missing", name=name, column=column))
    wanted = {one.name: one.type for one in RESULT_COLUMNS}
    for place, field in enumerate(schema):
        kind = wanted.get(field.name) or COLUMN_TYPES.get(field.name.partition(".")[0])
        if schema.names.index(field.name) != place:
            raise InvalidRequest(Message("frame-column-twice", name=name, column=clip(field.name)))
        if kind is not None and not (is_text(field.type) if kind == "string" else is_number(field.type, kind)):
            text = Message("frame-column-type", name=name, column=clip(field.name), type=clip(str(field.type)))
            raise InvalidRequest(text)
